package flowtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// bounds: what a run may use is reserved before the effect and settled after it.
func bounds(t *testing.T, open opener) {
	t.Run("ten branches and three grants make three calls", func(t *testing.T) { threeGrants(t, open) })
	t.Run("all of a reservation is granted or none", func(t *testing.T) { allOrNone(t, open) })
	t.Run("what is reported is charged, else what was reserved", func(t *testing.T) { settles(t, open) })
	t.Run("a name without a limit is only counted", func(t *testing.T) { counted(t, open) })
	t.Run("retries reserve each attempt and stop at the bound", func(t *testing.T) { retriesReserve(t, open) })
	t.Run("retries happen for the right errors", func(t *testing.T) { retriesOn(t, open) })
	t.Run("a retry keeps count and wait over a kill", func(t *testing.T) { retryKeeps(t, open) })
	t.Run("a crash loop charges each lost attempt", func(t *testing.T) { crashLoop(t, open) })
	t.Run("an extension by one allows one", func(t *testing.T) { extends(t, open) })
	t.Run("an extension that is too small asks again", func(t *testing.T) { extendsTwice(t, open) })
	t.Run("an extension serves the call that asked for it", func(t *testing.T) { extendsOne(t, open) })
	t.Run("stop at a bound gate is the bound's failure", func(t *testing.T) { stopsAtBound(t, open) })
	t.Run("wall time is measured and refuses", func(t *testing.T) { wallTime(t, open) })
	t.Run("a deadline that is past refuses", func(t *testing.T) { deadline(t, open) })
	t.Run("a timeout is the call's failure", func(t *testing.T) { timeout(t, open) })
	t.Run("untyped errors are internal", func(t *testing.T) { untyped(t, open) })
}

// refused is the bound that refused a call, or "".
func refused(err error) string {
	var e *flow.Error
	if errors.As(err, &e) && e.Code == flow.CodeBoundExceeded {
		return e.Bound
	}
	return ""
}

func threeGrants(t *testing.T, open opener) {
	bed := open(t)
	for range times(200) {
		var r *rig
		r = newRun(t, bed, program(func(fc flow.Context) error {
			var list []flow.Branch
			for k := range 10 {
				list = append(list, flow.Branch{Run: func(fc flow.Context) error {
					c := reserving([]flow.Class{flow.Read, flow.Once}[k%2], "x", "tool_calls")
					err := do(fc, c)
					r.see(fc.Path(), refused(err))
					return err
				}})
			}
			err := fc.Go(flow.Group{KeepGoing: true}, list...)
			r.see("group", refused(err))
			return nil
		}))
		r.job.Limits = flow.Use{"tool_calls": 3}
		out := r.want(flow.Completed)
		if n := len(r.world.Calls()); n != 3 || out.Used["tool_calls"] != 3 {
			t.Fatalf("%d calls, used %v, want 3%v", n, out.Used, r.journal())
		}
		refusals := 0
		for _, rec := range r.journal().of("effect.finished") {
			if b := read(rec); b.Error != nil {
				refusals++
				if b.Error.Code != flow.CodeBoundExceeded || b.Error.Bound != "tool_calls" || b.Wanted["tool_calls"] != 1 {
					t.Fatalf("a refusal is recorded as %s", rec.Body)
				}
			}
		}
		if refusals != 7 {
			t.Fatalf("%d refusals, want 7%v", refusals, r.journal())
		}
		r.agree(out)
	}
}

func allOrNone(t *testing.T, open opener) {
	var r *rig
	r = newRig(t, open, program(func(fc flow.Context) error {
		both := call(flow.Read, "both", 1)
		both.Reserve = flow.Use{"tokens": 5, "tool_calls": 2, "alpha": 9}
		r.see("both", refused(do(fc, both)))
		one := call(flow.Read, "one", 1)
		one.Reserve = flow.Use{"tokens": 5, "tool_calls": 1}
		r.see("one", coded(do(fc, one)))
		return nil
	}))
	r.job.Limits = flow.Use{"tokens": 5, "tool_calls": 1, "alpha": 8}
	out := r.want(flow.Completed)
	if s := r.sights(); s["both"] != "alpha\n" || s["one"] != "ok\n" {
		t.Fatalf("refused by %q, then %q: want the first name in order, and nothing held%v", s["both"], s["one"], r.journal())
	}
	r.agree(out)
}

