package flowtest

import (
	"context"
	"sync"

	"github.com/tipstaff/tipstaff/flow"
)

// bell tells everyone who listens that something has changed, so that a test can
// wait for what it wants to see without asking all the time.
type bell struct {
	mu   sync.Mutex
	rung chan struct{}
}

// next is closed by the next ring.
func (b *bell) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung == nil {
		b.rung = make(chan struct{})
	}
	return b.rung
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung != nil {
		close(b.rung)
		b.rung = nil
	}
}

// belled is a log that rings when something is queued in it or stored.
type belled struct {
	flow.Log
	bell *bell
}

func (l belled) Acquire(ctx context.Context, run string, owner flow.Owner) (flow.Lease, error) {
	defer l.bell.ring()
	return l.Log.Acquire(ctx, run, owner)
}

func (l belled) Append(lease flow.Lease, drafts []flow.Draft, done func(error)) {
	l.Log.Append(lease, drafts, func(err error) {
		l.bell.ring()
		done(err)
	})
	l.bell.ring()
}

func (l belled) Park(lease flow.Lease, p flow.Parking) (bool, error) {
	defer l.bell.ring()
	return l.Log.Park(lease, p)
}
