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

// doubt: a once call whose outcome nobody knows is never repeated in silence.
func doubt(t *testing.T, open opener) {
	t.Run("once without an answer asks", func(t *testing.T) { inDoubt(t, open) })
	t.Run("once with an answer or not sent asks nothing", func(t *testing.T) { notInDoubt(t, open) })
	t.Run("retry in doubt makes the next attempt and may be in doubt again", func(t *testing.T) { inDoubtAgain(t, open) })
	t.Run("use_result names its giver", func(t *testing.T) { useResult(t, open) })
	t.Run("fail in doubt is the call's failure", func(t *testing.T) { failInDoubt(t, open) })
	t.Run("what is known of its end is told", func(t *testing.T) { knownInDoubt(t, open) })
	t.Run("an outcome that is recalled asks nobody", func(t *testing.T) { recalled(t, open) })
	t.Run("an outcome that cannot be recalled is in doubt", func(t *testing.T) { notRecalled(t, open) })
	t.Run("an outcome that was given asks nobody", func(t *testing.T) { givenBefore(t, open) })
	t.Run("use_result without an answer takes what was given", func(t *testing.T) { givenLate(t, open) })
	t.Run("the recorded class counts", func(t *testing.T) { recordedClass(t, open) })
	t.Run("in a closed scope in doubt asks nobody", func(t *testing.T) { inDoubtClosed(t, open) })
	t.Run("a panicking read is called again", func(t *testing.T) { panickingRead(t, open) })
	t.Run("a check refuses with nothing reserved or intended", func(t *testing.T) { refusedByCheck(t, open) })
}

func inDoubt(t *testing.T, open opener) {
	bed := open(t)
	for name, c := range map[string]struct {
		act     func(context.Context, flow.Attempt) (flow.Done, error)
		timeout time.Duration
	}{
		"timeout":         {untilEnded, time.Second}, // long enough for it to be sent, also where much else is done
		"lost connection": {lost, 0},
		"panic":           {func(context.Context, flow.Attempt) (flow.Done, error) { panic("activity") }, 0},
		"a retryable error of neither kind": {func(context.Context, flow.Attempt) (flow.Done, error) {
			return flow.Done{}, &flow.Error{Code: "unavailable", Retry: true}
		}, 0},
		"parking": {func(context.Context, flow.Attempt) (flow.Done, error) { return flow.Done{}, flow.ErrParked }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			asked := call(flow.Once, "a", 7)
			asked.Timeout = c.timeout
			r := newRun(t, bed, inOrder(asked))
			r.world.Answer("root/a", c.act)
			out := r.want(flow.ParkedRun)
			g, ok := r.journal().gate("root/a/in_doubt")
			if !ok || g.Done || g.GateKind != "in_doubt" || g.Deny != "fail" || !slices.Equal(g.Actions, []string{"retry", "use_result", "fail"}) {
				t.Fatalf("the gate is %+v%v", g, r.journal())
			}
			if !slices.Equal(out.Gates, []string{g.Gate}) {
				t.Errorf("parked on %v, want %s", out.Gates, g.Gate)
			}
			var subject struct {
				Path, Name, Digest string
				Attempt            int
				Input              json.RawMessage
			}
			if err := json.Unmarshal(g.Subject, &subject); err != nil || subject.Path != "root/a" || subject.Name != "work" || subject.Attempt != 1 ||
				subject.Digest != callDigest("work", []byte(`7`)) || string(subject.Input) != `7` {
				t.Errorf("the gate's subject is %s", g.Subject)
			}
			r.agree(r.toEnd())
			if n := r.world.Count("root/a"); n != 1 {
				t.Errorf("the effect happened %d times, want once", n)
			}
		})
	}
}

