//go:build unix

// Package cmdtest is what tests of the command stand on: a folder that it is run in, the
// process that it is, and how it ended.
package cmdtest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
)

// Folder is a folder of its own, and the command run in it. It is HOME to the command
// and to what that starts, by which their processes are known.
type Folder struct {
	testing.TB
	Dir string
	Env []string // that the command gets beside PATH, HOME, TMPDIR and TIPSTAFF_TRUST=1
	UID uint32   // whom the command runs as; 0: whoever runs the tests

	command  func() (string, error)
	patience time.Duration
}

// New makes an empty folder. Command is the binary; patience is how long any one run of
// it may take before it counts as hanging.
func New(t testing.TB, command func() (string, error), patience time.Duration) *Folder {
	t.Helper()
	f := &Folder{TB: t, command: command, patience: patience}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	f.Check(err)
	f.Dir = dir
	t.Cleanup(f.leave)
	return f
}

// leave waits for the processes of runs that are about to end: they still write, and the
// folder is about to be removed.
func (f *Folder) leave() {
	if f.command == nil { // nobody has started anything
		return
	}
	name, err := f.command()
	for end := time.Now().Add(leaving); err == nil && f.worksHere(name) && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// leaving is how long that may take.
const leaving = 5 * time.Second

// worksHere reports whether a process of a program works in the folder, where that can be
// told.
func (f *Folder) worksHere(program string) bool {
	all, _ := filepath.Glob("/proc/[0-9]*")
	return slices.ContainsFunc(all, func(process string) bool {
		cwd, err := os.Readlink(process + "/cwd")
		if err != nil || cwd != f.Dir && !strings.HasPrefix(cwd, f.Dir+"/") {
			return false
		}
		exe, err := os.Readlink(process + "/exe")
		return err == nil && exe == program
	})
}

// Unpack writes the files of a txtar archive.
func (f *Folder) Unpack(archive string) {
	f.Helper()
	for _, file := range txtar.Parse([]byte(archive)).Files {
		f.Write(file.Name, string(file.Data))
	}
}

// Check ends the test if there is an error.
func (f *Folder) Check(err error) {
	if err != nil {
		f.Helper()
		f.Fatal(err)
	}
}

// Path is that of something in the folder.
func (f *Folder) Path(elem ...string) string {
	return filepath.Join(append([]string{f.Dir}, elem...)...)
}

// Write writes a file, and makes the folders it stands in.
func (f *Folder) Write(name, content string) {
	f.Helper()
	f.Check(os.MkdirAll(filepath.Dir(f.Path(name)), 0o755))
	f.Check(os.WriteFile(f.Path(name), []byte(content), 0o644))
}

// Read is a file's content, "" if there is none.
func (f *Folder) Read(name string) string {
	f.Helper()
	b, err := os.ReadFile(f.Path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.Fatal(err)
	}
	return string(b)
}

// Until calls done until it is true, and fails the test when that takes too long.
func (f *Folder) Until(what string, done func() bool) {
	f.Helper()
	for deadline := time.Now().Add(f.patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			f.Fatalf("waited in vain for %s", what)
		}
	}
}
