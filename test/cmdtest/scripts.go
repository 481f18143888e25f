//go:build unix

package cmdtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Scripts is a repository with scripts of this one that decide which tests run, on a machine
// that has no npm, and whose make only says what it is asked for.
type Scripts struct {
	testing.TB
	dir string
}

// NewScripts copies files, by their names in this repository. Tests are run two folders below
// its root.
func NewScripts(t testing.TB, names ...string) *Scripts {
	t.Helper()
	s := &Scripts{t, t.TempDir()}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join("../..", name))
		s.Check(err)
		s.File(name, string(content))
	}
	s.File("bin/make", "#!/bin/sh\necho make \"$@\"\n")
	for _, name := range []string{"bash", "cat", "cmp", "dirname", "git", "grep", "mkdir", "sed", "sh"} {
		path, err := exec.LookPath(name)
		s.Check(err)
		s.Check(os.Symlink(path, filepath.Join(s.dir, "bin", name)))
	}
	s.File(".gitignore", "/.cache/\n")
	s.Run(0, "git", "init", "-q")
	s.Commit()
	return s
}

// Check ends the test if there is an error.
func (s *Scripts) Check(err error) {
	if err != nil {
		s.Helper()
		s.Fatal(err)
	}
}

// File writes a file of the repository.
func (s *Scripts) File(name, content string) {
	s.Helper()
	path := filepath.Join(s.dir, name)
	s.Check(os.MkdirAll(filepath.Dir(path), 0o755))
	s.Check(os.WriteFile(path, []byte(content), 0o755))
}

// Read is a file of the repository, "" if there is none.
func (s *Scripts) Read(name string) string {
	content, _ := os.ReadFile(filepath.Join(s.dir, name))
	return string(content)
}

// Commit makes a commit of all there is.
func (s *Scripts) Commit() {
	s.Helper()
	s.Run(0, "git", "add", "-A")
	s.Run(0, "git", "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "a change")
}

// Run runs a program, which must end with the code, and returns what it says.
func (s *Scripts) Run(code int, name string, args ...string) string {
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
