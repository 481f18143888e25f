//go:build linux

package clis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
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

// newScripts is a repository with the scripts that decide whether these tests run.
func newScripts(t *testing.T) *cmdtest.Scripts {
	t.Helper()
	return cmdtest.NewScripts(t, "scripts/clis.sh", "scripts/git.sh", "scripts/more.sh", "scripts/changed.sh", "test/clis/clis.json", "test/clis/package.json", "test/clis/package-lock.json")
}

// Without npm make test-clis fails and says why, and what runs after every change skips it
// and says why; it also says if nothing changed that these tests are about.
func TestWithoutNPM(t *testing.T) {
	s := newScripts(t)
	if out := s.Run(1, "bash", "scripts/clis.sh"); out != "there is no npm: the tests against real coding CLIs cannot be run\n" {
		t.Errorf("scripts/clis.sh says %q", out)
	}
	for _, changed := range []string{"docs/a.md", "runner/files.go", "worker/a_test.go"} {
		s.File(changed, "package a\n")
		s.Commit()
		if out := s.Run(0, "bash", "scripts/more.sh", "--changed"); !strings.Contains(out, "skipped: coding CLIs: no file changed that matters to it") {
			t.Errorf("after a change of %s:\n%s", changed, out)
		}
	}
	for _, changed := range []string{"worker/a.go", "delivery/a.go", "cmd/tipstaff/worker_relay.go"} {
		s.File(changed, "package a\n")
		s.Commit()
		out := s.Run(0, "bash", "scripts/more.sh", "--changed")
		if !strings.Contains(out, "more: coding CLIs\nthere is no npm: the tests against real coding CLIs are skipped\n") || strings.Contains(out, "make test-clis\n") {
			t.Errorf("after a change of %s:\n%s", changed, out)
		}
	}
}

// Where the newest git cannot be had the script says why, and fails only whoever asks for it.
func TestWithoutTheNewestGit(t *testing.T) {
	s := newScripts(t)
	for code, args := range map[int][]string{0: {"scripts/git.sh", "--or-skip", "git"}, 1: {"scripts/git.sh", "git"}} {
		if out := s.Run(code, "bash", args...); !strings.HasPrefix(out, "there is no curl: the tests with the newest git ") {
			t.Errorf("%v says %q", args, out)
		}
	}
	s.File("delivery/a.go", "package a\n")
	s.Commit()
	if out := s.Run(0, "bash", "scripts/more.sh", "--changed"); !strings.Contains(out, "more: the newest git\nthere is no curl: the tests with the newest git are skipped\n") {
		t.Error(out)
	}
}

// Where the CLIs are there, they are run after a change that matters to them.
func TestWithCLIs(t *testing.T) {
	s := newScripts(t)
	listed, err := versions()
	s.Check(err)
	for _, c := range clis {
		s.File(".cache/clis/node_modules/.bin/"+c.name(), "#!/bin/sh\necho "+listed[c.name()]+"\n")
	}
	lock, err := os.ReadFile("package-lock.json")
	s.Check(err)
	s.File(".cache/clis/installed.json", string(lock))
	s.File("worker/a.go", "package a\n")
	s.Commit()
	if out := s.Run(0, "bash", "scripts/more.sh", "--changed"); !strings.Contains(out, "more: coding CLIs\nmake test-clis\n") {
		t.Errorf("after a change of a worker:\n%s", out)
	}
}
