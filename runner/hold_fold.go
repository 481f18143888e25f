package runner

import (
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

// phaseHold is the segment of a pipeline run that is a draft: it is changed by those
// who hold it, and nothing of it is driven.
const phaseHold = "hold"

// heldProgram is that of a draft.
type heldProgram struct{ *common }

func (p *heldProgram) root() string                              { return "" }
func (p *heldProgram) terminal(out flow.Outcome) tipstaff.Ending { return pipelineEnd(out) }
func (p *heldProgram) count(a *account, ev *evidence)            { a.countStages(ev) }

func (p *heldProgram) flow(flow.Context, json.RawMessage) (json.RawMessage, error) {
	return nil, errors.New("a draft is not driven")
}

func (p *heldProgram) next(context.Context, *transition, json.RawMessage, bool) error {
	return errors.New("a draft does not go on by itself")
}

// beside: a draft on which a single agent works cannot be ended.
func (p *heldProgram) beside(ctx context.Context, r *Runner, _ flow.Outcome) (*flow.Beside, error) {
	_, err := r.openHeld(ctx, p.run)
	return nil, err
}

// change is what is put into a draft.
type change struct {
	Outputs  map[string]json.RawMessage `json:"outputs,omitempty"` // by output key
	Remove   []string                   `json:"remove,omitempty"`  // output keys
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
	Usage    *tipstaff.Usage            `json:"usage,omitempty"`
	Hops     int64                      `json:"agent_hops,omitempty"`
}

// held is a draft as its records leave it. It follows from them alone: whoever
// starts, shows or verifies it computes the same.
type held struct {
	run     string
	draft   draftBody // with the program that is in force
	env     *pipeline.Envelope
	used    flow.Use
	locked  string // the run of the agent that works on it; "": none does
	version int64
	head    int64 // the last record that was read
}

// readHeld reads a draft up to its start or its head.
func readHeld(ctx context.Context, src source, run string) (*held, error) {
	draft, err := readDraft(ctx, src, run)
	if err != nil {
		return nil, err
	}
	var events []tipstaff.Event
	err = eachRecord(ctx, src, run, 0, func(s flow.Stored) error {
		e, err := parse(ctx, src, s)
		if err != nil {
			return err
		}
		if e.Kind == tipstaff.KindRunContinued {
			return errEnough
		}
		events = append(events, e)
		return nil
	})
	if err != nil && err != errEnough {
		return nil, err
	}
	return foldHeld(ctx, src, run, draft, events)
}

// foldHeld adds up the records of a draft.
func foldHeld(ctx context.Context, src source, run string, draft *draftBody, events []tipstaff.Event) (*held, error) {
	if !draft.Hold {
		return nil, tipstaff.Errorf(tipstaff.WrongState, "run %s was never a draft", run)
	}
	h := &held{run: run, draft: *draft, used: flow.Use{}, version: 1}
	var updates []tipstaff.DraftUpdated
	for i := range events {
		h.head = events[i].Seq
		if events[i].Kind != tipstaff.KindDraftUpdated {
			continue
		}
		var u tipstaff.DraftUpdated
		if err := json.Unmarshal(events[i].Body, &u); err != nil {
			return nil, fmt.Errorf("record %d cannot be read: %w", events[i].Seq, err)
		}
		updates = append(updates, u)
		if u.ProgramDigest != "" {
			h.draft.ProgramDigest, h.draft.Bounds, h.draft.Frozen, h.draft.Asks = u.ProgramDigest, u.Bounds, u.Frozen, u.Asks
		}
		h.join(u.Thread)
	}
	// What an Envelope says of its program is that of the last one.
	if err := h.begin(ctx, src); err != nil {
		return nil, err
	}
	for i := range updates {
		if err := h.update(&updates[i]); err != nil {
			return nil, err
		}
	}
	h.env.Version = h.version
	return h, nil
}

// join puts the draft into a thread; "": it stays where it is.
func (h *held) join(thread string) {
	if thread != "" {
		own := *h.draft.Pipeline
		own.Thread = thread
		h.draft.Pipeline = &own
	}
}

func (h *held) begin(ctx context.Context, src source) error {
	var pipe *pipeline.Pipeline
	if digest := h.draft.ProgramDigest; digest != "" {
		canonical, err := src.Blob(ctx, digest)
		if err != nil {
			return fmt.Errorf("the program of run %s is not there: %w", h.run, err)
		}
		if pipe, err = pipeline.Load(canonical); err != nil {
			return fmt.Errorf("the program of run %s cannot be read: %w", h.run, err)
		}
	}
	var err error
	h.env, err = firstEnvelope(ctx, src, h.run, &h.draft, pipe)
	return err
}

func (h *held) update(u *tipstaff.DraftUpdated) error {
	h.version = u.Version
	if u.Thread != "" {
		h.join(u.Thread)
		h.env.ThreadID = u.Thread
	}
	switch {
	case u.Locked != "":
		h.locked = u.Locked
	case u.Unlocked != "":
		h.locked = ""
	}
	if u.Value == nil {
		return nil
	}
	var c change
	if err := json.Unmarshal(u.Value, &c); err != nil {
		return fmt.Errorf("a change of run %s cannot be read: %w", h.run, err)
	}
	return h.apply(&c)
}

// apply makes a change. What an Envelope may not hold is refused with its path, and
// nothing is changed.
func (h *held) apply(c *change) error {
	outputs := map[string]map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(c.Outputs)) {
		o, err := pipeline.DecodeObject(c.Outputs[key])
		if err != nil {
			return tipstaff.Errorf(tipstaff.InvalidArgument, "outputs.%s: %v", key, err)
		}
		if key == "" {
			return tipstaff.Errorf(tipstaff.InvalidArgument, "an output has a key")
		}
		outputs[key] = o
	}
	metadata, err := values(c.Metadata)
	if err != nil {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "metadata.%v", err)
	}
	if err := c.checkUse(); err != nil {
		return err
	}
	maps.Copy(h.env.Outputs, outputs)
	for _, key := range c.Remove {
		delete(h.env.Outputs, key)
	}
	h.env.MergeMetadata(metadata)
	h.spend(c)
	return nil
}

