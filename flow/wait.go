package flow

import "time"

func (c *fctx) Wait(q Gate) (Decision, error) {
	d := c.b.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := c.enter(); err != nil {
		return Decision{}, err
	}
	key, err := c.gateKey(q)
	if err != nil {
		return Decision{}, err
	}
	if call := d.past.calls[key]; call != nil {
		if call.asked {
			return Decision{}, d.failLocked(fatal, &Misuse{key, "this key was already used"})
		}
		return Decision{}, c.mismatch(key, call.name+" "+call.digest, q.Kind+" gate "+GateDigest(q), nil)
	}
	if g := d.past.gates[key]; g != nil && g.asked {
		return Decision{}, d.failLocked(fatal, &Misuse{key, "this gate was already asked for"})
	}
	c.b.busy = methodWait
	dec, err := c.decision(key, q)
	c.b.busy = ""
	return dec, err
}

// gateKey is where a gate stands. Of the engine's own names a program may use one:
// that of a doubt which the engine, knowing one segment alone, cannot ask about.
func (c *fctx) gateKey(q Gate) (string, error) {
	if q.Kind == "in_doubt" && q.Key == earlierDoubt {
		return join(c.path, earlierDoubt), nil
	}
	return c.keyed(q.Key)
}

// decision is what Wait and an in-doubt call ask: the recorded decision, or a new
// gate and its answer. Called with mu held.
func (c *fctx) decision(key string, q Gate) (Decision, error) {
	g, sum := c.b.d.past.gates[key], GateDigest(q)
	if g != nil && g.digest != sum {
		return Decision{}, c.mismatch(key, g.kind+" gate "+g.digest, q.Kind+" gate "+sum, GateJSON(q))
	}
	return c.ask(key, q, sum)
}

// ask is decision for a question that does not follow from the program alone: if one
// was asked there, whichever it was, that one counts.
func (c *fctx) ask(key string, q Gate, sum string) (Decision, error) {
	d := c.b.d
	g := d.past.gates[key]
	if g != nil {
		g.asked = true
		if g.taken != nil {
			d.replayed++
			return c.read(g.taken)
		}
	}
	if d.dry {
		d.hold(c.b.scope, func() NonDeterminism {
			return NonDeterminism{Instead: key, Asked: q.Kind + " gate " + sum, Input: GateJSON(q)}
		})
	}
	if err := c.unrecorded(key, q.Kind, "gate", sum); err != nil {
		return Decision{}, err
	}
	if g == nil || g.closed {
		var err error
		if g, err = c.open(key, q, sum); err != nil {
			return Decision{}, err
		}
	}
	return c.await(g)
}

// read is a decision with its answer put back.
func (c *fctx) read(dec *decision) (Decision, error) {
	answer, err := payload(dec.Answer, c.b.d.blob)
	if err != nil {
		c.b.d.failLocked(down, err)
		return Decision{}, c.park()
	}
	dec.Answer = answer
	return dec.Decision, nil
}

func (c *fctx) open(key string, q Gate, sum string) (*gate, error) {
	d := c.b.d
	g := &gate{id: d.newID(), key: key, kind: q.Kind, digest: sum, deny: q.Deny, asked: true, opening: true}
	if q.Expires > 0 {
		g.expires = d.clock().Add(q.Expires)
	}
	d.past.openGate(g)
	d.lives++
	if d.append(q.opening(g.id, key, sum, g.expires)) != nil {
		return nil, c.park()
	}
	g.opening, g.scope = false, c.b.scope
	if c.b.scope.inClosedGroup() { // which could not close what was still being written
		d.supersede(c.b.scope)
	}
	return g, nil
}

// await blocks until the gate is decided, its scope closes or the drive ends.
func (c *fctx) await(g *gate) (Decision, error) {
	d := c.b.d
	w := &waiter{scope: c.b.scope, gate: g, ready: func() bool { return g.decision != nil }}
	g.waiter, g.scope = w, c.b.scope
	defer func() { g.waiter = nil }()
	if !g.expires.IsZero() && g.decision == nil {
		if left := g.expires.Sub(d.clock()); left > 0 {
			defer time.AfterFunc(left, func() { d.expire(g) }).Stop()
		} else {
			d.put(closeGate(g, ViaExpiry)) // ahead of the park transaction, which then finds it
		}
	}
	for {
		switch {
		case d.ending != notEnding:
			return Decision{}, c.park()
		case c.b.scope.isClosed():
			return Decision{}, c.cancelledNow()
		case g.decision != nil:
			dec, err := c.read(g.decision)
			if err != nil {
				return Decision{}, err
			}
			d.past.take(g)
			if g.kind == "bound" {
				d.noteExtension(g)
			}
			d.put(Draft{Kind: KindGateTaken, Path: g.key, Body: JSON(GateTaken{g.id, g.decision.seq})})
			return dec, nil
		}
		d.block(w) // until one of these holds
	}
}

// expire denies a gate that nobody decided in time. Whoever decided it first
// has won: the log drops this, and the decision arrives like any other.
func (d *drive) expire(g *gate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.parking { // its lease may be gone in a moment: look again then
		time.AfterFunc(parkRetry, func() { d.expire(g) })
		return
	}
	if g.decision == nil && !g.closed {
		d.put(closeGate(g, ViaExpiry))
	}
}

