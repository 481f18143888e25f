package flowtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// closings: the first failure in a group ends what runs beside it.
func closings(t *testing.T, open opener) {
	t.Run("a decision against a closing group", func(t *testing.T) { decisionAgainstClosing(t, open) })
	t.Run("closing awaits once and cuts the others", func(t *testing.T) { closing(t, open) })
	t.Run("closing reaches groups within", func(t *testing.T) { closingWithin(t, open) })
	t.Run("closing ends waits and sleeps and closes their gates", func(t *testing.T) { closingWaits(t, open) })
	t.Run("closing closes a gate that is being opened", func(t *testing.T) { closingOpening(t, open) })
	t.Run("a closed scope still records what is said", func(t *testing.T) { closedSpeaks(t, open) })
	t.Run("a branch that was ever started is not skipped", func(t *testing.T) { startedEarlier(t, open) })
	t.Run("a failure without its closing closes later", func(t *testing.T) { closesLater(t, open) })
}

// racing is a group in which a decision and a failure meet. keeper holds the
// drive open until it is released.
func racing(t tb, bed Bed) (r *rig, fail, keep chan struct{}) {
	fail, keep = make(chan struct{}), make(chan struct{})
	r = newRun(t, bed, program(func(fc flow.Context) error {
		return fc.Go(flow.Group{},
			flow.Branch{Name: "waiter", Run: func(fc flow.Context) error {
				d, err := fc.Wait(question("g"))
				r.see("wait", d.Action, coded(err))
				if err != nil {
					return err
				}
				err = do(fc, call(flow.Read, "after", 1))
				r.see("after", coded(err))
				return err
			}},
			flow.Branch{Name: "failer", Run: func(fc flow.Context) error { return do(fc, call(flow.Once, "x", 1)) }},
			flow.Branch{Name: "keeper", Run: func(fc flow.Context) error { return do(fc, call(flow.Once, "x", 2)) }},
		)
	}))
	r.world.Answer("root/failer/x", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		<-fail
		return failing("broken")(ctx, a)
	})
	r.world.Answer("root/keeper/x", onceReleased(keep))
	return r, fail, keep
}

func decisionAgainstClosing(t *testing.T, open opener) {
	bed := open(t)
	taken := func(r *rig, out flow.Outcome) bool {
		t.Helper()
		r.check(out, flow.Failed)
		takings, closed := r.journal().of("gate.taken"), r.journal().of("group.closed")
		is := len(takings) == 1
		if is && takings[0].Seq > closed[0].Seq {
			t.Fatalf("a decision was taken in a closed scope%v", r.journal())
		}
		want := " cancelled\n"
		if is {
			want = "yes ok\n"
		}
		if got := r.sights()["wait"]; got != want {
			t.Fatalf("the waiter saw %q, the journal says %q%v", got, want, r.journal())
		}
		r.agree(out)
		return is
	}
	// decide takes either answer: the gate of a closed group may be closed too.
	decide := func(r *rig) {
		if g, ok := r.journal().gate("root/waiter/g"); ok {
			_ = bed.Decide(r.run, g.Gate, yes)
		}
	}
	for range times(200) {
		r, fail, keep := racing(t, bed)
		d := r.start(bed.Log())
		r.untilKind("policy.gate", "root/waiter/g")
		decide(r)
		r.untilKind("gate.taken", "root/waiter/g")
		close(fail)
		close(keep)
		if !taken(r, d.wait()) {
			t.Fatalf("a decision before the closing was not taken%v", r.journal())
		}
	}
	for range times(200) {
		r, fail, keep := racing(t, bed)
		d := r.start(bed.Log())
		r.untilKind("policy.gate", "root/waiter/g")
		close(fail)
		r.until("group.closed", func(j journal) bool { return len(j.of("group.closed")) > 0 })
		decide(r)
		close(keep)
		if taken(r, d.wait()) {
			t.Fatalf("a decision after the closing was taken%v", r.journal())
		}
	}
	before := 0
	for i := range times(600) {
		r, fail, keep := racing(t, bed)
		// The failure is stored and about to be heard of: that is the window.
		f := NewFaulty(bed.Log())
		decided := make(chan struct{})
		f.After = func(w Write) {
			if w.HasAt("effect.finished", "root/failer/x") {
				go func() {
					defer close(decided)
					spin(i % 30)
					decide(r)
				}()
				spin(30 - i%30)
			}
		}
		d := r.start(f)
		r.untilKind("policy.gate", "root/waiter/g")
		close(fail)
		<-decided
		close(keep)
		if taken(r, d.wait()) {
			before++
		}
	}
	t.Logf("undirected, the decision came first %d of %d times", before, times(600))
}

