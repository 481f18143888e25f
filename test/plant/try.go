package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A trial plants bugs in the tree at root.
type trial struct {
	root    string
	scratch string            // "": none is needed yet
	sound   map[string]string // test binaries without a bug, by package and level
}

func (t *trial) close() error { return os.RemoveAll(t.scratch) }

// A finding names the test that failed with a bug.
type finding struct {
	suite suite
	test  string
	took  time.Duration // from the first suite on, what was compiled included
}

// patience bounds a suite. A bug may make a test hang, which finds it.
func (s suite) patience() string {
	if s.builds() || s.level == race {
		return "-timeout=5m"
	}
	return "-timeout=45s"
}

// try plants a bug and returns what finds it.
func (t *trial) try(ctx context.Context, b bug) (finding, error) {
	scratch, err := os.MkdirTemp("", "tipstaff-plant-")
	if err != nil {
		return finding{}, err
	}
	defer os.RemoveAll(scratch)
	overlay, err := b.overlay(t.root, scratch)
	if err != nil {
		return finding{}, err
	}
	began := time.Now()
	for _, s := range b.suites {
		if s.builds() { // the command, and would take it for a failure of its own if that cannot be done
			if out, err := command(ctx, t.root, overlay, suite{}, "build", "-trimpath", "./"+filepath.Dir(b.file)).CombinedOutput(); err != nil {
				return finding{}, fmt.Errorf("it does not compile: %w\n%s", err, out)
			}
		}
		test, err := failing(ctx, t.root, overlay, s)
		if err != nil {
			return finding{}, err
		}
		if test == "" {
			continue
		}
		found := finding{s, test, time.Since(began)}
		if err := t.passes(ctx, s); err != nil { // what fails by itself has found nothing
			return finding{}, fmt.Errorf("%s of %s failed, and does so without the bug: %w", test, s.pkg, err)
		}
		if costly := s.level == processes || s.level == race; costly != (b.only != "") || costly && b.only != s.level {
			return finding{}, fmt.Errorf("%s of %s found it: set only, which is %q, to say whether a lesser suite can", found.test, s.pkg, b.only)
		}
		return found, nil
	}
	return finding{}, errors.New("NOT FOUND: no suite fails; write the test that is missing")
}

// overlay writes the bug's file, and what tells the go command to read it.
func (b bug) overlay(root, scratch string) (string, error) {
	text, err := b.planted(root)
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(filepath.Join(root, b.file))
	if err != nil {
		return "", err
	}
	copied := filepath.Join(scratch, filepath.Base(b.file))
	content, err := json.Marshal(map[string]map[string]string{"Replace": {original: copied}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(scratch, "overlay.json")
	return overlay, errors.Join(os.WriteFile(copied, text, 0o600), os.WriteFile(overlay, content, 0o600))
}

// command returns a go command that sees the overlay, if there is one, as do all go commands
// that its tests start. It compiles as the release does; a suite under the race detector, as
// make test does.
func command(ctx context.Context, root, overlay string, s suite, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = root
	c.WaitDelay = 10 * time.Second                                // for children that hold the output
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // a binary without the bug
		return strings.HasPrefix(v, "TIPSTAFF_BINARY=")
	})
	c.Env = append(c.Env, s.env...)
	if overlay != "" {
		c.Env = append(c.Env, "GOFLAGS="+goFlags()+" '-overlay="+overlay+"'")
	}
	cgo := "CGO_ENABLED=0"
	if s.level == race { // which cannot do without
		cgo = "CGO_ENABLED=1"
	}
	c.Env = append(c.Env, cgo)
	return c
}

// together has a command end with what it has started: a go command that is killed would
// leave its test running.
func together(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 10 * time.Second // for others that hold the output
}

// goFlags returns the flags that every go command has here, from the environment or from what
// go env -w has written.
var goFlags = sync.OnceValue(func() string {
	out, _ := exec.Command("go", "env", "GOFLAGS").Output() // without it there are none
	return strings.TrimSpace(string(out))
})

