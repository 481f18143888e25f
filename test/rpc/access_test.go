package rpc_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// calls are all that concern an Envelope, by name.
func calls(env *pb.Envelope) map[string]func(*client) error {
	view := &pb.Envelope{EnvelopeId: env.EnvelopeId}
	ref := byEnvelope(env)
	return map[string]func(*client) error{
		"CheckBounds": func(c *client) error { _, err := c.CheckBounds(c.ctx(), view); return err },
		"UpdateEnvelope": func(c *client) error {
			_, err := c.UpdateEnvelope(c.ctx(), &pb.UpdateEnvelopeRequest{Envelope: view})
			return err
		},
		"ExecutePipeline": func(c *client) error {
			_, err := c.all(c.ExecutePipeline(c.ctx(), &pb.ExecuteRequest{Envelope: view}))
			return err
		},
		"ExecuteAgent": func(c *client) error {
			_, err := c.ExecuteAgent(c.ctx(), &pb.ExecuteAgentRequest{Envelope: view, AgentName: "ask"})
			return err
		},
		"CreateCheckpoint": func(c *client) error {
			_, err := c.CreateCheckpoint(c.ctx(), &pb.CheckpointRequest{Ref: ref, Label: "l"})
			return err
		},
		"RollbackToCheckpoint": func(c *client) error {
			_, err := c.RollbackToCheckpoint(c.ctx(), &pb.RollbackRequest{Ref: ref, To: &pb.RollbackRequest_Stage{Stage: "ask"}})
			return err
		},
		"ResumePipeline": func(c *client) error { _, err := c.resume(&pb.ResumeRequest{Ref: ref}); return err },
		"GetState":       func(c *client) error { _, err := c.GetState(c.ctx(), &pb.GetStateRequest{Ref: ref}); return err },
		"GetState by run": func(c *client) error {
			_, err := c.GetState(c.ctx(), &pb.GetStateRequest{Ref: byRun(env.RunId)})
			return err
		},
		"ListCheckpoints": func(c *client) error {
			_, err := c.ListCheckpoints(c.ctx(), &pb.ListCheckpointsRequest{Ref: ref})
			return err
		},
		"ListTransitions": func(c *client) error {
			_, err := c.ListTransitions(c.ctx(), &pb.ListTransitionsRequest{Ref: ref})
			return err
		},
		"Watch":  func(c *client) error { _, err := c.all(c.Watch(c.ctx(), &pb.WatchRequest{Ref: ref})); return err },
		"Cancel": func(c *client) error { _, err := c.Cancel(c.ctx(), &pb.CancelRequest{Ref: ref}); return err },
	}
}

func TestWithoutATokenNothing(t *testing.T) {
	b := common(t)
	nobody := b.as("")
	_, err := nobody.CreateEnvelope(b.ctx(), &pb.CreateEnvelopeRequest{})
	wantCode(t, err, codes.Unauthenticated, "")
	attached, err := nobody.ServeAgents(b.ctx())
	if err == nil {
		_, err = attached.Recv()
	}
	wantCode(t, err, codes.Unauthenticated, "")
	for name, call := range calls(b.as("alice").create(straight)) {
		t.Run(name, func(t *testing.T) { wantCode(t, call(nobody), codes.Unauthenticated, "") })
	}
}

func TestAnybodyMayAskWhetherItIsThere(t *testing.T) {
	b := common(t)
	conn, err := grpc.NewClient(b.addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r, err := healthpb.NewHealthClient(conn).Check(b.ctx(), &healthpb.HealthCheckRequest{Service: "tipstaff.core.v1.CoreService"})
	if err != nil || r.Status != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("%v, %v", r, err)
	}
}

func TestAnotherUsersObjectsAreForbidden(t *testing.T) {
	b := common(t)
	env := b.as("alice").paused()
	bob := b.as("bob")
	for name, call := range calls(env) {
		t.Run(name, func(t *testing.T) { wantCode(t, call(bob), codes.PermissionDenied, tipstaff.Forbidden) })
	}
	state, err := b.as("root").GetState(b.ctx(), &pb.GetStateRequest{Ref: byEnvelope(env)})
	if err != nil || state.UserId != "alice" || !state.InterruptPending {
		t.Errorf("the admin sees %v, %v", state, err)
	}
}

func TestAThreadIsItsUsersOwn(t *testing.T) {
	b := common(t)
	for _, user := range []string{"alice", "bob"} {
		c := b.as(user)
		if _, err := c.all(c.ExecutePipeline(b.ctx(), &pb.ExecuteRequest{Envelope: &pb.Envelope{RawInput: user}, ThreadId: "same-key", Config: document(straight)})); err != nil {
			t.Fatal(err)
		}
		got, err := c.GetState(b.ctx(), &pb.GetStateRequest{Ref: &pb.RunRef{Ref: &pb.RunRef_ThreadId{ThreadId: "same-key"}}})
		if err != nil || got.RawInput != user {
			t.Errorf("%s finds %v, %v", user, got, err)
		}
	}
}

func TestScopes(t *testing.T) {
	b := common(t)
	reader, gateway := b.as("reader"), b.as("gateway")
	_, err := reader.CreateEnvelope(b.ctx(), &pb.CreateEnvelopeRequest{})
	wantCode(t, err, codes.PermissionDenied, tipstaff.Forbidden)
	for _, c := range []*client{reader, gateway} {
		s, err := c.ServeAgents(b.ctx())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(register("h", &pb.HostedAgent{Name: "a"})); err != nil {
			t.Fatal(err)
		}
		_, err = s.Recv()
		wantCode(t, err, codes.PermissionDenied, tipstaff.Forbidden)
	}
}

func TestActingForAnother(t *testing.T) {
	b := common(t)
	made, err := b.as("gateway").CreateEnvelope(b.ctx(), &pb.CreateEnvelopeRequest{UserId: "bob", Pipeline: document(straight)})
	if err != nil || made.UserId != "bob" {
		t.Fatalf("%v, %v", made, err)
	}
	if got, err := b.as("bob").GetState(b.ctx(), &pb.GetStateRequest{Ref: byEnvelope(made)}); err != nil || got.EnvelopeId != made.EnvelopeId {
		t.Errorf("whom it was made for sees %v, %v", got, err)
	}
	label, err := b.as("alice").CreateEnvelope(b.ctx(), &pb.CreateEnvelopeRequest{UserId: "bob", Pipeline: document(straight)})
	if err != nil || label.UserId != "bob" {
		t.Fatalf("%v, %v", label, err)
	}
	_, err = b.as("bob").GetState(b.ctx(), &pb.GetStateRequest{Ref: byEnvelope(label)})
	wantCode(t, err, codes.PermissionDenied, tipstaff.Forbidden)
	first := tipstaff.Event{}
	run, _ := tipstaff.ParseID(made.RunId)
	local := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "cli"})
	for e, err := range b.runner.Events(local, tipstaff.EventsRequest{Run: run, Limit: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		first = e
	}
	var body struct {
		User string `json:"user"`
		By   string `json:"by"`
	}
	mustRead(t, first.Body, &body)
	if body.User != "bob" || body.By != "token:gateway" {
		t.Errorf("the record names %+v", body)
	}
}
