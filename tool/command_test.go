package tool_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// desk is a workspace in which a server, a worker and a program of exec have code.
const desk = `
allowed_effects: [read, idempotent, once]
servers:
  builtin: {roots: ["."], programs: [bin/desk, desk], ignore: ["bin/cache/**"], tools: {exec: {}}}
  desk: {command: [sh, srv/desk.sh], tools: {act: {}}}
policy: {rules: [{id: all, tool: '*/*', do: allow}]}
workers:
  desk: {type: claude, command: cli/desk, ignore: ["cli/state/**"]}
  plain: {type: claude, model: opus}
`

// deskIn is that workspace with its code.
func deskIn(t *testing.T) (m *workspace.Manifest, dir string, write func(name, text string)) {
	t.Helper()
	dir = t.TempDir()
	write = func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"srv/desk.sh", "cli/desk", "cli/lib.sh", "cli/state/x", "bin/desk", "bin/lib.sh", "bin/cache/x"} {
		write(name, "#!/bin/sh\n")
	}
	return parse(t, desk), dir, write
}

// commandOf is what a label names.
func commandOf(t *testing.T, m *workspace.Manifest, label string) workspace.Command {
	t.Helper()
	all := m.Commands()
	i := slices.IndexFunc(all, func(c workspace.Command) bool { return c.Label() == label })
	if i < 0 {
		t.Fatalf("nothing is called %s", label)
	}
	return all[i]
}

// locking is a lock with the code of these, written and read again.
func locking(t *testing.T, m *workspace.Manifest, dir string, labels ...string) (*tool.Lock, []tipstaff.PinChange) {
	t.Helper()
	l, all := new(tool.Lock), []tipstaff.PinChange(nil)
	for _, label := range labels {
		next, changes, err := l.WithCode(tool.NewCode(m, dir, ""), commandOf(t, m, label))
		if err != nil {
			t.Fatal(err)
		}
		l, all = next, append(all, changes...)
	}
	l, err := tool.ParseLock([]byte(lockText(t, l)))
	if err != nil {
		t.Fatal(err)
	}
	return l, all
}

// A worker's code is told by its label, and is another's business neither in the lock nor in what is
// refused.
func TestCodeOfWorkersAndProgramsIsLocked(t *testing.T) {
	m, dir, write := deskIn(t)
	worker, program := commandOf(t, m, "worker/desk"), commandOf(t, m, "program/bin/desk")
	l, changes := locking(t, m, dir, "worker/desk", "program/bin/desk", "worker/plain", "program/desk")
	var told []string
	for _, c := range changes {
		told = append(told, c.Server+" "+c.Member)
	}
	want := []string{"worker/desk file cli/desk", "worker/desk file cli/lib.sh", "program/bin/desk file bin/desk", "program/bin/desk file bin/lib.sh"}
	if !slices.Equal(told, want) {
		t.Errorf("told %q", told)
	}
	if len(l.Servers) != 0 || len(l.Workers) != 1 || len(l.Programs) != 1 {
		t.Fatalf("locked %+v", l)
	}
	accepts := func(c workspace.Command) *flow.Error { return l.Accepts(tool.NewCode(m, dir, ""), c) }
	for _, c := range []struct{ file, text, label, says string }{
		{"cli/state/x", "changed", "", ""},
		{"bin/cache/x", "changed", "", ""},
		{"srv/desk.sh", "changed", "", ""},
		{"cli/lib.sh", "changed", "worker/desk", `the file cli/lib.sh, which worker "desk" may load, has changed since it was accepted: look at it, then ` + "`tipstaff tools pin worker/desk`"},
		{"bin/new.sh", "new", "program/bin/desk", `the file bin/new.sh, which the program "bin/desk" may load, is new, and nobody has accepted it yet: look at it, then ` + "`tipstaff tools pin program/bin/desk`"},
	} {
		write(c.file, c.text)
		for _, of := range []workspace.Command{worker, program} {
			switch refused := accepts(of); {
			case of.Label() != c.label && refused != nil:
				t.Errorf("%s: %s: %v", c.file, of.Label(), refused)
			case of.Label() == c.label && (refused == nil || refused.Code != tool.CodePackageChanged || refused.Message != c.says || !refused.NotSent):
				t.Errorf("%s: %s: %v", c.file, of.Label(), refused)
			}
		}
		if c.label != "" {
			l, _ = locking(t, m, dir, "worker/desk", "program/bin/desk")
		}
	}
}

// What a lock says nothing of is not compared, and told.
func TestLocksFromBeforeKnowNoWorkers(t *testing.T) {
	m, dir, write := deskIn(t)
	l, err := tool.ParseLock([]byte(`{"servers": {}, "version": 1}`))
	if err != nil {
		t.Fatal(err)
	}
	write("cli/lib.sh", "changed")
	for label, want := range map[string]string{"worker/desk": "cli/desk cli/lib.sh", "program/bin/desk": "bin/desk bin/lib.sh", "worker/plain": "", "program/desk": "", "desk": ""} {
		c := commandOf(t, m, label)
		files, err := l.Unheld(tool.NewCode(m, dir, ""), c)
		if got := strings.Join(files, " "); got != want || err != nil {
			t.Errorf("%s: not held: %s: %v", label, got, err)
		}
		if refused := l.Accepts(tool.NewCode(m, dir, ""), c); refused != nil {
			t.Errorf("%s: %v", label, refused)
		}
	}
	if text := lockText(t, l); strings.Contains(text, "workers") || strings.Contains(text, "programs") {
		t.Errorf("an older Tipstaff cannot read it: %s", text)
	}
}

// What is not started any more is taken out, also where it had no files yet.
func TestCodeThatIsNotStartedIsTakenOut(t *testing.T) {
	m, dir, _ := deskIn(t)
	if err := os.RemoveAll(filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	l, changes := locking(t, m, dir, "worker/desk", "program/bin/desk")
	if last := changes[len(changes)-1]; last.Server != "program/bin/desk" || last.Member != tool.MemberBeside || !l.Programs["bin/desk"].Beside {
		t.Errorf("a program that is not there yet: %+v, %+v", last, l.Programs)
	}
	left := parse(t, "servers: {builtin: {tools: {exec: {}}}}")
	stale := l.Stale(left)
	if len(stale) != 2 || len(l.Stale(m)) != 0 {
		t.Fatalf("stale: %v, %v", stale, l.Stale(m))
	}
	for _, c := range stale {
		next, changes, err := l.WithCode(tool.NewCode(left, dir, ""), c)
		if err != nil || len(changes) == 0 {
			t.Errorf("%s: %v, %v", c, changes, err)
		}
		l = next
	}
	if len(l.Workers) != 0 || len(l.Programs) != 0 {
		t.Errorf("left: %+v", l)
	}
}

func TestLocksWithFalseCodeAreNotTrusted(t *testing.T) {
	for _, text := range []string{
		`{"servers": {}, "version": 1, "workers": {"w": {"beside": true, "files": {"a": "sha256:0"}}}}`,
		`{"servers": {}, "version": 1, "programs": {"w": {"beside": true, "files": {"a": ""}}}}`,
		`{"servers": {}, "version": 1, "workers": {"w": {"beside": true, "tools": {}}}}`,
		`{"servers": {}, "version": 1, "workers": {}}`,
	} {
		if l, err := tool.ParseLock([]byte(text)); err == nil {
			t.Errorf("%s: %+v", text, l)
		}
	}
}
