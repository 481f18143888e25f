package flowtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// replaying: a journal and a program are proof of each other.
func replaying(t *testing.T, open opener) {
	t.Run("a longer program is found", func(t *testing.T) { longer(t, open) })
	t.Run("a shorter program is found", func(t *testing.T) { shorter(t, open) })
	t.Run("every prefix replays to its end and performs nothing", func(t *testing.T) { replayPrefixes(t, open) })
	t.Run("a fork at any record leads to the same end", func(t *testing.T) { forks(t, open) })
	t.Run("an altered journal does not conform", func(t *testing.T) { tampered(t, open) })
	t.Run("a once call made again is found", func(t *testing.T) { onceAgain(t, open) })
	t.Run("a once call that failed and was tried again is found", func(t *testing.T) { retriedOnce(t, open) })
	t.Run("a call that reserves nothing and should is found", func(t *testing.T) { unreserved(t, open) })
	t.Run("an altered class is found", func(t *testing.T) { tamperedClass(t, open) })
	t.Run("an altered outcome is not replayed", func(t *testing.T) { tamperedOutcome(t, open) })
	t.Run("replay writes nothing", func(t *testing.T) { replayWritesNothing(t, open) })
}

// variety are steps of every kind, each of which leaves a record of its own.
var variety = map[string]step{
	"call":  calling(call(flow.Read, "more", 1)),
	"once":  calling(call(flow.Once, "more", 1)),
	"gate":  asking(question("more")),
	"sleep": func(fc flow.Context) error { return fc.At("more").Sleep(time.Millisecond) },
	"clock": func(fc flow.Context) error { fc.At("more").Now(); return nil },
	"event": func(fc flow.Context) error { fc.At("more").Emit(flow.Event{Kind: "agent.said"}); return nil },
	"branch": func(fc flow.Context) error {
		return fc.Go(flow.Group{}, flow.Branch{Name: "more", Run: calling(call(flow.Read, "x", 1))})
	},
	"closed group": func(fc flow.Context) error {
		_ = fc.Go(flow.Group{}, flow.Branch{Name: "more", Run: func(flow.Context) error { return &flow.Error{Code: "own"} }})
		return nil
	},
}

var common = []step{calling(call(flow.Read, "first", 1)), saying("agent.said", "x")}

func longer(t *testing.T, open opener) {
	bed := open(t)
	for name, more := range variety {
		if name == "closed group" {
			continue // a group that fails by itself needs no record to fail again
		}
		t.Run(name, func(t *testing.T) {
			r := newRun(t, bed, steps(common...))
			r.want(flow.Completed)
			r.job.Flow = steps(append(slices.Clone(common), more)...)
			r.unfit()
		})
	}
}

func shorter(t *testing.T, open opener) {
	bed := open(t)
	for name, more := range variety {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, bed, steps(append(slices.Clone(common), more)...))
			out := r.toEnd()
			r.check(out, flow.Completed)
			r.agree(out)
			r.job.Flow = steps(common...)
			r.unfit()
		})
	}
}

// unfit checks that the program does not fit the ended run's history.
func (r *rig) unfit() {
	r.t.Helper()
	out := r.replay(r.history())
	var nd *flow.NonDeterminism
	if out.Status != flow.Interrupted || !errors.As(out.Err, &nd) {
		r.t.Fatalf("replay ended %s with %v, want NonDeterminism%v", out.Status, out.Err, r.journal())
	}
}

func replayPrefixes(t *testing.T, open opener) {
	r := newEverything(t, open(t))
	r.toEnd()
	full := r.journal()
	start := slices.IndexFunc(full, func(rec flow.Record) bool { return rec.Kind == "run.started" })
	end := slices.IndexFunc(full, func(rec flow.Record) bool { return rec.Kind == "run.continued" })
	for n := start; n < end; n++ {
		out := r.replay(flow.History{Records: full[:n]})
		if out.Status != flow.ParkedRun || out.Err != nil {
			t.Fatalf("the first %d records replay to %s, %v%v", n, out.Status, out.Err, full[:n])
		}
	}
	for n := end + 1; n < len(full); n++ {
		out := r.replay(flow.History{Segment: 1, Records: full[end:n]})
		// When all is recorded but the end itself, replay reaches it.
		if out.Status != flow.ParkedRun && (out.Status != flow.Completed || n < len(full)-1) || out.Err != nil {
			t.Fatalf("records %d to %d replay to %s, %v%v", end+1, n, out.Status, out.Err, full[end:n])
		}
	}
}

