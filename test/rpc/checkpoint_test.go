package rpc_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

func TestCheckpointsAndTransitionsInPages(t *testing.T) {
	c := common(t).as("alice")
	env := c.create(looping)
	events := c.execute(env)
	if end := events[len(events)-1].Envelope; end.Iteration != 2 {
		t.Fatalf("it went back %d times", end.Iteration)
	}
	all, err := c.ListCheckpoints(c.ctx(), &pb.ListCheckpointsRequest{Ref: byEnvelope(env)})
	if err != nil || len(all.Checkpoints) != 2 || all.NextPageToken != "" {
		t.Fatalf("the checkpoints are %v, %v", all, err)
	}
	for i, cp := range all.Checkpoints {
		if cp.Iteration != int32(i) || cp.Stage != "critic" || !cp.Automatic || cp.EnvelopeId != env.EnvelopeId || cp.RunId != env.RunId || cp.SizeBytes == 0 || cp.Digest == "" {
			t.Errorf("checkpoint %d is %v", i, cp)
		}
	}
	for i, cp := range all.Checkpoints {
		then, err := c.GetState(c.ctx(), &pb.GetStateRequest{Ref: byEnvelope(env), CheckpointId: &cp.Id})
		if err != nil || then.Iteration != int32(i) || then.EnvelopeId != env.EnvelopeId || then.Terminated {
			t.Errorf("at checkpoint %d the state is %v, %v", i, then, err)
		}
	}
	for id, code := range map[string]codes.Code{"": codes.InvalidArgument, "cp_none": codes.NotFound} {
		_, err := c.GetState(c.ctx(), &pb.GetStateRequest{Ref: byEnvelope(env), CheckpointId: &id})
		wantCode(t, err, code, "")
	}
	_, err = c.ListTransitions(c.ctx(), &pb.ListTransitionsRequest{Ref: byEnvelope(env), PageSize: 1001})
	wantCode(t, err, codes.InvalidArgument, "")
	var paged []*pb.Transition
	for token := ""; ; {
		page, err := c.ListTransitions(c.ctx(), &pb.ListTransitionsRequest{Ref: byEnvelope(env), PageSize: 2, PageToken: token})
		if err != nil || len(page.Transitions) > 2 {
			t.Fatal(page, err)
		}
		paged = append(paged, page.Transitions...)
		if token = page.NextPageToken; token == "" {
			break
		}
	}
	reasons := []string{}
	for i, tr := range paged {
		reasons = append(reasons, tr.Reason)
		if i > 0 && tr.Seq <= paged[i-1].Seq {
			t.Errorf("transition %d has seq %d after %d", i, tr.Seq, paged[i-1].Seq)
		}
	}
	if want := 7; len(paged) != want || reasons[0] != "start" || reasons[2] != "reintent" || reasons[6] != "complete" {
		t.Errorf("the transitions are %v", reasons)
	}
	if back := paged[2]; back.GetRule() != 1 || back.GetEdgeCount() != 1 || back.GetCheckpoint() != all.Checkpoints[0].Id {
		t.Errorf("the first way back is %v", back)
	}
	for _, token := range []string{"x", "-1", "01", "9999999999999999999999"} {
		_, err := c.ListCheckpoints(c.ctx(), &pb.ListCheckpointsRequest{Ref: byEnvelope(env), PageToken: token})
		wantCode(t, err, codes.InvalidArgument, "")
	}
}

