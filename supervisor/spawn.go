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

// How a process is ended: it is left Grace after its input was closed, then Grace
// after SIGTERM, and is killed. Together with what killing takes this stays under
// five seconds.
const (
	// Grace is the usual time between asking a program to end and killing it.
	Grace     = 2 * time.Second
	killLimit = 900 * time.Millisecond
	// drainLimit is how long output is still read after the program has ended: a
	// descendant may hold the pipe open.
	drainLimit = 500 * time.Millisecond
	// drainReaped is how long it is read after nothing is left that could write: the reader
	// may be slow.
	drainReaped = 5 * time.Second
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
	// Reap puts a process of ours between us and the program, which ends everything
	// that the program started when the program ends, and when we do. It takes effect
	// on Linux. Without it, a descendant that left the program's group and environment
	// is found late, or not at all if we are killed.
	Reap bool
	// WideOutput gives its outputs pipes of 1 MiB, where the system allows it: some
	// programs exit without waiting for their output to be read, and lose what does not fit.
	WideOutput bool
}

// Process is a program that was started, in a session of its own, with pipes for
// what it reads and writes. It must be closed.
//
// It ends with us, even if we are killed, where the system can do that. Whatever
// it has started is ended when it ends: everything if it has a reaper (see [Command]),
// else its group, and by a marker in their environment those that left it. One that was
// started with an empty environment too, in another session, is then found if this
// process has called [Adopt]: at the latest when no other program of ours is left.
type Process struct {
	cmd             *exec.Cmd // the program, or its reaper
	stdin           *os.File
	stdout, stderr  Outlet
	identity        Identity
	start           int64   // of cmd, where the system tells
	reaper          *reaper // nil: it has none
	exited, gone    chan struct{}
	exit            Exit   // valid when exited is closed
	left, survivors []Left // valid when gone is closed

	mu     sync.Mutex
	reaped bool // the pid of cmd, and of its group, may be another's
}

// Identity tells one started program from every other, for as long as it or what it
// has started lives.
type Identity struct {
	Pid    int    `json:"pid"`
	Start  int64  `json:"start_time"` // in the kernel's ticks since boot; 0: the system does not tell
	Boot   string `json:"boot_id"`
	PidNS  string `json:"pid_ns,omitempty"`
	Spawn  string `json:"spawn"`            // that everything it starts carries in its environment
	Cgroup string `json:"cgroup,omitempty"` // folder of the cgroup that is its own; "": it has none
}

// Exit is how a program ended. A code above 128 is a code: a shell tells so of a signal
// that ended its child, and other programs use them as they like.
type Exit struct {
	Code   int    `json:"code"`             // 0 if a signal ended it
	Signal string `json:"signal,omitempty"` // "SIGTERM"; "": it ended by itself
}

// Left is a process that a program has left behind.
type Left struct {
	Pid  int    `json:"pid"`
	Comm string `json:"comm"` // as it calls itself
}

// Spawn starts a program.
func Spawn(c Command) (*Process, error) {
	p := &Process{exited: make(chan struct{}), gone: make(chan struct{})}
	p.identity = Identity{Boot: bootID(), PidNS: pidNamespace(), Spawn: rand.Text()}
	p.cmd = &exec.Cmd{Path: c.Path, Args: c.Args, Dir: c.Dir, Env: append(c.Env[:len(c.Env):len(c.Env)], spawnMarker+p.identity.Spawn), SysProcAttr: sysProcAttr()}
	theirs, err := p.pipes(c)
	if err != nil {
		return nil, err
	}
	if c.Reap && mayReap {
		err = p.beginReaped(c)
	} else {
		started := make(chan error, 1)
		go p.live(started)
		err = <-started
	}
	closeAll(theirs)
	if err != nil {
		closeAll([]*os.File{p.stdin, p.stdout.file, p.stderr.file})
		return nil, err
	}
	return p, nil
}

// Stdin is what the program reads. Closing it asks the program to end.
func (p *Process) Stdin() *os.File { return p.stdin }

// Stdout is what the program writes to its standard output.
func (p *Process) Stdout() *Outlet { return &p.stdout }

// Stderr is what it writes to its standard error.
func (p *Process) Stderr() *Outlet { return &p.stderr }

// Identity is known from the start, before anything was read.
func (p *Process) Identity() Identity { return p.identity }

