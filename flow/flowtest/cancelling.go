package flowtest

import (
	"slices"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// cancelling: a cancel ends the run, whatever it is doing.
func cancelling(t *testing.T, open opener) {
	t.Run("cancel while running", func(t *testing.T) { cancelRunning(t, open) })
	t.Run("cancel while parked", func(t *testing.T) { cancelParked(t, open) })
	t.Run("cancel while waiting beside a running branch", func(t *testing.T) { cancelWaiting(t, open) })
	t.Run("cancel while sleeping", func(t *testing.T) { cancelSleeping(t, open) })
	t.Run("cancel while retrying", func(t *testing.T) { cancelRetrying(t, open) })
	t.Run("cancel against parking", func(t *testing.T) { cancelAgainstParking(t, open) })
	t.Run("cancel after the last call has no effect", func(t *testing.T) { cancelTooLate(t, open) })
	t.Run("cancel awaits once and records it", func(t *testing.T) { cancelAwaitsOnce(t, open) })
	t.Run("cancel leaves once in doubt at its deadline", func(t *testing.T) { cancelDeadline(t, open) })
}

// cancelled checks the end of a run that was cancelled while the program was at
// the place it notes as "x".
func (r *rig) cancelled(out flow.Outcome) {
	r.t.Helper()
	r.check(out, flow.Cancelled)
	if got := r.sights()["x"]; got != "cancelled\n" {
		r.t.Fatalf("the program saw %q, want cancelled%v", got, r.journal())
	}
	if r.journal().ended() != "intent.cancel" {
		r.t.Fatalf("the journal ends otherwise%v", r.journal())
	}
	r.agree(out)
}

// seeing notes what one step answers as "x".
func seeing(r **rig, s step) flow.Func {
	return program(func(fc flow.Context) error {
		err := s(fc)
		(*r).see("x", coded(err))
		return err
	})
}

func cancelRunning(t *testing.T, open opener) {
	bed := open(t)
	for _, class := range []flow.Class{flow.Read, flow.Idempotent} {
		t.Run(string(class), func(t *testing.T) {
			var r *rig
			r = newRun(t, bed, seeing(&r, calling(call(class, "a", 1))))
			r.world.Answer("root/a", untilEnded)
			d := r.start(r.bed.Log())
			r.await(1, "root/a")
			r.cancel(10 * time.Second)
			r.cancelled(d.wait())
			if n := len(r.journal().of("effect.finished")); n != 0 {
				t.Errorf("a call that was cut off has an outcome%v", r.journal())
			}
		})
	}
}

func cancelParked(t *testing.T, open opener) {
	var r *rig
	r = newRig(t, open, seeing(&r, asking(question("g"))))
	r.want(flow.ParkedRun)
	r.cancel(10 * time.Second)
	r.cancelled(r.drive())
	if open := r.journal().open(); len(open) != 0 {
		t.Errorf("gates are open after the end: %+v", open)
	}
}

func cancelWaiting(t *testing.T, open opener) {
	var r *rig
	r = newRig(t, open, program(func(fc flow.Context) error {
		return fc.Go(flow.Group{},
			flow.Branch{Name: "waiter", Run: func(fc flow.Context) error {
				_, err := fc.Wait(question("g"))
				r.see("x", coded(err))
				return err
			}},
			flow.Branch{Name: "reader", Run: func(fc flow.Context) error { return do(fc, call(flow.Read, "a", 1)) }})
	}))
	r.world.Answer("root/reader/a", untilEnded)
	d := r.start(r.bed.Log())
	r.untilKind("policy.gate", "root/waiter/g")
	r.await(1, "root/reader/a")
	r.cancel(10 * time.Second)
	r.cancelled(d.wait())
}

func cancelSleeping(t *testing.T, open opener) {
	bed := open(t)
	sleeping := func(d time.Duration) step {
		return func(fc flow.Context) error { return fc.Sleep(d) }
	}
	t.Run("in the drive", func(t *testing.T) {
		var r *rig
		r = newRun(t, bed, seeing(&r, sleeping(900*time.Millisecond)))
		d := r.start(r.bed.Log())
		r.until("timer.set", func(j journal) bool { return len(j.of("timer.set")) > 0 })
		r.cancel(10 * time.Second)
		r.cancelled(d.wait())
		if n := len(r.journal().of("timer.fired")); n != 0 {
			t.Errorf("the sleep ended by itself%v", r.journal())
		}
	})
	t.Run("parked", func(t *testing.T) {
		var r *rig
		r = newRun(t, bed, seeing(&r, sleeping(time.Hour)))
		r.want(flow.ParkedRun)
		r.cancel(10 * time.Second)
		r.cancelled(r.drive())
	})
}

func cancelRetrying(t *testing.T, open opener) {
	c := retrying(flow.Read, "a", 5)
	c.Retry.Backoff = 900 * time.Millisecond
	var r *rig
	r = newRig(t, open, seeing(&r, calling(c)))
	r.world.Answer("root/a", failingUntil(9))
	d := r.start(r.bed.Log())
	r.untilKind("effect.failed", "root/a")
	r.cancel(10 * time.Second)
	r.cancelled(d.wait())
	if n := r.world.Count("root/a"); n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
}

func cancelAgainstParking(t *testing.T, open opener) {
	bed := open(t)
	for i := range times(200) {
		var r *rig
		r = newRun(t, bed, seeing(&r, asking(question("g"))))
		d := r.start(bed.Log())
		r.untilKind("policy.gate", "root/g")
		spin(i % 40)
		r.cancel(10 * time.Second)
		out := d.wait()
		if out.Status == flow.ParkedRun {
			out = r.drive()
		}
		r.cancelled(out)
	}
}

func cancelTooLate(t *testing.T, open opener) {
	var r *rig
	r = newRig(t, open, program(func(fc flow.Context) error {
		if err := do(fc, call(flow.Once, "a", 1)); err != nil {
			return err
		}
		if len(r.journal().of("run.cancel_requested")) == 0 {
			r.cancel(10 * time.Second)
		}
		fc.Emit(flow.Event{Kind: "agent.said"})
		fc.Now()
		return nil
	}))
	out := r.want(flow.Completed)
	if len(r.journal().of("agent.said")) != 1 {
		t.Errorf("what was said after the request is not recorded%v", r.journal())
	}
	r.agree(out)
}

// besideWaiter runs a step in a branch beside one that waits. The waiting one
// shows when the engine has learnt that the drive is to end: it is told first.
func besideWaiter(r **rig, s step) flow.Func {
	return program(func(fc flow.Context) error {
		return fc.Go(flow.Group{},
			flow.Branch{Name: "w", Run: s},
			flow.Branch{Name: "waiter", Run: func(fc flow.Context) error {
				_, err := fc.Wait(question("g"))
				(*r).see("x", coded(err))
				return err
			}})
	})
}

// untilSeen waits until the program has noted something at this place.
func (r *rig) untilSeen(place string) {
	r.t.Helper()
	r.until("an answer at "+place, func(journal) bool { return r.sights()[place] != "" })
}

func cancelAwaitsOnce(t *testing.T, open opener) {
	var r *rig
	r = newRig(t, open, besideWaiter(&r, func(fc flow.Context) error {
		res, err := fc.Do(call(flow.Once, "a", 1))
		r.see("a", string(res.Value), coded(err))
		return do(fc, call(flow.Read, "b", 1))
	}))
	release := make(chan struct{})
	r.world.Answer("root/w/a", onceReleased(release))
	d := r.start(r.bed.Log())
	r.await(1, "root/w/a")
	r.untilKind("policy.gate", "root/waiter/g")
	r.cancel(10 * time.Second)
	r.untilSeen("x")
	close(release)
	r.cancelled(d.wait())
	if _, ok := r.journal().finished("root/w/a"); !ok || r.sights()["a"] != "1 ok\n" || r.world.Count("root/w/b") != 0 {
		t.Fatalf("the awaited call was not recorded, or another was begun%v", r.journal())
	}
}

func cancelDeadline(t *testing.T, open opener) {
	var r *rig
	r = newRig(t, open, program(func(fc flow.Context) error {
		err := do(fc, call(flow.Once, "a", 1))
		r.see("a", coded(err))
		err = do(fc, call(flow.Read, "b", 1))
		r.see("x", coded(err))
		return err
	}))
	release := make(chan struct{})
	defer close(release)
	r.world.Answer("root/a", onceReleased(release))
	d := r.start(r.bed.Log())
	r.await(1, "root/a")
	r.cancel(20 * time.Millisecond)
	out := d.wait()
	r.cancelled(out)
	if got := r.sights()["a"]; got != "in_doubt\n" {
		t.Fatalf("the once call answered %q, want in_doubt%v", got, r.journal())
	}
	if !slices.Equal(out.InDoubt, []string{"root/a"}) || len(r.journal().gates()) != 0 || len(r.journal().of("effect.finished")) != 0 {
		t.Fatalf("in doubt are %v%v", out.InDoubt, r.journal())
	}
}
