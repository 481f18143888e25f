package agent_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
)

// fails is a tool that always fails so.
func fails(e flow.Error) act {
	return func(context.Context, tool.Input, int) (tool.Reply, error) { return tool.Reply{}, &e }
}

// Whatever goes wrong with a call is told to the model, and the turn goes on.
func TestFailuresThatTheModelIsTold(t *testing.T) {
	entries := func(effects []flow.Class, tools ...agent.Tool) *tool.Gate {
		var list []tool.Entry
		for _, t := range tools {
			list = append(list, tool.Entry(t))
		}
		g, err := tool.NewGateFor(list, rules("*/* allow"))
		if err != nil {
			t.Fatal(err)
		}
		g.Manifest.AllowedEffects = effects
		return g
	}
	read, write := aTool("f/read", "read"), aTool("f/write", "once")
	for name, c := range map[string]struct {
		call    agent.Response
		set     func(*bed)
		class   string
		says    string // part of what the model is told
		reached bool   // the policy
		made    int
	}{
		"a tool that is not there":     {call: call("f__nothing", `{}`), class: "unknown_tool", says: "f__nothing"},
		"a tool that is not offered":   {call: call("f__write", `{}`), class: "not_offered", says: "f__write", set: func(b *bed) { b.cfg.Router, b.cfg.Settings.Router = only("f/read"), agent.RouterCustom }},
		"arguments that are no JSON":   {call: call("f__read", `{"n":`), class: "invalid_arguments", says: "not JSON"},
		"arguments that are a list":    {call: call("f__read", `[1]`), class: "invalid_arguments", says: "not a JSON object"},
		"arguments against the schema": {call: call("f__read", `{"n":"x"}`), class: "invalid_arguments", says: "/n"},
		"a number nobody could carry":  {call: call("f__read", `{"n":123456789012345678901}`), class: "number_unsafe", says: "123456789012345678901"},
		"a tool that is not declared":  {call: call("f__write", `{}`), class: "undeclared_tool", set: func(b *bed) { b.cfg.Gate = entries([]flow.Class{flow.Read}, read) }},
		"a class that is not allowed":  {call: call("f__write", `{}`), class: "effect_denied", says: "once", set: func(b *bed) { b.cfg.Gate = entries([]flow.Class{flow.Read}, read, write) }},
		"a rule that denies":           {call: call("f__read", `{}`), class: "policy_denied", says: "deny-1", reached: true, set: func(b *bed) { b.cfg.Policy = rules("f/* deny") }},
		"a refusal at the last moment": {call: call("f__read", `{}`), class: "guard_refused", says: "no", reached: true, made: 1, set: func(b *bed) {
			b.world.acts["f/read"] = fails(flow.Error{Code: tool.CodeGuardRefused, Message: "no", NotSent: true})
		}},
		"a definition that has changed": {call: call("f__read", `{}`), class: "definition_changed", reached: true, made: 1, set: func(b *bed) {
			b.world.acts["f/read"] = fails(flow.Error{Code: tool.CodeDefinitionChanged, NotSent: true})
		}},
		"a server out of reach":      {call: call("f__read", `{}`), class: "tool_unavailable", reached: true, made: 1, set: func(b *bed) { b.world.acts["f/read"] = fails(flow.Error{Code: tool.CodeUnavailable}) }},
		"a call that takes too long": {call: call("f__read", `{}`), class: "timeout", reached: true, made: 1, set: func(b *bed) { b.world.acts["f/read"] = fails(flow.Error{Code: flow.CodeTimeout}) }},
		"once, not sent in time":     {call: call("f__write", `{}`), class: "timeout", reached: true, made: 1, set: func(b *bed) { b.world.acts["f/write"] = fails(flow.Error{Code: flow.CodeTimeout, NotSent: true}) }},
		"once, out of reach":         {call: call("f__write", `{}`), class: "tool_unavailable", reached: true, made: 1, set: func(b *bed) { b.world.acts["f/write"] = fails(flow.Error{Code: tool.CodeUnavailable, NotSent: true}) }},
		"a result that is too large": {call: call("f__read", `{}`), class: "result_too_large", reached: true, made: 1, set: func(b *bed) {
			b.world.acts["f/read"] = fails(flow.Error{Code: flow.CodeResultTooLarge, Answered: true})
		}},
		"a tool that says it failed": {call: call("f__write", `{}`), class: "tool_error", says: "no such file", reached: true, made: 1, set: func(b *bed) {
			b.world.acts["f/write"] = fails(flow.Error{Code: tool.CodeToolError, Message: "write: no such file", Detail: flow.JSON(text("no such file")), Answered: true})
		}},
		"a tool that fails in silence": {call: call("f__write", `{}`), class: "tool_error", says: "nobody knows", reached: true, made: 1, set: func(b *bed) {
			b.world.acts["f/write"] = fails(flow.Error{Code: tool.CodeToolError, Message: "nobody knows", Answered: true})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(steps(c.call, say("I see.")), read, write)
			if c.set != nil {
				c.set(b)
			}
			if b.take(t); b.err != nil {
				t.Fatalf("the turn ended: %v", b.err)
			}
			r := of[*agent.ToolCallResult](b)[0]
			if r.Class != c.class || !r.IsError || !strings.Contains(r.Content, c.says) {
				t.Errorf("result %+v, want class %s saying %q", r, c.class, c.says)
			}
			last := b.model.requests[len(b.model.requests)-1].Messages
			if m := last[len(last)-1]; m.Role != agent.FromTool || !m.IsError || !strings.Contains(m.Content[0].Text, c.says) {
				t.Errorf("the model was told %+v", m)
			}
			if reached := len(of[*agent.ApprovalDecided](b)) == 1; reached != c.reached {
				t.Errorf("reached the policy: %v", reached)
			}
			if n := len(b.world.done()); n != c.made {
				t.Errorf("%d calls were made, want %d", n, c.made)
			}
		})
	}
}