// Exited is closed when the program itself has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Done is closed when nothing is left of the program and of what it has started, or
// nothing that can be ended.
func (p *Process) Done() <-chan struct{} { return p.gone }

// Wait waits until nothing is left of the program and of what it has started, or
// nothing that can be ended: see [Process.Survivors].
func (p *Process) Wait() Exit {
	<-p.gone
	return p.exit
}

// Exit is known when Exited is closed.
func (p *Process) Exit() Exit { return p.exit }

// State says how the program ended: "exit status 1", "signal: killed". It is
// known when Exited is closed.
func (p *Process) State() string { return p.exit.String() }

// Leftover is what the program had started and not ended, and was ended for it. It is
// known when Done is closed, of programs with a reaper.
func (p *Process) Leftover() []Left { return p.left }

// Survivors is what could not be ended: it hangs in the kernel. Known when Done is
// closed.
func (p *Process) Survivors() []Left { return p.survivors }

// Stop asks the program, and no other process, to end. After grace everything is killed
// that has not ended by then. Stop waits until the program has ended, but not for long
// after that; with a reaper, until nothing is left.
func (p *Process) Stop(grace time.Duration) {
	if p.reaper != nil {
		p.reaper.stop(grace)
		if !within(grace+reapLimit, p.gone) {
			p.endStalled()
		}
		return
	}
	p.signal(syscall.SIGTERM, false)
	if within(grace, p.exited) {
		return
	}
	p.signal(syscall.SIGKILL, true)
	if !within(killLimit, p.exited) {
		p.drain(drainLimit) // it hangs in the kernel: its readers need not wait for it
	}
}

// Close ends the program and everything it started, and returns when nothing is
// left. It gives the program time to end by itself; more than five seconds it
// does not take, unless something cannot be ended. It may be called more than once.
func (p *Process) Close() error {
	_ = p.stdin.Close() // it may be closed already
	defer closeAll([]*os.File{p.stdout.file, p.stderr.file})
	if within(Grace, p.gone) {
		return p.orphans()
	}
	p.Stop(Grace)
	if within(killLimit, p.gone) {
		return p.orphans()
	}
	return fmt.Errorf("process %d was killed and has not ended", p.identity.Pid)
}

// orphans is the error of a program that left something behind which cannot be ended.
func (p *Process) orphans() error {
	if len(p.survivors) == 0 {
		return nil
	}
	return fmt.Errorf("process %d (%s) was killed and has not ended", p.survivors[0].Pid, p.survivors[0].Comm)
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
	if err == nil {
		p.identity.Pid, p.identity.Start = p.cmd.Process.Pid, p.start
	}
	started <- err
	if err != nil {
		return
	}
	defer close(p.gone)
	_ = p.wait() // how it ended is in its state
	p.forget()
	p.exit = exitOf(p.cmd.ProcessState)
	p.drain(drainLimit)
	close(p.exited)
	p.endRest()
}

// endRest ends what the program left behind and can be found from outside.
func (p *Process) endRest() {
	if childless() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), sweepLimit)
	defer cancel()
	_, _ = endMarked(ctx, bySpawn(p.identity.Spawn)) // what is left then hangs in the kernel, or cannot be seen on this system
	_, _ = endAdopted(ctx)
}

// signal signals the program, or its group.
func (p *Process) signal(s syscall.Signal, group bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pid := p.cmd.Process.Pid
	if group {
		pid = -pid
	}
	if !p.reaped {
		_ = syscall.Kill(pid, s) // no error: it has ended
	}
}

// drain lets what is still in the pipes be read, and no more.
func (p *Process) drain(limit time.Duration) {
	p.stdout.drain(limit)
	p.stderr.drain(limit)
}

// pipes makes the pipes; theirs are the program's ends.
func (p *Process) pipes(c Command) (theirs []*os.File, err error) {
	var ours []*os.File
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(append(theirs, ours...))
			return nil, errors.Join(errors.New("no pipe can be made"), err)
		}
		if len(ours) == 0 {
			r, w = w, r
		} else if c.WideOutput {
			widen(w)
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	p.stdin, p.stdout.file, p.stderr.file = ours[0], ours[1], ours[2]
	p.cmd.Stdout, p.cmd.Stderr = theirs[1], theirs[2]
	if !c.NoInput { // else it is the null device
		p.cmd.Stdin = theirs[0]
	}
	return theirs, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
