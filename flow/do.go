package flow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// doing is one Do on its way to the call's one outcome.
type doing struct {
	*fctx
	Call
	at     string // the call's path
	digest string
	call   *call
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
	at, err := c.keyed(req.Key)
	if err != nil {
		return Result{}, err
	}
	do := &doing{fctx: c, Call: req, at: at, digest: sum}
	if err := do.claim(); err != nil {
		return Result{}, err
	}
	if do.call.done {
		return do.served()
	}
	return do.perform()
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
		return do.mismatch(do.at, g.kind+" gate "+g.digest, do.Name+" "+do.digest)
	}
	do.call = d.past.calls[do.at]
	switch {
	case do.call == nil:
		do.call = &call{name: do.Name, digest: do.digest}
		d.past.calls[do.at] = do.call
	case do.call.asked:
		return d.failLocked(fatal, &Misuse{do.at, "this key was already used"})
	case do.call.digest != do.digest && do.call.digest != "":
		return do.mismatch(do.at, do.call.name+" "+do.call.digest, do.Name+" "+do.digest)
	}
	do.call.asked = true
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
	if c.err != nil {
		return r, c.err
	}
	return r, nil
}

// perform makes attempts until one settles the call. Called with mu held.
func (do *doing) perform() (Result, error) {
	d, c := do.b.d, do.call
	// The class that was recorded counts: an intended once call stays one.
	if c.open && c.class == Once {
		if do.b.scope.isClosed() {
			return do.doubtful()
		}
		if r, over, err := do.inDoubt(); over {
			return r, err
		}
	}
	for {
		if err := do.unrecorded(do.at, do.Name+" "+do.digest); err != nil {
			return Result{}, err
		}
		if err := do.delay(); err != nil {
			return Result{}, err
		}
		act, ok := d.job.Acts[do.Name]
		if !ok {
			return do.refuse(&Error{Code: CodeInternal, Message: "no such activity: " + do.Name}, nil)
		}
		if r, over, err := do.admit(act); over {
			return r, err
		}
		if r, over, err := do.attempt(act); over {
			return r, err
		}
	}
}

