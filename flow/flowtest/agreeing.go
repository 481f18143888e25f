package flowtest

import (
	"context"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// agreeing: places where what a drive did and what its journal says once came
// apart. The simulator found them, or would have.
func agreeing(t *testing.T, open opener) {
	t.Run("a retry that was taken settles the attempt", func(t *testing.T) { retryThenClosed(t, open) })
	t.Run("attempts that are lost use up no retry", func(t *testing.T) { lostRetries(t, open) })
	t.Run("once that was never sent is not in doubt", func(t *testing.T) { neverSent(t, open) })
	t.Run("once whose time ran out before it was sent is not in doubt", func(t *testing.T) { tooLateToSend(t, open) })
	t.Run("a suspended call beside a failure is cut off", func(t *testing.T) { suspendedBeside(t, open) })
	t.Run("a suspended call that reserved nothing conforms", func(t *testing.T) { suspendedAlone(t, open) })
	t.Run("a bound gate stays what it was, whatever bound is reached next", func(t *testing.T) { otherBound(t, open) })
	t.Run("who is told to stop is stopped, whatever others were given", func(t *testing.T) { stoppedBeside(t, open) })
}

// announcing runs a call and says what became of it, as walkers do.
func announcing(r **rig, c flow.Call) func(flow.Context) error {
	return func(fc flow.Context) error {
		err := do(fc, c)
		if flow.Parked(err) {
			return err
		}
		fc.Emit(flow.Event{Kind: "agent.said", Body: coded(err)})
		(*r).see(fc.Path(), coded(err))
		return err
	}
}

func retryThenClosed(t *testing.T, open opener) {
	bed := open(t)
	for _, kill := range []bool{false, true} {
		var r *rig
		r = newRun(t, bed, program(func(fc flow.Context) error {
			return fc.Go(flow.Group{},
				flow.Branch{Name: "payer", Run: announcing(&r, call(flow.Once, "pay", 1))},
				flow.Branch{Name: "failer", Run: func(fc flow.Context) error {
					if _, err := fc.Wait(question("g")); err != nil {
						return err
					}
					return do(fc, call(flow.Read, "bad", 1))
				}})
		}))
		r.world.Answer("root/payer/pay", lost)
		r.want(flow.ParkedRun)
		r.decideKey("root/payer/pay/in_doubt", flow.Decision{Action: "retry"})
		r.decideKey("root/failer/g", yes)
		r.world.On("root/payer/pay", Act{Check: func(context.Context, flow.Attempt) error {
			r.came(func(j journal) bool { return len(j.of("group.closed")) > 0 })
			return nil
		}})
		r.world.Answer("root/failer/bad", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
			r.came(func(j journal) bool { return len(j.of("gate.taken").at("root/payer/pay/in_doubt")) > 0 })
			return failing("broken")(ctx, a)
		})
		f := NewFaulty(bed.Log())
		f.Before = func(w Write) Fault {
			if kill && w.HasAt("agent.said", "root/payer") {
				return KillAfter
			}
			return Pass
		}
		d := r.start(f)
		if err := d.settle(); err != nil {
			t.Fatal(err)
		}
		out := d.out
		if kill {
			r.reopen()
			out = r.drive()
		}
		r.check(out, flow.Failed)
		if said := r.sights()["root/payer"]; said != "cancelled\n" || coded(out.Err) != "broken" || len(out.InDoubt) > 0 {
			t.Errorf("killed %v: the payer was told %q, the run ended with %v, in doubt %v%v", kill, said, out.Err, out.InDoubt, r.journal())
		}
		r.agree(out)
	}
}

func lostRetries(t *testing.T, open opener) {
	c := retrying(flow.Read, "a", 1)
	c.Reserve = flow.Use{"tool_calls": 1}
	r := newRig(t, open, inOrder(c))
	for range 3 {
		f := NewFaulty(r.log())
		r.world.On("root/a", Act{Before: func(context.Context, flow.Attempt) {
			r.untilKind("effect.intended", "root/a")
			f.Kill()
		}})
		_ = r.start(f).settle()
		r.reopen()
	}
	failed := false
	r.world.Answer("root/a", func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		if !failed {
			failed = true
			return flow.Done{}, &flow.Error{Code: "flaky", Retry: true}
		}
		return flow.Done{Value: a.Input}, nil
	})
	r.agree(r.want(flow.Completed))
}