// knownInDoubt: whoever is asked is told when the attempt was made and what became of it,
// as far as anybody knows; after a crash, that nobody does.
func knownInDoubt(t *testing.T, open opener) {
	bed := open(t)
	told := func(r *rig, key string) (sent time.Time, known *flow.Error) {
		t.Helper()
		g, _ := r.journal().gate(key)
		var subject struct {
			Sent  time.Time
			Known *flow.Error
		}
		if err := json.Unmarshal(g.Subject, &subject); err != nil {
			t.Fatalf("%s: %v", g.Subject, err)
		}
		return subject.Sent, subject.Known
	}
	r := newRun(t, bed, inOrder(call(flow.Once, "a", 7)))
	r.world.Answer("root/a", func(context.Context, flow.Attempt) (flow.Done, error) {
		return flow.Done{}, &flow.Error{Code: "http", Message: "status 500", Detail: json.RawMessage(`{"status":500}`)}
	})
	r.want(flow.ParkedRun)
	if sent, known := told(r, "root/a/in_doubt"); sent.IsZero() || known == nil || known.Code != "http" || known.Message != "status 500" || string(known.Detail) != `{"status":500}` {
		t.Errorf("sent %v, known %+v%v", sent, known, r.journal())
	}
	r.agree(r.toEnd())

	r = newRun(t, bed, inOrder(call(flow.Once, "a", 7)))
	r.crash(killedInCall(true)(r))
	r.world.On("root/a", Act{})
	r.want(flow.ParkedRun)
	if sent, known := told(r, "root/a/in_doubt"); sent.IsZero() || known != nil {
		t.Errorf("after a crash: sent %v, known %+v%v", sent, known, r.journal())
	}
	r.agree(r.toEnd())
}

func notInDoubt(t *testing.T, open opener) {
	bed := open(t)
	for name, e := range map[string]*flow.Error{
		"not sent": {Code: "refused", Message: "no", NotSent: true},
		"answered": {Code: "tool_error", Detail: json.RawMessage(`{"x":1}`), Answered: true},
	} {
		t.Run(name, func(t *testing.T) {
			var r *rig
			r = newRun(t, bed, program(func(fc flow.Context) error {
				err := do(fc, call(flow.Once, "a", 1))
				var got *flow.Error
				if !errors.As(err, &got) {
					return err
				}
				r.see("a", got.Code, got.Message, string(got.Detail), got.NotSent, got.Answered)
				_, err = fc.Wait(question("g"))
				return err
			}))
			r.world.Answer("root/a", func(context.Context, flow.Attempt) (flow.Done, error) { return flow.Done{}, e })
			r.want(flow.ParkedRun)
			want := fmt.Sprintln(e.Code, e.Message, string(e.Detail), e.NotSent, e.Answered)
			if got := r.sights()["a"]; got != want {
				t.Errorf("the program saw %q, want %q", got, want)
			}
			if gates := r.journal().gates(); len(gates) != 1 {
				t.Errorf("%d gates, want the program's own%v", len(gates), r.journal())
			}
			r.answerAll()
			r.agree(r.want(flow.Completed))
			if got := r.sights()["a"]; got != want {
				t.Errorf("after a resume the program saw %q, want %q", got, want)
			}
		})
	}
}

func inDoubtAgain(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Once, "a", 1)))
	r.world.Answer("root/a", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		if a.N < 3 {
			return lost(ctx, a)
		}
		return flow.Done{Value: a.Input}, nil
	})
	r.want(flow.ParkedRun)
	r.decideKey("root/a/in_doubt", flow.Decision{Action: "retry"})
	r.want(flow.ParkedRun)
	if open := r.journal().open(); len(open) != 1 || open[0].Key != "root/a/in_doubt#2" {
		t.Fatalf("open are %+v, want in_doubt#2%v", open, r.journal())
	}
	r.decideKey("root/a/in_doubt#2", flow.Decision{Action: "retry"})
	out := r.want(flow.Completed)
	if end, _ := r.journal().finished("root/a"); end.Attempt != 3 {
		t.Errorf("finished by attempt %d, want 3", end.Attempt)
	}
	r.agree(out)
}

func useResult(t *testing.T, open opener) {
	var r *rig
	r = newRig(t, open, program(func(fc flow.Context) error {
		res, err := fc.Do(call(flow.Once, "a", 1))
		r.see("a", string(res.Value), res.By, res.Attempt, coded(err))
		return err
	}))
	r.world.Answer("root/a", lost)
	r.want(flow.ParkedRun)
	r.decideKey("root/a/in_doubt", flow.Decision{Action: "use_result", Answer: json.RawMessage(`{"x":[1]}`), By: "token:ann", Via: "http"})
	out := r.want(flow.Completed)
	if got, want := r.sights()["a"], fmt.Sprintln(`{"x":[1]}`, "token:ann", 1, "ok"); got != want {
		t.Errorf("the program saw %q, want %q", got, want)
	}
	if end, _ := r.journal().finished("root/a"); end.By != "token:ann" || string(end.Value) != `{"x":[1]}` {
		t.Errorf("recorded is %+v", end)
	}
	r.agree(out)
	if n := r.world.Count("root/a"); n != 1 {
		t.Errorf("the effect happened %d times, want once", n)
	}
}

