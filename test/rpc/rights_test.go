package rpc_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// held are the sets of scopes that the tokens of olga have: each alone, all that a
// token has for which nothing is said, and these without one.
var held = func() (sets [][]string) {
	for _, scope := range tipstaff.Scopes() {
		sets = append(sets, []string{scope})
	}
	sets = append(sets, tipstaff.DefaultScopes())
	for _, without := range tipstaff.DefaultScopes() {
		sets = append(sets, slices.DeleteFunc(tipstaff.DefaultScopes(), func(s string) bool { return s == without }))
	}
	return sets
}()

func secretOf(scopes []string) string { return "the-token-of-olga-with-" + strings.Join(scopes, "-") }

func init() {
	for _, scopes := range held {
		callers = append(callers, tipstaff.Token{User: "olga", Secret: secretOf(scopes), Scopes: scopes})
	}
}

// call is one row of the table: what a call needs, and how it is answered.
type call struct {
	method string
	needs  string     // the scopes, all of them
	of     string     // what it is done to: a draft, or a run that is paused or ended; "": nothing
	own    codes.Code // for those who have the scopes and to whom it belongs
	do     func(*client, *pb.Envelope) error
}

var confirmed = &pb.InterruptResponse{Approved: proto.Bool(true)}

// Every call of the service has at least one row, and one for whatever needs more.
var table = []call{
	{"CreateEnvelope", "read run submit", "", codes.OK, func(c *client, _ *pb.Envelope) error {
		_, err := c.CreateEnvelope(c.ctx(), &pb.CreateEnvelopeRequest{Pipeline: document(straight)})
		return err
	}},
	{"CreateEnvelope", "read run", "", codes.OK, func(c *client, _ *pb.Envelope) error {
		_, err := c.CreateEnvelope(c.ctx(), &pb.CreateEnvelopeRequest{Pipeline: &pb.PipelineConfig{Source: &pb.PipelineConfig_Name{Name: "straight"}}})
		return err
	}},
	{"CheckBounds", "read", "draft", codes.OK, func(c *client, e *pb.Envelope) error { _, err := c.CheckBounds(c.ctx(), view(e)); return err }},
	{"UpdateEnvelope", "read run", "draft", codes.OK, func(c *client, e *pb.Envelope) error {
		_, err := c.UpdateEnvelope(c.ctx(), &pb.UpdateEnvelopeRequest{Envelope: view(e), ExpectedVersion: e.Version})
		return err
	}},
	{"ExecutePipeline", "read run", "draft", codes.OK, func(c *client, e *pb.Envelope) error {
		_, err := c.all(c.ExecutePipeline(c.ctx(), &pb.ExecuteRequest{Envelope: view(e)}))
		return err
	}},
	{"ExecutePipeline", "read run submit", "draft", codes.OK, func(c *client, e *pb.Envelope) error {
		_, err := c.all(c.ExecutePipeline(c.ctx(), &pb.ExecuteRequest{Envelope: view(e), Config: document(straight)}))
		return err
	}},
	{"ExecuteAgent", "read run", "draft", codes.OK, func(c *client, e *pb.Envelope) error {
		_, err := c.ExecuteAgent(c.ctx(), &pb.ExecuteAgentRequest{Envelope: view(e), AgentName: "first"})
		return err
	}},
	{"ExecuteAgent", "read run submit", "draft", codes.OK, func(c *client, e *pb.Envelope) error {
		_, err := c.ExecuteAgent(c.ctx(), &pb.ExecuteAgentRequest{Envelope: view(e), AgentName: "x", Agent: []byte(`{"scripted": {"answers": [{"output": {}}]}}`)})
		return err
	}},
	{"CreateCheckpoint", "read run", "paused", codes.OK, func(c *client, e *pb.Envelope) error {
		_, err := c.CreateCheckpoint(c.ctx(), &pb.CheckpointRequest{Ref: byEnvelope(e), Label: "here"})
		return err
	}},
	{"RollbackToCheckpoint", "read run", "ended", codes.OK, rollback(&pb.RollbackRequest{})},
	{"RollbackToCheckpoint", "read run", "ended", codes.OK, rollback(&pb.RollbackRequest{Fork: true})},
	{"RollbackToCheckpoint", "read run decide", "paused", codes.OK, rollback(&pb.RollbackRequest{})},
	{"RollbackToCheckpoint", "read run decide", "paused", codes.OK, rollback(&pb.RollbackRequest{Fork: true})},
	{"RollbackToCheckpoint", "read run decide", "ended", codes.OK, rollback(&pb.RollbackRequest{Outputs: map[string][]byte{"first": []byte(`{}`)}})},
	{"RollbackToCheckpoint", "read run decide", "ended", codes.OK, rollback(&pb.RollbackRequest{Fork: true, MetadataJson: []byte(`{"m": 1}`)})},
	{"RollbackToCheckpoint", "read run decide", "ended", codes.InvalidArgument, rollback(&pb.RollbackRequest{Bounds: &pb.Bounds{MaxLlmCalls: proto.Int32(11)}})},
	{"ResumePipeline", "read run", "paused", codes.OK, func(c *client, e *pb.Envelope) error {
		_, err := c.resume(&pb.ResumeRequest{Ref: byEnvelope(e)})
		return err
	}},
	{"ResumePipeline", "read run decide", "paused", codes.OK, func(c *client, e *pb.Envelope) error {
		_, err := c.resume(&pb.ResumeRequest{Ref: byEnvelope(e), Response: confirmed})
		return err
	}},
	{"GetState", "read", "draft", codes.OK, func(c *client, e *pb.Envelope) error {
		_, err := c.GetState(c.ctx(), &pb.GetStateRequest{Ref: byEnvelope(e)})
		return err
	}},
	{"GetState", "read", "paused", codes.OK, func(c *client, e *pb.Envelope) error {
		_, err := c.GetState(c.ctx(), &pb.GetStateRequest{Ref: byRun(e.RunId)})
		return err
	}},
	{"ListCheckpoints", "read", "paused", codes.OK, func(c *client, e *pb.Envelope) error {
		_, err := c.ListCheckpoints(c.ctx(), &pb.ListCheckpointsRequest{Ref: byEnvelope(e)})
		return err
	}},
	{"ListTransitions", "read", "paused", codes.OK, func(c *client, e *pb.Envelope) error {
		_, err := c.ListTransitions(c.ctx(), &pb.ListTransitionsRequest{Ref: byEnvelope(e)})
		return err
	}},
	{"ListRuns", "read", "", codes.OK, func(c *client, _ *pb.Envelope) error {
		_, err := c.ListRuns(c.ctx(), &pb.ListRunsRequest{PageSize: 1})
		return err
	}},
	{"ListThreads", "read", "", codes.OK, func(c *client, _ *pb.Envelope) error {
		_, err := c.ListThreads(c.ctx(), &pb.ListThreadsRequest{PageSize: 1})
		return err
	}},
	{"ListInterrupts", "read", "", codes.OK, func(c *client, _ *pb.Envelope) error {
		_, err := c.ListInterrupts(c.ctx(), &pb.ListInterruptsRequest{PageSize: 1})
		return err
	}},
	{"Cancel", "read run", "paused", codes.OK, func(c *client, e *pb.Envelope) error {
		_, err := c.Cancel(c.ctx(), &pb.CancelRequest{Ref: byEnvelope(e)})
		return err
	}},
	{"Watch", "read", "ended", codes.OK, func(c *client, e *pb.Envelope) error {
		_, err := c.all(c.Watch(c.ctx(), &pb.WatchRequest{Ref: byEnvelope(e)}))
		return err
	}},
	{"ServeAgents", "host", "", codes.OK, func(c *client, _ *pb.Envelope) error {
		s, err := c.ServeAgents(c.ctx())
		if err != nil {
			return err
		}
		if err := s.Send(register(fmt.Sprint("h", time.Now().UnixNano()), &pb.HostedAgent{Name: "nobody-calls"})); err != nil {
			return err
		}
		_, err = s.Recv()
		_ = s.CloseSend()
		return err
	}},
}

