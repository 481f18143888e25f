package rpc_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/pb"
)

func timeOf(*testing.T) time.Time { return time.Now() }

// asking stops for a yes or no, and then goes on to the end.
const asking = `
name: asking
agents:
  - name: ask
    stage_order: 1
    default_next: done
    scripted: {answers: [{output: {}, control: {interrupt: {kind: confirmation, question: "Shall it?", message: "It costs.", data: {cost: 3}}}}, {output: {}}]}
  - {name: done, stage_order: 2, scripted: {answers: [{output: {}}]}}
confirmation_resume_stage: done
`

// paused runs a pipeline to its question.
func (c *client) paused() *pb.Envelope {
	c.t.Helper()
	events := c.execute(c.create(asking))
	last := events[len(events)-1]
	if last.Type != pb.ExecutionEvent_INTERRUPT_RAISED || last.Stage != "ask" {
		c.t.Fatalf("the stream ended with %s of %s", last.Type, last.Stage)
	}
	return last.Envelope
}

func (c *client) resume(req *pb.ResumeRequest) ([]*pb.ExecutionEvent, error) {
	c.t.Helper()
	return c.all(c.ResumePipeline(c.ctx(), req))
}

func TestAQuestionIsTheLastOfItsStream(t *testing.T) {
	c := common(t).as("alice")
	env := c.paused()
	if !env.InterruptPending || len(env.Interrupts) != 1 || env.State != "executing" || env.GetCondition() != "waiting" || env.CurrentStage != "ask" {
		t.Fatalf("it waits as %v", env)
	}
	i := env.Interrupts[0]
	if i.Kind != "confirmation" || i.Question != "Shall it?" || i.Message != "It costs." || string(i.Data) != `{"cost":3}` || !i.Open || i.ExpiresAt == nil ||
		len(i.Actions) != 3 || i.Actions[0] != "approve" || i.Id == "" {
		t.Errorf("the interrupt is %v", i)
	}
	if shown := strings.Join(i.GetShown().GetLines(), "\n"); !i.GetShown().GetWhole() || !strings.Contains(shown, `data: {"cost":3}`) || !strings.Contains(shown, `message: "It costs."`) {
		t.Errorf("it is shown as %s", shown)
	}
	bounds, err := c.CheckBounds(c.ctx(), env)
	if err != nil || bounds.CanContinue || !bounds.InterruptPending || bounds.TerminalReason != nil {
		t.Errorf("%v, %v", bounds, err)
	}
	again, err := c.all(c.Watch(c.ctx(), &pb.WatchRequest{Ref: byEnvelope(env), Follow: true}))
	if err != nil {
		t.Fatal(err)
	}
	checkStream(t, again)
	if last := again[len(again)-1]; member(t, last, "question") != `"Shall it?"` || member(t, last, "message") != `"It costs."` || member(t, last, "data") != `{"cost":3}` {
		t.Errorf("the event says %s", last.Payload)
	}
}

func TestYesGoesOnAndNoEnds(t *testing.T) {
	for _, tc := range []struct {
		approved bool
		reason   string
	}{{true, "completed"}, {false, "gate_denied"}} {
		t.Run(tc.reason, func(t *testing.T) {
			c := common(t).as("alice")
			env := c.paused()
			events, err := c.resume(&pb.ResumeRequest{Ref: byEnvelope(env), Response: &pb.InterruptResponse{Approved: &tc.approved, Note: proto.String("because")}})
			if err != nil {
				t.Fatal(err)
			}
			checkStream(t, events)
			if first := events[0]; first.Type != pb.ExecutionEvent_INTERRUPT_RESOLVED || member(t, first, "by") != `"token:alice"` || member(t, first, "note") != `"because"` {
				t.Errorf("the first event is %s with %s", first.Type, first.Payload)
			}
			if end := events[len(events)-1].Envelope; end.GetTerminalReason() != tc.reason || end.Interrupts[0].Response.GetApproved() != tc.approved || end.Interrupts[0].Response.Approved == nil {
				t.Errorf("it ended for %s, answered %v", end.GetTerminalReason(), end.Interrupts[0].Response)
			}
		})
	}
}