// delay waits for the time of a retry. It counts as running.
func (do *doing) delay() error {
	d := do.b.d
	for !do.call.retryAt.IsZero() && d.clock().Before(do.call.retryAt) {
		at := do.call.retryAt
		w := &waiter{scope: do.b.scope, counted: true, ready: func() bool { return !d.clock().Before(at) }}
		d.blockFor(w, at.Sub(d.clock()))
		if err := do.unrecorded(do.at, do.Name+" "+do.digest); err != nil {
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
	if c.open { // lost with its drive: charged in full, once
		d.past.settleCall(c, nil)
	}
	if !d.job.Deadline.IsZero() && !d.clock().Before(d.job.Deadline) {
		return over(do.refuse(&Error{Code: CodeDeadline, Message: "the deadline has passed"}, nil))
	}
	if d.past.records >= MaxRecords {
		return over(do.refuse(&Error{Code: CodeHistoryTooLong, Message: "this run has more than 100,000 records since it last continued"}, nil))
	}
	for k := 1; ; k++ {
		name := do.refusedBound()
		if name == "" {
			break
		}
		e := &Error{Code: CodeBoundExceeded, Bound: name, Message: do.boundMessage(name)}
		d.put(Draft{Kind: "bound.refused", Path: do.at, Note: true, Body: newObject(96).str("bound", name).
			int("limit", d.past.ledger.limit[name]).int("used", do.usedOf(name)).str("refused", do.Name).close()})
		if !do.Ask {
			return over(do.refuse(e, do.wanted()))
		}
		dec, err := do.decision(join(do.at, numbered("bound", k)), do.boundGate(name))
		if err != nil {
			return Result{}, true, err
		}
		if dec.Action != "extend" {
			return over(do.refuse(e, do.wanted()))
		}
	}
	d.past.ledger.hold(do.Reserve)
	do.warn()
	return Result{}, false, nil
}

// refuse settles the call without an attempt: nothing was sent.
func (do *doing) refuse(e *Error, wanted Use) (Result, error) {
	e.NotSent = true
	do.call.attempt++
	return do.finish(Done{}, e, 0, wanted)
}

func (do *doing) wanted() Use {
	if len(do.Reserve) == 0 {
		return nil
	}
	return do.Reserve
}

func (do *doing) usedOf(name string) int64 {
	if name == WallTime {
		return do.b.d.wall().Milliseconds()
	}
	return do.b.d.past.ledger.used[name]
}

// refusedBound names the bound that stands in the way of one more attempt.
func (do *doing) refusedBound() string {
	d := do.b.d
	if limit, ok := d.past.ledger.limit[WallTime]; ok && d.wall().Milliseconds() >= limit {
		return WallTime
	}
	return d.past.ledger.refuses(do.Reserve)
}

func (do *doing) boundMessage(name string) string {
	l := &do.b.d.past.ledger
	if name == WallTime {
		return fmt.Sprintf("the run may take %v and has taken %v", ms(l.limit[name]), do.b.d.wall().Round(time.Millisecond))
	}
	return fmt.Sprintf("%s is limited to %d: %d used, %d in flight, %d more wanted", name, l.limit[name], l.used[name], l.held[name], do.Reserve[name])
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func (do *doing) boundGate(name string) Gate {
	subject := newObject(128).str("path", do.at).str("name", do.Name).str("bound", name).use("wanted", do.Reserve).close()
	return Gate{Kind: "bound", Question: "The bound " + name + " is reached. Extend it?", Subject: subject,
		Actions: []string{"extend", "stop"}, Deny: "stop"}
}

func (d *drive) noteExtension(g *gate) {
	if g.decision.Action != "extend" {
		return
	}
	for _, name := range extension(g.decision.Answer).names() {
		d.put(Draft{Kind: "bound.extended", Path: g.key, Note: true, Body: newObject(96).str("bound", name).
			int("by", extension(g.decision.Answer)[name]).str("gate", g.id).close()})
	}
}

// warn notes, once a bound, that four fifths of it are used or in flight.
func (do *doing) warn() {
	d := do.b.d
	for _, name := range do.Reserve.names() {
		limit, ok := d.past.ledger.limit[name]
		used := d.past.ledger.used[name] + d.past.ledger.held[name]
		if ok && limit > 0 && used*5 >= limit*4 && !d.past.warned[name] {
			d.past.warned[name] = true
			d.put(Draft{Kind: "bound.warned", Path: do.at, Note: true, Body: newObject(64).str("bound", name).int("limit", limit).int("used", used).close()})
		}
	}
}

// check asks the activity whether it would refuse. It may do I/O, so the lock
// is released.
func (do *doing) check(act Activity) *Error {
	d := do.b.d
	a := do.newAttempt(do.call.attempt + 1)
	a.class = Read // a check can always be cut
	ctx, cancel := do.contextFor(a)
	defer cancel()
	d.live[a] = struct{}{}
	at := a.public()
	at.Class = do.Class
	d.mu.Unlock()
	err := func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = &Error{Code: CodeInternal, Message: fmt.Sprintf("the check panicked: %v", p)}
			}
		}()
		return act.Check(ctx, at)
	}()
	d.mu.Lock()
	delete(d.live, a)
	if err == nil {
		return nil
	}
	return do.asError(err)
}

// attempt performs one attempt. over is false if another follows.
func (do *doing) attempt(act Activity) (Result, bool, error) {
	d, c := do.b.d, do.call
	if c.suspended {
		c.suspended = false
	} else {
		c.attempt++
		c.class, c.open, c.reserve = do.Class, true, do.wanted()
		if do.Class == Once || len(do.Reserve) > 0 {
			if err := do.intend(); err != nil {
				return Result{}, true, do.park()
			}
		}
	}
	d.lives++
	a := do.newAttempt(c.attempt)
	done, took, err := do.carryOut(act, a)
	return do.settle(a, done, err, took)
}

// intend records that an attempt is about to start. Of once it is durable
// before anything is sent.
func (do *doing) intend() error {
	d, c := do.b.d, do.call
	o := newObject(200+len(do.Input)).str("name", do.Name).str("class", string(do.Class)).int("attempt", int64(c.attempt)).str("digest", do.digest)
	if !c.inputKnown {
		o = o.raw("input", do.Input)
		c.inputKnown = true
	}
	if len(do.Reserve) > 0 {
		o = o.use("reserve", do.Reserve)
	}
	r := Draft{Kind: "effect.intended", Path: do.at, Body: o.close()}
	if do.Class == Once {
		return d.append(r)
	}
	d.put(r)
	return nil
}