// leftOpen is a run that was killed in a once call, which may be asked for its outcome.
func leftOpen(t *testing.T, open opener) *rig {
	var r *rig
	r = newRig(t, open, program(func(fc flow.Context) error {
		res, err := fc.Do(call(flow.Once, "a", 1))
		r.see("a", string(res.Value), res.By, res.Attempt, coded(err))
		return err
	}))
	r.crash(killedInCall(true)(r))
	r.world.On("root/a", Act{})
	return r
}

// settledBy checks what the program saw of the one call, which was made once.
func (r *rig) settledBy(out flow.Outcome, saw ...any) {
	r.t.Helper()
	if got, want := r.sights()["a"], fmt.Sprintln(saw...); got != want {
		r.t.Errorf("the program saw %q, want %q%v", got, want, r.journal())
	}
	if n := r.world.Count("root/a"); n != 1 {
		r.t.Errorf("the effect happened %d times, want once", n)
	}
	r.agree(out)
}

func recalled(t *testing.T, open opener) {
	r := leftOpen(t, open)
	r.recall = func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		if a.Path != "root/a" || a.N != 1 {
			t.Errorf("recalled is %+v", a)
		}
		return flow.Done{Value: json.RawMessage(`2`)}, nil
	}
	out := r.want(flow.Completed)
	if n := len(r.journal().gates()); n > 0 {
		t.Errorf("%d gates were opened", n)
	}
	r.settledBy(out, "2", "", 1, "ok")

	r = leftOpen(t, open)
	r.recall = func(context.Context, flow.Attempt) (flow.Done, error) {
		return flow.Done{}, &flow.Error{Code: "broken", Answered: true}
	}
	r.settledBy(r.want(flow.Failed), "", "", 1, "broken")
}

func notRecalled(t *testing.T, open opener) {
	r := leftOpen(t, open)
	// What says that it was not sent speaks of the recall.
	r.recall = func(context.Context, flow.Attempt) (flow.Done, error) {
		return flow.Done{}, &flow.Error{Code: "gone", Message: "nobody came", NotSent: true}
	}
	r.want(flow.ParkedRun)
	g, _ := r.journal().gate("root/a/in_doubt")
	var subject struct{ Known *flow.Error }
	if err := json.Unmarshal(g.Subject, &subject); err != nil || subject.Known == nil || subject.Known.Code != "gone" || subject.Known.NotSent {
		t.Errorf("the gate shows %s, %v", g.Subject, err)
	}
	r.recall = func(context.Context, flow.Attempt) (flow.Done, error) {
		t.Error("recalled although a gate is open")
		return flow.Done{}, errors.New("nothing")
	}
	r.agree(r.toEnd())
}

// give writes what was brought for the first attempt of the call.
func (r *rig) give(b flow.EffectGiven) {
	r.t.Helper()
	b.Attempt, b.From = 1, "h1"
	if err := r.bed.Write(r.run, flow.Draft{Kind: flow.KindEffectGiven, Path: "root/a", Body: flow.JSON(b)}); err != nil {
		r.t.Fatalf("%v", err)
	}
}

func givenBefore(t *testing.T, open opener) {
	r := leftOpen(t, open)
	r.give(flow.EffectGiven{Value: json.RawMessage(`{"x":[1]}`)})
	r.give(flow.EffectGiven{Value: json.RawMessage(`{"x":[2]}`)}) // the first counts
	r.settledBy(r.want(flow.Completed), `{"x":[1]}`, "", 1, "ok")
}

func givenLate(t *testing.T, open opener) {
	for _, live := range []bool{false, true} {
		r := leftOpen(t, open)
		if live { // whoever drives it learns of it, too
			r.job.Linger = -1
		}
		d := r.start(r.log())
		r.untilKind("policy.gate", "root/a/in_doubt")
		if !live {
			_ = d.settle()
		}
		r.give(flow.EffectGiven{Error: &flow.Error{Code: "broken", Message: "as it says", Answered: true}})
		r.decideKey("root/a/in_doubt", flow.Decision{Action: "use_result", By: "token:ann", Via: "http"})
		if !live {
			d = r.start(r.log())
		}
		out := d.wait()
		if out.Status != flow.Failed {
			t.Fatalf("ended %+v%v", out, r.journal())
		}
		r.settledBy(out, "", "", 1, "broken")
	}
}

