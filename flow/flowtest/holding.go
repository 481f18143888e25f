package flowtest

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// holding: the money that lost attempts had reserved is held, not charged, and whoever
// finds too little left for that reason is asked for more. agree checks that live drive,
// replay and totals say the same of what is held.
func holding(t *testing.T, open opener) {
	t.Run("kills cost no money and still count calls", func(t *testing.T) { holdsMoney(t, open) })
	t.Run("what a lost attempt told is charged and the rest held", func(t *testing.T) { holdsTheRest(t, open) })
	t.Run("who finds too little left is asked", func(t *testing.T) { holdingAsks(t, open) })
	t.Run("a bound that is truly used up refuses", func(t *testing.T) { usedUpRefuses(t, open) })
	t.Run("a doubt that is decided holds the money", func(t *testing.T) { holdsDoubt(t, open) })
	t.Run("what was not sent gives the money back", func(t *testing.T) { unsentGivesBack(t, open) })
	t.Run("what is cut off at the end is held", func(t *testing.T) { holdsCut(t, open) })
	t.Run("the next segment and a fork go on holding", func(t *testing.T) { holdsOn(t, open) })
	t.Run("what a child holds is held", func(t *testing.T) { holdsForChild(t, open) })
	t.Run("an attempt reserves what it wants of what is left", func(t *testing.T) { wantsSome(t, open) })
	t.Run("an altered account does not conform", func(t *testing.T) { holdingAltered(t, open) })
}

// heldUp is usedUp for runs that hold.
func (r *rig) heldUp(out flow.Outcome, used, held flow.Use) {
	r.t.Helper()
	if !sameUse(out.Held, held) {
		r.t.Fatalf("held %v, want %v%v", out.Held, held, r.journal())
	}
	r.usedUp(out, used)
}

func newHolder(t tb, bed Bed, f flow.Func) *rig {
	t.Helper()
	r := newRun(t, bed, f)
	r.job.Holds = true
	return r
}

// told is an activity that reports what it used.
func told(use flow.Use) func(context.Context, flow.Attempt) (flow.Done, error) {
	return func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		return flow.Done{Value: a.Input, Use: use}, nil
	}
}

func holdsMoney(t *testing.T, open opener) {
	bed := open(t)
	for _, class := range []flow.Class{flow.Read, flow.Idempotent} {
		t.Run(string(class), func(t *testing.T) {
			r := newHolder(t, bed, inOrder(dear(class, "a")))
			r.job.Limits = flow.Use{"tokens": 1000}
			for range 3 {
				r.crash(killedInCall(true)(r))
			}
			r.world.Answer("root/a", told(flow.Use{"tokens": 7, "model_calls": 1}))
			r.heldUp(r.want(flow.Completed), flow.Use{"tokens": 7, "model_calls": 4}, tokens(150))
		})
	}
}

// killedTelling dies in the call a after it has told what it used so far, in turn.
func (r *rig) killedTelling(soFar ...flow.Use) *Faulty {
	f := NewFaulty(r.log())
	r.world.Answer("root/a", func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		for _, use := range soFar {
			a.Spent(use)
		}
		err := a.Sync()
		f.Kill()
		return flow.Done{}, errors.Join(errDead, err)
	})
	return f
}

