package main

import (
	"context"
	"io"
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
	return workerProcess{started}, nil
}

// workerProcess is a process as workers know it.
type workerProcess struct{ *supervisor.Process }

func (p workerProcess) Identity() tipstaff.ProcessIdentity {
	return tipstaff.ProcessIdentity(p.Process.Identity())
}

func (p workerProcess) Stdout() io.Reader        { return p.Process.Stdout() }
func (p workerProcess) Stderr() io.Reader        { return p.Process.Stderr() }
func (p workerProcess) Stop(grace time.Duration) { p.Process.Stop(grace) }

func (p workerProcess) Wait() worker.Ended {
	exit := p.Process.Wait() // what it wrote is perhaps still being read
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
