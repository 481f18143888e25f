package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
)

// remoteActivity has an agent of another process do a stage.
const remoteActivity = "stage.remote"

// Why a remote agent was not asked.
const (
	codeAgentUnavailable = "agent_unavailable"
	codeEffectConflict   = "effect_conflict"
)

// remoteInput is what the record of a call holds. The Envelope that the host is
// shown is in it by its digest: a loop would otherwise store it with every visit.
type remoteInput struct {
	Agent   string          `json:"agent"`
	Visit   int             `json:"visit"`
	Attempt int             `json:"attempt"`
	Input   json.RawMessage `json:"input"`
	View    string          `json:"view"`
}

// remoteValue is what a call brought. Whoever answers an in_doubt gate with
// use_result gives the output alone; in runs from before rulesKept, one of these.
type remoteValue struct {
	Output  json.RawMessage     `json:"output"`
	Control json.RawMessage     `json:"control,omitempty"`
	Usage   tipstaff.StageUsage `json:"usage"`
}

// remoteLocal is what a host is given besides the input of its call, which names the
// Envelope only.
type remoteLocal struct {
	view   *pipeline.Envelope
	budget map[string]int64
	wait   time.Duration // for a host to appear
}

// remotePerformer has a host do the stage.
type remotePerformer struct{ agentless }

// Activities implements [Performer].
func (remotePerformer) Activities(env *Environment) map[string]flow.Activity {
	return map[string]flow.Activity{remoteActivity: env.r.hosts.activity(env.program.shared().draft.owners())}
}

// Perform implements [Performer].
func (remotePerformer) Perform(fc flow.Context, t *Task) (res Result, err error) {
	s := t.stage
	call := flow.Call{Name: remoteActivity, Class: t.Effect, Timeout: t.Timeout,
		Input: flow.JSON(remoteInput{Agent: t.Name, Visit: s.Visit, Attempt: s.Attempt, Input: t.Args, View: s.View.DataDigest()}),
		Local: remoteLocal{s.View.Ordered(t.pipe.pipe.Pipeline), s.Budget, s.Agent.Remote.Wait}}
	r, err := fc.Do(call)
	if err == nil && r.By == "" { // the activity has written it; what a person gives may be anything
		err = flow.Decode(fc, call, r, new(remoteValue))
	}
	if err != nil {
		return res, err
	}
	if r.By != "" && t.pipe.draft.Rules >= rulesKept {
		r.Value = flow.JSON(remoteValue{Output: r.Value})
	}
	if res.Output, res.Control, err = readRemote(r.Value); err != nil {
		return res, &pipeline.StageError{Code: "output_invalid", Message: err.Error(), Retryable: true}
	}
	return res, nil
}

func readRemote(raw json.RawMessage) (out map[string]any, control *pipeline.Control, err error) {
	var v remoteValue
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, nil, fmt.Errorf("what the agent brought cannot be read: %w", err)
	}
	if len(v.Output) == 0 {
		v.Output = json.RawMessage("{}")
	}
	if out, err = pipeline.DecodeObject(v.Output); err != nil {
		return nil, nil, fmt.Errorf("output: %w", err)
	}
	if len(v.Control) == 0 {
		return out, nil, nil
	}
	said, err := pipeline.DecodeObject(v.Control)
	if err != nil {
		return nil, nil, fmt.Errorf("control: %w", err)
	}
	control, err = pipeline.ReadControl(said)
	return out, control, err
}

// activity makes the calls of one run's remote stages to the hosts of its owners.
//
// Check waits for a host, so that a run that is told to stop meanwhile leaves nothing
// in doubt; Run places the call and answers with what the host brings.
func (d *hostPool) activity(o owners) flow.Activity {
	return flow.Activity{
		Check: func(ctx context.Context, a flow.Attempt) error {
			var in remoteInput
			if err := json.Unmarshal(a.Input, &in); err != nil {
				return err
			}
			_, err := d.search(ctx, o, in.Agent, a.Local.(remoteLocal).wait, func(h *host) error {
				if declared := h.agents[in.Agent].class; strictness(declared) > strictness(a.Class) {
					return &flow.Error{Code: codeEffectConflict, NotSent: true, Message: fmt.Sprintf(
						"the hosts of agent %s say that its effect is %s, the pipeline says %s: it would be repeated where it must not be", in.Agent, declared, a.Class)}
				}
				return nil
			})
			return err
		},
		Run: func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
			c, err := newRemoteCall(ctx, o, a)
			if err != nil {
				return flow.Done{}, &flow.Error{Code: flow.CodeInternal, Message: err.Error(), NotSent: true}
			}
			defer d.begin(c)()
			return d.perform(ctx, c, a)
		},
		Recall: func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
			c, err := newRemoteCall(ctx, o, a)
			if err != nil {
				return flow.Done{}, err
			}
			known, err := traceCall(ctx, d.store, a.Run, a.Path)
			if err != nil {
				return flow.Done{}, err
			}
			c.left, c.given = true, known.hosts
			defer d.begin(c)()
			return d.missing(ctx, c, a)
		},
		Stops: func(flow.Attempt) bool { return true },
	}
}

