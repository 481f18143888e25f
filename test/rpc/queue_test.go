package rpc_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/tipstaff/tipstaff/pb"
)

const stuck = "name: stuck\nagents: [{name: waiting, timeout_seconds: 600, scripted: {answers: [{hang: true}]}}]"

// begun executes a pipeline until its stream tells a type of event.
func (c *client) begun(env *pb.Envelope, until pb.ExecutionEvent_EventType) pb.CoreService_ExecutePipelineClient {
	c.t.Helper()
	stream, err := c.ExecutePipeline(c.ctx(), &pb.ExecuteRequest{Envelope: &pb.Envelope{EnvelopeId: env.EnvelopeId}})
	for err == nil {
		var e *pb.ExecutionEvent
		if e, err = stream.Recv(); err == nil && e.Type == until {
			return stream
		}
	}
	c.t.Fatal(err)
	return nil
}

// Where one user's runs hang, that user's next ones wait and say so, and another's go on.
// What waits when the server stops is lined up again by the next, also if it had parked
// before and was to go on.
func TestAQueuedRunSaysSo(t *testing.T) {
	b := newBed(t, func(b *bed) { b.places = 2 })
	alice, bob := b.as("alice"), b.as("bob")
	asked := alice.paused()
	hanging := alice.create(stuck)
	alice.begun(hanging, pb.ExecutionEvent_PIPELINE_STARTED)

	waiting := alice.create(straight)
	queued := alice.begun(waiting, pb.ExecutionEvent_RUN_QUEUED)
	answered, err := alice.ResumePipeline(alice.ctx(), &pb.ResumeRequest{Ref: byEnvelope(asked), Response: &pb.InterruptResponse{Approved: proto.Bool(true)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []pb.ExecutionEvent_EventType{pb.ExecutionEvent_INTERRUPT_RESOLVED, pb.ExecutionEvent_RUN_QUEUED} {
		e, err := answered.Recv()
		if err != nil || e.Type != want {
			t.Fatalf("it tells %v, %v, want %s", e, err, want)
		}
		if want == pb.ExecutionEvent_RUN_QUEUED && (member(t, e, "driven") != "1" || member(t, e, "places") != "2") {
			t.Errorf("it waits because of %s", e.Payload)
		}
	}
	if end := bob.execute(bob.create(straight)); !end[len(end)-1].Final {
		t.Errorf("another user's run tells %v", typesOf(end))
	}

	b.restart()
	_, err = queued.Recv()
	wantCode(t, err, codes.Unavailable, "shutting_down")
	alice = b.as("alice")
	if _, err := alice.Cancel(alice.ctx(), &pb.CancelRequest{Ref: byEnvelope(hanging)}); err != nil {
		t.Fatal(err)
	}
	for _, env := range []*pb.Envelope{asked, waiting} {
		events, err := alice.all(alice.Watch(alice.ctx(), &pb.WatchRequest{Ref: byEnvelope(env), Follow: true}))
		if err != nil || events[len(events)-1].Envelope.GetTerminalReason() != "completed" {
			t.Errorf("%v, %v", typesOf(events), err)
		}
	}
}