func closing(t *testing.T, open opener) {
	best := time.Hour
	for range 3 { // the limit is for an idle machine: the best of three counts
		var mu sync.Mutex
		var failedAt time.Time
		cut := map[string]time.Duration{}
		entered := make(chan struct{}, 3)
		release := make(chan struct{})
		var r *rig
		r = newRig(t, open, program(func(fc flow.Context) error {
			calling := func(c flow.Call) func(flow.Context) error {
				return func(fc flow.Context) error {
					err := do(fc, c)
					r.see(fc.Path(), coded(err))
					return err
				}
			}
			return fc.Go(flow.Group{},
				flow.Branch{Name: "once", Run: calling(call(flow.Once, "x", 1))},
				flow.Branch{Name: "read", Run: calling(call(flow.Read, "x", 1))},
				flow.Branch{Name: "idempotent", Run: calling(call(flow.Idempotent, "x", 1))},
				flow.Branch{Name: "failer", Run: calling(call(flow.Once, "x", 1))},
			)
		}))
		for _, name := range []string{"read", "idempotent"} {
			r.world.Answer("root/"+name+"/x", func(ctx context.Context, _ flow.Attempt) (flow.Done, error) {
				entered <- struct{}{}
				<-ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				cut[name] = time.Since(failedAt)
				return flow.Done{}, ctx.Err()
			})
		}
		var ended error
		r.world.Answer("root/once/x", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
			entered <- struct{}{}
			<-release
			ended = ctx.Err()
			return flow.Done{Value: a.Input}, nil
		})
		r.world.Answer("root/failer/x", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
			for range 3 {
				<-entered
			}
			mu.Lock()
			defer mu.Unlock()
			failedAt = time.Now()
			return failing("broken")(ctx, a)
		})
		d := r.start(r.bed.Log())
		r.until("group.closed", func(j journal) bool { return len(j.of("group.closed")) > 0 })
		close(release)
		out := d.wait()
		if coded(out.Err) != "broken" || ended != nil {
			t.Fatalf("failed with %v; the once call's context had ended: %v", out.Err, ended)
		}
		if s := r.sights(); s["root/once"] != "ok\n" || s["root/read"] != "cancelled\n" || s["root/idempotent"] != "cancelled\n" {
			t.Fatalf("the branches saw %v%v", s, r.journal())
		}
		if _, ok := r.journal().finished("root/once/x"); !ok {
			t.Fatalf("the awaited result is not recorded%v", r.journal())
		}
		r.agree(out)
		best = min(best, max(cut["read"], cut["idempotent"]))
	}
	if best > 100*time.Millisecond {
		t.Errorf("read and idempotent calls were cut after %v, want 100 ms at most", best)
	}
}

func closingWithin(t *testing.T, open opener) {
	var r *rig
	entered := make(chan struct{})
	r = newRig(t, open, program(func(fc flow.Context) error {
		return fc.Go(flow.Group{},
			flow.Branch{Name: "outer", Run: func(fc flow.Context) error {
				err := fc.Go(flow.Group{KeepGoing: true},
					flow.Branch{Name: "in", Run: func(fc flow.Context) error { return do(fc, call(flow.Read, "x", 1)) }})
				r.see("inner", coded(err))
				return err
			}},
			flow.Branch{Name: "failer", Run: func(fc flow.Context) error { return do(fc, call(flow.Once, "x", 1)) }},
		)
	}))
	r.world.Answer("root/outer/in/x", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		close(entered)
		return untilEnded(ctx, a)
	})
	r.world.Answer("root/failer/x", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		<-entered
		return failing("broken")(ctx, a)
	})
	out := r.want(flow.Failed)
	if s := r.sights()["inner"]; s != "cancelled\n" || coded(out.Err) != "broken" {
		t.Fatalf("the inner group saw %q, the run failed with %v", s, out.Err)
	}
	r.agree(out)
}

func closingWaits(t *testing.T, open opener) {
	var r *rig
	r = newRig(t, open, program(func(fc flow.Context) error {
		err := fc.Go(flow.Group{},
			flow.Branch{Name: "waiter", Run: func(fc flow.Context) error {
				_, err := fc.Wait(question("g"))
				r.see("wait", coded(err))
				return err
			}},
			flow.Branch{Name: "sleeper", Run: func(fc flow.Context) error {
				err := fc.Sleep(time.Hour)
				r.see("sleep", coded(err))
				return err
			}},
			flow.Branch{Name: "failer", Run: func(fc flow.Context) error { return do(fc, call(flow.Once, "x", 1)) }},
		)
		r.see("group", coded(err))
		_, err = fc.Wait(question("after"))
		return err
	}))
	r.world.Answer("root/failer/x", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		r.came(func(j journal) bool { return len(j.of("policy.gate")) > 0 && len(j.of("timer.set")) > 0 })
		return failing("broken")(ctx, a)
	})
	r.want(flow.ParkedRun)
	if s := r.sights(); s["wait"] != "cancelled\n" || s["sleep"] != "cancelled\n" || s["group"] != "broken\n" {
		t.Fatalf("the branches saw %v", s)
	}
	r.decideKey("root/after", yes)
	out := r.want(flow.Completed)
	g, _ := r.journal().gate("root/waiter/g")
	closings := r.journal().of("policy.gate.resolve").at(g.Key)
	if len(closings) != 1 || read(closings[0]).Via != "superseded" || len(r.journal().of("gate.taken").at(g.Key)) != 0 {
		t.Fatalf("the gate of a closed group is not superseded%v", r.journal())
	}
	r.agree(out)
}

