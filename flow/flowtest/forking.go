package flowtest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// forking: going back restores what the program knows, never what it may use. A
// rollback is a fork that begins with the counters of its source's head.
func forking(t *testing.T, open opener) {
	t.Run("the counters are those that it is given", func(t *testing.T) { forkCounters(t, open) })
	t.Run("its limits may be larger or smaller than its source's", func(t *testing.T) { forkLimits(t, open) })
	t.Run("a fork of a fork", func(t *testing.T) { forkTwice(t, open) })
	t.Run("what a decision extended in the source is in the limits", func(t *testing.T) { forkExtended(t, open) })
	t.Run("grants to an attempt under way are inherited", func(t *testing.T) { forkGranted(t, open) })
	t.Run("wall time counts on", func(t *testing.T) { forkWall(t, open) })
	t.Run("time does not fall below what the source recorded", func(t *testing.T) { forkNow(t, open) })
	t.Run("time does not fall over a continue and a crash", func(t *testing.T) { continuedNow(t, open) })
	t.Run("altered counters and limits do not conform", func(t *testing.T) { forkAltered(t, open) })
}

// inPieces makes n calls that cost one each, every piece of them in a segment of
// its own, and returns how many were granted.
func inPieces(n, piece int) flow.Func {
	return func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
		var s struct{ Begun, Granted int }
		if err := json.Unmarshal(in, &s); err != nil {
			return nil, err
		}
		for i := range min(piece, n-s.Begun) {
			err := do(fc, reserving(flow.Read, fmt.Sprint("c", s.Begun+i), "tool_calls"))
			switch {
			case err == nil:
				s.Granted++
			case refused(err) == "":
				return nil, err
			}
		}
		if s.Begun += piece; s.Begun < n {
			return nil, flow.Continue(flow.JSON(s))
		}
		return flow.JSON(s.Granted), nil
	}
}

// lastSeq is the number of the last record of a kind at a path.
func (r *rig) lastSeq(kind, path string) int64 {
	r.t.Helper()
	found := r.journal().of(kind).at(path)
	if len(found) == 0 {
		r.t.Fatalf("no %s at %s%v", kind, path, r.journal())
	}
	return found[len(found)-1].Seq
}

func (r *rig) granted(out flow.Outcome, n int) {
	r.t.Helper()
	r.check(out, flow.Completed)
	if string(out.Value) != fmt.Sprint(n) {
		r.t.Fatalf("%s calls were granted, want %d%v", out.Value, n, r.journal())
	}
}

func forkCounters(t *testing.T, open opener) {
	bed := open(t)
	for name, piece := range map[string]int{"of one segment": 6, "of several segments": 2} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, bed, inPieces(6, piece))
			r.job.Limits = flow.Use{"tool_calls": 8}
			out := r.want(flow.Completed)
			r.granted(out, 6)
			r.usedUp(out, flow.Use{"tool_calls": 6})
			// Back to before the last call: it is made again, and one more than the head.
			back := r.fork(t, r.lastSeq("effect.finished", "root/c4"), out.Used, 0)
			again := back.want(flow.Completed)
			back.granted(again, 6)
			back.usedUp(again, flow.Use{"tool_calls": 7})
			// To the head the counters of a rollback leave less than one more time.
			spent := r.fork(t, r.lastSeq("effect.finished", "root/c4"), flow.Use{"tool_calls": 8}, 0)
			again = spent.want(flow.Completed)
			spent.granted(again, 5)
			spent.usedUp(again, flow.Use{"tool_calls": 8})
		})
	}
}

func forkLimits(t *testing.T, open opener) {
	bed := open(t)
	for name, piece := range map[string]int{"of one segment": 6, "of several segments": 2} {
		for how, c := range map[string]struct {
			limits        flow.Use
			granted, used int
		}{
			"larger":  {flow.Use{"tool_calls": 5}, 5, 5},
			"equal":   {flow.Use{"tool_calls": 4}, 4, 4},
			"smaller": {flow.Use{"tool_calls": 3}, 4, 4}, // what was granted stays so
			"none":    {nil, 6, 6},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				r := newRun(t, bed, inPieces(6, piece))
				r.job.Limits = flow.Use{"tool_calls": 4}
				r.granted(r.want(flow.Completed), 4)
				f := r.fork(t, r.lastSeq("effect.finished", "root/c3"), flow.Use{"tool_calls": 4}, 0)
				if piece < 4 { // the source's last segment begins after it
					f = r.forkSegment(t, "root/c3", flow.Use{"tool_calls": 4})
				}
				f.job.Limits = c.limits
				out := f.want(flow.Completed)
				f.granted(out, c.granted)
				if got := out.Limit; !sameUse(got, c.limits) {
					t.Errorf("the limits are %v, want %v", got, c.limits)
				}
				f.usedUp(out, flow.Use{"tool_calls": int64(c.used)})
			})
		}
	}
}