func TestAnswersThatDoNotFit(t *testing.T) {
	c := common(t).as("alice")
	env := c.paused()
	yes := &pb.InterruptResponse{Approved: proto.Bool(true)}
	for name, tc := range map[string]struct {
		req    *pb.ResumeRequest
		code   codes.Code
		reason tipstaff.Code
	}{
		"no answer":             {&pb.ResumeRequest{Ref: byEnvelope(env), Response: &pb.InterruptResponse{}}, codes.InvalidArgument, ""},
		"no response":           {&pb.ResumeRequest{Ref: byEnvelope(env), InterruptId: env.Interrupts[0].Id}, codes.InvalidArgument, ""},
		"yes and no":            {&pb.ResumeRequest{Ref: byEnvelope(env), Response: &pb.InterruptResponse{Approved: proto.Bool(true), Decision: proto.String("reject")}}, codes.InvalidArgument, ""},
		"a text to a yes-or-no": {&pb.ResumeRequest{Ref: byEnvelope(env), Response: &pb.InterruptResponse{Text: proto.String("perhaps")}}, codes.InvalidArgument, tipstaff.ActionNotOffered},
		"changes without any":   {&pb.ResumeRequest{Ref: byEnvelope(env), Response: &pb.InterruptResponse{Decision: proto.String("modify")}}, codes.InvalidArgument, tipstaff.InvalidArgument},
		"an unknown interrupt":  {&pb.ResumeRequest{Ref: byEnvelope(env), InterruptId: tipstaff.NewID(time.Now()).String(), Response: yes}, codes.NotFound, tipstaff.GateNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.resume(tc.req)
			wantCode(t, err, tc.code, tc.reason)
		})
	}
	if _, err := c.resume(&pb.ResumeRequest{Ref: byEnvelope(env), Response: yes}); err != nil {
		t.Fatal(err)
	}
	id := env.Interrupts[0].Id
	_, err := c.resume(&pb.ResumeRequest{Ref: byEnvelope(env), InterruptId: id, Response: &pb.InterruptResponse{Approved: proto.Bool(false)}})
	wantCode(t, err, codes.Aborted, tipstaff.DecisionConflict)
	_, err = c.resume(&pb.ResumeRequest{Ref: byEnvelope(env), InterruptId: id, Response: yes}) // the decision is the same, but the run is over
	wantCode(t, err, codes.FailedPrecondition, tipstaff.RunEnded)
}

func TestAnInterruptThatHasExpired(t *testing.T) {
	c := common(t).as("alice")
	events := c.execute(c.create("name: p\nagents: [{name: a, scripted: {answers: [{output: {}, control: {interrupt: {kind: question, question: Well, ttl_seconds: 1}}}]}}]"))
	env := events[len(events)-1].Envelope
	<-time.After(time.Until(env.Interrupts[0].ExpiresAt.AsTime())) // what is waited for is the time itself
	_, err := c.resume(&pb.ResumeRequest{Ref: byEnvelope(env), InterruptId: env.Interrupts[0].Id, Response: &pb.InterruptResponse{Text: proto.String("now")}})
	wantCode(t, err, codes.FailedPrecondition, tipstaff.GateExpired)
	again, err := c.resume(&pb.ResumeRequest{Ref: byEnvelope(env)})
	if err != nil || again[len(again)-1].Envelope.GetTerminalReason() != "gate_denied" {
		t.Errorf("%v, %v", typesOf(again), err)
	}
	// Nobody need know its id to be told that it is too late.
	_, err = c.resume(&pb.ResumeRequest{Ref: byEnvelope(env), Response: &pb.InterruptResponse{Text: proto.String("now")}})
	wantCode(t, err, codes.FailedPrecondition, tipstaff.GateExpired)
}

func TestATextAnswersAQuestion(t *testing.T) {
	c := common(t).as("alice")
	events := c.execute(c.create(`
name: p
clarification_resume_stage: b
agents:
  - {name: a, default_next: b, scripted: {answers: [{output: {}, control: {interrupt: {kind: clarification, question: Which}}}]}}
  - {name: b, scripted: {answers: [{output: {}}]}}`))
	env := events[len(events)-1].Envelope
	end, err := c.resume(&pb.ResumeRequest{Ref: byRun(env.RunId), Response: &pb.InterruptResponse{Text: proto.String("this one")}})
	if err != nil {
		t.Fatal(err)
	}
	if got := end[len(end)-1].Envelope.Interrupts[0].Response; got.Text != "this one" || got.Action != "answer" || got.By != "token:alice" {
		t.Errorf("it was answered %v", got)
	}
}

// both asks in two stages of one turn, and goes on when both are answered.
const both = `
name: both
agents:
  - {name: a, entry: true, scripted: {answers: [{output: {}, control: {interrupt: {kind: confirmation, question: "a?"}}}, {output: {}}]}}
  - {name: b, entry: true, scripted: {answers: [{output: {}, control: {interrupt: {kind: confirmation, question: "b?"}}}, {output: {}}]}}
  - {name: c, requires: [a, b], scripted: {answers: [{output: {}}]}}
`

