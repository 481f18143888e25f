package flowtest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// reservings: an attempt may ask for more while it runs.
func reservings(t *testing.T, open opener) {
	t.Run("what it reports is charged, else all that it holds", func(t *testing.T) { reservesMore(t, open) })
	t.Run("a refusal names its bound and holds nothing", func(t *testing.T) { reserveRefused(t, open) })
	t.Run("fifty attempts together get no more than there is", func(t *testing.T) { reserveTogether(t, open) })
	t.Run("the log is not waited for", func(t *testing.T) { reserveNotWaiting(t, open) })
	t.Run("a grant before a crash is charged once", func(t *testing.T) { reserveCrash(t, open) })
	t.Run("a grant to a once call in doubt is charged once", func(t *testing.T) { reserveDoubt(t, open) })
	t.Run("a grant of an attempt that is cut off is charged", func(t *testing.T) { reserveCut(t, open) })
	t.Run("a grant of an attempt that fails is settled with it", func(t *testing.T) { reserveRetried(t, open) })
	t.Run("a suspended attempt keeps what it was granted", func(t *testing.T) { reserveSuspended(t, open) })
	t.Run("an attempt that is over gets nothing", func(t *testing.T) { reserveOver(t, open) })
	t.Run("a check gets nothing", func(t *testing.T) { reserveInCheck(t, open) })
	t.Run("an altered grant does not conform", func(t *testing.T) { reserveAltered(t, open) })
}

// asks is an activity that asks for each of these amounts in turn and fails if
// one is refused; it reports use, unless that is nil.
func asks(use flow.Use, amounts ...flow.Use) func(context.Context, flow.Attempt) (flow.Done, error) {
	return func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		for _, more := range amounts {
			if err := a.Reserve(more); err != nil {
				return flow.Done{}, &flow.Error{Code: "unexpected", Message: err.Error(), Answered: true}
			}
		}
		return flow.Done{Value: a.Input, Use: use}, nil
	}
}

func tokens(n int64) flow.Use { return flow.Use{"tokens": n} }

func reservesMore(t *testing.T, open opener) {
	bed := open(t)
	for _, class := range []flow.Class{flow.Read, flow.Idempotent, flow.Once} {
		for name, c := range map[string]struct {
			reserve, report, used flow.Use
		}{
			"nothing reserved, nothing reported":      {nil, nil, flow.Use{"tokens": 50, "model_calls": 1}},
			"something reserved, nothing reported":    {tokens(5), nil, flow.Use{"tokens": 55, "model_calls": 1}},
			"something reserved, all of it reported":  {tokens(5), flow.Use{"tokens": 12, "model_calls": 3}, flow.Use{"tokens": 12, "model_calls": 3}},
			"something reserved, part of it reported": {tokens(5), tokens(12), flow.Use{"tokens": 12, "model_calls": 1}},
			"nothing reserved, zero reported":         {nil, tokens(0), flow.Use{"model_calls": 1}},
		} {
			t.Run(string(class)+", "+name, func(t *testing.T) {
				asker := call(class, "a", 1)
				asker.Reserve = c.reserve
				r := newRun(t, bed, inOrder(asker, call(flow.Read, "b", 1)))
				r.job.Limits = flow.Use{"tokens": 55, "model_calls": 1}
				r.world.Answer("root/a", asks(c.report, tokens(20), flow.Use{"tokens": 30, "model_calls": 1}, nil))
				r.usedUp(r.want(flow.Completed), c.used)
				notes := r.journal().of("bound.reserved").at("root/a")
				if len(notes) != 2 || !notes[0].Note || string(notes[1].Body) != `{"by":{"model_calls":1,"tokens":30}}` {
					t.Fatalf("the grants are recorded as%v", notes)
				}
				if len(c.reserve) > 0 && asker.Reserve["tokens"] != 5 {
					t.Fatalf("the program's own reservation was changed to %v", asker.Reserve)
				}
			})
		}
	}
}

func reserveRefused(t *testing.T, open opener) {
	bed := open(t)
	for name, c := range map[string]struct {
		more  flow.Use
		bound string // "": it is refused for what it is
	}{
		"one bound":               {tokens(11), "tokens"},
		"the first in order":      {flow.Use{"tokens": 11, "model_calls": 2}, "model_calls"},
		"all or none":             {flow.Use{"tokens": 1, "model_calls": 2}, "model_calls"},
		"more than can be added":  {tokens(1<<63 - 1), "tokens"},
		"a negative amount":       {tokens(-1), ""},
		"time, which is measured": {flow.Use{flow.WallTime: 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, bed, inOrder(call(flow.Read, "a", 1)))
			r.job.Limits = flow.Use{"tokens": 10, "model_calls": 1}
			r.world.Answer("root/a", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
				if done, err := asks(nil, tokens(1))(ctx, a); err != nil {
					return done, err
				}
				for range 3 {
					if err := a.Reserve(c.more); err == nil || refused(err) != c.bound {
						return flow.Done{}, &flow.Error{Code: "granted", Message: fmt.Sprint(err), Answered: true}
					}
				}
				// All that there is can still be had.
				return asks(nil, flow.Use{"tokens": 9, "model_calls": 1})(ctx, a)
			})
			r.usedUp(r.want(flow.Completed), flow.Use{"tokens": 10, "model_calls": 1})
			noted := r.journal().of("bound.refused")
			if want := min(len(c.bound), 1); len(noted) != want {
				t.Fatalf("%d notes of three refusals, want %d%v", len(noted), want, r.journal())
			}
		})
	}
}

