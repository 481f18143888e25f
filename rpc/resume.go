package rpc

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

// ResumePipeline decides an open interrupt, if there is a response, and goes on with
// the run: two acts, of which the first stands if the second fails.
func (s *Server) ResumePipeline(req *pb.ResumeRequest, stream pb.CoreService_ResumePipelineServer) error {
	ctx := stream.Context()
	run, err := s.find(ctx, req.Ref)
	if err != nil {
		return err
	}
	if req.Response == nil && req.InterruptId != "" {
		return invalid("response", "the answer to interrupt %s is missing", req.InterruptId)
	}
	var decided tipstaff.Decided
	if req.Response != nil {
		if decided, err = s.decide(ctx, run, req); err != nil {
			return err
		}
	}
	after := run.HeadSeq
	_, err = s.svc.Resume(ctx, tipstaff.ResumeRequest{Run: run.ID})
	switch code := tipstaff.CodeOf(err); {
	case err == nil:
	case req.Response != nil && code == tipstaff.Busy: // it was not at rest: it takes the decision by itself
	case req.Response != nil && code == tipstaff.RunEnded && !run.State.Terminal(): // by this very decision
	case code == tipstaff.RunEnded && run.State == tipstaff.Cancelled && decided.Decision.Action == tipstaff.ActionHalt:
		after-- // it is the same decision again: the end is told again
	default:
		return err
	}
	return s.watch(ctx, watching{run: run.ID, after: after, follow: true, began: true}, stream)
}

// Cancel ends a run. One that has ended stays as it is.
func (s *Server) Cancel(ctx context.Context, req *pb.CancelRequest) (*pb.Envelope, error) {
	run, err := s.find(ctx, req.Ref)
	if err != nil {
		return nil, err
	}
	if _, err := s.svc.Cancel(ctx, tipstaff.CancelRequest{Run: run.ID, Reason: req.Reason}); err != nil {
		return nil, err
	}
	return s.envelope(ctx, run.ID)
}

// decide closes the gate that the response is for.
func (s *Server) decide(ctx context.Context, run tipstaff.Run, req *pb.ResumeRequest) (none tipstaff.Decided, err error) {
	d := tipstaff.DecideRequest{Run: run.ID, Gate: req.InterruptId, Via: surface}
	at := slices.IndexFunc(run.OpenGates, func(g tipstaff.Gate) bool { return g.ID.String() == d.Gate || g.Key == d.Gate })
	var gate tipstaff.Gate
	switch {
	case d.Gate == "" && len(run.OpenGates) == 0:
		return none, s.nothingOpen(ctx, run.ID)
	case d.Gate == "" && len(run.OpenGates) != 1:
		return none, invalid("interrupt_id", "%d interrupts are open: say which one is answered", len(run.OpenGates))
	case d.Gate == "":
		gate = run.OpenGates[0]
		d.Gate = gate.ID.String()
	case at >= 0:
		gate = run.OpenGates[at]
	}
	// Of a gate that is no longer open only the decision is known: the Service says
	// whether this is the same.
	if err := answer(gate, req.Response, &d); err != nil {
		return none, err
	}
	return s.svc.Decide(ctx, d)
}

// nothingOpen is why an answer that names no interrupt has none to go to: it may have come
// too late.
func (s *Server) nothingOpen(ctx context.Context, run tipstaff.ID) error {
	var last tipstaff.Event
	for e, err := range s.svc.Events(ctx, tipstaff.EventsRequest{Run: run}) {
		if err != nil {
			return err
		}
		if e.Kind == tipstaff.KindPolicyGateResolve {
			last = e
		}
	}
	if tipstaff.BodyOf[tipstaff.GateResolved](&last).Via == tipstaff.ViaExpiry {
		return tipstaff.Errorf(tipstaff.GateExpired, "the interrupt at %s expired and was denied at %s", last.Path, last.At.Format(time.RFC3339))
	}
	return invalid("interrupt_id", "0 interrupts are open: there is nothing to answer")
}

// What a yes and a no are called at the various gates, the likeliest first.
var (
	yes = []string{"approve", "accept", "allow", "answer", "continue"}
	no  = []string{"reject", "deny"}
)

// answer puts a response into a decision: the action that it names, or that a yes or
// no means at this gate, or else an answer.
func answer(g tipstaff.Gate, r *pb.InterruptResponse, d *tipstaff.DecideRequest) error {
	d.Note = r.GetNote()
	switch {
	case r.GetDecision() != "":
		d.Action = r.GetDecision()
		opposite := yes
		if r.GetApproved() {
			opposite = no
		}
		if r.Approved != nil && slices.Contains(opposite, d.Action) {
			return invalid("response", "decision is %s, and approved is %t", d.Action, *r.Approved)
		}
	case r.Approved != nil && *r.Approved:
		d.Action = offered(g, yes)
	case r.Approved != nil:
		d.Action = offered(g, no)
	case r.Text != nil || r.Data != nil:
		d.Action = "answer"
	default:
		return invalid("response", "there is no answer in it: give decision, approved, text or data")
	}
	return say(g, r, d)
}

// offered is the first of some actions that a gate offers. Without one it is the
// first: the Service says what is offered.
func offered(g tipstaff.Gate, actions []string) string {
	for _, a := range actions {
		if slices.Contains(g.Actions, a) {
			return a
		}
	}
	return actions[0]
}

// say puts the words of a response where the gate takes them: text is the feedback of
// a review, the answer to a question, and otherwise the reason.
func say(g tipstaff.Gate, r *pb.InterruptResponse, d *tipstaff.DecideRequest) error {
	d.Answer = json.RawMessage(r.Data)
	switch {
	case r.GetText() == "" && d.Action != "answer":
	case g.Kind == tipstaff.Delivery || tipstaff.NeedsFeedback(d.Action):
		d.Feedback = r.GetText()
	case d.Action == "answer" && r.Data != nil && r.Text != nil:
		return invalid("response", "an answer is text or data, not both")
	case d.Action == "answer" && r.Data == nil:
		d.Answer = text(r.GetText())
	case d.Note == "":
		d.Note = r.GetText()
	default:
		return invalid("response.text", "%s takes no text beside a note", d.Action)
	}
	return nil
}
