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

// crash: kill -9 at any moment loses nothing and repeats nothing.
func crash(t *testing.T, open opener) {
	t.Run("every prefix of a journal leads to the same end", func(t *testing.T) { prefixes(t, open) })
	t.Run("a kill at any write leads to the same end", func(t *testing.T) { killedAnywhere(t, open) })
	t.Run("a kill around an effect", func(t *testing.T) { killedAroundEffect(t, open) })
	t.Run("a hundred calls in flight", func(t *testing.T) { hundredInFlight(t, open) })
	t.Run("once without an answer asks", func(t *testing.T) { inDoubt(t, open) })
	t.Run("once with an answer or not sent asks nothing", func(t *testing.T) { notInDoubt(t, open) })
	t.Run("retry in doubt makes the next attempt and may be in doubt again", func(t *testing.T) { inDoubtAgain(t, open) })
	t.Run("use_result names its giver", func(t *testing.T) { useResult(t, open) })
	t.Run("fail in doubt is the call's failure", func(t *testing.T) { failInDoubt(t, open) })
	t.Run("the recorded class counts", func(t *testing.T) { recordedClass(t, open) })
	t.Run("in a closed scope in doubt asks nobody", func(t *testing.T) { inDoubtClosed(t, open) })
	t.Run("lost lazy records change nothing", func(t *testing.T) { lostLazy(t, open) })
	t.Run("a panicking read is called again", func(t *testing.T) { panickingRead(t, open) })
	t.Run("a check refuses with nothing reserved or intended", func(t *testing.T) { refusedByCheck(t, open) })
}

// killAt is a process that dies at the first write that matches.
func killAt(r *rig, fault Fault, match func(Write) bool) *Faulty {
	f := NewFaulty(r.bed.Log())
	done := false
	f.Before = func(w Write) Fault {
		if done || !match(w) {
			return Pass
		}
		done = true
		return fault
	}
	return f
}

// everything uses each kind of step, in branches and after them. Its value is a
// function of what its calls return, so it shows any that was lost or changed.
func everything(r *rig) flow.Func {
	return func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
		if string(in) != `{}` {
			return ending(r, fc, in)
		}
		fc.Emit(flow.Event{Kind: "agent.said", Body: map[string]string{"at": "start"}})
		before := fc.Now()
		got := make([]string, 5)
		err := fc.Go(flow.Group{},
			flow.Branch{Name: "sender", Run: func(fc flow.Context) error {
				v, err := flow.Do[string](fc, reserving(flow.Once, "send", "tool_calls"))
				fc.Emit(flow.Event{Kind: "agent.said", Body: v})
				got[0] = v
				return err
			}},
			flow.Branch{Name: "retrier", Run: func(fc flow.Context) (err error) {
				c := retrying(flow.Idempotent, "try", 2)
				c.Reserve = flow.Use{"tool_calls": 1}
				got[1], err = flow.Do[string](fc, c)
				return err
			}},
			flow.Branch{Name: "sleeper", Run: func(fc flow.Context) (err error) {
				if err := fc.Sleep(time.Hour); err != nil {
					return err
				}
				got[2], err = flow.Do[string](fc, call(flow.Read, "look", "look"))
				return err
			}},
			flow.Branch{Name: "asker", Run: func(fc flow.Context) (err error) {
				d, err := fc.Wait(question("g"))
				if err != nil {
					return err
				}
				got[3], err = flow.Do[string](fc, call(flow.Once, "act", d.Action))
				return err
			}},
			flow.Branch{Name: "reader", Run: func(fc flow.Context) (err error) {
				if got[4], err = flow.Do[string](fc, reserving(flow.Read, "one", "tool_calls")); err != nil {
					return err
				}
				return do(fc, call(flow.Read, "two", got[4]))
			}},
		)
		if err != nil {
			return nil, err
		}
		if fc.Now().Before(before.Add(time.Hour)) {
			return nil, &flow.Error{Code: "slept_too_short"}
		}
		return nil, flow.Continue(flow.JSON(got))
	}
}

// ending is the second segment: keys begin anew in it.
func ending(r *rig, fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
	d, err := fc.Wait(question("last"))
	if err != nil {
		return nil, err
	}
	v, err := fc.Do(call(flow.Once, "end", map[string]any{"got": in, "said": d.Action}))
	if err != nil {
		return nil, err
	}
	fc.Emit(flow.Event{Kind: "agent.said", Body: "end"})
	return v.Value, nil
}

