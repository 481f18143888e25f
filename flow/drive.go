package flow

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// A scope is what closes together: the whole run, or a group of branches.
type scope struct {
	parent    *scope
	group     *group // nil: of the whole run
	closed    bool
	cancelled bool // of the root: closed by a cancel of the run
}

// isClosed reports whether s or a scope that holds it is closed.
func (s *scope) isClosed() bool {
	for ; s != nil; s = s.parent {
		if s.closed {
			return true
		}
	}
	return false
}

// inClosedGroup is isClosed without regard to the end of the whole run.
func (s *scope) inClosedGroup() bool {
	for ; s.parent != nil; s = s.parent {
		if s.closed {
			return true
		}
	}
	return false
}

func (s *scope) within(outer *scope) bool {
	for ; s != nil; s = s.parent {
		if s == outer {
			return true
		}
	}
	return false
}

// A waiter is a branch blocked on a decision, a timer or the delay of a retry.
type waiter struct {
	scope   *scope
	ready   func() bool // called with the drive's lock held
	counted bool        // it counts as running although it waits
	woken   bool
	ch      chan struct{}
	place   int       // in the line of those that were ever blocked
	gate    *gate     // what it waits for, if a decision
	until   time.Time // or when, if a timer

	suspended bool // for the run to park: nobody will answer in this drive
	// asks is what a held branch would do, for people.
	asks func() NonDeterminism
}

// never is for waiters that only time, or the end of a scope or of the drive, wakes.
func never() bool { return false }

// block waits until w is woken. Called with mu held, returns with mu held.
func (d *drive) block(w *waiter) {
	w.ch = make(chan struct{})
	d.line++
	w.place = d.line
	d.blocked[w] = struct{}{}
	if !w.counted {
		d.leave()
	}
	d.mu.Unlock()
	<-w.ch
	d.mu.Lock()
}

// wake counts the branch as running before it can run: between the two the
// drive must not look idle. While the park transaction is under way nobody is
// woken; what happened meanwhile is looked at after it.
func (d *drive) wake(w *waiter) {
	if w.woken || d.parking {
		return
	}
	w.woken = true
	delete(d.blocked, w)
	if !w.counted {
		d.running++
		d.parkTurn++
	}
	close(w.ch)
}

// poke wakes every waiter that has something to answer, first come, first served.
func (d *drive) poke() {
	var woken []*waiter
	for w := range d.blocked {
		if d.ending != notEnding || w.scope.isClosed() || w.ready() {
			woken = append(woken, w)
		}
	}
	for _, w := range sortedBy(woken, func(w *waiter) int { return w.place }) {
		d.wake(w)
	}
}

// leave takes one branch out of the running ones, and parks if it was the last.
func (d *drive) leave() {
	d.running--
	if d.running == 0 {
		d.idle()
	}
}

// fail ends the drive: nothing it does from here on is recorded.
func (d *drive) fail(how ending, err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failLocked(how, err)
}

func (d *drive) failLocked(how ending, err error) error {
	if d.ending < down {
		d.ending, d.failure = how, err
		// What nobody waits for may come from a program that does not fit.
		d.queue = d.queue[:d.waited]
		d.cutLive(nil, true, err)
		d.poke()
	}
	return d.failure
}

func (d *drive) isHalted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ending != notEnding
}

// put queues a lazy record: it is written with the next waited one, or soon.
func (d *drive) put(r Draft) {
	if d.mode != performing || d.ending >= parked || d.over {
		return
	}
	if d.lazyAt.IsZero() {
		d.lazyAt = time.Now()
	}
	d.enqueue(r)
	d.arm()
}

// arm sees to it that what is queued is written soon: not before it is known that the
// program fits what is recorded.
func (d *drive) arm() {
	if !d.armed && !d.dry {
		d.armed = true
		time.AfterFunc(lazyDelay, d.shipLazy)
	}
}

// shipLazy writes what has waited long enough for a record to go along with. A
// timer that finds its own records gone, and younger ones in their place, gives
// these their time: else a busy run would pay a commit every five milliseconds.
func (d *drive) shipLazy() {
	d.mu.Lock()
	d.armed = false
	left := lazyDelay - time.Since(d.lazyAt)
	if d.shipping {
		left = lazyDelay
	}
	if left > 0 && !d.lazyAt.IsZero() && !d.over {
		d.armed = true
		time.AfterFunc(left, d.shipLazy)
		d.mu.Unlock()
		return
	}
	d.ship()
}

func (d *drive) enqueue(drafts ...Draft) {
	for i := range drafts {
		if !drafts[i].Note {
			d.past.records++
		}
		if d.job.Appended != nil {
			d.job.Appended(drafts[i])
		}
	}
	if d.queue == nil { // the log has the last one
		d.queue = make([]Draft, 0, max(4, len(drafts)))
	}
	d.queue = append(d.queue, drafts...)
}

// ship hands the queue to the log. One batch is under way at a time and the next
// gathers behind it, so that nothing is stored after something that was not.
// Called with mu held, returns without it.
func (d *drive) ship() {
	if d.shipping || d.over || len(d.queue) == 0 && len(d.acks) == 0 || d.ending == down {
		d.mu.Unlock()
		return
	}
	d.shipping = true
	batch, acks := d.queue, d.acks
	d.queue, d.acks, d.waited, d.lazyAt = nil, nil, 0, time.Time{}
	d.mu.Unlock()
	d.log.Append(d.lease, batch, func(err error) { d.shipped(acks, err) })
}

