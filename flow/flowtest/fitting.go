package flowtest

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// fitting: a program that has left something behind is found before it does anything new,
// and one that has not is never refused.
func fitting(t *testing.T, open opener) {
	t.Run("a step that was renamed or removed is found before anything is done", func(t *testing.T) { renamed(t, open) })
	t.Run("a step that was removed from a program which had come to its end is found", func(t *testing.T) { removedAtTheEnd(t, open) })
	t.Run("a step that was removed before a Continue is found", func(t *testing.T) { removedBeforeContinue(t, open) })
	t.Run("a step that was added fits", func(t *testing.T) { added(t, open) })
	t.Run("a group with another limit fits", func(t *testing.T) { otherLimit(t, open) })
	t.Run("a fork that does something new before what it inherits fits", func(t *testing.T) { newBeforeInherited(t, open) })
	t.Run("what was said and not stored is said again", func(t *testing.T) { saidAgain(t, open) })
	t.Run("what uses a Context beside one of its methods is misuse", func(t *testing.T) { besideMethods(t, open) })
}

// unchanged checks that a drive which did not fit has changed and performed nothing.
func (r *rig) unchanged(before journal, calls int) {
	r.t.Helper()
	after := r.journal()
	if !slices.EqualFunc(before, after[:len(before)], sameRecord) {
		r.t.Errorf("the journal was changed%v", after)
	}
	if got := after[len(before):].kinds(); !slices.Equal(got, []string{"run.resumed", "run.interrupted"}) {
		r.t.Errorf("%v followed", got)
	}
	if n := len(r.world.Calls()) - calls; n != 0 {
		r.t.Errorf("%d calls were made", n)
	}
}

func renamed(t *testing.T, open opener) {
	bed := open(t)
	pay, gate, last := call(flow.Once, "pay", map[string]int{"eur": 5}), asking(question("g")), calling(call(flow.Once, "last", 1))
	dear := pay
	dear.Key, dear.Input = "payment", flow.JSON(map[string]int{"eur": 6})
	renamed := pay
	renamed.Key = "payment"
	in := func(list ...step) step {
		return func(fc flow.Context) error {
			return fc.Go(flow.Group{}, flow.Branch{Name: "b", Run: func(fc flow.Context) error {
				for _, s := range list {
					if err := s(fc); err != nil {
						return err
					}
				}
				return nil
			}}, flow.Branch{Name: "other", Run: asking(question("h"))})
		}
	}
	quiet := saying("agent.said", "x")
	for name, c := range map[string]struct {
		was, is []step
		path    string
		says    []string
	}{
		"renamed":  {[]step{calling(pay), gate, last}, []step{calling(renamed), gate, last}, "root/pay", []string{"work is recorded and no longer asked for", `"root/payment" would be new`, "the same input"}},
		"another":  {[]step{calling(pay), gate, last}, []step{calling(dear), gate, last}, "root/pay", []string{`"root/payment" would be new`, "/eur: recorded 5, asked for 6"}},
		"removed":  {[]step{calling(pay), gate, last}, []step{gate, last}, "root/pay", []string{`question gate at "root/g" would be new`}},
		"put off":  {[]step{calling(pay), gate, last}, []step{calling(call(flow.Once, "new", 1)), calling(pay), gate, last}, "root/pay", []string{`"root/new" would be new`}},
		"a sleep":  {[]step{func(fc flow.Context) error { return fc.Sleep(time.Nanosecond) }, gate, last}, []step{calling(renamed), gate, last}, "root/sleep#1", []string{"a sleep is recorded"}},
		"a branch": {[]step{in(calling(pay), gate), last}, []step{in(calling(renamed), gate), last}, "root/b/pay", []string{`"root/b/payment" would be new`}},
		"said":     {[]step{quiet, calling(pay), gate, last}, []step{quiet, saying("agent.said", "y"), calling(renamed), gate, last}, "root/pay", []string{`"root/payment" would be new`}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, bed, steps(c.was...))
			r.want(flow.ParkedRun)
			r.answerAll()
			before, calls := r.journal(), len(r.world.Calls())
			r.job.Flow = steps(c.is...)
			out := r.want(flow.Interrupted)
			var nd *flow.NonDeterminism
			if !errors.As(out.Err, &nd) || out.Reason != "replay_mismatch" || nd.Path != c.path {
				t.Fatalf("interrupted with %q, %v, want replay_mismatch at %s", out.Reason, out.Err, c.path)
			}
			for _, want := range c.says {
				if text := nd.Error(); !strings.Contains(text, want) || strings.Contains(text, "sha256:") {
					t.Errorf("it says %q, want %q and no digest", text, want)
				}
			}
			r.unchanged(before, calls)
			r.job.Flow = steps(c.was...)
			r.agree(r.toEnd())
		})
	}
}

