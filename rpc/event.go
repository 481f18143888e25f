package rpc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// shape says how records of a kind are told: what they are called, and which members
// of their body clients see. One that the event gives another name stands as name=member.
type shape struct {
	event   pb.ExecutionEvent_EventType
	members string
}

// shapes are the kinds that clients are told of. Of all others they learn nothing, so
// that seq may jump.
var shapes = map[tipstaff.Kind]shape{
	tipstaff.KindStageStarted:      {pb.ExecutionEvent_STAGE_STARTED, "visit attempt turn released_by"},
	tipstaff.KindStageFinished:     {pb.ExecutionEvent_STAGE_COMPLETED, "visit outcome duration_ms usage output_key output code error next"},
	tipstaff.KindStageRetrying:     {pb.ExecutionEvent_STAGE_RETRYING, "visit next_attempt delay_ms code error"},
	tipstaff.KindStageSkipped:      {pb.ExecutionEvent_STAGE_SKIPPED, "unmet"},
	tipstaff.KindTransition:        {pb.ExecutionEvent_TRANSITION, "from to reason iteration epoch turn rule edge_count checkpoint n by left"},
	tipstaff.KindCheckpointCreated: {pb.ExecutionEvent_CHECKPOINT_CREATED, "id turn iteration automatic labels"},
	tipstaff.KindBoundRefused:      {pb.ExecutionEvent_BOUNDS_EXCEEDED, "bound limit used refused"},
	tipstaff.KindBoundExtended:     {pb.ExecutionEvent_BOUND_EXTENDED, "bound by gate"},
	tipstaff.KindRunForked:         {pb.ExecutionEvent_ROLLED_BACK, "from_run checkpoint counters edits=value"},
	tipstaff.KindPolicyGate:        {pb.ExecutionEvent_INTERRUPT_RAISED, "id=gate kind=gate_kind question data=subject actions expires_at"},
	tipstaff.KindPolicyGateResolve: {pb.ExecutionEvent_INTERRUPT_RESOLVED, "id=gate action by=on_behalf_of note"},
	tipstaff.KindPlanProposed:      {pb.ExecutionEvent_PIPELINE_STARTED, "digest=program_digest"},
	tipstaff.KindRunQueued:         {pb.ExecutionEvent_RUN_QUEUED, "driven places"},
	tipstaff.KindIntentAttest:      {event: pb.ExecutionEvent_PIPELINE_COMPLETED},
	tipstaff.KindIntentFail:        {event: pb.ExecutionEvent_PIPELINE_COMPLETED},
	tipstaff.KindIntentCancel:      {pb.ExecutionEvent_PIPELINE_COMPLETED, "reason by=on_behalf_of"},
}

