package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

const gateID = "01JCQ8R4T5V6W7X8Y9Z0A1B2C3"

// onceTool has no hints: the manifest's class holds, or once.
const onceTool = `{"name":"act","inputSchema":{"type":"object","properties":{"to":{"type":"string"}},"required":["to"]}}`

func okServer(tools ...string) *wireServer {
	return &wireServer{tools: listOf(tools...), reply: func(w *wireCall) { w.result(`{"content":[{"type":"text","text":"done"}]}`) }}
}

// TestEveryRefusalAlone: in each case exactly one thing is wrong; the call is
// refused with its own code before anything is sent, by Check and by Run.
func TestEveryRefusalAlone(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0", 64)
	for _, c := range []struct {
		code    string
		break_  func(b *bench, in *tool.Input)
		pointer string
	}{
		{tool.CodeUndeclared, func(b *bench, in *tool.Input) { b.gate.AllowList = nil }, ""},
		{tool.CodeUndeclared, func(b *bench, in *tool.Input) { in.URI = "mcp://wire/act@latest" }, ""},
		{tool.CodeUnknown, func(b *bench, in *tool.Input) { delete(b.manifest.Servers, "wire") }, ""},
		{tool.CodeUnknown, func(b *bench, in *tool.Input) { delete(b.manifest.Servers["wire"].Tools, "act") }, ""},
		{tool.CodeUnknown, func(b *bench, in *tool.Input) {
			in.URI = "mcp://wire/gone@1.0.0"
			b.gate.AllowList = []string{in.URI}
			b.manifest.Servers["wire"].Tools["gone"] = workspace.Tool{}
		}, ""},
		{tool.CodePinMismatch, func(b *bench, in *tool.Input) { in.URI = "mcp://wire/act@1.0.1"; b.gate.AllowList = []string{in.URI} }, ""},
		{tool.CodePinMismatch, func(b *bench, in *tool.Input) {
			in.URI = "mcp://wire/act@" + digest
			b.gate.AllowList = []string{in.URI}
		}, ""},
		{tool.CodeUnlocked, func(b *bench, in *tool.Input) { b.gate.Tools, _ = tool.NewRegistry(nil, nil) }, ""},
		{tool.CodeDefinitionChanged, func(b *bench, in *tool.Input) {
			b.gate.Tools = registryOf(b, strings.Replace(onceTool, `"name"`, `"description":"new","name"`, 1))
		}, ""},
		{tool.CodeNumberUnsafe, func(b *bench, in *tool.Input) { in.Args = json.RawMessage(`{"to":"x","n":9007199254740993}`) }, ""},
		{tool.CodeInvalidArguments, func(b *bench, in *tool.Input) { in.Args = json.RawMessage(`["to"]`) }, ""},
		{tool.CodeInvalidArguments, func(b *bench, in *tool.Input) { in.Args = json.RawMessage(`{}`) }, ""},
		{tool.CodeInvalidArguments, func(b *bench, in *tool.Input) { in.Args = json.RawMessage(`{"to":5}`) }, "/to"},
		{tool.CodeEffectDenied, func(b *bench, in *tool.Input) { b.manifest.AllowedEffects = []flow.Class{flow.Read, flow.Idempotent} }, ""},
		{tool.CodePolicyDenied, func(b *bench, in *tool.Input) { b.manifest.Policy = rules(b, "no", "*/act", policy.Deny) }, ""},
		{tool.CodePolicyDenied, func(b *bench, in *tool.Input) { b.manifest.Policy = rules(b, "ask", "*/act", policy.Ask) }, ""},
		{tool.CodePolicyDenied, func(b *bench, in *tool.Input) {
			b.manifest.Policy = rules(b, "ask", "*/act", policy.Ask)
			in.By = tool.ByAcceptance
		}, ""},
		{tool.CodePolicyDenied, func(b *bench, in *tool.Input) {
			b.manifest.Policy = rules(b, "ask", "*/act", policy.Ask)
			in.By = "somebody"
		}, ""},
		{tool.CodePolicyDenied, func(b *bench, in *tool.Input) { b.manifest.Policy = rules(b, "other", "x/y", policy.Allow) }, ""},
	} {
		for _, phase := range []string{"check", "run"} {
			s := okServer(onceTool)
			b := wireBench(t, s, map[string]workspace.Tool{"act": {MaxResult: 1000}})
			in := tool.Input{URI: "mcp://wire/act@1.0.0", Args: json.RawMessage(`{"to":"x"}`)}
			c.break_(b, &in)
			b.manager = tool.NewManager(b.manifest, b.servers)
			t.Cleanup(b.manager.Close)
			activity := b.manager.Activity(b.gate)
			a := flow.Attempt{Class: flow.Once, Input: flow.JSON(in)}
			var err error
			if phase == "check" {
				err = activity.Check(context.Background(), a)
			} else {
				_, err = activity.Run(context.Background(), a)
			}
			e := wantCode(t, c.code, nil, err)
			if !e.NotSent || e.Answered || e.Message == "" {
				t.Errorf("%s: %+v", c.code, e)
			}
			if s.called() != 0 {
				t.Errorf("%s: the tool was called", c.code)
			}
			var d struct{ Pointer, Rule string }
			_ = json.Unmarshal(e.Detail, &d)
			if d.Pointer != c.pointer {
				t.Errorf("%s: points at %q, want %q", c.code, d.Pointer, c.pointer)
			}
			if c.code == tool.CodePolicyDenied && d.Rule == "" {
				t.Errorf("%s: names no rule", c.code)
			}
		}
	}
}