func removedAtTheEnd(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(call(flow.Once, "a", 1), call(flow.Once, "b", 1)))
	r.crash(killAt(r, KillBefore, func(w Write) bool { return w.Has("intent.attest") }))
	before, calls := r.journal(), len(r.world.Calls())
	r.job.Flow = inOrder(call(flow.Once, "a", 1))
	if out := r.want(flow.Interrupted); out.Reason != "replay_mismatch" {
		t.Fatalf("interrupted with %q, %v", out.Reason, out.Err)
	}
	r.unchanged(before, calls)
	r.job.Flow = inOrder(call(flow.Once, "a", 1), call(flow.Once, "b", 1))
	r.agree(r.want(flow.Completed))
}

func removedBeforeContinue(t *testing.T, open opener) {
	loop := func(list ...flow.Call) flow.Func {
		once := inOrder(list...)
		return func(fc flow.Context, in json.RawMessage) (json.RawMessage, error) {
			v, err := once(fc, in)
			if err == nil && string(in) != `"again"` {
				err = flow.Continue(json.RawMessage(`"again"`))
			}
			return v, err
		}
	}
	r := newRig(t, open, loop(call(flow.Once, "a", 1), call(flow.Once, "b", 1)))
	r.crash(killAt(r, KillBefore, func(w Write) bool { return w.Has("run.continued") }))
	before, calls := r.journal(), len(r.world.Calls())
	r.job.Flow = loop(call(flow.Once, "a", 1))
	if out := r.want(flow.Interrupted); out.Reason != "replay_mismatch" {
		t.Fatalf("interrupted with %q, %v", out.Reason, out.Err)
	}
	r.unchanged(before, calls)
	r.job.Flow = loop(call(flow.Once, "a", 1), call(flow.Once, "b", 1))
	r.agree(r.want(flow.Completed))
}

func added(t *testing.T, open opener) {
	r := newRig(t, open, steps(calling(call(flow.Once, "a", 1)), asking(question("g"))))
	r.want(flow.ParkedRun)
	r.answerAll()
	r.job.Flow = steps(saying("agent.said", "new"), calling(call(flow.Once, "a", 1)), asking(question("g")), calling(call(flow.Once, "b", 1)))
	r.agree(r.want(flow.Completed))
	if a, b := r.world.Count("root/a"), r.world.Count("root/b"); a != 1 || b != 1 {
		t.Errorf("performed %d and %d times, want once each", a, b)
	}
}

// otherLimit: three branches were begun at once. Later only one may be, and what the others
// have done is still theirs.
func otherLimit(t *testing.T, open opener) {
	group := func(limit int) flow.Func {
		return program(func(fc flow.Context) error {
			return flow.Each(fc, flow.Group{Limit: limit}, []string{"a", "b", "c", "d"}, func(_ int, name string) string { return name }, func(fc flow.Context, _ string) error {
				if err := do(fc, call(flow.Once, "x", 1)); err != nil {
					return err
				}
				if _, err := fc.Wait(question("g")); err != nil {
					return err
				}
				return do(fc, call(flow.Once, "y", 1))
			})
		})
	}
	r := newRig(t, open, group(3))
	r.want(flow.ParkedRun)
	r.job.Flow = group(1)
	r.want(flow.ParkedRun)
	r.agree(r.toEnd())
	for _, path := range []string{"root/a/x", "root/b/x", "root/c/y", "root/d/y"} {
		if n := r.world.Count(path); n != 1 {
			t.Errorf("%s was performed %d times", path, n)
		}
	}
}

