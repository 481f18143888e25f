package rpc_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/tipstaff/tipstaff/pb"
)

func mustRead(t testing.TB, raw []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}

func register(host string, agents ...*pb.HostedAgent) *pb.HostMessage {
	return &pb.HostMessage{Message: &pb.HostMessage_Register{Register: &pb.Register{HostId: host, Agents: agents}}}
}

// host is one that a test plays.
type host struct {
	t testing.TB
	pb.CoreService_ServeAgentsClient
}

// attach registers a host.
func (c *client) attach(id string, agents ...*pb.HostedAgent) *host {
	c.t.Helper()
	s, err := c.ServeAgents(c.ctx())
	if err != nil {
		c.t.Fatal(err)
	}
	h := &host{c.t, s}
	h.say(register(id, agents...))
	if h.hear().GetRegistered().GetHeartbeatSeconds() == 0 {
		c.t.Fatal("the host was not registered")
	}
	return h
}

func (h *host) say(m *pb.HostMessage) {
	h.t.Helper()
	if err := h.Send(m); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) hear() *pb.ServerMessage {
	h.t.Helper()
	m, err := h.Recv()
	if err != nil {
		h.t.Fatal(err)
	}
	return m
}

func (h *host) call() *pb.Call {
	h.t.Helper()
	m := h.hear()
	if m.GetCall() == nil {
		h.t.Fatalf("the server said %v", m)
	}
	return m.GetCall()
}

func (h *host) answer(r *pb.Result) {
	h.t.Helper()
	h.say(&pb.HostMessage{Message: &pb.HostMessage_Result{Result: r}})
}

func (h *host) acked(call string) {
	h.t.Helper()
	if m := h.hear(); m.GetAck().GetCallId() != call {
		h.t.Fatalf("the server said %v", m)
	}
}

// remote is one stage that a host does.
func remote(agent, effect string) string {
	return "name: p\nagents: [{name: " + agent + ", effect: " + effect + ", timeout_seconds: 20, remote: {input: {text: \"${input}\"}, wait_seconds: 20}}]"
}

// begin executes in the background.
func (c *client) begin(text string) (*pb.Envelope, <-chan []*pb.ExecutionEvent) {
	c.t.Helper()
	env := c.create(text)
	done := make(chan []*pb.ExecutionEvent, 1)
	go func() {
		events, err := c.all(c.ExecutePipeline(c.ctx(), &pb.ExecuteRequest{Envelope: &pb.Envelope{EnvelopeId: env.EnvelopeId}}))
		if err != nil {
			c.t.Error(err)
		}
		done <- events
	}()
	return env, done
}

func TestAHostDoesAStage(t *testing.T) {
	c := common(t).as("alice")
	env, done := c.begin(remote("does-a-stage", "once"))
	h := c.attach("h1", &pb.HostedAgent{Name: "does-a-stage"})
	call := h.call()
	if call.Agent != "does-a-stage" || call.Visit != 1 || call.Attempt != 1 || string(call.Input) != `{"text":"hello"}` || call.View.GetEnvelopeId() != env.EnvelopeId ||
		call.Redelivery || call.IdempotencyKey == "" || call.Deadline == nil || call.RunId != env.RunId || len(call.View.StageOrder) != 1 || call.Budget.GetLlmCalls() != 10 {
		t.Errorf("the call is %v", call)
	}
	result := &pb.Result{CallId: call.CallId, Output: []byte(`{"big": 9007199254740993}`), Control: []byte(`{"metadata": {"seen": true}}`),
		Usage: &pb.Usage{LlmCalls: 2, TokensIn: 30, TokensOut: 12, CostUsd: 5}}
	h.answer(result)
	h.acked(call.CallId)
	events := <-done
	checkStream(t, events)
	end := events[len(events)-1].Envelope
	if string(end.Outputs["does-a-stage"]) != `{"big":9007199254740993}` || end.LlmCallCount != 2 || end.TokensOut != 12 || end.CostUsd != 5 || string(end.MetadataJson) != `{"seen":true}` {
		t.Errorf("it ended as %v", end)
	}
	h.answer(result) // again: it is stored
	h.acked(call.CallId)
}

