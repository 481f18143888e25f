package flowtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// long: runs that go on for ever, and payloads that are large.
func long(t *testing.T, open opener) {
	t.Run("with Continue the last park costs what the first did", func(t *testing.T) { manyParks(t, open) })
	t.Run("Continue keeps the ledger and begins keys anew", func(t *testing.T) { continues(t, open) })
	t.Run("Continue closes the gates it leaves", func(t *testing.T) { continueSupersedes(t, open) })
	t.Run("Continue survives a kill on either side", func(t *testing.T) { continueKilled(t, open) })
	t.Run("a cancel survives Continue", func(t *testing.T) { cancelSurvives(t, open) })
	t.Run("a history too long is refused before the effect", func(t *testing.T) { tooLong(t, open) })
	t.Run("large payloads come back whole", func(t *testing.T) { largePayloads(t, open) })
	t.Run("a payload too large is refused", func(t *testing.T) { tooLarge(t, open) })
	t.Run("what looks like a blob is not taken for one", func(t *testing.T) { looksLikeBlob(t, open) })
	t.Run("secrets are redacted everywhere", func(t *testing.T) { redacted(t, open) })
}

// rounds is a loop of asks, continued after every few.
func rounds(total, per int) flow.Func {
	return func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
		var state struct{ Done int }
		if err := json.Unmarshal(in, &state); err != nil {
			return nil, err
		}
		for k := range per {
			if state.Done == total {
				return in, nil
			}
			if _, err := fc.Wait(question(fmt.Sprint("g#", k))); err != nil {
				return nil, err
			}
			state.Done++
		}
		return nil, flow.Continue(flow.JSON(map[string]int{"Done": state.Done}))
	}
}

func manyParks(t *testing.T, open opener) {
	total := times(2000)
	r := newRig(t, open, rounds(total, 10))
	longest := 0
	var last string
	for range total {
		out := r.want(flow.ParkedRun)
		if len(out.Gates) != 1 || out.Gates[0] == last {
			t.Fatalf("parked on %v after %s", out.Gates, last)
		}
		last = out.Gates[0]
		r.decide(last, yes)
		longest = max(longest, len(r.history().Records))
	}
	// What a drive costs is what it loads: a segment of ten rounds and no more.
	if longest > 60 {
		t.Errorf("a drive loads %d records, want a segment", longest)
	}
	out := r.want(flow.Completed)
	if string(out.Value) != fmt.Sprintf(`{"Done":%d}`, total) {
		t.Errorf("the value is %s", out.Value)
	}
	r.agree(out)
}

func continues(t *testing.T, open opener) {
	r := newRig(t, open, func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
		if err := do(fc, reserving(flow.Idempotent, "a", "tool_calls")); err != nil {
			return nil, err
		}
		fc.Emit(flow.Event{Kind: "agent.said", Body: in})
		if string(in) == `{}` {
			return nil, flow.Continue(json.RawMessage(`{"round":2}`))
		}
		return in, nil
	})
	r.job.Limits = flow.Use{"tool_calls": 2}
	out := r.want(flow.Completed)
	j := r.journal()
	cont := j.of("run.continued")
	if len(cont) != 1 || read(cont[0]).Used["tool_calls"] != 1 || out.Used["tool_calls"] != 2 || string(out.Value) != `{"round":2}` {
		t.Fatalf("used %v, value %s%v", out.Used, out.Value, j)
	}
	calls := r.world.Calls()
	if len(calls) != 2 || calls[0].Key != idempotencyKey(r.run, "root/a") || calls[1].Key != idempotencyKey(r.run, "root/a~1") {
		t.Fatalf("calls are %+v, want a key of its own for each segment", calls)
	}
	r.agree(out)
	h := r.history()
	if h.Segment != 1 || h.Records[0].Kind != "run.continued" || h.Ended != flow.Completed {
		t.Errorf("the history is segment %d, from %s, ended %q", h.Segment, h.Records[0].Kind, h.Ended)
	}
}

