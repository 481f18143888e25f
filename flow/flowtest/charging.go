package flowtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// charging: what was under way when nobody waited for it any more is charged as
// it was reserved, once, wherever one asks. That live drive, terminal record,
// replay and totals agree is checked by agree.
func charging(t *testing.T, open opener) {
	t.Run("a call that a failing group cuts off", func(t *testing.T) { chargesCut(t, open) })
	t.Run("a call that a cancel cuts off", func(t *testing.T) { chargesCancelled(t, open) })
	t.Run("an attempt before a crash and one cut off after it", func(t *testing.T) { chargesLostAndCut(t, open) })
	t.Run("an attempt before a crash that is never made again", func(t *testing.T) { chargesLost(t, open) })
	t.Run("a once call that stays in doubt", func(t *testing.T) { chargesDoubt(t, open) })
	t.Run("not what is suspended", func(t *testing.T) { sparesSuspended(t, open) })
	t.Run("a lost attempt before one that reserves nothing", func(t *testing.T) { chargesBeforeFree(t, open) })
	t.Run("nothing twice in a fork", func(t *testing.T) { chargesForkOnce(t, open) })
}

// dear is a call that reserves 50 tokens and a model call.
func dear(class flow.Class, key string) flow.Call {
	c := call(class, key, key)
	c.Reserve = flow.Use{"tokens": 50, "model_calls": 1}
	return c
}

func (r *rig) usedUp(out flow.Outcome, want flow.Use) {
	r.t.Helper()
	if !sameUse(out.Used, want) {
		r.t.Fatalf("used %v, want %v%v", out.Used, want, r.journal())
	}
	r.agree(out)
}

// besideFailer performs a call in a branch beside one that fails when told so.
func besideFailer(c flow.Call) flow.Func {
	return program(func(fc flow.Context) error {
		return fc.Go(flow.Group{},
			flow.Branch{Name: "w", Run: calling(c)},
			flow.Branch{Name: "failer", Run: calling(call(flow.Once, "x", 1))})
	})
}

// failsAfter lets the failer fail when the effect at path has happened n times.
func (r *rig) failsAfter(n int, path string) {
	r.world.Answer("root/failer/x", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		if !r.world.Await(n, path) {
			return flow.Done{}, fmt.Errorf("%s never happened", path)
		}
		return failing("broken")(ctx, a)
	})
}

func chargesCut(t *testing.T, open opener) {
	bed := open(t)
	answers := map[string]func(context.Context, flow.Attempt) (flow.Done, error){
		"without a word": untilEnded,
		"with a report that comes too late": func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
			<-ctx.Done()
			return flow.Done{Use: flow.Use{"tokens": 7}}, ctx.Err()
		},
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, bed, besideFailer(dear(flow.Read, "a")))
			r.job.Limits = flow.Use{"tokens": 60}
			r.world.Answer("root/w/a", answer)
			r.failsAfter(1, "root/w/a")
			r.usedUp(r.want(flow.Failed), flow.Use{"tokens": 50, "model_calls": 1})
		})
	}
}

func chargesCancelled(t *testing.T, open opener) {
	bed := open(t)
	for _, class := range []flow.Class{flow.Read, flow.Idempotent} {
		t.Run(string(class), func(t *testing.T) {
			r := newRun(t, bed, inOrder(reserving(flow.Read, "before", "tokens"), dear(class, "a")))
			r.world.Answer("root/a", untilEnded)
			d := r.start(r.log())
			r.await(1, "root/a")
			r.cancel(10 * time.Second)
			out := d.wait()
			r.check(out, flow.Cancelled)
			r.usedUp(out, flow.Use{"tokens": 51, "model_calls": 1})
		})
	}
}

func chargesLostAndCut(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(dear(flow.Read, "a")))
	r.crash(killedInCall(true)(r))
	r.world.Answer("root/a", untilEnded)
	d := r.start(r.log())
	r.await(2, "root/a")
	r.cancel(10 * time.Second)
	out := d.wait()
	r.check(out, flow.Cancelled)
	r.usedUp(out, flow.Use{"tokens": 100, "model_calls": 2})
}