const everythingValue = `{"got":["send","try","look","yes","one"],"said":"yes"}`

var everythingCalls = []string{"sender/send", "retrier/try", "sleeper/look", "asker/act", "reader/one", "reader/two", "end"}

func newEverything(t tb, bed Bed) *rig {
	r := newRun(t, bed, nil)
	r.job.Flow = everything(r)
	r.job.Limits = flow.Use{"tool_calls": 20}
	r.world.Answer("root/retrier/try", failingUntil(2))
	return r
}

// endsAlike checks the end of a run of everything that was disturbed: its value,
// and that each effect happened, once calls exactly once and others at most
// again times more.
func (r *rig) endsAlike(out flow.Outcome, past journal, again int) {
	r.t.Helper()
	r.check(out, flow.Completed)
	if string(out.Value) != everythingValue {
		r.t.Fatalf("the value is %s, want %s%v", out.Value, everythingValue, r.journal())
	}
	j := r.journal()
	for _, key := range everythingCalls {
		path := "root/" + key
		n := r.world.Count(path)
		least, most := 1, 1
		if key == "retrier/try" && len(past.of("effect.intended").at(path)) == 0 {
			most++ // its first attempt fails, unless a crash ate it
			least = most - again
		}
		if end, _ := j.finished(path); end.Error != nil {
			r.t.Fatalf("%s failed: %v%v", path, end.Error, j)
		}
		intent := j.of("effect.intended").at(path)
		once := len(intent) > 0 && read(intent[0]).Class == flow.Once
		switch _, finished := past.finished(path); {
		case finished, past.unsettled(path):
			least, most = 0, 0
		case !once:
			most += again
		}
		if n < least || n > most {
			r.t.Fatalf("%s happened %d times, want %d to %d%v", path, n, least, most, j)
		}
	}
	r.agree(out)
}

func prefixes(t *testing.T, open opener) {
	bed := open(t)
	whole := newEverything(t, bed)
	created := len(whole.journal())
	whole.endsAlike(whole.toEnd(), nil, 0)
	full := whole.journal()
	for n := created; n < len(full); n++ {
		r := newEverything(t, bed)
		r.clock.StepTo(whole.clock.Now())
		past := full[:n]
		r.answer = func(g gate) (flow.Decision, bool) {
			// What a dead process did is known from the run that did not die.
			if g.GateKind == "in_doubt" && past.unsettled(g.asker()) {
				return flow.Decision{Action: "use_result", Answer: whole.world.Value(g.asker()), By: "local:cli", Via: "command"}, true
			}
			return r.sensibly(g)
		}
		r.restore(full, n)
		r.endsAlike(r.toEnd(), past, 0)
	}
}

func killedAnywhere(t *testing.T, open opener) {
	bed := open(t)
	for _, fault := range []Fault{KillBefore, KillAfter} {
		for at := 1; ; at++ {
			r := newEverything(t, bed)
			var f *Faulty
			writes, died := 0, false
			// The write that kills is counted over all drives of the run.
			next := func() *Faulty {
				f = NewFaulty(bed.Log())
				f.Before = func(Write) Fault {
					if writes++; writes == at {
						died = true
						return fault
					}
					return Pass
				}
				return f
			}
			var out flow.Outcome
			for range 50 {
				d := r.start(next())
				err := d.settle()
				if out = d.out; err == nil && out.Terminal() {
					break
				}
				if f.killed() {
					r.reopen()
					if r.journal().ended() != "" {
						break // it died before it learnt that all was done
					}
					continue
				}
				if err != nil {
					t.Fatalf("write %d: %v", at, err)
				}
				r.check(out, flow.ParkedRun)
				if r.answerAll() == 0 {
					r.clock.StepTo(out.WakeAt)
				}
			}
			if !died {
				break
			}
			if r.journal().ended() != "intent.attest" {
				t.Fatalf("killed at write %d the run did not complete%v", at, r.journal())
			}
			if out.Terminal() {
				r.endsAlike(out, nil, 1)
			}
		}
	}
}