func view(e *pb.Envelope) *pb.Envelope { return &pb.Envelope{EnvelopeId: e.EnvelopeId} }

func rollback(req *pb.RollbackRequest) func(*client, *pb.Envelope) error {
	return func(c *client, e *pb.Envelope) error {
		own := proto.Clone(req).(*pb.RollbackRequest)
		own.Ref, own.To = byEnvelope(e), &pb.RollbackRequest_CheckpointId{CheckpointId: "cp_" + e.RunId + "_0"}
		_, err := c.RollbackToCheckpoint(c.ctx(), own)
		return err
	}
}

// object makes what a call is done to.
func (c *client) object(of string) *pb.Envelope {
	switch of {
	case "draft":
		return c.create(straight)
	case "paused":
		return c.paused()
	case "ended":
		env := c.create(straight)
		c.execute(env)
		return env
	}
	return nil
}

// want is how a caller with some scopes is answered. Whoever may read finds out that
// there is nothing; of others' objects only an admin finds out anything.
func (c call) want(scopes []string, whose string) codes.Code {
	admin := slices.Contains(scopes, tipstaff.ScopeAdmin)
	may := admin
	if !may {
		may = !slices.ContainsFunc(strings.Fields(c.needs), func(s string) bool { return !slices.Contains(scopes, s) })
	}
	switch {
	case c.of == "" || whose == "own":
	case whose == "foreign":
		may = admin
	case admin || slices.Contains(scopes, tipstaff.ScopeRead):
		return codes.NotFound
	default:
		may = false
	}
	if may {
		return c.own
	}
	return codes.PermissionDenied
}

func TestRights(t *testing.T) {
	b := common(t)
	owner, stranger := b.bearing(secretOf(tipstaff.DefaultScopes())), b.as("alice")
	nobodys := tipstaff.NewID(time.Now()).String()
	missing := &pb.Envelope{EnvelopeId: "env_" + nobodys, RunId: nobodys}
	rows := map[string]bool{}
	for i, row := range table {
		rows[row.method] = true
		t.Run(fmt.Sprintf("%d %s", i, row.method), func(t *testing.T) {
			t.Parallel()
			foreign := stranger.object(row.of)
			for _, scopes := range held {
				c := b.bearing(secretOf(scopes))
				for _, whose := range []string{"own", "foreign", "missing"} {
					want, env := row.want(scopes, whose), missing
					switch {
					case whose == "own":
						env = owner.object(row.of)
					case whose == "foreign" && want == codes.OK: // which changes it
						env = stranger.object(row.of)
					case whose == "foreign":
						env = foreign
					}
					if err := row.do(c, env); status.Code(err) != want {
						t.Errorf("with %v, %s %s: %v, want %s", scopes, whose, row.of, err, want)
					}
				}
			}
		})
	}
	for _, m := range pb.CoreService_ServiceDesc.Methods {
		if !rows[m.MethodName] {
			t.Errorf("the table has no row for %s", m.MethodName)
		}
	}
	for _, s := range pb.CoreService_ServiceDesc.Streams {
		if !rows[s.StreamName] {
			t.Errorf("the table has no row for %s", s.StreamName)
		}
	}
}