func (d *drive) shipped(acks []chan error, err error) {
	d.mu.Lock()
	d.shipping = false
	if err != nil {
		err = d.failLocked(down, err)
		acks = append(acks, d.acks...)
		d.acks = nil
	}
	more := len(d.acks) > 0
	d.mu.Unlock()
	for _, ack := range acks {
		ack <- err
	}
	if more {
		// The log may be calling from where it cannot take the next batch.
		go func() { d.mu.Lock(); d.ship() }()
	}
}

// append writes records and waits until they are durable. Called with mu held;
// it is released while waiting. A failure ends the drive.
func (d *drive) append(drafts ...Draft) error {
	if d.mode != performing {
		return nil
	}
	switch {
	case d.ending == down:
		return d.failure
	case d.over: // an activity that nobody waits for any more
		return ErrParked
	}
	d.enqueue(drafts...)
	d.waited = len(d.queue)
	ack := make(chan error, 1) // with room: a log may answer before its Append returns
	d.acks = append(d.acks, ack)
	d.ship()
	err := <-ack
	d.mu.Lock()
	return err
}

// sync waits for everything that was put so far, also what is on its way.
func (d *drive) sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.append()
}

// inbox takes foreign records from the log without ever blocking it, and hands
// them to the drive in order.
type inbox struct {
	mu      sync.Mutex
	waiting []Record
	busy    bool
	take    func(Record)
}

func (b *inbox) put(r Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, r)
	if !b.busy {
		b.busy = true
		go b.drain()
	}
}

func (b *inbox) drain() {
	for {
		b.mu.Lock()
		if len(b.waiting) == 0 {
			b.busy = false
			b.mu.Unlock()
			return
		}
		r := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.mu.Unlock()
		b.take(r)
	}
}

// deliver takes one record that others wrote.
func (d *drive) deliver(r Record) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Seq <= d.past.last { // read or delivered before
		return
	}
	d.past.last = r.Seq
	switch r.Kind {
	case KindGateResolved, KindIntentAccept, KindIntentAnswer:
		d.decided(r)
	case KindEffectGiven:
		_ = d.past.give(r) // what cannot be read is no outcome
		if c := d.past.calls[r.Path]; c != nil && c.recall != nil && c.offer(c.attempt) != nil {
			c.recall.cutOff(errAbandoned)
		}
	case KindRunCancelRequested:
		req := new(RunCancelRequested)
		_ = json.Unmarshal(r.Body, req) // a request without a deadline gets the usual one
		d.cancel(req)
	case KindRunCorrectionRequested:
		if d.ending == notEnding {
			d.ending = cut
			d.poke()
		}
	}
}

func (d *drive) decided(r Record) {
	if d.past.addDecision(r) != nil {
		return // the store would not have taken it
	}
	b, _ := ReadResolved(r.Kind, r.Body)
	if g := d.past.byID[b.Gate]; g != nil && g.waiter != nil && g.waiter.ready() {
		d.wake(g.waiter)
	}
}

// cancel closes the root. once calls in flight are awaited until the deadline.
func (d *drive) cancel(req *RunCancelRequested) {
	switch {
	case !d.root.cancelled:
		d.root.closed, d.root.cancelled = true, true
		d.closeScope(d.root)
	case req.Mode != CancelHard: // the first counts
		return
	}
	wait := cancelGrace
	if !req.Deadline.IsZero() {
		wait = max(0, req.Deadline.Sub(d.now()))
	}
	time.AfterFunc(wait, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.abandon()
	})
}

// closeScope cuts what is in flight below s and ends waits and sleeps there.
func (d *drive) closeScope(s *scope) {
	d.cutLive(s, false, ErrCancelled)
	d.poke()
}

// supersede closes the gates that were waited for below s: nobody will take
// their decisions any more.
func (d *drive) supersede(s *scope) {
	if d.mode != performing || d.ending >= parked {
		return
	}
	for _, g := range d.openGates() {
		if g.scope != nil && g.scope.within(s) {
			g.closed = true
			d.put(closeGate(g, "superseded"))
		}
	}
}

// stop ends the drive in good order: the run stays as it is and can be resumed.
func (d *drive) stop(cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ending != notEnding && d.ending != cut {
		return
	}
	s := &Stop{Reason: "stopped"}
	errors.As(cause, &s)
	d.ending, d.why = stopped, s
	d.cutLive(nil, false, s)
	d.poke()
	over := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.abandon()
	}
	time.AfterFunc(d.grace, over)
	if d.job.Abandon != nil {
		go func() {
			select {
			case <-d.job.Abandon:
				over()
			case <-time.After(d.grace):
			}
		}()
	}
}

// abandon stops waiting for once calls: what they did is not known.
func (d *drive) abandon() {
	for _, a := range d.inFlight() {
		a.abandon()
	}
}

// cutLive ends the contexts of attempts within s (nil: all); their cause is
// ErrCancelled, a *Stop or what ended the drive. once attempts go on, unless they
// can stop themselves or nobody will hear of them any more. Where a group closes, those
// go on, too, that it awaits.
func (d *drive) cutLive(s *scope, hard bool, cause error) {
	for _, a := range d.inFlight() {
		if s != nil && !a.scope.within(s) {
			continue
		}
		awaited := a.awaits && s != nil && s != d.root
		if hard || a.class != Once || a.stops && !awaited {
			a.cutOff(cause)
		}
		if hard {
			a.abandon()
		}
	}
}

// inFlight are the attempts under way, in order of their paths.
func (d *drive) inFlight() []*attempt {
	return sortedBy(slices.Collect(maps.Keys(d.live)), func(a *attempt) string { return a.do.at })
}

func sorted[T cmp.Ordered](s []T) []T {
	slices.Sort(s)
	return s
}

func sortedBy[T any, K cmp.Ordered](s []T, key func(T) K) []T {
	slices.SortFunc(s, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	return s
}