func closingOpening(t *testing.T, open opener) {
	writing, told := make(chan struct{}), make(chan struct{})
	var once, again sync.Once
	r := newRig(t, open, program(func(fc flow.Context) error {
		return fc.Go(flow.Group{},
			flow.Branch{Name: "waiter", Run: asking(question("g"))},
			flow.Branch{Name: "sleeper", Run: func(fc flow.Context) error {
				err := fc.Sleep(time.Hour)
				again.Do(func() { close(told) }) // the group is closed by now
				return err
			}},
			flow.Branch{Name: "failer", Run: func(flow.Context) error {
				<-writing
				return &flow.Error{Code: "broken"}
			}})
	}))
	f := NewFaulty(r.log())
	f.Before = func(w Write) Fault {
		if w.HasAt("policy.gate", "root/waiter/g") {
			once.Do(func() { close(writing) })
			<-told
		}
		return Pass
	}
	out := r.start(f).wait()
	r.check(out, flow.Failed)
	closings := r.journal().of("policy.gate.resolve").at("root/waiter/g")
	if len(closings) != 1 || read(closings[0]).Via != "superseded" {
		t.Fatalf("the gate that was being opened is not superseded%v", r.journal())
	}
	r.agree(out)
}

func closedSpeaks(t *testing.T, open opener) {
	var r *rig
	r = newRig(t, open, program(func(fc flow.Context) error {
		return fc.Go(flow.Group{},
			flow.Branch{Name: "cut", Run: func(fc flow.Context) error {
				_, err := fc.Wait(question("g"))
				fc.Emit(flow.Event{Kind: "agent.said", Body: coded(err)})
				r.see("now", fc.Now().UnixNano())
				return err
			}},
			flow.Branch{Name: "failer", Run: func(fc flow.Context) error { return do(fc, call(flow.Once, "x", 1)) }},
		)
	}))
	r.world.Answer("root/failer/x", failing("broken"))
	out := r.want(flow.Failed)
	j := r.journal()
	if said := j.of("agent.said"); len(said) != 1 || string(said[0].Body) != `"cancelled"` || len(j.of("clock.read")) != 1 {
		t.Fatalf("what was said in a closed scope is not recorded%v", j)
	}
	r.agree(out)
}

// startedEarlier has a branch work in one drive, and its group close in the next
// before that branch gets its turn again.
func startedEarlier(t *testing.T, open opener) {
	var r *rig
	closed := make(chan struct{})
	r = newRig(t, open, program(func(fc flow.Context) error {
		return fc.Go(flow.Group{Limit: 2},
			flow.Branch{Name: "failer", Run: func(fc flow.Context) error {
				return do(fc, call(flow.Once, "x", 1))
			}},
			flow.Branch{Name: "slow", Run: func(fc flow.Context) error {
				err := do(fc, call(flow.Read, "x", 1))
				if len(r.journal().of("run.resumed")) > 0 {
					<-closed
				}
				return err
			}},
			flow.Branch{Name: "worker", Run: func(fc flow.Context) error {
				err := do(fc, call(flow.Once, "x", 1))
				r.see("worker", coded(err))
				if err != nil {
					return err
				}
				_, err = fc.Wait(question("g"))
				return err
			}},
		)
	}))
	r.world.Answer("root/failer/x", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		r.came(func(j journal) bool { return len(j.of("effect.finished").at("root/worker/x")) > 0 })
		return failing("broken")(ctx, a)
	})
	r.crash(killAt(r, KillBefore, func(w Write) bool { return w.Has("group.closed") }))
	r.job.Appended = func(d flow.Draft) {
		if d.Kind == "group.closed" {
			close(closed)
		}
	}
	out := r.want(flow.Failed)
	if skipped := read(r.journal().of("group.closed")[0]).Skipped; len(skipped) != 0 || r.sights()["worker"] != "ok\n" {
		t.Errorf("skipped are %v, the worker was told %q%v", skipped, r.sights()["worker"], r.journal())
	}
	r.agree(out)
}

func closesLater(t *testing.T, open opener) {
	r := newRig(t, open, program(func(fc flow.Context) error {
		return fc.Go(flow.Group{},
			flow.Branch{Name: "failer", Run: func(fc flow.Context) error { return do(fc, call(flow.Once, "x", 1)) }},
			flow.Branch{Name: "waiter", Run: func(fc flow.Context) error { _, err := fc.Wait(question("g")); return err }},
		)
	}))
	r.world.Answer("root/failer/x", failing("broken"))
	r.crash(killAt(r, KillBefore, func(w Write) bool { return w.Has("group.closed") }))
	if len(r.journal().of("group.closed")) != 0 {
		t.Fatalf("the closing was stored%v", r.journal())
	}
	out := r.want(flow.Failed)
	if n := len(r.journal().of("group.closed")); n != 1 {
		t.Fatalf("%d group.closed, want 1%v", n, r.journal())
	}
	r.agree(out)
}
