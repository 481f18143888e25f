package runner

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tipstaff/tipstaff"
)

// Load is how many runs this process drives, and how many wait for their turn: in the queue
// that servers share, else in its own.
func (r *Runner) Load() (driving, queued int) {
	driving, queued = r.queue.sizes()
	if r.pooled() {
		queued = r.Standing().Queued
	}
	return driving, queued
}

// drives counts those of this process.
type drives struct{ begun, ended, fenced atomic.Int64 }

// DriveCount is how many drives this process has begun and ended, and how many of them ended
// because another process had taken the run.
type DriveCount struct{ Begun, Ended, Fenced int64 }

// Drives tells.
func (r *Runner) Drives() DriveCount {
	return DriveCount{r.counted.begun.Load(), r.counted.ended.Load(), r.counted.fenced.Load()}
}

func (c *drives) end(d tipstaff.Driven) {
	c.ended.Add(1)
	if d.Reason == string(tipstaff.LeaseLost) {
		c.fenced.Add(1)
	}
}

// Standing is what a server has last seen of the store that it shares with others.
type Standing struct {
	Queued   int           // runs that wait for a server
	Since    time.Time     // when the first of them came; zero: none waits
	Answered time.Time     // when the store last answered; zero: never
	Took     time.Duration // how long that took
}

// Standing tells; zero: this process shares none.
func (r *Runner) Standing() Standing {
	if s := r.seen.Load(); s != nil {
		return *s
	}
	return Standing{}
}

// Ready says why a server should not be given work: its database does not answer.
func (r *Runner) Ready() error {
	if !r.pooled() {
		return nil
	}
	if at := r.Standing().Answered; time.Since(at) > 3*lookEvery {
		return tipstaff.Errorf(tipstaff.StoreUnavailable, "the database does not answer")
	}
	return nil
}

// measure looks at the store. While it is not answered, what was seen last grows old.
func (r *Runner) measure(ctx context.Context) {
	began := time.Now()
	n, since, err := r.Pool.Waiting(ctx)
	if err == nil {
		r.seen.Store(&Standing{Queued: n, Since: since, Answered: time.Now(), Took: time.Since(began)})
	}
}
