package temporal

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/tipstaff/tipstaff"
)

// Worker is what a process offers that drives runs.
type Worker struct {
	// Host names the machine. Runs that must be driven there are given to its workers alone.
	Host string
	// Places is how many runs it drives at once. 0: a thousand.
	Places int
	// Drive drives a run until it rests. When ctx ends it is to return soon, with the run
	// interrupted. An error is an interruption whose text stays here.
	Drive func(ctx context.Context, run string) (Outcome, error)
	// Grace is how long drives may take to return. 0: 30 s.
	Grace time.Duration
}

const (
	defaultPlaces = 1000
	defaultGrace  = 30 * time.Second
	busyRetry     = 5 * time.Second
	atOnce        = time.Millisecond // zero is the backoff of the policy
)

// hopeless are the codes of interruptions after which driving again comes to the same.
var hopeless = []string{string(tipstaff.ReplayMismatch), string(tipstaff.FormatNewer), "misuse"}

// Work drives the runs that are due, until ctx ends or Temporal refuses the worker for
// good. When ctx ends no more runs are taken, those that are driven are interrupted, and
// workers elsewhere go on with them at once.
func (e *Engine) Work(ctx context.Context, w Worker) error {
	if w.Grace == 0 {
		w.Grace = defaultGrace
	}
	if w.Places == 0 {
		w.Places = defaultPlaces
	}
	d := &driver{Engine: e, work: ctx, places: make(chan struct{}, w.Places), drive: w.Drive}
	fatal := make(chan error, 2)
	o := worker.Options{
		MaxConcurrentActivityExecutionSize: w.Places,
		MaxConcurrentActivityTaskPollers:   1, // what a worker that was paused has polled for is missed only by its heartbeat
		WorkerStopTimeout:                  w.Grace,
		OnFatalError:                       func(err error) { fatal <- err },
	}
	shared := worker.New(e.client, e.queue, o)
	shared.RegisterWorkflowWithOptions(drives, workflow.RegisterOptions{Name: workflowType})
	o.DisableWorkflowWorker = true
	own := worker.New(e.client, queueOf(e.queue, w.Host), o)
	var started []worker.Worker
	defer func() {
		var all sync.WaitGroup
		for _, s := range started {
			all.Go(s.Stop)
		}
		all.Wait()
	}()
	for _, s := range []worker.Worker{own, shared} {
		s.RegisterActivityWithOptions(d.activity, activity.RegisterOptions{Name: activityType})
		if err := s.Start(); err != nil {
			return e.explain(err)
		}
		started = append(started, s)
	}
	select {
	case err := <-fatal:
		return e.explain(err)
	case <-ctx.Done():
		return nil
	}
}

// driver performs the activity of one worker.
type driver struct {
	*Engine
	work   context.Context // ends when the worker is to stop
	places chan struct{}   // holds one for each drive
	drive  func(context.Context, string) (Outcome, error)
}

// activity drives a run once. How it ended is either the result, by which the workflow
// goes on, or an error, after which Temporal has it driven again from the same queue. The
// latter leaves nothing in the workflow's history, however often it happens.
func (d *driver) activity(ctx context.Context, t task) (Outcome, error) {
	driving, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(d.work, stop)()
	beating, over := context.WithCancel(ctx)
	defer over()
	go d.beat(beating, activity.GetInfo(ctx).TaskToken, stop)
	again := temporal.ApplicationErrorOptions{Category: temporal.ApplicationErrorCategoryBenign}
	out := Outcome{Status: Interrupted, Host: t.Host}
	if d.enter(driving, t) {
		var err error
		if out, err = d.drive(driving, t.Run); err != nil {
			out = Outcome{Status: Interrupted, Host: t.Host, Code: string(tipstaff.CodeOf(err))}
		}
		<-d.places
		again.NonRetryable = slices.Contains(hopeless, out.Code)
	} else {
		again.NextRetryDelay = firstRetry
	}
	switch {
	case out.Status == Ended, out.Status == Parked, out.Host != t.Host && !again.NonRetryable:
		return out, nil
	case out.Status == Busy:
		out.Code, again.NextRetryDelay = string(tipstaff.Busy), busyRetry
	case d.work.Err() != nil:
		again.NextRetryDelay = atOnce
	}
	return Outcome{}, temporal.NewApplicationErrorWithOptions(string(out.Status), out.Code, again)
}

// enter takes a place. Where all are taken, a run that others may drive is left to them.
func (d *driver) enter(ctx context.Context, t task) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case d.places <- struct{}{}:
		return true
	default:
	}
	if t.Host == "" {
		return false
	}
	select {
	case d.places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// beat tells Temporal that a drive goes on, until ctx ends, and stops the drive when
// Temporal does not want it any more. That Temporal does not answer is no reason to, as it
// would be with the heartbeats of the SDK: the lease says whose a run is.
func (e *Engine) beat(ctx context.Context, token []byte, stop func()) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		call, cancel := context.WithTimeout(ctx, beatEvery)
		err := e.client.RecordActivityHeartbeat(call, token)
		cancel()
		var gone *serviceerror.NotFound
		if errors.As(err, &gone) || temporal.IsCanceledError(err) || errors.Is(err, activity.ErrActivityPaused) || errors.Is(err, activity.ErrActivityReset) {
			stop()
			return
		}
	}
}
