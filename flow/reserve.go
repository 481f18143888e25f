package flow

import (
	"context"
	"errors"
	"fmt"
	"maps"
)

var errOver = errors.New("flow: the attempt is over, it can reserve nothing more")

// reserve grants an attempt in flight more, or says why not. Grant and record
// are one step under the lock: the order of records is the order of grants.
func (a *attempt) reserve(more Use) error {
	do, d := a.do, a.do.b.d
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case a.left:
		return errOver
	case a.span.Err() != nil:
		return context.Cause(&a.span)
	}
	if err := more.grantable(); err != nil || len(more) == 0 {
		return err
	}
	if name := do.refusedBound(more); name != "" {
		if !a.denied { // who asks again and again is told so, the journal is not
			a.denied = true
			do.noteRefusal(name)
		}
		return do.beyond(name, more)
	}
	return a.grant(more)
}

// leftOf is what nobody uses or holds of a bound.
func (a *attempt) leftOf(bound string) (int64, bool) {
	d := a.do.b.d
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.past.ledger.left(bound)
}

// heldOf is what the run holds of a bound for attempts that were lost.
func (a *attempt) heldOf(bound string) int64 {
	d := a.do.b.d
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.past.ledger.held[bound]
}

// spent notes what an attempt in flight is known to have used: all that is charged for
// it if it is lost. What is counted as it is reserved is charged anyway, and who has
// reserved nothing is not charged before it says what it used.
func (a *attempt) spent(soFar Use) {
	do, d := a.do, a.do.b.d
	known := Use{}
	for name, n := range soFar {
		if Estimated(name) && n >= 0 {
			known[name] = n
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.job.Holds || a.left || len(do.call.reserve) == 0 || maps.Equal(known, do.call.known) {
		return
	}
	do.call.known = known
	d.put(Draft{Kind: KindBoundUsed, Path: do.at, Note: true, Body: JSON(BoundUsed{known})})
}

func (a *attempt) grant(more Use) error {
	do, d, c := a.do, a.do.b.d, a.do.call
	// What is reserved belongs to an attempt that is recorded. A suspended one is
	// entered again by every drive, so it needs no number to be told by.
	if !c.intended && !c.suspended {
		if err := do.intend(); err != nil {
			return err
		}
	}
	d.past.holdMore(c, more)
	d.put(Draft{Kind: KindBoundReserved, Path: do.at, Note: true, Body: JSON(BoundReserved{more.clone()})})
	do.warn(more)
	return nil
}

// grantable refuses what nobody can hold: a negative amount would give others
// more than there is, and time is measured.
func (u Use) grantable() error {
	for _, name := range u.names() {
		switch {
		case u[name] < 0:
			return fmt.Errorf("flow: %d %s cannot be reserved: amounts are not negative", u[name], name)
		case name == WallTime:
			return fmt.Errorf("flow: %s is measured and cannot be reserved", name)
		}
	}
	return nil
}

// reserveNothing is for checks: what they refuse has held nothing.
func reserveNothing(Use) error { return errors.New("flow: a check reserves nothing") }