// perform takes a call to its answer. A host that is lost with it is replaced, if the
// call may be repeated, while the attempt lasts; else it may come back in time.
func (d *hostPool) perform(ctx context.Context, c *remoteCall, a flow.Attempt) (flow.Done, error) {
	wait := c.wait
	for {
		h, err := d.search(ctx, c.owners, c.Agent, wait, func(h *host) error { h.give(c); return nil })
		if err != nil {
			return flow.Done{}, err
		}
		if c.class == flow.Once { // who may bring the result, should this process not live to take it
			a.Note(flow.Event{Kind: string(tipstaff.KindEffectSent), Body: tipstaff.EffectSent{Attempt: a.N, Host: h.id}})
		}
		err = c.attend(ctx, a, h.gone)
		switch {
		case err == nil:
			return c.done()
		case ctx.Err() != nil:
			return d.stopped(ctx, c, a)
		case c.class == flow.Once:
			return d.missing(ctx, c, a)
		}
		d.withdraw(c)
		wait = untilDeadline
	}
}

// untilDeadline is longer than any attempt.
const untilDeadline = 365 * 24 * time.Hour

var errHostLost = errors.New("the host was lost")

// attend waits for the answer of the host, and gets it more of the run's bounds if it
// asks. Here and nowhere else the attempt is used.
func (c *remoteCall) attend(ctx context.Context, a flow.Attempt, gone <-chan struct{}) error {
	for {
		select {
		case <-c.came:
			return nil
		case ask := <-c.asks:
			ask.granted <- c.reserve(a, ask.use)
		case <-gone:
			return errHostLost
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// reserve is durable before the host hears of it: else it could spend what nobody
// would charge.
func (c *remoteCall) reserve(a flow.Attempt, use flow.Use) error {
	err := a.Reserve(use)
	var refusal *flow.Error
	if errors.As(err, &refusal) {
		c.refused = refusal
	}
	if err != nil {
		return err
	}
	for bound, n := range use {
		c.granted[bound] += n
	}
	return a.Sync()
}

// stopped is for a call whose time is over: the host is told. One that must not be
// repeated may still answer, unless it took too long already; a server that stops
// does not even ask it to give up.
func (d *hostPool) stopped(ctx context.Context, c *remoteCall, a flow.Attempt) (flow.Done, error) {
	cause := context.Cause(ctx)
	var limit *flow.Error
	var stop *flow.Stop
	awaited := c.class == flow.Once && !errors.As(cause, &limit)
	if !awaited || !errors.As(cause, &stop) {
		d.tellToStop(c, cause)
	}
	if awaited {
		last, cancel := context.WithTimeout(context.Background(), d.grace)
		defer cancel()
		var gone <-chan struct{} // that host leaves
		d.mu.Lock()
		if c.at != nil {
			gone = c.at.gone
		}
		d.mu.Unlock()
		if c.attend(last, a, gone) == nil {
			return c.done()
		}
	}
	return flow.Done{}, cause
}

// missing is for a once call whose host is gone, or that a process before this one has
// left: that host, and no other, may come back with the answer in time.
func (d *hostPool) missing(ctx context.Context, c *remoteCall, a flow.Attempt) (flow.Done, error) {
	d.withdraw(c)
	patience, cancel := context.WithTimeoutCause(ctx, d.absent, errHostLost)
	defer cancel()
	if c.attend(patience, a, nil) == nil {
		return c.done()
	}
	host := "the host"
	if len(c.given) > 0 {
		host = "host " + c.given[len(c.given)-1]
	}
	return flow.Done{}, fmt.Errorf("%s was lost with the call and has not come back: %w", host, errHostLost)
}

// done is what the host brought as the outcome of the call: a definite one, whatever
// its class.
func (c *remoteCall) done() (flow.Done, error) {
	used := c.used()
	done := flow.Done{Use: useOf(used)}
	if c.result.Error != nil {
		return done, c.failure()
	}
	done.Value = flow.JSON(remoteValue{Output: c.result.Output, Control: c.result.Control, Usage: used})
	return done, nil
}

// used is what the host says that it used. Of what it says nothing about, all that was
// granted to it counts as used: the ledger charges it too.
func (c *remoteCall) used() tipstaff.StageUsage {
	u := usageOf(c.result.Usage)
	u.LLMCalls = cmp.Or(u.LLMCalls, c.granted[tipstaff.BoundModelCalls])
	u.ToolCalls = cmp.Or(u.ToolCalls, c.granted[tipstaff.BoundToolCalls])
	if u.TokensIn+u.TokensOut == 0 {
		u.TokensIn = c.granted[tipstaff.BoundTokens]
	}
	u.CostUSD = cmp.Or(u.CostUSD, tipstaff.USD(c.granted[tipstaff.BoundCostUSD]))
	return u
}

// usageOf is what a host tells, in the terms of pipelines.
func usageOf(u tipstaff.Usage) tipstaff.StageUsage {
	return tipstaff.StageUsage{LLMCalls: u.LLMCalls, ToolCalls: u.ToolCalls, TokensIn: u.TokensIn, TokensOut: u.TokensOut, CostUSD: tipstaff.USD(u.CostUSD)}
}

// useOf is use in the terms of the ledger.
func useOf(u tipstaff.StageUsage) flow.Use {
	use := flow.Use{}
	for name, n := range map[string]int64{tipstaff.BoundModelCalls: u.LLMCalls, tipstaff.BoundToolCalls: u.ToolCalls,
		tipstaff.BoundTokens: u.TokensIn + u.TokensOut, tipstaff.BoundCostUSD: int64(u.CostUSD)} {
		if n > 0 {
			use[name] = n
		}
	}
	return use
}
