package pb

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func ptr[T any](v T) *T { return &v }

// anEnvelope is one state, in JSON and as a message, each written by hand.
const anEnvelope = `{
	"schema": 1,
	"envelope_id": "env_1", "request_id": "req_1", "user_id": "anna", "session_id": "sess_1",
	"run_id": "01J", "thread_id": "t", "version": 9007199254740993,
	"raw_input": "do <it>", "metadata": {"n": 1.0, "big":9007199254740993},
	"received_at": "2026-03-01T10:00:00.000000001Z", "created_at": "2026-03-01T11:00:00+01:00",
	"pipeline": "loop", "pipeline_digest": "sha256:00", "stage_order": ["work", "critic"],
	"current_stage": "critic",
	"outputs": {"critic": {"verdict": "reintent", "score": 1.0}, "odd key": null}, "prior": {},
	"epoch": 2, "frontier": [], "active_stages": ["critic"], "completed_stages": ["work"],
	"failed_stages": {"work": "timeout"}, "skipped_stages": {},
	"iteration": 1, "llm_call_count": 3, "agent_hop_count": 4, "tool_call_count": 0,
	"tokens_in": 10, "tokens_out": 20, "cost_usd": "0.000000001", "wall_ms": 1500,
	"edge_counts": [{"from": "critic", "to": "work", "count": 1}], "visits": {"work": 2},
	"max_iterations": 3, "max_llm_calls": 10, "max_agent_hops": 21, "max_stages": 5,
	"max_tool_calls": 200, "max_tokens": 1000000, "max_cost_usd": "5.00", "max_wall_seconds": 3600,
	"terminated": true, "terminal_reason": "max_cost_exceeded", "termination_reason": "5.00 USD", "outcome": "bound_exceeded",
	"completed_at": "2026-03-01T10:00:02Z",
	"interrupts": [{"id": "g1", "key": "critic#1", "kind": "confirmation", "stage": "critic", "visit": 1, "question": "go on?", "open": false,
		"response": {"interrupt_id": "g1", "kind": "confirmation", "action": "reject", "approved": false, "data": [1], "by": "bert"}}],
	"interrupt_pending": false,
	"goals": [{"name": "g", "status": "satisfied"}], "current_stage_number": 2,
	"rounds": [{"number": 1, "satisfied": ["g"]}],
	"feedback": [{"from": "critic", "to": "work", "iteration": 1, "text": "shorter"}],
	"waivers": [{"stage": "critic", "visit": 1, "finding_ids": ["f1"], "reason": "known", "actor": "anna"}],
	"errors": [{"stage": "work", "visit": 1, "code": "timeout", "message": "after 5m", "at": "2026-03-01T10:00:01.5Z"}],
	"processing_history": [{"agent": "work", "visit": 1, "attempts": 2, "started_at": "2026-03-01T10:00:00Z", "duration_ms": 7,
		"status": "error", "error": "late", "llm_calls": 1, "tool_calls": 0, "tokens_in": 1, "tokens_out": 2, "cost_usd": "1.50"}],
	"history_total": 51
}`

