package flow

import (
	"context"
	"errors"
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

// An attempt at a once call that was given up, whose scope has closed or whose time has
// run out before it was its turn is not made.
func TestAnAttemptThatIsTooLate(t *testing.T) {
	for name, c := range map[string]struct {
		late func(*attempt)
		ran  bool
	}{
		"in time":   {func(*attempt) {}, true},
		"given up":  {func(a *attempt) { a.left = true }, false},
		"closed":    {func(a *attempt) { a.scope.closed = true }, false},
		"timed out": {func(a *attempt) { a.span.until, a.span.why = time.Now(), func() *Error { return errLimit } }, false},
	} {
		d := newDrive(&engine{newLock: newMutex}, Job{}, Lease{})
		do := &doing{fctx: &fctx{b: &branch{d: d, scope: &scope{}}}, Call: Call{Class: Once}}
		a := do.newAttempt(1)
		c.late(a)
		ran := false
		got := a.begin(Activity{Run: func(context.Context, Attempt) (Done, error) {
			ran = true
			return Done{}, nil
		}}, Attempt{})
		if ran != c.ran || a.begun != c.ran || (got.err == nil) != c.ran {
			t.Errorf("%s: made %v, %v", name, ran, got.err)
		}
		var e *Error
		if limited := errors.As(got.err, &e); limited != (name == "timed out") || limited && !e.NotSent {
			t.Errorf("%s: %v", name, got.err)
		}
	}
}

// A log may deliver a record again, and one that was there when the run was read: that
// changes nothing.
func TestRecordsThatAreDeliveredAgain(t *testing.T) {
	for seq, cuts := range map[int64]bool{4: false, 5: false, 6: true} {
		d := newDrive(&engine{newLock: newMutex}, Job{}, Lease{})
		d.past.last = 5
		d.deliver(Record{Seq: seq, Draft: Draft{Kind: "run.correction_requested"}})
		if (d.ending == cut) != cuts {
			t.Errorf("record %d cuts: %v", seq, !cuts)
		}
	}
}

// A once call that was given up is in doubt if it may have begun. If it had not, it was
// not made, and its branch is told that its group has closed.
func TestACallThatWasGivenUp(t *testing.T) {
	for name, begun := range map[string]bool{"it had begun": true, "it had not": false} {
		log := NewMem()
		lease, err := log.Acquire(context.Background(), "r", Owner{})
		if err != nil {
			t.Fatal(err)
		}
		d := newDrive(&engine{log: log, newLock: newMutex}, Job{Run: "r"}, lease)
		do := &doing{fctx: &fctx{b: &branch{d: d, scope: &scope{closed: true}}}, Call: Call{Name: "t", Class: Once, Input: []byte("{}")},
			at: "a", call: &call{attempt: 1, class: Once, open: true}}
		a := do.newAttempt(1)
		a.begun = begun
		d.mu.Lock()
		_, over, err := do.settleOnce(a, Done{}, errAbandoned, 0)
		d.mu.Unlock()
		var e *Error
		if doubted := errors.As(err, &e) && e.Code == CodeInDoubt; !over || doubted != begun || errors.Is(err, ErrCancelled) == begun || (len(log.Records("r")) == 1) != begun {
			t.Errorf("%s: %v, recorded %v", name, err, log.Records("r"))
		}
	}
}
