package rpc

import (
	"context"
	"encoding/json"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// shape says how records of a kind are told: what they are called and which members
// of their body clients see, by the name that the event gives them.
type shape struct {
	event   pb.ExecutionEvent_EventType
	members map[string]string // name in the payload to name in the body
}

// same is for members that keep their names.
func same(names ...string) map[string]string {
	m := map[string]string{}
	for _, name := range names {
		m[name] = name
	}
	return m
}

// shapes are the kinds that clients are told of. Of all others they learn nothing, so
// that seq may jump.
var shapes = map[tipstaff.Kind]shape{
	tipstaff.KindStageStarted:      {pb.ExecutionEvent_STAGE_STARTED, same("visit", "attempt", "turn", "released_by")},
	tipstaff.KindStageFinished:     {pb.ExecutionEvent_STAGE_COMPLETED, same("visit", "outcome", "duration_ms", "usage", "output_key", "output", "code", "error", "next")},
	tipstaff.KindStageRetrying:     {pb.ExecutionEvent_STAGE_RETRYING, same("visit", "next_attempt", "delay_ms", "code", "error")},
	tipstaff.KindStageSkipped:      {pb.ExecutionEvent_STAGE_SKIPPED, same("unmet")},
	tipstaff.KindTransition:        {pb.ExecutionEvent_TRANSITION, same("from", "to", "reason", "iteration", "epoch", "turn", "rule", "edge_count", "checkpoint", "n", "by", "left")},
	tipstaff.KindCheckpointCreated: {pb.ExecutionEvent_CHECKPOINT_CREATED, same("id", "turn", "iteration", "automatic", "labels")},
	tipstaff.KindBoundRefused:      {pb.ExecutionEvent_BOUNDS_EXCEEDED, same("bound", "limit", "used", "refused")},
	tipstaff.KindBoundExtended:     {pb.ExecutionEvent_BOUND_EXTENDED, same("bound", "by", "who")},
	tipstaff.KindRunForked:         {pb.ExecutionEvent_ROLLED_BACK, same("from_run", "checkpoint", "counters", "edits")},
	tipstaff.KindPolicyGate:        {pb.ExecutionEvent_INTERRUPT_RAISED, map[string]string{"id": "gate", "kind": "gate_kind", "question": "question", "data": "subject", "actions": "actions", "expires_at": "expires_at"}},
	tipstaff.KindPolicyGateResolve: {pb.ExecutionEvent_INTERRUPT_RESOLVED, map[string]string{"id": "gate", "action": "action", "by": "on_behalf_of", "note": "note"}},
	tipstaff.KindPlanProposed:      {pb.ExecutionEvent_PIPELINE_STARTED, map[string]string{"digest": "program_digest"}},
	tipstaff.KindIntentAttest:      {event: pb.ExecutionEvent_PIPELINE_COMPLETED},
	tipstaff.KindIntentFail:        {event: pb.ExecutionEvent_PIPELINE_COMPLETED},
	tipstaff.KindIntentCancel:      {event: pb.ExecutionEvent_PIPELINE_COMPLETED},
}

// object is JSON by its members.
type object = map[string]json.RawMessage

// event is a record as clients are told of it; nil: they are not.
func (s *Server) event(ctx context.Context, e tipstaff.Event) (*pb.ExecutionEvent, error) {
	shape, told := shapes[e.Kind]
	if !told {
		return nil, nil
	}
	raw, err := s.whole(ctx, e.Run, e.Body)
	if err != nil {
		return nil, err
	}
	var body object
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, err
	}
	event := &pb.ExecutionEvent{Type: shape.event, TimestampMs: e.At.UnixMilli(), Seq: e.Seq, RunId: e.Run.String(), Stage: stageIn(e, body)}
	payload := object{}
	for name, from := range shape.members {
		if value, ok := body[from]; ok {
			if payload[name], err = s.whole(ctx, e.Run, value); err != nil {
				return nil, err
			}
		}
	}
	if err := s.adorn(ctx, e, event, body, payload); err != nil {
		return nil, err
	}
	event.Payload, err = json.Marshal(payload)
	return event, err
}

