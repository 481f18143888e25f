package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/tipstaff/tipstaff/supervisor/reap"
)

// The command is a reaper before its packages are set up, which would take many times
// as long as the reaper itself. Go sets up packages in the order of their dependencies
// and names: this fails when reap has come to need too much.
func TestReaperStartsBeforeTheRest(t *testing.T) {
	t.Parallel()
	w := emptyWorkspace(t)
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	w.Check(err)
	ours, theirs := os.NewFile(uintptr(ends[0]), "ours"), os.NewFile(uintptr(ends[1]), "theirs")
	defer ours.Close()
	var trace bytes.Buffer
	cmd := exec.Command(w.Prepare().Cmd.Path)
	cmd.Args, cmd.Env = reap.Args("", "", "/bin/sh", []string{"sh", "-c", "exit 5"}), []string{"GODEBUG=inittrace=1"}
	cmd.Stderr, cmd.ExtraFiles = &trace, []*os.File{theirs}
	w.Check(cmd.Start())
	w.Check(theirs.Close())
	said, err := io.ReadAll(ours)
	w.Check(err)
	w.Check(cmd.Wait())
	if !strings.HasPrefix(string(said), "up ") || !strings.HasSuffix(string(said), "\nexit 5\ndone\n") {
		t.Errorf("it said %q", said)
	}
	if n := strings.Count(trace.String(), "\ninit "); n < 5 || n > 60 {
		t.Errorf("%d packages were set up before it:\n%s", n, trace.String())
	}
	for _, late := range []string{"init github.com/tipstaff/", "init fmt ", "init encoding/json ", "init net ", "init regexp "} {
		if strings.Contains(trace.String(), late) {
			t.Errorf("before it came %s", late)
		}
	}
}
