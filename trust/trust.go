// Package trust is the record of which workspaces a user trusts. What a folder would have
// started or sent is settled by whoever wrote its tipstaff.yaml, which after a git clone is
// anybody; the record, outside of every workspace, says which lists the user has agreed to.
//
// It starts nothing. Start with [Keeper.Check].
package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store/files"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// maxRecord is far above what the record of a workspace has, in bytes.
const maxRecord = 1 << 20

// Keeper looks after the record of one user.
type Keeper struct {
	State      func() (string, error) // the folder of what is kept for the user
	Everywhere func() bool            // every folder is trusted, as in containers and tests; nil: none is for that
	Own        func() []string        // runs that this process belongs to: it may not change the record; nil: to none
}

// trusted is the record of a workspace as it was when its user was asked. Each has a file of
// its own, so that looking at one does not take longer the more there are.
type trusted struct {
	Version   int       `json:"version"`
	Workspace string    `json:"workspace"` // its path, links resolved
	Folder    string    `json:"folder"`    // tells it from another one at the same path
	Digest    string    `json:"digest"`    // of the list
	Starts    []string  `json:"starts"`
	At        time.Time `json:"at"`
}

// Starts is what a workspace would have started or sent.
func Starts(dir string) ([]string, error) {
	m, err := workspace.Read(dir)
	if err != nil || m == nil {
		return nil, err
	}
	lock, _ := tool.ReadLock(dir) // with one that cannot be read nothing runs
	return m.Starts(dir, lock.Names()), nil
}

// Of says whether a workspace is trusted that would have these things started or sent.
func (k *Keeper) Of(dir string, starts []string) (tipstaff.FolderTrust, error) {
	t := tipstaff.FolderTrust{Workspace: dir, Starts: starts, Digest: digest(starts)}
	if len(starts) == 0 || k.Everywhere != nil && k.Everywhere() {
		t.Trusted = true
		return t, nil
	}
	path, id, err := identify(dir)
	if err != nil {
		return t, err
	}
	t.Workspace = path
	folder, err := k.folder()
	if err != nil {
		return t, err
	}
	was, err := about(folder, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.Why = "nobody has said yet that what it would start or send may be"
	case err != nil:
		return t, err
	case was.Folder != id:
		t.Why = "it is another folder than the one that was trusted at this path"
	case was.Digest != t.Digest:
		t.Why, t.Was = "what it would start or send is not what was trusted", was.Starts
	default:
		t.Trusted, t.Since = true, was.At
	}
	return t, nil
}

// Check refuses a workspace that is not trusted.
func (k *Keeper) Check(dir string, starts []string) error {
	t, err := k.Of(dir, starts)
	if err != nil || t.Trusted {
		return err
	}
	return t.Refusal()
}

// Record trusts a workspace. It is refused if the workspace is not any more as it was shown.
func (k *Keeper) Record(shown tipstaff.FolderTrust, now time.Time) error {
	starts, err := Starts(shown.Workspace)
	switch {
	case err != nil:
		return err
	case digest(starts) != shown.Digest:
		return tipstaff.Errorf(tipstaff.WorkspaceUntrusted, "what %s would start or send has changed since it was shown", shown.Workspace).
			WithCommand("`tipstaff trust` shows it anew, and asks")
	}
	path, id, err := identify(shown.Workspace)
	if err != nil {
		return err
	}
	return k.change(func(folder string) error {
		if _, err := about(folder, path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err // somebody should look at it first
		}
		text, err := json.MarshalIndent(trusted{Version: 1, Workspace: path, Folder: id, Digest: shown.Digest, Starts: shown.Starts, At: now.UTC().Truncate(time.Second)}, "", "  ")
		if err != nil {
			return err
		}
		return files.Write(filepath.Join(folder, nameOf(path)), append(text, '\n'), 0o600)
	})
}

// Locked goes on trusting a workspace in which nothing but the tools that are locked is another
// than when it was trusted: whoever locks them has seen them.
func (k *Keeper) Locked(dir string, now time.Time) error {
	starts, err := Starts(dir)
	if err != nil {
		return err
	}
	t, err := k.Of(dir, starts)
	if err != nil || t.Trusted || t.Was == nil || !workspace.SameButLocked(t.Was, starts) {
		return err
	}
	return k.Record(t, now)
}

