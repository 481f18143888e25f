//go:build linux

package clis

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// nodeModules is where scripts/clis.sh installs.
func nodeModules() string {
	dir, err := filepath.Abs("../../.cache/clis/node_modules")
	if err != nil {
		panic(err)
	}
	return dir
}

// program is a CLI's executable.
func program(name string) string { return filepath.Join(nodeModules(), ".bin", name) }

// installed skips the test where the CLIs were not asked for.
func installed(t testing.TB) {
	t.Helper()
	if os.Getenv("TIPSTAFF_CLIS") == "" {
		t.Skip("TIPSTAFF_CLIS is not set: make test-clis installs the CLIs and runs this")
	}
	for _, c := range clis {
		if _, err := os.Stat(program(c.name())); err != nil {
			t.Fatalf("%v: run scripts/clis.sh, which installs it", err)
		}
	}
}

// scripts is a repository with the scripts that decide whether these tests run, on a machine
// that has no npm, and whose make only says what it is asked for.
type scripts struct {
	testing.TB
	dir string
}

func newScripts(t *testing.T) scripts {
	t.Helper()
	s := scripts{t, t.TempDir()}
	for _, name := range []string{"scripts/clis.sh", "scripts/more.sh", "scripts/changed.sh", "test/clis/clis.json", "test/clis/package.json", "test/clis/package-lock.json"} {
		content, err := os.ReadFile(filepath.Join("../..", name))
		s.check(err)
		s.file(name, string(content))
	}
	s.file("bin/make", "#!/bin/sh\necho make \"$@\"\n")
	for _, name := range []string{"bash", "cat", "cmp", "dirname", "git", "grep", "mkdir", "sed", "sh"} {
		path, err := exec.LookPath(name)
		s.check(err)
		s.check(os.Symlink(path, filepath.Join(s.dir, "bin", name)))
	}
	s.file(".gitignore", "/.cache/\n")
	s.run(0, "git", "init", "-q")
	s.commit()
	return s
}

func (s scripts) check(err error) {
	if err != nil {
		s.Helper()
		s.Fatal(err)
	}
}

func (s scripts) file(name, content string) {
	s.Helper()
	path := filepath.Join(s.dir, name)
	s.check(os.MkdirAll(filepath.Dir(path), 0o755))
	s.check(os.WriteFile(path, []byte(content), 0o755))
}

func (s scripts) commit() {
	s.Helper()
	s.run(0, "git", "add", "-A")
	s.run(0, "git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "a change")
}

// run runs a program, which must end with the code, and returns what it says.
func (s scripts) run(code int, name string, args ...string) string {
	s.Helper()
	bin := filepath.Join(s.dir, "bin")
	if !strings.Contains(name, "/") {
		name = filepath.Join(bin, name)
	}
	c := exec.Command(name, args...)
	c.Dir, c.Env = s.dir, []string{"PATH=" + bin, "HOME=" + s.dir, "SINCE=HEAD^1"}
	out, err := c.CombinedOutput()
	if c.ProcessState.ExitCode() != code {
		s.Fatalf("%s %q: %v, not exit code %d\n%s", name, args, err, code, out)
	}
	return string(out)
}

// Without npm make test-clis fails and says why, and what runs after every change skips it
// and says why; it also says if nothing changed that these tests are about.
func TestWithoutNPM(t *testing.T) {
	s := newScripts(t)
	if out := s.run(1, "bash", "scripts/clis.sh"); out != "there is no npm: the tests against real coding CLIs cannot be run\n" {
		t.Errorf("scripts/clis.sh says %q", out)
	}
	s.file("docs/a.md", "a\n")
	s.commit()
	if out := s.run(0, "bash", "scripts/more.sh", "--changed"); !strings.Contains(out, "skipped: coding CLIs: no file changed that matters to it") {
		t.Errorf("after a change of a document:\n%s", out)
	}
	for _, changed := range []string{"worker/a.go", "delivery/a.go", "cmd/tipstaff/worker_relay.go", "runner/tasks.go", "task_move.go"} {
		s.file(changed, "package a\n")
		s.commit()
		out := s.run(0, "bash", "scripts/more.sh", "--changed")
		if !strings.Contains(out, "more: coding CLIs\nthere is no npm: the tests against real coding CLIs are skipped\n") || strings.Contains(out, "make test-clis\n") {
			t.Errorf("after a change of %s:\n%s", changed, out)
		}
	}
}

// Where the CLIs are there, they are run after a change that matters to them.
func TestWithCLIs(t *testing.T) {
	s := newScripts(t)
	listed, err := versions()
	s.check(err)
	for _, c := range clis {
		s.file(".cache/clis/node_modules/.bin/"+c.name(), "#!/bin/sh\necho "+listed[c.name()]+"\n")
	}
	lock, err := os.ReadFile("package-lock.json")
	s.check(err)
	s.file(".cache/clis/installed.json", string(lock))
	s.file("worker/a.go", "package a\n")
	s.commit()
	if out := s.run(0, "bash", "scripts/more.sh", "--changed"); !strings.Contains(out, "more: coding CLIs\nmake test-clis\n") {
		t.Errorf("after a change of a worker:\n%s", out)
	}
}
