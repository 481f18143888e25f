package flow

import (
	"encoding/json"
	"errors"
	"fmt"
)

// doing is one Do on its way to the call's one outcome.
type doing struct {
	*fctx
	Call
	at     string // the call's path
	digest string
	call   *call
	held   Use  // what the present attempt reserves
	lost   bool // an attempt of an earlier drive was, and no record says so yet
}

func (c *fctx) Do(req Call) (Result, error) {
	d := c.b.d
	if req.Class == "" {
		req.Class = Once
	}
	if len(req.Input) == 0 {
		req.Input = json.RawMessage("null")
	}
	sum := CallDigest(req.Name, req.Input)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := c.enter(); err != nil {
		return Result{}, err
	}
	if req.misuse != nil {
		return Result{}, d.failLocked(fatal, req.misuse)
	}
	at, err := c.keyed(req.Key)
	if err != nil {
		return Result{}, err
	}
	do := &doing{fctx: c, Call: req, at: at, digest: sum}
	if err := do.claim(); err != nil {
		return Result{}, err
	}
	var r Result
	if do.call.done {
		r, err = do.served()
	} else {
		c.b.busy = methodDo
		r, err = do.perform()
		c.b.busy = ""
	}
	if do.call.done {
		r.Cost, r.Lost = do.call.charged, do.call.forfeit
	}
	return r, err
}

// claim finds the call's record and takes the key.
func (do *doing) claim() error {
	d := do.b.d
	if do.Retry.Max > 0 && do.Class == Once {
		return d.failLocked(fatal, &Misuse{do.at, "a once call is never retried"})
	}
	if len(do.Input) > MaxPayload {
		return d.failLocked(fatal, &Misuse{do.at, "an input has at most 16 MiB"})
	}
	if g := d.past.gates[do.at]; g != nil {
		if g.asked {
			return d.failLocked(fatal, &Misuse{do.at, "this key was already used"})
		}
		return do.mismatch(do.at, g.kind+" gate "+g.digest, do.Name+" "+do.digest, nil)
	}
	do.call = d.past.calls[do.at]
	switch {
	case do.call == nil:
		do.call = &call{name: do.Name, digest: do.digest}
		d.past.calls[do.at] = do.call
	case do.call.asked:
		return d.failLocked(fatal, &Misuse{do.at, "this key was already used"})
	case do.call.digest != do.digest && do.call.digest != "":
		return do.mismatch(do.at, do.call.name+" "+do.call.digest, do.Name+" "+do.digest, do.Input)
	}
	do.call.asked, do.call.as = true, do.Class
	do.call.intends = do.Class == Once || len(do.Reserve) > 0 && len(do.Prepaid) == 0
	return nil
}

// served is the recorded outcome. Its value is dropped: nobody can ask again.
func (do *doing) served() (Result, error) {
	d, c := do.b.d, do.call
	d.replayed++
	r := Result{Value: c.value, Attempt: c.attempt, Ms: c.ms, Use: c.use, By: c.by}
	c.value = nil
	var err error
	if r.Value, err = payload(r.Value, d.blob); err == nil && c.err != nil {
		c.err.Detail, err = payload(c.err.Detail, d.blob)
	}
	if err != nil {
		d.failLocked(down, fmt.Errorf("the result of %s cannot be read: %w", do.at, err))
		return Result{}, do.park()
	}
	switch {
	case c.err == nil:
		return r, nil
	case c.err.Code == CodeNotStarted:
		return Result{}, do.cancelledNow()
	}
	return r, c.err
}

