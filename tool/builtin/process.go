package builtin

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	killGrace = 2 * time.Second // between SIGTERM and SIGKILL
	// clearLimit is how long the rest of a killed group is waited for.
	clearLimit = time.Second
	// drainLimit is how long output is still read after the group has ended: a
	// descendant that left the group may hold the pipe open.
	drainLimit = 500 * time.Millisecond
)

// process is one run of a program in a group of its own.
type process struct {
	cmd   *exec.Cmd
	stdin string
	emit  func(Output) // what it prints, in pieces; nil: nobody listens
}

// ended is what is known of a process that is gone.
type ended struct {
	code           int
	stdout, stderr string
	truncated      bool
	killed         bool // it was ended because ctx ended
}

// run starts the program and returns when no process of its group is left. Its
// error means that nothing was started.
func (p *process) run(ctx context.Context) (ended, error) {
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := p.pipes()
	if err != nil {
		return ended{}, err
	}
	input, err := p.input()
	if err != nil {
		out.abandon()
		return ended{}, err
	}
	if err := p.cmd.Start(); err != nil {
		out.abandon()
		input.Close()
		return ended{}, err
	}
	input.Close()
	out.collect(p.emit)

	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = p.cmd.Wait() // how it ended is in ProcessState
	}()
	killed := p.await(ctx, exited)
	p.clear()
	e := out.finish()
	e.killed = killed
	e.code = exitCode(p.cmd.ProcessState)
	return e, nil
}

// await returns when the program has exited, ending its group when ctx ends.
func (p *process) await(ctx context.Context, exited <-chan struct{}) (killed bool) {
	select {
	case <-exited:
		return false
	case <-ctx.Done():
	}
	_ = p.signal(syscall.SIGTERM) // a group that is gone has exited
	grace := time.NewTimer(killGrace)
	defer grace.Stop()
	select {
	case <-exited:
	case <-grace.C:
		_ = p.signal(syscall.SIGKILL)
		<-exited
	}
	return true
}

// signal reaches the whole group.
func (p *process) signal(s syscall.Signal) error { return syscall.Kill(-p.cmd.Process.Pid, s) }

// clear ends whoever is left of the group. A killed process is gone only when it
// has been scheduled once more, and whoever inherited it has taken note: a group
// that nobody takes note of is left after clearLimit, being dead.
func (p *process) clear() {
	for began := time.Now(); p.signal(syscall.SIGKILL) == nil && time.Since(began) < clearLimit; {
		time.Sleep(time.Millisecond)
	}
}

func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// input makes the program's standard input. The text is written by a goroutine
// that ends when the program does not read on.
func (p *process) input() (io.Closer, error) {
	if p.stdin == "" {
		null, err := os.Open(os.DevNull)
		p.cmd.Stdin = null
		return null, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.cmd.Stdin = r
	go func() {
		defer w.Close()
		_, _ = io.Copy(w, strings.NewReader(p.stdin)) // a program need not read its input
	}()
	return r, nil
}

// outputs are the two pipes that a program prints to. They are our own files, so
// that waiting for the program does not wait for whoever inherited them.
type outputs struct {
	read, write [2]*os.File
	collected   [2]*collector
	wg          sync.WaitGroup
}

func (p *process) pipes() (*outputs, error) {
	o := new(outputs)
	for i := range o.read {
		r, w, err := os.Pipe()
		if err != nil {
			o.abandon()
			return nil, err
		}
		o.read[i], o.write[i] = r, w
	}
	p.cmd.Stdout, p.cmd.Stderr = o.write[0], o.write[1]
	return o, nil
}

func (o *outputs) abandon() {
	for _, f := range append(o.read[:], o.write[:]...) {
		if f != nil {
			f.Close()
		}
	}
}

func (o *outputs) collect(emit func(Output)) {
	if each := emit; each != nil {
		var mu sync.Mutex
		emit = func(piece Output) {
			mu.Lock()
			defer mu.Unlock()
			each(piece)
		}
	}
	for i, channel := range []string{"stdout", "stderr"} {
		o.write[i].Close()
		c := newCollector(channel, emit)
		o.collected[i] = c
		o.wg.Go(func() { c.readFrom(o.read[i]) })
	}
}

// finish waits for what is still in the pipes.
func (o *outputs) finish() ended {
	deadline := time.Now().Add(drainLimit)
	for _, r := range o.read {
		if err := r.SetReadDeadline(deadline); errors.Is(err, os.ErrNoDeadline) {
			r.Close()
		}
	}
	o.wg.Wait()
	for _, r := range o.read {
		r.Close()
	}
	stdout, stderr := o.collected[0], o.collected[1]
	return ended{stdout: stdout.text(), stderr: stderr.text(), truncated: stdout.truncated || stderr.truncated}
}
