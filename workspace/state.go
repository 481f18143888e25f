package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"

	"github.com/tipstaff/tipstaff"
)

// TrustFolder is the record there of which folders the user trusts: see package trust.
const TrustFolder = "trust"

// StateDir is the folder of what is kept for a user, whatever workspaces they have:
// worktrees, what they have typed, which folders they trust, the tokens of their daemons.
// No workspace holds it, so nothing that is cloned or written there decides.
func StateDir(env func(name string) string) (string, error) {
	if dir := env("TIPSTAFF_STATE"); filepath.IsAbs(dir) {
		return filepath.Clean(dir), nil
	}
	if dir := env("XDG_STATE_HOME"); filepath.IsAbs(dir) { // a relative one does not count, as the XDG specification has it
		return filepath.Join(dir, "tipstaff"), nil
	}
	if home := env("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "tipstaff"), nil
	}
	return "", tipstaff.Errorf(tipstaff.StateUnavailable, "no folder is there for what is kept for a user: none of TIPSTAFF_STATE, XDG_STATE_HOME and HOME is an absolute path").
		WithCommand("set TIPSTAFF_STATE to a folder outside of every workspace")
}

// TokenFile is the file of the token that a workspace makes for its daemon: one for each
// folder, whatever it is called by. Clients in other languages find it by the same rule.
func TokenFile(workspace string, env func(name string) string) (string, error) {
	state, err := StateDir(env)
	if err != nil {
		return "", err
	}
	if workspace, err = filepath.Abs(workspace); err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(workspace); err == nil {
		workspace = real
	}
	sum := sha256.Sum256([]byte(workspace))
	return filepath.Join(state, "serve.token", hex.EncodeToString(sum[:16])), nil
}
