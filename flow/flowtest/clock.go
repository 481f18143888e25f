package flowtest

import (
	"sync/atomic"
	"time"
)

// Clock is a wall clock that can be set. Between settings it runs with real
// time, so that short sleeps end; it has no monotonic reading, so that nothing
// can mistake a setting for time that has passed.
type Clock struct{ offset atomic.Int64 }

// Now is the time the clock shows.
func (c *Clock) Now() time.Time {
	return time.Now().Round(0).UTC().Add(time.Duration(c.offset.Load()))
}

// Step sets the clock on by d, or back.
func (c *Clock) Step(d time.Duration) { c.offset.Add(int64(d)) }

// StepTo sets the clock on to t, unless it is past t.
func (c *Clock) StepTo(t time.Time) {
	if d := t.Sub(c.Now()); d > 0 {
		c.Step(d)
	}
}