func forks(t *testing.T, open opener) {
	bed := open(t)
	whole := newEverything(t, bed)
	whole.toEnd()
	full := whole.journal()
	start := slices.IndexFunc(full, func(rec flow.Record) bool { return rec.Kind == "run.started" })
	end := slices.IndexFunc(full, func(rec flow.Record) bool { return rec.Kind == "run.continued" })
	for n := start + 1; n <= end; n++ {
		r := newEverything(t, bed)
		r.clock.StepTo(whole.clock.Now())
		past := full[:n]
		r.answer = r.knowing(past, whole.world)
		r.base = &base{records: past}
		var out flow.Outcome
		for !out.Terminal() {
			out = r.drive()
			if out.Status == flow.ParkedRun && r.answerAll() == 0 {
				r.clock.StepTo(out.WakeAt)
			}
			if out.Status == flow.Interrupted {
				t.Fatalf("forked at %d: %s, %v%v", n, out.Reason, out.Err, r.journal())
			}
		}
		r.endsAlike(out, past, 0)
		for _, g := range r.journal().gates() {
			if _, ok := past.gate(g.Key); ok && len(past.of("gate.taken").at(g.Key)) > 0 {
				t.Fatalf("forked at %d: the gate %s was opened again although its decision was taken%v", n, g.Key, r.journal())
			}
		}
	}
}

func replayWritesNothing(t *testing.T, open opener) {
	r := newEverything(t, open(t))
	out := r.toEnd()
	before, calls := r.journal(), len(r.world.Calls())
	r.agree(out)
	if !slices.EqualFunc(before, r.journal(), sameRecord) || len(r.world.Calls()) != calls {
		t.Fatalf("a replay changed something%v", r.journal())
	}
}

// ledgered is a run whose journal has every kind of record that the engine's
// rules speak of: grants, a refusal, a retry, a sleep, a decision, a total.
func ledgered(t *testing.T, open opener) *rig {
	retried := retrying(flow.Read, "retried", 2)
	retried.Reserve = flow.Use{"tool_calls": 1}
	r := newRig(t, open, program(func(fc flow.Context) error {
		if err := do(fc, reserving(flow.Once, "sent", "tool_calls")); err != nil {
			return err
		}
		if err := do(fc, retried); err != nil {
			return err
		}
		if err := fc.Sleep(time.Hour); err != nil {
			return err
		}
		if _, err := fc.Wait(question("g")); err != nil {
			return err
		}
		if err := do(fc, reserving(flow.Read, "refused", "tool_calls")); refused(err) != "tool_calls" {
			return err
		}
		return do(fc, call(flow.Once, "last", 1))
	}))
	r.job.Limits = flow.Use{"tool_calls": 3}
	r.world.Answer("root/retried", failingUntil(2))
	out := r.toEnd()
	r.check(out, flow.Completed)
	r.agree(out)
	return r
}