func holdsTheRest(t *testing.T, open opener) {
	bed := open(t)
	for name, c := range map[string]struct {
		told       []flow.Use
		used, held flow.Use
	}{
		"a part":                       {[]flow.Use{tokens(5), tokens(20)}, flow.Use{"tokens": 20, "model_calls": 1}, tokens(30)},
		"more than was reserved":       {[]flow.Use{tokens(60)}, flow.Use{"tokens": 60, "model_calls": 1}, nil},
		"nothing":                      {nil, flow.Use{"model_calls": 1}, tokens(50)},
		"of a count, which is charged": {[]flow.Use{{"model_calls": 9}}, flow.Use{"model_calls": 1}, tokens(50)},
	} {
		t.Run(name, func(t *testing.T) {
			r := newHolder(t, bed, inOrder(dear(flow.Read, "a")))
			r.crash(r.killedTelling(c.told...))
			r.world.Answer("root/a", told(flow.Use{"tokens": 0, "model_calls": 0}))
			r.heldUp(r.want(flow.Completed), c.used, c.held)
		})
	}
	t.Run("in a run that does not hold", func(t *testing.T) {
		r := newRun(t, bed, inOrder(dear(flow.Read, "a")))
		r.crash(r.killedTelling(tokens(5)))
		if notes := r.journal().of("bound.used"); len(notes) != 0 {
			t.Errorf("it is noted what was told%v", notes)
		}
		r.world.Answer("root/a", told(flow.Use{"tokens": 0, "model_calls": 0}))
		r.heldUp(r.want(flow.Completed), flow.Use{"tokens": 50, "model_calls": 1}, nil)
	})
}

func holdingAsks(t *testing.T, open opener) {
	bed := open(t)
	asked := func(t *testing.T, action string, answer flow.Use) *rig {
		r := newHolder(t, bed, inOrder(dear(flow.Read, "a"), call(flow.Read, "b", 1)))
		r.job.Limits = tokens(120)
		r.crash(killedInCall(true)(r))
		r.crash(killedInCall(true)(r))
		r.world.Answer("root/a", told(flow.Use{"tokens": 7, "model_calls": 1}))
		r.want(flow.ParkedRun)
		r.want(flow.ParkedRun) // and again: nothing has changed
		r.decideKey("root/a/bound#1", flow.Decision{Action: action, Answer: flow.JSON(answer), By: "local:cli", Via: "command"})
		return r
	}
	t.Run("and may extend", func(t *testing.T) {
		r := asked(t, "extend", tokens(30))
		r.heldUp(r.want(flow.Completed), flow.Use{"tokens": 7, "model_calls": 3}, tokens(100))
	})
	t.Run("and is asked again if that is too little", func(t *testing.T) {
		r := asked(t, "extend", tokens(29))
		r.want(flow.ParkedRun)
		r.decideKey("root/a/bound#2", flow.Decision{Action: "extend", Answer: flow.JSON(tokens(1)), By: "local:cli", Via: "command"})
		r.heldUp(r.want(flow.Completed), flow.Use{"tokens": 7, "model_calls": 3}, tokens(100))
	})
	t.Run("and may stop", func(t *testing.T) {
		r := asked(t, "stop", nil)
		out := r.want(flow.Failed)
		if coded(out.Err) != flow.CodeBoundExceeded {
			t.Errorf("it failed with %v", out.Err)
		}
		r.heldUp(out, flow.Use{"model_calls": 2}, tokens(100))
	})
}

func usedUpRefuses(t *testing.T, open opener) {
	r := newHolder(t, open(t), inOrder(dear(flow.Read, "a"), dear(flow.Read, "b")))
	r.job.Limits = tokens(90)
	out := r.want(flow.Failed)
	if coded(out.Err) != flow.CodeBoundExceeded || len(r.journal().of("policy.gate")) != 0 {
		t.Errorf("it failed with %v%v", out.Err, r.journal())
	}
	r.heldUp(out, flow.Use{"tokens": 50, "model_calls": 1}, nil)
}

func holdsDoubt(t *testing.T, open opener) {
	bed := open(t)
	for action, want := range map[string]struct{ used, held int64 }{"use_result": {0, 50}, "fail": {0, 50}, "retry": {7, 50}} {
		t.Run(action, func(t *testing.T) {
			r := newHolder(t, bed, program(func(fc flow.Context) error {
				if err := do(fc, dear(flow.Once, "a")); coded(err) != flow.CodeInDoubt {
					return err
				}
				return nil
			}))
			r.crash(killedInCall(true)(r))
			r.world.Answer("root/a", told(tokens(7)))
			r.want(flow.ParkedRun)
			r.decideKey("root/a/in_doubt", flow.Decision{Action: action, By: "local:cli", Via: "command"})
			calls := int64(1)
			if action == "retry" {
				calls = 2
			}
			r.heldUp(r.want(flow.Completed), flow.Use{"tokens": want.used, "model_calls": calls}, tokens(want.held))
		})
	}
}

