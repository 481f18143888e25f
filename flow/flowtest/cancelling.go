package flowtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// cancelling: the three ways to end a drive from outside. A cancel ends the run,
// a stop only the process, a cut makes room for a revised program.
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
	t.Run("a stop cuts a read, which is called again", func(t *testing.T) { stopRead(t, open) })
	t.Run("a stop awaits once and records it", func(t *testing.T) { stopOnce(t, open) })
	t.Run("a stop does not await once beyond its grace", func(t *testing.T) { stopGrace(t, open) })
	t.Run("a second signal ends the grace", func(t *testing.T) { stopAbandon(t, open) })
	t.Run("a stop leaves what stops itself in doubt, never failed", func(t *testing.T) { stopStops(t, open) })
	t.Run("closing lets what stops itself account for itself", func(t *testing.T) { closeStops(t, open) })
	t.Run("a stop in waits and sleeps resumes them", func(t *testing.T) { stopWaiting(t, open) })
	t.Run("a stop before the last words is no misuse", func(t *testing.T) { stopLastWords(t, open) })
	t.Run("a cut lets calls finish and starts none", func(t *testing.T) { cut(t, open) })
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
	for _, class := range []flow.Class{flow.Read, flow.Idempotent} {
		t.Run(string(class), func(t *testing.T) {
			var r *rig
			r = newRig(t, open, seeing(&r, calling(call(class, "a", 1))))
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
	sleeping := func(d time.Duration) step {
		return func(fc flow.Context) error { return fc.Sleep(d) }
	}
	t.Run("in the drive", func(t *testing.T) {
		var r *rig
		r = newRig(t, open, seeing(&r, sleeping(900*time.Millisecond)))
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
		r = newRig(t, open, seeing(&r, sleeping(time.Hour)))
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

var sigterm = &flow.Stop{Reason: "signal:TERM"}

// stopped waits for a drive that was told to stop.
func (d *drive) stopped() {
	d.r.t.Helper()
	d.stop(sigterm)
	out := d.wait()
	d.r.check(out, flow.Interrupted)
	if out.Reason != sigterm.Reason {
		d.r.t.Fatalf("interrupted by %q, want %q", out.Reason, sigterm.Reason)
	}
	d.r.interruptedBy(sigterm.Reason)
}

func stopRead(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Read, "a", 1), call(flow.Once, "b", 1)))
	r.world.Answer("root/a", untilEnded)
	d := r.start(r.bed.Log())
	r.await(1, "root/a")
	d.stopped()
	if len(r.journal().of("effect.finished")) != 0 {
		t.Fatalf("a call that was cut off has an outcome%v", r.journal())
	}
	r.world.On("root/a", Act{})
	r.agree(r.want(flow.Completed))
	if a, b := r.world.Count("root/a"), r.world.Count("root/b"); a != 2 || b != 1 {
		t.Fatalf("performed %d and %d times, want 2 and 1", a, b)
	}
}

func stopOnce(t *testing.T, open opener) {
	var r *rig
	r = newRig(t, open, besideWaiter(&r, func(fc flow.Context) error {
		if err := do(fc, call(flow.Once, "a", 1)); err != nil {
			return err
		}
		return do(fc, call(flow.Once, "b", 1))
	}))
	release := make(chan struct{})
	r.world.Answer("root/w/a", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		<-release
		if err := ctx.Err(); err != nil {
			return flow.Done{}, err
		}
		return flow.Done{Value: a.Input}, nil
	})
	d := r.start(r.bed.Log())
	r.await(1, "root/w/a")
	d.stop(sigterm)
	r.untilSeen("x")
	close(release)
	d.stopped()
	if _, ok := r.journal().finished("root/w/a"); !ok || r.world.Count("root/w/b") != 0 {
		t.Fatalf("the awaited call was not recorded, or another was begun%v", r.journal())
	}
	out := r.toEnd()
	r.check(out, flow.Completed)
	r.agree(out)
	if a, b := r.world.Count("root/w/a"), r.world.Count("root/w/b"); a != 1 || b != 1 {
		t.Fatalf("performed %d and %d times, want once each", a, b)
	}
}

func stopGrace(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Once, "a", 1)))
	r.opts.Grace = 20 * time.Millisecond
	release := make(chan struct{})
	defer close(release)
	r.world.Answer("root/a", onceReleased(release))
	d := r.start(r.bed.Log())
	r.await(1, "root/a")
	d.stopped()
	r.leftInDoubt("root/a")
}

// leftInDoubt checks that the next drive asks about the call.
func (r *rig) leftInDoubt(path string) {
	r.t.Helper()
	if _, ok := r.journal().finished(path); ok || r.journal().ended() != "" {
		r.t.Fatalf("%s has an outcome or the run an end%v", path, r.journal())
	}
	r.want(flow.ParkedRun)
	if _, ok := r.journal().gate(path + "/in_doubt"); !ok {
		r.t.Fatalf("%s is not in doubt%v", path, r.journal())
	}
	out := r.toEnd()
	r.check(out, flow.Completed)
	r.agree(out)
	if n := r.world.Count(path); n != 1 {
		r.t.Fatalf("%s happened %d times, want once", path, n)
	}
}

func stopAbandon(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Once, "a", 1)))
	second := make(chan struct{})
	r.job.Abandon = second
	release := make(chan struct{})
	defer close(release)
	r.world.Answer("root/a", onceReleased(release))
	d := r.start(r.bed.Log())
	r.await(1, "root/a")
	d.stop(sigterm)
	close(second)
	d.stopped()
	r.job.Abandon = nil
	r.leftInDoubt("root/a")
}