func neverSent(t *testing.T, open opener) {
	bed := open(t)
	withdrawn := 0
	for range times(300) {
		hold, reached, sent := make(chan struct{}), make(chan struct{}), false
		var r *rig
		r = newRun(t, bed, program(func(fc flow.Context) error {
			return fc.Go(flow.Group{},
				flow.Branch{Name: "payer", Run: announcing(&r, call(flow.Once, "pay", 1))},
				flow.Branch{Name: "failer", Run: func(fc flow.Context) error { return do(fc, call(flow.Read, "bad", 1)) }},
				flow.Branch{Name: "writer", Run: func(fc flow.Context) error { return do(fc, call(flow.Once, "w", 1)) }})
		}))
		f := NewFaulty(bed.Log())
		f.Before = func(w Write) Fault {
			if w.HasAt("effect.intended", "root/writer/w") {
				<-hold // meanwhile the intent to pay and the failure gather behind it
			}
			return Pass
		}
		r.world.On("root/payer/pay", Act{Stops: true, Check: func(context.Context, flow.Attempt) error {
			close(reached)
			return nil
		}, Do: func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
			if ctx.Err() != nil {
				return flow.Done{}, &flow.Error{Code: "stopped", Message: "before anything was sent", NotSent: true}
			}
			sent = true
			return flow.Done{Value: a.Input}, nil
		}})
		r.world.Answer("root/failer/bad", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
			<-reached // else nothing would be intended
			close(hold)
			return failing("broken")(ctx, a)
		})
		out := r.start(f).wait()
		r.check(out, flow.Failed)
		if coded(out.Err) != "broken" || len(out.InDoubt) > 0 || len(r.journal().gates()) > 0 {
			t.Fatalf("ended with %v, in doubt %v%v", out.Err, out.InDoubt, r.journal())
		}
		if end, ok := r.journal().finished("root/payer/pay"); ok && end.Error != nil {
			withdrawn++
			if end.Error.Code != flow.CodeNotStarted || !end.Error.NotSent || sent {
				t.Fatalf("it is recorded as %+v%v", end.Error, r.journal())
			}
		}
		r.agree(out)
	}
	t.Logf("%d of %d were withdrawn", withdrawn, times(300))
}

// tooLateToSend: the wall time of the run ends while the intent is written.
func tooLateToSend(t *testing.T, open opener) {
	for _, prompt := range []bool{false, true} {
		r := newRig(t, open, inOrder(call(flow.Once, "pay", 1)))
		r.job.Limits = flow.Use{flow.WallTime: 500}
		sent := false
		r.world.On("root/pay", Act{Prompt: prompt, Do: func(_ context.Context, a flow.Attempt) (flow.Done, error) {
			sent = true
			return flow.Done{Value: a.Input}, nil
		}})
		f := NewFaulty(r.log())
		f.Before = func(w Write) Fault {
			if w.HasAt("effect.intended", "root/pay") {
				time.Sleep(600 * time.Millisecond)
			}
			return Pass
		}
		out := r.start(f).wait()
		r.check(out, flow.Failed)
		if end, _ := r.journal().finished("root/pay"); sent || end.Error == nil || !end.Error.NotSent || coded(out.Err) != flow.CodeBoundExceeded || len(r.journal().gates()) > 0 {
			t.Errorf("prompt %v: sent %v, recorded as %+v, ended with %v%v", prompt, sent, end.Error, out.Err, r.journal())
		}
		r.agree(out)
	}
}

