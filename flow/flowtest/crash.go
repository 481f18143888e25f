package flowtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// crash: kill -9 at any moment loses nothing and repeats nothing.
func crash(t *testing.T, open opener) {
	t.Run("every prefix of a journal leads to the same end", func(t *testing.T) { prefixes(t, open) })
	t.Run("a kill at any write leads to the same end", func(t *testing.T) { killedAnywhere(t, open) })
	t.Run("a kill around an effect", func(t *testing.T) { killedAroundEffect(t, open) })
	t.Run("a hundred calls in flight", func(t *testing.T) { hundredInFlight(t, open) })
	t.Run("lost lazy records change nothing", func(t *testing.T) { lostLazy(t, open) })
}

// killAt is a process that dies at the first write that matches.
func killAt(r *rig, fault Fault, match func(Write) bool) *Faulty {
	f := NewFaulty(r.log())
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

func prefixes(t *testing.T, open opener) {
	bed := open(t)
	whole := newEverything(t, bed)
	created := len(whole.journal())
	whole.endsAlike(whole.toEnd(), nil, 0)
	full := whole.journal()
	first, step := places(t, bed)
	for n := created + first; n < len(full); n += step {
		r := newEverything(t, bed)
		r.clock.StepTo(whole.clock.Now())
		past := full[:n]
		r.answer = r.knowing(past, whole.world)
		r.restore(full, n)
		r.endsAlike(r.toEnd(), past, 0)
	}
}

func killedAnywhere(t *testing.T, open opener) {
	bed := open(t)
	for _, fault := range []Fault{KillBefore, KillAfter} {
		first, step := places(t, bed)
		for at := 1 + first; ; at += step {
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
	bed := open(t)
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
				r := newRun(t, bed, steps(calling(reserving(class, "a", "tool_calls")), asking(question("last"))))
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
		f := NewFaulty(r.log())
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
	_, step := places(t, bed)
	for round := range times(20) / step {
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
			return w.HasAt("effect.finished", "root/a")
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
