package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
)

func TestTerms(t *testing.T) {
	d := mustCheck(t, `
kind: plan
version: 1
tools: [mcp://t/read@1.0.0, mcp://t/once_pay@1.0.0, mcp://t/put_file@2.0.0]
intent:
  verb: acquire
  objects: [{name: seat, value: 12A, uri: "https://air.example/12A", type: ticket}]
  budget: [{asset: EUR, amount: "120.50"}]
  deadline: 2026-05-01
  anchor: true
  success_criteria: [{type: delivered, artifact: ticket.pdf}]
  constraints:
    - {type: budget, hard: true, max: {asset: EUR, amount: "150"}}
    - {type: deadline, hard: true, by: "2026-05-02T10:00:00.5+02:00"}
    - {type: jurisdiction, hard: true, allow: [DE, FR], deny: []}
    - {type: quality, metric: f1, min: 0.90}
    - {type: rule, hard: true, rule: window seat}
    - {type: policy, policy: travel}
    - {type: "x:meal", hard: true, data: {vegan: true, b: 1}}
bounds: {tool_calls: 20, cost_usd: "0.50", wall_time: 10m}
root:
  kind: sequential
  children:
    - {id: look, kind: tool_call, tool: mcp://t/read@1.0.0, args: {q: 1}}
    - {id: pay, kind: tool_call, tool: mcp://t/once_pay@1.0.0, args: {to: "${look.output.iban}", amount: 5}}
    - {id: bare, kind: tool_call, tool: mcp://t/once_pay@1.0.0}
    - {id: ok, kind: gate, question: "Go on?", show: {b: 1, a: "${look.output}"}}
    - {id: think, kind: step, prompt: Think., inputs: {n: 1}, tools: [mcp://t/read@1.0.0, mcp://t/put_file@2.0.0]}
    - {id: sub, kind: sub_dispatch, skill: skill://notes@1.0.0, scope: "file:///tmp/x"}
    - {id: own, kind: sub_dispatch, skill: skill://notes@1.0.0, agent: coder, accept: auto, on_error: continue, inputs: {a: 1}, bounds: {tool_calls: 3}}
`)
	ask := policy.Gate{Question: "Go on?", Show: `{"a":"${look.output}","b":1}`, Actions: string(flow.JSON(DefaultActions()))}
	want := policy.Terms{
		Verb:     "acquire",
		Objects:  []policy.Object{{Name: "seat", Value: "12A", URI: "https://air.example/12A", Type: "ticket"}},
		Criteria: []json.RawMessage{json.RawMessage(`{"artifact":"ticket.pdf","type":"delivered"}`)},
		Budget:   []policy.Amount{{Asset: "EUR", Amount: "120.50"}},
		Deadline: "2026-05-01T23:59:59Z",
		Anchor:   true,
		Constraints: []policy.Constraint{
			{Type: "budget", Name: "EUR", Hard: true, Limit: "150"},
			{Type: "deadline", Hard: true, Limit: "2026-05-02T08:00:00.5Z"},
			{Type: "jurisdiction", Hard: true, Allow: []string{"DE", "FR"}, Deny: []string{}},
			{Type: "quality", Name: "f1", Limit: "0.90"},
			{Type: "rule", Name: "window seat", Hard: true},
			{Type: "policy", Name: "travel"},
			{Type: "x:meal", Hard: true, Data: json.RawMessage(`{"b":1,"vegan":true}`)},
		},
		Bounds: tipstaff.Bounds{"tool_calls": 20, "cost_usd": 500_000_000, "wall_time": 600_000},
		// What the workspace of these tests caps, and the defaults of the rest.
		Defaults: tipstaff.Bounds{"tool_calls": 100, "cost_usd": 1_000_000_000, "wall_time": 3_600_000,
			"model_calls": 50, "agent_hops": 50, "iterations": 3, "tokens": 1_000_000},
		Tools: []policy.Tool{
			{Server: "t", Name: "once_pay", Pin: "1.0.0", Class: flow.Once},
			{Server: "t", Name: "put_file", Pin: "2.0.0", Class: flow.Idempotent},
			{Server: "t", Name: "read", Pin: "1.0.0", Class: flow.Read},
		},
		Calls: []policy.Effect{
			{ID: "pay", Tool: "mcp://t/once_pay@1.0.0", Class: flow.Once, Args: json.RawMessage(`{"amount":5,"to":"${look.output.iban}"}`)},
			{ID: "bare", Tool: "mcp://t/once_pay@1.0.0", Class: flow.Once, Args: json.RawMessage(`{}`)},
			{ID: "think", Agent: DefaultAgent, Tool: "mcp://t/put_file@2.0.0", Class: flow.Idempotent, Gates: []policy.Gate{ask},
				Args: json.RawMessage(`{"inputs":{"n":1},"prompt":"Think.","skill":""}`)},
		},
		Dispatches: []policy.Dispatch{
			{Agent: DefaultAgent, Skill: "skill://notes@1.0.0", Scope: "file:///tmp/x", Inputs: json.RawMessage("{}"), Gates: []policy.Gate{ask}},
			{Agent: "coder", Skill: "skill://notes@1.0.0", Auto: true, Continue: true, Inputs: json.RawMessage(`{"a":1}`),
				Bounds: tipstaff.Bounds{"tool_calls": 3}, Gates: []policy.Gate{ask}},
		},
		Gates: []policy.Gate{ask},
	}
	if diff := cmp.Diff(want, d.Terms(workspace{})); diff != "" {
		t.Error(diff)
	}
}

