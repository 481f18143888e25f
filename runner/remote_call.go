package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
)

// remoteCall is an attempt of a stage that a host is asked for.
type remoteCall struct {
	tipstaff.HostCall
	owners owners
	class  flow.Class
	wait   time.Duration // for a host to appear

	came   chan struct{}    // closed when there is a result
	asks   chan reservation // for more of the run's bounds
	over   chan struct{}    // closed when the attempt is over: nobody hears what is asked
	stored chan struct{}    // closed when it is known whether the result is durable

	// What was granted to it, and the last reservation that was not. The attempt alone
	// knows.
	granted flow.Use
	refused *flow.Error

	// Under the pool's lock:
	at     *host                // who has it; nil: nobody
	given  []string             // ids of all hosts that were given it
	left   bool                 // a process before this one has left it; nobody need know to whom it was given
	result *tipstaff.HostResult // the first that came
	ended  bool                 // the attempt is
	lost   error                // why the result is not durable; nil: it is
}

type reservation struct {
	use     flow.Use
	granted chan error // one place
}

// callID names an attempt of a stage to hosts. It is the same in all deliveries, also
// after a restart; only a once call that a person wants tried again is another one.
// It says where the call stands, so that a result that comes when nobody remembers
// the call can be recorded there.
func callID(a flow.Attempt) string {
	if a.Class == flow.Once && a.N > 1 {
		return fmt.Sprintf("%s/%s~%d", a.Run, a.Path, a.N)
	}
	return a.Run + "/" + a.Path
}

// placeOf is the run, the path and the attempt that a call's id names. No path has a ~
// in it.
func placeOf(call string) (run, path string, attempt int, ok bool) {
	run, path, _ = strings.Cut(call, "/")
	path, n, later := strings.Cut(path, "~")
	_, err := tipstaff.ParseID(run)
	if attempt = 1; err == nil && later {
		attempt, err = strconv.Atoi(n)
	}
	return run, path, attempt, err == nil && path != ""
}

func newRemoteCall(ctx context.Context, o owners, a flow.Attempt) (*remoteCall, error) {
	var in remoteInput
	if err := json.Unmarshal(a.Input, &in); err != nil {
		return nil, err
	}
	with := a.Local.(remoteLocal)
	c := &remoteCall{owners: o, class: a.Class, wait: with.wait, granted: flow.Use{}, came: make(chan struct{}), asks: make(chan reservation),
		over: make(chan struct{}), stored: make(chan struct{})}
	c.HostCall = tipstaff.HostCall{ID: callID(a), Run: idOf(a.Run), Path: a.Path, Agent: in.Agent, Visit: in.Visit, Attempt: in.Attempt,
		Input: in.Input, View: pipeline.EncodeEnvelope(with.view), Budget: with.budget, IdempotencyKey: a.Key,
		Redelivery: a.N > 1 && a.Class != flow.Once} // a process that died may have delivered it
	c.Deadline, _ = ctx.Deadline()
	return c, nil
}

// begin lets hosts bring the result of a call, until the attempt is over.
func (d *hostPool) begin(c *remoteCall) (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls[c.ID] = c
	return func() { d.end(c) }
}

// end is when the attempt is over. A call that has a result stays until that is
// durable.
func (d *hostPool) end(c *remoteCall) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c.ended = true
	close(c.over)
	d.release(c)
	if c.result == nil {
		d.forget(c, nil)
	}
}

// release frees the place that a call has at its host. Called with mu held.
func (d *hostPool) release(c *remoteCall) {
	if c.at != nil {
		c.at.agents[c.Agent].busy--
		c.at = nil
		d.announce()
	}
}

// forget takes a call out of the pool, and tells whoever brought its result what became
// of that. Called with mu held.
func (d *hostPool) forget(c *remoteCall, lost error) {
	if d.calls[c.ID] != c {
		return
	}
	delete(d.calls, c.ID)
	c.lost = lost
	close(c.stored)
}

// withdraw takes the call back from a host that was lost with it.
func (d *hostPool) withdraw(c *remoteCall) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.release(c)
	c.Redelivery = true
}