func unsentGivesBack(t *testing.T, open opener) {
	bed := open(t)
	t.Run("in a retry", func(t *testing.T) {
		c := retrying(flow.Read, "a", 2)
		c.Reserve = flow.Use{"tokens": 50, "model_calls": 1}
		r := newHolder(t, bed, inOrder(c))
		r.world.Answer("root/a", func(_ context.Context, a flow.Attempt) (flow.Done, error) {
			if a.N < 3 {
				return flow.Done{}, &flow.Error{Code: "flaky", Retry: true, NotSent: true}
			}
			return flow.Done{Value: a.Input, Use: tokens(7)}, nil
		})
		r.heldUp(r.want(flow.Completed), flow.Use{"tokens": 7, "model_calls": 3}, nil)
	})
	t.Run("at the end", func(t *testing.T) {
		r := newHolder(t, bed, inOrder(dear(flow.Once, "a")))
		r.world.Answer("root/a", func(context.Context, flow.Attempt) (flow.Done, error) {
			return flow.Done{}, &flow.Error{Code: "no", NotSent: true}
		})
		r.heldUp(r.want(flow.Failed), flow.Use{"model_calls": 1}, nil)
	})
}

func holdsCut(t *testing.T, open opener) {
	r := newHolder(t, open(t), besideFailer(dear(flow.Read, "a")))
	r.world.Answer("root/w/a", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		a.Spent(tokens(20))
		return untilEnded(ctx, a)
	})
	r.failsAfter(1, "root/w/a")
	r.heldUp(r.want(flow.Failed), flow.Use{"tokens": 20, "model_calls": 1}, tokens(30))
}

func holdsOn(t *testing.T, open opener) {
	bed := open(t)
	t.Run("a segment", func(t *testing.T) {
		r := newHolder(t, bed, func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
			c := dear(flow.Read, "a")
			if string(in) == `"next"` {
				c = dear(flow.Read, "b")
				c.Reserve = tokens(60)
			}
			if err := do(fc, c); err != nil || c.Key == "b" {
				return nil, err
			}
			return nil, flow.Continue(json.RawMessage(`"next"`))
		})
		r.job.Limits = tokens(90)
		r.crash(killedInCall(true)(r))
		r.world.Answer("root/a", told(tokens(0)))
		r.world.Answer("root/b", told(tokens(40)))
		r.want(flow.ParkedRun) // 50 are held: the second attempt asks
		r.decideKey("root/a/bound#1", flow.Decision{Action: "extend", Answer: flow.JSON(tokens(10)), By: "local:cli", Via: "command"})
		r.want(flow.ParkedRun) // and so does the call of the next segment, which the last drive loads
		r.decideKey("root/b/bound#1", flow.Decision{Action: "extend", Answer: flow.JSON(tokens(10)), By: "local:cli", Via: "command"})
		out := r.want(flow.Completed)
		if !sameUse(out.Held, tokens(50)) || !sameUse(out.Used, flow.Use{"tokens": 40, "model_calls": 2}) {
			t.Errorf("used %v, held %v%v", out.Used, out.Held, r.journal())
		}
	})
	t.Run("a fork", func(t *testing.T) {
		r := newHolder(t, bed, inOrder(dear(flow.Read, "a"), dear(flow.Read, "b")))
		r.job.Limits = tokens(120)
		r.crash(killedInCall(true)(r))
		r.world.Answer("root/a", told(tokens(40)))
		r.world.Answer("root/b", told(tokens(5)))
		r.want(flow.ParkedRun)
		r.decideKey("root/b/bound#1", flow.Decision{Action: "stop", By: "local:cli", Via: "command"})
		out := r.want(flow.Failed)
		r.heldUp(out, flow.Use{"tokens": 40, "model_calls": 2}, tokens(50))
		f := r.fork(t, r.lastSeq("effect.finished", "root/a"), out.Used, 0)
		f.world.Answer("root/b", told(tokens(5)))
		f.want(flow.ParkedRun)
		f.decideKey("root/b/bound#1", flow.Decision{Action: "extend", Answer: flow.JSON(tokens(20)), By: "local:cli", Via: "command"})
		f.heldUp(f.want(flow.Completed), flow.Use{"tokens": 45, "model_calls": 3}, tokens(50))
	})
}

