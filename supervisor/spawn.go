package supervisor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// How a process is ended: it is left closeGrace after its input was closed, then
// closeGrace after SIGTERM, and is killed. Together with what killing takes this
// stays under five seconds.
const (
	closeGrace = 2 * time.Second
	killLimit  = 900 * time.Millisecond
	// drainLimit is how long output is still read after the program has ended: a
	// descendant may hold the pipe open.
	drainLimit = 500 * time.Millisecond
)

// Command is a program to be started.
type Command struct {
	Path string   // of the program, absolute
	Args []string // the first is the program's own name
	Dir  string
	Env  []string // all of its environment, the run's markers included
	// NoInput: there is nothing to read. An empty pipe would not do: some programs take
	// any pipe for what they are to work on.
	NoInput bool
}

// Process is a program that was started, in a session of its own, with pipes for
// what it reads and writes. It must be closed.
//
// It ends with us, even if we are killed, where the system can do that. Whatever
// it has started is ended when it ends: its group, and by a marker in their
// environment those that left it. One that was started with an empty environment too,
// in another session, is found if this process has called [Adopt]: at the latest when
// no other program of ours is left.
type Process struct {
	cmd                   *exec.Cmd
	stdin, stdout, stderr *os.File
	token                 string
	start                 int64 // when it was started, where the system tells
	exited, gone          chan struct{}
	state                 string // valid when exited is closed, like code
	code                  int

	mu     sync.Mutex
	reaped bool // its pid, and that of its group, may be another's
}

// Spawn starts a program.
func Spawn(c Command) (*Process, error) {
	p := &Process{token: rand.Text(), exited: make(chan struct{}), gone: make(chan struct{})}
	p.cmd = &exec.Cmd{Path: c.Path, Args: c.Args, Dir: c.Dir, Env: append(c.Env[:len(c.Env):len(c.Env)], spawnMarker+p.token), SysProcAttr: sysProcAttr()}
	theirs, err := p.pipes(c.NoInput)
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	go p.live(started)
	err = <-started
	closeAll(theirs)
	if err != nil {
		closeAll([]*os.File{p.stdin, p.stdout, p.stderr})
		return nil, err
	}
	return p, nil
}

// Stdin is what the program reads. Closing it asks the program to end.
func (p *Process) Stdin() *os.File { return p.stdin }

// Stdout is what the program writes. It ends soon after the program, even if others
// have it open.
func (p *Process) Stdout() *os.File { return p.stdout }

// Stderr is like Stdout.
func (p *Process) Stderr() *os.File { return p.stderr }

// Exited is closed when the program itself has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// State says how the program ended: "exit status 1", "signal: killed". It is
// known when Exited is closed.
func (p *Process) State() string { return p.state }

// ExitCode is the code with which the program ended: 128 and the signal's number if a
// signal ended it. It is known when Exited is closed.
func (p *Process) ExitCode() int { return p.code }

// Stop asks a program to end that reads no input whose end would tell it, and kills it
// and its group if it does not. It waits until the program has ended, but not for long.
func (p *Process) Stop() {
	p.signal(syscall.SIGTERM)
	if within(closeGrace, p.exited) {
		return
	}
	p.signal(syscall.SIGKILL)
	if !within(killLimit, p.exited) {
		p.drain() // it hangs in the kernel: its readers need not wait for it
	}
}

// Close ends the program and everything it started, and returns when nothing is
// left. It gives the program time to end by itself; more than five seconds it
// does not take. It may be called more than once.
func (p *Process) Close() error {
	_ = p.stdin.Close() // it may be closed already
	defer closeAll([]*os.File{p.stdout, p.stderr})
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if within(closeGrace, p.gone) {
			return nil
		}
		p.signal(s)
	}
	if within(killLimit, p.gone) {
		return nil
	}
	return fmt.Errorf("process %d was killed and has not ended", p.cmd.Process.Pid)
}

func within(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// live starts the program and stays with it. The thread is kept until the
// program has ended, because the system takes its end for ours; being locked, it
// then ends with this goroutine.
func (p *Process) live(started chan<- error) {
	runtime.LockOSThread()
	err := p.begin()
	started <- err
	if err != nil {
		return
	}
	defer close(p.gone)
	p.state = "exit status 0"
	if err := p.wait(); err != nil {
		p.state = err.Error()
	}
	p.forget()
	p.code = p.cmd.ProcessState.ExitCode()
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		p.code = 128 + int(status.Signal())
	}
	p.drain()
	close(p.exited)
	if childless() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), killLimit)
	defer cancel()
	_, _ = endMarked(ctx, bySpawn(p.token)) // what is left then hangs in the kernel, or cannot be seen on this system
	_, _ = endAdopted(ctx)
}

func (p *Process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.cmd.Process.Pid, s) // no error: it has ended
	}
}

// drain lets what is still in the pipes be read, and no more.
func (p *Process) drain() {
	for _, f := range []*os.File{p.stdout, p.stderr} {
		_ = f.SetReadDeadline(time.Now().Add(drainLimit)) // an error means that it is closed
	}
}

// pipes makes the pipes; theirs are the program's ends.
func (p *Process) pipes(noInput bool) (theirs []*os.File, err error) {
	var ours []*os.File
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(append(theirs, ours...))
			return nil, errors.Join(errors.New("no pipe can be made"), err)
		}
		if len(ours) == 0 {
			r, w = w, r
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	p.stdin, p.stdout, p.stderr = ours[0], ours[1], ours[2]
	p.cmd.Stdout, p.cmd.Stderr = theirs[1], theirs[2]
	if !noInput { // else it is the null device
		p.cmd.Stdin = theirs[0]
	}
	return theirs, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
