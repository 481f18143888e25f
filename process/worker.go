package process

import (
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
	started, err := supervisor.Spawn(supervisor.Command{Path: p.Path, Args: p.Args, Dir: p.Dir, Env: p.Env, NoInput: len(p.Input) == 0, Reap: true})
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
	id := p.Process.Identity()
	return tipstaff.ProcessIdentity{Pid: id.Pid, Start: id.Start, Boot: id.Boot}
}

func (p workerProcess) Stdout() io.Reader        { return p.Process.Stdout() }
func (p workerProcess) Stderr() io.Reader        { return p.Process.Stderr() }
func (p workerProcess) Stop(grace time.Duration) { p.Process.Stop(grace) }

func (p workerProcess) Wait() worker.Ended {
	exit := p.Process.Wait()
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