func TestALabelAndTheWayBackToIt(t *testing.T) {
	c := common(t).as("alice")
	env := c.paused()
	cp, err := c.CreateCheckpoint(c.ctx(), &pb.CheckpointRequest{Ref: byEnvelope(env), Label: "before the yes"})
	if err != nil || len(cp.Labels) != 1 || cp.Labels[0] != "before the yes" || cp.RunId != env.RunId {
		t.Fatalf("%v, %v", cp, err)
	}
	back, err := c.RollbackToCheckpoint(c.ctx(), &pb.RollbackRequest{Ref: byEnvelope(env), To: &pb.RollbackRequest_CheckpointId{CheckpointId: cp.Id},
		Outputs: map[string][]byte{"ask": []byte(`{"edited": true}`)}})
	if err != nil {
		t.Fatal(err)
	}
	if back.EnvelopeId != env.EnvelopeId || back.RunId == env.RunId || back.AgentHopCount < env.AgentHopCount || string(back.Outputs["ask"]) != `{"edited":true}` || back.Terminated {
		t.Errorf("it was rolled back to %v", back)
	}
	old, err := c.GetState(c.ctx(), &pb.GetStateRequest{Ref: byRun(env.RunId)})
	if err != nil || old.GetTerminalReason() != "rolled_back" || old.State != "cancelled" {
		t.Errorf("the old run is %v, %v", old.GetTerminalReason(), err)
	}
	head, err := c.GetState(c.ctx(), &pb.GetStateRequest{Ref: byEnvelope(env)})
	if err != nil || head.RunId != back.RunId {
		t.Errorf("the head is %v, %v", head.GetRunId(), err)
	}
	events := c.execute(back)
	if events[0].RunId != back.RunId {
		t.Errorf("run %s went on", events[0].RunId)
	}
	all, err := c.all(c.Watch(c.ctx(), &pb.WatchRequest{Ref: byRun(back.RunId)}))
	i := slices.IndexFunc(all, func(e *pb.ExecutionEvent) bool { return e.Type == pb.ExecutionEvent_ROLLED_BACK })
	if err != nil || i < 0 {
		t.Fatalf("no event says that it was rolled back: %v, %v", all, err)
	}
	if got := member(t, all[i], "edits"); got != `{"outputs":{"ask":{"edited":true}}}` {
		t.Errorf("the edits are told as %s", got)
	}
	c.keepsWhatWasLeft(env, back)
}

// keepsWhatWasLeft checks the lists of an Envelope after a rollback.
func (c *client) keepsWhatWasLeft(old, now *pb.Envelope) {
	c.t.Helper()
	moves, err := c.ListTransitions(c.ctx(), &pb.ListTransitionsRequest{Ref: byEnvelope(now)})
	if err != nil {
		c.t.Fatal(err)
	}
	asked, rolled := false, false
	for i, tr := range moves.Transitions {
		if tr.N != int64(i+1) {
			c.t.Errorf("transition %d has the number %d", i+1, tr.N)
		}
		asked = asked || tr.Reason == "interrupt" && tr.RunId == old.RunId
		if tr.Reason == "rollback" {
			rolled = asked && tr.RunId == now.RunId && tr.GetLeft() == old.RunId && tr.GetBy() == "token:alice"
		}
	}
	if !rolled {
		c.t.Errorf("the transitions are %v", moves.Transitions)
	}
}

func TestTheOrderOfStagesIsTold(t *testing.T) {
	c := common(t).as("alice")
	const document = "name: p\nagents:\n- {name: b, stage_order: 2, scripted: {answers: [{}]}}\n- {name: a, stage_order: 1, default_next: b, scripted: {answers: [{}]}}"
	env := c.create(document)
	want := []string{"a", "b"}
	if !slices.Equal(env.StageOrder, want) {
		t.Errorf("of the draft: %v", env.StageOrder)
	}
	events := c.execute(env)
	if end := events[len(events)-1].Envelope; !slices.Equal(end.StageOrder, want) {
		t.Errorf("at its end: %v", end.StageOrder)
	}
}

func TestAForkLeavesTheOldRun(t *testing.T) {
	c := common(t).as("alice")
	env := c.create(looping)
	c.execute(env)
	fork, err := c.RollbackToCheckpoint(c.ctx(), &pb.RollbackRequest{Ref: byEnvelope(env), To: &pb.RollbackRequest_Stage{Stage: "critic"}, Fork: true, NewThreadId: proto.String("another-line")})
	if err != nil || fork.EnvelopeId == env.EnvelopeId || fork.ThreadId != "another-line" {
		t.Fatalf("%v, %v", fork, err)
	}
	old, err := c.GetState(c.ctx(), &pb.GetStateRequest{Ref: byEnvelope(env)})
	if err != nil || old.GetTerminalReason() != "completed" {
		t.Errorf("the old run is %v, %v", old, err)
	}
}