func failInDoubt(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Once, "a", 1)))
	r.world.Answer("root/a", lost)
	r.want(flow.ParkedRun)
	r.decideKey("root/a/in_doubt", flow.Decision{Action: "fail"})
	out := r.want(flow.Failed)
	if coded(out.Err) != flow.CodeInDoubt {
		t.Fatalf("failed with %v, want in_doubt", out.Err)
	}
	r.agree(out)
}

func recordedClass(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Once, "a", 1)))
	r.crash(killedInCall(true)(r))
	r.world.On("root/a", Act{})
	r.job.Flow, r.reclassed = inOrder(call(flow.Read, "a", 1)), true
	r.want(flow.ParkedRun)
	if n := r.world.Count("root/a"); n != 1 || len(r.journal().open()) != 1 {
		t.Fatalf("what was once is done again as a read, %d times%v", n, r.journal())
	}
	r.agree(r.toEnd())
}

func inDoubtClosed(t *testing.T, open opener) {
	var r *rig
	entered := make(chan struct{})
	r = newRig(t, open, program(func(fc flow.Context) error {
		err := fc.Go(flow.Group{},
			flow.Branch{Name: "doubtful", Run: func(fc flow.Context) error {
				err := do(fc, call(flow.Once, "a", 1))
				r.see("a", coded(err))
				return err
			}},
			flow.Branch{Name: "failing", Run: func(fc flow.Context) error { return do(fc, call(flow.Once, "b", 1)) }},
		)
		r.see("group", coded(err))
		_, err = fc.Wait(question("after"))
		return err
	}))
	r.world.Answer("root/doubtful/a", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		close(entered)
		r.came(func(j journal) bool { return len(j.of("group.closed")) > 0 })
		return lost(ctx, a)
	})
	r.world.Answer("root/failing/b", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		<-entered
		return failing("broken")(ctx, a)
	})
	check := func(when string) {
		t.Helper()
		if s := r.sights(); s["a"] != "in_doubt\n" || s["group"] != "in_doubt\n" {
			t.Fatalf("%s the branch saw %q and the group %q, want in_doubt%v", when, s["a"], s["group"], r.journal())
		}
		if g, ok := r.journal().gate("root/doubtful/a/in_doubt"); ok {
			t.Fatalf("%s a gate was opened in a closed scope: %+v", when, g)
		}
	}
	r.want(flow.ParkedRun)
	check("live")
	r.answerAll()
	out := r.want(flow.Completed)
	check("resumed")
	if !slices.Equal(out.InDoubt, []string{"root/doubtful/a"}) {
		t.Errorf("in doubt at the end are %v", out.InDoubt)
	}
	r.agree(out)
	check("replayed")
}

func panickingRead(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Read, "a", 1)))
	r.world.Answer("root/a", func(context.Context, flow.Attempt) (flow.Done, error) { panic("activity") })
	out := r.want(flow.Interrupted)
	if out.Reason != "panic" || len(r.journal().of("effect.finished")) != 0 {
		t.Fatalf("interrupted with %q%v", out.Reason, r.journal())
	}
	r.world.On("root/a", Act{})
	r.agree(r.want(flow.Completed))
}

func refusedByCheck(t *testing.T, open opener) {
	bed := open(t)
	for _, class := range []flow.Class{flow.Read, flow.Once} {
		t.Run(string(class), func(t *testing.T) {
			r := newRun(t, bed, inOrder(reserving(class, "a", "tool_calls")))
			r.world.On("root/a", Act{Check: func(context.Context, flow.Attempt) error {
				return &flow.Error{Code: "policy_denied", NotSent: true}
			}})
			out := r.want(flow.Failed)
			if coded(out.Err) != "policy_denied" || r.world.Count("root/a") != 0 || out.Used["tool_calls"] != 0 ||
				len(r.journal().of("effect.intended")) != 0 {
				t.Fatalf("failed with %v, used %v%v", out.Err, out.Used, r.journal())
			}
			r.agree(out)
		})
	}
}
