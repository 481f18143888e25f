package runner

import (
	"context"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
)

const (
	lookKept    = 2 * time.Second // how long what was found counts for whoever is shown it
	looksAtOnce = 2
)

// looks keeps for a moment what stands in the way of open deliveries. To find that starts ten
// processes of git, and a page that shows many gates asks about each of them again and again.
type looks struct {
	mu    sync.Mutex
	all   map[string]*look
	turns chan struct{} // a place for each that looks
}

type look struct {
	done  chan struct{}         // closed when it is over
	now   *tipstaff.DeliveryNow // what was found, from then on; nil: nobody could look
	until time.Time             // and how long that counts; zero: it is not over
}

// at is what stands in the way at a gate: as it was found a moment ago, or as find finds it, which
// is asked once for all who wait. find goes on when ctx ends, and ends with stop.
func (l *looks) at(ctx, stop context.Context, gate string, clock func() time.Time, find func(context.Context) *tipstaff.DeliveryNow) *tipstaff.DeliveryNow {
	l.mu.Lock()
	if l.all == nil {
		l.all, l.turns = map[string]*look{}, make(chan struct{}, looksAtOnce)
	}
	at := clock()
	for other, had := range l.all {
		if !had.until.IsZero() && !at.Before(had.until) {
			delete(l.all, other)
		}
	}
	this, under := l.all[gate]
	if !under {
		this = &look{done: make(chan struct{})}
		l.all[gate] = this
		go func() {
			defer close(this.done)
			var now *tipstaff.DeliveryNow
			select {
			case l.turns <- struct{}{}:
				now = find(stop)
				<-l.turns
			case <-stop.Done():
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			this.now, this.until = now, clock().Add(lookKept)
		}()
	}
	l.mu.Unlock()
	select {
	case <-this.done:
		return this.now
	case <-ctx.Done():
		return nil
	}
}

// forget has the next who asks find it again.
func (l *looks) forget(gate string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if this := l.all[gate]; this != nil && !this.until.IsZero() {
		delete(l.all, gate)
	}
}
