// Package trust is the record of which workspaces a user trusts. What a folder would have
// started or sent is settled by whoever wrote its tipstaff.yaml, which after a git clone is
// anybody; the record, outside of every workspace, says which lists the user has agreed to.
//
// It starts nothing. Start with [Keeper.Check].
package trust

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store/files"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// maxRecord is far above what a record has, in bytes.
const maxRecord = 16 << 20

// Keeper looks after the record of one user.
type Keeper struct {
	State      func() (string, error) // the folder of what is kept for the user
	Everywhere func() bool            // every folder is trusted, as in containers and tests; nil: none is for that
	Own        func() []string        // runs that this process belongs to: it may not change the record; nil: to none
}

// record is what the file holds.
type record struct {
	Version    int                `json:"version"`
	Workspaces map[string]trusted `json:"workspaces"` // by path, links resolved
}

// trusted is a workspace as it was when its user was asked.
type trusted struct {
	Digest string    `json:"digest"` // of the list
	Starts []string  `json:"starts"`
	Folder string    `json:"folder"` // tells it from another one at the same path
	At     time.Time `json:"at"`
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
	state, err := k.State()
	if err != nil {
		return t, err
	}
	r, err := read(filepath.Join(state, workspace.TrustFile))
	if err != nil {
		return t, err
	}
	was, known := r.Workspaces[path]
	switch {
	case !known:
		t.Why = "nobody has said yet that what it would start or send may be"
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
	return k.change(func(r *record) {
		r.Workspaces[path] = trusted{Digest: shown.Digest, Starts: shown.Starts, Folder: id, At: now.UTC().Truncate(time.Second)}
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
	err = k.change(func(r *record) {
		_, had = r.Workspaces[path]
		delete(r.Workspaces, path)
	})
	return had, err
}

// List is every workspace that is recorded, by path, as it was trusted.
func (k *Keeper) List() ([]tipstaff.FolderTrust, error) {
	state, err := k.State()
	if err != nil {
		return nil, err
	}
	r, err := read(filepath.Join(state, workspace.TrustFile))
	if err != nil {
		return nil, err
	}
	list := []tipstaff.FolderTrust{}
	for _, path := range slices.Sorted(maps.Keys(r.Workspaces)) {
		w := r.Workspaces[path]
		list = append(list, tipstaff.FolderTrust{Workspace: path, Trusted: true, Starts: w.Starts, Since: w.At, Digest: w.Digest})
	}
	return list, nil
}

// change rewrites the record, while nobody else does. A process of a run may not: it would
// decide about runs.
func (k *Keeper) change(f func(*record)) (err error) {
	if k.Own != nil {
		if own := k.Own(); len(own) > 0 {
			return tipstaff.Errorf(tipstaff.OwnRun, "this process belongs to run %s, and may not say which folders are trusted", own[0]).
				WithCommand("run the command outside of the run")
		}
	}
	state, err := k.State()
	if err == nil {
		err = os.MkdirAll(state, 0o700)
	}
	if err != nil {
		return unavailable(err)
	}
	name := filepath.Join(state, workspace.TrustFile)
	unlock, err := files.Lock(name + ".lock")
	if err != nil {
		return unavailable(err)
	}
	defer func() { err = errors.Join(err, unlock()) }()
	r, err := read(name)
	if err != nil {
		return err
	}
	f(&r)
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := files.Write(name, append(text, '\n'), 0o600); err != nil {
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

// read reads a record; one that is not there is empty. What others could have written is not
// believed, nor what is not whole.
func read(name string) (record, error) {
	r := record{Version: 1, Workspaces: map[string]trusted{}}
	f, err := open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err != nil:
		return r, unbelieved(name, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRecord+1))
	if err == nil && len(text) > maxRecord {
		err = fmt.Errorf("it has more than %d MiB", maxRecord>>20)
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil && r.Version != 1 {
		err = fmt.Errorf("it has version %d, and this Tipstaff reads 1", r.Version)
	}
	if err != nil {
		return record{}, unbelieved(name, err)
	}
	if r.Workspaces == nil {
		r.Workspaces = map[string]trusted{}
	}
	return r, nil
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