func (c *change) checkUse() error {
	if u := c.Usage; u != nil && min(u.LLMCalls, u.ToolCalls, u.TokensIn, u.TokensOut, u.CostUSD) < 0 {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "what was used cannot be less than nothing: counters only grow")
	}
	return nil
}

// spend counts what a change says was used, in the Envelope and in the ledger.
func (h *held) spend(c *change) {
	e := h.env
	e.AgentHopCount = saturate(e.AgentHopCount, c.Hops)
	if u := c.Usage; u != nil {
		e.LLMCallCount = saturate(e.LLMCallCount, u.LLMCalls)
		e.ToolCallCount = saturate(e.ToolCallCount, u.ToolCalls)
		e.TokensIn = saturate(e.TokensIn, u.TokensIn)
		e.TokensOut = saturate(e.TokensOut, u.TokensOut)
		e.CostUSD = tipstaff.USD(saturate(int64(e.CostUSD), u.CostUSD))
	}
	h.used = spentBy(e)
}

// spentBy is what an Envelope has used, by the ledger's names; what is nothing is
// left out.
func spentBy(e *pipeline.Envelope) flow.Use {
	used := flow.Use{tipstaff.BoundAgentHops: e.AgentHopCount, tipstaff.BoundIterations: e.Iteration, tipstaff.BoundModelCalls: e.LLMCallCount,
		tipstaff.BoundToolCalls: e.ToolCallCount, tipstaff.BoundTokens: saturate(e.TokensIn, e.TokensOut), tipstaff.BoundCostUSD: int64(e.CostUSD)}
	maps.DeleteFunc(used, func(_ string, n int64) bool { return n == 0 })
	return used
}

// saturate is a + b, or the largest number there is.
func saturate(a, b int64) int64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return 1<<63 - 1
}

// segment is what a draft that is started goes on with.
func (h *held) segment(intentHash, acceptedBy string) segment {
	return segment{Phase: phaseWalk, Latest: 1, Begins: pipeline.EncodeEnvelope(h.env),
		Revision: revision{Number: 1, ProgramDigest: h.draft.ProgramDigest, IntentHash: intentHash, AcceptedBy: acceptedBy,
			Bounds: h.draft.Bounds, Frozen: h.draft.Frozen, Asks: h.draft.Asks}}
}