// TestChecksAreMadeInOrder: with everything wrong, mending one thing after the
// other gives the codes in the order of the checks.
func TestChecksAreMadeInOrder(t *testing.T) {
	b := wireBench(t, okServer(onceTool), map[string]workspace.Tool{"act": {}})
	good := *b.gate
	m := *b.manifest
	m.AllowedEffects = nil
	m.Servers = nil
	g := tool.Gate{Manifest: &m, Tools: good.Tools, Policy: rules(b, "no", "*/*", policy.Deny)}
	call := tool.Request{URI: "mcp://wire/act@2.0.0", Args: json.RawMessage(`{"to":1}`)}
	mend := []func(){
		func() { g.AllowList = []string{"mcp://wire/act@2.0.0", "mcp://wire/act@1.0.0"} },
		func() { m.Servers = b.manifest.Servers },
		func() { call.URI = "mcp://wire/act@1.0.0" },
		func() { call.Args = json.RawMessage(`{"to":"x"}`) },
		func() { m.AllowedEffects = []flow.Class{flow.Once} },
		func() { g.Policy = good.Policy },
	}
	var got []string
	for i := 0; ; i++ {
		v := g.Ask(call)
		if v.Err == nil {
			got = append(got, v.Do.String())
			break
		}
		if v.Do != policy.Deny {
			t.Errorf("%v is refused with %v", v.Do, v.Err)
		}
		got = append(got, v.Err.Code)
		mend[i]()
	}
	want := []string{tool.CodeUndeclared, tool.CodeUnknown, tool.CodePinMismatch, tool.CodeInvalidArguments, tool.CodeEffectDenied, tool.CodePolicyDenied, "allow"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestZeroGateRefuses(t *testing.T) {
	v := new(tool.Gate).Ask(tool.Request{URI: "mcp://a/b@1.0.0"})
	if v.Do != policy.Deny || v.Err == nil {
		t.Errorf("got %+v", v)
	}
}

// TestWhoMeetsAQuestion goes through who asks, about what, and what was said.
func TestWhoMeetsAQuestion(t *testing.T) {
	const allow, ask, deny = policy.Allow, policy.Ask, policy.Deny
	for _, c := range []struct {
		rule           policy.Action // of an explicit rule; 9: none
		class          flow.Class
		by             string
		literal, agent bool
		want           policy.Action
		wantBy         string
	}{
		{9, flow.Read, "", false, false, allow, "accept"},
		{9, flow.Idempotent, "", false, false, allow, "accept"},
		{9, flow.Once, "", true, false, allow, "accept"},
		{9, flow.Once, "", false, false, ask, ""},
		{9, flow.Read, "", true, true, ask, ""},
		{9, flow.Once, "", true, true, ask, ""},
		{9, flow.Once, "accept", false, false, allow, "accept"},
		{9, flow.Once, "accept", false, true, deny, ""},
		{9, flow.Once, gateID, false, false, allow, gateID},
		{9, flow.Once, gateID, false, true, allow, gateID},
		{9, flow.Read, "me", true, false, deny, ""},
		{9, flow.Read, strings.ToLower(gateID), true, false, deny, ""},
		{ask, flow.Read, "", true, false, ask, ""},
		{ask, flow.Read, "accept", true, false, deny, ""},
		{ask, flow.Once, gateID, false, false, allow, gateID},
		{allow, flow.Once, "", false, true, allow, ""},
		{deny, flow.Read, gateID, true, false, deny, ""},
		{deny, flow.Read, "accept", true, false, deny, ""},
	} {
		t.Run(fmt.Sprintf("rule %v, %s, by %q, literal %v, agent %v", c.rule, c.class, c.by, c.literal, c.agent), func(t *testing.T) {
			b := wireBench(t, okServer(onceTool), map[string]workspace.Tool{"act": {Effect: c.class}})
			b.gate.Policy = new(policy.Policy)
			if c.rule != 9 {
				b.gate.Policy = rules(b, "r", "wire/*", c.rule)
			}
			v := b.gate.Ask(tool.Request{URI: "mcp://wire/act@1.0.0", Args: json.RawMessage(`{"to":"x"}`), By: c.by, Literal: c.literal, Agent: c.agent})
			if v.Do != c.want || v.By != c.wantBy || (v.Do == deny) != (v.Err != nil) {
				t.Errorf("got %v by %q, %v", v.Do, v.By, v.Err)
			}
		})
	}
}

func TestSubjectIsExactlyWhatIsDecided(t *testing.T) {
	b := wireBench(t, okServer(onceTool), map[string]workspace.Tool{"act": {}})
	b.gate.Policy = new(policy.Policy)
	ask := func(args string) tool.Verdict {
		return b.gate.Ask(tool.Request{URI: "mcp://wire/act@1.0.0", Args: json.RawMessage(args)})
	}
	v := ask(`{ "to" : "x<y" }`)
	var got map[string]any
	if err := json.Unmarshal(v.Subject, &got); err != nil {
		t.Fatal(err)
	}
	d := v.Definition
	want := map[string]any{"uri": "mcp://wire/act@1.0.0", "tool_digest": d.Digest, "class": "once", "rule": policy.NoMatch,
		"hints": map[string]any{"destructive": true, "open_world": true}, "facts": map[string]any{}, "policy_digest": new(policy.Policy).Digest(),
		"args": map[string]any{"to": "x<y"}, "args_digest": got["args_digest"]}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if string(v.Args) != `{"to":"x<y"}` {
		t.Errorf("sent would be %s", v.Args)
	}
	if string(ask(`{"to":"x<y"}`).Subject) != string(v.Subject) {
		t.Error("the same arguments written otherwise give another subject")
	}
	if other := ask(`{"to":"z"}`); string(other.Subject) == string(v.Subject) {
		t.Error("other arguments give the same subject")
	}
}

// TestApprovalDoesNotOutliveTheDefinition: an answer holds for what was shown.
func TestApprovalDoesNotOutliveTheDefinition(t *testing.T) {
	s := okServer(onceTool)
	b := wireBench(t, s, map[string]workspace.Tool{"act": {}})
	b.manifest.Policy = new(policy.Policy)
	a := flow.Attempt{Class: flow.Once, Input: flow.JSON(tool.Input{URI: "mcp://wire/act@1.0.0", Args: json.RawMessage(`{"to":"x"}`), By: gateID})}
	if _, err := b.try(context.Background(), a); err != nil {
		t.Fatal(err)
	}
	s.tools = listOf(strings.Replace(onceTool, `"required":["to"]`, `"required":[]`, 1))
	later := tool.NewManager(b.manifest, b.servers)
	defer later.Close()
	b.activity = later.Activity(b.gate)
	value, err := b.try(context.Background(), a)
	e := wantCode(t, tool.CodeDefinitionChanged, value, err)
	contains(t, e.Message, "inputSchema/required changed")
	if s.called() != 1 {
		t.Errorf("the tool was called %d times", s.called())
	}
}

func TestClassThatRoseIsRefused(t *testing.T) {
	s := okServer(onceTool)
	b := wireBench(t, s, map[string]workspace.Tool{"act": {Effect: flow.Read}})
	b.manifest.Servers["wire"].Tools["act"] = workspace.Tool{Effect: flow.Once, MaxResult: 100}
	value, err := b.try(context.Background(), wireAttempt("act", flow.Read, `{"to":"x"}`))
	wantCode(t, tool.CodeEffectDenied, value, err)
	if s.called() != 0 {
		t.Error("the tool was called")
	}
}

func rules(t testing.TB, id, glob string, do policy.Action) *policy.Policy {
	t.Helper()
	p, problems := policy.New(policy.Document{Rules: []policy.Rule{{ID: id, Tool: glob, Do: do}}})
	if problems != nil {
		t.Fatal(problems)
	}
	return p
}

// registryOf is what a server with these tools would give under b's manifest.
func registryOf(b *bench, tools ...string) *tool.Registry {
	b.Helper()
	s := okServer(tools...)
	s.version = "1.0.0"
	r, err := tool.NewRegistry(b.manifest, map[string]tool.Server{"wire": tool.MCP(s.dialIn)})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func TestAllowListComparesWholeURIs(t *testing.T) {
	b := wireBench(t, okServer(onceTool), map[string]workspace.Tool{"act": {}})
	d := b.gate.Tools.Definitions()[0]
	byDigest := "mcp://wire/act@" + d.Digest
	call := tool.Request{URI: byDigest, Args: json.RawMessage(`{"to":"x"}`)}
	if v := b.gate.Ask(call); v.Err == nil || v.Err.Code != tool.CodeUndeclared {
		t.Errorf("another pin of the same tool: %+v", v)
	}
	b.gate.AllowList = []string{byDigest}
	if v := b.gate.Ask(call); v.Do != policy.Allow {
		t.Errorf("the digest as pin: %+v", v.Err)
	}
	if slices.Contains(b.gate.AllowList, "mcp://wire/act@1.0.0") {
		t.Error("the gate changed its list")
	}
}

func TestNoManifestDeclaresNothing(t *testing.T) {
	var m *workspace.Manifest
	if _, ok := m.Server("builtin"); ok || m.Allows(flow.Read) {
		t.Error("a missing manifest allows something")
	}
	r, err := tool.NewRegistry(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := tool.NewGate([]string{uriOf("sleep")}, nil, r).Ask(tool.Request{URI: uriOf("sleep"), Args: []byte(`{"duration":"1s"}`)})
	if v.Do != policy.Deny || v.Err == nil || v.Err.Code != tool.CodeUnknown {
		t.Errorf("got %+v", v)
	}
}
