package flowtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// branches: what runs side by side ends the same way whatever the order.
func branches(t *testing.T, open opener) {
	t.Run("of two failures the first in order is reported", func(t *testing.T) { firstInOrder(t, open) })
	t.Run("any interleaving of failures replays alike", func(t *testing.T) { anyInterleaving(t, open) })
	t.Run("a limit leaves the same branches unstarted", func(t *testing.T) { limitSkips(t, open) })
	t.Run("a limit is kept and branches start in order", func(t *testing.T) { limitKept(t, open) })
	t.Run("a decision against a closing group", func(t *testing.T) { decisionAgainstClosing(t, open) })
	t.Run("closing awaits once and cuts the others", func(t *testing.T) { closing(t, open) })
	t.Run("closing reaches groups within", func(t *testing.T) { closingWithin(t, open) })
	t.Run("closing ends waits and sleeps and closes their gates", func(t *testing.T) { closingWaits(t, open) })
	t.Run("a closed scope still records what is said", func(t *testing.T) { closedSpeaks(t, open) })
	t.Run("a failure without its closing closes later", func(t *testing.T) { closesLater(t, open) })
	t.Run("keep going runs all and reports the first in order", func(t *testing.T) { keepGoing(t, open) })
	t.Run("with keep going parking outweighs failing until it ends", func(t *testing.T) { parkedOutweighs(t, open) })
	t.Run("a group without failure reports parking before cancelling", func(t *testing.T) { emptyGroups(t, open) })
	t.Run("Each runs a branch for every item", func(t *testing.T) { each(t, open) })
}

// spin lets a random little time pass, to move one side of a race.
func spin(n int) {
	for range rand.IntN(n + 1) {
		runtime.Gosched()
	}
}

func firstInOrder(t *testing.T, open opener) {
	bed := open(t)
	for i := range times(500) {
		r := newRun(t, bed, program(func(fc flow.Context) error {
			var list []flow.Branch
			for _, name := range []string{"a", "b", "c", "d"} {
				list = append(list, flow.Branch{Name: name, Run: func(fc flow.Context) error { return do(fc, call(flow.Once, "x", name)) }})
			}
			return fc.Go(flow.Group{}, list...)
		}))
		// All are in flight before the first fails, so that all answer.
		var all sync.WaitGroup
		all.Add(4)
		for _, name := range []string{"a", "b", "c", "d"} {
			r.world.Answer("root/"+name+"/x", func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
				all.Done()
				all.Wait()
				spin(20)
				if name == "b" || name == "c" {
					return failing(name)(ctx, a)
				}
				return flow.Done{}, nil
			})
		}
		out := r.want(flow.Failed)
		if coded(out.Err) != "b" {
			t.Fatalf("failed with %v, want b%v", out.Err, r.journal())
		}
		for range replays(i) {
			r.agree(out)
		}
	}
}

// replays is how often the i-th interleaving is replayed.
func replays(i int) int {
	if i%50 == 0 {
		return 20
	}
	return 1
}

