package plan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

func TestEveryFieldIsChecked(t *testing.T) {
	for _, file := range sections(t, "testdata/fields.txtar") {
		t.Run(file.name, func(t *testing.T) {
			src, want := unmark(file.text)
			_, problems := Check("p.yaml", []byte(src), workspace{})
			got := found(problems)
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("faults (-want +got):\n%s%+v", diff, problems)
			}
		})
	}
}

const fullPlan = `
kind: plan
version: 1
name: full
tools: [mcp://t/read@1.0.0]
inputs: {x: {type: string}}
files: worktree
deliver:
  base: main
  paths: [src, docs]
  release: v1
  correct_at: call
  checks: [{name: unit, run: [go, test], timeout: 3m, required: false}, {name: lint, run: [lint]}]
outputs: {o: "${call.output}"}
root:
  kind: sequential
  children:
    - {id: call, kind: tool_call, tool: "mcp://t/read@1.0.0", args: {list: ["${input.x}", 2]}, parse: json, timeout: 4s, on_error: continue,
       retry: {max: 3, backoff: 2s, factor: 3, max_backoff: 1m, on: [tool_error]}}
    - {id: plain, kind: tool_call, tool: "mcp://t/read@1.0.0", parse: none}
    - {id: think, kind: step, prompt: Do., agent: helper, inputs: {a: 1}, tools: none, output_schema: {type: number}}
    - {id: child, kind: sub_dispatch, skill: "skill://x@1.0.0", inputs: {b: 2}, agent: other, scope: here, bounds: {tokens: 5}, accept: auto, timeout: 1m, on_error: continue}
    - {id: ok, kind: gate, question: Go?, show: {z: 1}, expires: 2h, actions: [{name: halt, outcome: fail, fail_reason: "x:late"}, {name: go}]}
`

