package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
)

// phaseHold is the segment of a pipeline run that is a draft: it is changed by its
// owners, and nothing of it is driven.
const phaseHold = "hold"

// pipelineDraftProgram is that of a draft.
type pipelineDraftProgram struct{ *common }

func (p *pipelineDraftProgram) root() string                              { return "" }
func (p *pipelineDraftProgram) terminal(out flow.Outcome) tipstaff.Ending { return pipelineEnd(out) }
func (p *pipelineDraftProgram) count(a *account, ev *evidence)            { a.countStages(ev) }

func (p *pipelineDraftProgram) flow(flow.Context, json.RawMessage) (json.RawMessage, error) {
	return nil, errors.New("a draft is not driven")
}

func (p *pipelineDraftProgram) next(context.Context, *transition, json.RawMessage, bool) error {
	return errors.New("a draft does not go on by itself")
}

// beside: a draft on which a single agent works cannot be ended.
func (p *pipelineDraftProgram) beside(ctx context.Context, r *Runner, _ flow.Outcome) (*flow.Beside, error) {
	_, err := r.openPipelineDraft(ctx, p.run)
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

// pipelineDraft is a draft as its records leave it. It follows from them alone: whoever
// starts, shows or verifies it computes the same.
type pipelineDraft struct {
	run     string
	made    *draftBody // as it was made
	updates []tipstaff.DraftUpdated
	head    int64 // the last record that was read

	draft  draftBody          // with the program that is in force
	pipe   *pipeline.Pipeline // nil: it has none yet
	env    *pipeline.Envelope
	locked string // the run of the agent that works on it; "": none does
	edited string // what it asks because of who has changed it, whatever its program is
}

// readPipelineDraft reads a draft up to its start or its head.
func readPipelineDraft(ctx context.Context, src source, run string) (*pipelineDraft, error) {
	draft, err := readDraft(ctx, src, run)
	if err != nil {
		return nil, err
	}
	var events []tipstaff.Event
	err = eachRecord(ctx, src, run, 0, func(s flow.Stored) error {
		e, err := parse(ctx, src, s)
		if err == nil && e.Kind == tipstaff.KindRunContinued {
			err = errEnough
		}
		if err == nil {
			events = append(events, e)
		}
		return err
	})
	if err != nil && err != errEnough {
		return nil, err
	}
	return foldPipelineDraft(ctx, src, run, draft, events)
}

// foldPipelineDraft adds up the records of a draft.
func foldPipelineDraft(ctx context.Context, src source, run string, draft *draftBody, events []tipstaff.Event) (*pipelineDraft, error) {
	if !draft.Hold || draft.Pipeline == nil {
		return nil, tipstaff.Errorf(tipstaff.WrongState, "run %s was never a draft", run)
	}
	d := &pipelineDraft{run: run, made: draft}
	for i := range events {
		d.head = events[i].Seq
		if events[i].Kind != tipstaff.KindDraftUpdated {
			continue
		}
		var u tipstaff.DraftUpdated
		if err := json.Unmarshal(events[i].Body, &u); err != nil {
			return nil, fmt.Errorf("record %d cannot be read: %w", events[i].Seq, err)
		}
		d.updates = append(d.updates, u)
	}
	return d.with(ctx, src)
}

// with is the draft with more updates. What its Envelope says of the program is that of
// the last one.
func (d *pipelineDraft) with(ctx context.Context, src source, more ...tipstaff.DraftUpdated) (*pipelineDraft, error) {
	next := &pipelineDraft{run: d.run, made: d.made, head: d.head, draft: *d.made, updates: append(slices.Clip(d.updates), more...)}
	status := *d.made.Pipeline
	next.draft.Pipeline = &status
	for _, u := range next.updates {
		if u.ProgramDigest != "" {
			next.draft.ProgramDigest, next.draft.Bounds, next.draft.Frozen, next.draft.Asks = u.ProgramDigest, u.Bounds, u.Frozen, u.Asks
		} else {
			next.edited = joinAsks(next.edited, u.Asks)
			next.draft.Asks = joinAsks(next.draft.Asks, u.Asks)
		}
		status.Thread = cmp.Or(u.Thread, status.Thread)
	}
	if digest := next.draft.ProgramDigest; digest != "" {
		canonical, err := src.Blob(ctx, digest)
		if err != nil {
			return nil, fmt.Errorf("the program of run %s is not there: %w", d.run, err)
		}
		if next.pipe, err = pipeline.Load(canonical); err != nil {
			return nil, fmt.Errorf("the program of run %s cannot be read: %w", d.run, err)
		}
	}
	var err error
	if next.env, err = firstEnvelope(ctx, src, d.run, &next.draft, next.pipe); err != nil {
		return nil, err
	}
	next.env.Version = 1
	for i := range next.updates {
		if err := next.update(&next.updates[i]); err != nil {
			return nil, err
		}
	}
	return next, nil
}

func (d *pipelineDraft) update(u *tipstaff.DraftUpdated) error {
	d.env.Version, d.env.ThreadID = u.Version, cmp.Or(u.Thread, d.env.ThreadID)
	switch {
	case u.Locked != "":
		d.locked = u.Locked
	case u.Unlocked != "":
		d.locked = ""
	}
	if u.Value == nil {
		return nil
	}
	var c change
	if err := json.Unmarshal(u.Value, &c); err != nil {
		return fmt.Errorf("a change of run %s cannot be read: %w", d.run, err)
	}
	return d.apply(&c)
}

// changed applies a change and is the record of it.
func (d *pipelineDraft) changed(c *change, by string) (*tipstaff.DraftUpdated, error) {
	if err := d.apply(c); err != nil {
		return nil, err
	}
	if err := fitsEnvelope(d.env); err != nil {
		return nil, err
	}
	names := []string{}
	for _, key := range slices.Concat(slices.Sorted(maps.Keys(c.Outputs)), c.Remove) {
		names = append(names, "outputs."+key)
	}
	for _, key := range slices.Sorted(maps.Keys(c.Metadata)) {
		names = append(names, "metadata."+key)
	}
	if c.Usage != nil || c.Hops > 0 {
		names = append(names, "usage")
	}
	d.env.Version++
	return &tipstaff.DraftUpdated{Version: d.env.Version, Changed: names, Value: flow.JSON(c), DraftUsed: flow.DraftUsed{Used: d.used()}, By: by}, nil
}

// apply makes a change. What an Envelope may not hold is refused with its path, and
// nothing is changed. What it says was used counts in the Envelope and in the ledger.
func (d *pipelineDraft) apply(c *change) error {
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
	if u := c.Usage; u != nil && min(u.LLMCalls, u.ToolCalls, u.TokensIn, u.TokensOut, u.CostUSD) < 0 {
		return tipstaff.Errorf(tipstaff.InvalidArgument, "what was used cannot be less than nothing: counters only grow")
	}
	e := d.env
	maps.Copy(e.Outputs, outputs)
	for _, key := range c.Remove {
		delete(e.Outputs, key)
	}
	e.MergeMetadata(metadata)
	e.AgentHopCount = saturate(e.AgentHopCount, c.Hops)
	if u := c.Usage; u != nil {
		e.LLMCallCount = saturate(e.LLMCallCount, u.LLMCalls)
		e.ToolCallCount = saturate(e.ToolCallCount, u.ToolCalls)
		e.TokensIn = saturate(e.TokensIn, u.TokensIn)
		e.TokensOut = saturate(e.TokensOut, u.TokensOut)
		e.CostUSD = tipstaff.USD(saturate(int64(e.CostUSD), u.CostUSD))
	}
	return nil
}

// used is what the draft has used, by the ledger's names; what is nothing is left out.
func (d *pipelineDraft) used() flow.Use {
	e := d.env
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
	return math.MaxInt64
}

// segment is what a draft that is started goes on with.
func (d *pipelineDraft) segment(intentHash, acceptedBy string) segment {
	return segment{Phase: phaseWalk, Latest: 1, Begins: pipeline.EncodeEnvelope(d.env),
		Revision: revision{Number: 1, ProgramDigest: d.draft.ProgramDigest, IntentHash: intentHash, AcceptedBy: acceptedBy,
			Bounds: d.draft.Bounds, Frozen: d.draft.Frozen, Asks: d.draft.Asks}}
}

// verify checks the part of a run in which it was a draft: every change counts on
// from the one before, and what was started is what they add up to.
func (p *pipelineDraftProgram) verify(j *judge, parts []part, _ func(tipstaff.Event)) (outcome string, more bool) {
	was := &parts[0]
	events := slices.Clone(was.events)
	var err error
	for i := range events {
		err = cmp.Or(err, attach(j.ctx, j.src, &events[i]))
	}
	if err == nil {
		err = j.changes(p.common, events)
	}
	if err != nil {
		j.fault("draft_mismatch", was.events[0].Seq, "", "%v", err)
		return string(flow.Interrupted), true
	}
	if len(parts) > 1 {
		continued := &parts[1].events[0]
		if err := j.begun(p.common, events, continued); err != nil {
			j.fault("draft_mismatch", continued.Seq, "", "%v", err)
		}
		return string(flow.ParkedRun), true
	}
	if was.history.Ended != "" {
		j.ending(was.history, p, flow.Outcome{Status: was.history.Ended})
		j.cancel(nil)
		return string(was.history.Ended), true
	}
	return string(flow.ParkedRun), true
}

// changes follows a draft from record to record.
func (j *judge) changes(p *common, events []tipstaff.Event) error {
	d, err := foldPipelineDraft(j.ctx, j.src, p.run, &p.draft, nil)
	if err != nil {
		return err
	}
	for i := range events {
		e := &events[i]
		if e.Kind != tipstaff.KindDraftUpdated {
			continue
		}
		var u tipstaff.DraftUpdated
		if err := json.Unmarshal(e.Body, &u); err != nil {
			return err
		}
		had, locked := d.env.Version, d.locked
		if err := d.update(&u); err != nil {
			return err
		}
		want := had + 1
		if u.Locked != "" { // which changes nothing
			want = had
		}
		if u.Version != want {
			j.fault("draft_mismatch", e.Seq, "", "the draft has version %d after version %d", u.Version, had)
		}
		if u.Value != nil && !maps.Equal(u.Used, d.used()) {
			j.fault("draft_mismatch", e.Seq, "", "it says that %v was used, but the changes add up to %v", u.Used, d.used())
		}
		if u.Unlocked != locked {
			j.fault("draft_mismatch", e.Seq, "", "it is changed by run %q while it is locked by run %q", u.Unlocked, locked)
		}
		if u.Unlocked != "" {
			if err := j.agentResult(&u); err != nil {
				j.fault("draft_mismatch", e.Seq, "", "%v", err)
			}
		}
	}
	return nil
}

// agentResult checks that a draft was given what the run of a single agent came to.
// An export of the draft does not have that run.
func (j *judge) agentResult(u *tipstaff.DraftUpdated) error {
	store, ok := j.src.(rows)
	if !ok {
		return nil
	}
	row, err := store.Run(j.ctx, u.Unlocked)
	if err != nil || !tipstaff.State(row.State).Terminal() {
		return fmt.Errorf("run %s, which it is said to come from, has not ended: %v", u.Unlocked, err)
	}
	p, err := stateAt(j.ctx, j.src, u.Unlocked, 0)
	if err != nil {
		return err
	}
	h, err := segmentOf(j.ctx, j.src, u.Unlocked, 0)
	if err != nil {
		return err
	}
	if want := flow.JSON(p.result(flow.Outcome{Status: flow.Status(row.State), Tally: flow.Totals(h, p.limits)})); !sameJSON(u.Value, want) {
		return fmt.Errorf("from run %s: %s", u.Unlocked, differing(u.Value, want))
	}
	return nil
}

// begun checks that a run began with its draft, and with the program and the bounds
// that were accepted for it.
func (j *judge) begun(p *common, events []tipstaff.Event, continued *tipstaff.Event) error {
	d, err := foldPipelineDraft(j.ctx, j.src, p.run, &p.draft, events)
	if err != nil {
		return err
	}
	var accepted tipstaff.IntentAccept
	var proposed tipstaff.PlanProposed
	for i := range events {
		switch e := &events[i]; e.Kind {
		case tipstaff.KindIntentAccept:
			accepted = tipstaff.BodyOf[tipstaff.IntentAccept](e)
		case tipstaff.KindPlanProposed:
			proposed = tipstaff.BodyOf[tipstaff.PlanProposed](e)
		}
	}
	if proposed.ProgramDigest != d.draft.ProgramDigest || !maps.Equal(accepted.Bounds, d.draft.Bounds) {
		j.fault("draft_mismatch", continued.Seq, "", "program %s within %v was accepted, but the draft has %s within %v",
			proposed.ProgramDigest, accepted.Bounds, d.draft.ProgramDigest, d.draft.Bounds)
	}
	state, err := attached(j.ctx, j.src, tipstaff.BodyOf[tipstaff.RunContinued](continued).State)
	if want := flow.JSON(d.segment(proposed.IntentHash, proposed.AcceptedBy)); err != nil || !sameJSON(state, want) {
		return errors.New(differing(state, want))
	}
	return nil
}