// While a run still waits for another answer, the one that was given stands: who gives
// it again is shown what is stored, who gives another is refused.
func TestAnAnswerIsGivenOnce(t *testing.T) {
	c := common(t).as("alice")
	events := c.execute(c.create(both))
	env := events[len(events)-1].Envelope
	if len(env.Interrupts) != 2 || env.Interrupts[0].Question != "a?" {
		t.Fatalf("it asks %v", env.Interrupts)
	}
	a, b := env.Interrupts[0].Id, env.Interrupts[1].Id
	answer := func(gate string, yes bool) ([]*pb.ExecutionEvent, error) {
		return c.resume(&pb.ResumeRequest{Ref: byEnvelope(env), InterruptId: gate, Response: &pb.InterruptResponse{Approved: &yes}})
	}
	for range 2 {
		waiting, err := answer(a, true)
		if err != nil {
			t.Fatal(err)
		}
		last := waiting[len(waiting)-1]
		if last.Type != pb.ExecutionEvent_INTERRUPT_RAISED || !last.Envelope.InterruptPending {
			t.Fatalf("with one of two answers it goes on: %v", typesOf(waiting))
		}
		if a, b := last.Envelope.Interrupts[0], last.Envelope.Interrupts[1]; a.Open || !b.Open {
			t.Errorf("open are %v", last.Envelope.Interrupts)
		}
	}
	_, err := answer(a, false)
	wantCode(t, err, codes.Aborted, tipstaff.DecisionConflict)
	end, err := answer(b, true)
	if err != nil || end[len(end)-1].Envelope.GetTerminalReason() != "completed" {
		t.Fatalf("%v, %v", typesOf(end), err)
	}
	for _, i := range end[len(end)-1].Envelope.Interrupts {
		if i.Open || i.Response.GetAction() != "approve" || i.Response.GetBy() != "token:alice" {
			t.Errorf("%s was answered %v", i.Question, i.Response)
		}
	}
	whole, err := c.all(c.Watch(c.ctx(), &pb.WatchRequest{Ref: byEnvelope(env)}))
	if err != nil {
		t.Fatal(err)
	}
	resolved := 0
	for _, e := range whole {
		if e.Type == pb.ExecutionEvent_INTERRUPT_RESOLVED {
			resolved++
		}
	}
	if resolved != 2 {
		t.Errorf("%d answers are recorded, want one for each question", resolved)
	}
}

// reviewed is rejected for good: in other words than the contract's, at last.
const reviewed = `
name: reviewed
max_iterations: 1
agents:
  - {name: write, stage_order: 1, default_next: review, scripted: {answers: [{output: {}}], repeat: last}}
  - name: review
    stage_order: 2
    handoff: on_reject
    scripted: {answers: [{output: {verdict: rejected}}, {output: {verdict: rejected}}, {output: {verdict: perhaps}}], repeat: last}
    routing_rules: [{condition: verdict, value: rejected, target: write}]
`

