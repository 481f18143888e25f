package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/agent/agenttest"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
)

func TestTheUserIsHeardFirst(t *testing.T) {
	b := newBed(steps(say("Hello.")), aTool("files/read", "read"))
	b.in.Message = "Who are you?"
	if out := b.take(t); out.Status != flow.Completed {
		t.Fatalf("%v", out.Err)
	}
	first := b.model.requests[0]
	want := []agent.Message{{Role: agent.User, Text: "Who are you?"}}
	if diff := cmp.Diff(want, first.Messages); diff != "" {
		t.Errorf("the first request (-want +got):\n%s", diff)
	}
	if len(first.Tools) != 1 || first.Tools[0].Name != "files__read" || first.Tools[0].Tool != "files/read" {
		t.Errorf("offered %v", first.Tools)
	}
	if b.out.Text != "Hello." || b.out.Reason != agent.ReasonStop || b.out.Steps != 1 {
		t.Errorf("%+v", b.out)
	}
}

func TestOneTool(t *testing.T) {
	b := newBed(steps(call("files__read", `{"n":1}`), say("It says ok.")), aTool("files/read", "read"))
	b.take(t)
	var types []agent.Type
	for _, e := range b.events() {
		types = append(types, e.Type())
	}
	want := []agent.Type{"step_started", "message", "tool_call_request", "approval_decided", "tool_call_result", "step_started", "message", "finish"}
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	last := b.model.requests[1].Messages
	result := last[len(last)-1]
	if result.Role != agent.FromTool || result.Content[0].Text != "ok" || result.CallID != last[1].Calls[0].ID {
		t.Errorf("the second request ends with %+v", result)
	}
	if b.out.ToolCalls != 1 {
		t.Errorf("%d tool calls", b.out.ToolCalls)
	}
}

func TestDeltasComeBeforeTheMessage(t *testing.T) {
	b := newBed(steps(say("one two three")))
	b.take(t)
	var joined string
	for _, d := range b.told {
		var delta agent.TextDelta
		if err := json.Unmarshal(d.Body, &delta); err != nil || d.Path != "turn/model#1" || d.Kind != "agent.text_delta" {
			t.Fatalf("%s %s %v", d.Kind, d.Path, err)
		}
		if delta.Offset != int64(len(joined)) || delta.Step != 1 {
			t.Errorf("delta %+v after %q", delta, joined)
		}
		joined += delta.Text
	}
	if len(b.told) < 2 || joined != "one two three" {
		t.Errorf("%d deltas: %q", len(b.told), joined)
	}
}

func TestDeltasLieBetweenStepAndMessage(t *testing.T) {
	b := newBed(steps(agent.Response{Text: "Let me look.", Calls: call("f__a", `{}`).Calls, Reason: agent.ReasonToolCalls}, say("All is well.")), aTool("f/a", "read"))
	var view agent.View
	var events []agent.Event
	b.jobs = func(j *flow.Job) {
		see := func(d flow.Draft) { // under the engine's lock, in both cases
			if e, ok := view.Event(flow.Record{Draft: d}); ok {
				events = append(events, e)
			}
		}
		j.Appended, j.Tell = see, see
	}
	b.drive(t)
	deltas := 0
	for _, e := range events {
		if e.Type() == agent.TypeTextDelta {
			deltas++
		}
	}
	if err := agenttest.Order(events, true); err != nil || deltas != 4 {
		t.Errorf("%v, %d deltas", err, deltas)
	}
}

// meeting lets calls return only when n of them are there.
func meeting(n int) act {
	arrived := make(chan struct{}, n)
	all := make(chan struct{})
	return func(ctx context.Context, in tool.Input, _ int) (tool.Reply, error) {
		arrived <- struct{}{}
		if len(arrived) == n {
			close(all)
		}
		select {
		case <-all:
			return text("met " + string(in.Args)), nil
		case <-ctx.Done():
			return tool.Reply{}, ctx.Err()
		}
	}
}

func TestReadsAreMadeTogetherAndAnsweredInOrder(t *testing.T) {
	b := newBed(steps(call("f__a", `{"n":1}`, "f__a", `{"n":2}`, "f__a", `{"n":3}`), say("done")), aTool("f/a", "read"))
	b.world.acts["f/a"] = meeting(3)
	b.take(t)
	var contents []string
	for _, r := range of[*agent.ToolCallResult](b) {
		contents = append(contents, r.Content)
	}
	if want := []string{`met {"n":1}`, `met {"n":2}`, `met {"n":3}`}; !slices.Equal(contents, want) {
		t.Errorf("results %q, want %q", contents, want)
	}
}