// closeGate is the record by which the executor itself closes a gate.
func closeGate(g *gate, via string) Draft { return Closing(g.id, g.key, g.digest, g.deny, via) }

// Closing is the record by which the executor itself closes a gate: via expiry
// it is the denying decision, via superseded and run_ended it is none.
func Closing(id, key, digest, deny, via string) Draft {
	return Draft{Kind: KindGateResolved, Path: key, From: "executor", Body: JSON(GateResolved{Gate: id, Action: deny,
		SubjectDigest: digest, Via: via, OnBehalfOf: "system:" + via})}
}

func (c *fctx) Sleep(dur time.Duration) error {
	d := c.b.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := c.enter(); err != nil {
		return err
	}
	p := c.counts()
	p.sleeps++
	path := join(c.path, numbered("sleep", p.sleeps))
	t := d.past.timers[path]
	if t != nil {
		t.asked = true
		if !t.fired.IsZero() {
			d.replayed++
			return nil
		}
	}
	c.b.busy = methodSleep
	defer func() { c.b.busy = "" }()
	if d.dry {
		d.hold(c.b.scope, func() NonDeterminism { return NonDeterminism{Instead: path, Asked: "a sleep"} })
	}
	if err := c.unrecorded(path, "a sleep"); err != nil {
		return err
	}
	began := time.Now()
	if t == nil {
		t = &timer{until: d.clock().Add(dur)}
		d.put(Draft{Kind: KindTimerSet, Path: path, Body: JSON(TimerSet{Time{t.until}})})
	} else {
		dur = 0 // set by an earlier drive: the wall clock alone tells
	}
	d.lives++
	return c.sleepUntil(path, t, began, dur)
}

// sleepUntil returns when the run's time has reached the timer and, in the
// drive that set it, that long has really passed.
func (c *fctx) sleepUntil(path string, t *timer, began time.Time, least time.Duration) error {
	d := c.b.d
	due := func() bool { return !d.clock().Before(t.until) && time.Since(began) >= least }
	for {
		switch {
		case d.ending != notEnding:
			return c.park()
		case c.b.scope.isClosed():
			return c.cancelledNow()
		case due():
			t.fired = d.clock()
			d.put(Draft{Kind: KindTimerFired, Path: path, Body: JSON(TimerFired{Time{t.fired}})})
			return nil
		}
		left := max(t.until.Sub(d.clock()), least-time.Since(began))
		w := &waiter{scope: c.b.scope, ready: due, until: t.until, counted: left <= shortSleep}
		d.blockFor(w, left)
	}
}

// blockFor blocks until w is woken or the time is over.
func (d *drive) blockFor(w *waiter, left time.Duration) {
	alarm := time.AfterFunc(left, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.wake(w)
	})
	d.block(w)
	alarm.Stop()
}

// idle is reached when every branch is blocked in a wait, a sleep or a join.
// Called with mu held.
func (d *drive) idle() {
	d.parkTurn++
	switch {
	case d.dry:
		d.fit(d.inherited)
	case !d.hopes():
		go d.tryPark(d.parkTurn)
	case d.job.Linger >= 0 || d.job.Hopeless != nil && d.job.Hopeless(d.parkingNow().Gates):
		d.linger(d.parkTurn, time.Now())
	}
}

// linger parks when its time is over or nobody will answer.
func (d *drive) linger(turn int, since time.Time) {
	left := d.job.Linger - time.Since(since)
	if left <= 0 || d.job.Hopeless != nil && d.job.Hopeless(d.parkingNow().Gates) {
		go d.tryPark(turn)
		return
	}
	if d.job.Hopeless != nil {
		left = min(left, hopeCheck)
	}
	time.AfterFunc(left, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if turn == d.parkTurn {
			d.linger(turn, since)
		}
	})
}

// hopes reports whether something that is waited for may come while the run lingers.
func (d *drive) hopes() bool {
	for w := range d.blocked {
		if !w.suspended {
			return true
		}
	}
	return false
}

// tryPark makes the park transaction, the only point of decision: if it goes
// through, every wait and sleep answers ErrParked, even one whose decision is
// already in memory; if not, what the log found is delivered and the drive goes
// on.
func (d *drive) tryPark(turn int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if turn != d.parkTurn || d.running > 0 || d.ending != notEnding {
		return
	}
	d.parking = true
	p := d.parkingNow()
	err := d.append()
	var went bool
	if err == nil {
		d.mu.Unlock()
		went, err = d.log.Park(d.lease, p)
		d.mu.Lock()
	}
	d.parking = false
	switch {
	case err != nil:
		d.failLocked(down, err)
		d.poke() // whoever failed first could wake nobody
	case went:
		if d.ending != fatal && d.ending != down {
			d.ending = parked
		}
		d.gates, d.wakeAt = p.Gates, p.WakeAt
		d.poke()
	default:
		d.poke()
		again := d.parkTurn
		time.AfterFunc(parkRetry, func() { d.tryPark(again) })
	}
}

// parkingNow collects what is waited for. Called with mu held.
func (d *drive) parkingNow() Parking {
	p := Parking{Wall: d.wall()}
	for w := range d.blocked {
		if w.gate != nil {
			p.Gates = append(p.Gates, w.gate.id)
		}
		if !w.until.IsZero() && (p.WakeAt.IsZero() || w.until.Before(p.WakeAt)) {
			p.WakeAt = w.until
		}
	}
	sorted(p.Gates)
	return p
}