// Whatever a gate offers can be answered in one call, which tells how the run goes on and
// ends well: with the end of the run, or with its next question.
func TestEveryActionEndsItsStreamWell(t *testing.T) {
	handoff := func(when, output string) string {
		return `
name: p
agents:
  - {name: write, stage_order: 1, default_next: review, scripted: {answers: [{output: {}}], repeat: last}}
  - {name: review, stage_order: 2, handoff: ` + when + `, required_output_fields: [], scripted: {answers: [{output: ` + output + `}], repeat: last}}`
	}
	asks := func(kind string) string {
		return "name: p\nagents: [{name: a, scripted: {answers: [{output: {}, control: {interrupt: {kind: " + kind + ", question: Well}}}, {output: {}}]}}]"
	}
	text, data := proto.String("because of this"), []byte(`{"more": 1}`)
	for name, tc := range map[string]struct {
		document string
		kind     string
		answers  map[string]*pb.InterruptResponse // by action
	}{
		"confirmation":     {asks("confirmation"), "confirmation", map[string]*pb.InterruptResponse{"approve": {}, "modify": {Data: data}, "reject": {Note: text}}},
		"clarification":    {asks("clarification"), "clarification", map[string]*pb.InterruptResponse{"answer": {Text: text}, "deny": {Text: text}}},
		"question":         {asks("question"), "question", map[string]*pb.InterruptResponse{"answer": {Data: data}, "deny": {}}},
		"approved handoff": {handoff("always", "{verdict: approved}"), "handoff", map[string]*pb.InterruptResponse{"continue": {}, "retry_feedback": {Text: text}, "halt": {Text: text}}},
		"rejected handoff": {handoff("always", "{verdict: rejected}"), "handoff", map[string]*pb.InterruptResponse{"continue": {}, "retry_feedback": {Text: text}, "continue_with_waiver": {Text: text}, "halt": {Note: text}}},
		"bound": {`
name: p
max_iterations: 1
on_bound: ask
agents:
  - {name: a, stage_order: 1, default_next: b, scripted: {answers: [{output: {}}], repeat: last}}
  - {name: b, stage_order: 2, routing_rules: [{when: "iteration < 2", target: a}], scripted: {answers: [{output: {}}], repeat: last}}`,
			"bound", map[string]*pb.InterruptResponse{"extend": {Data: []byte(`{"iterations": 5}`)}, "stop": {}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := common(t).as("alice")
			var offered []string
			for action, r := range tc.answers {
				events := c.execute(c.create(tc.document))
				env := events[len(events)-1].Envelope
				if len(env.Interrupts) == 0 || env.Interrupts[len(env.Interrupts)-1].Kind != tc.kind {
					t.Fatalf("it asks %v", env.Interrupts)
				}
				offered = env.Interrupts[len(env.Interrupts)-1].Actions
				r.Decision = proto.String(action)
				answered, err := c.resume(&pb.ResumeRequest{Ref: byEnvelope(env), Response: r})
				if err != nil {
					t.Errorf("%s is answered with %v", action, err)
					continue
				}
				checkStream(t, answered)
				if !answered[len(answered)-1].Final || answered[0].Type != pb.ExecutionEvent_INTERRUPT_RESOLVED || member(t, answered[0], "action") != `"`+action+`"` {
					t.Errorf("%s streams %v", action, typesOf(answered))
				}
				if action != "halt" { // which is answered with the end, also the second time
					continue
				}
				again, err := c.resume(&pb.ResumeRequest{Ref: byEnvelope(env), InterruptId: env.Interrupts[len(env.Interrupts)-1].Key, Response: r})
				if last := answered[len(answered)-1]; err != nil || len(again) != 1 || again[0].Seq != last.Seq || again[0].Envelope.GetTerminalReason() != last.Envelope.GetTerminalReason() {
					t.Errorf("%s again streams %v, %v", action, typesOf(again), err)
				}
			}
			if len(offered) != len(tc.answers) {
				t.Errorf("it offers %v, and %d of them were tried", offered, len(tc.answers))
			}
		})
	}
}

func TestARejectedReviewIsHandedOver(t *testing.T) {
	c := common(t).as("alice")
	events := c.execute(c.create(reviewed))
	handed := func(events []*pb.ExecutionEvent, visits, iteration int32) *pb.Envelope {
		t.Helper()
		last := events[len(events)-1]
		if last.Type != pb.ExecutionEvent_INTERRUPT_RAISED || member(t, last, "kind") != `"handoff"` {
			t.Fatalf("the stream ended with %s: %s", last.Type, last.Payload)
		}
		if e := last.Envelope; e.Visits["write"] != visits || e.Iteration != iteration {
			t.Fatalf("it asks after %d visits and %d iterations, want %d and %d", e.Visits["write"], e.Iteration, visits, iteration)
		}
		return last.Envelope
	}
	decide := func(env *pb.Envelope, r *pb.InterruptResponse) ([]*pb.ExecutionEvent, error) {
		return c.resume(&pb.ResumeRequest{Ref: byEnvelope(env), Response: r})
	}
	env := handed(events, 2, 1) // not before the last round was spent
	_, err := decide(env, &pb.InterruptResponse{Decision: proto.String("retry_feedback")})
	wantCode(t, err, codes.InvalidArgument, "")
	again, err := decide(env, &pb.InterruptResponse{Decision: proto.String("retry_feedback"), Text: proto.String("Shorter, please.")})
	if err != nil {
		t.Fatal(err)
	}
	env = handed(again, 3, 2) // one edge was granted, and what it says is no approval
	if len(env.Feedback) != 1 || env.Feedback[0].Text != "Shorter, please." || env.Feedback[0].To != "write" {
		t.Errorf("the feedback is %v", env.Feedback)
	}
	end, err := decide(env, &pb.InterruptResponse{Decision: proto.String("continue_with_waiver"), Text: proto.String("Good enough."), Note: proto.String("for now")})
	if err != nil {
		t.Fatal(err)
	}
	if e := end[len(end)-1].Envelope; e.GetTerminalReason() != "completed" || len(e.Waivers) != 1 || e.Waivers[0].Actor != "token:alice" || string(e.Outputs["review"]) != `{"verdict":"perhaps"}` {
		t.Errorf("it ended for %s with waivers %v and %s", e.GetTerminalReason(), e.Waivers, e.Outputs["review"])
	}
}
