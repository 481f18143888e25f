package rpc_test

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// straight is two stages, one after the other.
const straight = `
name: straight
agents:
  - {name: first, stage_order: 1, default_next: second, scripted: {answers: [{output: {said: one}, usage: {llm_calls: 1, tokens_in: 10}}]}}
  - {name: second, stage_order: 2, scripted: {answers: [{output: {said: two}}]}}
`

// looping goes back twice, and then ends.
const looping = `
name: looping
agents:
  - {name: work, stage_order: 1, default_next: critic, scripted: {answers: [{output: {n: 1}}], repeat: last}}
  - name: critic
    stage_order: 2
    scripted: {answers: [{output: {verdict: again}}, {output: {verdict: again}}, {output: {verdict: fine}}]}
    routing_rules: [{condition: verdict, value: again, target: work}]
`

func TestAPipelineStreamsToItsEnd(t *testing.T) {
	c := common(t).as("alice")
	events := c.execute(c.create(straight))
	want := []string{"PIPELINE_STARTED", "TRANSITION", "STAGE_STARTED", "STAGE_COMPLETED", "TRANSITION", "STAGE_STARTED", "STAGE_COMPLETED", "TRANSITION", "PIPELINE_COMPLETED"}
	if diff := cmp.Diff(want, typesOf(events)); diff != "" {
		t.Error(diff)
	}
	env := events[len(events)-1].Envelope
	if env.GetOutcome() != "completed" || env.GetTerminalReason() != "completed" || !env.Terminated || env.State != "completed" {
		t.Errorf("it ended %s for %s, state %s", env.GetOutcome(), env.GetTerminalReason(), env.State)
	}
	if string(env.Outputs["second"]) != `{"said":"two"}` || env.LlmCallCount != 1 || env.AgentHopCount != 2 {
		t.Errorf("it has outputs %q, %d model calls, %d hops", env.Outputs, env.LlmCallCount, env.AgentHopCount)
	}
}

func TestAPipelineThatIsGivenWithTheCall(t *testing.T) {
	c := common(t).as("alice")
	events, err := c.all(c.ExecutePipeline(c.ctx(), &pb.ExecuteRequest{Envelope: &pb.Envelope{RawInput: "x"}, ThreadId: "given", Config: document(straight)}))
	if err != nil {
		t.Fatal(err)
	}
	checkStream(t, events)
	state, err := c.GetState(c.ctx(), &pb.GetStateRequest{Ref: &pb.RunRef{Ref: &pb.RunRef_ThreadId{ThreadId: "given"}}})
	if err != nil || state.RawInput != "x" || state.ThreadId != "given" || !state.Terminated {
		t.Errorf("the thread leads to %v, %v", state, err)
	}
}

func TestFailedAndBoundedRunsEndWithOK(t *testing.T) {
	for _, tc := range []struct{ name, pipeline, outcome, reason, before string }{
		{"failed", "name: p\nagents: [{name: a, scripted: {answers: [{error: {code: broken, message: it broke}}]}}]", "failed", "stage_failed_fatally", "STAGE_FAILED"},
		{"bounded", "name: p\nmax_iterations: 1\nagents: [{name: a, default_next: a, scripted: {answers: [{output: {}}]}}]", "bound_exceeded", "max_iterations_exceeded", "BOUNDS_EXCEEDED"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := common(t).as("alice")
			events := c.execute(c.create(tc.pipeline))
			last := events[len(events)-1]
			if last.Envelope.GetOutcome() != tc.outcome || last.Envelope.GetTerminalReason() != tc.reason || last.Type != pb.ExecutionEvent_PIPELINE_COMPLETED {
				t.Errorf("%s: it ended %s for %s", last.Type, last.Envelope.GetOutcome(), last.Envelope.GetTerminalReason())
			}
			if !slices.Contains(typesOf(events[:len(events)-1]), tc.before) {
				t.Errorf("no %s came before the end: %v", tc.before, typesOf(events))
			}
			if got := member(t, last, "terminal_reason"); got != `"`+tc.reason+`"` {
				t.Errorf("the payload gives the reason %s", got)
			}
		})
	}
}

