package flowtest

import (
	"context"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// drive is one drive, in a process that may die.
type drive struct {
	r    *rig
	stop context.CancelCauseFunc
	done chan struct{}
	out  flow.Outcome
	err  error
}

// drive drives once over the log itself.
func (r *rig) drive() flow.Outcome {
	r.t.Helper()
	return r.start(r.log()).wait()
}

// start begins a drive in a process of its own, over log.
func (r *rig) start(log flow.Log) *drive {
	opts := r.opts
	engine := r.bed.Engine(belled{log, &r.bell}, &opts)
	f, ok := log.(*Faulty)
	if !ok {
		return r.begin(engine, r.world.Activity(nil))
	}
	d := r.begin(engine, r.world.Activity(f.Dead()))
	// A dead process does nothing more: what is left of it here must not linger.
	go func() {
		select {
		case <-f.Dead():
			d.stop(ErrKilled)
		case <-d.done:
		}
	}()
	return d
}

func (r *rig) begin(engine flow.Engine, act flow.Activity) *drive {
	r.forget()
	job := r.job
	act.Recall = r.recall
	job.Acts = map[string]flow.Activity{"work": act, "other": act}
	job.Finish = r.finish
	ctx, stop := context.WithCancelCause(context.Background())
	d := &drive{r: r, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(d.done)
		d.out, d.err = engine.Drive(ctx, job)
	}()
	return d
}

// wait returns the outcome; a drive that could not be driven fails the test.
func (d *drive) wait() flow.Outcome {
	d.r.t.Helper()
	if err := d.settle(); err != nil {
		d.r.t.Fatalf("the run could not be driven: %v%v", err, d.r.journal())
	}
	return d.out
}

// settle waits for a drive whose process may be dead.
func (d *drive) settle() error {
	d.r.t.Helper()
	select {
	case <-d.done:
	case <-time.After(patience):
		d.r.t.Fatalf("the drive hangs%v\n%s", d.r.journal(), stacks())
	}
	d.stop(nil)
	return d.err
}

// want drives once and checks how it ended.
func (r *rig) want(s flow.Status) flow.Outcome {
	r.t.Helper()
	out := r.drive()
	r.check(out, s)
	return out
}

func (r *rig) check(out flow.Outcome, s flow.Status) {
	r.t.Helper()
	if out.Status != s {
		r.t.Fatalf("the drive ended %s (%s, %v), want %s%v", out.Status, out.Reason, out.Err, s, r.journal())
	}
}

// crash drives in a process that dies as the faulty log was told, and recovers.
func (r *rig) crash(f *Faulty) {
	r.t.Helper()
	d := r.start(f)
	_ = d.settle() // a dead process reports nothing
	r.reopen()
}

func (r *rig) reopen() {
	r.t.Helper()
	if err := r.bed.Reopen(); err != nil {
		r.t.Fatalf("reopening: %v", err)
	}
}

// toEnd drives, answers gates and lets time pass until the run is over.
func (r *rig) toEnd() flow.Outcome {
	r.t.Helper()
	for range 200 {
		out := r.drive()
		if out.Terminal() {
			return out
		}
		r.check(out, flow.ParkedRun)
		if r.answerAll() == 0 {
			if out.WakeAt.IsZero() {
				r.t.Fatalf("parked with nothing to wait for%v", r.journal())
			}
			r.clock.StepTo(out.WakeAt)
		}
	}
	r.t.Fatalf("the run does not end%v", clipped(r.journal()))
	return flow.Outcome{}
}