// passing are the kinds that are told and not recorded.
var passing = map[tipstaff.Kind]pb.ExecutionEvent_EventType{
	tipstaff.KindAgentTextDelta: pb.ExecutionEvent_TEXT_DELTA,
	tipstaff.KindToolProgress:   pb.ExecutionEvent_TOOL_PROGRESS,
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
	event := &pb.ExecutionEvent{Type: shape.event, TimestampMs: e.At.UnixMilli(), Seq: e.Seq, RunId: e.Run.String()}
	if json.Unmarshal(body["stage"], &event.Stage) != nil {
		event.Stage, _ = stageOf(e.Path) // "": it is about the run
	}
	payload := object{}
	for member := range strings.FieldsSeq(shape.members) {
		name, from, _ := strings.Cut(member, "=")
		if value, ok := body[cmp.Or(from, name)]; ok {
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

// whole is a part of a record with its payload, if that is kept apart from it.
func (s *Server) whole(ctx context.Context, run tipstaff.ID, raw json.RawMessage) (json.RawMessage, error) {
	var apart struct {
		Blob string `json:"$blob"`
	}
	if !bytes.Contains(raw, []byte(`"$blob"`)) || json.Unmarshal(raw, &apart) != nil || apart.Blob == "" {
		return raw, nil
	}
	return s.svc.Artifact(ctx, run, apart.Blob)
}

// adorn adds what is not in a member of the body.
func (s *Server) adorn(ctx context.Context, e tipstaff.Event, event *pb.ExecutionEvent, body, payload object) error {
	switch e.Kind {
	case tipstaff.KindStageFinished:
		if string(body["outcome"]) != `"success"` {
			event.Type = pb.ExecutionEvent_STAGE_FAILED
		}
	case tipstaff.KindBoundRefused, tipstaff.KindBoundExtended:
		payload["bound"] = fieldOf(payload["bound"])
	case tipstaff.KindPolicyGate:
		payload["stage"] = text(event.Stage)
		if g, err := tipstaff.OpenedGate(e.Kind, e.Path, e.Seq, e.At, e.Body); err == nil && g.Kind == tipstaff.Delivery {
			g.Subject = payload["data"]
			payload["actions"], _ = json.Marshal(g.Available()) // texts
		}
		payload["data"] = boundNamed(payload["data"])
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

// fieldOf is the field of a pipeline that sets a bound, both as texts of JSON.
func fieldOf(bound json.RawMessage) json.RawMessage {
	var name string
	if json.Unmarshal(bound, &name) != nil {
		return bound
	}
	return text(tipstaff.BoundField(name))
}

// boundNamed is what a gate is about, with the bound, if it is about one, called as the
// pipeline has it.
func boundNamed(subject json.RawMessage) json.RawMessage {
	var members object
	if json.Unmarshal(subject, &members) != nil || members["bound"] == nil || members["refused"] == nil && members["wanted"] == nil {
		return subject
	}
	members["bound"] = fieldOf(members["bound"])
	raw, _ := json.Marshal(members) // they were read from JSON
	return raw
}

// fieldsOf are bounds as the fields of a pipeline have them.
func fieldsOf(b tipstaff.Bounds) map[string]any {
	fields := map[string]any{}
	for name, n := range b {
		field := tipstaff.BoundField(name)
		switch name {
		case tipstaff.BoundCostUSD:
			fields[field] = tipstaff.FormatBound(name, n)
		case tipstaff.BoundWallTime:
			fields[field] = n / 1000
		default:
			fields[field] = n
		}
	}
	return fields
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
		if b := tipstaff.BodyOf[tipstaff.IntentAccept](&e); e.Kind == tipstaff.KindIntentAccept && b.Bounds != nil {
			return json.Marshal(fieldsOf(b.Bounds))
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
	payload["actions"], _ = json.Marshal(i.Actions) // texts
	if !g.ExpiresAt.IsZero() {
		payload["expires_at"], _ = json.Marshal(g.ExpiresAt)
	}
	raw, _ := json.Marshal(payload)
	return &pb.ExecutionEvent{Type: pb.ExecutionEvent_INTERRUPT_RAISED, Stage: i.Stage, TimestampMs: run.UpdatedAt.UnixMilli(), Seq: run.HeadSeq,
		RunId: run.ID.String(), Payload: raw}
}

// ending is the payload of the event with which a run ends. told is what its record says:
// of a run that was cancelled, why and by whom.
func ending(env *pb.Envelope, told []byte) []byte {
	skipped := map[string]string{}
	maps.Copy(skipped, env.SkippedStages)
	payload := map[string]any{
		"outcome": env.GetOutcome(), "terminal_reason": env.GetTerminalReason(), "termination_reason": env.GetTerminationReason(),
		"iteration": env.Iteration, "skipped": skipped,
		"usage": map[string]any{"llm_calls": env.LlmCallCount, "tool_calls": env.ToolCallCount, "tokens_in": env.TokensIn,
			"tokens_out": env.TokensOut, "cost_usd": tipstaff.USD(env.CostUsd), "agent_hops": env.AgentHopCount},
	}
	_ = json.Unmarshal(told, &payload) // an object of ours
	raw, _ := json.Marshal(payload)
	return raw
}

// text is a text as JSON.
func text(s string) json.RawMessage {
	raw, _ := json.Marshal(s) // a text always has a form
	return raw
}
