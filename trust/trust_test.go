package trust

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/workspace"
)

const manifest = `
servers:
  issues: {command: [issue-server, --stdio], tools: {list: {effect: read}}}
`

// bed is a user with a workspace that would start a server.
type bed struct {
	*testing.T
	*Keeper
	state, dir string
}

func newBed(t *testing.T) *bed {
	b := &bed{T: t, state: filepath.Join(t.TempDir(), "state"), dir: filepath.Join(t.TempDir(), "workspace")}
	b.Keeper = &Keeper{State: func() (string, error) { return b.state, nil }}
	b.check(os.Mkdir(b.dir, 0o755))
	b.write(manifest)
	return b
}

func (b *bed) check(err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

func (b *bed) write(manifest string) {
	b.Helper()
	b.check(os.WriteFile(filepath.Join(b.dir, workspace.FileName), []byte(manifest), 0o644))
}

// folder is where the records are, and file the one about the workspace.
func (b *bed) folder() string { return filepath.Join(b.state, workspace.TrustFolder) }

func (b *bed) file() string {
	path, _, err := identify(b.dir)
	b.check(err)
	return filepath.Join(b.folder(), nameOf(path))
}

// now is what is said of the workspace now.
func (b *bed) now() tipstaff.FolderTrust {
	b.Helper()
	starts, err := Starts(b.dir)
	b.check(err)
	t, err := b.Of(b.dir, starts)
	b.check(err)
	return t
}

func (b *bed) trust() {
	b.Helper()
	b.check(b.Record(b.now(), time.Now()))
	if t := b.now(); !t.Trusted || t.Since.IsZero() {
		b.Fatalf("it is not trusted: %+v", t)
	}
}

func (b *bed) refused(code tipstaff.Code, why string) {
	b.Helper()
	starts, err := Starts(b.dir)
	b.check(err)
	err = b.Check(b.dir, starts)
	if tipstaff.CodeOf(err) != code || !strings.Contains(fmt.Sprint(err), why) {
		b.Errorf("refused by %v: not %s, %q", err, code, why)
	}
}

func TestAWorkspaceIsTrustedWhenItsUserHasSaidSo(t *testing.T) {
	b := newBed(t)
	b.refused(tipstaff.WorkspaceUntrusted, "nobody has said yet")
	if _, err := os.Stat(b.state); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("to look makes a folder: %v", err)
	}
	b.trust()
	had, err := b.Revoke(b.dir)
	if err != nil || !had {
		t.Errorf("revoked: %v, %v", had, err)
	}
	b.refused(tipstaff.WorkspaceUntrusted, "nobody has said yet")
}

func TestAWorkspaceThatStartsNothingNeedsNoTrust(t *testing.T) {
	b := newBed(t)
	b.State = func() (string, error) { return "", errors.New("there is none") }
	b.write("servers: {builtin: {roots: [\".\"], programs: [sh], tools: {exec: {}, read_file: {}}}}\n")
	if !b.now().Trusted {
		t.Error("it is not trusted")
	}
}

func TestAChangedListIsNotTrusted(t *testing.T) {
	b := newBed(t)
	b.trust()
	b.write(strings.Replace(manifest, "--stdio", "--other", 1))
	b.refused(tipstaff.WorkspaceUntrusted, "is not what was trusted")
	now := b.now()
	if len(now.Was) != 1 || !strings.Contains(now.Was[0], "--stdio") || !strings.Contains(now.Starts[0], "--other") {
		t.Errorf("the difference cannot be shown: %+v", now)
	}
	b.write(manifest)
	if !b.now().Trusted {
		t.Error("the list that was trusted is not any more")
	}
}

func TestAMovedFolderIsNotTrusted(t *testing.T) {
	b := newBed(t)
	b.trust()
	moved := b.dir + "-moved"
	b.check(os.Rename(b.dir, moved))
	b.dir = moved
	b.refused(tipstaff.WorkspaceUntrusted, "nobody has said yet")
}

