package runner

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
)

// One agent of a draft can be run alone: in a run of its own, with what the draft has
// left to spend. The draft is locked meanwhile; the record that ends that run also
// puts into the draft what came of it.

const relationAgent = "agent"

// routing is what an agent has to do with others: one that runs alone has none.
var routing = []string{"routing_rules", "default_next", "error_next", "denied_next", "requires", "after", "join", "entry", "max_visits", "handoff"}

// ExecuteAgent runs one agent of a draft.
func (r *Runner) ExecuteAgent(ctx context.Context, req tipstaff.AgentRequest) (tipstaff.Started, error) {
	made := tipstaff.NewID(r.Now())
	row, err := r.openToChange(ctx, req.Run, tipstaff.ScopeRun, handedAgent(req).needs())
	if err == nil {
		err = r.mayBegin(ctx, row.User, false)
	}
	if err != nil {
		return tipstaff.Started{}, err
	}
	for {
		p, err := r.storeAgent(ctx, made, row.ID, req)
		switch {
		case err == nil:
			return r.beginNew(ctx, made, p.validated(), person{})
		case !errors.Is(err, errMoved):
			return tipstaff.Started{}, explain(err, req.Run)
		}
	}
}

// handedAgent is how one agent is handed over: the caller's own, or one of the draft's.
func handedAgent(req tipstaff.AgentRequest) handed {
	own := len(req.Document) > 0
	return handed{own: own, alone: !own}
}

// storeAgent makes the run of one agent, and locks the draft for it. errMoved: the draft
// has changed meanwhile.
func (r *Runner) storeAgent(ctx context.Context, made tipstaff.ID, draft string, req tipstaff.AgentRequest) (*prepared, error) {
	h, err := r.openPipelineDraft(ctx, draft)
	if err != nil {
		return nil, err
	}
	p, err := r.prepareAgent(ctx, h, req)
	if err != nil {
		return nil, err
	}
	body, err := r.freeze(ctx, p)
	if err != nil {
		return nil, err
	}
	how := handedAgent(req)
	how.of = h.draft.Asks
	if body.Asks, err = how.asks(ctx); err != nil {
		return nil, err
	}
	body.Parent = &tipstaff.RunParent{Run: h.run, Relation: relationAgent}
	more := r.accepted(ctx, body, p.text, via(req.Via))
	lock := &tipstaff.DraftUpdated{Version: h.env.Version, Changed: []string{}, By: actor(ctx), Locked: made.String()}
	if lock.Asks, err = h.edit(ctx, handed{}); err != nil { // what comes of it changes the draft's outputs
		return nil, err
	}
	more[len(more)-1].Beside = &flow.Beside{Run: h.run, Write: h.unmoved([]flow.Draft{updated(lock)})}
	return p, r.store(ctx, made, body, p.text, more)
}

// prepareAgent makes a pipeline of one agent, which begins with what the draft holds and
// may use what the draft has left.
func (r *Runner) prepareAgent(ctx context.Context, h *pipelineDraft, req tipstaff.AgentRequest) (*prepared, error) {
	doc, err := h.singleAgent(ctx, r.Store, req)
	if err != nil {
		return nil, err
	}
	inputs, err := h.inputs(ctx, r.Store)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"request_id", "thread_id", "stage_order"} { // which are the draft's
		delete(inputs, name)
	}
	metadata, outputs := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for key, v := range h.env.Metadata {
		metadata[key] = pipeline.EncodeValue(v)
	}
	for key, o := range h.env.Outputs {
		outputs[key] = pipeline.EncodeValue(o)
	}
	inputs["metadata"], inputs["outputs"] = flow.JSON(metadata), flow.JSON(outputs)
	bounds := maps.Clone(h.draft.Bounds)
	for name, used := range h.used() {
		if limit, ok := bounds[name]; ok {
			bounds[name] = max(0, limit-used)
		}
	}
	return r.prepare(ctx, tipstaff.StartRequest{Program: doc, Name: "agent " + req.Name, NoFiles: true, Inputs: inputs, Bounds: bounds})
}

