package runner

import (
	"context"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// maxQueue is how many runs may wait for their turn.
const maxQueue = 1024

// queue lets so many runs be driven at once, and the others wait, first come, first
// served. A nil queue has room for all.
type queue struct {
	places chan struct{} // those who wait to put something in are served in order

	mu      sync.Mutex
	waiting map[string]bool // runs
}

func newQueue(places int) *queue {
	if places <= 0 {
		return nil
	}
	return &queue{places: make(chan struct{}, places), waiting: map[string]bool{}}
}

// has reports whether a run waits for its turn.
func (q *queue) has(run string) bool {
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting[run]
}

// room refuses one more where as many wait as may.
func (q *queue) room() error {
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) < maxQueue {
		return nil
	}
	return tipstaff.Errorf(tipstaff.QueueFull, "%d runs wait for their turn already", maxQueue).WithHint("try again when some have ended")
}

// enter waits for a place, until ctx ends. leave gives it back.
func (q *queue) enter(ctx context.Context, run string) (leave func(), ok bool) {
	if q == nil {
		return func() {}, true
	}
	q.mark(run, true)
	defer q.mark(run, false)
	select {
	case q.places <- struct{}{}:
		return func() { <-q.places }, true
	case <-ctx.Done():
		return nil, false
	}
}

func (q *queue) mark(run string, waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if waits {
		q.waiting[run] = true
	} else {
		delete(q.waiting, run)
	}
}

// driveInTurn drives a run when there is a place for it. A child has that of its
// parent, which waits for it: two places for one could leave none for anybody.
func (r *Runner) driveInTurn(run string, p *program, a *active, who person) tipstaff.Driven {
	if p.draft.Parent != nil && p.draft.Parent.Relation == relationDispatch {
		return r.drive(run, p, a, who)
	}
	leave, ok := r.queue.enter(r.Stop, run)
	if !ok {
		return p.describe(flow.Outcome{Status: flow.Interrupted, Reason: "stopped"})
	}
	defer leave()
	return r.drive(run, p, a, who)
}
