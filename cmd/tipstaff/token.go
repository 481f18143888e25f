package main

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/runner"
	ws "github.com/tipstaff/tipstaff/workspace"
)

// localUser is whose token a workspace makes that names none.
const localUser = "local"

// tokens are those of the manifest, or the one of this workspace, which holds from the moment
// at which somebody makes another.
func (s *session) tokens(config ws.Serve, told *cli.Listening) (*tipstaff.Tokens, error) {
	given, err := config.Open(os.Environ())
	if err != nil {
		return nil, err
	}
	if len(given) > 0 {
		tokens, err := tipstaff.NewTokens(given...)
		if err == nil {
			tokens.Now = time.Now
		}
		return tokens, err
	}
	file, err := ws.TokenFile(s.runner.Workspace, os.Getenv)
	if err != nil {
		return nil, err
	}
	old := filepath.Join(s.runner.Workspace, storeFolder, "serve.token")
	if err := os.Remove(old); err == nil {
		told.Revoked = old
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, unkept("the old token in "+old+" cannot be removed", err)
	}
	if err := makeToken(file, false); err != nil {
		return nil, err
	}
	own := &ownToken{file: file, tokens: &tipstaff.Tokens{Now: time.Now}}
	if err := own.read(); err != nil {
		return nil, err
	}
	told.TokenFile, own.tokens.Refresh = file, func() { _ = own.read() } // one that cannot be read lets nobody in
	return own.tokens, nil
}

// ownToken is the token that a workspace has made, as its file has it.
type ownToken struct {
	file   string
	tokens *tipstaff.Tokens

	mu   sync.Mutex
	seen os.FileInfo // nil: there is none that could be read
}

// read takes the token anew if its file is another by now.
func (t *ownToken) read() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := os.Stat(t.file)
	if err == nil && t.seen != nil && os.SameFile(info, t.seen) && info.ModTime().Equal(t.seen.ModTime()) && info.Size() == t.seen.Size() {
		return nil
	}
	secret, err := readToken(t.file)
	if err != nil {
		t.seen = nil
		return errors.Join(err, t.tokens.Replace())
	}
	t.seen = info
	return t.tokens.Replace(tipstaff.Token{User: localUser, Secret: secret, Scopes: tipstaff.Scopes()})
}

// readToken is the token in a file that nobody else can read.
func readToken(file string) (string, error) {
	info, err := os.Stat(file)
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		return "", tipstaff.Errorf(tipstaff.Refused, "%s can be read by others on this machine", file).WithCommand("`tipstaff serve --rotate` makes a new token")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", unkept("the token cannot be read", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// makeToken writes a new token, in the place of one that is there only if another is wanted.
// It is there whole or not at all.
func makeToken(file string, another bool) error {
	dir := filepath.Dir(file)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o700)
	}
	var f *os.File
	if err == nil {
		f, err = os.CreateTemp(dir, ".new-*") // 0600
	}
	if err != nil {
		return unkept("the token cannot be made", err)
	}
	defer os.Remove(f.Name())
	_, err = fmt.Fprintln(f, newSecret())
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil && another {
		err = os.Rename(f.Name(), file)
	} else if err == nil {
		if err = os.Link(f.Name(), file); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	if err != nil {
		return unkept("the token cannot be made", err)
	}
	return nil
}

func unkept(what string, err error) error {
	return &tipstaff.Error{Code: tipstaff.StoreUnavailable, Message: what + ": " + err.Error(), Err: err}
}

func newSecret() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	return hex.EncodeToString(secret)
}

// serveToken is the token that a workspace has made for its daemon; rotate makes another.
func serveToken(name string, rotate bool) (string, error) {
	workspace, err := folder(name)
	if err != nil {
		return "", err
	}
	config, err := runner.New(runner.Config{Workspace: workspace}).Serving()
	if err != nil {
		return "", err
	}
	if len(config.Tokens) > 0 {
		return "", tipstaff.Errorf(tipstaff.Refused, "the tokens of this workspace are those of serve.tokens in tipstaff.yaml, and come from the environment of its daemon").
			WithHint("change the variable that serve.tokens names, and start the daemon again")
	}
	file, err := ws.TokenFile(workspace, os.Getenv)
	if err != nil {
		return "", err
	}
	if rotate {
		if err := makeToken(file, true); err != nil {
			return "", err
		}
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return "", tipstaff.Errorf(tipstaff.Refused, "there is no token for the workspace %s yet", workspace).
			WithCommand("`tipstaff serve` makes one when it starts; --workspace names the workspace of a daemon that runs")
	}
	return readToken(file)
}

// workspaceToken is that of a daemon of a workspace which made one itself; "": there is none.
func workspaceToken(workspace string) string {
	file, err := ws.TokenFile(workspace, os.Getenv)
	if err != nil {
		return ""
	}
	secret, _ := readToken(file)
	return secret
}