func settles(t *testing.T, open opener) {
	cost := reserving(flow.Read, "cheap", "tokens")
	cost.Reserve = flow.Use{"tokens": 50}
	over, partly, silent, failed := cost, cost, cost, cost
	over.Key, partly.Key, silent.Key, failed.Key = "over", "partly", "silent", "failed"
	partly.Reserve = flow.Use{"tokens": 50, "pages": 3}
	last := reserving(flow.Read, "last", "tokens")
	var r *rig
	r = newRig(t, open, program(func(fc flow.Context) error {
		for _, c := range []flow.Call{cost, over, partly, silent, failed, last} {
			res, err := fc.Do(c)
			r.see(c.Key, coded(err), res.Use)
		}
		return nil
	}))
	r.job.Limits = flow.Use{"tokens": 200}
	using := func(n int64, err error) func(context.Context, flow.Attempt) (flow.Done, error) {
		return func(_ context.Context, a flow.Attempt) (flow.Done, error) {
			return flow.Done{Value: a.Input, Use: flow.Use{"tokens": n}}, err
		}
	}
	r.world.Answer("root/cheap", using(10, nil))
	r.world.Answer("root/over", using(80, nil))  // more than reserved
	r.world.Answer("root/partly", using(0, nil)) // and says nothing of pages
	r.world.Answer("root/failed", using(60, &flow.Error{Code: "broken"}))
	out := r.want(flow.Completed)
	// 10 + 80 + 50 (nothing reported) + 60 = 200: the last one does not fit.
	if s := r.sights(); out.Used["tokens"] != 200 || s["last"] != fmt.Sprintln(flow.CodeBoundExceeded, flow.Use(nil)) {
		t.Fatalf("used %v, the last call saw %q%v", out.Used, s["last"], r.journal())
	}
	if out.Used["pages"] != 3 {
		t.Errorf("used %v: what a report leaves out is charged as it was reserved", out.Used)
	}
	if s := r.sights(); s["cheap"] != "ok map[tokens:10]\n" || s["silent"] != "ok map[]\n" {
		t.Errorf("results carry %q and %q", s["cheap"], s["silent"])
	}
	r.agree(out)
}

func counted(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(reserving(flow.Read, "a", "model_calls"), reserving(flow.Once, "b", "model_calls")))
	out := r.want(flow.Completed)
	if out.Used["model_calls"] != 2 {
		t.Fatalf("used %v, want 2 model calls", out.Used)
	}
	r.agree(out)
}

func retriesReserve(t *testing.T, open opener) {
	c := retrying(flow.Read, "a", 10)
	c.Reserve = flow.Use{"tool_calls": 1}
	r := newRig(t, open, inOrder(c))
	r.job.Limits = flow.Use{"tool_calls": 3}
	r.world.Answer("root/a", failingUntil(99))
	out := r.want(flow.Failed)
	if n := r.world.Count("root/a"); n != 3 || refused(out.Err) != "tool_calls" || out.Used["tool_calls"] != 3 {
		t.Fatalf("%d attempts, failed with %v, used %v%v", n, out.Err, out.Used, r.journal())
	}
	r.agree(out)
}

func retriesOn(t *testing.T, open opener) {
	bed := open(t)
	plain, some := retrying(flow.Read, "a", 3), retrying(flow.Read, "a", 3)
	some.Retry.On = []string{"busy", flow.CodeTimeout}
	slow := some
	slow.Timeout = 200 * time.Millisecond // long enough for each attempt to be sent
	cases := []struct {
		name  string
		call  flow.Call
		err   error
		calls int
	}{
		{"marked for retry", plain, &flow.Error{Code: "flaky", Retry: true}, 4},
		{"not marked", plain, &flow.Error{Code: "flaky"}, 1},
		{"a code that is listed", some, &flow.Error{Code: "busy"}, 4},
		{"a code that is not listed", some, &flow.Error{Code: "flaky", Retry: true}, 1},
		{"a listed timeout", slow, context.DeadlineExceeded, 4},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRun(t, bed, inOrder(c.call))
			r.world.Answer("root/a", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
				if c.call.Timeout > 0 {
					return untilEnded(ctx, a)
				}
				return flow.Done{}, c.err
			})
			out := r.want(flow.Failed)
			if n := r.world.Count("root/a"); n != c.calls || len(r.journal().of("effect.failed")) != c.calls-1 {
				t.Fatalf("%d attempts, want %d%v", n, c.calls, r.journal())
			}
			r.agree(out)
		})
	}
	t.Run("not before the error says", func(t *testing.T) {
		r := newRun(t, bed, inOrder(plain))
		begin := time.Now()
		r.world.Answer("root/a", func(_ context.Context, a flow.Attempt) (flow.Done, error) {
			if a.N == 1 {
				return flow.Done{}, &flow.Error{Code: "busy", Retry: true, After: 60 * time.Millisecond}
			}
			return flow.Done{Value: a.Input}, nil
		})
		out := r.want(flow.Completed)
		if took := time.Since(begin); took < 60*time.Millisecond {
			t.Errorf("tried again after %v, want 60 ms at least", took)
		}
		r.agree(out)
	})
}

