package flow

import (
	"fmt"
	"time"
)

// delay waits for the time of a retry. It counts as running.
func (do *doing) delay() error {
	d := do.b.d
	for !do.call.retryAt.IsZero() && d.clock().Before(do.call.retryAt) {
		at := do.call.retryAt
		w := &waiter{scope: do.b.scope, counted: true, ready: never}
		d.blockFor(w, at.Sub(d.clock()))
		if err := do.unrecorded(do.at, do.Name, do.digest); err != nil {
			return err
		}
	}
	return nil
}

// admit decides whether the next attempt may start: its check, the deadline,
// the length of the history, wall time and the bounds it reserves.
func (do *doing) admit(act Activity) (Result, bool, error) {
	d, c := do.b.d, do.call
	over := func(r Result, err error) (Result, bool, error) { return r, true, err }
	if c.suspended {
		return Result{}, false, nil // it was admitted; its reservation is held
	}
	if act.Check != nil {
		if refusal := do.check(act); refusal != nil {
			if err := do.unrecorded(do.at, do.Name); err != nil {
				return Result{}, true, err
			}
			return over(do.refuse(refusal, nil))
		}
		if err := do.unrecorded(do.at, do.Name); err != nil {
			return Result{}, true, err
		}
	}
	if c.open { // lost with its drive: that is settled once
		d.past.loseCall(c)
		do.lost = true
	}
	if !d.job.Deadline.IsZero() && !d.clock().Before(d.job.Deadline) {
		return over(do.refuse(&Error{Code: CodeDeadline, Message: "the deadline has passed"}, nil))
	}
	if d.past.records >= MaxRecords {
		return over(do.refuse(&Error{Code: CodeHistoryTooLong, Message: "this run has more than 100,000 records since it last continued"}, nil))
	}
	want := do.wanted(act)
	for k := 1; ; k++ {
		name := do.refusedBound(want)
		if name == "" {
			break
		}
		e := do.beyond(name, want)
		do.noteRefusal(name)
		// Nobody's run fails for what a crash may or may not have spent.
		if !do.Ask && d.past.ledger.held[name] == 0 {
			return over(do.refuse(e, want))
		}
		// Which bound stands in the way depends on time and on other branches.
		q := do.boundGate(name, want)
		dec, err := do.ask(join(do.at, numbered("bound", k)), q, GateDigest(q))
		if err != nil {
			return Result{}, true, err
		}
		if dec.Action != "extend" {
			return over(do.refuse(e, want))
		}
		want = do.wanted(act)
	}
	d.past.ledger.reserve(want)
	do.warn(want)
	do.held = want
	return Result{}, false, nil
}

// noteRefusal tells people that a bound has stopped the call, or more of it.
func (do *doing) noteRefusal(name string) {
	d := do.b.d
	d.put(Draft{Kind: KindBoundRefused, Path: do.at, Note: true, Body: JSON(BoundRefused{
		Bound: name, Limit: d.past.ledger.limit[name], Used: do.usedOf(name), Refused: do.Name})})
}

// refuse settles the call without an attempt: nothing was sent.
func (do *doing) refuse(e *Error, wanted Use) (Result, error) {
	e.NotSent = true
	do.call.attempt++
	return do.finish(Done{}, e, 0, wanted)
}

// wanted is what the next attempt reserves.
func (do *doing) wanted(act Activity) Use {
	var more Use
	if act.Wants != nil {
		d := do.b.d
		more = act.Wants(Attempt{Run: d.job.Run, Path: do.at, Name: do.Name, N: do.call.attempt + 1, Class: do.Class, Input: do.Input, Local: do.Local}, d.past.ledger.left)
	}
	if len(more) == 0 && (do.call.attempt > 0 || len(do.Prepaid) == 0) {
		return do.Reserve
	}
	want := more.clone()
	for name, n := range do.Reserve {
		if do.call.attempt == 0 {
			n -= do.Prepaid[name]
		}
		if n > 0 {
			want[name] += n
		}
	}
	return want
}

func (do *doing) usedOf(name string) int64 {
	if name == WallTime {
		return do.b.d.wall().Milliseconds()
	}
	return do.b.d.past.ledger.used[name]
}