func theEnvelope() *Envelope {
	second := func(s int64, nanos int32) *timestamppb.Timestamp {
		return &timestamppb.Timestamp{Seconds: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC).Unix() + s, Nanos: nanos}
	}
	return &Envelope{
		EnvelopeId: "env_1", RequestId: "req_1", UserId: "anna", SessionId: "sess_1", RunId: "01J", ThreadId: "t", Version: 1<<53 + 1,
		RawInput: "do <it>", MetadataJson: []byte(`{"n": 1.0, "big":9007199254740993}`), ReceivedAt: second(0, 1), CreatedAt: second(0, 0),
		Pipeline: "loop", PipelineDigest: "sha256:00", StageOrder: []string{"work", "critic"},
		CurrentStage: "critic",
		Outputs:      map[string][]byte{"critic": []byte(`{"verdict": "reintent", "score": 1.0}`), "odd key": []byte("null")},
		Epoch:        2, ActiveStages: []string{"critic"}, CompletedStages: []string{"work"}, FailedStages: map[string]string{"work": "timeout"},
		Iteration: 1, LlmCallCount: 3, AgentHopCount: 4, TokensIn: 10, TokensOut: 20, CostUsd: 1, WallMs: 1500,
		EdgeCounts: []*EdgeCount{{From: "critic", To: "work", Count: 1}}, Visits: map[string]int32{"work": 2},
		MaxIterations: 3, MaxLlmCalls: 10, MaxAgentHops: 21, MaxStages: 5, MaxToolCalls: 200, MaxTokens: 1_000_000,
		MaxCostUsd: 5_000_000_000, MaxWallSeconds: 3600,
		Terminated: true, TerminalReason: ptr("max_cost_exceeded"), TerminationReason: ptr("5.00 USD"), Outcome: ptr("bound_exceeded"),
		CompletedAt: second(2, 0),
		Interrupts: []*Interrupt{{Id: "g1", Key: "critic#1", Kind: "confirmation", Stage: "critic", Visit: 1, Question: "go on?",
			Response: &InterruptDecision{InterruptId: "g1", Kind: "confirmation", Action: "reject", Approved: ptr(false), Data: []byte("[1]"), By: "bert"}}},
		Goals: []*Goal{{Name: "g", Status: "satisfied"}}, CurrentStageNumber: 2,
		Rounds:   []*Round{{Number: 1, Satisfied: []string{"g"}}},
		Feedback: []*Feedback{{From: "critic", To: "work", Iteration: 1, Text: "shorter"}},
		Waivers:  []*Waiver{{Stage: "critic", Visit: 1, FindingIds: []string{"f1"}, Reason: "known", Actor: "anna"}},
		Errors:   []*ErrorRecord{{Stage: "work", Visit: 1, Code: "timeout", Message: "after 5m", At: second(1, 500_000_000)}},
		ProcessingHistory: []*ProcessingRecord{{Agent: "work", Visit: 1, Attempts: 2, StartedAt: second(0, 0), DurationMs: 7, Status: "error",
			Error: ptr("late"), LlmCalls: 1, TokensIn: 1, TokensOut: 2, CostUsd: 1_500_000_000}},
		HistoryTotal: 51,
	}
}

func TestReadEnvelope(t *testing.T) {
	got, err := ReadEnvelope([]byte(anEnvelope))
	if err != nil {
		t.Fatal(err)
	}
	requireSame(t, got, theEnvelope())
	if err := Check(got); err != nil {
		t.Error(err)
	}
}

func TestReadEnvelopeLeavesNullUnset(t *testing.T) {
	got, err := ReadEnvelope([]byte(`{"metadata": null, "stage_order": null, "outputs": null, "outcome": null, "completed_at": null, "goals": null}`))
	if err != nil {
		t.Fatal(err)
	}
	requireSame(t, got, &Envelope{})
}

func TestReadEnvelopeRefuses(t *testing.T) {
	for _, raw := range []string{
		``, `{`, `[]`, `{} {}`, `{"colour": 1}`, `{"schema": 2}`, `{"goals": [{"schema": 1}]}`, `{"epoch": 1, "epoch": 2}`,
		`{"epoch": 2147483648}`, `{"epoch": 1.5}`, `{"epoch": "1"}`, `{"version": 9223372036854775808}`, `{"visits": []}`, `{"goals": {}}`,
		`{"stage_order": ["a", 1]}`, `{"terminated": "yes"}`, `{"cost_usd": "-1.00"}`, `{"processing_history": [{"cost_usd": "0.0000000001"}]}`,
		`{"created_at": 5}`, `{"created_at": "2026-02-30T00:00:00Z"}`, `{"outputs": {"critic": {"a": [1, {"b": 1, "b": 2}]}}}`,
	} {
		if got, err := ReadEnvelope([]byte(raw)); err == nil {
			t.Errorf("%s is %v", raw, got)
		}
	}
}

