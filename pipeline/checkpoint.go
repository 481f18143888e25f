package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// maxRecords is about how many records a segment has before the run continues in a
// new one: what a resume costs does not grow with the run.
const maxRecords = 1000

// pending is what a run carries from turn to turn beside its Envelope.
type pending struct {
	Turn        int64            `json:"turn"`
	Transitions int64            `json:"transitions"`
	Parent      string           `json:"parent,omitempty"` // the last checkpoint
	Closed      []string         `json:"closed,omitempty"` // stages that ended their branch; written down with the rest
	Entries     map[string]entry `json:"entries,omitempty"`
	Owed        int64            `json:"owed,omitempty"` // iterations that the ledger has not counted yet
	MoreEdges   []EdgeCount      `json:"more_edges,omitempty"`
	MoreVisits  map[string]int64 `json:"more_visits,omitempty"`
}

// entry is how a stage came into the frontier: what it is told when it starts.
type entry struct {
	Feedback string      `json:"feedback,omitempty"`
	Response *Response   `json:"response,omitempty"`
	Error    *StageError `json:"error,omitempty"`
	Granted  bool        `json:"granted,omitempty"` // beyond its visits
}

// MarshalJSON keeps the values of an answer as they are.
func (e entry) MarshalJSON() ([]byte, error) {
	type plain entry
	w := struct {
		plain
		Data json.RawMessage `json:"data,omitempty"`
	}{plain: plain(e)}
	if e.Response != nil && e.Response.Data != nil {
		r := *e.Response
		w.Data, r.Data, w.Response = EncodeValue(r.Data), nil, &r
	}
	return flow.JSON(w), nil
}

// UnmarshalJSON reads what MarshalJSON has written.
func (e *entry) UnmarshalJSON(raw []byte) error {
	type plain entry
	w := struct {
		*plain
		Data json.RawMessage `json:"data,omitempty"`
	}{plain: (*plain)(e)}
	if err := json.Unmarshal(raw, &w); err != nil || w.Data == nil || e.Response == nil {
		return err
	}
	v, err := Decode(w.Data)
	e.Response.Data = v
	return err
}

// and joins two ways into one stage: it runs once for both.
func (e entry) and(f entry) entry {
	switch {
	case e.Feedback == "":
		e.Feedback = f.Feedback
	case f.Feedback != "":
		e.Feedback += "\n\n" + f.Feedback
	}
	e.Response, e.Error = cmp.Or(f.Response, e.Response), cmp.Or(f.Error, e.Error)
	e.Granted = e.Granted || f.Granted
	return e
}

// boundary records that a turn is merged, and that nothing has followed from it yet.
// A run that was rolled back to here takes over what it inherits beside the journal.
func (x *executor) boundary(overwritten []tipstaff.Overwritten) error {
	x.saved, x.reset = "", nil
	x.digest = x.slots.digest(x.env)
	x.emit(tipstaff.KindTurnMerged, tipstaff.TurnMerged{Turn: x.Turn, Digest: x.digest, Version: x.env.Version, StageNumber: x.env.CurrentStageNumber, Overwritten: overwritten})
	s := x.state
	if s.StopAt != nil && *s.StopAt == x.Turn {
		return ErrBoundary
	}
	for len(s.Rollbacks) > 0 && s.Rollbacks[0].Turn == x.Turn {
		r := s.Rollbacks[0]
		s.Rollbacks = s.Rollbacks[1:]
		if err := x.rollBack(&r); err != nil {
			return err
		}
		if len(r.Enter) > 0 {
			x.followup = &r
		}
		if s.StopRolledBack && len(s.Rollbacks) == 0 {
			return flow.ErrParked
		}
	}
	return nil
}

// checkpointID names the boundary of a turn.
func (x *executor) checkpointID(turn int64) string {
	return "cp_" + x.env.RunID + "_" + strconv.FormatInt(turn, 10)
}

// checkpoint records the boundary of this turn as a place to come back to, once.
func (x *executor) checkpoint(v *visit) string {
	if x.saved != "" {
		return x.saved
	}
	x.saved = x.checkpointID(x.Turn)
	x.emit(tipstaff.KindCheckpointCreated, tipstaff.CheckpointCreated{ID: x.saved, Stage: v.agent.Name, Turn: x.Turn,
		Iteration: x.env.Iteration, Epoch: x.env.Epoch, ParentID: cmp.Or(x.Parent, x.checkpointID(0)), Digest: x.digest,
		Automatic: true, SizeBytes: x.dataSize()})
	x.Parent = x.saved
	return x.saved
}

// Counters are what a run that is rolled back from here takes over. transitions is
// the number of the last one that was recorded.
func (e *Envelope) Counters(transitions int64) Counters {
	return Counters{
		Iteration: e.Iteration, LLMCallCount: e.LLMCallCount, AgentHopCount: e.AgentHopCount, ToolCallCount: e.ToolCallCount,
		TokensIn: e.TokensIn, TokensOut: e.TokensOut, CostUSD: e.CostUSD,
		EdgeCounts: slices.Clone(e.EdgeCounts), Visits: maps.Clone(e.Visits),
		Transitions: transitions, StageNumber: e.CurrentStageNumber,
	}
}

