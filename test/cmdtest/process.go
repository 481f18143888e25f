//go:build unix

package cmdtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Process is a command that runs.
type Process struct {
	Folder   *Folder
	Cmd      *exec.Cmd
	Out, Err bytes.Buffer
	Ended    chan struct{} // closed when it has
	Begun    time.Time

	args    string
	waitErr error
	stop    context.CancelFunc
}

// Prepare makes a command whose streams are yet to be joined.
func (f *Folder) Prepare(args ...string) *Process {
	f.Helper()
	name, err := f.command()
	f.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), f.patience)
	f.Cleanup(cancel)
	p := &Process{stop: cancel, Folder: f, Cmd: exec.CommandContext(ctx, name, args...), Ended: make(chan struct{}), args: strings.Join(args, " ")}
	p.Cmd.Dir = f.Dir
	p.Cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.Dir, "TMPDIR=" + os.TempDir(), "TIPSTAFF_TRUST=1", raceOptions + "=" + os.Getenv(raceOptions)}, f.Env...)
	p.Cmd.WaitDelay = 10 * time.Second // for streams that a left-over child holds
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if f.UID != 0 {
		p.Cmd.SysProcAttr.Credential = &syscall.Credential{Uid: f.UID, Gid: f.UID}
	}
	return p
}

// Start starts the command, and keeps what it says.
func (f *Folder) Start(args ...string) *Process {
	f.Helper()
	p := f.Prepare(args...)
	p.Listen()
	p.Begin()
	return p
}

// Run runs the command to its end.
func (f *Folder) Run(args ...string) Result {
	f.Helper()
	return f.Start(args...).Wait()
}

// Must runs the command to its end, which must have the exit code.
func (f *Folder) Must(code int, args ...string) Result {
	f.Helper()
	return f.Start(args...).Must(code)
}

// Listen keeps what the process will say.
func (p *Process) Listen() { p.Cmd.Stdout, p.Cmd.Stderr = &p.Out, &p.Err }

// Begin starts what was prepared.
func (p *Process) Begin() {
	p.Folder.Helper()
	p.Folder.Check(p.Try())
}

// Try is Begin for a process that perhaps cannot be started here.
func (p *Process) Try() error {
	p.Begun = time.Now()
	if err := p.Cmd.Start(); err != nil {
		return err
	}
	go func() {
		p.waitErr = p.Cmd.Wait()
		close(p.Ended)
	}()
	p.Folder.Cleanup(func() { // before its folder is removed
		p.stop()
		<-p.Ended
	})
	return nil
}

// Wait returns when the process has ended.
func (p *Process) Wait() Result {
	p.Folder.Helper()
	<-p.Ended
	if !IsExit(p.waitErr) {
		p.Folder.Fatalf("tipstaff %s: %v\nstderr:\n%s", p.args, p.waitErr, Clip(p.Err.String()))
	}
	r := Result{p.args, p.Cmd.ProcessState.ExitCode(), p.Out.String(), p.Err.String(), time.Since(p.Begun)}
	if strings.Contains(r.Err, "goroutine ") || strings.Contains(r.Err, "DATA RACE") {
		p.Folder.Errorf("it crashed\n%v", r)
	}
	return r
}

// Must waits for the end, which must have the exit code.
func (p *Process) Must(code int) Result {
	p.Folder.Helper()
	r := p.Wait()
	if r.Code != code {
		p.Folder.Fatalf("want exit code %d\n%v", code, r)
	}
	return r
}

// IsExit says of what Wait of a command returned whether the command has ended by
// itself or by a signal.
func IsExit(err error) bool {
	var exit *exec.ExitError
	return err == nil || errors.As(err, &exit)
}

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.Ended:
		return false
	default:
		return true
	}
}

// Signal sends a signal to the process alone, not to its group.
func (p *Process) Signal(s os.Signal) {
	p.Folder.Helper()
	if err := p.Cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.Folder.Fatal(err)
	}
}

// Kill is kill -9. It reports whether the process still ran.
func (p *Process) Kill() (killed bool) {
	p.Folder.Helper()
	p.Signal(syscall.SIGKILL)
	<-p.Ended
	status, ok := p.Cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Result is how a command ended.
type Result struct {
	Args     string
	Code     int // -1: a signal ended it
	Out, Err string
	Took     time.Duration
}

func (r Result) String() string {
	return fmt.Sprintf("tipstaff %s: exit code %d after %s\nstdout:\n%s\nstderr:\n%s", r.Args, r.Code, r.Took.Round(time.Millisecond), Clip(r.Out), Clip(r.Err))
}

// Says fails the test unless the output has each of the texts.
func (r Result) Says(t testing.TB, texts ...string) Result {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(r.Out+r.Err, text) {
			t.Errorf("no word of %q in\n%v", text, r)
		}
	}
	return r
}

// Clip is a text without its middle, if it is long.
func Clip(s string) string {
	if len(s) > 4000 {
		return s[:2000] + "\n…\n" + s[len(s)-2000:]
	}
	return s
}