func tampered(t *testing.T, open opener) {
	r := ledgered(t, open)
	// pick finds the record to alter: the k-th of a kind at a path.
	pick := func(kind, path string, k int) func(journal) int {
		return func(j journal) int {
			for i, rec := range j {
				if rec.Kind == kind && rec.Path == path {
					if k--; k == 0 {
						return i
					}
				}
			}
			return -1
		}
	}
	cases := []struct {
		name  string
		which func(journal) int
		alter func(map[string]any)
		drop  bool
	}{
		{"a grant beyond the bound", pick("effect.intended", "root/sent", 1), set("reserve", map[string]any{"tool_calls": 9}), false},
		{"a refusal that fitted", pick("effect.finished", "root/refused", 1), set("wanted", map[string]any{"tool_calls": 0}), false},
		{"an attempt skipped", pick("effect.intended", "root/retried", 2), set("attempt", 3), false},
		{"an attempt repeated", pick("effect.intended", "root/retried", 2), set("attempt", 1), false},
		{"a finish of another attempt", pick("effect.finished", "root/retried", 1), set("attempt", 1), false},
		{"a failure of another attempt", pick("effect.failed", "root/retried", 1), set("attempt", 2), false},
		{"a once call without intent", pick("effect.intended", "root/last", 1), nil, true},
		{"a reserving call without intent", pick("effect.intended", "root/sent", 1), nil, true},
		{"a failure of a once call", pick("effect.intended", "root/retried", 1), set("class", "once"), false},
		{"another digest", pick("effect.finished", "root/sent", 1), set("digest", flow.Digest([]byte("x"))), false},
		{"another input", pick("effect.intended", "root/sent", 1), set("input", "forged"), false},
		{"an early timer", pick("timer.fired", "root/sleep#1", 1), set("t", time.Unix(0, 0).UTC().Format(time.RFC3339Nano)), false},
		{"a timer never set", pick("timer.set", "root/sleep#1", 1), nil, true},
		{"a decision of another seq", pick("gate.taken", "root/g", 1), set("seq", 1), false},
		{"a decision that is missing", pick("policy.gate.resolve", "root/g", 1), nil, true},
		{"a closing taken for a decision", pick("policy.gate.resolve", "root/g", 1), set("via", "superseded"), false},
		{"use that was not reported", pick("effect.finished", "root/sent", 1), set("use", map[string]any{"tool_calls": 0}), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := r.history()
			h.Records = slices.Clone(h.Records)
			i := c.which(h.Records)
			if i < 0 {
				t.Fatalf("there is no such record%v", journal(h.Records))
			}
			if c.drop {
				h.Records = slices.Delete(h.Records, i, i+1)
			} else {
				h.Records[i].Body = altered(t, h.Records[i].Body, c.alter)
			}
			if found := flow.Conform(h, r.job.Limits); len(found) == 0 {
				t.Errorf("nothing was found%v", journal(h.Records))
			}
		})
	}
	t.Run("an epoch that falls", func(t *testing.T) {
		h := r.history()
		h.Records = slices.Clone(h.Records)
		// The last record that carries an epoch is the latest drive's.
		for i := range h.Records {
			if h.Records[i].Path == "root/last" {
				h.Records[i].Epoch = 1
			}
		}
		if found := flow.Conform(h, r.job.Limits); len(found) == 0 {
			t.Errorf("nothing was found%v", journal(h.Records))
		}
	})
	t.Run("a second outcome", func(t *testing.T) {
		h := r.history()
		i := pick("effect.finished", "root/sent", 1)(h.Records)
		h.Records = slices.Insert(slices.Clone(h.Records), i+1, h.Records[i])
		if found := flow.Conform(h, r.job.Limits); len(found) == 0 {
			t.Errorf("nothing was found%v", journal(h.Records))
		}
	})
	t.Run("an altered total of a segment", func(t *testing.T) { tamperedSegment(t, open) })
}

func set(member string, v any) func(map[string]any) {
	return func(b map[string]any) { b[member] = v }
}

func altered(t *testing.T, body json.RawMessage, alter func(map[string]any)) json.RawMessage {
	var b map[string]any
	if err := json.Unmarshal(body, &b); err != nil {
		t.Fatalf("a body is no object: %v", err)
	}
	alter(b)
	return flow.JSON(b)
}

// tamperedSegment alters the ledger that one segment hands to the next. The
// journal as a whole is then checked, as a verifier does.
func tamperedSegment(t *testing.T, open opener) {
	r := newEverything(t, open(t))
	r.toEnd()
	h := flow.History{Records: slices.Clone(r.journal())}
	i := slices.IndexFunc(h.Records, func(rec flow.Record) bool { return rec.Kind == "run.continued" })
	h.Records = h.Records[:i+1]
	if found := flow.Conform(h, r.job.Limits); len(found) != 0 {
		t.Fatalf("an untouched segment does not conform: %v%v", found, journal(h.Records))
	}
	h.Records[i].Body = altered(t, h.Records[i].Body, set("used", map[string]any{"tool_calls": 1}))
	if found := flow.Conform(h, r.job.Limits); len(found) == 0 {
		t.Errorf("nothing was found%v", journal(h.Records))
	}
}

func tamperedOutcome(t *testing.T, open opener) {
	r := newRig(t, open, program(func(fc flow.Context) error {
		v, err := flow.Do[int](fc, call(flow.Read, "a", 1))
		if err != nil {
			return err
		}
		if v == 1 {
			return do(fc, call(flow.Once, "one", 1))
		}
		return do(fc, call(flow.Once, "other", v))
	}))
	r.agree(r.want(flow.Completed))
	h := r.history()
	h.Records = slices.Clone(h.Records)
	i := slices.IndexFunc(h.Records, func(rec flow.Record) bool { return rec.Kind == "effect.finished" && rec.Path == "root/a" })
	h.Records[i].Body = altered(t, h.Records[i].Body, set("value", 2))
	out := r.replay(h)
	var nd *flow.NonDeterminism
	if !errors.As(out.Err, &nd) {
		t.Fatalf("replay of an altered value ended %s", fmt.Sprint(describe(out)))
	}
}