// rollBack takes over identity, counters and edits. Counters never go down.
func (x *executor) rollBack(r *Rollback) error {
	e, c := x.env, r.Counters
	e.RunID, e.EnvelopeID, e.ThreadID = r.RunID, r.EnvelopeID, r.ThreadID
	e.Iteration = max(e.Iteration, c.Iteration)
	e.LLMCallCount = max(e.LLMCallCount, c.LLMCallCount)
	e.AgentHopCount = max(e.AgentHopCount, c.AgentHopCount)
	e.ToolCallCount = max(e.ToolCallCount, c.ToolCallCount)
	e.TokensIn = max(e.TokensIn, c.TokensIn)
	e.TokensOut = max(e.TokensOut, c.TokensOut)
	e.CostUSD = max(e.CostUSD, c.CostUSD)
	e.CurrentStageNumber = max(e.CurrentStageNumber, c.StageNumber)
	for _, count := range c.EdgeCounts {
		if more := count.Count - x.edgeCount(count.From, count.To); more > 0 {
			e.EdgeCounts, _ = addEdge(e.EdgeCounts, count.From, count.To, more)
		}
		for i := range e.EdgeCounts {
			if had := &e.EdgeCounts[i]; had.From == count.From && had.To == count.To {
				had.Pass = max(had.Pass, count.Pass)
			}
		}
	}
	for name, n := range c.Visits {
		e.Visits[name] = max(e.Visits[name], n)
	}
	x.Transitions = max(x.Transitions, c.Transitions)
	x.Parent = r.Checkpoint
	maps.Copy(e.Outputs, r.Outputs)
	e.MergeMetadata(r.Metadata)
	for _, name := range sortedKeys(r.Raised) {
		if err := e.raise(name, r.Raised[name]); err != nil {
			return err
		}
	}
	e.Version = max(e.Version, r.Version) + 1
	at := cmp.Or(x.merged, Start)
	x.emitTransition(tipstaff.Transitioned{From: at, To: at, Reason: tipstaff.TransitionRollback,
		Checkpoint: r.Checkpoint, By: r.By, Left: r.From})
	return nil
}

// reenter goes on with the stages that correct what was delivered, as an edge back to
// them would: they are told why, and may be visited once more than their limits allow.
func (x *executor) reenter(r *Rollback) {
	x.env.Iteration++
	x.Owed++
	from := cmp.Or(x.merged, Start)
	x.jump(x.p.Agent(r.Enter[0])) // and all behind it
	for _, name := range r.Enter {
		x.env.Feedback = newest(append(x.env.Feedback, Feedback{From: from, To: name, Iteration: x.env.Iteration, Text: r.Feedback}))
		x.enter(x.p.Agent(name), entry{Feedback: r.Feedback, Granted: true})
		x.emitTransition(tipstaff.Transitioned{From: from, To: name, Reason: tipstaff.TransitionReintent, Checkpoint: r.Checkpoint})
	}
	x.publish()
}

// raise sets a maximum, by the name of its field, if that is more.
func (e *Envelope) raise(name string, to int64) error {
	maxima := map[string]*int64{
		"max_iterations": &e.MaxIterations, "max_llm_calls": &e.MaxLLMCalls, "max_agent_hops": &e.MaxAgentHops,
		"max_stages": &e.MaxStages, "max_tool_calls": &e.MaxToolCalls, "max_tokens": &e.MaxTokens,
		"max_cost_usd": (*int64)(&e.MaxCostUSD), "max_wall_seconds": &e.MaxWallSeconds,
	}
	most, ok := maxima[name]
	if !ok {
		return fmt.Errorf("pipeline: %q is no maximum of an Envelope", name)
	}
	*most = max(*most, to)
	return nil
}

// continued is the state of a run between two turns.
type continued struct {
	Schema   int             `json:"schema"`
	Envelope json.RawMessage `json:"envelope"`
	pending
}

// continuedSchema is the form of that state.
const continuedSchema = 1

// resumeLater ends the segment: the run goes on with a fresh history.
func (x *executor) resumeLater() error {
	x.publish()
	x.Closed = nil
	for i, a := range x.p.Agents {
		if x.stages[i].mark == closed {
			x.Closed = append(x.Closed, a.Name)
		}
	}
	return flow.Continue(flow.JSON(continued{continuedSchema, EncodeEnvelope(x.env), x.pending}))
}

// Restore reads the state that Execute gave to flow.Continue. With it Execute goes on
// exactly there.
func Restore(state json.RawMessage) (State, error) {
	var c continued
	if err := json.Unmarshal(state, &c); err != nil {
		return State{}, fmt.Errorf("pipeline: the state of a continued run: %w", err)
	}
	if c.Schema != continuedSchema {
		return State{}, fmt.Errorf("pipeline: the state of a continued run has schema %d; this version reads %d", c.Schema, continuedSchema)
	}
	env, err := DecodeEnvelope(c.Envelope)
	return State{Envelope: env, continued: &c.pending}, err
}

// restore takes up a continued run where it was left.
func (x *executor) restore() {
	x.pending, x.state.continued = *x.state.continued, nil
	x.state.Rollbacks = slices.DeleteFunc(x.state.Rollbacks, func(r Rollback) bool { return r.Turn <= x.Turn })
	if x.Entries == nil {
		x.Entries = map[string]entry{}
	}
	for i, a := range x.p.Agents {
		s := &x.stages[i]
		s.frontier = slices.Contains(x.env.Frontier, a.Name)
		_, hasFailed := x.env.FailedStages[a.Name]
		_, wasSkipped := x.env.SkippedStages[a.Name]
		switch {
		case hasFailed:
			s.mark = failed
		case wasSkipped:
			s.mark = skipped
		case slices.Contains(x.Closed, a.Name):
			s.mark = closed
		case slices.Contains(x.env.CompletedStages, a.Name):
			s.mark = completed
		}
	}
}