func anyInterleaving(t *testing.T, open opener) {
	bed := open(t)
	classes := []flow.Class{flow.Once, flow.Read, flow.Once, flow.Idempotent, flow.Read}
	for i := range times(500) {
		var r *rig
		r = newRun(t, bed, program(func(fc flow.Context) error {
			var list []flow.Branch
			for k, class := range classes {
				list = append(list, flow.Branch{Run: func(fc flow.Context) error {
					for s := range 2 {
						if err := do(fc, call(class, fmt.Sprint("x", s), k)); err != nil {
							r.see(fc.Path(), s, coded(err))
							return err
						}
						fc.Emit(flow.Event{Kind: "agent.said", Body: s})
					}
					r.see(fc.Path(), "ok")
					return nil
				}})
			}
			return fc.Go(flow.Group{Limit: 1 + i%5}, list...)
		}))
		for k := range classes {
			r.world.Answer(fmt.Sprintf("root/%d/x0", k), func(_ context.Context, a flow.Attempt) (flow.Done, error) {
				spin(30)
				return flow.Done{Value: a.Input}, nil
			})
			if k == 1 || k == 2 || k == 4 {
				r.world.Answer(fmt.Sprintf("root/%d/x1", k), func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
					spin(30)
					return failing(fmt.Sprint("f", k))(ctx, a)
				})
			}
		}
		out := r.want(flow.Failed)
		j, want := r.journal(), ""
		for k := range classes {
			if end, ok := j.finished(fmt.Sprintf("root/%d/x1", k)); ok && end.Error != nil {
				want = end.Error.Code
				break
			}
		}
		if coded(out.Err) != want {
			t.Fatalf("failed with %v, want %s%v", out.Err, want, j)
		}
		if n := len(j.of("group.closed")); n != 1 {
			t.Fatalf("%d group.closed, want 1%v", n, j)
		}
		for range replays(i) {
			r.agree(out)
		}
	}
}

func limitSkips(t *testing.T, open opener) {
	bed := open(t)
	for i := range times(100) {
		var r *rig
		r = newRun(t, bed, program(func(fc flow.Context) error {
			var list []flow.Branch
			for k := range 8 {
				list = append(list, flow.Branch{Run: func(fc flow.Context) error {
					r.see("started "+fc.Path(), true)
					return do(fc, call(flow.Read, "x", k))
				}})
			}
			err := fc.Go(flow.Group{Limit: 2}, list...)
			if coded(err) != "broken" {
				return err
			}
			_, err = fc.Wait(question("after"))
			return err
		}))
		for k := range 8 {
			r.world.Answer(fmt.Sprintf("root/%d/x", k), func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
				spin(20)
				switch k {
				case 3:
					return failing("broken")(ctx, a)
				case 4:
					return untilEnded(ctx, a) // so none after it gets its turn
				}
				return flow.Done{Value: a.Input}, nil
			})
		}
		r.want(flow.ParkedRun)
		live := r.sights()
		closed := r.journal().of("group.closed")
		if len(closed) != 1 {
			t.Fatalf("%d group.closed, want 1%v", len(closed), r.journal())
		}
		skipped := read(closed[0]).Skipped
		for k := range 8 {
			started := live[fmt.Sprintf("started root/%d", k)] != ""
			if started == slices.Contains(skipped, fmt.Sprint(k)) {
				t.Fatalf("branch %d: started %v, skipped are %v", k, started, skipped)
			}
		}
		if !slices.Equal(skipped[max(0, len(skipped)-3):], []string{"5", "6", "7"}) {
			t.Fatalf("skipped are %v, want the last three of eight%v", skipped, r.journal())
		}
		r.answerAll()
		out := r.want(flow.Completed)
		if d := difference(live, r.sights()); d != "" {
			t.Fatalf("round %d: a later drive started others:\n%s", i, d)
		}
		r.agree(out)
	}
}

