package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cli"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/temporal"
)

// rescheduleEvery is how often a server looks for runs that the engine has lost.
const rescheduleEvery = time.Minute

// schedule has an engine schedule the drives of runs. A command that only looks needs none.
func (s *session) schedule(ctx context.Context, config *runner.Config, o cli.OpenOptions) (err error) {
	if o.Store == "" {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "an engine schedules the runs of a database, and those of this workspace are in a folder").
			WithCommand("name a database with --store or TIPSTAFF_STORE, or leave out --engine and TIPSTAFF_ENGINE")
	}
	if o.ReadOnly {
		return nil
	}
	if s.engine, err = temporal.Dial(ctx, o.Engine, temporal.Options{Getenv: os.Getenv}); err != nil {
		return unusable(err)
	}
	config.Scheduler = s.engine
	return nil
}

// work drives the runs that the engine gives to this server, until ctx ends, and sees to
// it that the engine knows all that wait.
func (s *session) work(ctx context.Context, places int, grace time.Duration, failed func(error)) error {
	go func() {
		if err := s.reschedule(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
		repeat(ctx, rescheduleEvery, s.reschedule, failed)
	}()
	host := supervisor.Self("", "").Host
	return s.engine.Work(ctx, temporal.Worker{Host: host, Places: places, Grace: grace + time.Minute, Drive: func(ctx context.Context, run string) (temporal.Outcome, error) {
		d, err := s.runner.Drive(ctx, run)
		row, rerr := s.store.Run(context.WithoutCancel(ctx), run)
		if rerr != nil {
			return temporal.Outcome{}, cmp.Or(err, rerr)
		}
		return outcome(d, err, row.Host), nil
	}})
}

// outcome says of a drive what matters to the engine. Runs that are tied to a machine are
// driven there.
func outcome(d tipstaff.Driven, err error, host string) temporal.Outcome {
	o := temporal.Outcome{Status: temporal.Interrupted, Host: host, Code: cmp.Or(d.Reason, string(tipstaff.CodeOf(err)))}
	if err == nil && d.Err != nil {
		err = d.Err
	}
	switch {
	case d.State.Terminal():
		o = temporal.Outcome{Status: temporal.Ended}
	case tipstaff.CodeOf(err) == tipstaff.Busy:
		o.Status = temporal.Busy
	case err == nil && d.Outcome == string(flow.ParkedRun):
		o.Status, o.WakeAt, o.Code = temporal.Parked, d.WakeAt, ""
	}
	return o
}

// reschedule tells the engine of runs that wait for it and that it does not know: whoever
// queued them could not reach it, or it has lost its own database.
func (s *session) reschedule(ctx context.Context) error {
	rows, err := s.store.Runs(ctx, flow.Query{Queued: true})
	if err != nil {
		return unusable(err)
	}
	hosts, runs := map[string]string{}, []string{}
	for _, row := range rows {
		hosts[row.ID], runs = row.Host, append(runs, row.ID)
	}
	for _, find := range []func(context.Context, string) ([]string, error){s.store.Due, s.runner.Pool.Strays} {
		strays, err := find(ctx, tipstaff.OriginEngine)
		if err != nil {
			return unusable(err)
		}
		runs = append(runs, strays...)
	}
	lost, err := s.engine.Unscheduled(ctx, runs)
	for _, run := range lost {
		err = errors.Join(err, s.engine.Schedule(ctx, run, hosts[run]))
	}
	return unusable(err)
}