func TestTermsOfUnknownToolsAreOnce(t *testing.T) {
	terms := mustCheck(t, "kind: plan\nversion: 1\nroot: {id: a, kind: tool_call, tool: mcp://t/read@1.0.0}").Terms(nil)
	if len(terms.Tools) != 1 || terms.Tools[0].Class != flow.Once || len(terms.Calls) != 1 {
		t.Errorf("tools %v, calls %v", terms.Tools, terms.Calls)
	}
	if diff := cmp.Diff(tipstaff.DefaultBounds(), terms.Defaults); diff != "" {
		t.Error(diff)
	}
}

// A skill's tools are the plan's, unless the plan lists its own.
func TestTermsHaveTheToolsOfTheSkill(t *testing.T) {
	const head = "kind: plan\nversion: 1\nskill: skill://any@1.0.0\n"
	const root = "root: {id: a, kind: tool_call, tool: mcp://t/read@1.0.0}"
	for src, want := range map[string][]string{
		head + root: {"list", "read"},
		head + "tools: [mcp://t/read@1.0.0]\n" + root: {"read"},
	} {
		d, problems := Check("p.yaml", []byte(src), workspace{})
		if problems != nil {
			t.Fatal(problems)
		}
		var names []string
		for _, tool := range d.Terms(workspace{}).Tools {
			names = append(names, tool.Name)
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("%s\n%s", src, diff)
		}
	}
}