// refusedBound names the bound that stands in the way of so much more.
func (do *doing) refusedBound(want Use) string {
	d := do.b.d
	if limit, ok := d.past.ledger.limit[WallTime]; ok && d.wall().Milliseconds() >= limit {
		return WallTime
	}
	return d.past.ledger.refuses(want)
}

// beyond is the failure of what a bound does not permit.
func (do *doing) beyond(name string, want Use) *Error {
	l := &do.b.d.past.ledger
	e := &Error{Code: CodeBoundExceeded, Bound: name}
	if name == WallTime {
		e.Message = fmt.Sprintf("the run may take %v and has taken %v", ms(l.limit[name]), do.b.d.wall().Round(time.Millisecond))
	} else {
		amount := func(n int64) string { return AmountText(name, n) }
		lost := ""
		if n := l.held[name]; n > 0 {
			lost = amount(n) + " held for attempts that were lost, "
		}
		e.Message = fmt.Sprintf("%s is limited to %s: %s used, %s%s in flight, %s more wanted", do.b.d.boundName(name), amount(l.limit[name]), amount(l.used[name]), lost, amount(l.reserved[name]), amount(want[name]))
	}
	return e
}

func (d *drive) boundName(name string) string {
	if d.job.BoundName == nil {
		return name
	}
	return d.job.BoundName(name)
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func (do *doing) boundGate(name string, want Use) Gate {
	l := &do.b.d.past.ledger
	subject := struct {
		Path   string `json:"path"`
		Name   string `json:"name"`
		Bound  string `json:"bound"`
		Wanted Use    `json:"wanted"`
		Held   int64  `json:"held,omitempty"` // of the bound, for attempts that were lost
	}{do.at, do.Name, name, want.clone(), l.held[name]}
	question := "The bound " + do.b.d.boundName(name) + " is reached. Extend it?"
	if held := subject.Held; held > 0 {
		question = fmt.Sprintf("The bound %s is reached: of %s, %s are used and %s are held for attempts that were lost, of which nobody knows what they used. Extend it?",
			do.b.d.boundName(name), AmountText(name, l.limit[name]), AmountText(name, l.used[name]), AmountText(name, held))
	}
	return Gate{Kind: "bound", Question: question, Subject: JSON(subject), Actions: []string{"extend", "stop"}, Deny: "stop"}
}

func (d *drive) noteExtension(g *gate) {
	if g.decision.Action != "extend" {
		return
	}
	for _, name := range extension(g.decision.Answer).names() {
		d.put(Draft{Kind: KindBoundExtended, Path: g.key, Note: true, Body: JSON(BoundExtended{
			Bound: name, By: extension(g.decision.Answer)[name], Gate: g.id})})
	}
}

// warn notes, once a bound, that four fifths of it are used or in flight.
func (do *doing) warn(granted Use) {
	d := do.b.d
	var room [8]string
	for _, name := range granted.appendNames(room[:0]) {
		limit := d.past.ledger.limit[name] // 0: none, or nothing at all may be used
		used := d.past.ledger.used[name] + d.past.ledger.held[name] + d.past.ledger.reserved[name]
		if limit > 0 && used*5 >= limit*4 && !d.past.warned[name] {
			d.past.warned[name] = true
			d.put(Draft{Kind: KindBoundWarned, Path: do.at, Note: true, Body: JSON(BoundWarned{name, limit, used})})
		}
	}
}

// check asks the activity whether it would refuse. It may do I/O, so the lock
// is released.
func (do *doing) check(act Activity) *Error {
	d := do.b.d
	a := do.newAttempt(do.call.attempt + 1)
	a.class, a.prompt = Read, true // a check can always be cut
	do.limit(&a.span, 0)           // what it waits for, say a server that starts, is no part of the call
	defer a.span.end(nil)
	d.live[a] = struct{}{}
	at := a.public()
	at.Class, at.Reserve = do.Class, reserveNothing
	d.mu.Unlock()
	err := func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = &Error{Code: CodeInternal, Message: fmt.Sprintf("the check panicked: %v", p)}
			}
		}()
		return act.Check(&a.span, at)
	}()
	err = d.shorten(err)
	d.mu.Lock()
	delete(d.live, a)
	if err == nil {
		return nil
	}
	return do.asError(err)
}
