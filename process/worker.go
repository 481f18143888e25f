package process

import (
	"context"
	"io"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/worker"
)

// Workers starts the CLIs of workers, each behind a reaper.
type Workers struct{}

var _ worker.Starter = Workers{}

// Containment implements [worker.Starter].
func (Workers) Containment() string { return supervisor.Containment() }

// Start implements [worker.Starter].
func (Workers) Start(p worker.Program) (worker.Process, error) {
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

func (p workerProcess) Stdout() io.Reader        { return output{p.Process.Stdout()} }
func (p workerProcess) Stderr() io.Reader        { return output{p.Process.Stderr()} }
func (p workerProcess) Stop(grace time.Duration) { p.Process.Stop(grace) }

// Wait leaves the output open: whoever reads it may be behind.
func (p workerProcess) Wait() worker.Ended {
	return worker.Ended{Exit: tipstaff.WorkerExit(p.Process.Wait()), Leftover: left(p.Leftover()), Survivors: left(p.Survivors())}
}

// output is what a program prints. It is read to its end even by a reader who is slow, and
// closed there.
type output struct{ *supervisor.Outlet }

func (o output) Read(p []byte) (int, error) {
	n, err := o.Outlet.Read(p)
	if err != nil {
		_ = o.Close()
	}
	return n, err
}

func left(all []supervisor.Left) []tipstaff.LeftProcess {
	list := make([]tipstaff.LeftProcess, 0, len(all))
	for _, l := range all {
		list = append(list, tipstaff.LeftProcess(l))
	}
	return list
}

// Sweep ends what is left of programs of workers whose owner is dead.
func Sweep(ctx context.Context, programs []tipstaff.ProcessIdentity) (ended int, err error) {
	identities := make([]supervisor.Identity, len(programs))
	for i, p := range programs {
		identities[i] = supervisor.Identity(p)
	}
	return supervisor.SweepIdentity(ctx, identities...)
}