// Revoke ends the trust in a workspace, and reports whether there was any.
func (k *Keeper) Revoke(dir string) (had bool, err error) {
	path, _, err := identify(dir)
	if err != nil {
		path = filepath.Clean(dir) // it is gone: what is recorded of it can still be taken back
	}
	err = k.change(func(folder string) error {
		err := os.Remove(filepath.Join(folder, nameOf(path)))
		if had = err == nil; errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	return had, err
}

// List is every workspace that is recorded, by path, as it was trusted.
func (k *Keeper) List() ([]tipstaff.FolderTrust, error) {
	list := []tipstaff.FolderTrust{}
	folder, err := k.folder()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, unavailable(err)
	}
	for _, e := range entries {
		if filepath.Ext(e.Name()) != extension {
			continue // what a process left that was killed while it wrote
		}
		w, err := read(filepath.Join(folder, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was taken back meanwhile
		}
		if err != nil {
			return nil, err
		}
		list = append(list, tipstaff.FolderTrust{Workspace: w.Workspace, Trusted: true, Starts: w.Starts, Since: w.At, Digest: w.Digest})
	}
	slices.SortFunc(list, func(a, b tipstaff.FolderTrust) int { return strings.Compare(a.Workspace, b.Workspace) })
	return list, nil
}

const extension = ".json"

// nameOf is the name of the file about a workspace.
func nameOf(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:16]) + extension
}

// folder is where the records are. One that is there is the user's alone.
func (k *Keeper) folder() (string, error) {
	state, err := k.State()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(state, workspace.TrustFolder)
	switch err := ownFolder(folder); {
	case errors.Is(err, syscall.ENOTDIR):
		return "", unavailable(err)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", unbelieved(folder, err)
	}
	return folder, nil
}

// change changes a record. A process of a run may not: it would decide about runs.
func (k *Keeper) change(f func(folder string) error) error {
	if k.Own != nil {
		if own := k.Own(); len(own) > 0 {
			return tipstaff.Errorf(tipstaff.OwnRun, "this process belongs to run %s, and may not say which folders are trusted", own[0]).
				WithCommand("run the command outside of the run")
		}
	}
	folder, err := k.folder()
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err == nil {
		err = f(folder)
	}
	if err != nil {
		return unavailable(err)
	}
	return nil
}

// unavailable: the folder of what is kept for the user cannot be used.
func unavailable(err error) error {
	if errors.As(err, new(*tipstaff.Error)) {
		return err
	}
	return (&tipstaff.Error{Code: tipstaff.StateUnavailable, Message: "what is kept for a user cannot be written: " + err.Error(), Err: err}).
		WithCommand("make the folder writable, or set TIPSTAFF_STATE to another one outside of every workspace")
}

// about reads the record about a workspace.
func about(folder, path string) (trusted, error) { return read(filepath.Join(folder, nameOf(path))) }

// read reads a record. What others could have written is not believed, nor what is not whole
// or has the name of another.
func read(name string) (trusted, error) {
	f, err := open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return trusted{}, err
	}
	var t trusted
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(f, maxRecord+1))
		err = errors.Join(err, f.Close())
	}
	if err == nil && len(text) > maxRecord {
		err = fmt.Errorf("it has more than %d MiB", maxRecord>>20)
	}
	if err == nil {
		err = json.Unmarshal(text, &t)
	}
	if err == nil && t.Version == 1 && nameOf(t.Workspace) != filepath.Base(name) {
		err = fmt.Errorf("it is about %s", tipstaff.Quote(t.Workspace, 200))
	}
	if err == nil && t.Version != 1 {
		err = fmt.Errorf("it has version %d, and this Tipstaff reads 1", t.Version)
	}
	if err != nil {
		return trusted{}, unbelieved(name, err)
	}
	return t, nil
}

func unbelieved(name string, err error) error {
	return (&tipstaff.Error{Code: tipstaff.WorkspaceUntrusted, Message: fmt.Sprintf("the record of trusted folders, %s, is not believed: %v", name, err), Err: err}).
		WithHint("find out who wrote it").WithCommand("remove it, then say anew which folders are trusted: `tipstaff trust`")
}

// identify is the path of a folder, links resolved, and what tells it from another one that
// stands there later.
func identify(dir string) (path, id string, err error) {
	if path, err = filepath.Abs(dir); err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", "", tipstaff.Errorf(tipstaff.WorkspaceUnresolved, "the workspace %s is not a folder", dir)
	}
	id, err = folderID(path)
	return path, id, err
}

func digest(starts []string) string { return flow.Digest(flow.JSON(append([]string{}, starts...))) }
