package flow

import (
	"context"
	"errors"
	"time"
)

// attempt is an activity in flight.
type attempt struct {
	do     *doing
	n      int
	class  Class
	stops  bool
	awaits bool // closing its group does not stop it
	prompt bool
	scope  *scope

	span   span
	cut    bool          // ended from outside: a closing scope or a stop
	denied bool          // a bound has refused it more, and that is noted
	left   bool          // nobody waits for it any more
	begun  bool          // of a once attempt: it has come to run
	back   chan returned // of one that is not prompt: room for its return and for giving it up
}

func (do *doing) newAttempt(n int) *attempt {
	return &attempt{do: do, n: n, class: do.Class, scope: do.b.scope}
}

// cutOff ends the attempt's context. Called with mu held.
func (a *attempt) cutOff(cause error) {
	if !a.cut {
		a.cut = true
		a.span.end(cause)
	}
}

// abandon stops waiting for the attempt. Called with mu held.
func (a *attempt) abandon() {
	if a.left {
		return
	}
	a.left = true
	if a.prompt {
		a.span.end(errAbandoned)
		return
	}
	a.back <- returned{err: errAbandoned}
}

var (
	errAbandoned = errors.New("flow: the attempt did not come back")
	errNotBegun  = errors.New("flow: the scope of the attempt closed before it began")
)

func (a *attempt) public() Attempt {
	d := a.do.b.d
	return Attempt{Run: d.job.Run, Path: a.do.at, Name: a.do.Name, N: a.n, Class: a.class, Input: a.do.Input, Local: a.do.Local,
		Key: IdempotencyKey(d.job.Run, a.do.at, d.segment), Note: a.note, Tell: a.tell, Reserved: a.do.call.reserve, Reserve: a.reserve, Left: a.leftOf, Held: a.heldOf, Spent: a.spent, Sync: d.syncs}
}

// note appends a record for people; replay skips it.
func (a *attempt) note(e Event) {
	d := a.do.b.d
	body := d.redact(JSON(e.Body))
	d.mu.Lock()
	defer d.mu.Unlock()
	if !a.left && len(body) <= MaxPayload {
		d.put(Draft{Kind: e.Kind, Path: a.do.at, Note: true, Body: body, From: e.From})
	}
}

// tell hands an event on and keeps nothing of it. That happens with mu held, so
// that whatever was told of an attempt was told before its outcome is recorded.
func (a *attempt) tell(e Event) {
	d := a.do.b.d
	if d.job.Tell == nil {
		return
	}
	body := d.redact(JSON(e.Body))
	d.mu.Lock()
	defer d.mu.Unlock()
	if !a.left && len(body) <= MaxPayload {
		d.job.Tell(Draft{Kind: e.Kind, Path: a.do.at, Body: body})
	}
}

type returned struct {
	done Done
	err  error
}

// carryOut runs the activity and waits for it, as long as anyone should. Called
// with mu held; it is released meanwhile.
func (do *doing) carryOut(act Activity, a *attempt) (Done, time.Duration, error) {
	d := do.b.d
	do.limit(&a.span, do.Timeout)
	defer a.span.end(nil)
	at := a.public()
	a.stops = do.Class == Once && act.Stops != nil && act.Stops(at)
	a.awaits = a.stops && act.Awaited != nil && act.Awaited(at)
	if a.prompt = act.Prompt != nil && act.Prompt(at); !a.prompt {
		a.back = make(chan returned, 2)
	}
	d.live[a] = struct{}{}
	if a.stops && d.ending == stopped { // while the intent was written
		a.cutOff(d.why)
	}
	d.mu.Unlock()

	began := time.Now()
	var r returned
	if a.prompt {
		r = a.begin(act, at)
	} else {
		go func() { a.back <- a.begin(act, at) }()
		r = do.awaitReturn(a)
	}

	took := time.Since(began)
	r.err = d.shorten(r.err)
	d.mu.Lock()
	a.left = true
	delete(d.live, a)
	return r.done, took, r.err
}

// begin runs the activity, unless its scope closed or its time ran out before it was
// its turn, or nobody waits for it any more: what is known not to have begun must not
// look as if it might have, nor begin when it is asked about.
func (a *attempt) begin(act Activity, at Attempt) returned {
	if a.class == Once {
		mu := a.do.b.d.mu
		mu.Lock()
		a.begun = !a.left && !a.scope.isClosed() && a.span.limitedBy() == nil
		mu.Unlock()
		if !a.begun {
			return returned{err: a.notBegun()}
		}
	}
	return runActivity(act, &a.span, at)
}

// notBegun is why an attempt has not begun and never will.
func (a *attempt) notBegun() error {
	if limit := a.span.limitedBy(); limit != nil {
		late := *limit // the context has it, too
		late.NotSent = true
		return &late
	}
	return errNotBegun
}

// runActivity runs it; a panic is what it returns then.
func runActivity(act Activity, ctx context.Context, at Attempt) (r returned) {
	defer func() {
		if p := recover(); p != nil {
			r = returned{err: &panicked{value: p}}
		}
	}()
	r.done, r.err = act.Run(ctx, at)
	return r
}

// awaitReturn waits for the activity to come back. One whose context has ended
// is given a moment (its own grace, if it can stop itself); a once attempt that
// was not told to stop is waited for until its limit.
func (do *doing) awaitReturn(a *attempt) returned {
	select {
	case r := <-a.back:
		return r
	case <-a.span.Done():
	}
	patience := leaveDelay
	if a.stops {
		patience = do.b.d.grace
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case r := <-a.back:
		return r
	case <-t.C:
		return returned{err: errAbandoned}
	}
}