// killedAroundEffect is the table of what a crash means for one call.
func killedAroundEffect(t *testing.T, open opener) {
	intended := func(w Write) bool { return w.Has("effect.intended") }
	finished := func(w Write) bool { return w.Has("effect.finished") }
	cases := []struct {
		name    string
		kill    func(*rig) *Faulty
		least   int  // a read may be called at least and at most so often;
		most    int  // a once call exactly once in all cases
		inDoubt bool // of the once call
	}{
		// The intent of a read is not waited for: the effect may be done by then.
		{"before the intent", func(r *rig) *Faulty { return killAt(r, KillBefore, intended) }, 1, 2, false},
		{"after the intent", func(r *rig) *Faulty { return killAt(r, KillAfter, intended) }, 1, 2, true},
		{"in the effect before it happened", killedInCall(false), 1, 1, true},
		{"in the effect after it happened", killedInCall(true), 2, 2, true},
		{"before the finish", func(r *rig) *Faulty { return killAt(r, KillBefore, finished) }, 2, 2, true},
		{"after the finish", func(r *rig) *Faulty { return killAt(r, KillAfter, finished) }, 1, 1, false},
	}
	for _, c := range cases {
		for _, class := range []flow.Class{flow.Read, flow.Idempotent, flow.Once} {
			t.Run(c.name+"/"+string(class), func(t *testing.T) {
				r := newRig(t, open, steps(calling(reserving(class, "a", "tool_calls")), asking(question("last"))))
				r.job.Limits = flow.Use{"tool_calls": 5}
				r.crash(c.kill(r))
				want := int64(len(r.journal().of("effect.intended").at("root/a")))
				if _, finished := r.journal().finished("root/a"); !finished && class != flow.Once {
					want++ // the lost attempt is charged, and so is the next
				}
				r.world.On("root/a", Act{})
				out := r.toEnd()
				r.check(out, flow.Completed)
				least, most := c.least, c.most
				if class == flow.Once {
					least, most = 1, 1
				}
				if n := r.world.Count("root/a"); n < least || n > most {
					t.Errorf("the effect happened %d times, want %d to %d%v", n, least, most, r.journal())
				}
				_, asked := r.journal().gate("root/a/in_doubt")
				if want := class == flow.Once && c.inDoubt; asked != want {
					t.Errorf("in doubt is %v, want %v%v", asked, want, r.journal())
				}
				if class != flow.Once && out.Used["tool_calls"] != want {
					t.Errorf("used %v, want %d%v", out.Used, want, r.journal())
				}
				r.agree(out)
			})
		}
	}
}

// killedInCall dies inside the activity at root/a.
func killedInCall(happened bool) func(*rig) *Faulty {
	return func(r *rig) *Faulty {
		f := NewFaulty(r.bed.Log())
		// The intent of a call that need not wait for it may still be queued.
		before := len(r.journal().of("effect.intended").at("root/a"))
		die := func() {
			r.came(func(j journal) bool { return len(j.of("effect.intended").at("root/a")) > before })
			f.Kill()
		}
		if happened {
			r.world.Answer("root/a", func(context.Context, flow.Attempt) (flow.Done, error) { die(); return flow.Done{}, errDead })
		} else {
			r.world.On("root/a", Act{Before: func(context.Context, flow.Attempt) { die() }})
		}
		return f
	}
}

func hundredInFlight(t *testing.T, open opener) {
	bed := open(t)
	for round := range times(20) {
		const n = 100
		var branches []flow.Branch
		var all, once, reads []string
		for i := range n {
			class, paths := flow.Once, &once
			if i%2 == 1 {
				class, paths = flow.Read, &reads
			}
			path := fmt.Sprintf("root/%d/c", i)
			*paths = append(*paths, path)
			all = append(all, path)
			branches = append(branches, flow.Branch{Run: func(fc flow.Context) error { return do(fc, call(class, "c", i)) }})
		}
		r := newRun(t, bed, program(func(fc flow.Context) error { return fc.Go(flow.Group{}, branches...) }))
		f := NewFaulty(bed.Log())
		for _, path := range all {
			r.world.Answer(path, cutOr(f.Dead()))
		}
		d := r.start(f)
		r.await(n, all...)
		f.Kill()
		_ = d.settle()
		r.reopen()
		for _, path := range all {
			r.world.On(path, Act{})
		}
		out := r.want(flow.ParkedRun)
		if open := r.journal().open(); len(open) != len(once) || len(out.Gates) != len(once) {
			t.Fatalf("round %d: %d gates are open and %d reported, want %d%v", round, len(open), len(out.Gates), len(once), r.journal())
		}
		out = r.toEnd()
		r.check(out, flow.Completed)
		for _, path := range once {
			if c := r.world.Count(path); c != 1 {
				t.Fatalf("round %d: %s happened %d times, want once", round, path, c)
			}
		}
		for _, path := range reads {
			if c := r.world.Count(path); c != 2 {
				t.Fatalf("round %d: %s happened %d times, want twice", round, path, c)
			}
		}
		r.agree(out)
	}
}