// anyDocument is a small plan in which much can vary.
func anyDocument(t *rapid.T) string {
	one := func(name string, options ...string) string { return rapid.SampledFrom(options).Draw(t, name) }
	var b strings.Builder
	b.WriteString("kind: plan\nversion: 1\n")
	fmt.Fprintf(&b, "name: %s\n", one("name", "a", "b"))
	b.WriteString(one("bounds", "", "bounds: {tool_calls: 10}\n", "bounds: {tool_calls: 11}\n", "bounds: {tool_calls: 12, cost_usd: \"0.50\"}\n"))
	fmt.Fprintf(&b, "intent:\n  verb: %s\n  anchor: %s\n", one("verb", "build", "modify"), one("anchor", "true", "false"))
	b.WriteString(one("deadline", "", "  deadline: 2026-03-02\n", "  deadline: 2026-03-03\n", "  deadline: 2026-02-01\n"))
	b.WriteString(one("budget", "", "  budget: [{asset: EUR, amount: \"10\"}]\n", "  budget: [{asset: EUR, amount: \"11.01\"}]\n"))
	b.WriteString(one("objects", "", "  objects: [{name: a}, {name: b}]\n", "  objects: [{name: b}, {name: a, value: x}]\n"))
	b.WriteString(one("criteria", "", "  success_criteria: [{type: delivered}]\n", "  success_criteria: [{type: external}, {type: delivered}]\n"))
	b.WriteString(one("constraints", "",
		"  constraints: [{type: quality, hard: true, metric: f1, min: 0.9}]\n",
		"  constraints: [{type: quality, hard: false, metric: f1, min: 0.9}]\n",
		"  constraints: [{type: jurisdiction, hard: true, allow: []}, {type: jurisdiction, hard: true, allow: [DE]}]\n"))
	b.WriteString("root:\n  kind: sequential\n  children:\n    - {id: ok, kind: gate, question: Go?}\n")
	for i := range rapid.IntRange(0, 3).Draw(t, "leaves") {
		b.WriteString(strings.ReplaceAll(one("leaf",
			"    - {id: nN, kind: tool_call, tool: mcp://t/read@1.0.0}\n",
			"    - {id: nN, kind: tool_call, tool: mcp://t/read@2.0.0}\n",
			"    - {id: nN, kind: tool_call, tool: mcp://t/once_pay@1.0.0, args: {n: 1}}\n",
			"    - {id: nN, kind: tool_call, tool: mcp://t/once_pay@1.0.0, args: {n: 2}}\n",
			"    - {id: nN, kind: tool_call, tool: mcp://u/put_x@1.0.0}\n",
			"    - {id: nN, kind: sub_dispatch, skill: skill://notes@1.0.0, scope: file:///a}\n",
			"    - {id: nN, kind: sub_dispatch, skill: skill://notes@1.0.0}\n"), "N", fmt.Sprint(i)))
	}
	return b.String()
}

// TestRandomDocumentsAreClassified compares each of four documents with each, in
// every one of rapid's hundred checks: 1,600 pairs.
func TestRandomDocumentsAreClassified(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	seen := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		docs := make([]*Document, 4)
		for i := range docs {
			docs[i] = mustCheck(t, anyDocument(rt))
		}
		for _, old := range docs {
			for _, new := range docs {
				found := policy.Classify(old.Terms(workspace{}), new.Terms(workspace{}), now)
				again := policy.Classify(old.Terms(workspace{}), new.Terms(workspace{}), now)
				if diff := cmp.Diff(found, again); diff != "" {
					rt.Fatalf("a second look finds something else: %s", diff)
				}
				if found.Material && old.Digest() == new.Digest() {
					rt.Fatalf("equal documents are material: %v", found.Reasons)
				}
				for _, r := range found.Reasons {
					seen[r.Rule]++
				}
				seen[fmt.Sprint(found.Material)]++
			}
		}
	})
	for _, met := range []string{"true", "false", policy.RuleBudgetDelta, policy.RuleNewSubAgent, policy.RuleScopeExpansion, policy.RuleNewToolNamespace,
		policy.RuleHardConstraintRelaxed, policy.RuleSuccessCriteriaChanged, policy.RuleDeadlineShift, policy.RuleAnchorFlip} {
		if seen[met] == 0 {
			t.Errorf("no pair meets %s: the generator is broken", met)
		}
	}
}

// FuzzTerms: whatever a valid document says, it is not a material change of
// itself, and neither is its canonical form.
func FuzzTerms(f *testing.F) {
	f.Add([]byte(shortPlan))
	f.Add([]byte(shortJSON))
	if data, err := os.ReadFile("testdata/invalid.txtar"); err == nil {
		for _, doc := range heading.Split(string(data), -1) {
			clean, _ := unmark(doc)
			f.Add([]byte(clean))
		}
	}
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, src []byte) {
		d, problems := Check("p.yaml", src, nil)
		if problems != nil {
			return
		}
		same, err := Load(d.Canonical())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []Resolver{nil, workspace{}} {
			terms := d.Terms(r)
			if found := policy.Classify(terms, same.Terms(r), now); found.Material {
				t.Errorf("%s\nis a material change of itself: %v", src, found.Reasons)
			}
			if !slices.IsSortedFunc(terms.Tools, func(a, b policy.Tool) int { return strings.Compare(a.Server, b.Server) }) {
				t.Errorf("tools are not sorted: %v", terms.Tools)
			}
		}
	})
}