func reserveTogether(t *testing.T, open opener) {
	bed := open(t)
	for range times(20) {
		const askers, limit = 50, 170
		var list []flow.Branch
		for range askers {
			list = append(list, flow.Branch{Run: calling(call(flow.Read, "x", 1))})
		}
		r := newRun(t, bed, program(func(fc flow.Context) error { return fc.Go(flow.Group{}, list...) }))
		r.job.Limits = tokens(limit)
		var grants, inside atomic.Int64
		together := make(chan struct{})
		r.world.Else(Act{Do: func(_ context.Context, a flow.Attempt) (flow.Done, error) {
			if inside.Add(1) == askers {
				close(together)
			}
			<-together
			for {
				switch err := a.Reserve(tokens(1)); {
				case err == nil:
					grants.Add(1)
				case refused(err) == "tokens":
					return flow.Done{Value: a.Input}, nil
				default:
					return flow.Done{}, err
				}
			}
		}})
		out := r.want(flow.Completed)
		if n := grants.Load(); n != limit {
			t.Fatalf("%d were granted of %d", n, limit)
		}
		r.usedUp(out, tokens(limit))
	}
}

func reserveNotWaiting(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Read, "a", 1)))
	f := NewFaulty(r.log())
	r.world.Answer("root/a", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		f.Hold()
		defer f.Release()
		return asks(nil, tokens(1), tokens(2))(ctx, a)
	})
	out := r.start(f).wait()
	r.check(out, flow.Completed)
	r.usedUp(out, tokens(3))
}

// killedHolding dies in the call a, once it holds these amounts and that is
// durable.
func (r *rig) killedHolding(amounts ...flow.Use) *Faulty {
	f := NewFaulty(r.log())
	r.world.Answer("root/a", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		_, err := asks(nil, amounts...)(ctx, a)
		if err == nil {
			err = a.Sync()
		}
		f.Kill()
		return flow.Done{}, errors.Join(errDead, err)
	})
	return f
}

func reserveCrash(t *testing.T, open opener) {
	bed := open(t)
	free, costly := call(flow.Read, "a", "a"), call(flow.Idempotent, "a", "a")
	costly.Reserve = tokens(100)
	for name, c := range map[string]struct {
		call flow.Call
		lost int64 // what the crash costs
	}{"of a call that reserved nothing": {free, 5}, "of a call that reserved": {costly, 105}} {
		for how, then := range map[string]struct {
			do   func(context.Context, flow.Attempt) (flow.Done, error)
			used int64 // beside the loss and what the call itself reserves
		}{
			"and none after it":           {asks(nil), 0},
			"and one after it":            {asks(nil, tokens(7)), 7},
			"and a report after it":       {asks(tokens(1)), 1 - c.call.Reserve["tokens"]},
			"and more and a report of it": {asks(tokens(1), tokens(7)), 1 - c.call.Reserve["tokens"]},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				r := newRun(t, bed, inOrder(c.call))
				r.job.Limits = tokens(1000)
				r.crash(r.killedHolding(tokens(2), tokens(3)))
				r.crash(r.killedHolding(tokens(2), tokens(3)))
				r.world.Answer("root/a", then.do)
				r.usedUp(r.want(flow.Completed), tokens(2*c.lost+then.used+c.call.Reserve["tokens"]))
			})
		}
	}
	t.Run("which counts against the bound", func(t *testing.T) {
		r := newRun(t, bed, inOrder(free))
		r.job.Limits = tokens(9)
		r.crash(r.killedHolding(tokens(5)))
		r.world.Answer("root/a", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
			if err := a.Reserve(tokens(5)); refused(err) != "tokens" {
				return flow.Done{}, fmt.Errorf("the lost tokens can be had again: %v", err)
			}
			return asks(nil, tokens(4))(ctx, a)
		})
		r.usedUp(r.want(flow.Completed), tokens(9))
	})
}

