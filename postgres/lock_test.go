package postgres

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/store"
)

// Transactions that batch what several goroutines do to the same runs and payloads ask for
// the same locks in every order, and never wait for each other in a circle.
func TestNobodyWaitsInACircle(t *testing.T) {
	c := newCluster(t, 4, yes)
	var runs []string
	for range 6 {
		runs = append(runs, c.create())
	}
	var all sync.WaitGroup
	for i, s := range c.stores {
		for k := range 6 {
			dice := rand.New(rand.NewPCG(uint64(i), uint64(k)))
			all.Go(func() {
				for n := range 25 {
					if err := note(s, runs[dice.IntN(len(runs))], fmt.Sprint(i, k, n)); err != nil {
						t.Error(err)
					}
					if _, err := s.PutBlob(t.Context(), fmt.Append(nil, "payload ", n, dice.IntN(3))); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	began := time.Now()
	all.Wait()
	t.Logf("1,200 transactions' worth in %v", time.Since(began))
	seen := 0
	for _, run := range runs {
		for path, n := range c.sound(run) {
			if path != "" && n != 1 {
				t.Errorf("%s is there %d times", path, n)
			}
			if path != "" {
				seen++
			}
		}
	}
	if seen != 600 {
		t.Errorf("%d records are there", seen)
	}
	time.Sleep(1500 * time.Millisecond) // until the server counts it
	if n, err := store.Number(t.Context(), c.stores[0].db, `SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); err != nil || n > 0 {
		t.Errorf("%d deadlocks, %v", n, err)
	}
}

// Only what comes after everything that is held is waited for.
func TestLocksAreWaitedForInOrder(t *testing.T) {
	var l locks
	l.begin(nil)
	take := func(names ...string) (waits bool) {
		for _, n := range names {
			l.ask(lockKey(n))
		}
		query, _ := l.take()
		return query != "" && query != `SELECT try_locks(CAST(? AS bigint[]))`
	}
	names := []string{"run a", "run b", "run c", "blob d"}
	slices.SortFunc(names, func(a, b string) int { return int(min(1, max(-1, lockKey(a)-lockKey(b)))) })
	if !take(names[1], names[2]) || !take(names[3]) || take(names[0]) || !take("memory") || !take("inbox") {
		t.Error("locks are not waited for as their order says")
	}
	if query, _ := l.take(); query != "" {
		t.Errorf("%s takes nothing", query)
	}
	if take(names[1]) || len(l.all()) != 6 {
		t.Errorf("a lock that is held is taken again, or %v were asked for", l.all())
	}
}