// settle turns what an attempt brought back into the call's outcome, a retry,
// a gate, or nothing at all. Called with mu held.
func (do *doing) settle(a *attempt, done Done, err error, took time.Duration) (Result, bool, error) {
	d, c := do.b.d, do.call
	over := func(r Result, err error) (Result, bool, error) { return r, true, err }
	if d.ending >= parked {
		return over(Result{}, do.park())
	}
	if err == nil && len(done.Value) > MaxPayload {
		err = &Error{Code: CodeResultTooLarge, Message: fmt.Sprintf("a result has at most 16 MiB, this one %d bytes", len(done.Value)), Answered: true}
		done.Value = nil
	}
	if err == nil {
		return over(do.finish(done, nil, took, nil))
	}
	if Parked(err) && do.Class != Once {
		if a.cut {
			return over(do.broken())
		}
		if d.append(Draft{Kind: "effect.suspended", Path: do.at, Body: newObject(32).int("attempt", int64(c.attempt)).close()}) == nil {
			c.suspended = true
		}
		return over(Result{}, do.park())
	}
	if do.Class == Once {
		return do.settleOnce(done, err, took)
	}
	if p := (*panicked)(nil); errors.As(err, &p) {
		return over(Result{}, d.failLocked(fatal, p))
	}
	if a.cut {
		return over(do.broken())
	}
	e := do.failure(a, err)
	if !do.retryable(e) {
		return over(do.finish(done, e, took, nil))
	}
	return do.retry(e, done.Use)
}

// settleOnce knows only definite answers; everything else is in doubt.
func (do *doing) settleOnce(done Done, err error, took time.Duration) (Result, bool, error) {
	d := do.b.d
	var e *Error
	if errors.As(err, &e) && (e.Answered || e.NotSent) {
		r, err := do.finish(done, do.asError(err), took, nil)
		return r, true, err
	}
	if d.ending != notEnding && d.ending != cut {
		return Result{}, true, do.park() // a later drive asks
	}
	if do.b.scope.isClosed() {
		r, err := do.doubtful()
		return r, true, err
	}
	return do.inDoubt()
}

// broken answers for an attempt that a closing scope or a stop has cut.
func (do *doing) broken() (Result, error) {
	if err := do.unrecorded(do.at, do.Name); err != nil {
		return Result{}, err
	}
	return Result{}, do.park()
}

// failure is the error of a read or idempotent attempt, with the reason of the
// context's end where that is what happened.
func (do *doing) failure(a *attempt, err error) *Error {
	var e *Error
	definite := errors.As(err, &e) && (e.Answered || e.NotSent)
	if cause := a.cause(); cause != nil && !definite {
		return cause
	}
	return do.asError(err)
}

func (do *doing) retryable(e *Error) bool {
	if do.call.attempt > do.Retry.Max {
		return false
	}
	if e.Code == CodeDeadline || e.Code == CodeBoundExceeded {
		return false
	}
	if do.Retry.On != nil {
		return slices.Contains(do.Retry.On, e.Code)
	}
	return e.Retry
}

// retry records the failed attempt and when the next one is due.
func (do *doing) retry(e *Error, use Use) (Result, bool, error) {
	d, c := do.b.d, do.call
	c.retryAt = d.clock().Add(do.backoff(c.attempt, e.After))
	o := newObject(256).int("attempt", int64(c.attempt)).str("name", do.Name).str("digest", do.digest)
	if !c.inputKnown {
		o = o.raw("input", do.Input)
		c.inputKnown = true
	}
	o = o.raw("error", e.encode())
	if len(use) > 0 {
		o = o.use("use", use)
	}
	d.past.settleCall(c, use)
	if d.append(Draft{Kind: "effect.failed", Path: do.at, Body: o.time("retry_at", c.retryAt).close()}) != nil {
		return Result{}, true, do.park()
	}
	return Result{}, false, nil
}

func (do *doing) backoff(attempt int, least time.Duration) time.Duration {
	r := do.Retry
	factor := r.Factor
	if factor == 0 {
		factor = 2
	}
	delay := float64(r.Backoff) * math.Pow(factor, float64(attempt-1))
	if r.MaxBackoff > 0 {
		delay = min(delay, float64(r.MaxBackoff))
	}
	delay = min(delay, float64(365*24*time.Hour))
	if r.Jitter {
		delay *= rand.Float64()
	}
	return max(time.Duration(delay), least)
}

// finish records the call's one outcome and returns it. Called with mu held.
func (do *doing) finish(done Done, e *Error, took time.Duration, wanted Use) (Result, error) {
	d, c := do.b.d, do.call
	value, bad := oneLine(d.redact(done.Value))
	if bad != nil && e == nil {
		e = &Error{Code: CodeInternal, Message: "the result is not JSON: " + bad.Error(), Answered: true}
	}
	r := Result{Value: value, Attempt: c.attempt, Ms: took.Milliseconds(), Use: done.Use}
	if e != nil {
		r.Value = nil
	}
	if do.record(r, e, wanted, "") != nil {
		return Result{}, do.park()
	}
	if e != nil {
		return r, e
	}
	return r, nil
}