func suspendedBeside(t *testing.T, open opener) {
	var r *rig
	r = newRig(t, open, program(func(fc flow.Context) error {
		return fc.Go(flow.Group{},
			flow.Branch{Name: "child", Run: announcing(&r, call(flow.Idempotent, "c", 1))},
			flow.Branch{Name: "failer", Run: func(fc flow.Context) error { return do(fc, call(flow.Read, "bad", 1)) }})
	}))
	r.world.Answer("root/child/c", func(context.Context, flow.Attempt) (flow.Done, error) { return flow.Done{}, flow.ErrParked })
	r.world.Answer("root/failer/bad", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		r.came(func(j journal) bool { return len(j.of("effect.suspended")) > 0 })
		return failing("broken")(ctx, a)
	})
	out := r.want(flow.Failed)
	if said := r.sights()["root/child"]; said != "cancelled\n" {
		t.Errorf("the branch of the child was told %q%v", said, r.journal())
	}
	r.agree(out)
}

func suspendedAlone(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Idempotent, "c", 1)))
	r.job.Linger = -1 // nobody can answer in this drive, so it must not linger
	r.world.Answer("root/c", func(context.Context, flow.Attempt) (flow.Done, error) { return flow.Done{}, flow.ErrParked })
	r.want(flow.ParkedRun)
	r.world.On("root/c", Act{})
	r.agree(r.want(flow.Completed))
}

func stoppedBeside(t *testing.T, open opener) {
	asking := func(key string) flow.Call {
		c := reserving(flow.Read, key, "tool_calls")
		c.Ask = true
		return c
	}
	r := newRig(t, open, program(func(fc flow.Context) error {
		return fc.Go(flow.Group{KeepGoing: true},
			flow.Branch{Name: "a", Run: func(fc flow.Context) error { return do(fc, asking("x")) }},
			flow.Branch{Name: "b", Run: func(fc flow.Context) error { return do(fc, asking("x")) }})
	}))
	r.job.Limits = flow.Use{"tool_calls": 0}
	r.job.Linger = patience
	d := r.start(r.log())
	r.untilKind("policy.gate", "root/a/x/bound#1")
	r.untilKind("policy.gate", "root/b/x/bound#1")
	r.decideKey("root/a/x/bound#1", flow.Decision{Action: "extend", Answer: flow.JSON(flow.Use{"tool_calls": 2})})
	r.untilKind("effect.finished", "root/a/x")
	r.decideKey("root/b/x/bound#1", flow.Decision{Action: "stop"})
	out := d.wait()
	r.check(out, flow.Failed)
	if coded(out.Err) != flow.CodeBoundExceeded {
		t.Errorf("ended with %v%v", out.Err, r.journal())
	}
	r.agree(out)
}

// otherBound: a call was stopped by one bound and, when it is resumed, by another that
// its neighbour has used up meanwhile.
func otherBound(t *testing.T, open opener) {
	r := newRig(t, open, program(func(fc flow.Context) error {
		return fc.Go(flow.Group{},
			flow.Branch{Name: "asker", Run: func(fc flow.Context) error {
				c := call(flow.Read, "x", 1)
				c.Reserve, c.Ask = flow.Use{"model_calls": 1, "tool_calls": 1}, true
				return do(fc, c)
			}},
			flow.Branch{Name: "user", Run: func(fc flow.Context) error {
				if _, err := fc.Wait(question("g")); err != nil {
					return err
				}
				return do(fc, reserving(flow.Read, "y", "model_calls"))
			}})
	}))
	r.job.Limits = flow.Use{"model_calls": 1, "tool_calls": 0}
	r.want(flow.ParkedRun)
	r.decideKey("root/asker/x/bound#1", flow.Decision{Action: "extend", Answer: flow.JSON(flow.Use{"tool_calls": 1})})
	r.decideKey("root/user/g", yes)
	r.world.On("root/asker/x", Act{Check: func(context.Context, flow.Attempt) error {
		r.came(func(j journal) bool { return len(j.of("effect.finished").at("root/user/y")) > 0 })
		return nil
	}})
	r.want(flow.ParkedRun)
	r.decideKey("root/asker/x/bound#2", flow.Decision{Action: "extend", Answer: flow.JSON(flow.Use{"model_calls": 1})})
	r.agree(r.want(flow.Completed))
}