func TestViewsChangeNothing(t *testing.T) {
	c := common(t).as("alice")
	env := c.create(straight)
	forged := proto.Clone(env).(*pb.Envelope)
	forged.LlmCallCount, forged.MaxLlmCalls, forged.MaxIterations, forged.Terminated = -5, 1_000_000, 999, true
	bounds, err := c.CheckBounds(c.ctx(), forged)
	if err != nil || !bounds.CanContinue || bounds.LlmCallsRemaining != 10 || bounds.IterationsRemaining != 3 || bounds.AgentHopsRemaining != 21 {
		t.Errorf("%v, %v", bounds, err)
	}
	forged.Outputs = map[string][]byte{"first": []byte(`{}`)}
	_, err = c.all(c.ExecutePipeline(c.ctx(), &pb.ExecuteRequest{Envelope: forged}))
	wantCode(t, err, codes.FailedPrecondition, tipstaff.WrongState)
}

func TestBoundsAreOnlyLowered(t *testing.T) {
	c := common(t).as("alice")
	env := c.create(looping)
	_, err := c.all(c.ExecutePipeline(c.ctx(), &pb.ExecuteRequest{Envelope: env, Bounds: &pb.Bounds{MaxIterations: proto.Int32(4)}}))
	wantCode(t, err, codes.InvalidArgument, tipstaff.InvalidArgument)
	events, err := c.all(c.ExecutePipeline(c.ctx(), &pb.ExecuteRequest{Envelope: env, Bounds: &pb.Bounds{MaxIterations: proto.Int32(1)}}))
	if err != nil {
		t.Fatal(err)
	}
	end := events[len(events)-1].Envelope
	if end.GetTerminalReason() != "max_iterations_exceeded" || end.Iteration != 1 || end.MaxIterations != 1 {
		t.Errorf("it ended for %s after %d of %d iterations", end.GetTerminalReason(), end.Iteration, end.MaxIterations)
	}
}

// rounds satisfies a goal a round, and has more goals than rounds.
const rounds = `
name: rounds
max_stages: 3
agents:
  - name: judge
    default_next: judge
    scripted: {answers: [{output: {}, control: {satisfied_goals: [a]}}, {output: {}, control: {satisfied_goals: [b]}}, {output: {}, control: {satisfied_goals: [c]}}]}
`

func TestRoundsAreOnlyLowered(t *testing.T) {
	c := common(t).as("alice")
	env, err := c.CreateEnvelope(c.ctx(), &pb.CreateEnvelopeRequest{RawInput: "go", UserId: "alice", SessionId: "s", Goals: []string{"a", "b", "c", "d"}, Pipeline: document(rounds)})
	if err != nil {
		t.Fatal(err)
	}
	left := func(want int32) {
		t.Helper()
		if got, err := c.CheckBounds(c.ctx(), env); err != nil || got.StagesRemaining != want || got.IterationsRemaining > 3 {
			t.Errorf("left are %d rounds, want %d, and %d iterations: %v", got.GetStagesRemaining(), want, got.GetIterationsRemaining(), err)
		}
	}
	left(2) // it is in the first of three
	_, err = c.all(c.ExecutePipeline(c.ctx(), &pb.ExecuteRequest{Envelope: env, Bounds: &pb.Bounds{MaxStages: proto.Int32(4)}}))
	wantCode(t, err, codes.InvalidArgument, tipstaff.InvalidArgument)
	events, err := c.all(c.ExecutePipeline(c.ctx(), &pb.ExecuteRequest{Envelope: env, Bounds: &pb.Bounds{MaxStages: proto.Int32(2)}}))
	if err != nil {
		t.Fatal(err)
	}
	end := events[len(events)-1].Envelope
	if end.GetTerminalReason() != "max_stages_exceeded" || end.CurrentStageNumber != 2 || end.MaxStages != 2 {
		t.Errorf("it ended for %s in round %d of %d", end.GetTerminalReason(), end.CurrentStageNumber, end.MaxStages)
	}
	left(0)
	back, err := c.RollbackToCheckpoint(c.ctx(), &pb.RollbackRequest{Ref: byEnvelope(env), To: &pb.RollbackRequest_Stage{Stage: "judge"}, Bounds: &pb.Bounds{MaxStages: proto.Int32(3)}})
	if err != nil || back.MaxStages != 3 {
		t.Fatalf("raised by a rollback it has %d rounds: %v", back.GetMaxStages(), err)
	}
	left(1)
}