func TestAFolderThatTookThePlaceOfATrustedOneIsNot(t *testing.T) {
	b := newBed(t)
	b.trust()
	b.check(os.Rename(b.dir, b.dir+"-before"))
	b.check(os.Mkdir(b.dir, 0o755))
	b.write(manifest)
	b.refused(tipstaff.WorkspaceUntrusted, "another folder")
}

func TestAFolderIsTrustedByWhateverLinkItIsReached(t *testing.T) {
	b := newBed(t)
	b.trust()
	link := filepath.Join(t.TempDir(), "link")
	b.check(os.Symlink(b.dir, link))
	b.dir = link
	if !b.now().Trusted {
		t.Error("it is not trusted through a link")
	}
}

func TestWhatChangedSinceItWasShownIsNotTrusted(t *testing.T) {
	b := newBed(t)
	shown := b.now()
	b.write(strings.Replace(manifest, "--stdio", "--other", 1))
	if err := b.Record(shown, time.Now()); tipstaff.CodeOf(err) != tipstaff.WorkspaceUntrusted {
		t.Errorf("recorded: %v", err)
	}
}

// lockOf is a lock that holds a tool of the server issues.
const lockOf = `{"version": 1, "servers": {"issues": {"version": "1.0.0", "tools": {"%s": {"digest": "%s", "definition": %s}}}}}`

func TestLockedToolsAreTrustedByWhoLocksThem(t *testing.T) {
	b := newBed(t)
	b.trust()
	definition := `{"inputSchema":{"type":"object"},"name":"list"}`
	lock := fmt.Sprintf(lockOf, "list", flow.Digest([]byte(definition)), definition)
	b.check(os.WriteFile(filepath.Join(b.dir, "tipstaff.lock"), []byte(lock), 0o644))
	b.refused(tipstaff.WorkspaceUntrusted, "is not what was trusted")
	b.check(b.Locked(b.dir, time.Now()))
	if !b.now().Trusted {
		t.Error("what was locked here is not trusted")
	}
	b.check(os.Remove(filepath.Join(b.dir, "tipstaff.lock")))
	b.write(strings.Replace(manifest, "--stdio", "--other", 1))
	b.check(b.Locked(b.dir, time.Now()))
	if b.now().Trusted {
		t.Error("a changed command is trusted by locking tools")
	}
}

func TestEverywhereAsksNothing(t *testing.T) {
	b := newBed(t)
	b.Everywhere = func() bool { return true }
	b.State = func() (string, error) { return "", errors.New("there is none") }
	if !b.now().Trusted {
		t.Error("it is not trusted")
	}
}