func inDoubt(t *testing.T, open opener) {
	for name, c := range map[string]struct {
		act     func(context.Context, flow.Attempt) (flow.Done, error)
		timeout time.Duration
	}{
		"timeout":         {untilEnded, 10 * time.Millisecond},
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
			r := newRig(t, open, inOrder(asked))
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

func notInDoubt(t *testing.T, open opener) {
	for name, e := range map[string]*flow.Error{
		"not sent": {Code: "refused", Message: "no", NotSent: true},
		"answered": {Code: "tool_error", Detail: json.RawMessage(`{"x":1}`), Answered: true},
	} {
		t.Run(name, func(t *testing.T) {
			var r *rig
			r = newRig(t, open, program(func(fc flow.Context) error {
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
	r.job.Flow = inOrder(call(flow.Read, "a", 1))
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

// talker says a lot between few calls, and notes when it comes to each.
func talker(r *rig) flow.Func {
	talk := func(fc flow.Context, n int) {
		for i := range n {
			fc.Emit(flow.Event{Kind: "agent.said", Body: i})
			fc.Now()
		}
	}
	send := func(fc flow.Context, key string) error {
		r.see("at "+key, fc.Path())
		return do(fc, call(flow.Once, key, key))
	}
	return program(func(fc flow.Context) error {
		talk(fc, 3)
		if err := send(fc, "a"); err != nil {
			return err
		}
		talk(fc, 3)
		if err := fc.Go(flow.Group{},
			flow.Branch{Run: func(fc flow.Context) error { talk(fc, 2); return send(fc, "b") }},
			flow.Branch{Run: func(fc flow.Context) error { return errors.Join(fc.Sleep(1), do(fc, call(flow.Read, "c", 3))) }}); err != nil {
			return err
		}
		talk(fc, 2)
		return nil
	})
}

// lostLazy holds back what a process writes from some moment on, and cuts it at
// each place, so that every record that was not waited for is lost once.
func lostLazy(t *testing.T, open opener) {
	bed := open(t)
	for key, from := range map[string]func(Write) bool{
		"a": func(w Write) bool { return w.Op == "acquire" },
		"b": func(w Write) bool {
			return w.Has("effect.finished") && w.Drafts[len(w.Drafts)-1].Path == "root/a"
		},
	} {
		for keep, most := 0, 0; keep <= most; keep++ {
			r := newRun(t, bed, nil)
			r.job.Flow = talker(r)
			f := NewFaulty(bed.Log())
			f.After = func(w Write) {
				if from(w) {
					f.Hold()
				}
			}
			d := r.start(f)
			r.until("something to lose", func(journal) bool {
				return r.sights()["at "+key] != "" && len(f.Pending(r.run)) > 0
			})
			pending := len(f.Pending(r.run))
			most = max(most, pending)
			if err := f.KillKeeping(r.run, min(keep, pending)); err != nil {
				t.Fatalf("keeping %d of %d writes: %v", keep, pending, err)
			}
			_ = d.settle()
			r.reopen()
			r.talked(r.toEnd())
		}
	}
}

// talked checks that a talker said and did everything once.
func (r *rig) talked(out flow.Outcome) {
	r.t.Helper()
	r.check(out, flow.Completed)
	j := r.journal()
	if said := len(j.of("agent.said")); said != 10 {
		r.t.Fatalf("%d events, want 10%v", said, j)
	}
	for _, path := range []string{"root/a", "root/0/b", "root/1/c"} {
		if n := r.world.Count(path); n < 1 || n > 2 || (n == 2 && path != "root/1/c") {
			r.t.Fatalf("%s happened %d times%v", path, n, j)
		}
	}
	r.agree(out)
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
	for _, class := range []flow.Class{flow.Read, flow.Once} {
		t.Run(string(class), func(t *testing.T) {
			r := newRig(t, open, inOrder(reserving(class, "a", "tool_calls")))
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