// record writes effect.finished and settles the reservation in one step, so
// that the order of records is the order of grants.
func (do *doing) record(r Result, e *Error, wanted Use, by string) error {
	d, c := do.b.d, do.call
	if d.mode != performing {
		return do.missing(do.at, "the outcome of "+do.Name)
	}
	o := newObject(220+len(r.Value)+len(do.Input)).str("name", do.Name).int("attempt", int64(r.Attempt)).str("digest", do.digest)
	if !c.inputKnown {
		o = o.raw("input", do.Input)
		c.inputKnown = true
	}
	if e != nil {
		o = o.raw("error", e.encode())
	} else {
		o = o.raw("value", r.Value)
	}
	o = o.int("ms", r.Ms)
	if len(r.Use) > 0 {
		o = o.use("use", r.Use)
	}
	if len(wanted) > 0 {
		o = o.use("wanted", wanted)
	}
	if by != "" {
		o = o.str("by", by)
	}
	d.past.settleCall(c, r.Use)
	c.done, c.err = true, e
	return d.append(Draft{Kind: "effect.finished", Path: do.at, Body: o.close()})
}

// doubtful answers for an unsettled once call in a closed scope: nothing is
// written, live as in replay.
func (do *doing) doubtful() (Result, error) {
	_ = do.cancelledNow() // it would have been told so
	return Result{Attempt: do.call.attempt}, &Error{Code: CodeInDoubt, Message: "nobody knows whether " + do.Name + " took effect"}
}

// doubtKey is where the gate about an attempt stands.
func doubtKey(path string, attempt int) string {
	if attempt > 1 {
		return join(path, numbered("in_doubt", attempt))
	}
	return join(path, "in_doubt")
}

// inDoubt asks what became of a once call that may have taken effect. over is
// false if it is to be tried again.
func (do *doing) inDoubt() (Result, bool, error) {
	c := do.call
	subject := newObject(160+len(do.Input)).str("path", do.at).str("name", do.Name).int("attempt", int64(c.attempt)).
		str("digest", do.digest).raw("input", do.Input).close()
	dec, err := do.decision(doubtKey(do.at, c.attempt), Gate{Kind: "in_doubt", Subject: subject, Deny: "fail",
		Question: "It is not known whether " + do.Name + " took effect. What now?", Actions: []string{"retry", "use_result", "fail"}})
	if err != nil {
		if errors.Is(err, ErrCancelled) {
			r, err := do.doubtful()
			return r, true, err
		}
		return Result{}, true, err
	}
	switch dec.Action {
	case "retry":
		return Result{}, false, nil
	case "use_result":
		r := Result{Value: dec.Answer, Attempt: c.attempt, By: dec.By}
		if len(r.Value) == 0 {
			r.Value = json.RawMessage("null")
		}
		if err := do.record(r, nil, nil, dec.By); err != nil {
			return Result{}, true, do.park()
		}
		return r, true, nil
	}
	r := Result{Attempt: c.attempt, By: dec.By}
	e := &Error{Code: CodeInDoubt, Message: "it was decided to fail: nobody knows whether " + do.Name + " took effect"}
	if err := do.record(r, e, nil, dec.By); err != nil {
		return Result{}, true, do.park()
	}
	return r, true, e
}

func (d *drive) redact(b []byte) []byte {
	if d.job.Redact == nil || len(b) == 0 {
		return b
	}
	return d.job.Redact(b)
}

// oneLine is a value as it may stand in a record: valid, without line feeds.
func oneLine(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return json.RawMessage("null"), nil
	}
	if validJSON(raw) && bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return raw, nil
	}
	var b bytes.Buffer
	err := json.Compact(&b, raw)
	return b.Bytes(), err
}

// asError makes any error one that can be recorded, without secrets.
func (do *doing) asError(err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Code: CodeInternal, Message: err.Error()}
	}
	c := *e
	c.Message = string(do.b.d.redact([]byte(c.Message)))
	if len(c.Detail) > 0 {
		if c.Detail, err = oneLine(do.b.d.redact(c.Detail)); err != nil {
			c.Detail = nil
		}
	}
	return &c
}

func (e *Error) encode() []byte {
	o := newObject(128).str("code", e.Code)
	if e.Message != "" {
		o = o.str("message", e.Message)
	}
	if e.Bound != "" {
		o = o.str("bound", e.Bound)
	}
	if len(e.Detail) > 0 {
		o = o.raw("detail", e.Detail)
	}
	for _, f := range [...]struct {
		name string
		set  bool
	}{{"retry", e.Retry}, {"not_sent", e.NotSent}, {"answered", e.Answered}} {
		if f.set {
			o = o.raw(f.name, []byte("true"))
		}
	}
	if e.After > 0 {
		o = o.int("after_ms", e.After.Milliseconds())
	}
	return o.close()
}