func TestCheckpointsThatLeadNowhere(t *testing.T) {
	b := common(t)
	c := b.as("alice")
	env := c.create(looping)
	c.execute(env)
	foreign := b.as("bob")
	theirs := foreign.create(looping)
	foreign.execute(theirs)
	list, err := foreign.ListCheckpoints(b.ctx(), &pb.ListCheckpointsRequest{Ref: byEnvelope(theirs)})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		req  *pb.RollbackRequest
		code codes.Code
	}{
		"none":             {&pb.RollbackRequest{}, codes.InvalidArgument},
		"no id":            {&pb.RollbackRequest{To: &pb.RollbackRequest_CheckpointId{CheckpointId: "cp_x"}}, codes.NotFound},
		"a turn too far":   {&pb.RollbackRequest{To: &pb.RollbackRequest_CheckpointId{CheckpointId: "cp_" + env.RunId + "_99"}}, codes.NotFound},
		"a stage unknown":  {&pb.RollbackRequest{To: &pb.RollbackRequest_Stage{Stage: "nobody"}}, codes.NotFound},
		"another user's":   {&pb.RollbackRequest{To: &pb.RollbackRequest_CheckpointId{CheckpointId: list.Checkpoints[0].Id}}, codes.PermissionDenied},
		"a thread for it":  {&pb.RollbackRequest{To: &pb.RollbackRequest_Stage{Stage: "critic"}, NewThreadId: proto.String("x")}, codes.InvalidArgument},
		"a raise too high": {&pb.RollbackRequest{To: &pb.RollbackRequest_Stage{Stage: "critic"}, Bounds: &pb.Bounds{MaxIterations: proto.Int32(-1)}}, codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			tc.req.Ref = byEnvelope(env)
			_, err := c.RollbackToCheckpoint(c.ctx(), tc.req)
			wantCode(t, err, tc.code, "")
		})
	}
}

// Who follows a run is told why it was cancelled, and which bound it has reached by the
// name that the document has.
func TestAnEndSaysWhy(t *testing.T) {
	c := common(t).as("alice")
	env := c.paused()
	if _, err := c.Cancel(c.ctx(), &pb.CancelRequest{Ref: byEnvelope(env), Reason: "the customer left"}); err != nil {
		t.Fatal(err)
	}
	events, err := c.all(c.Watch(c.ctx(), &pb.WatchRequest{Ref: byEnvelope(env)}))
	if err != nil {
		t.Fatal(err)
	}
	last := events[len(events)-1]
	if member(t, last, "reason") != `"the customer left"` || member(t, last, "by") != `"token:alice"` || !strings.Contains(last.Envelope.GetTerminationReason(), "the customer left") {
		t.Errorf("the last event says %s, the Envelope %q", last.Payload, last.Envelope.GetTerminationReason())
	}

	events = c.execute(c.create("name: p\nmax_iterations: 1\nmax_wall_seconds: 60\nagents: [{name: a, default_next: a, scripted: {answers: [{output: {}}]}}]"))
	for _, e := range events {
		switch e.Type {
		case pb.ExecutionEvent_PIPELINE_STARTED:
			var bounds map[string]any
			mustRead(t, []byte(member(t, e, "bounds")), &bounds)
			if bounds["max_iterations"] != 1.0 || bounds["max_wall_seconds"] != 60.0 || bounds["max_cost_usd"] != "5.00" || bounds["model_calls"] != nil {
				t.Errorf("it starts with %v", bounds)
			}
		case pb.ExecutionEvent_BOUNDS_EXCEEDED:
			if got := member(t, e, "bound"); got != `"max_iterations"` {
				t.Errorf("the bound is %s", got)
			}
		}
	}
}

func TestCancelIsIdempotent(t *testing.T) {
	c := common(t).as("alice")
	env := c.paused()
	for range 2 {
		got, err := c.Cancel(c.ctx(), &pb.CancelRequest{Ref: byEnvelope(env), Reason: "enough"})
		if err != nil || got.GetTerminalReason() != "user_cancelled" || got.GetOutcome() != "cancelled" || got.State != "cancelled" || got.InterruptPending {
			t.Fatalf("%v, %v", got, err)
		}
	}
	draft := c.create(straight)
	got, err := c.Cancel(c.ctx(), &pb.CancelRequest{Ref: byEnvelope(draft)})
	if err != nil || got.State != "cancelled" {
		t.Errorf("a draft: %v, %v", got, err)
	}
	_, err = c.all(c.ExecutePipeline(c.ctx(), &pb.ExecuteRequest{Envelope: &pb.Envelope{EnvelopeId: draft.EnvelopeId}}))
	wantCode(t, err, codes.FailedPrecondition, "")
}

func TestAThreadHasOneUnfinishedRun(t *testing.T) {
	c := common(t).as("alice")
	start := func() error {
		_, err := c.all(c.ExecutePipeline(c.ctx(), &pb.ExecuteRequest{Envelope: &pb.Envelope{}, ThreadId: "busy", Config: document(asking)}))
		return err
	}
	if err := start(); err != nil {
		t.Fatal(err)
	}
	wantCode(t, start(), codes.FailedPrecondition, tipstaff.ThreadBusy)
}