func TestAnInvalidDocumentIsToldProblemByProblem(t *testing.T) {
	c := common(t).as("alice")
	_, err := c.CreateEnvelope(c.ctx(), &pb.CreateEnvelopeRequest{Pipeline: document("name: p\nagents:\n  - {name: a}\n  - {name: b, scripted: {answers: []}, default_next: nowhere}\n")})
	wantCode(t, err, codes.InvalidArgument, tipstaff.InvalidProgram)
	found := violations(err)
	if len(found) < 2 || found[0].Reason != "no_way_to_run" || found[0].Description[:2] != "3:" {
		t.Errorf("the violations are %v", found)
	}
}

func TestPipelinesByNameAndDigest(t *testing.T) {
	c := common(t).as("alice")
	env, err := c.CreateEnvelope(c.ctx(), &pb.CreateEnvelopeRequest{RawInput: "x"})
	if err != nil || env.Pipeline != "straight" {
		t.Fatalf("the default gave %v, %v", env, err)
	}
	for name, config := range map[string]*pb.PipelineConfig{
		"name":   {Source: &pb.PipelineConfig_Name{Name: "straight"}},
		"digest": {Source: &pb.PipelineConfig_Digest{Digest: env.PipelineDigest}},
	} {
		same, err := c.CreateEnvelope(c.ctx(), &pb.CreateEnvelopeRequest{Pipeline: config})
		if err != nil || same.PipelineDigest != env.PipelineDigest {
			t.Errorf("by its %s it is %v, %v", name, same, err)
		}
	}
	_, err = c.CreateEnvelope(c.ctx(), &pb.CreateEnvelopeRequest{Pipeline: &pb.PipelineConfig{Source: &pb.PipelineConfig_Name{Name: "other"}}})
	wantCode(t, err, codes.NotFound, tipstaff.PipelineNotFound)
}

func TestAnAgentRunsAloneAndItsUseShows(t *testing.T) {
	c := common(t).as("alice")
	env := c.create(straight)
	r, err := c.ExecuteAgent(c.ctx(), &pb.ExecuteAgentRequest{Envelope: env, AgentName: "first"})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Success || string(r.Output) != `{"said":"one"}` || r.LlmCalls != 1 || r.Usage.TokensIn != 10 {
		t.Errorf("the agent brought %v", r)
	}
	if got := r.Envelope; got.EnvelopeId != env.EnvelopeId || string(got.Outputs["first"]) != `{"said":"one"}` || got.LlmCallCount != 1 || got.State != "drafting" || got.Version <= env.Version {
		t.Errorf("the draft is %v", got)
	}
	own, err := c.ExecuteAgent(c.ctx(), &pb.ExecuteAgentRequest{Envelope: &pb.Envelope{EnvelopeId: env.EnvelopeId},
		Agent: []byte(`{"name": "mine", "scripted": {"answers": [{"error": {"code": "no_idea", "message": "cannot"}}]}}`), AgentName: "mine"})
	if err != nil || own.Success || own.GetErrorCode() != "no_idea" || own.GetError() != "cannot" {
		t.Errorf("an agent that is brought gave %v, %v", own, err)
	}
	_, err = c.ExecuteAgent(c.ctx(), &pb.ExecuteAgentRequest{Envelope: &pb.Envelope{EnvelopeId: env.EnvelopeId}, AgentName: "third"})
	wantCode(t, err, codes.NotFound, tipstaff.AgentNotFound)
}
