package flowtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// keys: what a program may call its steps, and what happens when it does not
// fit its history.
func keys(t *testing.T, open opener) {
	t.Run("misuse interrupts and ends nothing", func(t *testing.T) { misuse(t, open) })
	t.Run("a misuse cannot be handled", func(t *testing.T) { misuseHandled(t, open) })
	t.Run("a panic interrupts and ends nothing", func(t *testing.T) { panics(t, open) })
	t.Run("swallowed parking is misuse and performs nothing", func(t *testing.T) { swallowing(t, open) })
	t.Run("a wrapped parking is parking", func(t *testing.T) { wrapping(t, open) })
	t.Run("a changed program is found and changes nothing", func(t *testing.T) { changed(t, open) })
	t.Run("timeout retry class and reserve may change", func(t *testing.T) { mayChange(t, open) })
	t.Run("another root in the same segment is refused", func(t *testing.T) { anotherRoot(t, open) })
	t.Run("every attempt carries the same idempotency key", func(t *testing.T) { sameKey(t, open) })
	t.Run("paths are made of segments", func(t *testing.T) { paths(t, open) })
}

func misuse(t *testing.T, open opener) {
	bed := open(t)
	a := call(flow.Read, "a", 1)
	nothing := func(flow.Context) error { return nil }
	deep := func(fc flow.Context) flow.Context {
		for range 9 {
			fc = fc.At(strings.Repeat("x", 120))
		}
		return fc
	}
	cases := map[string]func(flow.Context) error{
		"key twice":               func(fc flow.Context) error { return errors.Join(do(fc, a), do(fc, a)) },
		"key twice by At":         func(fc flow.Context) error { return errors.Join(do(fc, a), do(fc.At("a"), call(flow.Read, "", 1))) },
		"key of a call as a gate": func(fc flow.Context) error { _ = do(fc, a); _, err := fc.Wait(question("a")); return err },
		"branch name twice": func(fc flow.Context) error {
			return fc.Go(flow.Group{}, flow.Branch{Name: "b", Run: nothing}, flow.Branch{Name: "b", Run: nothing})
		},
		"branch name is another's index": func(fc flow.Context) error {
			return fc.Go(flow.Group{}, flow.Branch{Name: "1", Run: nothing}, flow.Branch{Run: nothing})
		},
		"branch name twice in two groups": func(fc flow.Context) error {
			b := flow.Branch{Name: "b", Run: nothing}
			return errors.Join(fc.Go(flow.Group{}, b), fc.Go(flow.Group{}, b))
		},
		"parent's Do in a branch": func(fc flow.Context) error {
			return fc.Go(flow.Group{}, flow.Branch{Name: "b", Run: func(flow.Context) error { return do(fc, a) }})
		},
		"parent's Emit in a branch": func(fc flow.Context) error {
			return fc.Go(flow.Group{}, flow.Branch{Name: "b", Run: func(own flow.Context) error {
				fc.Emit(flow.Event{Kind: "agent.said"})
				return do(own, a)
			}})
		},
		"parent's At in a branch": func(fc flow.Context) error {
			return fc.Go(flow.Group{}, flow.Branch{Name: "b", Run: func(flow.Context) error { return do(fc.At("c"), a) }})
		},
		"retry on once": func(fc flow.Context) error { return do(fc, retrying(flow.Once, "a", 1)) },
		"continue from a branch": func(fc flow.Context) error {
			return fc.Go(flow.Group{}, flow.Branch{Name: "b", Run: func(flow.Context) error { return flow.Continue(json.RawMessage(`1`)) }})
		},
		"a path too long":        func(fc flow.Context) error { return do(deep(fc), a) },
		"a reserved At and leaf": func(fc flow.Context) error { return do(fc.At("in_doubt"), call(flow.Read, "", 1)) },
		"a reserved gate":        func(fc flow.Context) error { _, err := fc.Wait(question("bound#1")); return err },
		"a slash in At":          func(fc flow.Context) error { return do(fc.At("a/b"), a) },
		"a malformed branch": func(fc flow.Context) error {
			return fc.Go(flow.Group{}, flow.Branch{Name: "b c", Run: nothing})
		},
	}
	for _, key := range []string{"now#1", "sleep#2", "go#1", "in_doubt", "in_doubt#2", "bound#1", "a/b", "a b", "ü", "a\x00", strings.Repeat("x", 129)} {
		cases[fmt.Sprintf("key %.12q", key)] = func(fc flow.Context) error { return do(fc, call(flow.Read, key, 1)) }
	}
	for name, body := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, bed, program(body))
			out := r.want(flow.Interrupted)
			var m *flow.Misuse
			if !errors.As(out.Err, &m) || out.Reason != "misuse" {
				t.Fatalf("interrupted with %q, %v, want misuse", out.Reason, out.Err)
			}
			r.interruptedBy("misuse")
			for _, c := range r.world.Calls() {
				if c.Path != "root/a" { // the one sound call before a misuse
					t.Errorf("%.80s was performed", c.Path)
				}
			}
		})
	}
}

