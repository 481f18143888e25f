package flowtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// branches: what runs side by side ends the same way whatever the order.
func branches(t *testing.T, open opener) {
	t.Run("of two failures the first in order is reported", func(t *testing.T) { firstInOrder(t, open) })
	t.Run("any interleaving of failures replays alike", func(t *testing.T) { anyInterleaving(t, open) })
	t.Run("a limit leaves the same branches unstarted", func(t *testing.T) { limitSkips(t, open) })
	t.Run("a limit is kept", func(t *testing.T) { limitKept(t, open) })
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
			if end, ok := j.finished(fmt.Sprintf("root/%d/x1", k)); ok && end.Error != nil && end.Error.Code != flow.CodeNotStarted {
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
	r := newRig(t, open, program(func(fc flow.Context) error {
		var list []flow.Branch
		for k := range 12 {
			list = append(list, flow.Branch{Run: func(fc flow.Context) error {
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