func limitKept(t *testing.T, open opener) {
	var mu sync.Mutex
	now, most := 0, 0
	var order []int
	r := newRig(t, open, program(func(fc flow.Context) error {
		var list []flow.Branch
		for k := range 12 {
			list = append(list, flow.Branch{Run: func(fc flow.Context) error {
				mu.Lock()
				order = append(order, k)
				mu.Unlock()
				return do(fc, call(flow.Read, "x", k))
			}})
		}
		return fc.Go(flow.Group{Limit: 3}, list...)
	}))
	full := make(chan struct{})
	for k := range 12 {
		r.world.Answer(fmt.Sprintf("root/%d/x", k), func(_ context.Context, a flow.Attempt) (flow.Done, error) {
			mu.Lock()
			now++
			if most = max(most, now); now == 3 && most == 3 {
				select {
				case <-full:
				default:
					close(full)
				}
			}
			mu.Unlock()
			<-full // three run at once, or the test hangs and says so
			mu.Lock()
			now--
			mu.Unlock()
			return flow.Done{Value: a.Input}, nil
		})
	}
	out := r.want(flow.Completed)
	if most != 3 {
		t.Errorf("%d branches ran at once, want 3", most)
	}
	for i, k := range order {
		if i-k >= 3 || k-i >= 3 { // of three at once any may speak first
			t.Errorf("branches started in order %v", order)
			break
		}
	}
	r.agree(out)
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
		is := len(r.journal().of("gate.taken")) == 1
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
		d := r.start(bed.Log())
		r.untilKind("policy.gate", "root/waiter/g")
		go func() {
			spin(i % 60)
			close(fail)
			close(keep)
		}()
		spin(60 - i%60)
		decide(r)
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

func keepGoing(t *testing.T, open opener) {
	bed := open(t)
	for range times(100) {
		r := newRun(t, bed, program(func(fc flow.Context) error {
			var list []flow.Branch
			for k := range 6 {
				list = append(list, flow.Branch{Run: func(fc flow.Context) error { return do(fc, call(flow.Read, "x", k)) }})
			}
			return fc.Go(flow.Group{KeepGoing: true, Limit: 3}, list...)
		}))
		for k := range 6 {
			r.world.Answer(fmt.Sprintf("root/%d/x", k), func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
				spin(20)
				if k == 2 || k == 4 {
					return failing(fmt.Sprint("f", k))(ctx, a)
				}
				return flow.Done{Value: a.Input}, nil
			})
		}
		out := r.want(flow.Failed)
		if coded(out.Err) != "f2" || len(r.journal().of("effect.finished")) != 6 || len(r.journal().of("group.closed")) != 0 {
			t.Fatalf("failed with %v%v", out.Err, r.journal())
		}
		r.agree(out)
	}
}

func parkedOutweighs(t *testing.T, open opener) {
	r := newRig(t, open, program(func(fc flow.Context) error {
		return fc.Go(flow.Group{KeepGoing: true},
			flow.Branch{Name: "failer", Run: func(fc flow.Context) error { return do(fc, call(flow.Once, "x", 1)) }},
			flow.Branch{Name: "waiter", Run: func(fc flow.Context) error {
				if _, err := fc.Wait(question("g")); err != nil {
					return err
				}
				return do(fc, call(flow.Once, "x", 1))
			}},
		)
	}))
	r.world.Answer("root/failer/x", failing("broken"))
	r.want(flow.ParkedRun)
	r.answerAll()
	out := r.want(flow.Failed)
	if coded(out.Err) != "broken" || r.world.Count("root/waiter/x") != 1 {
		t.Fatalf("failed with %v%v", out.Err, r.journal())
	}
	r.agree(out)
}

func emptyGroups(t *testing.T, open opener) {
	r := newRig(t, open, program(func(fc flow.Context) error {
		if err := fc.Go(flow.Group{}); err != nil {
			return err
		}
		return fc.Go(flow.Group{},
			flow.Branch{Name: "cancels", Run: func(flow.Context) error { return flow.ErrCancelled }},
			flow.Branch{Name: "parks", Run: func(fc flow.Context) error { _, err := fc.Wait(question("g")); return err }})
	}))
	r.want(flow.ParkedRun)
}

func each(t *testing.T, open opener) {
	r := newRig(t, open, program(func(fc flow.Context) error {
		items := []string{"x", "y", "z"}
		return flow.Each(fc, flow.Group{}, items, func(_ int, s string) string { return "item-" + s },
			func(fc flow.Context, s string) error { return do(fc, call(flow.Read, "", s)) })
	}))
	r.agree(r.want(flow.Completed))
	for _, path := range []string{"root/item-x", "root/item-y", "root/item-z"} {
		if r.world.Count(path) != 1 {
			t.Errorf("nothing was performed at %s", path)
		}
	}
}