// What cannot be used fails its own call, and the host goes on.
func TestABadResultFailsItsCallAlone(t *testing.T) {
	c := common(t).as("alice")
	good := &pb.HostedAgent{Name: "goes-on", Concurrency: 9}
	h := c.attach("bad-results", good, &pb.HostedAgent{Name: "brings-nonsense"})
	_, others := c.begin(strings.Replace(remote("goes-on", "once"), "timeout_seconds: 20", "timeout_seconds: 300", 1))
	kept := h.call()
	for name, bad := range map[string]*pb.Result{
		"no JSON":             {Output: []byte(`{"a":`)},
		"no object":           {Output: []byte(`[1]`)},
		"neither":             {},
		"both":                {Output: []byte(`{}`), Error: &pb.AgentError{Code: "odd"}},
		"control of no use":   {Output: []byte(`{}`), Control: []byte(`7`)},
		"less than nothing":   {Output: []byte(`{}`), Usage: &pb.Usage{LlmCalls: -1}},
		"a control unknown":   {Output: []byte(`{}`), Control: []byte(`{"brake": true}`)},
		"an object, repeated": {Output: []byte(`{"a":1,"a":2}`)},
	} {
		_, done := c.begin(remote("brings-nonsense", "once"))
		bad.CallId = h.call().CallId
		h.answer(bad)
		h.acked(bad.CallId)
		events := <-done
		end := events[len(events)-1].Envelope
		if end.GetTerminalReason() != "stage_failed_fatally" || !strings.Contains(end.FailedStages["brings-nonsense"], "output_") {
			t.Errorf("%s: it ended %s, %v", name, end.GetTerminalReason(), end.FailedStages)
		}
	}
	for _, unknown := range []string{"", "nonsense", "01JCQ8R4T5V6W7X8Y9Z0A1B2C3/critic#1"} {
		h.answer(&pb.Result{CallId: unknown, Output: []byte(`{}`)})
		if ack := h.hear().GetAck(); ack.GetCallId() != unknown || ack.GetRefused() == "" {
			t.Errorf("call %q: the server said %v", unknown, ack)
		}
	}
	h.say(&pb.HostMessage{Message: &pb.HostMessage_Reserve{Reserve: &pb.Reserve{CallId: kept.CallId, Number: 1, LlmCalls: -1}}})
	if g := h.hear().GetGrant(); g.GetNumber() != 1 || g.GetGranted() {
		t.Errorf("less than nothing is granted: %v", g)
	}
	h.answer(&pb.Result{CallId: kept.CallId, Output: []byte(`{"n":1}`)})
	h.acked(kept.CallId)
	events := <-others
	if end := events[len(events)-1].Envelope; string(end.Outputs["goes-on"]) != `{"n":1}` {
		t.Errorf("the other call ended %v", end)
	}
}

// What fits a message and not an Envelope fails its call, and the host goes on.
func TestTooLargeResultsOfHosts(t *testing.T) {
	if testing.Short() {
		t.Skip("of large things there are tests without the race detector")
	}
	c := common(t).as("alice")
	h := c.attach("large-results", &pb.HostedAgent{Name: "brings-much"})
	for _, size := range []int{13 << 20, 1 << 20} {
		_, done := c.begin(remote("brings-much", "once"))
		call := h.call()
		h.answer(&pb.Result{CallId: call.CallId, Output: []byte(`{"a":"` + strings.Repeat("x", size) + `"}`)})
		h.acked(call.CallId)
		events := <-done
		end := events[len(events)-1].Envelope
		if fits := size < 12<<20; (end.GetOutcome() == "completed") != fits || !fits && !strings.Contains(end.FailedStages["brings-much"], "output_") {
			t.Errorf("%d bytes: it ended %s, %v", size, end.GetTerminalReason(), end.FailedStages)
		}
	}
}

func TestAHostThatIsKilledWithARead(t *testing.T) {
	c := common(t).as("alice")
	_, done := c.begin(remote("killed-with-read", "read"))
	agent := &pb.HostedAgent{Name: "killed-with-read", Effect: "read"}
	first := c.attach("h1", agent)
	call := first.call()
	second := c.attach("h2", agent)
	if err := first.CloseSend(); err != nil {
		t.Fatal(err)
	}
	again := second.call()
	if again.CallId != call.CallId || again.IdempotencyKey != call.IdempotencyKey || !again.Redelivery {
		t.Errorf("it was delivered again as %v", again)
	}
	second.answer(&pb.Result{CallId: again.CallId, Output: []byte(`{}`)})
	second.acked(again.CallId)
	if end := (<-done); end[len(end)-1].Envelope.GetOutcome() != "completed" {
		t.Errorf("it ended %s", end[len(end)-1].Envelope.GetOutcome())
	}
}