// forkSegment forks after the outcome at path, in whatever segment that stands.
func (r *rig) forkSegment(t tb, path string, counters flow.Use) *rig {
	r.t.Helper()
	f := r.fork(t, 0, counters, 0)
	f.base = &base{}
	for _, rec := range r.journal() {
		if rec.Kind == "run.continued" {
			f.base.records = nil
			f.base.segment++
		}
		f.base.records = append(f.base.records, rec)
		if rec.Kind == "effect.finished" && rec.Path == path {
			return f
		}
	}
	r.t.Fatalf("%s has no outcome%v", path, r.journal())
	return nil
}

func forkTwice(t *testing.T, open opener) {
	bed := open(t)
	for name, piece := range map[string]int{"of one segment": 6, "of several segments": 3} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, bed, inPieces(6, piece))
			r.job.Limits = flow.Use{"tool_calls": 20}
			out := r.want(flow.Completed)
			r.usedUp(out, flow.Use{"tool_calls": 6})

			first := r.fork(t, r.lastSeq("effect.finished", "root/c3"), out.Used, 0)
			out = first.want(flow.Completed)
			first.usedUp(out, flow.Use{"tool_calls": 8}) // c4 and c5 again

			second := first.fork(t, first.lastSeq("effect.finished", "root/c4"), out.Used, 0)
			out = second.want(flow.Completed)
			second.usedUp(out, flow.Use{"tool_calls": 9}) // c5 again

			// Without counters of its own it goes on with those of its source.
			bare := first.fork(t, first.lastSeq("effect.finished", "root/c4"), nil, 0)
			out = bare.want(flow.Completed)
			bare.usedUp(out, flow.Use{"tool_calls": 8})
		})
	}
}

func forkExtended(t *testing.T, open opener) {
	ask := reserving(flow.Once, "b", "tool_calls")
	ask.Ask = true
	r := newRig(t, open, inOrder(reserving(flow.Once, "a", "tool_calls"), ask, reserving(flow.Once, "c", "tool_calls")))
	r.job.Limits = flow.Use{"tool_calls": 1}
	r.want(flow.ParkedRun)
	r.decideKey("root/b/bound#1", flow.Decision{Action: "extend", Answer: json.RawMessage(`{"tool_calls":2}`)})
	out := r.want(flow.Completed)
	r.usedUp(out, flow.Use{"tool_calls": 3})

	at := r.lastSeq("effect.finished", "root/b")
	h := r.history()
	h.Records = journal(h.Records).where(func(rec flow.Record) bool { return rec.Seq <= at })
	tally := flow.Totals(h, r.job.Limits)
	used, limit := tally.Used, tally.Limit
	if !sameUse(used, flow.Use{"tool_calls": 2}) || !sameUse(limit, flow.Use{"tool_calls": 3}) {
		t.Fatalf("at record %d %v were used of %v", at, used, limit)
	}
	f := r.fork(t, at, used, 0)
	f.job.Limits = limit
	out = f.want(flow.Completed)
	if !sameUse(out.Limit, limit) {
		t.Errorf("the extension counts twice: the limit is %v", out.Limit)
	}
	f.usedUp(out, flow.Use{"tool_calls": 3})

	strict := r.fork(t, at, used, 0)
	strict.job.Limits = flow.Use{"tool_calls": 2}
	out = strict.want(flow.Failed)
	if refused(out.Err) != "tool_calls" {
		t.Errorf("failed with %v%v", out.Err, strict.journal())
	}
	strict.usedUp(out, flow.Use{"tool_calls": 2})
}

func forkGranted(t *testing.T, open opener) {
	bed := open(t)
	for name, counters := range map[string]flow.Use{"by the records": nil, "by the counters": tokens(5)} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, bed, inOrder(call(flow.Read, "a", 1)))
			r.crash(r.killedHolding(tokens(5)))
			f := r.fork(t, 0, counters, 0)
			f.world.Answer("root/a", asks(nil, tokens(7)))
			f.usedUp(f.want(flow.Completed), tokens(12))
		})
	}
}

func forkWall(t *testing.T, open opener) {
	bed := open(t)
	r := newRun(t, bed, program(func(fc flow.Context) error {
		if err := do(fc, call(flow.Read, "a", 1)); err != nil {
			return err
		}
		if _, err := fc.Wait(question("g")); err != nil {
			return err
		}
		return do(fc, call(flow.Read, "b", 1))
	}))
	r.world.Answer("root/a", func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		<-time.After(40 * time.Millisecond) // wall time has to pass
		return flow.Done{Value: a.Input}, nil
	})
	r.want(flow.ParkedRun)
	took := flow.Wall(r.history())
	if took < 40*time.Millisecond {
		t.Fatalf("a drive of 40 ms took %v%v", took, r.journal())
	}
	cases := map[string]struct {
		wall    time.Duration // as its run.forked has it
		limit   time.Duration
		refused string
	}{
		"from the source's records":             {0, 40 * time.Millisecond, flow.WallTime},
		"and fits":                              {0, time.Hour, ""},
		"from the source's head":                {2 * time.Hour, time.Hour, flow.WallTime},
		"from a head that has less than allows": {2 * time.Hour, 3 * time.Hour, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := r.fork(t, 0, flow.Use{}, c.wall)
			f.job.Limits = flow.Use{flow.WallTime: c.limit.Milliseconds()}
			f.want(flow.ParkedRun)
			if again := flow.Wall(f.history()); again < max(took, c.wall) {
				t.Errorf("the fork begins with %v, its source took %v", again, max(took, c.wall))
			}
			f.decideKey("root/g", yes)
			out := f.drive()
			if got := refused(out.Err); got != c.refused {
				t.Fatalf("the fork ended %s, refused by %q, want %q%v", out.Status, got, c.refused, f.journal())
			}
		})
	}
}

