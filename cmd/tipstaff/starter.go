package main

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/worker"
)

// processes starts the CLIs of workers, each behind a reaper.
type processes struct{}

func (processes) Containment() string { return supervisor.Containment() }

func (processes) Start(p worker.Program) (worker.Process, error) {
	started, err := supervisor.Spawn(supervisor.Command{Path: p.Path, Args: p.Args, Dir: p.Dir, Env: p.Env, NoInput: len(p.Input) == 0, Reap: true, WideOutput: true})
	if err != nil {
		return nil, err
	}
	go func() { // it ends at the latest when the process does
		_, _ = started.Stdin().Write(p.Input)
		_ = started.Stdin().Close()
	}()
	return workerProcess{started, newOutput(started.Stdout()), newOutput(started.Stderr())}, nil
}

// workerProcess is a process as workers know it.
type workerProcess struct {
	*supervisor.Process
	out, err *output
}

// output is a pipe that tells when it was read to its end.
type output struct {
	pipe io.Reader
	once sync.Once
	end  chan struct{}
}

func newOutput(pipe io.Reader) *output { return &output{pipe: pipe, end: make(chan struct{})} }

func (o *output) Read(b []byte) (int, error) {
	n, err := o.pipe.Read(b)
	if err != nil {
		o.once.Do(func() { close(o.end) })
	}
	return n, err
}

func (p workerProcess) Identity() tipstaff.ProcessIdentity {
	return tipstaff.ProcessIdentity(p.Process.Identity())
}

func (p workerProcess) Stdout() io.Reader        { return p.out }
func (p workerProcess) Stderr() io.Reader        { return p.err }
func (p workerProcess) Stop(grace time.Duration) { p.Process.Stop(grace) }

func (p workerProcess) Wait() worker.Ended {
	exit := p.Process.Wait()
	late := time.After(supervisor.DrainLimit)
	for _, o := range []*output{p.out, p.err} { // what it printed last may still be in its pipes
		select {
		case <-o.end:
		case <-late:
		}
	}
	_ = p.Process.Close() // nothing is left but its pipes
	return worker.Ended{Exit: tipstaff.WorkerExit(exit), Leftover: left(p.Leftover()), Survivors: left(p.Survivors())}
}

func left(all []supervisor.Left) []tipstaff.LeftProcess {
	list := make([]tipstaff.LeftProcess, 0, len(all))
	for _, l := range all {
		list = append(list, tipstaff.LeftProcess(l))
	}
	return list
}

// sweepPrograms ends what is left of programs of workers.
func sweepPrograms(ctx context.Context, programs []tipstaff.ProcessIdentity) (int, error) {
	identities := make([]supervisor.Identity, len(programs))
	for i, p := range programs {
		identities[i] = supervisor.Identity(p)
	}
	return supervisor.SweepIdentity(ctx, identities...)
}