func TestAHostThatComesBackWithTheResult(t *testing.T) {
	c := common(t).as("alice")
	_, done := c.begin(remote("comes-back", "once"))
	agent := &pb.HostedAgent{Name: "comes-back"}
	first := c.attach("h1", agent)
	call := first.call()
	if err := first.CloseSend(); err != nil {
		t.Fatal(err)
	}
	other := c.attach("h2", agent)
	other.answer(&pb.Result{CallId: call.CallId, Output: []byte(`{"by": "another"}`)}) // which was not asked: it is recorded, and not used
	other.acked(call.CallId)
	back := c.attach("h1", agent)
	back.answer(&pb.Result{CallId: call.CallId, Output: []byte(`{"by": "me"}`)})
	back.acked(call.CallId)
	events := <-done
	if end := events[len(events)-1].Envelope; string(end.Outputs["comes-back"]) != `{"by":"me"}` {
		t.Errorf("it ended as %v", end.Outputs)
	}
}

func TestReservations(t *testing.T) {
	c := common(t).as("alice")
	_, done := c.begin("name: p\nmax_llm_calls: 2\nagents: [{name: reserves, effect: read, remote: {}}]")
	h := c.attach("h1", &pb.HostedAgent{Name: "reserves", Effect: "read"})
	call := h.call()
	ask := func(number int64, llm int32) *pb.Grant {
		h.say(&pb.HostMessage{Message: &pb.HostMessage_Reserve{Reserve: &pb.Reserve{CallId: call.CallId, LlmCalls: llm, Number: number}}})
		return h.hear().GetGrant()
	}
	if g := ask(1, 2); !g.GetGranted() || g.Number != 1 {
		t.Fatalf("the first was answered %v", g)
	}
	if g := ask(2, 1); g == nil || g.Granted || g.GetBound() != "max_llm_calls" || g.Number != 2 {
		t.Fatalf("the second was answered %v", g)
	}
	h.answer(&pb.Result{CallId: call.CallId, Error: &pb.AgentError{Code: "bound_exceeded", Message: "no more calls"}})
	h.acked(call.CallId)
	events := <-done
	if end := events[len(events)-1].Envelope; end.GetTerminalReason() != "max_llm_calls_exceeded" || end.LlmCallCount != 2 {
		t.Errorf("it ended for %s (%s) after %d model calls", end.GetTerminalReason(), end.GetTerminationReason(), end.LlmCallCount)
	}
}

func TestACancelReachesTheHost(t *testing.T) {
	c := common(t).as("alice")
	env, done := c.begin(remote("is-cancelled", "read"))
	h := c.attach("h1", &pb.HostedAgent{Name: "is-cancelled", Effect: "read"})
	call := h.call()
	if _, err := c.Cancel(c.ctx(), &pb.CancelRequest{Ref: byEnvelope(env)}); err != nil {
		t.Fatal(err)
	}
	if m := h.hear(); m.GetCancel().GetCallId() != call.CallId {
		t.Errorf("the host heard %v", m)
	}
	events := <-done
	if end := events[len(events)-1].Envelope; end.GetTerminalReason() != "user_cancelled" {
		t.Errorf("it ended for %s", end.GetTerminalReason())
	}
}

func TestNoHostCame(t *testing.T) {
	c := common(t).as("alice")
	events := c.execute(c.create("name: p\nagents: [{name: nobody-serves, effect: read, max_retries: 1, retry_delay_ms: 1, remote: {wait_seconds: 1}}]"))
	end := events[len(events)-1].Envelope
	if len(end.Errors) == 0 || end.Errors[0].Code != "agent_unavailable" || end.ProcessingHistory[0].Attempts != 2 {
		t.Errorf("it failed with %v after %v", end.Errors, end.ProcessingHistory)
	}
}