// newBeforeInherited: a follow-up makes a worktree of its own, and then takes over what its
// source has done. What it has not taken over when it completes does not fit.
func newBeforeInherited(t *testing.T, open opener) {
	bed := open(t)
	a, own, gate := calling(call(flow.Once, "a", 1)), calling(call(flow.Once, "new", 1)), asking(question("g"))
	source := newRun(t, bed, steps(a, gate))
	source.want(flow.ParkedRun)
	past := source.journal()
	for _, fits := range []bool{true, false} {
		r := newRun(t, bed, steps(own, a, gate))
		if !fits {
			r.job.Flow = steps(own, gate)
		}
		r.base = &base{records: past}
		r.want(flow.ParkedRun)
		r.answerAll()
		if !fits {
			if out := r.want(flow.Interrupted); out.Reason != "replay_mismatch" {
				t.Errorf("interrupted with %q, %v", out.Reason, out.Err)
			}
			continue
		}
		r.agree(r.want(flow.Completed))
		if n := r.world.Count("root/a"); n != 0 {
			t.Errorf("what it inherits was performed %d times", n)
		}
	}
	r := newRun(t, bed, steps(own, a, gate))
	r.base = &base{records: past}
	r.world.Answer("root/new", failing("broken"))
	if out := r.want(flow.Failed); coded(out.Err) != "broken" { // before it came to what it inherits
		t.Errorf("ended with %v", out.Err)
	}
}

// saidAgain: events that follow from what is recorded are lost with their process, and
// written by the next one, once.
func saidAgain(t *testing.T, open opener) {
	r := newRig(t, open, steps(calling(call(flow.Once, "a", 1)), saying("agent.said", "x"), asking(question("g"))))
	r.crash(killAt(r, KillBefore, func(w Write) bool { return w.Has("policy.gate") }))
	if len(r.journal().of("agent.said")) != 0 {
		t.Fatalf("it is stored%v", r.journal())
	}
	r.want(flow.ParkedRun)
	if n := len(r.journal().of("agent.said")); n != 1 {
		t.Errorf("said %d times%v", n, r.journal())
	}
	r.agree(r.toEnd())
}

// besideMethods: the engine counts one goroutine for a branch. A second one would park the
// run while the first works.
func besideMethods(t *testing.T, open opener) {
	bed := open(t)
	wait := func(fc flow.Context) error { _, err := fc.Wait(question("g")); return err }
	sleep := func(fc flow.Context) error { return fc.Sleep(time.Hour) }
	say := func(fc flow.Context) error {
		fc.Emit(flow.Event{Kind: "agent.said"})
		return do(fc, call(flow.Read, "b", 1))
	}
	var r *rig
	for name, c := range map[string]struct {
		first, then func(flow.Context) error
		begun       [2]string
	}{
		"a call beside a gate":         {wait, calling(call(flow.Once, "a", 1)), [2]string{"policy.gate", "root/g"}},
		"a gate beside a call":         {calling(call(flow.Once, "slow", 1)), wait, [2]string{"effect.intended", "root/slow"}},
		"an event beside a sleep":      {sleep, say, [2]string{"timer.set", "root/sleep#1"}},
		"a gate beside the flow's end": {wait, func(flow.Context) error { return nil }, [2]string{"policy.gate", "root/g"}},
	} {
		t.Run(name, func(t *testing.T) {
			over := make(chan struct{})
			r = newRun(t, bed, program(func(fc flow.Context) error {
				go func() {
					defer close(over)
					_ = c.first(fc)
				}()
				r.untilKind(c.begun[0], c.begun[1])
				return c.then(fc)
			}))
			r.job.Linger = patience
			r.world.Answer("root/slow", untilEnded)
			out := r.want(flow.Interrupted)
			if m := (*flow.Misuse)(nil); !errors.As(out.Err, &m) || !strings.Contains(m.Message, "branch of Go") {
				t.Errorf("interrupted with %q, %v, want misuse", out.Reason, out.Err)
			}
			if r.world.Count("root/a") != 0 || len(r.journal().of("agent.said")) != 0 {
				t.Errorf("something was done after it%v", r.journal())
			}
			<-over
		})
	}
}
