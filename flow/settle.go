package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff/canon"
)

// settle turns what an attempt brought back into the call's outcome, a retry,
// a gate, or nothing at all. Called with mu held.
func (do *doing) settle(a *attempt, done Done, err error, took time.Duration) (Result, bool, error) {
	d, c := do.b.d, do.call
	over := func(r Result, err error) (Result, bool, error) { return r, true, err }
	if d.ending >= parked {
		return over(Result{}, do.park())
	}
	done.Use = do.unpaid(done.Use)
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
		if d.append(Draft{Kind: KindEffectSuspended, Path: do.at, Body: JSON(Effect{Attempt: c.attempt})}) != nil {
			return over(Result{}, do.park())
		}
		c.suspended = true
		return over(do.suspended())
	}
	if do.Class == Once {
		return do.settleOnce(a, done, err, took)
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

// suspended waits until the run parks, for a later drive to enter the attempt again.
// Like every wait it ends when its scope closes: a branch that had left by then would
// say other things than its replay, which knows of the closing.
func (do *doing) suspended() (Result, error) {
	d := do.b.d
	for {
		if err := do.unrecorded(do.at, do.Name); err != nil {
			return Result{}, err
		}
		d.block(&waiter{scope: do.b.scope, suspended: true, ready: never})
	}
}

// unpaid is what is left to charge of a reported use: not what was charged before
// the first attempt.
func (do *doing) unpaid(reported Use) Use {
	if len(do.Prepaid) == 0 || do.call.attempt > 1 || reported == nil {
		return reported
	}
	left := reported.clone()
	for name, n := range do.Prepaid {
		if had, ok := left[name]; ok {
			left[name] = max(0, had-n)
		}
	}
	return left
}

// settleOnce knows only definite answers; everything else is in doubt. What was not
// sent because its scope closed has not failed.
func (do *doing) settleOnce(a *attempt, done Done, err error, took time.Duration) (Result, bool, error) {
	d := do.b.d
	if errors.Is(err, errAbandoned) && !a.begun {
		err = a.notBegun()
	}
	var e *Error
	switch definite := errors.As(err, &e); {
	case do.b.scope.isClosed() && (errors.Is(err, errNotBegun) || definite && e.NotSent && a.cut):
		r, err := do.withdraw()
		return r, true, err
	case definite && (e.Answered || e.NotSent):
		r, err := do.finish(done, do.asError(err), took, nil)
		return r, true, err
	}
	do.lose(do.failure(a, err))
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
	if cause := a.span.limitedBy(); cause != nil && !definite {
		return cause
	}
	return do.asError(err)
}

func (do *doing) retryable(e *Error) bool {
	if do.call.failures >= do.Retry.Max { // attempts that were lost do not count
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
	c.failures++
	c.retryAt = d.clock().Add(do.backoff(c.failures, e.After))
	b := Effect{Name: do.Name, Attempt: c.attempt, Digest: do.digest, Input: do.inputOnce(), Error: e, Use: use, RetryAt: Time{c.retryAt}, Keep: e.keeps()}
	d.past.settleCall(c, &b)
	if d.append(Draft{Kind: KindEffectFailed, Path: do.at, Body: b.encode()}) != nil {
		return Result{}, true, do.park()
	}
	return Result{}, false, nil
}

func (do *doing) backoff(failures int, least time.Duration) time.Duration {
	r := do.Retry
	factor := r.Factor
	if factor == 0 {
		factor = 2
	}
	delay := float64(r.Backoff) * math.Pow(factor, float64(failures-1))
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
	if do.record(r, e, wanted, done) != nil {
		return Result{}, do.park()
	}
	if e != nil {
		return r, e
	}
	return r, nil
}

// record writes effect.finished and settles the reservation in one step, so
// that the order of records is the order of grants.
func (do *doing) record(r Result, e *Error, wanted Use, done Done) error {
	d, c := do.b.d, do.call
	if d.mode != performing {
		return do.missing(do.at, "the outcome of", do.Name)
	}
	b := Effect{Name: do.Name, Attempt: r.Attempt, Digest: do.digest, Input: do.inputOnce(), Error: e, Ms: &r.Ms, Use: r.Use, Held: done.Held, Wanted: wanted, By: r.By, Keep: append(e.keeps(), done.Keep...)}
	if e == nil {
		b.Value = r.Value
	}
	d.past.settleCall(c, &b)
	c.done, c.err = true, e
	return d.append(Draft{Kind: KindEffectFinished, Path: do.at, Body: b.encode()})
}

// inputOnce is the call's input for the first record that it has, and for no other.
func (do *doing) inputOnce() json.RawMessage {
	if do.call.inputKnown {
		return nil
	}
	do.call.inputKnown = true
	return JSON(do.Input)
}

// doubtful answers for an unsettled once call in a closed scope: nothing is
// written, live as in replay.
func (do *doing) doubtful() (Result, error) {
	_ = do.cancelledNow() // it would have been told so
	return Result{Attempt: do.call.attempt}, &Error{Code: CodeInDoubt, Message: "nobody knows whether " + do.Name + " took effect"}
}

// mostKnown is how much of the detail of an error is noted, in bytes.
const mostKnown = 8 << 10

// lose notes what is known of an attempt that may have taken effect, for whoever is
// asked about it. A gate that was opened without such a note stays as it is.
func (do *doing) lose(known *Error) {
	d, c := do.b.d, do.call
	if d.mode != performing || c.lost != nil && c.lost.Attempt == c.attempt || d.past.gates[doubtKey(do.at, c.attempt)] != nil {
		return
	}
	b := &EffectLost{Attempt: c.attempt, Sent: Time{c.sent}}
	if known != nil {
		e := *known
		b.Keep = e.keeps()
		if len(e.Detail) > mostKnown {
			e.Detail = nil
		}
		b.Known = &e
	}
	c.lost = b
	d.put(Draft{Kind: KindEffectLost, Path: do.at, Note: true, Body: JSON(b)})
}

// doubtKey is where the gate about an attempt stands.
func doubtKey(path string, attempt int) string {
	if attempt > 1 {
		return join(path, numbered("in_doubt", attempt))
	}
	return join(path, "in_doubt")
}

// doubtSubject is what a gate about an attempt shows.
type doubtSubject struct {
	Path    string          `json:"path"`
	Name    string          `json:"name"`
	Attempt int             `json:"attempt"`
	Digest  string          `json:"digest"`
	Input   json.RawMessage `json:"input"`
	Sent    Time            `json:"sent,omitzero"`
	Known   *Error          `json:"known,omitempty"`
}

func doubtGate(path, name string, attempt int, input json.RawMessage, l *EffectLost) Gate {
	subject := doubtSubject{Path: path, Name: name, Attempt: attempt, Digest: CallDigest(name, input), Input: input}
	if l != nil && l.Attempt == attempt {
		subject.Sent, subject.Known = l.Sent, l.Known
	}
	return Gate{Kind: "in_doubt", Subject: JSON(subject), Deny: "fail",
		Question: "It is not known whether " + name + " took effect. What now?", Actions: []string{"retry", "use_result", "fail"}}
}

// earlierDoubt is the key of a gate about an attempt of an earlier segment. The
// attempts of this one are counted from 1.
const earlierDoubt = "in_doubt#0"

// EarlierDoubt is the gate by which a program asks, before it calls again, what
// became of a once call of an earlier segment: of that attempt path, name, number
// and input count. known is the body of its effect.lost; nil: there is none. It is the
// same question that the engine asks within a segment.
func EarlierDoubt(a Attempt, known json.RawMessage) Gate {
	if a.Input == nil {
		a.Input = json.RawMessage("null")
	}
	var lost *EffectLost
	_ = json.Unmarshal(known, &lost) // what cannot be read is not known
	g := doubtGate(a.Path, a.Name, a.N, a.Input, lost)
	g.Key = earlierDoubt
	return g
}

// inDoubt asks what became of a once call that may have taken effect. over is
// false if it is to be tried again.
func (do *doing) inDoubt() (Result, bool, error) {
	c := do.call
	dec, err := do.decision(doubtKey(do.at, c.attempt), doubtGate(do.at, do.Name, c.attempt, do.Input, c.lost))
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
		if given := c.offer(c.attempt); given != nil && len(dec.Answer) == 0 {
			r, err := do.settleGiven(given)
			return r, true, err
		}
		r := Result{Value: json.RawMessage("null"), Attempt: c.attempt, By: dec.By}
		if len(dec.Answer) > 0 {
			r.Value = JSON(dec.Answer)
		}
		if err := do.record(r, nil, nil, Done{}); err != nil {
			return Result{}, true, do.park()
		}
		return r, true, nil
	}
	r := Result{Attempt: c.attempt, By: dec.By}
	e := &Error{Code: CodeInDoubt, Message: "it was decided to fail: nobody knows whether " + do.Name + " took effect"}
	if err := do.record(r, e, nil, Done{}); err != nil {
		return Result{}, true, do.park()
	}
	return r, true, e
}

// settleGiven settles a call with the outcome that was brought for it, as if it had come
// in time.
func (do *doing) settleGiven(given *EffectGiven) (Result, error) {
	value, err := payload(given.Value, do.b.d.blob)
	if err == nil && given.Error != nil {
		given.Error.Detail, err = payload(given.Error.Detail, do.b.d.blob)
	}
	if err != nil {
		do.b.d.failLocked(down, fmt.Errorf("what was brought for %s cannot be read: %w", do.at, err))
		return Result{}, do.park()
	}
	r := Result{Value: value, Attempt: given.Attempt, Use: given.Use}
	if err := do.record(r, given.Error, nil, Done{}); err != nil {
		return Result{}, do.park()
	}
	if given.Error != nil {
		return Result{Attempt: r.Attempt, Use: r.Use}, given.Error
	}
	return r, nil
}

func (d *drive) redact(b []byte) []byte {
	if d.job.Redact == nil || len(b) == 0 {
		return b
	}
	return d.job.Redact(b)
}

// oneLine is a value as it stands in a record: valid, and compact.
func oneLine(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) == 0 {
		return json.RawMessage("null"), nil
	}
	if !utf8.Valid(raw) {
		return nil, errors.New("it is not valid UTF-8")
	}
	return canon.Compact(raw)
}