// interruptedBy checks that the last word of the journal is an interruption.
func (r *rig) interruptedBy(reason string) {
	r.t.Helper()
	j := r.journal()
	last := j[len(j)-1]
	if last.Kind != "run.interrupted" || read(last).Reason != reason {
		r.t.Fatalf("the journal ends with %s %s, want run.interrupted with reason %s", last.Kind, last.Body, reason)
	}
	if j.ended() != "" {
		r.t.Fatalf("an interrupted run has a terminal record%v", j)
	}
}

func misuseHandled(t *testing.T, open opener) {
	var after error
	r := newRig(t, open, program(func(fc flow.Context) error {
		_ = do(fc, call(flow.Read, "a", 1))
		_ = do(fc, call(flow.Read, "a", 1))
		fc.Emit(flow.Event{Kind: "agent.said"})
		after = do(fc, call(flow.Once, "b", 1))
		return nil
	}))
	out := r.want(flow.Interrupted)
	var m *flow.Misuse
	if !errors.As(out.Err, &m) || !errors.As(after, &m) {
		t.Fatalf("the drive ended with %v, a later call with %v, want misuse twice", out.Err, after)
	}
	if r.world.Count("root/b") != 0 || len(r.journal().of("agent.said")) != 0 {
		t.Fatalf("something was done after a misuse%v", r.journal())
	}
}

func panics(t *testing.T, open opener) {
	bed := open(t)
	for name, body := range map[string]func(flow.Context) error{
		"at the root": func(flow.Context) error { panic("root") },
		"in a branch": func(fc flow.Context) error {
			return fc.Go(flow.Group{}, flow.Branch{Run: func(flow.Context) error { panic("branch") }},
				flow.Branch{Run: func(fc flow.Context) error { return do(fc, call(flow.Read, "a", 1)) }})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, bed, program(body))
			out := r.want(flow.Interrupted)
			if out.Reason != "panic" || out.Err == nil {
				t.Fatalf("interrupted with %q, %v, want panic", out.Reason, out.Err)
			}
			r.interruptedBy("panic")
			newRun(t, bed, inOrder(call(flow.Once, "a", 1))).want(flow.Completed)
		})
	}
}

func swallowing(t *testing.T, open opener) {
	bed := open(t)
	swallow := func(fc flow.Context) error {
		_, _ = fc.Wait(question("g"))
		fc.Emit(flow.Event{Kind: "agent.said"})
		_ = do(fc, call(flow.Once, "after", 1))
		_ = fc.Sleep(1)
		fc.Now()
		return nil
	}
	for name, c := range map[string]struct {
		body func(flow.Context) error
		path string
	}{
		"at the root": {swallow, "root/after"},
		"in a branch": {func(fc flow.Context) error {
			return fc.Go(flow.Group{}, flow.Branch{Name: "b", Run: swallow})
		}, "root/b/after"},
		"by a group's caller": {func(fc flow.Context) error {
			_ = fc.Go(flow.Group{}, flow.Branch{Name: "b", Run: func(fc flow.Context) error { _, err := fc.Wait(question("g")); return err }})
			_ = do(fc, call(flow.Once, "after", 1))
			return nil
		}, "root/after"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, bed, program(c.body))
			out := r.want(flow.Interrupted)
			var m *flow.Misuse
			if !errors.As(out.Err, &m) {
				t.Fatalf("interrupted with %v, want misuse", out.Err)
			}
			j := r.journal()
			if n := r.world.Count(c.path); n != 0 || len(j.of("agent.said"))+len(j.of("timer.set"))+len(j.of("clock.read")) != 0 || j.ended() != "" {
				t.Fatalf("something was done after parking%v", j)
			}
		})
	}
}

