package flow

import "testing"

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