func continueSupersedes(t *testing.T, open opener) {
	r := newRig(t, open, func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
		if string(in) != `{}` {
			return in, nil
		}
		_ = fc.Go(flow.Group{},
			flow.Branch{Name: "waiter", Run: func(fc flow.Context) error { _, err := fc.Wait(question("g")); return err }},
			flow.Branch{Name: "failer", Run: func(fc flow.Context) error { return do(fc, call(flow.Once, "x", 1)) }})
		return nil, flow.Continue(json.RawMessage(`1`))
	})
	r.world.Answer("root/failer/x", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		r.came(func(j journal) bool { return len(j.of("policy.gate")) > 0 })
		return failing("broken")(ctx, a)
	})
	out := r.want(flow.Completed)
	resolved := r.journal().of("policy.gate.resolve")
	if len(resolved) != 1 || read(resolved[0]).Via != "superseded" {
		t.Fatalf("the gate that was left is not superseded%v", r.journal())
	}
	r.agree(out)
}

func continueKilled(t *testing.T, open opener) {
	bed := open(t)
	for name, fault := range map[string]Fault{"before": KillBefore, "after": KillAfter} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, bed, func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
				if err := do(fc, call(flow.Once, "a", in)); err != nil {
					return nil, err
				}
				if string(in) == `{}` {
					return nil, flow.Continue(json.RawMessage(`2`))
				}
				return in, nil
			})
			r.crash(killAt(r, fault, func(w Write) bool { return w.Has("run.continued") }))
			out := r.want(flow.Completed)
			if n := r.world.Count("root/a"); n != 2 || string(out.Value) != `2` || len(r.journal().of("run.continued")) != 1 {
				t.Fatalf("%d calls, value %s%v", n, out.Value, r.journal())
			}
			r.agree(out)
		})
	}
}

// cancelSurvives requests the cancel in one segment and dies before the next has
// done anything.
func cancelSurvives(t *testing.T, open opener) {
	r := newRig(t, open, func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
		if string(in) == `{}` {
			return nil, flow.Continue(json.RawMessage(`2`))
		}
		return in, do(fc, call(flow.Once, "a", 1))
	})
	f := NewFaulty(r.bed.Log())
	f.Before = func(w Write) Fault {
		if w.Has("run.continued") {
			r.cancel(patience)
			return KillAfter
		}
		return Pass
	}
	r.crash(f)
	out := r.want(flow.Cancelled)
	if r.world.Count("root/a") != 0 {
		t.Errorf("a cancelled run went on%v", r.journal())
	}
	r.agree(out)
}

func tooLong(t *testing.T, open opener) {
	if testing.Short() {
		t.Skip("writes 100,000 records")
	}
	r := newRig(t, open, program(func(fc flow.Context) error {
		for range flow.MaxRecords + 1 {
			fc.Emit(flow.Event{Kind: "agent.said"})
		}
		return do(fc, call(flow.Once, "a", 1))
	}))
	out := r.drive()
	if coded(out.Err) != flow.CodeHistoryTooLong || r.world.Count("root/a") != 0 {
		t.Fatalf("ended %s with %v after %d calls, want history_too_long", out.Status, out.Err, r.world.Count("root/a"))
	}
}

const (
	inline = 64 << 10
	most   = 16 << 20
)

// text is a JSON string of exactly n bytes.
func text(n int) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat("x", n-2) + `"`)
}

