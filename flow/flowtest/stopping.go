package flowtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// stopping: a stop ends the process and not the run; a cut makes room for a
// revised program.
func stopping(t *testing.T, open opener) {
	t.Run("a stop cuts a read, which is called again", func(t *testing.T) { stopRead(t, open) })
	t.Run("a stop awaits once and records it", func(t *testing.T) { stopOnce(t, open) })
	t.Run("a stop does not await once beyond its grace", func(t *testing.T) { stopGrace(t, open) })
	t.Run("a second signal ends the grace", func(t *testing.T) { stopAbandon(t, open) })
	t.Run("a stop leaves what stops itself in doubt, never failed", func(t *testing.T) { stopStops(t, open) })
	t.Run("closing lets what stops itself account for itself", func(t *testing.T) { closeStops(t, open) })
	t.Run("closing awaits what stops itself and is awaited", func(t *testing.T) { closeAwaits(t, open) })
	t.Run("a cancel stops what is awaited", func(t *testing.T) { cancelStopsAwaited(t, open) })
	t.Run("a stop in waits and sleeps resumes them", func(t *testing.T) { stopWaiting(t, open) })
	t.Run("a stop before the last words is no misuse", func(t *testing.T) { stopLastWords(t, open) })
	t.Run("a cut lets calls finish and starts none", func(t *testing.T) { cut(t, open) })
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
	r = newRig(t, open, workerAndFailer(&r))
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

// workerAndFailer is a program in which one branch makes a call while another fails. The
// world answers the failure when the call has been made.
func workerAndFailer(r **rig) flow.Func {
	return program(func(fc flow.Context) error {
		return fc.Go(flow.Group{},
			flow.Branch{Name: "worker", Run: func(fc flow.Context) error {
				res, err := fc.Do(call(flow.Once, "x", 1))
				(*r).see("x", string(res.Value), coded(err))
				return err
			}},
			flow.Branch{Name: "failer", Run: func(fc flow.Context) error { return do(fc, call(flow.Once, "x", 1)) }})
	})
}

func closeAwaits(t *testing.T, open opener) {
	var r *rig
	entered, closed := make(chan struct{}), make(chan struct{})
	r = newRig(t, open, workerAndFailer(&r))
	r.world.On("root/worker/x", Act{Stops: true, Awaited: true, Do: func(ctx context.Context, _ flow.Attempt) (flow.Done, error) {
		close(entered)
		<-closed
		if ctx.Err() != nil {
			return flow.Done{Value: []byte(`"killed"`)}, nil
		}
		return flow.Done{Value: []byte(`"whole"`)}, nil
	}})
	r.world.Answer("root/failer/x", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		<-entered
		return failing("broken")(ctx, a)
	})
	d := r.start(r.bed.Log())
	r.until("the group to close", func(j journal) bool { return len(j.of("group.closed")) > 0 })
	close(closed)
	out := d.wait()
	r.check(out, flow.Failed)
	if got := r.sights()["x"]; got != "\"whole\" ok\n" {
		t.Fatalf("the worker's account is %q%v", got, r.journal())
	}
	r.agree(out)
}

func cancelStopsAwaited(t *testing.T, open opener) {
	var r *rig
	entered := make(chan struct{})
	r = newRig(t, open, workerAndFailer(&r))
	r.world.On("root/worker/x", Act{Stops: true, Awaited: true, Do: func(ctx context.Context, _ flow.Attempt) (flow.Done, error) {
		close(entered)
		<-ctx.Done()
		return flow.Done{Value: []byte(`"killed"`)}, nil
	}})
	r.world.Answer("root/failer/x", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		<-entered
		return failing("broken")(ctx, a)
	})
	d := r.start(r.bed.Log())
	r.until("the group to close", func(j journal) bool { return len(j.of("group.closed")) > 0 })
	r.cancel(10 * time.Second)
	out := d.wait()
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