func TestHostsThatAreNotTaken(t *testing.T) {
	c := common(t).as("alice")
	c.attach("h1", &pb.HostedAgent{Name: "is-served", Effect: "read"})
	for name, tc := range map[string]struct {
		first *pb.HostMessage
		code  codes.Code
	}{
		"another effect class": {register("h2", &pb.HostedAgent{Name: "is-served", Effect: "once"}), codes.AlreadyExists},
		"no agent":             {register("h2"), codes.InvalidArgument},
		"no id":                {register("", &pb.HostedAgent{Name: "a"}), codes.InvalidArgument},
		"an effect unknown":    {register("h2", &pb.HostedAgent{Name: "a", Effect: "sometimes"}), codes.InvalidArgument},
		"an agent twice":       {register("h2", &pb.HostedAgent{Name: "a"}, &pb.HostedAgent{Name: "a"}), codes.InvalidArgument},
		"something else first": {&pb.HostMessage{Message: &pb.HostMessage_Heartbeat{Heartbeat: new(pb.Heartbeat)}}, codes.InvalidArgument},
		"nothing in it":        {&pb.HostMessage{}, codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := c.ServeAgents(c.ctx())
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Send(tc.first); err != nil {
				t.Fatal(err)
			}
			_, err = s.Recv()
			wantCode(t, err, tc.code, "")
		})
	}
}

func TestASilentHostIsLost(t *testing.T) {
	b := newBed(t, func(b *bed) { b.heartbeat = time.Second })
	c := b.as("alice")
	_, done := c.begin(remote("falls-silent", "read"))
	agent := &pb.HostedAgent{Name: "falls-silent", Effect: "read"}
	silent := c.attach("h1", agent)
	call := silent.call()
	_, err := silent.Recv()
	wantCode(t, err, codes.DeadlineExceeded, "")
	other := c.attach("h2", agent)
	again := other.call()
	if again.CallId != call.CallId {
		t.Errorf("the other host got %s, not %s", again.CallId, call.CallId)
	}
	other.answer(&pb.Result{CallId: again.CallId, Output: []byte(`{}`)})
	other.acked(again.CallId)
	<-done
}

func TestTheFewestOpenCallsWin(t *testing.T) {
	c := common(t).as("alice")
	agent := &pb.HostedAgent{Name: "shared-work", Effect: "read", Concurrency: 2}
	first, second := c.attach("h1", agent), c.attach("h2", agent)
	_, one := c.begin(remote("shared-work", "read"))
	a := first.call()
	_, two := c.begin(remote("shared-work", "read"))
	b := second.call()
	for _, end := range []struct {
		*host
		call *pb.Call
		done <-chan []*pb.ExecutionEvent
	}{{first, a, one}, {second, b, two}} {
		end.answer(&pb.Result{CallId: end.call.CallId, Output: []byte(`{}`)})
		end.acked(end.call.CallId)
		<-end.done
	}
}

// A user_id without act_as is a label: it leads to nobody else's host, not even to an
// admin's. What a gateway makes for others is served by its own hosts too.
func TestCallsGoToHostsOfTheirOwners(t *testing.T) {
	b := common(t)
	agent := &pb.HostedAgent{Name: "owned-work", Effect: "read"}
	admin, bob, gateway := b.as("root").attach("hr", agent), b.as("bob").attach("hb", agent), b.as("gateway-host").attach("hg", agent)
	served := func(h *host, run func() <-chan []*pb.ExecutionEvent) *pb.Call {
		t.Helper()
		done := run()
		call := h.call()
		h.answer(&pb.Result{CallId: call.CallId, Output: []byte(`{}`)})
		h.acked(call.CallId)
		<-done
		return call
	}
	as := func(user string, label string) func() <-chan []*pb.ExecutionEvent {
		return func() <-chan []*pb.ExecutionEvent {
			c := b.as(user)
			env, err := c.CreateEnvelope(c.ctx(), &pb.CreateEnvelopeRequest{UserId: label, Pipeline: document(
				"name: p\nagents: [{name: owned-work, effect: read, remote: {wait_seconds: 1}}]")})
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan []*pb.ExecutionEvent, 1)
			go func() {
				events, _ := c.all(c.ExecutePipeline(c.ctx(), &pb.ExecuteRequest{Envelope: &pb.Envelope{EnvelopeId: env.EnvelopeId, UserId: label}}))
				done <- events
			}()
			return done
		}
	}
	events := <-as("alice", "bob")() // who has no host of her own
	last := events[len(events)-1]
	if last.GetEnvelope().GetTerminalReason() != "stage_failed_fatally" {
		t.Errorf("somebody has served alice: %v", last)
	}
	own := b.as("alice").attach("ha", agent)
	if call := served(own, as("alice", "bob")); call.GetView().GetUserId() != "bob" {
		t.Errorf("her label is %q", call.GetView().GetUserId())
	}
	served(bob, as("bob", "alice"))
	served(gateway, as("gateway-host", "carol")) // who has none: those of the maker serve her
	served(bob, as("gateway-host", "bob"))       // his own come first
	served(admin, as("root", ""))
}
