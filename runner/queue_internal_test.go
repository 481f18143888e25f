package runner

import (
	"context"
	"fmt"
	"testing"
)

// Who comes first is served first, and is known to wait from the moment it has come.
func TestQueueServesInOrder(t *testing.T) {
	q := newQueue(2)
	var turns []*turn
	for i := range 10 {
		turns = append(turns, q.line(fmt.Sprint(i)))
		if waits := q.has(fmt.Sprint(i)); waits != (i >= 2) {
			t.Fatalf("%d waits: %v", i, waits)
		}
	}
	for i, at := range turns {
		if !at.await(context.Background()) {
			t.Fatalf("the turn of %d does not come", i)
		}
		if next := fmt.Sprint(i + 2); i < 8 && !q.has(next) {
			t.Fatalf("%s has come before %d has left", next, i)
		}
		at.leave()
		if next := fmt.Sprint(i + 2); q.has(next) {
			t.Fatalf("%s still waits", next)
		}
	}
	if q.places != 2 {
		t.Errorf("%d places are free", q.places)
	}
}

// Who leaves the line leaves no hole in it, whenever that is.
func TestQueueForgetsWhoGivesUp(t *testing.T) {
	gone, stop := context.WithCancel(context.Background())
	stop()
	for range 1000 {
		q := newQueue(1)
		first, second, third := q.line("1"), q.line("2"), q.line("3")
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
		if q.places != 1 || len(q.waiting) != 0 {
			t.Fatalf("%d places are free, %d wait", q.places, len(q.waiting))
		}
	}
}