func TestAProcessOfARunTrustsNothing(t *testing.T) {
	b := newBed(t)
	b.Own = func() []string { return []string{"01JCQ8R4T5V6W7X8Y9Z0A1B2C3"} }
	if err := b.Record(b.now(), time.Now()); tipstaff.CodeOf(err) != tipstaff.OwnRun {
		t.Errorf("recorded: %v", err)
	}
	if _, err := b.Revoke(b.dir); tipstaff.CodeOf(err) != tipstaff.OwnRun {
		t.Errorf("revoked: %v", err)
	}
	if _, err := os.Stat(b.folder()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
}

func TestTheRecordIsForItsUserAlone(t *testing.T) {
	b := newBed(t)
	b.trust()
	for name, mode := range map[string]os.FileMode{b.state: 0o700, b.folder(): 0o700, b.file(): 0o600} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestARecordThatOthersMayHaveMadeIsNotBelieved(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(b *bed)
		why   string
	}{
		"torn":                              {func(b *bed) { b.check(os.Truncate(b.file(), 20)) }, "unexpected"},
		"empty":                             {func(b *bed) { b.check(os.Truncate(b.file(), 0)) }, ""},
		"world-writable":                    {func(b *bed) { b.check(os.Chmod(b.file(), 0o602)) }, "others can write it"},
		"group-writable":                    {func(b *bed) { b.check(os.Chmod(b.file(), 0o660)) }, "others can write it"},
		"a link":                            {func(b *bed) { b.check(os.Rename(b.file(), b.file()+"2")); b.check(os.Symlink(b.file()+"2", b.file())) }, "a link"},
		"with two names":                    {func(b *bed) { b.check(os.Link(b.file(), b.file()+"2")) }, "another name"},
		"a folder":                          {func(b *bed) { b.check(os.Remove(b.file())); b.check(os.Mkdir(b.file(), 0o700)) }, "no plain file"},
		"of a newer":                        {func(b *bed) { b.check(os.WriteFile(b.file(), []byte(`{"version": 2}`), 0o600)) }, "version 2"},
		"of somebody else":                  {foreign, "belongs to the user 12345"},
		"about another":                     {func(b *bed) { b.check(os.WriteFile(b.file(), []byte(`{"version": 1, "workspace": "/x"}`), 0o600)) }, `it is about "/x"`},
		"a large one":                       {func(b *bed) { b.check(os.Truncate(b.file(), maxRecord+1)) }, "more than"},
		"in a folder that others can write": {func(b *bed) { b.check(os.Chmod(b.folder(), 0o770)) }, "others can write it"},
		"in a folder that is a link": {func(b *bed) {
			b.check(os.Rename(b.folder(), b.folder()+"2"))
			b.check(os.Symlink(b.folder()+"2", b.folder()))
		}, "a link"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.trust()
			shown := b.now()
			c.spoil(b)
			starts, err := Starts(b.dir)
			b.check(err)
			err = b.Check(b.dir, starts)
			if tipstaff.CodeOf(err) != tipstaff.WorkspaceUntrusted || !strings.Contains(fmt.Sprint(err), "is not believed") || !strings.Contains(fmt.Sprint(err), c.why) {
				t.Errorf("it says %v", err)
			}
			if err := b.Record(shown, time.Now()); err == nil {
				t.Error("it is written over")
			}
		})
	}
}

// foreign gives the record to another user.
func foreign(b *bed) {
	if os.Geteuid() != 0 {
		b.Skip("only root can give files away")
	}
	b.check(os.Chown(b.file(), 12345, 12345))
}

func TestManyAtOnceLoseNothing(t *testing.T) {
	b := newBed(t)
	var all sync.WaitGroup
	const n = 20
	for i := range n {
		other := newBed(t)
		other.state = b.state
		all.Go(func() {
			starts, err := Starts(other.dir)
			if err == nil {
				err = other.Record(tipstaff.FolderTrust{Workspace: other.dir, Starts: starts, Digest: digest(starts)}, time.Now())
			}
			if err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	all.Wait()
	list, err := b.List()
	if err != nil || len(list) != n {
		t.Errorf("%d of %d are recorded, %v", len(list), n, err)
	}
}

func TestAnUnwritableStateFolderIsSaid(t *testing.T) {
	b := newBed(t)
	b.check(os.WriteFile(b.state, nil, 0o600))
	if err := b.Record(b.shown(), time.Now()); tipstaff.CodeOf(err) != tipstaff.StateUnavailable {
		t.Errorf("it says %v", err)
	}
}

// shown is what a person sees of the workspace, without a record.
func (b *bed) shown() tipstaff.FolderTrust {
	starts, err := Starts(b.dir)
	b.check(err)
	return tipstaff.FolderTrust{Workspace: b.dir, Starts: starts, Digest: digest(starts)}
}

func BenchmarkCheck(b *testing.B) {
	dir, state := b.TempDir(), b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, workspace.FileName), []byte(manifest), 0o644); err != nil {
		b.Fatal(err)
	}
	k := &Keeper{State: func() (string, error) { return state, nil }}
	starts, err := Starts(dir)
	if err == nil {
		err = k.Record(tipstaff.FolderTrust{Workspace: dir, Starts: starts, Digest: digest(starts)}, time.Now())
	}
	for b.Loop() && err == nil {
		starts, _ = Starts(dir)
		err = k.Check(dir, starts)
	}
	if err != nil {
		b.Fatal(err)
	}
}