func holdsForChild(t *testing.T, open opener) {
	r := newHolder(t, open(t), inOrder(dear(flow.Idempotent, "a")))
	r.world.Answer("root/a", func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		return flow.Done{Value: a.Input, Use: flow.Use{"tokens": 10, "model_calls": 1}, Held: tokens(30)}, nil
	})
	r.heldUp(r.want(flow.Completed), flow.Use{"tokens": 10, "model_calls": 1}, tokens(30))
}

func wantsSome(t *testing.T, open opener) {
	r := newHolder(t, open(t), inOrder(dear(flow.Once, "a"), dear(flow.Once, "b")))
	r.job.Limits = tokens(130)
	var had []int64
	act := Act{Wants: func(a flow.Attempt, left func(string) (int64, bool)) flow.Use {
		n, _ := left("tokens")
		return tokens(min(40, max(n-50, 0)))
	}, Do: func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		had = append(had, a.Reserved["tokens"])
		return flow.Done{Value: a.Input, Use: tokens(60)}, nil
	}}
	r.world.Else(act)
	r.heldUp(r.want(flow.Completed), flow.Use{"tokens": 120, "model_calls": 2}, nil)
	if !slices.Equal(had, []int64{90, 70}) {
		t.Errorf("they had %v%v", had, r.journal())
	}
}

func holdingAltered(t *testing.T, open opener) {
	r := newHolder(t, open(t), inOrder(dear(flow.Read, "a"), dear(flow.Read, "b")))
	r.job.Limits = tokens(130)
	r.crash(r.killedTelling(tokens(5)))
	r.world.Answer("root/a", told(tokens(35)))
	r.world.Answer("root/b", told(tokens(5)))
	r.want(flow.ParkedRun)
	r.decideKey("root/b/bound#1", flow.Decision{Action: "stop", By: "local:cli", Via: "command"})
	r.heldUp(r.want(flow.Failed), flow.Use{"tokens": 40, "model_calls": 2}, tokens(45))
	for name, alter := range map[string]func(rec flow.Record) (flow.Record, bool){
		"the decision to stop is left out": func(rec flow.Record) (flow.Record, bool) {
			return rec, rec.Path != "root/b/bound#1"
		},
		"a use that is told without an attempt": func(rec flow.Record) (flow.Record, bool) {
			if rec.Kind == "bound.used" {
				rec.Path = "root/b"
			}
			return rec, true
		},
		"a use that is less than nothing": func(rec flow.Record) (flow.Record, bool) {
			if rec.Kind == "bound.used" {
				rec.Body = flow.JSON(map[string]any{"so_far": tokens(-5)})
			}
			return rec, true
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := r.history()
			var records journal
			for _, rec := range h.Records {
				if rec, keep := alter(rec); keep {
					records = append(records, rec)
				}
			}
			h.Records = records
			if found := flow.Conform(h, maps.Clone(r.job.Limits)); len(found) == 0 {
				t.Errorf("nothing was found%v", records)
			}
		})
	}
}