// only is a router that selects one tool.
type only string

func (o only) Narrow(context.Context, string, *agent.Catalog) (agent.Selection, error) {
	return agent.Selection{Tools: []string{"mcp://" + string(o) + "@1.0.0"}, Toolkits: []string{"some"}}, nil
}

func TestArgumentsAreKeptAsTheyCame(t *testing.T) {
	b := newBed(steps(call("f__read", `{"n":`), say("I see.")), aTool("f/read", "read"))
	b.take(t)
	if got := b.out.Messages[1].Calls[0].Arguments; got != `{"n":` {
		t.Errorf("the session has %q", got)
	}
	if r := of[*agent.ToolCallRequest](b)[0]; string(r.Arguments) != "{}" || r.ArgsDigest != "" {
		t.Errorf("the event has %+v", r)
	}
}

func TestReadsAreTriedAgain(t *testing.T) {
	b := newBed(steps(call("f__read", `{}`), say("Done.")), aTool("f/read", "read"))
	b.world.acts["f/read"] = func(_ context.Context, _ tool.Input, n int) (tool.Reply, error) {
		if n == 1 {
			return tool.Reply{}, &flow.Error{Code: tool.CodeUnavailable, Retry: true}
		}
		return text("there it is"), nil
	}
	b.take(t)
	if want := []string{""}; !slices.Equal(b.classes(), want) || len(b.world.done()) != 2 {
		t.Errorf("results %q after %d calls", b.classes(), len(b.world.done()))
	}
}

// twoCalls is a turn whose model asks for two things at once and is then done.
func twoCalls(class string) *bed {
	return newBed(steps(call("f__a", `{"n":1}`, "f__a", `{"n":2}`), say("Done.")), aTool("f/a", class))
}

