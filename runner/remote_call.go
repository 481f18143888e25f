package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// placeOf is the run and the path that a call's id names. No path has a ~ in it.
func placeOf(call string) (run, path string, ok bool) {
	run, path, ok = strings.Cut(call, "/")
	path, _, _ = strings.Cut(path, "~")
	if _, err := tipstaff.ParseID(run); err != nil || path == "" {
		return "", "", false
	}
	return run, path, ok
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

// awaitHost returns when a host of the agent has room.
func (d *hostPool) awaitHost(ctx context.Context, o owners, agent string, class flow.Class, wait time.Duration) error {
	_, err := d.search(ctx, o, agent, wait, func(h *host) error {
		if declared := h.agents[agent].class; strictness(declared) > strictness(class) {
			return &flow.Error{Code: codeEffectConflict, NotSent: true, Message: fmt.Sprintf(
				"the hosts of agent %s say that its effect is %s, the pipeline says %s: it would be repeated where it must not be", agent, declared, class)}
		}
		return nil
	})
	return err
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
	d.each(run, func(c *remoteCall) {
		settles := func(draft flow.Draft) bool {
			return draft.Path == c.Path && (draft.Kind == string(tipstaff.KindEffectFinished) || draft.Kind == string(tipstaff.KindEffectFailed))
		}
		if c.ended && slices.ContainsFunc(drafts, settles) {
			d.forget(c, err)
		}
	})
}

// errUnrecorded is what becomes of a result whose drive ended before it was written.
var errUnrecorded = errors.New("the drive has ended")

// leaveRun is when a drive has ended: no result that it has not recorded counts.
func (d *hostPool) leaveRun(run string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.each(run, func(c *remoteCall) { d.forget(c, errUnrecorded) })
}

// each is for the calls of one run. Called with mu held.
func (d *hostPool) each(run string, f func(*remoteCall)) {
	for _, c := range d.calls {
		if c.Run.String() == run {
			f(c)
		}
	}
}