func chargesLost(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(dear(flow.Read, "a")))
	r.crash(killedInCall(true)(r))
	r.cancel(10 * time.Second)
	out := r.want(flow.Cancelled)
	if n := r.world.Count("root/a"); n != 1 {
		t.Fatalf("a cancelled run made %d calls, want the one before%v", n, r.journal())
	}
	r.usedUp(out, flow.Use{"tokens": 50, "model_calls": 1})
}

func chargesDoubt(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(dear(flow.Once, "a"), call(flow.Read, "b", 1)))
	release := make(chan struct{})
	defer close(release)
	r.world.Answer("root/a", onceReleased(release))
	d := r.start(r.log())
	r.await(1, "root/a")
	r.cancel(20 * time.Millisecond)
	out := d.wait()
	if len(out.InDoubt) != 1 {
		t.Fatalf("in doubt are %v%v", out.InDoubt, r.journal())
	}
	r.usedUp(out, flow.Use{"tokens": 50, "model_calls": 1})
}

func sparesSuspended(t *testing.T, open opener) {
	bed := open(t)
	t.Run("waiting", func(t *testing.T) {
		r := newRun(t, bed, inOrder(dear(flow.Idempotent, "a")))
		r.world.Answer("root/a", suspending)
		r.want(flow.ParkedRun)
		r.cancel(10 * time.Second)
		r.usedUp(r.want(flow.Cancelled), nil)
	})
	t.Run("entered again and cut off", func(t *testing.T) {
		r := newRun(t, bed, inOrder(dear(flow.Idempotent, "a")))
		r.world.Answer("root/a", suspending)
		r.want(flow.ParkedRun)
		r.world.Answer("root/a", untilEnded)
		d := r.start(r.log())
		r.await(2, "root/a")
		r.cancel(10 * time.Second)
		out := d.wait()
		r.check(out, flow.Cancelled)
		r.usedUp(out, nil)
	})
}

// suspending is an activity that waits for something elsewhere.
func suspending(context.Context, flow.Attempt) (flow.Done, error) {
	return flow.Done{}, flow.ErrParked
}

// What a call reserves may change between drives.
func chargesBeforeFree(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(dear(flow.Read, "a")))
	r.crash(killedInCall(true)(r))
	r.job.Flow = inOrder(call(flow.Read, "a", "a"))
	r.world.Answer("root/a", func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		return flow.Done{Value: a.Input, Use: flow.Use{"tokens": 3}}, nil
	})
	r.usedUp(r.want(flow.Completed), flow.Use{"tokens": 53, "model_calls": 1})
}

func chargesForkOnce(t *testing.T, open opener) {
	r := newRig(t, open, besideFailer(dear(flow.Read, "a")))
	r.world.Answer("root/w/a", untilEnded)
	r.failsAfter(1, "root/w/a")
	out := r.want(flow.Failed)
	r.usedUp(out, flow.Use{"tokens": 50, "model_calls": 1})

	begun := r.journal().of("effect.intended").at("root/w/a")[0].Seq
	t.Run("at its end", func(t *testing.T) {
		f := r.fork(t, 0, out.Used, 0)
		f.usedUp(f.want(flow.Failed), flow.Use{"tokens": 50, "model_calls": 1})
	})
	t.Run("while it was under way", func(t *testing.T) {
		h := r.history()
		h.Records = h.Records[:begun-h.Records[0].Seq+1]
		used := flow.Totals(h, nil).Used
		f := r.fork(t, begun, used, 0)
		f.answer = func(gate) (flow.Decision, bool) { return flow.Decision{Action: "retry"}, true }
		f.usedUp(f.toEnd(), flow.Use{"tokens": 100, "model_calls": 2})
	})
	t.Run("from the records alone", func(t *testing.T) {
		f := r.fork(t, begun, nil, 0)
		f.answer = func(gate) (flow.Decision, bool) { return flow.Decision{Action: "retry"}, true }
		f.usedUp(f.toEnd(), flow.Use{"tokens": 100, "model_calls": 2})
	})
}