// notBefore checks that the last reading of the clock is not before an earlier
// one that another run, or segment, has recorded.
func (r *rig) notBefore(recorded time.Time) {
	r.t.Helper()
	all := r.journal().of("clock.read")
	if len(all) == 0 {
		r.t.Fatalf("the clock was never read%v", r.journal())
	}
	if got := read(all[len(all)-1]).T; got.Before(recorded) {
		r.t.Fatalf("it is %v, but it was %v before%v", got, recorded, r.journal())
	}
}

func forkNow(t *testing.T, open opener) {
	bed := open(t)
	ahead := func(r *rig) time.Time { // what a clock recorded that was far ahead
		r.clock.Step(time.Hour)
		r.want(flow.ParkedRun)
		r.clock.Step(-time.Hour)
		return read(r.journal().of("clock.read")[0]).T
	}
	read := func(fc flow.Context) error { fc.Now(); return nil }
	wait := func(fc flow.Context) error { _, err := fc.Wait(question("g")); return err }
	t.Run("in one segment", func(t *testing.T) {
		r := newRun(t, bed, steps(read, wait, read))
		recorded := ahead(r)
		f := r.fork(t, 0, flow.Use{}, 0)
		f.toEnd()
		f.notBefore(recorded)
	})
	t.Run("in an earlier segment", func(t *testing.T) {
		r := newRun(t, bed, continuing(steps(read), steps(wait, read)))
		recorded := ahead(r)
		f := r.fork(t, 0, flow.Use{}, 0)
		f.toEnd()
		f.notBefore(recorded)
	})
	t.Run("in what is not inherited", func(t *testing.T) {
		r := newRun(t, bed, steps(read, wait, read))
		r.want(flow.ParkedRun)
		f := r.fork(t, 0, flow.Use{}, 0)
		last := len(f.base.records) - 1
		f.base.records[last].At = f.clock.Now().Add(time.Hour) // who parked it had a fast clock
		f.toEnd()
		f.notBefore(f.base.records[last].At)
	})
}

// continuing runs programs one after the other, each in a segment of its own.
func continuing(parts ...flow.Func) flow.Func {
	return func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
		var i int
		if string(in) != `{}` {
			if err := json.Unmarshal(in, &i); err != nil {
				return nil, err
			}
		}
		v, err := parts[i](fc, in)
		if err == nil && i+1 < len(parts) {
			return nil, flow.Continue(flow.JSON(i + 1))
		}
		return v, err
	}
}

func continuedNow(t *testing.T, open opener) {
	read := func(fc flow.Context) error { fc.Now(); return nil }
	r := newRig(t, open, continuing(steps(read), steps(calling(call(flow.Read, "a", 1)), read)))
	r.clock.Step(time.Hour)
	f := NewFaulty(r.log())
	r.world.Answer("root/a", func(context.Context, flow.Attempt) (flow.Done, error) {
		f.Kill()
		return flow.Done{}, errDead
	})
	r.crash(f)
	r.clock.Step(-time.Hour)
	recorded := readTime(r.journal())
	r.world.On("root/a", Act{})
	r.want(flow.Completed)
	r.notBefore(recorded)
}

// readTime is the first reading of the clock.
func readTime(j journal) time.Time { return read(j.of("clock.read")[0]).T }

func forkAltered(t *testing.T, open opener) {
	r := newRig(t, open, inPieces(4, 4))
	r.job.Limits = flow.Use{"tool_calls": 8}
	r.want(flow.Completed)
	f := r.fork(t, r.lastSeq("effect.finished", "root/c1"), flow.Use{"tool_calls": 2}, 0)
	f.usedUp(f.want(flow.Completed), flow.Use{"tool_calls": 4})
	for name, alter := range map[string]func(map[string]any){
		"less was used":      set("counters", map[string]any{"tool_calls": 1}),
		"nothing was used":   set("counters", map[string]any{}),
		"more may be used":   set("limit", map[string]any{"tool_calls": 9}),
		"other may be used":  set("limit", map[string]any{"tool_calls": 8, "tokens": 1}),
		"the bound was hit":  set("counters", map[string]any{"tool_calls": 7}),
		"nothing is limited": set("limit", map[string]any{}),
	} {
		t.Run(name, func(t *testing.T) {
			h := f.history()
			h.Records = append(journal{}, h.Records...)
			for i := range h.Records {
				if h.Records[i].Kind == "run.forked" {
					h.Records[i].Body = altered(t, h.Records[i].Body, alter)
				}
			}
			if found := flow.Conform(h, f.job.Limits); len(found) == 0 {
				t.Errorf("nothing was found%v", journal(h.Records))
			}
		})
	}
}
