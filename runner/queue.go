package runner

import (
	"context"
	"math"
	"slices"
	"sync"

	"github.com/tipstaff/tipstaff"
)

// maxQueue is how many runs may wait for their turn.
const maxQueue = 1024

// queue lets so many runs be driven at once, and the others wait, first come, first
// served.
type queue struct {
	mu      sync.Mutex
	places  int     // that are free
	waiting []*turn // in the order in which they came
}

// turn is that of a run to be driven. A nil turn has come.
type turn struct {
	queue *queue
	run   string
	come  chan struct{} // closed when it has a place
}

// newQueue is a queue with so many places; 0: with room for all.
func newQueue(places int) *queue {
	if places <= 0 {
		places = math.MaxInt
	}
	return &queue{places: places}
}

// has reports whether a run waits for its turn.
func (q *queue) has(run string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.ContainsFunc(q.waiting, func(t *turn) bool { return t.run == run })
}

// room refuses one more where as many wait as may.
func (q *queue) room() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) < maxQueue {
		return nil
	}
	return tipstaff.Errorf(tipstaff.QueueFull, "%d runs wait for their turn already", maxQueue).WithHint("try again when some have ended")
}

// line gives a run a place or, where there is none, has it wait behind all others: from
// now on it is known to.
func (q *queue) line(run string) *turn {
	t := &turn{queue: q, run: run, come: make(chan struct{})}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.places == 0 {
		q.waiting = append(q.waiting, t)
		return t
	}
	q.places--
	close(t.come)
	return t
}

// await returns when the turn has come, or not before ctx ends.
func (t *turn) await(ctx context.Context) bool {
	if t == nil {
		return true
	}
	select {
	case <-t.come:
		return true
	case <-ctx.Done():
	}
	q := t.queue
	q.mu.Lock()
	i := slices.Index(q.waiting, t)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	q.mu.Unlock()
	if i < 0 { // it has come all the same
		t.leave()
	}
	return false
}

// leave gives the place to who has waited longest.
func (t *turn) leave() {
	if t == nil {
		return
	}
	q := t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.places++
		return
	}
	next := q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1)
	close(next.come)
}