func wrapping(t *testing.T, open opener) {
	r := newRig(t, open, program(func(fc flow.Context) error {
		return fc.Go(flow.Group{}, flow.Branch{Run: func(fc flow.Context) error {
			if _, err := fc.Wait(question("g")); err != nil {
				return fmt.Errorf("asking: %w", err)
			}
			return nil
		}})
	}))
	r.want(flow.ParkedRun)
	r.answerAll()
	r.agree(r.want(flow.Completed))
}

// step is one thing a program does; changed programs do another instead.
type step func(flow.Context) error

func steps(list ...step) flow.Func {
	return program(func(fc flow.Context) error {
		for _, s := range list {
			if err := s(fc); err != nil {
				return err
			}
		}
		return nil
	})
}

func asking(g flow.Gate) step {
	return func(fc flow.Context) error { _, err := fc.Wait(g); return err }
}

func calling(c flow.Call) step { return func(fc flow.Context) error { return do(fc, c) } }

func saying(kind string, body any) step {
	return func(fc flow.Context) error { fc.Emit(flow.Event{Kind: kind, Body: body}); return nil }
}

func changed(t *testing.T, open opener) {
	bed := open(t)
	gate := question("g")
	subject, wording, actions, deny := gate, gate, gate, gate
	subject.Subject = json.RawMessage(`{"it":2}`)
	wording.Question = "Shall it not?"
	actions.Actions = []string{"yes", "no", "maybe"}
	deny.Deny = "yes"
	a := call(flow.Read, "a", 1)
	name := a
	name.Name = "other"
	said := saying("agent.said", map[string]int{"n": 1})
	cases := []struct {
		name            string
		now             [3]step // call, gate, event
		path            string
		recorded, asked string
	}{
		{"input", [3]step{calling(call(flow.Read, "a", 2)), asking(gate), said}, "root/a", callDigest("work", []byte(`1`)), callDigest("work", []byte(`2`))},
		{"name", [3]step{calling(name), asking(gate), said}, "root/a", callDigest("work", []byte(`1`)), callDigest("other", []byte(`1`))},
		{"gate subject", [3]step{calling(a), asking(subject), said}, "root/g", "", ""},
		{"gate question", [3]step{calling(a), asking(wording), said}, "root/g", "", ""},
		{"gate actions", [3]step{calling(a), asking(actions), said}, "root/g", "", ""},
		{"gate deny", [3]step{calling(a), asking(deny), said}, "root/g", "", ""},
		{"event body", [3]step{calling(a), asking(gate), saying("agent.said", map[string]int{"n": 2})}, "root",
			callDigest("agent.said", []byte(`{"n":1}`)), callDigest("agent.said", []byte(`{"n":2}`))},
		{"event kind", [3]step{calling(a), asking(gate), saying("agent.thought", map[string]int{"n": 1})}, "root",
			callDigest("agent.said", []byte(`{"n":1}`)), callDigest("agent.thought", []byte(`{"n":1}`))},
		{"a new event before a changed call", [3]step{func(fc flow.Context) error {
			fc.At("new").Emit(flow.Event{Kind: "agent.said"})
			fc.At("new").Now()
			return do(fc, call(flow.Read, "a", 2))
		}, asking(gate), said}, "root/a", callDigest("work", []byte(`1`)), callDigest("work", []byte(`2`))},
		{"a gate where a call was", [3]step{asking(question("a")), asking(gate), said}, "root/a", callDigest("work", []byte(`1`)), ""},
		{"a call where a gate was", [3]step{calling(a), calling(call(flow.Read, "g", 1)), said}, "root/g", "", callDigest("work", []byte(`1`))},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			last := asking(question("last"))
			r := newRun(t, bed, steps(calling(a), asking(gate), said, last))
			r.want(flow.ParkedRun)
			r.decideKey("root/g", yes)
			r.want(flow.ParkedRun)
			r.decideKey("root/last", yes)
			before := r.journal()
			if c.recorded == "" {
				g, _ := before.gate("root/g")
				c.recorded = g.Digest
			}

			r.job.Flow = steps(c.now[0], c.now[1], c.now[2], last)
			out := r.want(flow.Interrupted)
			var nd *flow.NonDeterminism
			if !errors.As(out.Err, &nd) || out.Reason != "replay_mismatch" {
				t.Fatalf("interrupted with %q, %v, want replay_mismatch", out.Reason, out.Err)
			}
			if !strings.HasPrefix(nd.Path, c.path) || !strings.Contains(nd.Recorded, c.recorded) || !strings.Contains(nd.Asked, c.asked) || nd.Asked == nd.Recorded {
				t.Errorf("found %q: %s, asked %s; want %q: %s, asked %s", nd.Path, nd.Recorded, nd.Asked, c.path, c.recorded, c.asked)
			}
			after := r.journal()
			if !slices.EqualFunc(before, after[:len(before)], sameRecord) {
				t.Errorf("the journal was changed%v", after)
			}
			if got := after[len(before):].kinds(); !slices.Equal(got, []string{"run.resumed", "run.interrupted"}) {
				t.Errorf("%v followed", got)
			}
			r.job.Flow = steps(calling(a), asking(gate), said, last)
			r.want(flow.Completed)
		})
	}
}