func (d *hostPool) tellToStop(c *remoteCall, cause error) {
	reason := "the call is no longer wanted"
	var limit *flow.Error
	var stop *flow.Stop
	switch {
	case errors.As(cause, &limit):
		reason = limit.Error()
	case errors.As(cause, &stop):
		reason = stop.Error()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if c.at != nil {
		c.at.order(tipstaff.HostOrder{Cancel: c.ID, Reason: reason})
	}
}

// search finds a host with room and does something with it under the pool's lock.
// With none attached it waits so long and no longer; one that is busy is waited for
// while the attempt lasts.
func (d *hostPool) search(ctx context.Context, o owners, agent string, wait time.Duration, found func(*host) error) (*host, error) {
	patience := time.NewTimer(wait)
	defer patience.Stop()
	for {
		d.mu.Lock()
		h, serving := d.pick(o, agent)
		if h != nil {
			err := found(h)
			d.mu.Unlock()
			return h, err
		}
		moved := d.moved
		d.mu.Unlock()
		select {
		case <-moved:
		case <-patience.C:
			if !serving {
				return nil, &flow.Error{Code: codeAgentUnavailable, Retry: true, NotSent: true,
					Message: fmt.Sprintf("no host has served agent %s for %v", agent, wait)}
			}
			patience.Reset(wait)
		case <-ctx.Done():
			cause := context.Cause(ctx)
			var limit *flow.Error
			if !errors.As(cause, &limit) {
				return nil, cause
			}
			unsent := *limit // nothing had happened when it was reached
			unsent.NotSent = true
			return nil, &unsent
		}
	}
}

// heard is a log that lets the pool know what has become durable: only then is a host
// told that its result is kept, and may forget it.
type heard struct {
	flow.Log
	pool *hostPool
}

// Append implements [flow.Log].
func (l heard) Append(lease flow.Lease, drafts []flow.Draft, done func(error)) {
	l.Log.Append(lease, drafts, func(err error) {
		done(err)
		l.pool.recorded(lease.Run, drafts, err)
	})
}

// recorded is told what the log has, or has not, taken.
func (d *hostPool) recorded(run string, drafts []flow.Draft, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.calls {
		settles := func(draft flow.Draft) bool {
			return draft.Path == c.Path && (draft.Kind == string(tipstaff.KindEffectFinished) || draft.Kind == string(tipstaff.KindEffectFailed))
		}
		if c.ended && c.Run.String() == run && slices.ContainsFunc(drafts, settles) {
			d.forget(c, err)
		}
	}
}

// errUnrecorded is what becomes of a result whose drive ended before it was written.
var errUnrecorded = errors.New("the drive has ended")

// leaveRun is when a drive has ended: no result that it has not recorded counts.
func (d *hostPool) leaveRun(run string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.calls {
		if c.Run.String() == run {
			d.forget(c, errUnrecorded)
		}
	}
}

// Complete implements [tipstaff.Host]: the first result of a call is its answer, and
// durable when this returns.
func (h *host) Complete(ctx context.Context, r tipstaff.HostResult) error {
	c := h.take(r)
	if c == nil {
		return h.late(ctx, r)
	}
	select {
	case <-c.stored:
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.lost != nil {
		return &tipstaff.Error{Code: tipstaff.WrongState, Run: c.Run, Err: c.lost,
			Message: "the result of call " + c.ID + " was not recorded", Hint: "keep it, and bring it again when the run is driven on"}
	}
	return nil
}

// take hands a result to its call. nil: there is no call that it could be the answer
// of.
func (h *host) take(r tipstaff.HostResult) *remoteCall {
	h.pool.mu.Lock()
	defer h.pool.mu.Unlock()
	c := h.pool.calls[r.Call]
	if c == nil {
		return nil
	}
	// Nobody knows any more to whom a process before this one gave what may be repeated.
	given := slices.Contains(c.given, h.id) || len(c.given) == 0 && (c.left || c.class != flow.Once)
	switch {
	case !h.serves(c.owners), !given, c.result == nil && c.ended:
		return nil
	case c.result == nil:
		c.result = &r
		close(c.came)
	case !bytes.Equal(flow.JSON(c.result), flow.JSON(r)):
		return nil
	}
	return c
}

// late takes a result that nobody waits for. It settles a call that has no outcome: it is
// offered to whoever is asked about the call, if its host was given it. Others are
// recorded and not used; the one that is recorded as the call's answer already was
// brought twice, which is no harm.
func (h *host) late(ctx context.Context, r tipstaff.HostResult) error {
	run, path, attempt, ok := placeOf(r.Call)
	if !ok {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "%q is not a call", shortened(r.Call))
	}
	store := h.pool.store
	draft, err := readDraft(ctx, store, run)
	if err != nil {
		return explain(err, idOf(run))
	}
	if !h.serves(draft.owners()) {
		return explain(flow.ErrNoRun, idOf(run))
	}
	known, err := traceCall(ctx, store, run, path)
	if err != nil {
		return explain(err, idOf(run))
	}
	if r, err = h.pool.concealed(r); err != nil {
		return explain(err, idOf(run))
	}
	given, unkept := givenBy(h.id, attempt, &r), r.Error
	if given.Error != nil {
		given.Error = given.Error.Shortened(func(text []byte) (string, error) { return store.PutBlob(ctx, text) })
		if given.Error.Whole != "" {
			given.Keep = []string{given.Error.Whole}
		}
		unkept = &tipstaff.HostError{Code: r.Error.Code, Message: flow.CutText(r.Error.Message, ""), Retryable: r.Error.Retryable}
		cut := *r.Error
		cut.Message, r.Error = given.Error.Message, &cut
	}
	late := flow.Draft{Kind: string(tipstaff.KindEffectLate), Path: path, Note: true, // of which nothing is kept beside it
		Body: flow.JSON(tipstaff.EffectLate{Call: r.Call, Host: h.id, Output: r.Output, Control: r.Control, Error: unkept})}
	switch {
	case known.outcome != nil && known.outcome.is(&r), known.given != nil && bytes.Equal(flow.JSON(known.given), flow.JSON(given)):
		return nil
	case known.lacks(attempt) && known.given == nil && (len(known.hosts) == 0 || slices.Contains(known.hosts, h.id)):
		late = flow.Draft{Kind: string(tipstaff.KindEffectGiven), Path: path, Body: flow.JSON(given)}
	}
	err = store.Write(ctx, run, func(tx flow.Tx) ([]flow.Draft, error) {
		if tipstaff.State(tx.Row().State).Terminal() {
			return nil, nil // nothing follows its end
		}
		return []flow.Draft{late}, nil
	})
	if errors.Is(err, flow.ErrEnded) {
		return nil
	}
	return explain(err, idOf(run))
}

// concealed is a result without credentials, which no drive takes out of it.
func (d *hostPool) concealed(r tipstaff.HostResult) (tipstaff.HostResult, error) {
	redact, err := d.redactor()
	if err != nil {
		return r, err
	}
	r.Output, r.Control = redact(r.Output), redact(r.Control)
	if r.Error != nil {
		own := *r.Error
		own.Message = string(redact([]byte(own.Message)))
		r.Error = &own
	}
	return r, nil
}

// givenBy is a result that came when nobody waited for it. A host that says nothing of
// what it used is charged what it had reserved.
func givenBy(host string, attempt int, r *tipstaff.HostResult) *tipstaff.EffectGiven {
	done, err := (&remoteCall{result: r}).done()
	given := &tipstaff.EffectGiven{Attempt: attempt, From: host, Value: done.Value}
	errors.As(err, &given.Error)
	if len(done.Use) > 0 {
		given.Use = done.Use
	}
	return given
}

// callTrace is what the journal says of a call.
type callTrace struct {
	intended tipstaff.Effect // the last attempt
	hosts    []string        // that were given it
	given    *tipstaff.EffectGiven
	outcome  *callOutcome
}

// lacks reports whether an attempt, of class once, is the last and has no outcome.
func (t *callTrace) lacks(attempt int) bool {
	return t.outcome == nil && t.intended.Class == flow.Once && t.intended.Attempt == attempt
}

// traceCall reads what the journal of a run says of a call.
func traceCall(ctx context.Context, src source, run, path string) (*callTrace, error) {
	t := &callTrace{}
	err := eachRecord(ctx, src, run, 0, func(s flow.Stored) error {
		kind := tipstaff.Kind(s.Kind)
		switch kind {
		case tipstaff.KindEffectIntended, tipstaff.KindEffectSent, tipstaff.KindEffectGiven, tipstaff.KindEffectFinished:
		default:
			return nil
		}
		e, err := parse(ctx, src, s)
		if err != nil || e.Path != path {
			return err
		}
		switch kind {
		case tipstaff.KindEffectIntended:
			*t = callTrace{intended: tipstaff.BodyOf[tipstaff.Effect](&e)}
		case tipstaff.KindEffectSent:
			t.hosts = append(t.hosts, tipstaff.BodyOf[tipstaff.EffectSent](&e).Host)
		case tipstaff.KindEffectGiven:
			if t.given == nil {
				given := tipstaff.BodyOf[tipstaff.EffectGiven](&e)
				t.given = &given
			}
		case tipstaff.KindEffectFinished:
			outcome := callOutcome(tipstaff.BodyOf[tipstaff.Effect](&e))
			t.outcome = &outcome
		}
		return nil
	})
	return t, err
}

// callOutcome is the recorded end of a call.
type callOutcome tipstaff.Effect

// is reports whether a result is the one that was recorded.
func (o *callOutcome) is(r *tipstaff.HostResult) bool {
	if r.Error != nil || o.Error != nil {
		return r.Error != nil && o.Error != nil && o.Error.Code == r.Error.Code && o.Error.Message == r.Error.Message
	}
	var value remoteValue
	return json.Unmarshal(o.Value, &value) == nil && sameText(value.Output, r.Output) && sameText(value.Control, r.Control)
}

// givenAt is the result that a record of a run says was brought for a call.
func givenAt(ctx context.Context, src source, run string, seq int64) (*tipstaff.GivenResult, error) {
	e, err := eventAt(ctx, src, run, seq)
	if err == nil {
		err = attach(ctx, src, e)
	}
	if err != nil {
		return nil, err
	}
	b := tipstaff.BodyOf[tipstaff.EffectGiven](e)
	given := &tipstaff.GivenResult{Host: b.From}
	if b.Error != nil {
		given.Error = &tipstaff.HostError{Code: b.Error.Code, Message: b.Error.Message, Retryable: b.Error.Retry}
		return given, nil
	}
	var value remoteValue
	err = json.Unmarshal(b.Value, &value)
	given.Output, given.Control = value.Output, value.Control
	return given, err
}

// sameText compares JSON as hosts and journals write it.
func sameText(a, b json.RawMessage) bool {
	return len(a) == 0 && len(b) == 0 || len(a) > 0 && len(b) > 0 && bytes.Equal(flow.JSON(a), flow.JSON(b))
}

// Reserve implements [tipstaff.Host].
func (h *host) Reserve(ctx context.Context, call string, use tipstaff.Usage) (bound string, err error) {
	if use.LLMCalls < 0 || use.ToolCalls < 0 || use.TokensIn < 0 || use.TokensOut < 0 || use.CostUSD < 0 {
		return "", tipstaff.Errorf(tipstaff.InvalidArgument, "nobody can reserve less than nothing")
	}
	h.pool.mu.Lock()
	c := h.pool.calls[call]
	// One that was lost with its host, or with the process before this one, is still its.
	mine := c != nil && (c.at == h || c.at == nil && slices.Contains(c.given, h.id) && h.serves(c.owners))
	h.pool.mu.Unlock()
	if !mine {
		return "", tipstaff.Errorf(tipstaff.WrongState, "host %s does not have call %s", h.id, shortened(call))
	}
	ask := reservation{granted: make(chan error, 1), use: useOf(usageOf(use))}
	select {
	case c.asks <- ask:
		err := <-ask.granted
		var refused *flow.Error
		if errors.As(err, &refused) && refused.Bound != "" {
			return refused.Bound, nil
		}
		return "", explain(err, tipstaff.ID{})
	case <-c.over:
		return "", tipstaff.Errorf(tipstaff.WrongState, "call %s is over", shortened(call))
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// codeForm is what a host may call a failure.
var codeForm = regexp.MustCompile(`^[a-z][a-z0-9_.:-]{0,63}$`)

// engineCodes are what only the engine says of a call: an agent that says so means
// something else.
var engineCodes = []string{flow.CodeBoundExceeded, flow.CodeDeadline, flow.CodeInDoubt, flow.CodeInternal, flow.CodeHistoryTooLong, flow.CodeResultTooLarge}

// failure is the error of a call whose agent failed: an answer like another. One that
// failed because it was refused more ends at that bound.
func (c *remoteCall) failure() *flow.Error {
	e := c.result.Error
	switch {
	case e.Code == flow.CodeBoundExceeded && c.refused != nil:
		return &flow.Error{Code: flow.CodeBoundExceeded, Bound: c.refused.Bound, Message: c.refused.Message, Answered: true}
	case !codeForm.MatchString(e.Code) || slices.Contains(engineCodes, e.Code):
		return &flow.Error{Code: "agent_error", Message: strings.TrimPrefix(e.Code+": "+e.Message, ": "), Retry: e.Retryable, Answered: true}
	}
	return &flow.Error{Code: e.Code, Message: e.Message, Retry: e.Retryable, Answered: true}
}