func stopStops(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Once, "a", 1)))
	r.world.On("root/a", Act{Stops: true, Do: func(ctx context.Context, _ flow.Attempt) (flow.Done, error) {
		<-ctx.Done()
		return flow.Done{}, errors.New("broken off")
	}})
	d := r.start(r.bed.Log())
	r.await(1, "root/a")
	d.stopped()
	r.leftInDoubt("root/a")
}

func closeStops(t *testing.T, open opener) {
	var r *rig
	entered := make(chan struct{})
	r = newRig(t, open, program(func(fc flow.Context) error {
		return fc.Go(flow.Group{},
			flow.Branch{Name: "worker", Run: func(fc flow.Context) error {
				res, err := fc.Do(call(flow.Once, "x", 1))
				r.see("x", string(res.Value), coded(err))
				return err
			}},
			flow.Branch{Name: "failer", Run: func(fc flow.Context) error { return do(fc, call(flow.Once, "x", 1)) }})
	}))
	r.world.On("root/worker/x", Act{Stops: true, Do: func(ctx context.Context, _ flow.Attempt) (flow.Done, error) {
		close(entered)
		<-ctx.Done()
		return flow.Done{Value: []byte(`"killed"`)}, nil
	}})
	r.world.Answer("root/failer/x", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		<-entered
		return failing("broken")(ctx, a)
	})
	out := r.want(flow.Failed)
	if got := r.sights()["x"]; got != "\"killed\" ok\n" {
		t.Fatalf("the worker's account is %q%v", got, r.journal())
	}
	r.agree(out)
}

func stopWaiting(t *testing.T, open opener) {
	r := newRig(t, open, program(func(fc flow.Context) error {
		return fc.Go(flow.Group{},
			flow.Branch{Name: "waiter", Run: func(fc flow.Context) error { _, err := fc.Wait(question("g")); return err }},
			flow.Branch{Name: "sleeper", Run: func(fc flow.Context) error { return fc.Sleep(300 * time.Millisecond) }},
			flow.Branch{Name: "reader", Run: func(fc flow.Context) error { return do(fc, call(flow.Read, "x", 1)) }})
	}))
	r.world.Answer("root/reader/x", untilEnded)
	d := r.start(r.bed.Log())
	r.until("gate and timer", func(j journal) bool { return len(j.of("policy.gate")) > 0 && len(j.of("timer.set")) > 0 })
	d.stopped()
	r.world.On("root/reader/x", Act{})
	out := r.toEnd()
	r.check(out, flow.Completed)
	if j := r.journal(); len(j.of("policy.gate")) != 1 || len(j.of("timer.set")) != 1 {
		t.Fatalf("a wait or a sleep was begun anew%v", j)
	}
	r.agree(out)
}

func stopLastWords(t *testing.T, open opener) {
	var r *rig
	r = newRig(t, open, besideWaiter(&r, func(fc flow.Context) error {
		if err := do(fc, call(flow.Once, "a", 1)); err != nil {
			return err
		}
		fc.Now()
		fc.Emit(flow.Event{Kind: "agent.said", Body: "bye"})
		return nil
	}))
	release := make(chan struct{})
	r.world.Answer("root/w/a", onceReleased(release))
	d := r.start(r.bed.Log())
	r.await(1, "root/w/a")
	r.untilKind("policy.gate", "root/waiter/g")
	d.stop(sigterm)
	r.untilSeen("x")
	close(release)
	d.stopped()
	out := r.toEnd()
	r.check(out, flow.Completed)
	if n := len(r.journal().of("agent.said")); n != 1 {
		t.Errorf("the last words were said %d times%v", n, r.journal())
	}
	r.agree(out)
}

func cut(t *testing.T, open opener) {
	classes := []flow.Class{flow.Read, flow.Idempotent, flow.Once}
	var r *rig
	r = newRig(t, open, besideWaiter(&r, func(fc flow.Context) error {
		var list []flow.Branch
		for _, class := range classes {
			list = append(list, flow.Branch{Name: string(class), Run: func(fc flow.Context) error {
				if err := do(fc, call(class, "x", 1)); err != nil {
					return err
				}
				return do(fc, call(class, "y", 1))
			}})
		}
		return fc.Go(flow.Group{}, list...)
	}))
	release := make(chan struct{})
	var paths []string
	for _, class := range classes {
		path := fmt.Sprintf("root/w/%s/x", class)
		paths = append(paths, path)
		r.world.Answer(path, cutOr(release))
	}
	d := r.start(r.bed.Log())
	r.await(3, paths...)
	r.untilKind("policy.gate", "root/waiter/g")
	r.write("run.correction_requested", map[string]any{"revision": 2})
	r.untilSeen("x")
	close(release)
	out := d.wait()
	r.check(out, flow.Cut)
	if got := r.sights()["x"]; got != "parked\n" {
		t.Errorf("the waiting branch saw %q, want parked", got)
	}
	for _, class := range classes {
		if _, ok := r.journal().finished(fmt.Sprintf("root/w/%s/x", class)); !ok {
			t.Errorf("the %s call in flight was not recorded%v", class, r.journal())
		}
		if n := r.world.Count(fmt.Sprintf("root/w/%s/y", class)); n != 0 {
			t.Errorf("a %s call was started after the cut", class)
		}
	}
	if r.journal().ended() != "" {
		t.Errorf("a cut run has ended%v", r.journal())
	}
}