// shorten cuts the text of an error that is too long for a record, before the drive's
// lock is taken: the whole of it is stored. There is no other place where errors of
// activities come from.
func (d *drive) shorten(err error) error {
	if err == nil {
		return nil
	}
	e := new(Error)
	if !errors.As(err, &e) {
		e = &Error{Code: CodeInternal, Message: err.Error()}
	}
	if len(e.Message) <= MostMessage {
		return err
	}
	c := *e
	c.Message = string(d.redact([]byte(strings.ToValidUTF8(c.Message, "\uFFFD"))))
	return &shortened{err, c.Shortened(d.job.Keep)}
}

// keeps are the digests of blobs that the error names.
func (e *Error) keeps() []string {
	if e == nil || e.Whole == "" {
		return nil
	}
	return []string{e.Whole}
}

// asError makes any error one that can be recorded, without secrets.
func (do *doing) asError(err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{Code: CodeInternal, Message: err.Error()}
	}
	c := *e
	if c.Code == CodeNotStarted { // which only the engine can know
		c.Code = CodeInternal
	}
	c.Message = string(do.b.d.redact([]byte(c.Message)))
	if len(c.Detail) > 0 {
		if c.Detail, err = oneLine(do.b.d.redact(c.Detail)); err != nil {
			c.Detail = nil
		}
	}
	return &c
}