func largePayloads(t *testing.T, open opener) {
	bed := open(t)
	for _, size := range []int{inline, inline + 1, 3 * inline} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			var r *rig
			big := text(size)
			r = newRun(t, bed, func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
				c := call(flow.Once, "a", 1)
				c.Input = big
				res, err := fc.Do(c)
				if err != nil {
					return nil, err
				}
				g := question("g")
				g.Subject = big
				d, err := fc.Wait(g)
				r.see("seen", string(res.Value) == string(big), string(d.Answer) == string(big), coded(err))
				if err != nil {
					return nil, err
				}
				if string(in) == `{}` {
					return nil, flow.Continue(big)
				}
				return flow.JSON(string(in) == string(big)), nil
			})
			r.answer = func(gate) (flow.Decision, bool) {
				d := yes
				d.Answer = big
				return d, true
			}
			r.want(flow.ParkedRun)
			for _, rec := range r.journal().of("effect.intended") {
				if r.history().Blob == nil {
					break // it keeps no bytes, so none are too many
				}
				if stored := len(rec.Body) > inline; stored != (size <= inline) {
					t.Errorf("a payload of %d bytes makes a body of %d", size, len(rec.Body))
				}
			}
			r.reopen()
			out := r.toEnd()
			r.check(out, flow.Completed)
			if string(out.Value) != `true` || r.sights()["seen"] != "true true ok\n" {
				t.Fatalf("the payload came back changed: state %s, value and answer %q", out.Value, r.sights()["seen"])
			}
			r.agree(out)
		})
	}
}

func tooLarge(t *testing.T, open opener) {
	bed := open(t)
	for _, class := range []flow.Class{flow.Read, flow.Once} {
		t.Run(string(class), func(t *testing.T) {
			r := newRun(t, bed, inOrder(call(class, "a", 1)))
			r.world.Answer("root/a", func(context.Context, flow.Attempt) (flow.Done, error) {
				return flow.Done{Value: text(most + 1)}, nil
			})
			out := r.want(flow.Failed)
			if coded(out.Err) != flow.CodeResultTooLarge || r.world.Count("root/a") != 1 {
				t.Fatalf("failed with %v after %d calls", out.Err, r.world.Count("root/a"))
			}
			r.agree(out)
		})
	}
}

func looksLikeBlob(t *testing.T, open opener) {
	bed := open(t)
	for _, v := range []string{`{"$blob":"sha256:00","size":3}`, `{"$blob":1}`, `{"a":1,"$blob":null}`, `[{"$blob":"x"}]`} {
		t.Run(v, func(t *testing.T) {
			r := newRun(t, bed, func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
				c := call(flow.Once, "a", 1)
				c.Input = json.RawMessage(v)
				res, err := fc.Do(c)
				if err != nil {
					return nil, err
				}
				if _, err := fc.Wait(question("g")); err != nil {
					return nil, err
				}
				return res.Value, nil
			})
			r.want(flow.ParkedRun)
			r.reopen()
			out := r.toEnd()
			r.check(out, flow.Completed)
			if string(out.Value) != v {
				t.Fatalf("the value came back as %s", out.Value)
			}
			r.agree(out)
		})
	}
}

func redacted(t *testing.T, open opener) {
	const secret = "hunter2"
	r := newRig(t, open, program(func(fc flow.Context) error {
		if _, err := fc.Do(call(flow.Read, "value", 1)); err != nil {
			return err
		}
		err := do(fc, call(flow.Once, "error", 1))
		var e *flow.Error
		if !errors.As(err, &e) || strings.Contains(e.Message+string(e.Detail), secret) {
			return fmt.Errorf("the program saw %v", err)
		}
		return nil
	}))
	r.job.Redact = func(b []byte) []byte {
		return []byte(strings.ReplaceAll(string(b), secret, "$env:PASSWORD"))
	}
	r.world.Answer("root/value", func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		a.Note(flow.Event{Kind: "worker.event", Body: "it is " + secret})
		if err := a.Sync(); err != nil {
			return flow.Done{}, err
		}
		return flow.Done{Value: flow.JSON("it is " + secret)}, nil
	})
	r.world.Answer("root/error", func(context.Context, flow.Attempt) (flow.Done, error) {
		return flow.Done{}, &flow.Error{Code: "broken", Message: secret, Detail: flow.JSON(secret), Answered: true}
	})
	out := r.want(flow.Completed)
	for _, rec := range r.journal() {
		if strings.Contains(string(rec.Body), secret) {
			t.Errorf("the secret stands in %s %s", rec.Kind, rec.Body)
		}
	}
	notes := r.journal().of("worker.event")
	if len(notes) != 1 || !notes[0].Note {
		t.Errorf("the note is not recorded%v", r.journal())
	}
	r.agree(out)
}
