package tool_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/policy/sqlguard"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// queryTool says of itself that it only reads, which is up to the statement.
const queryTool = `{"name":"query","inputSchema":{"type":"object","properties":{"sql":{"type":"string"}}},"annotations":{"readOnlyHint":true,"destructiveHint":false,"openWorldHint":false}}`

const (
	queryURI = "mcp://wire/query@1.0.0"
	reading  = `{"sql":"SELECT name FROM users"}`
	writing  = `{"sql":"DELETE FROM users"}`
	twofold  = `{"sql":"SELECT 1; DELETE FROM users"}`
)

func policyOf(t testing.TB, d policy.Document) *policy.Policy {
	t.Helper()
	p, problems := policy.New(d, sqlguard.Kind)
	if problems != nil {
		t.Fatal(problems)
	}
	return p
}

func sqlGuard(functions ...string) []policy.GuardConfig {
	return []policy.GuardConfig{{ID: "sql", Use: policy.SQLGuard, Tool: "wire/*", Arg: "/sql", Dialect: "trino", Functions: functions, Single: true}}
}

// guardedBench is one whose policy has a guard, and allows everything.
func guardedBench(t testing.TB, s *wireServer, rules ...policy.Rule) *bench {
	t.Helper()
	b := wireBench(t, s, map[string]workspace.Tool{"query": {MaxResult: 1000}})
	if rules == nil {
		rules = []policy.Rule{{ID: "all", Tool: "*/*", Do: policy.Allow}}
	}
	b.manifest.Policy = policyOf(t, policy.Document{Guards: sqlGuard(), Rules: rules})
	b.gate.Policy = b.manifest.Policy
	return b
}

func TestGuardsRaiseTheClassOfACall(t *testing.T) {
	b := guardedBench(t, okServer(queryTool))
	read := b.gate.Ask(tool.Request{URI: queryURI, Args: json.RawMessage(reading)})
	write := b.gate.Ask(tool.Request{URI: queryURI, Args: json.RawMessage(writing)})
	if read.Class != flow.Read || read.Destructive || read.OpenWorld || read.Do != policy.Allow {
		t.Errorf("a read: %+v", read)
	}
	if write.Class != flow.Once || !write.Destructive || write.OpenWorld || write.Do != policy.Allow {
		t.Errorf("a write: %+v", write)
	}
	if diff := cmp.Diff([]string{"sql:read", "sql:write"}, append(read.Guards, write.Guards...)); diff != "" {
		t.Error(diff)
	}
	if read.FactsDigest() == write.FactsDigest() || read.FactsDigest() == "" {
		t.Errorf("the facts have the digests %q and %q", read.FactsDigest(), write.FactsDigest())
	}
	contains(t, string(read.Facts), `"access":"read"`)
	contains(t, string(write.Facts), `"access":"write"`)
}

func TestGuardsRefuse(t *testing.T) {
	b := guardedBench(t, okServer(queryTool))
	v := b.gate.Ask(tool.Request{URI: queryURI, Args: json.RawMessage(twofold)})
	if v.Do != policy.Deny || v.Err == nil || v.Err.Code != tool.CodeGuardRefused || !v.Err.NotSent {
		t.Fatalf("two statements: %+v", v)
	}
	contains(t, v.Err.Message, `guard "sql"`)
	contains(t, string(v.Err.Detail), `"guard":"sql"`)
}

// TestRaisedClassMustBeAllowed: a manifest that allows reads alone is not got
// around by a tool that says it reads.
func TestRaisedClassMustBeAllowed(t *testing.T) {
	b := guardedBench(t, okServer(queryTool))
	b.manifest.AllowedEffects = []flow.Class{flow.Read}
	if v := b.gate.Ask(tool.Request{URI: queryURI, Args: json.RawMessage(reading)}); v.Do != policy.Allow {
		t.Errorf("a read: %+v", v.Err)
	}
	v := b.gate.Ask(tool.Request{URI: queryURI, Args: json.RawMessage(writing)})
	if v.Err == nil || v.Err.Code != tool.CodeEffectDenied {
		t.Errorf("a write: %+v", v)
	}
}