func retryKeeps(t *testing.T, open opener) {
	c := retrying(flow.Idempotent, "a", 2)
	c.Retry.Backoff = 120 * time.Millisecond
	r := newRig(t, open, inOrder(c))
	var second time.Time
	r.world.Answer("root/a", func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		if a.N == 2 {
			second = r.clock.Now()
		}
		return flow.Done{}, &flow.Error{Code: "flaky", Retry: true}
	})
	for range 2 { // the second drive has one failure behind it, the third has two
		r.crash(killAt(r, KillAfter, func(w Write) bool { return w.Has("effect.failed") }))
	}
	at := read(r.journal().of("effect.failed")[0]).RetryAt
	out := r.want(flow.Failed)
	if n := r.world.Count("root/a"); n != 3 || at.IsZero() || second.Before(at) {
		t.Fatalf("%d attempts, the second at %v, due at %v%v", n, second, at, r.journal())
	}
	r.agree(out)
}

func crashLoop(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(reserving(flow.Read, "a", "tool_calls")))
	r.job.Limits = flow.Use{"tool_calls": 3}
	for range 3 {
		r.crash(killedInCall(true)(r))
	}
	r.world.On("root/a", Act{})
	out := r.want(flow.Failed)
	if n := r.world.Count("root/a"); n != 3 || out.Used["tool_calls"] != 3 || refused(out.Err) != "tool_calls" {
		t.Fatalf("a crash loop made %d calls, used %v of 3 and failed with %v%v", n, out.Used, out.Err, r.journal())
	}
	r.agree(out)
}

func extends(t *testing.T, open opener) {
	ask := func(key string) flow.Call {
		c := reserving(flow.Once, key, "tool_calls")
		c.Ask = true
		return c
	}
	r := newRig(t, open, inOrder(ask("a"), ask("b"), ask("c")))
	r.job.Limits = flow.Use{"tool_calls": 1}
	r.want(flow.ParkedRun)
	g, ok := r.journal().gate("root/b/bound#1")
	if !ok || g.GateKind != "bound" || !slices.Equal(g.Actions, []string{"extend", "stop"}) || r.world.Count("root/b") != 0 {
		t.Fatalf("the gate is %+v%v", g, r.journal())
	}
	r.decide(g.Gate, flow.Decision{Action: "extend", Answer: json.RawMessage(`{"tool_calls":1}`)})
	out := r.want(flow.ParkedRun)
	if r.world.Count("root/b") != 1 || r.world.Count("root/c") != 0 || out.Limit["tool_calls"] != 2 {
		t.Fatalf("an extension by one allowed %v, the limit is %v%v", r.world.Calls(), out.Limit, r.journal())
	}
	r.decideKey("root/c/bound#1", flow.Decision{Action: "extend", Answer: json.RawMessage(`{"tool_calls":5}`)})
	out = r.want(flow.Completed)
	if out.Used["tool_calls"] != 3 || out.Limit["tool_calls"] != 7 {
		t.Fatalf("used %v of %v", out.Used, out.Limit)
	}
	r.agree(out)
}

