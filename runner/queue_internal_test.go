package runner

import (
	"context"
	"fmt"
	"testing"
)

// Who comes first is served first, and is known to wait from the moment it has come.
func TestQueueServesInOrder(t *testing.T) {
	q := newQueue(3, 1) // of which one is for others
	var turns []*turn
	for i := range 10 {
		turns = append(turns, q.enter(fmt.Sprint(i), "alice"))
		if waits := q.place(fmt.Sprint(i)) > 0; waits != (i >= 2) {
			t.Fatalf("%d waits: %v", i, waits)
		}
	}
	for i, at := range turns {
		if !at.await(context.Background()) {
			t.Fatalf("the turn of %d does not come", i)
		}
		if next := fmt.Sprint(i + 2); i < 8 && q.place(next) == 0 {
			t.Fatalf("%s has come before %d has left", next, i)
		}
		at.leave()
		if next := fmt.Sprint(i + 2); q.place(next) > 0 {
			t.Fatalf("%s still waits", next)
		}
	}
	empty(t, q, 3)
}

func empty(t *testing.T, q *queue, places int) {
	t.Helper()
	if q.free != places || len(q.waiting) != 0 || q.ring.Len() != 0 || len(q.lines) != 0 {
		t.Errorf("%d places are free, %d runs and %d of %d users wait", q.free, len(q.waiting), q.ring.Len(), len(q.lines))
	}
}

// Who leaves the queue leaves no hole in it, whenever that is.
func TestQueueForgetsWhoGivesUp(t *testing.T) {
	gone, stop := context.WithCancel(context.Background())
	stop()
	for range 1000 {
		q := newQueue(1, 1)
		first, second, third := q.enter("1", "alice"), q.enter("2", "bob"), q.enter("3", "alice")
		left := make(chan bool)
		go func() { left <- second.await(gone) }()
		first.leave() // while it gives up
		if <-left {
			second.leave()
		}
		if !third.await(context.Background()) {
			t.Fatal("the third never had its turn")
		}
		third.leave()
		empty(t, q, 1)
	}
}

// However many runs of one user hang, others get a place at once, and so do as many
// users as places are reserved for. While others wait nobody gets more than half.
func TestQueueKeepsPlacesForOthers(t *testing.T) {
	for _, tc := range []struct{ places, users, most, others int }{
		{64, 1, 48, 8},   // three quarters; an eighth is for those in whose name a token acts
		{64, 20, 45, 19}, // one for each of the others
		{64, 100, 32, 32},
		{8, 2, 6, 1},
		{2, 2, 1, 1},
		{4, 1, 3, 0},
		{1, 2, 1, 0}, // one place cannot be shared
	} {
		t.Run(fmt.Sprint(tc.places, " places, ", tc.users, " users"), func(t *testing.T) {
			q := newQueue(tc.places, tc.users)
			held := 0
			for i := range 2 * tc.places {
				if _, waits := q.enter(fmt.Sprint("a", i), "alice").waits(); !waits {
					held++
				}
			}
			if held != tc.most {
				t.Errorf("alice has %d places, want %d", held, tc.most)
			}
			for i := range tc.others {
				held := 0
				for n := range tc.places { // of the runs that others start, the first gets a place
					_, waits := q.enter(fmt.Sprint(i, "-", n), fmt.Sprint("user", i)).waits()
					if n == 0 && waits {
						t.Errorf("the first run of user %d waits", i)
					}
					if !waits {
						held++
					}
				}
				if held > max(1, tc.places/2) {
					t.Errorf("user %d has %d places while alice waits", i, held)
				}
			}
		})
	}
}

// A place that comes free goes round the users, not to whoever has lined up most.
func TestQueueGoesRound(t *testing.T) {
	q := newQueue(1, 1)
	now := q.enter("first", "alice")
	turns := map[string]*turn{}
	for _, run := range []string{"alice1", "alice2", "alice3", "bob1", "bob2", "carol1"} {
		turns[run] = q.enter(run, run[:len(run)-1])
	}
	var order []string
	for range len(turns) {
		now.leave()
		for run, at := range turns {
			if _, waits := at.waits(); !waits {
				order, now = append(order, run), at
				delete(turns, run)
			}
		}
	}
	if got := fmt.Sprint(order); got != "[alice1 bob1 carol1 alice2 bob2 alice3]" {
		t.Errorf("they are served as %s", got)
	}
}

// A cancelled run goes on to its end, and the place that it never had is nobody's.
func TestQueueExcusesWhatWasCancelled(t *testing.T) {
	q := newQueue(1, 1)
	first, second, third := q.enter("1", "alice"), q.enter("2", "alice"), q.enter("3", "alice")
	q.excuse("2")
	q.excuse("none")
	if !second.await(context.Background()) || q.place("2") > 0 || q.place("3") == 0 {
		t.Error("it still waits, or another does not")
	}
	second.leave()
	if q.place("3") == 0 {
		t.Error("somebody got a place that was not there")
	}
	first.leave()
	third.leave()
	empty(t, q, 1)
}

// What one user lines up does not fill the queue for others.
func TestQueueIsFullForEachUser(t *testing.T) {
	q := newQueue(1, 1)
	q.enter("first", "alice")
	for i := range maxQueue / 2 {
		if err := q.room("alice"); err != nil {
			t.Fatalf("%d wait: %v", i, err)
		}
		q.enter(fmt.Sprint(i), "alice")
	}
	if q.room("alice") == nil || q.room("bob") != nil {
		t.Errorf("alice: %v, bob: %v", q.room("alice"), q.room("bob"))
	}
	for i := range maxQueue / 2 {
		q.enter(fmt.Sprint("b", i), fmt.Sprint("user", i%7))
	}
	if q.room("carol") == nil {
		t.Error("the queue has no end")
	}
}

// BenchmarkQueue is what a run costs that lines up, is looked for, and gives up or is
// served, while so many wait.
func BenchmarkQueue(b *testing.B) {
	gone, stop := context.WithCancel(context.Background())
	stop()
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for range b.N {
				q := newQueue(8, 2)
				turns := make([]*turn, n)
				for i := range turns {
					turns[i] = q.enter(fmt.Sprint(i), fmt.Sprint("user", i%100))
				}
				for i := range turns {
					q.place(fmt.Sprint(i))
				}
				for i := n - 1; i >= 0; i -= 2 {
					if turns[i].await(gone) {
						turns[i].leave()
					}
				}
				for len(q.waiting) > 0 {
					for i, at := range turns {
						if at != nil && at.at == nil {
							turns[i] = nil
							if i%2 == 0 {
								at.leave()
							}
						}
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/run")
		})
	}
}