func TestPanickingTools(t *testing.T) {
	for _, class := range []string{"once", "read"} {
		b := twoCalls(class)
		b.cfg.ToolParallelism = 1
		b.world.acts["f/a"] = fails(flow.Error{Code: agent.ClassPanic, Message: "index out of range", Answered: true})
		b.take(t)
		if codeOf(b.err) != agent.CodeToolPanic {
			t.Errorf("%s: ended with %v", class, b.err)
		}
		if want := []string{"panic", "not_executed"}; !slices.Equal(b.classes(), want) {
			t.Errorf("%s: results %q, want %q", class, b.classes(), want)
		}
		if n := len(b.world.done()); n != 1 {
			t.Errorf("%s: %d calls", class, n)
		}
	}
}

func TestOnceInDoubt(t *testing.T) {
	lost := func(_ context.Context, _ tool.Input, n int) (tool.Reply, error) {
		if n == 1 {
			return tool.Reply{}, &flow.Error{Code: tool.CodeUnavailable, Message: "lost"}
		}
		return text("bought"), nil
	}
	for _, c := range []struct {
		decision flow.Decision
		made     int
		classes  []string
		code     string
		told     string
	}{
		{flow.Decision{Action: "retry"}, 3, []string{"", ""}, "", "bought"},
		{flow.Decision{Action: "use_result", Answer: flow.JSON(text("it arrived"))}, 2, []string{"", ""}, "", "it arrived"},
		{flow.Decision{Action: "use_result", Answer: json.RawMessage(`"it arrived"`)}, 2, []string{"", ""}, "", "it arrived"},
		{flow.Decision{Action: "use_result", Answer: json.RawMessage(`{"sold":1}`)}, 2, []string{"", ""}, "", `{"sold":1}`},
		{flow.Decision{Action: "fail"}, 1, []string{"in_doubt", "not_executed"}, "in_doubt", ""},
	} {
		b := twoCalls("once")
		b.world.acts["f/a"] = lost
		if out := b.take(t); out.Status != flow.ParkedRun || len(b.classes()) != 0 {
			t.Fatalf("%s with results %v", out.Status, b.classes())
		}
		b.decide(t, "turn/tool#1.1/in_doubt", c.decision)
		b.take(t)
		if codeOf(b.err) != c.code || !slices.Equal(b.classes(), c.classes) || len(b.world.done()) != c.made {
			t.Errorf("%s: ended with %q, results %q, %d calls", c.decision.Action, codeOf(b.err), b.classes(), len(b.world.done()))
		}
		if got := b.out.Messages[2].Content[0].Text; c.told != "" && got != c.told {
			t.Errorf("%s: the model was told %q, want %q", c.decision.Action, got, c.told)
		}
	}
}

func TestBoundsOfTheRunEndTheTurn(t *testing.T) {
	for _, class := range []string{"once", "read"} {
		b := twoCalls(class)
		b.cfg.ToolParallelism = 1
		b.jobs = func(j *flow.Job) { j.Limits = flow.Use{"tool_calls": 1} }
		b.take(t)
		if want := []string{"", "bound_exceeded"}; codeOf(b.err) != flow.CodeBoundExceeded || !slices.Equal(b.classes(), want) {
			t.Errorf("%s: ended with %v, results %q", class, b.err, b.classes())
		}
		if f := of[*agent.Failed](b); f[0].Which != "tool_calls" {
			t.Errorf("%s: %+v", class, f[0])
		}
	}
	b := newBed(steps(say("hello")))
	b.jobs = func(j *flow.Job) { j.Limits = flow.Use{"model_calls": 0} }
	b.take(t)
	if f := of[*agent.Failed](b); len(f) != 1 || f[0].Code != flow.CodeBoundExceeded || f[0].Which != "model_calls" {
		t.Errorf("%+v", f)
	}
}

