package runner

import (
	"maps"
	"sync"

	"github.com/tipstaff/tipstaff/plan"
)

// leavings are what one walk leaves to a later revision. Branches tell it at the
// same time.
type leavings struct {
	mu       sync.Mutex
	done     map[string]plan.Done
	settled  map[string]bool     // doubts of earlier revisions that were decided
	approved map[string]approval // calls that may be made and were not yet
}

func newLeavings(approved map[string]approval) *leavings {
	l := &leavings{done: map[string]plan.Done{}, settled: map[string]bool{}, approved: maps.Clone(approved)}
	if l.approved == nil {
		l.approved = map[string]approval{}
	}
	return l
}

// Completed implements [plan.Keeper].
func (l *leavings) Completed(id string, d plan.Done) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done[id] = d
}

// Settled implements [plan.Keeper].
func (l *leavings) Settled(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled[id] = true
}

// approve keeps an approval until its call has been made.
func (l *leavings) approve(id string, a approval) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.approved[id] = a
}

func (l *leavings) spend(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.approved, id)
}
