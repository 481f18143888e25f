package flow

import (
	"testing"
	"testing/synctest"
	"time"
)

// Whoever waits for an attempt is told once that it is given up, however many give it
// up: more would leave no room for its own return.
func TestAnAttemptIsGivenUpOnce(t *testing.T) {
	a := &attempt{back: make(chan returned, 2)}
	a.abandon()
	a.abandon()
	if len(a.back) != 1 {
		t.Errorf("it was told %d times", len(a.back))
	}
}

// What happens when a drive has parked or is over changes nothing any more: the lease
// is another's.
func TestADriveThatHasParkedWritesNothing(t *testing.T) {
	for name, end := range map[string]func(*drive){"parked": func(d *drive) { d.ending = parked }, "over": func(d *drive) { d.over = true }} {
		d := newDrive(&engine{newLock: newMutex}, Job{}, Lease{})
		end(d)
		d.expire(&gate{id: "G"})
		if len(d.queue) > 0 {
			t.Errorf("%s: it writes %v", name, d.queue)
		}
	}
}

// A gate that expires while the run parks is closed when it turns out that it did not.
func TestAGateThatExpiresWhileTheRunParks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrive(&engine{log: NewMem(), newLock: newMutex}, Job{}, Lease{})
		d.parking = true
		d.expire(&gate{id: "G"})
		time.Sleep(parkRetry / 2)
		d.mu.Lock()
		if len(d.queue) > 0 {
			t.Error("it is closed while the run parks")
		}
		d.parking = false
		d.mu.Unlock()
		time.Sleep(parkRetry/2 + time.Millisecond)
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.queue) != 1 {
			t.Error("it is not closed")
		}
		d.over = true
	})
}