// failing runs a suite and returns the first test that fails; "": none does.
func failing(ctx context.Context, root, overlay string, s suite) (string, error) {
	args := append([]string{"test", "-json", "-vet=off", "-short", "-failfast", "-count=1", s.patience(), "-run=" + s.run}, s.flags()...)
	c := command(ctx, root, overlay, s, append(args, "./"+s.pkg)...)
	var out, complaint bytes.Buffer
	c.Stdout, c.Stderr = &out, &complaint
	ended := c.Run()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	r, err := readReport(&out)
	switch {
	case err != nil:
		return "", fmt.Errorf("go test of %s: %w\n%s", s.pkg, err, complaint.String())
	case r.broken:
		return "", fmt.Errorf("the tests of %s do not compile:\n%s%s", s.pkg, r.said, complaint.String())
	case r.ran == 0:
		return "", fmt.Errorf("no test of %s was run by -run %s\n%s", s.pkg, s.run, complaint.String())
	case r.failed != "":
		return r.failed, nil
	case ended != nil:
		return "", fmt.Errorf("%s failed, but none of its tests did: %w\n%s%s", s.pkg, ended, r.said, complaint.String())
	}
	return "", nil
}

// passes runs a suite without a bug, and returns why it fails. The tests of a package are
// compiled once.
func (t *trial) passes(ctx context.Context, s suite) (err error) {
	if t.scratch == "" {
		if t.scratch, err = os.MkdirTemp("", "tipstaff-plant-"); err != nil {
			return err
		}
	}
	key := s.pkg
	if s.level == race {
		key += " raced"
	}
	binary := t.sound[key]
	if binary == "" {
		binary = filepath.Join(t.scratch, strconv.Itoa(len(t.sound))+".test")
		args := append([]string{"test", "-c", "-vet=off", "-o=" + binary}, s.flags()...)
		if out, err := command(ctx, t.root, "", s, append(args, "./"+s.pkg)...).CombinedOutput(); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		t.sound[key] = binary
	}
	c := exec.CommandContext(ctx, binary, "-test.short", "-test.failfast", strings.Replace(s.patience(), "-", "-test.", 1), "-test.run="+s.run)
	c.Dir = filepath.Join(t.root, s.pkg)
	c.Env = command(ctx, t.root, "", s).Env
	together(c)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// flags returns those of the release or, under the race detector, those that the Makefile
// exports, so that nothing is compiled anew.
func (s suite) flags() []string {
	if s.level != race {
		return []string{"-trimpath"}
	}
	if flags := strings.Fields(os.Getenv("RACE")); len(flags) > 0 {
		return flags
	}
	return []string{"-race"}
}

// A report sums up what go test -json has said.
type report struct {
	ran    int    // tests that ended, and were not skipped
	failed string // the first test, or its first subtest
	broken bool   // something does not compile
	said   string // outside of tests
}

// readReport reads what go test -json prints. A subtest ends before its test does, so the
// first failure is the innermost.
func readReport(in io.Reader) (r report, err error) {
	var begun []string // tests that have not ended
	for dec := json.NewDecoder(in); ; {
		var e struct{ Action, Test, Output string }
		if err := dec.Decode(&e); err == io.EOF {
			if r.failed == "" && len(begun) > 0 { // its process ended in the middle of it
				r.ran, r.failed = r.ran+1, begun[len(begun)-1]
			}
			return r, nil
		} else if err != nil {
			return r, err
		}
		switch e.Action {
		case "run":
			begun = append(begun, e.Test)
		case "pass", "fail", "skip":
			begun = slices.DeleteFunc(begun, func(name string) bool { return name == e.Test })
		}
		switch {
		case e.Action == "build-fail":
			r.broken = true
		case e.Action == "build-output", e.Action == "output" && e.Test == "":
			r.said += e.Output
		case e.Test != "" && (e.Action == "pass" || e.Action == "fail"):
			r.ran++
			if e.Action == "fail" && r.failed == "" {
				r.failed = e.Test
			}
		}
	}
}
