package flowtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// sleeping: timers and the recorded time.
func sleeping(t *testing.T, open opener) {
	t.Run("a sleep is not begun anew", func(t *testing.T) { sleepSurvives(t, open) })
	t.Run("a short sleep does not park", func(t *testing.T) { shortSleep(t, open) })
	t.Run("no step of the clock ends a sleep early", func(t *testing.T) { clockStep(t, open) })
	t.Run("the recorded time follows the clock", func(t *testing.T) { timeFollows(t, open) })
	t.Run("the recorded time never falls", func(t *testing.T) { timeNeverFalls(t, open) })
}

func sleepSurvives(t *testing.T, open opener) {
	r := newRig(t, open, program(func(fc flow.Context) error {
		if err := fc.Sleep(time.Hour); err != nil {
			return err
		}
		return do(fc, call(flow.Once, "x", 1))
	}))
	r.crash(killAt(r, KillBefore, func(w Write) bool { return w.Op == "park" }))
	set := r.journal().of("timer.set")
	if len(set) != 1 {
		t.Fatalf("%d timers are set, want 1%v", len(set), r.journal())
	}
	until := read(set[0]).Until
	r.clock.Step(40 * time.Minute)
	out := r.want(flow.ParkedRun)
	if !out.WakeAt.Equal(until) || !read(r.journal().of("run.parked")[0]).WakeAt.Equal(until) {
		t.Fatalf("it wakes at %v, want %v%v", out.WakeAt, until, r.journal())
	}
	r.clock.Step(2 * time.Hour)
	out = r.want(flow.Completed)
	fired := r.journal().of("timer.fired")
	if len(fired) != 1 || len(r.journal().of("timer.set")) != 1 || read(fired[0]).T.Before(until) {
		t.Fatalf("the sleep was begun anew or ended early%v", r.journal())
	}
	r.agree(out)
}

func shortSleep(t *testing.T, open opener) {
	r := newRig(t, open, program(func(fc flow.Context) error { return fc.Sleep(20 * time.Millisecond) }))
	begin := time.Now()
	out := r.want(flow.Completed)
	if took := time.Since(begin); took < 20*time.Millisecond {
		t.Errorf("a sleep of 20 ms took %v", took)
	}
	r.agree(out)
}

func clockStep(t *testing.T, open opener) {
	const nap = 150 * time.Millisecond
	r := newRig(t, open, program(func(fc flow.Context) error { return fc.Sleep(nap) }))
	begin := time.Now()
	d := r.start(r.bed.Log())
	r.until("timer.set", func(j journal) bool { return len(j.of("timer.set")) > 0 })
	r.clock.Step(time.Hour)
	out := d.wait()
	r.check(out, flow.Completed)
	if took := time.Since(begin); took < nap {
		t.Errorf("a sleep of %v ended after %v when the clock was set on", nap, took)
	}
	r.agree(out)
}

func timeFollows(t *testing.T, open opener) {
	var r *rig
	var before, now, after time.Time
	r = newRig(t, open, program(func(fc flow.Context) error {
		if err := do(fc, call(flow.Read, "a", 1)); err != nil {
			return err
		}
		before = r.clock.Now()
		now = fc.Now()
		after = r.clock.Now()
		return nil
	}))
	r.world.Answer("root/a", func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		<-time.After(50 * time.Millisecond) // a call that takes its time
		return flow.Done{Value: a.Input}, nil
	})
	r.want(flow.Completed)
	if now.Before(before) || now.After(after) {
		t.Errorf("Now is %v, the clock showed %v to %v", now, before, after)
	}
}

func timeNeverFalls(t *testing.T, open opener) {
	var r *rig
	r = newRig(t, open, program(func(fc flow.Context) error {
		var last time.Time
		for k := range 4 {
			now := fc.Now()
			if now.Before(last) {
				return fmt.Errorf("time fell from %v to %v", last, now)
			}
			if now.Location() != time.UTC {
				return fmt.Errorf("%v is not UTC", now)
			}
			r.see("now", now.UnixNano())
			last = now
			if err := fc.At(fmt.Sprint("at-", k)).Go(flow.Group{}, flow.Branch{Run: func(fc flow.Context) error {
				_, err := fc.Wait(question("g"))
				return err
			}}); err != nil {
				return err
			}
		}
		return nil
	}))
	for range 4 {
		r.want(flow.ParkedRun)
		r.clock.Step(-24 * time.Hour)
		r.answerAll()
	}
	r.agree(r.want(flow.Completed))
}