func sameRecord(a, b flow.Record) bool {
	return a.Seq == b.Seq && a.Epoch == b.Epoch && a.Kind == b.Kind && a.Path == b.Path && a.N == b.N && a.Note == b.Note &&
		a.At.Equal(b.At) && string(a.Body) == string(b.Body)
}

func mayChange(t *testing.T, open opener) {
	first := reserving(flow.Read, "a", "tool_calls")
	second := call(flow.Once, "b", 1)
	r := newRig(t, open, steps(calling(first), calling(second), asking(question("g"))))
	r.want(flow.ParkedRun)
	r.answerAll()
	first.Timeout, first.Class, first.Reserve, first.Ask = 1, flow.Once, nil, true
	second.Class, second.Retry, second.Reserve = flow.Idempotent, flow.Retry{Max: 3}, flow.Use{"tokens": 9}
	r.job.Flow, r.reclassed = steps(calling(first), calling(second), asking(question("g"))), true
	r.agree(r.want(flow.Completed))
	if a, b := r.world.Count("root/a"), r.world.Count("root/b"); a != 1 || b != 1 {
		t.Fatalf("performed %d and %d times, want once each", a, b)
	}
}

// anotherRoot: a revision begins with a segment of its own. Under another root in the same
// one, all that was done is left behind, and would be done again.
func anotherRoot(t *testing.T, open opener) {
	pay := steps(calling(call(flow.Once, "a", 1)), asking(question("g")))
	r := newRig(t, open, pay)
	r.want(flow.ParkedRun)
	r.answerAll()
	r.job.Root = "root@2"
	if out := r.want(flow.Interrupted); out.Reason != "replay_mismatch" {
		t.Fatalf("interrupted with %q, %v, want replay_mismatch", out.Reason, out.Err)
	}
	r.job.Root = "root"
	r.want(flow.Completed)
	if a, b := r.world.Count("root/a"), r.world.Count("root@2/a"); a != 1 || b != 0 {
		t.Fatalf("performed %d times under root and %d under root@2, want once and never", a, b)
	}
}

func sameKey(t *testing.T, open opener) {
	r := newRig(t, open, inOrder(retrying(flow.Idempotent, "a", 3)))
	r.world.Answer("root/a", failingUntil(4))
	r.crash(killAt(r, KillAfter, func(w Write) bool { return w.Has("effect.failed") }))
	r.want(flow.Completed)
	calls := r.world.Calls()
	if len(calls) != 4 {
		t.Fatalf("%d attempts, want 4%v", len(calls), r.journal())
	}
	for i, c := range calls {
		if c.Key != idempotencyKey(r.run, "root/a") || c.N != i+1 {
			t.Errorf("attempt %d came as number %d with key %s", i+1, c.N, c.Key)
		}
	}
}

func paths(t *testing.T, open opener) {
	var got []string
	r := newRig(t, open, program(func(fc flow.Context) error {
		long := strings.Repeat("y", 128)
		got = append(got, fc.Path(), fc.At("critic#3").Path(), fc.At("a").At(long).Path())
		if err := do(fc.At("a"), call(flow.Read, "B.c_d@e#1-f", 1)); err != nil {
			return err
		}
		return fc.At("x").Go(flow.Group{}, flow.Branch{Run: func(fc flow.Context) error {
			got = append(got, fc.Path())
			return do(fc, call(flow.Read, "", 1))
		}})
	}))
	r.job.Root = ""
	r.agree(r.want(flow.Completed))
	want := []string{"", "critic#3", "a/" + strings.Repeat("y", 128), "x/0"}
	if !slices.Equal(got[:4], want) {
		t.Errorf("paths are %q, want %q", got[:4], want)
	}
	for _, path := range []string{"a/B.c_d@e#1-f", "x/0"} {
		if r.world.Count(path) != 1 {
			t.Errorf("nothing was performed at %s%v", path, r.journal())
		}
	}
}