func extendsTwice(t *testing.T, open opener) {
	c := call(flow.Read, "a", 1)
	c.Reserve, c.Ask = flow.Use{"tokens": 10}, true
	r := newRig(t, open, inOrder(c))
	r.job.Limits = flow.Use{"tokens": 4}
	for k := 1; k <= 3; k++ {
		out := r.want(flow.ParkedRun)
		key := fmt.Sprintf("root/a/bound#%d", k)
		if g, ok := r.journal().gate(key); !ok || !slices.Equal(out.Gates, []string{g.Gate}) {
			t.Fatalf("parked on %v, want %s%v", out.Gates, key, r.journal())
		}
		r.decideKey(key, flow.Decision{Action: "extend", Answer: json.RawMessage(`{"tokens":2}`)})
	}
	r.agree(r.want(flow.Completed))
}

func extendsOne(t *testing.T, open opener) {
	r := newRig(t, open, program(func(fc flow.Context) error {
		var list []flow.Branch
		for range 3 {
			list = append(list, flow.Branch{Run: func(fc flow.Context) error {
				c := reserving(flow.Once, "x", "tool_calls")
				c.Ask = true
				return do(fc, c)
			}})
		}
		return fc.Go(flow.Group{KeepGoing: true}, list...)
	}))
	r.job.Limits = flow.Use{"tool_calls": 0}
	r.want(flow.ParkedRun)
	r.decideKey("root/1/x/bound#1", flow.Decision{Action: "extend", Answer: json.RawMessage(`{"tool_calls":1}`)})
	out := r.want(flow.ParkedRun)
	if len(r.world.Calls()) != 1 || r.world.Count("root/1/x") != 1 || len(out.Gates) != 2 {
		t.Fatalf("an extension by one allowed %v, %d gates are open%v", r.world.Calls(), len(out.Gates), r.journal())
	}
	r.decideKey("root/0/x/bound#1", flow.Decision{Action: "stop"})
	r.decideKey("root/2/x/bound#1", flow.Decision{Action: "stop"})
	out = r.want(flow.Failed)
	if refused(out.Err) != "tool_calls" || out.Used["tool_calls"] != 1 {
		t.Fatalf("failed with %v, used %v", out.Err, out.Used)
	}
	r.agree(out)
}

func stopsAtBound(t *testing.T, open opener) {
	c := reserving(flow.Read, "a", "tool_calls")
	c.Ask = true
	r := newRig(t, open, inOrder(c))
	r.job.Limits = flow.Use{"tool_calls": 0}
	r.want(flow.ParkedRun)
	r.decideKey("root/a/bound#1", flow.Decision{Action: "stop"})
	out := r.want(flow.Failed)
	if refused(out.Err) != "tool_calls" || r.world.Count("root/a") != 0 {
		t.Fatalf("failed with %v%v", out.Err, r.journal())
	}
	r.agree(out)
}

func wallTime(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Read, "a", 1), call(flow.Read, "b", 1)))
	r.job.Limits = flow.Use{flow.WallTime: 30}
	r.world.Answer("root/a", func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		<-time.After(40 * time.Millisecond) // wall time has to pass
		return flow.Done{Value: a.Input}, nil
	})
	out := r.want(flow.Failed)
	if r.world.Count("root/b") != 0 || refused(out.Err) != flow.WallTime {
		// The first call's own context may have ended first: then it timed out.
		if _, ok := r.journal().finished("root/b"); ok || coded(out.Err) != flow.CodeTimeout {
			t.Fatalf("failed with %v%v", out.Err, r.journal())
		}
	}
	r.agree(out)
}

func deadline(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Once, "a", 1)))
	r.job.Deadline = r.clock.Now().Add(-time.Second)
	out := r.want(flow.Failed)
	if coded(out.Err) != flow.CodeDeadline || r.world.Count("root/a") != 0 {
		t.Fatalf("failed with %v%v", out.Err, r.journal())
	}
	r.job.Deadline = time.Time{}
	r.agree(out)
}

func timeout(t *testing.T, open opener) {
	c := call(flow.Idempotent, "a", 1)
	c.Timeout = 10 * time.Millisecond
	r := newRig(t, open, inOrder(c))
	r.world.Answer("root/a", untilEnded)
	out := r.want(flow.Failed)
	if coded(out.Err) != flow.CodeTimeout {
		t.Fatalf("failed with %v, want timeout", out.Err)
	}
	r.agree(out)
}

func untyped(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Read, "a", 1)))
	r.world.Answer("root/a", lost)
	out := r.want(flow.Failed)
	if coded(out.Err) != flow.CodeInternal {
		t.Fatalf("failed with %v, want internal", out.Err)
	}
	r.agree(out)
}