func TestAModelThatFailsEndsTheTurn(t *testing.T) {
	b := newBed(func(agent.Request) (agent.Response, error) {
		return agent.Response{Text: "I was about to"}, &flow.Error{Code: "provider_rejected", Message: "status 400", Answered: true, Detail: json.RawMessage(`{"status":400}`)}
	})
	b.take(t)
	if f := of[*agent.Failed](b); len(f) != 1 || f[0].Code != "provider_rejected" || f[0].Steps != 1 {
		t.Errorf("%+v", f)
	}
	want := []agent.Message{{Role: agent.User, Text: "Do it."}, {Role: agent.Assistant, Text: "I was about to", Partial: true, Model: "m"}}
	if diff := cmp.Diff(want, b.out.Messages); diff != "" {
		t.Errorf("the session (-want +got):\n%s", diff)
	}
}

func TestAVendorThatFindsARequestTooLong(t *testing.T) {
	tooLong := &flow.Error{Code: agent.CodeContextOverflow, Message: "too long", Answered: true}
	b := newBed(func(r agent.Request) (agent.Response, error) {
		if stepOf(r) == 1 {
			return agent.Response{}, tooLong
		}
		return say("Now I can."), nil
	})
	b.in.History = []agent.Message{{Role: agent.User, Text: strings.Repeat("long ago ", 25_000)}, {Role: agent.Assistant, Text: "yes"}}
	b.take(t)
	started := of[*agent.StepStarted](b)
	if b.err != nil || len(started) != 2 || started[0].Cut.Dropped != 0 || started[1].Cut.Dropped != 2 {
		t.Errorf("%v %+v", b.err, started)
	}
	b = newBed(func(agent.Request) (agent.Response, error) { return agent.Response{}, tooLong })
	b.take(t)
	if codeOf(b.err) != agent.CodeContextOverflow || len(b.model.requests) != 2 {
		t.Errorf("%v after %d model calls", b.err, len(b.model.requests))
	}
}

func TestAMessageThatDoesNotFitIsNotSent(t *testing.T) {
	b := newBed(steps(say("hello")))
	b.in.Message = strings.Repeat("x", 400_000)
	b.take(t)
	if codeOf(b.err) != agent.CodeContextOverflow || len(b.model.requests) != 0 {
		t.Errorf("%v after %d model calls", b.err, len(b.model.requests))
	}
}

func TestUntrustedResultsCount(t *testing.T) {
	deny := rules("*/* allow", "f/write deny turn.untrusted")
	for _, c := range []struct {
		flags []string
		want  []string
	}{
		{[]string{"read"}, []string{"", "policy_denied"}}, // nothing said: an open world
		{[]string{"read", "closed"}, []string{"", ""}},
	} {
		b := newBed(steps(call("f__read", `{}`, "f__write", `{}`), say("Done.")), aTool("f/read", c.flags...), aTool("f/write", "once"))
		b.cfg.Policy = deny
		b.take(t)
		if !slices.Equal(b.classes(), c.want) {
			t.Errorf("%v: results %q, want %q", c.flags, b.classes(), c.want)
		}
	}
	// Of calls made together none is earlier than the others.
	b := newBed(steps(call("f__read", `{}`, "f__read", `{}`), call("f__read", `{}`), say("Done.")), aTool("f/read", "read"))
	b.cfg.Policy = rules("*/* allow", "f/read deny turn.untrusted && turn.step == 2")
	b.take(t)
	if want := []string{"", "", "policy_denied"}; !slices.Equal(b.classes(), want) {
		t.Errorf("results %q, want %q", b.classes(), want)
	}
	for i, in := range b.world.input {
		if want := (policy.Turn{Untrusted: false, Step: 1}); *in.Turn != want {
			t.Errorf("call %d says %+v", i+1, *in.Turn)
		}
	}
}

func TestACallCarriesWhatWasDecidedAbout(t *testing.T) {
	b := newBed(steps(call("f__write", `{ "n": 1.0 }`), say("Done.")), aTool("f/write", "once"))
	b.take(t)
	in := b.world.input[0]
	asked := of[*agent.ToolCallRequest](b)[0]
	if string(in.Args) != `{"n":1}` || in.ArgsDigest != asked.ArgsDigest || in.ArgsDigest != flow.Digest([]byte(`{"n":1}`)) || !in.Content || in.Definition == "" {
		t.Errorf("%+v", in)
	}
}