func TestTheDocumentHoldsEveryField(t *testing.T) {
	d := mustCheck(t, fullPlan)
	if diff := cmp.Diff(&document.Deliver{Base: "main", Paths: []string{"src", "docs"}, Release: "v1", CorrectAt: "call", Checks: []document.DeliverCheck{
		{Name: "unit", Run: []string{"go", "test"}, Timeout: 3 * time.Minute}, {Name: "lint", Run: []string{"lint"}, Timeout: 10 * time.Minute, Required: true},
	}}, d.Deliver, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("deliver (-want +got):\n%s", diff)
	}
	if string(d.Outputs) != `{"o":"${call.output}"}` || d.Files.Mode != "worktree" || d.Version != 1 {
		t.Errorf("outputs %s, files %s, version %d", d.Outputs, d.Files.Mode, d.Version)
	}
	want := []*Node{
		{Kind: ToolCall, ID: "call", Path: "root/call", Tool: "mcp://t/read@1.0.0", Args: json.RawMessage(`{"list":["${input.x}",2]}`), Parse: "json", Timeout: 4 * time.Second, Continue: true,
			Retry: flow.Retry{Max: 3, Backoff: 2 * time.Second, Factor: 3, MaxBackoff: time.Minute, On: []string{"tool_error"}}},
		{Kind: ToolCall, ID: "plain", Path: "root/plain", Tool: "mcp://t/read@1.0.0"},
		{Kind: Step, ID: "think", Path: "root/think", Prompt: "Do.", Agent: "helper", Inputs: json.RawMessage(`{"a":1}`), Tools: &[]string{}, OutputSchema: json.RawMessage(`{"type":"number"}`)},
		{Kind: SubDispatch, ID: "child", Path: "root/child", Skill: "skill://x@1.0.0", Inputs: json.RawMessage(`{"b":2}`), Agent: "other", Scope: "here", Bounds: Bounds{"tokens": 5},
			Accept: AcceptAuto, Timeout: time.Minute, Continue: true},
		{Kind: Gate, ID: "ok", Path: "root/ok", Question: "Go?", Show: json.RawMessage(`{"z":1}`), Expires: 2 * time.Hour,
			Actions: []Action{{Name: "halt", Fails: true, FailReason: "x:late"}, {Name: "go"}}},
	}
	if diff := cmp.Diff(want, d.Root.Children, cmpopts.IgnoreUnexported(Node{})); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	var labels []string
	for _, o := range d.Outline(nil).Children {
		labels = append(labels, o.Label)
	}
	if diff := cmp.Diff([]string{"mcp://t/read@1.0.0", "mcp://t/read@1.0.0", "helper", "skill://x@1.0.0", "Go?"}, labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestLeavesCanBeLeftEarly(t *testing.T) {
	d := mustCheck(t, "kind: plan\nversion: 1\nroot: {kind: sequential, children: [{kind: sequential, children: ["+aCall+"]}, {id: b, kind: gate, question: Go?}]}")
	for leaf := range d.Root.Leaves {
		if leaf.ID != "a" {
			t.Errorf("the first leaf is %s", leaf.ID)
		}
		break
	}
}

const aGate = "kind: plan\nversion: 1\nroot: {id: a, kind: gate, question: Go?}\n"

// A bound that is absent, or cannot be read, limits nothing: zero would stop the run.
func TestBoundsThatAreNotThere(t *testing.T) {
	for bounds, want := range map[string]Bounds{
		`{tool_calls: 1}`:                           {"tool_calls": 1},
		`{cost_usd: 5}`:                             {},
		`{cost_usd: "1e3"}`:                         {},
		`{cost_usd: "9223372036.854775807"}`:        {}, // the ledger's own word for no limit
		`{cost_usd: "9223372036.854775808"}`:        {},
		`{cost_usd: "123456789012345678.5"}`:        {},
		`{cost_usd: "9223372036.854775806"}`:        {"cost_usd": 9223372036854775806},
		`{cost_usd: "0", tokens: 0, wall_time: 0s}`: {"cost_usd": 0, "tokens": 0},
	} {
		d, problems := Parse("p.yaml", []byte(aGate+"bounds: "+bounds))
		if diff := cmp.Diff(want, d.Bounds); diff != "" {
			t.Errorf("%s (-want +got):\n%s", bounds, diff)
		}
		if strings.Contains(bounds, "85477580") && len(want) == 0 && (len(problems) != 1 || problems[0].Code != "range") {
			t.Errorf("%s: %v, want it to be out of range", bounds, problems)
		}
	}
}

// Problems of the shape name the place as those of the meaning do.
func TestPathsOfProblems(t *testing.T) {
	for src, want := range map[string]string{
		aGate + "bounds: {tokens: -1}":         "bounds",
		aGate + "inputs: {a b: {required: 7}}": "inputs",
		aGate + "inputs: {ab: {required: 7}}":  "inputs.ab",
		"kind: plan\nversion: 1\nroot: {id: a, kind: sub_dispatch, skill: 'skill://x@1.0.0', bounds: {tokens: -1}}":           "root.bounds",
		"kind: plan\nversion: 1\nroot: {kind: sequential, children: [{id: a, kind: gate, question: Go?, expires: -1s}]}":      "root/a",
		"kind: plan\nversion: 1\nroot: {kind: sequential, children: [{id: 7, kind: gate, question: Go?, expires: -1s}]}":      "root/0",
		"kind: plan\nversion: 1\nroot: {kind: sequential, children: [{id: '', kind: gate, question: Go?, expires: -1s}]}":     "root/0",
		"kind: plan\nversion: 1\nroot: {id: a, kind: gate, question: Go?, actions: [{name: no, outcome: fail, colour: red}]}": "root",
	} {
		_, problems := Parse("p.yaml", []byte(src))
		if len(problems) == 0 || slices.ContainsFunc(problems, func(p tipstaff.Problem) bool { return p.Path != want }) {
			t.Errorf("%s\n%+v, want them at %s", src, problems, want)
		}
	}
}

// Where a limit is passed in two places, one report is enough.
func TestLimitsAreReportedOnce(t *testing.T) {
	deep := strings.Repeat(`{"kind":"sequential","children":[`, MaxDepth) + `{"id":"a","kind":"gate","question":"Go?"}` + strings.Repeat(`]}`, MaxDepth)
	var many []string
	for i := range MaxNodes {
		many = append(many, fmt.Sprintf(`{"id":"g%d","kind":"gate","question":"Go?"}`, i))
	}
	wide := `{"kind":"sequential","children":[` + strings.Join(many, ",") + `]}`
	for name, children := range map[string]string{"depth": deep + "," + deep, "nodes": wide + "," + wide} {
		_, problems := Parse("p", []byte(`{"kind":"plan","version":1,"root":{"kind":"sequential","children":[`+children+`]}}`))
		if len(problems) != 1 || problems[0].Code != "limit" {
			t.Errorf("%s: %+v", name, problems)
		}
	}
}

func TestTheLongestPath(t *testing.T) {
	for length, ok := range map[int]bool{52: true, 53: false} { // root and seven ids take 4+7*65 bytes
		var open string
		for i := range 7 {
			open += fmt.Sprintf(`{"kind":"sequential","id":"%s%02d","children":[`, strings.Repeat("a", 62), i)
		}
		src := `{"kind":"plan","version":1,"root":{"kind":"sequential","children":[` + open + `{"id":"` + strings.Repeat("b", length) + `","kind":"gate","question":"Go?"}` + strings.Repeat("]}", 7) + `]}}`
		if _, problems := Check("p", []byte(src), nil); (len(problems) == 0) != ok {
			t.Errorf("a leaf of %d bytes: %v", length, problems)
		}
	}
}

func TestTheLongestSkill(t *testing.T) {
	for length, want := range map[int]string{64: "", 65: codeInvalidURI} {
		uri := "skill://" + strings.Repeat("a", length) + "@1.0.0"
		var v validator
		requireCode(t, uri, v.skillURI(uri, document.Position{}, ""), v.ps, want)
	}
}

// poor is a host that has nothing, and is asked for no more than a document wants.
type poor struct{ workspace }

func (poor) Feature(string) Trouble { return Trouble{Code: "feature"} }
func (poor) Agent(string) AgentInfo { return AgentInfo{Trouble: Trouble{Code: codeAgentUnknown}} }
func (poor) Skill(string) SkillInfo {
	return SkillInfo{Trouble: Trouble{Code: "skill_unknown"}, Tools: []string{}, Outputs: []string{"notes"}}
}

func TestWhatAHostDoesNotHave(t *testing.T) {
	for src, want := range map[string][]string{
		aGate:                                nil,
		aGate + "files: none":                nil,
		aGate + "files: checkout":            {"4:1 feature"},
		aGate + "deliver: {}":                {"4:1 feature"},
		aGate + "deliver: {release: broken}": {"4:1 feature", "4:20 bad_expression"},
		"kind: plan\nversion: 1\nroot: {id: a, kind: step, prompt: Do.}":           {"3:7 agent_unknown"},
		"kind: plan\nversion: 1\nroot: {id: a, agent: x, kind: step, prompt: Do.}": {"3:22 agent_unknown"},
		"kind: turn\nagent: x\nmessage: Hi.":                                       {"2:1 agent_unknown"},
		"kind: plan\nversion: 1\nskill: skill://notes@1.0.0\nroot: " + aCall:       {"3:1 skill_unknown"},
	} {
		_, problems := Check("p.yaml", []byte(src), poor{})
		if diff := cmp.Diff(want, found(problems)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", src, diff)
		}
	}
}

func TestTurnsHaveBoundsAndAVersion(t *testing.T) {
	d := mustCheck(t, "kind: turn\nmessage: Hi.\nbounds: {tokens: 7}")
	if d.Version != 1 || d.Bounds["tokens"] != 7 {
		t.Errorf("version %d, bounds %v", d.Version, d.Bounds)
	}
}

func TestTermsWithoutAResolver(t *testing.T) {
	d := mustCheck(t, "kind: plan\nversion: 1\nskill: skill://notes@1.0.0\nroot: "+aCall)
	terms := d.Terms(nil)
	if len(terms.Tools) != 1 || terms.Tools[0].Name != "read" || terms.Tools[0].Pin != "1.0.0" {
		t.Errorf("the tools are %+v, want those that the nodes call", terms.Tools)
	}
	if terms.Deadline != "" {
		t.Errorf("the deadline is %q, and the plan has none", terms.Deadline)
	}
}

func TestInputThatIsNoJSON(t *testing.T) {
	d := mustCheck(t, strings.Replace(aGate, "root", "inputs: {f: {type: string}}\nroot", 1))
	_, problems := d.CheckInputs(map[string]json.RawMessage{"f": json.RawMessage(`{`)})
	if len(problems) != 1 || problems[0].Code != codeInputInvalid || problems[0].Message != "f is not JSON" {
		t.Errorf("%+v", problems)
	}
}