// TestRaisedClassIsAskedAbout: accepting a plan covers what it reads, and a write
// only where it was written out.
func TestRaisedClassIsAskedAbout(t *testing.T) {
	b := guardedBench(t, okServer(queryTool), []policy.Rule{}...)
	b.gate.Policy = policyOf(t, policy.Document{Guards: sqlGuard()})
	for _, c := range []struct {
		args    string
		literal bool
		want    policy.Action
	}{{reading, false, policy.Allow}, {writing, true, policy.Allow}, {writing, false, policy.Ask}} {
		v := b.gate.Ask(tool.Request{URI: queryURI, Args: json.RawMessage(c.args), Literal: c.literal})
		if v.Do != c.want {
			t.Errorf("%s, literal %v: got %v", c.args, c.literal, v.Do)
		}
		if v.Do == policy.Ask {
			contains(t, string(v.Subject), `"class":"once"`)
			contains(t, string(v.Subject), `"access":"write"`)
			contains(t, string(v.Subject), `"destructive":true`)
		}
	}
}

func TestRulesSeeTurnAndRun(t *testing.T) {
	b := guardedBench(t, okServer(queryTool),
		policy.Rule{ID: "all", Tool: "*/*", Do: policy.Allow},
		policy.Rule{ID: "tainted", Tool: "*/*", When: "turn.untrusted", Do: policy.Ask},
		policy.Rule{ID: "late", Tool: "*/*", When: "turn.step > 5", Do: policy.Deny},
		policy.Rule{ID: "here", Tool: "*/*", When: `run.id == "R" && run.path == "root/x" && run.principal == "user:eve"`, Do: policy.Deny})
	b.gate.Run = policy.Run{ID: "R", Principal: "user:ada"}
	for _, c := range []struct {
		turn policy.Turn
		run  policy.Run
		want string
	}{
		{policy.Turn{Step: 5}, policy.Run{}, "all"},
		{policy.Turn{Step: 5, Untrusted: true}, policy.Run{}, "tainted"},
		{policy.Turn{Step: 6, Untrusted: true}, policy.Run{}, "late"},
		{policy.Turn{}, policy.Run{Path: "root/x"}, "all"},
		{policy.Turn{}, policy.Run{Path: "root/x", Principal: "user:eve"}, "here"},
		{policy.Turn{}, policy.Run{ID: "S", Path: "root/x", Principal: "user:eve"}, "all"},
	} {
		if v := b.gate.Ask(tool.Request{URI: queryURI, Args: json.RawMessage(reading), Agent: true, Turn: c.turn, Run: c.run}); v.Rule != c.want {
			t.Errorf("%+v %+v: got %s", c.turn, c.run, v.Rule)
		}
	}
}

// approvedInput is the input of a call as an agent's turn makes it.
func approvedInput(b *bench, args string) tool.Input {
	b.Helper()
	v := b.gate.Ask(tool.Request{URI: queryURI, Args: json.RawMessage(args), Agent: true, By: gateID})
	if v.Err != nil {
		b.Fatal(v.Err)
	}
	return tool.Input{URI: queryURI, Args: v.Args, By: v.By, Content: true, Turn: &policy.Turn{Step: 1},
		Definition: v.Definition.Digest, ArgsDigest: v.ArgsDigest(), Facts: v.FactsDigest()}
}