// stageIn is the stage that a record is about; "": the run.
func stageIn(e tipstaff.Event, body object) string {
	var stage string
	if json.Unmarshal(body["stage"], &stage) == nil {
		return stage
	}
	stage, _ = stageOf(e.Path)
	return stage
}

// adorn adds what is not in a member of the body.
func (s *Server) adorn(ctx context.Context, e tipstaff.Event, event *pb.ExecutionEvent, body, payload object) error {
	switch e.Kind {
	case tipstaff.KindStageFinished:
		if string(body["outcome"]) != `"success"` {
			event.Type = pb.ExecutionEvent_STAGE_FAILED
		}
	case tipstaff.KindPolicyGate:
		payload["stage"] = text(event.Stage)
		askedBy(payload)
	case tipstaff.KindPolicyGateResolve:
		if payload["by"] == nil {
			payload["by"] = text("local:cli")
		}
	case tipstaff.KindPlanProposed:
		bounds, err := s.acceptedBounds(ctx, e)
		if err != nil {
			return err
		}
		payload["bounds"] = bounds
	}
	return nil
}

// askedBy gives a question of a stage the stage's own words.
func askedBy(payload object) {
	var kind tipstaff.GateKind
	var subject object
	if json.Unmarshal(payload["kind"], &kind) != nil || !asksItself(kind) || json.Unmarshal(payload["data"], &subject) != nil {
		return
	}
	delete(payload, "data")
	for _, name := range []string{"message", "data"} {
		if said, ok := subject[name]; ok {
			payload[name] = said
		}
	}
}

// acceptedBounds are those of the acceptance, which is the record before the program
// takes effect.
func (s *Server) acceptedBounds(ctx context.Context, proposed tipstaff.Event) (json.RawMessage, error) {
	for e, err := range s.svc.Events(ctx, tipstaff.EventsRequest{Run: proposed.Run, After: max(proposed.Seq-2, 0), Limit: 1}) {
		if err != nil {
			return nil, err
		}
		var b struct {
			Bounds json.RawMessage `json:"bounds"`
		}
		if e.Kind == tipstaff.KindIntentAccept && json.Unmarshal(e.Body, &b) == nil && b.Bounds != nil {
			return b.Bounds, nil
		}
	}
	return json.RawMessage("{}"), nil
}

// raisedAgain is the event of an open gate, as of the end of the journal.
func raisedAgain(g tipstaff.Gate, run tipstaff.Run) *pb.ExecutionEvent {
	i := interruptOf(g)
	payload := object{"id": text(i.Id), "kind": text(i.Kind), "stage": text(i.Stage), "question": text(i.Question)}
	if i.Message != "" {
		payload["message"] = text(i.Message)
	}
	if i.Data != nil {
		payload["data"] = i.Data
	}
	payload["actions"], _ = json.Marshal(g.Actions) // texts
	if !g.ExpiresAt.IsZero() {
		payload["expires_at"], _ = json.Marshal(g.ExpiresAt)
	}
	raw, _ := json.Marshal(payload)
	return &pb.ExecutionEvent{Type: pb.ExecutionEvent_INTERRUPT_RAISED, Stage: i.Stage, TimestampMs: run.UpdatedAt.UnixMilli(), Seq: run.HeadSeq,
		RunId: run.ID.String(), Payload: raw}
}

// ending is the payload of the event with which a run ends.
func ending(env *pb.Envelope) []byte {
	raw, _ := json.Marshal(map[string]any{
		"outcome": env.GetOutcome(), "terminal_reason": env.GetTerminalReason(), "termination_reason": env.GetTerminationReason(),
		"iteration": env.Iteration, "skipped": skipped(env),
		"usage": map[string]any{"llm_calls": env.LlmCallCount, "tool_calls": env.ToolCallCount, "tokens_in": env.TokensIn,
			"tokens_out": env.TokensOut, "cost_usd": tipstaff.USD(env.CostUsd), "agent_hops": env.AgentHopCount},
	})
	return raw
}

func skipped(env *pb.Envelope) map[string]string {
	if env.SkippedStages == nil {
		return map[string]string{}
	}
	return env.SkippedStages
}

// text is a text as JSON.
func text(s string) json.RawMessage {
	raw, _ := json.Marshal(s) // a text always has a form
	return raw
}