// perform makes attempts until one settles the call. Called with mu held.
func (do *doing) perform() (Result, error) {
	d, c := do.b.d, do.call
	if d.dry {
		d.hold(do.b.scope, func() NonDeterminism {
			return NonDeterminism{Instead: do.at, Asked: do.Name + " " + do.digest, Input: do.Input}
		})
	}
	// The class that was recorded counts: an intended once call stays one.
	if c.open && c.class == Once {
		if do.b.scope.isClosed() {
			return do.doubtful()
		}
		if r, over, err := do.recall(); over {
			return r, err
		}
		if r, over, err := do.inDoubt(); over {
			return r, err
		}
	}
	for {
		if err := do.unrecorded(do.at, do.Name, do.digest); err != nil {
			return Result{}, err
		}
		if err := do.delay(); err != nil {
			return Result{}, err
		}
		act, ok := d.job.Acts[do.Name]
		if !ok {
			return Result{}, d.failLocked(fatal, &Misuse{do.at, "there is no activity " + do.Name + ": the run can go on where there is one"})
		}
		if r, over, err := do.admit(act); over {
			return r, err
		}
		if r, over, err := do.attempt(act); over {
			return r, err
		}
	}
}

// recall looks for the outcome of a once attempt that an earlier drive has left, before
// anybody is asked about it: it may have been brought meanwhile, or be on its way. over
// is false if it cannot be found.
func (do *doing) recall() (Result, bool, error) {
	d, c := do.b.d, do.call
	if d.mode != performing || d.past.gates[doubtKey(do.at, c.attempt)] != nil {
		return Result{}, false, nil
	}
	if given := c.offer(c.attempt); given != nil {
		r, err := do.settleGiven(given)
		return r, true, err
	}
	act := d.job.Acts[do.Name]
	if act.Recall == nil {
		do.lose(nil)
		return Result{}, false, nil
	}
	act.Run = act.Recall
	a := do.newAttempt(c.attempt)
	c.recall = a
	done, took, err := do.carryOut(act, a)
	c.recall = nil
	var e *Error
	switch given := c.offer(c.attempt); {
	case given != nil && d.ending == notEnding:
		r, err := do.settleGiven(given)
		return r, true, err
	case err == nil || errors.As(err, &e) && e.Answered:
		return do.settle(a, done, err, took)
	case d.ending != notEnding && d.ending != cut:
		return Result{}, true, do.park() // a later drive looks again
	case do.b.scope.isClosed():
		r, err := do.doubtful()
		return r, true, err
	}
	known := do.failure(a, err)
	if known.NotSent { // the recall was not begun; of the attempt that says nothing
		known.NotSent = false
	}
	do.lose(known)
	return Result{}, false, nil
}

// attempt performs one attempt. over is false if another follows.
func (do *doing) attempt(act Activity) (Result, bool, error) {
	d, c := do.b.d, do.call
	if !c.suspended { // else it is entered again, with what it holds
		c.attempt++
		c.class, c.open, c.intended, c.reserve, c.known = do.Class, true, false, do.held, nil
		if do.Class == Once || len(do.held) > 0 || do.lost {
			// The drive may have failed while the intent was written: then nobody could
			// record what becomes of the attempt.
			if err := do.intend(); err != nil || d.ending == fatal {
				return Result{}, true, do.park()
			}
		}
	}
	d.lives++
	a := do.newAttempt(c.attempt)
	done, took, err := do.carryOut(act, a)
	return do.settle(a, done, err, took)
}

// withdraw settles an attempt that was intended and never handed over. The flow is
// told what it would have been told a moment earlier.
func (do *doing) withdraw() (Result, error) {
	e := &Error{Code: CodeNotStarted, Message: "its group closed before it was sent", NotSent: true}
	_, _ = do.finish(Done{}, e, 0, nil) // where the log does not take it, the drive is over
	return Result{}, do.cancelledNow()
}

// intend records that an attempt is about to start. Of once it is durable
// before anything is sent. It also ends the attempt before it, if that was lost:
// without it, what this one reports would be taken for what that one used.
func (do *doing) intend() error {
	d, c := do.b.d, do.call
	c.intended, do.lost, c.sent = true, false, d.clock()
	b := Effect{Name: do.Name, Class: do.Class, Attempt: c.attempt, Digest: do.digest, Input: do.inputOnce(), Reserve: do.held}
	r := Draft{Kind: KindEffectIntended, Path: do.at, Body: b.encode()}
	if do.Class == Once {
		return d.append(r)
	}
	d.put(r)
	return nil
}