// attempt is an activity in flight.
type attempt struct {
	do     *doing
	n      int
	class  Class
	stops  bool
	prompt bool
	scope  *scope

	cancel context.CancelCauseFunc
	ctx    context.Context
	cut    bool          // ended from outside: a closing scope or a stop
	left   bool          // nobody waits for it any more
	back   chan returned // room for the activity's return and for giving it up
}

func (do *doing) newAttempt(n int) *attempt {
	return &attempt{do: do, n: n, class: do.Class, scope: do.b.scope, back: make(chan returned, 2)}
}

// cutOff ends the attempt's context. Called with mu held.
func (a *attempt) cutOff(cause error) {
	if !a.cut {
		a.cut = true
		if a.cancel != nil {
			a.cancel(cause)
		}
	}
}

// abandon stops waiting for the attempt. Called with mu held.
func (a *attempt) abandon() {
	if a.left {
		return
	}
	a.left = true
	if a.prompt {
		a.cancel(errAbandoned)
		return
	}
	a.back <- returned{err: errAbandoned}
}

var errAbandoned = errors.New("flow: the attempt did not come back")

// cause is the limit that ended the attempt's context, if one did.
func (a *attempt) cause() *Error {
	var e *Error
	if errors.As(context.Cause(a.ctx), &e) {
		return e
	}
	return nil
}

// contextFor ends at the least of timeout, wall time left and deadline.
func (do *doing) contextFor(a *attempt) (context.Context, func()) {
	d := do.b.d
	left, why := time.Duration(math.MaxInt64), (*Error)(nil)
	limit := func(t time.Duration, e *Error) {
		if t < left {
			left, why = max(t, 0), e
		}
	}
	if do.Timeout > 0 {
		limit(do.Timeout, &Error{Code: CodeTimeout, Message: fmt.Sprintf("%s took longer than %v", do.Name, do.Timeout), Retry: true})
	}
	if wall, ok := d.past.ledger.limit[WallTime]; ok {
		limit(ms(wall)-d.wall(), &Error{Code: CodeBoundExceeded, Bound: WallTime, Message: fmt.Sprintf("the run may take %v", ms(wall))})
	}
	if !d.job.Deadline.IsZero() {
		limit(d.job.Deadline.Sub(d.clock()), &Error{Code: CodeDeadline, Message: "the deadline has passed"})
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	a.cancel, a.ctx = cancel, ctx
	stop := func() { cancel(nil) }
	if why != nil {
		var end context.CancelFunc
		a.ctx, end = context.WithTimeoutCause(ctx, left, why)
		stop = func() { end(); cancel(nil) }
	}
	return a.ctx, stop
}

func (a *attempt) public() Attempt {
	d := a.do.b.d
	return Attempt{Run: d.job.Run, Path: a.do.at, Name: a.do.Name, N: a.n, Class: a.class, Input: a.do.Input,
		Key: IdempotencyKey(d.job.Run, a.do.at, d.segment), Note: a.note, Sync: d.sync}
}

// note appends a record for people; replay skips it.
func (a *attempt) note(e Event) {
	d := a.do.b.d
	body := d.redact(JSON(e.Body))
	d.mu.Lock()
	defer d.mu.Unlock()
	if !a.left && len(body) <= MaxPayload {
		d.put(Draft{Kind: e.Kind, Path: a.do.at, Note: true, Body: body})
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
	ctx, cancel := do.contextFor(a)
	defer cancel()
	at := a.public()
	a.stops = do.Class == Once && act.Stops != nil && act.Stops(at)
	a.prompt = act.Prompt != nil && act.Prompt(at)
	d.live[a] = struct{}{}
	if a.class != Once || a.stops { // what came while the intent was written
		switch {
		case d.ending == stopped:
			a.cutOff(d.why)
		case do.b.scope.isClosed():
			a.cutOff(ErrCancelled)
		}
	}
	d.mu.Unlock()

	began := time.Now()
	var r returned
	if a.prompt {
		r = runActivity(act, ctx, at)
	} else {
		go func() { a.back <- runActivity(act, ctx, at) }()
		r = do.awaitReturn(a, ctx)
	}

	d.mu.Lock()
	a.left = true
	delete(d.live, a)
	return r.done, time.Since(began), r.err
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
func (do *doing) awaitReturn(a *attempt, ctx context.Context) returned {
	select {
	case r := <-a.back:
		return r
	case <-ctx.Done():
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