func reserveDoubt(t *testing.T, open opener) {
	bed := open(t)
	for action, used := range map[string]int64{"use_result": 5, "fail": 5, "retry": 12} {
		t.Run(action, func(t *testing.T) {
			r := newRun(t, bed, program(func(fc flow.Context) error {
				err := do(fc, call(flow.Once, "a", 1))
				if coded(err) == flow.CodeInDoubt {
					return nil
				}
				return err
			}))
			r.crash(r.killedHolding(tokens(5)))
			r.world.Answer("root/a", asks(nil, tokens(7)))
			r.want(flow.ParkedRun)
			r.decideKey("root/a/in_doubt", flow.Decision{Action: action})
			r.usedUp(r.want(flow.Completed), tokens(used))
		})
	}
}

func reserveCut(t *testing.T, open opener) {
	r := newRig(t, open, besideFailer(dear(flow.Read, "a")))
	held, asked := make(chan struct{}), make(chan error, 1)
	r.world.Answer("root/w/a", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		done, err := asks(nil, tokens(7))(ctx, a)
		close(held)
		<-ctx.Done()
		asked <- a.Reserve(tokens(1))
		return done, err
	})
	r.world.Answer("root/failer/x", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		<-held
		return failing("broken")(ctx, a)
	})
	out := r.want(flow.Failed)
	if err := <-asked; err == nil {
		t.Fatalf("an attempt that was cut off was granted more%v", r.journal())
	}
	r.usedUp(out, flow.Use{"tokens": 57, "model_calls": 1})
}

func reserveRetried(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(retrying(flow.Read, "a", 2)))
	r.world.Answer("root/a", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		done, err := asks(nil, tokens(int64(a.N)*10))(ctx, a)
		if a.N < 3 && err == nil {
			err = &flow.Error{Code: "flaky", Retry: true}
		}
		return done, err
	})
	r.usedUp(r.want(flow.Completed), tokens(10+20+30))
}

func reserveSuspended(t *testing.T, open opener) {
	bed := open(t)
	for name, reserve := range map[string]flow.Use{"that reserved nothing": nil, "that reserved": tokens(100)} {
		t.Run(name, func(t *testing.T) {
			c := call(flow.Idempotent, "a", 1)
			c.Reserve = reserve
			r := newRun(t, bed, inOrder(c))
			r.job.Limits = tokens(reserve["tokens"] + 6)
			drives := 0
			r.world.Answer("root/a", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
				drives++
				if a.N != 1 {
					return flow.Done{}, fmt.Errorf("attempt %d", a.N)
				}
				done, err := asks(nil, tokens(int64(drives)))(ctx, a)
				if drives < 3 && err == nil {
					err = flow.ErrParked
				}
				return done, err
			})
			r.want(flow.ParkedRun)
			r.want(flow.ParkedRun)
			r.usedUp(r.want(flow.Completed), tokens(reserve["tokens"]+6))
		})
	}
}

func reserveOver(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Read, "a", 1), call(flow.Read, "b", 1)))
	var first flow.Attempt
	r.world.Answer("root/a", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		first = a
		return asks(nil, tokens(1))(ctx, a)
	})
	r.world.Answer("root/b", func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		if first.Reserve(tokens(1)) == nil {
			return flow.Done{}, &flow.Error{Code: "granted", Answered: true}
		}
		return flow.Done{Value: a.Input}, nil
	})
	out := r.want(flow.Completed)
	if first.Reserve(tokens(1)) == nil {
		t.Error("after the drive more was granted")
	}
	r.usedUp(out, tokens(1))
}

func reserveInCheck(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Read, "a", 1)))
	r.world.On("root/a", Act{Check: func(_ context.Context, a flow.Attempt) error {
		if a.Reserve(tokens(1)) == nil {
			return &flow.Error{Code: "granted"}
		}
		return nil
	}})
	r.usedUp(r.want(flow.Completed), nil)
}

func reserveAltered(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Read, "a", 1), call(flow.Read, "b", 1)))
	r.job.Limits = tokens(10)
	r.world.Answer("root/a", asks(nil, tokens(4)))
	r.world.Answer("root/b", asks(nil, tokens(6)))
	r.usedUp(r.want(flow.Completed), tokens(10))
	for name, alter := range map[string]func(*flow.Record){
		"more than the bound":    func(rec *flow.Record) { rec.Body = flow.JSON(map[string]any{"by": tokens(5)}) },
		"less than nothing":      func(rec *flow.Record) { rec.Body = flow.JSON(map[string]any{"by": tokens(-1)}) },
		"before the call began":  func(rec *flow.Record) { rec.Path = "root/b" },
		"for a call never asked": func(rec *flow.Record) { rec.Path = "root/c" },
	} {
		t.Run(name, func(t *testing.T) {
			h := r.history()
			h.Records = append(journal{}, h.Records...)
			for i := range h.Records {
				if h.Records[i].Kind == "bound.reserved" && h.Records[i].Path == "root/a" {
					alter(&h.Records[i])
				}
			}
			if found := flow.Conform(h, r.job.Limits); len(found) == 0 {
				t.Errorf("nothing was found%v", journal(h.Records))
			}
		})
	}
}