func TestOneCallThatChangesMakesAllOfThemWait(t *testing.T) {
	b := newBed(steps(call("f__read", `{"n":1}`, "f__write", `{"n":2}`, "f__read", `{"n":3}`), say("done")), aTool("f/read", "read"), aTool("f/write", "once"))
	b.take(t)
	if want := []string{`f/read {"n":1}`, `f/write {"n":2}`, `f/read {"n":3}`}; !slices.Equal(b.world.done(), want) {
		t.Errorf("calls %q, want %q", b.world.done(), want)
	}
	// Strictly in order: each is decided after the one before has its result.
	var order []string
	for _, e := range b.events() {
		if e.Type() == agent.TypeApprovalDecided || e.Type() == agent.TypeToolCallResult {
			order = append(order, string(e.Type())+" "+e.Path)
		}
	}
	want := []string{
		"approval_decided turn/tool#1.1", "tool_call_result turn/tool#1.1",
		"approval_decided turn/tool#1.2", "tool_call_result turn/tool#1.2",
		"approval_decided turn/tool#1.3", "tool_call_result turn/tool#1.3",
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNoMoreCallsAreInFlightThanAllowed(t *testing.T) {
	b := newBed(steps(call("f__a", `{"n":1}`, "f__a", `{"n":2}`, "f__a", `{"n":3}`, "f__a", `{"n":4}`), say("done")), aTool("f/a", "read"))
	b.cfg.ToolParallelism = 2
	flying := make(chan struct{}, 2)
	b.world.acts["f/a"] = func(context.Context, tool.Input, int) (tool.Reply, error) {
		select {
		case flying <- struct{}{}:
			defer func() { <-flying }()
			return text("ok"), nil
		default:
			return tool.Reply{}, &flow.Error{Code: tool.CodeToolError, Message: "too many at once", Answered: true}
		}
	}
	b.take(t)
	if want := []string{"", "", "", ""}; !slices.Equal(b.classes(), want) {
		t.Errorf("results %q", b.classes())
	}
}

func TestStepLimit(t *testing.T) {
	again := call("f__a", `{}`)
	b := newBed(steps(again, again, again), aTool("f/a", "read"))
	b.cfg.MaxSteps = 2
	out := b.take(t)
	if out.Status != flow.Failed || !errors.Is(b.err, agent.ErrMaxSteps) || codeOf(b.err) != flow.CodeBoundExceeded {
		t.Errorf("ended %s with %v", out.Status, b.err)
	}
	if len(b.model.requests) != 2 || len(b.world.done()) != 1 {
		t.Errorf("%d model calls and %d tool calls", len(b.model.requests), len(b.world.done()))
	}
	if want := []string{"", "step_limit"}; !slices.Equal(b.classes(), want) {
		t.Errorf("results %q, want %q", b.classes(), want)
	}
	if f := of[*agent.Failed](b); len(f) != 1 || f[0].Which != agent.BoundSteps {
		t.Errorf("%+v", f)
	}
}

func TestStepLimitExtended(t *testing.T) {
	for answer, calls := range map[string]int{`{"steps":2}`: 3, `2`: 3, `0`: 1, `{}`: 1, `"x"`: 1} {
		again := call("f__a", `{}`)
		b := newBed(steps(again, again, again, say("done")), aTool("f/a", "read"))
		b.cfg.MaxSteps, b.cfg.OnLimit = 2, agent.OnLimitAsk
		if out := b.take(t); out.Status != flow.ParkedRun {
			t.Fatalf("%s: %s %v", answer, out.Status, out.Err)
		}
		b.decide(t, "turn/limit#2", flow.Decision{Action: "extend", Answer: json.RawMessage(answer)})
		b.take(t)
		if n := len(b.world.done()); n != calls {
			t.Errorf("extended by %s: %d calls, want %d", answer, n, calls)
		}
		if good := calls > 1; good != (b.err == nil) {
			t.Errorf("extended by %s: %v", answer, b.err)
		}
	}
}

func TestStepLimitKept(t *testing.T) {
	b := newBed(steps(call("f__a", `{}`)), aTool("f/a", "read"))
	b.cfg.MaxSteps, b.cfg.OnLimit = 1, agent.OnLimitAsk
	b.take(t)
	b.decide(t, "turn/limit#1", flow.Decision{Action: "stop"})
	b.take(t)
	if !errors.Is(b.err, agent.ErrMaxSteps) || len(b.world.done()) != 0 || !slices.Equal(b.classes(), []string{"step_limit"}) {
		t.Errorf("%v, calls %v, results %v", b.err, b.world.done(), b.classes())
	}
}

func TestWhatBrokeOffIsNotDone(t *testing.T) {
	for _, reason := range []agent.Reason{agent.ReasonLength, agent.ReasonContentFilter} {
		broken := call("f__a", `{}`, "f__a", `{}`)
		broken.Reason, broken.Text = reason, "I was ab"
		b := newBed(steps(broken), aTool("f/a", "read"))
		b.take(t)
		if b.err != nil || b.out.Reason != reason || len(b.world.done()) != 0 {
			t.Errorf("%s: %+v %v, calls %v", reason, b.out, b.err, b.world.done())
		}
		if want := []string{"cut_off", "cut_off"}; !slices.Equal(b.classes(), want) {
			t.Errorf("%s: results %q, want %q", reason, b.classes(), want)
		}
		if b.out.Failure() == nil {
			t.Errorf("%s: the output counts as an answer", reason)
		}
	}
}

func TestCallsWithStopAreCalls(t *testing.T) {
	asks := call("f__a", `{}`)
	asks.Reason = agent.ReasonStop
	b := newBed(steps(asks, say("done")), aTool("f/a", "read"))
	b.take(t)
	if m := of[*agent.MessageDone](b); m[0].Reason != agent.ReasonToolCalls || len(b.world.done()) != 1 {
		t.Errorf("reason %q, calls %v", m[0].Reason, b.world.done())
	}
}

func TestNoCallsAreAnAnswer(t *testing.T) {
	answer := say("Done.")
	answer.Reason = agent.ReasonToolCalls
	b := newBed(steps(answer))
	b.take(t)
	if b.err != nil || b.out.Reason != agent.ReasonStop || b.out.Failure() != nil {
		t.Errorf("%v %+v", b.err, b.out)
	}
}

func TestIDsOfCalls(t *testing.T) {
	given := func(id string) agent.Response {
		r := call("f__a", `{}`)
		r.Calls[0].ID = id
		return r
	}
	two := call("f__a", `{}`, "f__a", `{}`)
	two.Calls[0].ID, two.Calls[1].ID = "x", "x"
	b := newBed(steps(given("x"), given("x"), given(""), two, say("done")), aTool("f/a", "read"))
	b.take(t)
	var ids []string
	for _, r := range of[*agent.ToolCallRequest](b) {
		ids = append(ids, r.ID)
	}
	// The vendor's where it is new; else 12 hex digits of the SHA-256 of the path:
	// printf turn/tool#2.1 | sha256sum
	want := []string{"x", "tip_dbd35f8497ce", "tip_e5c64832acc7", "tip_8e01a0405874", "tip_37838f680111"}
	if diff := cmp.Diff(want, ids); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// The next turn of the session has the same paths.
	next := newBed(steps(given(""), given(""), say("done")), aTool("f/a", "read"))
	next.in.History = b.out.Messages
	next.take(t)
	if len(next.out.Messages) != len(b.out.Messages)+6 {
		t.Errorf("%d messages after %d", len(next.out.Messages), len(b.out.Messages))
	}
}

func TestAnUnusableHistoryIsToldAtOnce(t *testing.T) {
	b := newBed(steps(say("hello")))
	b.in.History = []agent.Message{{Role: agent.FromTool, CallID: "x"}}
	b.drive(t)
	if len(b.events()) != 0 || len(b.model.requests) != 0 || !strings.Contains(b.err.Error(), "did not make") {
		t.Errorf("%v, events %v", b.err, b.events())
	}
	if diff := cmp.Diff(b.in.History, b.out.Messages); diff != "" {
		t.Errorf("the session was touched:\n%s", diff)
	}
}

func TestASettingThatCannotBeUsedIsToldAtOnce(t *testing.T) {
	b := newBed(steps(say("hello")))
	b.cfg.MaxSteps = -1
	b.drive(t)
	if len(b.events()) != 0 || !strings.Contains(b.err.Error(), "-1") {
		t.Errorf("%v, events %v", b.err, b.events())
	}
}

func TestUnknownPrice(t *testing.T) {
	b := newBed(steps(say("hello")))
	b.cfg.Caps.Price, b.cfg.CostBound = nil, true
	b.take(t)
	if codeOf(b.err) != agent.CodePriceUnknown || len(b.model.requests) != 0 {
		t.Errorf("%v after %d model calls", b.err, len(b.model.requests))
	}
	b = newBed(steps(say("hello")))
	b.cfg.Caps.Price = nil
	b.take(t)
	if f := of[*agent.Finish](b); b.err != nil || f[0].Usage.CostUSD != nil {
		t.Errorf("%v %+v", b.err, f)
	}
}

// counting is a router that counts how often it is asked.
type counting struct {
	agent.Router
	n *int
}

func (c counting) Narrow(ctx context.Context, message string, catalog *agent.Catalog) (agent.Selection, error) {
	*c.n++
	return c.Router.Narrow(ctx, message, catalog)
}

func TestTheRouterIsAskedOnce(t *testing.T) {
	b := newBed(steps(call("f__read", `{}`), call("f__read", `{}`), say("Done.")), aTool("f/read", "read"), aTool("f/write", "once"))
	asked := 0
	b.cfg.Router, b.cfg.Settings.Router = counting{only("f/read"), &asked}, agent.RouterCustom
	b.take(t)
	if asked != 1 || len(b.model.requests) != 3 {
		t.Errorf("asked %d times in %d steps", asked, len(b.model.requests))
	}
	for i, r := range b.model.requests {
		if len(r.Tools) != 1 || r.Tools[0].Name != "f__read" {
			t.Errorf("step %d offers %v", i+1, r.Tools)
		}
	}
	want := []*agent.RouterDecided{{Router: "custom", Toolkits: []string{"some"}, Tools: 1}}
	if diff := cmp.Diff(want, of[*agent.RouterDecided](b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// confused is a router that cannot tell, and does not say so as it should.
type confused struct{}

func (confused) Narrow(context.Context, string, *agent.Catalog) (agent.Selection, error) {
	return agent.Selection{}, errors.New("out of order")
}

func TestARouterThatFailsOffersEverything(t *testing.T) {
	b := newBed(steps(say("Done.")), aTool("f/read", "read"), aTool("f/write", "once"))
	b.cfg.Router, b.cfg.Settings.Router = confused{}, agent.RouterCustom
	b.take(t)
	r := of[*agent.RouterDecided](b)
	if len(b.model.requests[0].Tools) != 2 || len(r) != 1 || r[0].Tools != 2 || !strings.Contains(r[0].Fallback, "out of order") {
		t.Errorf("%d tools offered, %+v", len(b.model.requests[0].Tools), r)
	}
}

func TestARouterIsReservedLikeAModelCall(t *testing.T) {
	b := newBed(steps(say("Done.")), aTool("f/read", "read"))
	b.cfg.Router, b.cfg.Settings.Router = only("f/read"), agent.RouterCustom
	b.jobs = func(j *flow.Job) { j.Limits = flow.Use{"model_calls": 0} }
	b.take(t)
	if f := of[*agent.Failed](b); len(f) != 1 || f[0].Which != "model_calls" || f[0].Steps != 0 {
		t.Errorf("%+v", f)
	}
}

func TestNobodyIsAskedWhereThereIsNothingToChoose(t *testing.T) {
	b := newBed(steps(say("Done.")), aTool("f/read_one", "read"), aTool("f/read_two", "read"))
	b.cfg.Settings.Router, b.cfg.Toolkits = agent.RouterToolkits, []agent.Toolkit{}
	b.take(t)
	if b.err != nil || len(of[*agent.RouterDecided](b)) != 0 || len(b.model.requests[0].Tools) != 2 {
		t.Errorf("%v%s", b.err, b.transcript())
	}
}

func TestCatalogOfAGate(t *testing.T) {
	tools := []agent.Tool{aTool("b/one", "read"), aTool("a/two", "once"), aTool("a/one", "read")}
	var entries []tool.Entry
	for _, x := range tools {
		entries = append(entries, tool.Entry(x))
	}
	g, err := tool.NewGateFor(entries, nil)
	if err != nil {
		t.Fatal(err)
	}
	g.AllowList = slices.DeleteFunc(g.AllowList, func(uri string) bool { return uri == "mcp://a/two@1.0.0" })
	var got []string
	for _, x := range agent.CatalogOf(g).Tools {
		got = append(got, x.URI)
		if x.Config.Effect != flow.Read || x.Version != "1.0.0" {
			t.Errorf("%+v", x)
		}
	}
	if want := []string{"mcp://a/one@1.0.0", "mcp://b/one@1.0.0"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