// TestOnlyWhatWasApprovedIsSent: in each case one thing is another than it was
// when the call was approved; nothing is sent, by Check and by Run.
func TestOnlyWhatWasApprovedIsSent(t *testing.T) {
	live := func(b *bench, d policy.Document) { b.manifest.Policy = policyOf(b, d) }
	allow := []policy.Rule{{ID: "all", Tool: "*/*", Do: policy.Allow}}
	for name, c := range map[string]struct {
		args, code string // code "": it is sent
		change     func(b *bench, in *tool.Input)
	}{
		"nothing":             {reading, "", func(*bench, *tool.Input) {}},
		"arguments":           {reading, tool.CodeGuardRefused, func(b *bench, in *tool.Input) { in.Args = json.RawMessage(`{"sql":"SELECT name FROM pets"}`) }},
		"written otherwise":   {reading, "", func(b *bench, in *tool.Input) { in.Args = json.RawMessage(` { "sql" : "SELECT name FROM users" } `) }},
		"definition":          {reading, tool.CodeDefinitionChanged, func(b *bench, in *tool.Input) { in.Definition = "sha256:" + strings.Repeat("0", 64) }},
		"finding":             {reading, tool.CodeGuardRefused, func(b *bench, in *tool.Input) { in.Facts = "sha256:" + strings.Repeat("0", 64) }},
		"guard finds another": {`{"sql":"SELECT strange(1)"}`, tool.CodeGuardRefused, func(b *bench, in *tool.Input) { live(b, policy.Document{Guards: sqlGuard("strange"), Rules: allow}) }},
		"guard is gone":       {reading, tool.CodeGuardRefused, func(b *bench, in *tool.Input) { live(b, policy.Document{Rules: allow}) }},
		"policy denies now": {reading, tool.CodePolicyDenied, func(b *bench, in *tool.Input) {
			live(b, policy.Document{Guards: sqlGuard(), Rules: append(allow, policy.Rule{ID: "no", Tool: "wire/*", Do: policy.Deny})})
		}},
		"policy asks now, and somebody allowed it": {reading, "", func(b *bench, in *tool.Input) { live(b, policy.Document{Guards: sqlGuard()}); in.By = gateID }},
		"policy asks now, and nobody did":          {reading, tool.CodePolicyDenied, func(b *bench, in *tool.Input) { live(b, policy.Document{Guards: sqlGuard()}); in.By = "" }},
		"acceptance covers no agent": {reading, tool.CodePolicyDenied, func(b *bench, in *tool.Input) {
			live(b, policy.Document{Guards: sqlGuard()})
			in.By = tool.ByAcceptance
		}},
		"a rule about the turn": {reading, tool.CodePolicyDenied, func(b *bench, in *tool.Input) {
			live(b, policy.Document{Guards: sqlGuard(), Rules: append(allow, policy.Rule{ID: "first", Tool: "*/*", When: `turn.step == 1 && run.path == "turn/tool#1.1"`, Do: policy.Deny})})
		}},
	} {
		for _, phase := range []string{"check", "run"} {
			s := okServer(queryTool)
			b := guardedBench(t, s)
			in := approvedInput(b, c.args)
			c.change(b, &in)
			activity := b.manager.Activity(b.gate)
			a := flow.Attempt{Run: "R", Path: "turn/tool#1.1", Class: flow.Once, Input: flow.JSON(in)}
			var err error
			if phase == "check" {
				err = activity.Check(context.Background(), a)
			} else {
				_, err = activity.Run(context.Background(), a)
			}
			if c.code == "" {
				if err != nil {
					t.Errorf("%s, %s: %v", name, phase, err)
				}
				continue
			}
			if e := wantCode(t, c.code, nil, err); !e.NotSent || s.called() != 0 {
				t.Errorf("%s, %s: called %d times, %+v", name, phase, s.called(), e)
			}
		}
	}
}

// TestCallIsNotTreatedAsLess: a guard that came since raises the class above the
// one that the run treats the call as.
func TestCallIsNotTreatedAsLess(t *testing.T) {
	s := okServer(queryTool)
	b := guardedBench(t, s)
	a := flow.Attempt{Class: flow.Read, Input: flow.JSON(tool.Input{URI: queryURI, Args: json.RawMessage(writing), By: gateID})}
	value, err := b.try(context.Background(), a)
	wantCode(t, tool.CodeEffectDenied, value, err)
	if s.called() != 0 {
		t.Error("it was called")
	}
}

func TestExplainShowsWhatGuardsFind(t *testing.T) {
	b := guardedBench(t, okServer(queryTool), policy.Rule{ID: "reads", Tool: "wire/*", When: `facts.sql.access == "read"`, Do: policy.Allow},
		policy.Rule{ID: "writes", Tool: "wire/*", Effect: []flow.Class{flow.Once}, Do: policy.Deny, Why: "no"})
	for _, c := range []struct{ args, class, do, rule, found, refused string }{
		{reading, "read", "allow", "reads", "read", ""},
		{writing, "once", "deny", "writes", "write", ""},
		{twofold, "read", "deny", policy.NoMatch, "write", "guards"},
	} {
		e := b.gate.Explain(queryURI, json.RawMessage(c.args))
		if e.Class != c.class || e.Do != c.do || e.Rule != c.rule || e.Static != "depends" {
			t.Errorf("%s: got %s %s %s %s", c.args, e.Class, e.Do, e.Rule, e.Static)
		}
		if len(e.Guards) != 1 || e.Guards[0].Guard != "sql" || e.Guards[0].Class != c.found || (e.Guards[0].Refused != "") != (c.refused != "") {
			t.Errorf("%s: found %+v", c.args, e.Guards)
		}
		if last := e.Checks[len(e.Checks)-1]; c.refused != "" && (last.Check != c.refused || last.Code != tool.CodeGuardRefused) {
			t.Errorf("%s: %+v", c.args, last)
		}
	}
}