func TestFieldErrorSaysWhere(t *testing.T) {
	for want, err := range map[string]error{
		"goals[0].status: why": &FieldError{"goals[0].status", "why"},
		"why":                  &FieldError{"", "why"},
	} {
		if err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	for _, c := range []struct {
		name          string
		m             proto.Message
		path, message string
	}{
		{"an unknown reason", &Envelope{TerminalReason: ptr("finished")}, "terminal_reason", "is none of"},
		{"a kind inside", &AgentResult{Interrupt: &Interrupt{Kind: "riddle"}}, "interrupt.kind", "is none of"},
		{"no JSON", &ExecuteRequest{Envelope: &Envelope{Outputs: map[string][]byte{"a": []byte("{")}}}, "envelope.outputs.a", "too early"},
		{"nothing in place of JSON", &Result{Output: []byte{}}, "output", "too early"},
		{"a name twice", &RollbackRequest{MetadataJson: []byte(`{"a":{"b":1,"b":1}}`)}, "metadata_json.a.b", "twice"},
		{"a number that no type has", &ExecutionEvent{Type: 99}, "type", "99 is no EventType"},
		{"a negative amount", &Reserve{Cost: -1}, "cost", "never negative"},
		{"no such time", &Call{Deadline: &timestamppb.Timestamp{Nanos: -1}}, "deadline", "no such time"},
		{"a document that is no text", &PipelineConfig{Source: &PipelineConfig_Document{Document: []byte{0xff}}}, "document", "UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) { requireFault(t, "", Check(c.m), c.path, c.message) })
	}
}

func TestCheckTakesAViewThatNamesAnEnvelopeAlone(t *testing.T) {
	if err := Check(&ExecuteRequest{Envelope: &Envelope{EnvelopeId: "env_1"}}); err != nil {
		t.Error(err)
	}
}

func requireFault(t *testing.T, input string, err error, path, message string) {
	t.Helper()
	var fault *FieldError
	if !errors.As(err, &fault) {
		t.Errorf("%s: error %v, want a *FieldError", input, err)
	} else if fault.Path != path || !strings.Contains(fault.Message, message) {
		t.Errorf("%s: fault at %q: %s; want at %q: %s", input, fault.Path, fault.Message, path, message)
	}
}

// What is read can be sent, but for words outside of their closed sets.
func FuzzReadEnvelope(f *testing.F) {
	// Small ones: a large one is made smaller for most of the time there is.
	f.Add([]byte(`{"schema":1,"terminal_reason":"halted","visits":{"a":1},"failed_stages":{"a b":"x"},"terminated":true}`))
	f.Add([]byte(`{"processing_history":[{"started_at":"2026-03-01T10:00:00Z","status":"error","cost_usd":"1.50"}],"version":9}`))
	f.Add([]byte(`{"outputs":{"a":[1.0,{"b":"\ud83d\ude00"}]},"cost_usd":"0.1","created_at":"2026-03-01T10:00:00.5+01:00"}`))
	f.Add([]byte(`{"metadata":null,"goals":[{"status":"pending"}],"epoch":-0,"interrupts":[{"data":null}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := ReadEnvelope(raw)
		if err != nil {
			return
		}
		requireSame(t, overTheWire(t, m.ProtoReflect()), m)
	})
}

// Bytes from anywhere are a message that is refused, or one whose output is JSON.
func FuzzCheck(f *testing.F) {
	for _, m := range []proto.Message{
		&HostMessage{Message: &HostMessage_Result{Result: &Result{CallId: "c", Output: []byte(`{"a":1}`), Usage: &Usage{CostUsd: 1}}}},
		&HostMessage{Message: &HostMessage_Register{Register: &Register{Agents: []*HostedAgent{{Name: "critic", Effect: "read"}}}}},
		&HostMessage{Message: &HostMessage_Reserve{Reserve: &Reserve{Cost: -1}}},
	} {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m HostMessage
		if (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &m) != nil || Check(&m) != nil {
			return
		}
		if r := m.GetResult(); r != nil && r.Output != nil && checkJSON(r.Output, nil) != nil {
			t.Fatalf("Check took the output %q", r.Output)
		}
	})
}