// singleAgent is the document of a pipeline that has one agent and nobody to route to.
func (h *pipelineDraft) singleAgent(ctx context.Context, src source, a tipstaff.AgentRequest) ([]byte, error) {
	whole := map[string]json.RawMessage{"kind": flow.JSON(kindPipeline), "name": flow.JSON("agent")}
	var agent map[string]json.RawMessage
	if h.draft.ProgramDigest != "" {
		canonical, err := src.Blob(ctx, h.draft.ProgramDigest)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(canonical, &whole); err != nil {
			return nil, err
		}
		var list []map[string]json.RawMessage
		if err := json.Unmarshal(whole["agents"], &list); err != nil {
			return nil, fmt.Errorf("the agents of the draft cannot be read: %w", err)
		}
		named := func(of map[string]json.RawMessage) bool { return bytes.Equal(of["name"], flow.JSON(a.Name)) }
		if i := slices.IndexFunc(list, named); i >= 0 {
			agent = list[i]
		}
	}
	switch {
	case a.Document != nil:
		agent = nil // it takes the place of the draft's, if that has one of its name
		if err := json.Unmarshal(a.Document, &agent); err != nil || agent == nil {
			return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "the agent is not an object: %v", cmp.Or(err, errors.New("it is null")))
		}
		if agent["name"] == nil {
			agent["name"] = flow.JSON(a.Name)
		}
	case agent == nil:
		return nil, tipstaff.Errorf(tipstaff.AgentNotFound, "the draft has no agent %q", a.Name)
	}
	for _, name := range routing {
		delete(agent, name)
	}
	for _, name := range []string{"edge_limits", "clarification_resume_stage", "confirmation_resume_stage", "max_stages"} {
		delete(whole, name)
	}
	whole["agents"] = flow.JSON([]any{agent})
	return flow.JSON(whole), nil
}

// beside puts what came of a single agent's run into its draft. It follows from the
// records, whoever ends the run.
func (p *pipelineProgram) beside(ctx context.Context, r *Runner, out flow.Outcome) (*flow.Beside, error) {
	if !p.draft.single() {
		return nil, nil
	}
	stands, err := stateAt(ctx, r.Store, p.run, 0)
	if err != nil {
		return nil, err
	}
	h, err := readPipelineDraft(ctx, r.Store, p.draft.Parent.Run)
	if err != nil {
		return nil, err
	}
	if h.locked != p.run {
		return nil, fmt.Errorf("draft %s is not locked by run %s", h.run, p.run)
	}
	u, err := h.changed(stands.result(out), "run:"+p.run)
	if err != nil {
		return nil, err
	}
	u.Unlocked = p.run
	return &flow.Beside{Run: h.run, Write: h.unmoved([]flow.Draft{updated(u)})}, nil
}

// single reports whether the run is that of a single agent.
func (b *draftBody) single() bool { return b.Parent != nil && b.Parent.Relation == relationAgent }

// result is what a single agent's run gives to its draft: its output, if it came to
// one, what it has changed in the metadata, and what it has used.
func (p *pipelineProgram) result(out flow.Outcome) *change {
	e, used := p.state, out.Used
	c := &change{Hops: used[tipstaff.BoundAgentHops], Usage: &tipstaff.Usage{LLMCalls: used[tipstaff.BoundModelCalls], ToolCalls: used[tipstaff.BoundToolCalls],
		TokensIn: min(e.TokensIn, used[tipstaff.BoundTokens]), CostUSD: used[tipstaff.BoundCostUSD]}}
	c.Usage.TokensOut = used[tipstaff.BoundTokens] - c.Usage.TokensIn
	if out.Status != flow.Completed {
		return c
	}
	for _, a := range p.pipe.Agents { // there is one
		if o, ok := e.Outputs[a.OutputKey]; ok {
			c.Outputs = map[string]json.RawMessage{a.OutputKey: pipeline.EncodeValue(o)}
		}
	}
	var in pipelineInputs
	had := map[string][]byte{} // the metadata that the run began with, as it is encoded
	if json.Unmarshal(p.inputs, &in) == nil {
		for key, raw := range in.Metadata {
			if v, err := pipeline.Decode([]byte(raw)); err == nil {
				had[key] = pipeline.EncodeValue(v)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(e.Metadata)) {
		if now := pipeline.EncodeValue(e.Metadata[key]); !bytes.Equal(now, had[key]) {
			if c.Metadata == nil {
				c.Metadata = map[string]json.RawMessage{}
			}
			c.Metadata[key] = now
		}
	}
	return c
}

// via is how a program is accepted by the act that brings it.
func via(given string) string { return cmp.Or(given, "command") }
