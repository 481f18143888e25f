package pipeline

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

const reviewLoop = `name: review-loop
max_iterations: 3
edge_limits: [{from: critic, to: intent, max_count: 2}]
agents:
  - {name: intent, stage_order: 1, default_next: work, model: {name: main, prompt: "Restate: ${input}"}}
  - {name: work, stage_order: 2, default_next: critic, error_next: end, remote: {input: "${outputs.intent.task}"}}
  - name: critic
    stage_order: 3
    remote: {}
    routing_rules:
      - {condition: verdict, value: reintent, target: intent}
      - {when: "has(output.risk) && output.risk > 3", target: confirmation, then: end}
`

const reviewLoopJSON = `{"agents":[
 {"default_next":"work","model":{"prompt":"Restate: ${input}","name":"main"},"name":"intent","stage_order":1.0},
 {"name":"work","stage_order":2,"default_next":"critic","error_next":"end","remote":{"input":"${outputs.intent.task}"}},
 {"name":"critic","stage_order":3,"remote":{},"routing_rules":[
   {"condition":"verdict","value":"reintent","target":"intent"},
   {"when":"has(output.risk) \u0026\u0026 output.risk > 3","target":"confirmation","then":"end"}]}],
 "edge_limits":[{"from":"critic","to":"intent","max_count":2}],"max_iterations":3,"name":"review-loop"}`

func TestYAMLAndJSONHaveOneDigest(t *testing.T) {
	a, b := mustCheck(t, reviewLoop), mustCheck(t, reviewLoopJSON)
	if a.Digest() != b.Digest() || !strings.HasPrefix(a.Digest(), "sha256:") {
		t.Errorf("%s\n%s", a.Canonical(), b.Canonical())
	}
	if c := mustCheck(t, strings.Replace(reviewLoop, "max_count: 2", "max_count: 1", 1)); c.Digest() == a.Digest() {
		t.Error("another document has the same digest")
	}
}

// sourceOf is a template as its document has it.
func sourceOf(t *Template) string { return string(document.Raw(t.written)) }

// samePipeline compares templates and expressions by their source: programs cannot be
// compared.
var samePipeline = cmp.Options{
	cmp.AllowUnexported(Pipeline{}, Rule{}),
	cmp.Comparer(func(a, b *Template) bool { return (a == nil) == (b == nil) && (a == nil || sourceOf(a) == sourceOf(b)) }),
	cmp.Comparer(func(a, b *expression) bool { return (a == nil) == (b == nil) && (a == nil || a.source == b.source) }),
	cmp.FilterPath(func(p cmp.Path) bool {
		name := p.Last().String()
		return name == ".warnings" || name == ".schema" || name == ".written" // which has its places
	}, cmp.Ignore()),
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".releases" }, cmp.Comparer(func(a, b map[string][]*Agent) bool {
		return len(a) == len(b)
	})),
	cmp.Exporter(func(t reflect.Type) bool { return t == reflect.TypeFor[Agent]() }),
}

func TestAFrozenPipelineIsTheOneThatWasRead(t *testing.T) {
	for _, src := range []string{reviewLoop, loop, everything} {
		p := mustCheck(t, src)
		frozen, err := Load(p.Canonical())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, frozen, samePipeline); diff != "" {
			t.Error(diff)
		}
	}
}

func TestLoadTakesNothingButTheCanonicalForm(t *testing.T) {
	p := mustCheck(t, loop)
	for name, src := range map[string]string{
		"YAML": loop, "spaces": string(p.Canonical()) + "\n", "nothing": "", "a fault": strings.Replace(string(p.Canonical()), `"a"`, `"end"`, 1),
		"a file": `{"agents":[{"model":{"prompt_file":"p.md"},"name":"a"}],"name":"p"}`,
	} {
		if _, err := Load([]byte(src)); err == nil {
			t.Errorf("%s is taken for a frozen pipeline", name)
		}
	}
}

func TestFilesAreInlined(t *testing.T) {
	p := mustCheck(t, "name: p\nagents:\n  - {name: a, model: {prompt_file: prompt.md}}\n  - {name: b, plan: {file: plan.yaml, inputs: {x: '${input}'}}}\n")
	inlined := mustCheck(t, `name: p
agents:
  - {name: a, model: {prompt: 'Do ${input}'}}
  - {name: b, plan: {document: {kind: plan, version: 1, root: {kind: tool_call, id: a, tool: 'mcp://fs/read@1.0.0'}}, inputs: {x: '${input}'}}}
`)
	if p.Digest() != inlined.Digest() || strings.Contains(string(p.Canonical()), "file") {
		t.Errorf("%s", p.Canonical())
	}
	if _, err := Load(p.Canonical()); err != nil {
		t.Error(err)
	}
}

func TestADocumentWithoutAFolderNamesNoFiles(t *testing.T) {
	for _, stage := range []string{"model: {prompt_file: §prompt.md}", "plan: {file: §plan.yaml}"} {
		src, places := marked("name: p\nagents: [{name: a, " + stage + "}]\n")
		_, problems := Check("", []byte(src), Resolver{})
		if len(problems) != 1 || problems[0].Code != "field_invalid" || places[0] != fmt.Sprintf("%d:%d", problems[0].Line, problems[0].Column) {
			t.Errorf("%s: %+v", stage, problems)
		}
	}
}

// What programs of the earlier design wrote: every field, unset ones as zero values.
const seedShaped = `{
  "name": "code-analysis",
  "agents": [
    {"name": "perception", "stage_order": 1, "requires": null, "output_key": "perception", "routing_rules": null,
     "default_next": "intent", "error_next": "end", "timeout_seconds": 30, "max_retries": 0, "scripted": {"answers": [{"output": {"seen": true}}]}},
    {"name": "intent", "stage_order": 2, "requires": [], "output_key": "", "routing_rules": [], "default_next": "critic", "error_next": "",
     "timeout_seconds": 0, "max_retries": 2, "join": "", "scripted": {"answers": [{}]}},
    {"name": "critic", "stage_order": 3, "output_key": "critic", "model": null, "scripted": {"answers": [{"output": {"verdict": "reintent"}}, {"output": {"verdict": "approved"}}]},
     "routing_rules": [{"condition": "verdict", "value": "reintent", "target": "intent"}, {"condition": "verdict", "value": "approved", "target": "end"}], "default_next": ""}
  ],
  "max_iterations": 3, "max_llm_calls": 10, "max_agent_hops": 21, "default_timeout_seconds": 300,
  "edge_limits": [{"from": "critic", "to": "intent", "max_count": 2}]
}`

func TestASeedShapedConfigIsReadUnchanged(t *testing.T) {
	p := mustCheck(t, seedShaped)
	critic, intent, perception := p.Agent("critic"), p.Agent("intent"), p.Agent("perception")
	if critic.Rules[0].Value != "reintent" || critic.Rules[0].Target != "intent" || critic.DefaultNext != "" {
		t.Errorf("%+v", critic)
	}
	if intent.OutputKey != "intent" || intent.Timeout != 300*time.Second || perception.Timeout != 30*time.Second || intent.ErrorNext != "" || intent.MaxRetries != 2 {
		t.Errorf("%+v", intent)
	}
	if p.limits[Edge{"critic", "intent"}] != 2 || len(p.Warnings()) > 0 {
		t.Errorf("%+v %v", p.limits, p.Warnings())
	}
}

// everything has every field of a document that can stand beside the others.
const everything = `kind: pipeline
version: 1
name: everything
max_iterations: 4
max_llm_calls: 11
max_agent_hops: 22
max_stages: 6
max_tool_calls: 7
max_tokens: 5000
max_cost_usd: "0.75"
max_wall_seconds: 60
edge_limits: [{from: a, to: a, max_count: 0}, {from: b, to: a, max_count: 3}]
default_timeout_seconds: 0.5
max_parallel: 2
on_failure: cancel
on_bound: ask
clarification_resume_stage: a
confirmation_resume_stage: b
agents:
  - name: a
    model: {name: main, prompt: "${input}", system: "be ${metadata.mood}", skill: review, tools: ['mcp://fs/read@1.0.0'], max_steps: 5, session: keep}
    routing_rules: [{condition: n, value: 1.0, target: a}]
    max_visits: 4
  - name: b
    output_key: verdict
    tool: {uri: 'mcp://fs/read@1.0.0', args: {path: "${outputs.a.path}"}}
    default_next: a
    error_next: clarification
    denied_next: end
    timeout_seconds: 2.5
    max_retries: 3
    retry_delay_ms: 20
  - name: c
    stage_order: 1
    requires: [a, b]
    join: any
    after: [b]
    entry: true
    remote: {agent: elsewhere, input: {x: 1.0}, wait_seconds: 5}
    effect: idempotent
    max_retries: 1
    required_output_fields: [verdict]
    output_schema: {type: object}
    handoff: on_reject
  - name: d
    plan: {document: {kind: plan}, inputs: {q: "${input}"}}
  - name: e
    scripted:
      repeat: cycle
      answers:
        - {output: {n: 1.0, f: 1.5}, delay_ms: 5, usage: {llm_calls: 1, tool_calls: 2, agent_hops: 3, tokens_in: 4, tokens_out: 5, cost_usd: "0.01"}}
        - {error: {code: busy, message: later, retryable: true}}
        - {hang: true}
        - {control: {break: true, metadata: {k: 1}}}
`

func TestEveryFieldIsRead(t *testing.T) {
	p := mustCheck(t, everything)
	a, b, c, d, e := p.Agent("a"), p.Agent("b"), p.Agent("c"), p.Agent("d"), p.Agent("e")
	got := []any{
		p.MaxIterations, p.MaxLLMCalls, p.MaxAgentHops, p.MaxStages, p.Bounds, p.EdgeLimits, p.DefaultTimeout, p.MaxParallel, p.OnFailure, p.OnBound,
		p.ClarificationResume, p.ConfirmationResume,
		a.Way, a.Model.Name, a.Model.Agent, a.Model.Skill, *a.Model.Tools, a.Model.MaxSteps, a.Keeps(), sourceOf(a.Model.Prompt), sourceOf(a.Model.System), a.MaxVisits, a.Rules[0].Value, a.OutputKey, a.Timeout,
		b.Way, b.Tool.URI, sourceOf(b.Tool.Args), b.OutputKey, b.DefaultNext, b.ErrorNext, b.DeniedNext, b.Timeout, b.MaxRetries, b.RetryDelay, b.Effect,
		c.Way, c.StageOrder, c.Requires, c.Join == joinAny, c.After, c.Entry, c.Remote.Agent, sourceOf(c.Remote.Input), c.Remote.Wait, c.Effect, c.RequiredFields, string(c.OutputSchema), c.Handoff, c.RetryDelay,
		d.Way, string(d.Plan.Document), sourceOf(d.Plan.Inputs),
		e.Way, e.Scripted.Repeat, e.Scripted.Answers, e.Handoff,
	}
	want := []any{
		int64(4), int64(11), int64(22), int64(6), tipstaff.Bounds{"tool_calls": 7, "tokens": 5000, "cost_usd": 750_000_000, "wall_time": 60_000},
		[]EdgeLimit{{From: "a", To: "a"}, {From: "b", To: "a", MaxCount: 3}}, 500 * time.Millisecond, 2, Cancel, AskMore, "a", "b",
		WayModel, "main", "", "review", []string{"mcp://fs/read@1.0.0"}, 5, true, `"${input}"`, `"be ${metadata.mood}"`, int64(4), int64(1), "a", 500 * time.Millisecond,
		WayTool, "mcp://fs/read@1.0.0", `{"path":"${outputs.a.path}"}`, "verdict", "a", Clarification, End, 2500 * time.Millisecond, 3, 20 * time.Millisecond, "",
		WayRemote, int64(1), []string{"a", "b"}, true, []string{"b"}, true, "elsewhere", `{"x":1}`, 5 * time.Second, "idempotent", []string{"verdict"}, `{"type":"object"}`, HandoffOnReject, time.Second,
		WayPlan, `{"kind":"plan"}`, `{"q":"${input}"}`,
		WayScripted, "cycle", []Answer{
			{Output: map[string]any{"n": int64(1), "f": 1.5}, Delay: 5 * time.Millisecond, Usage: tipstaff.StageUsage{LLMCalls: 1, ToolCalls: 2, Hops: 3, TokensIn: 4, TokensOut: 5, CostUSD: 10_000_000}},
			{Output: map[string]any{}, Error: &StageError{Code: "busy", Message: "later", Retryable: true}},
			{Output: map[string]any{}, Hang: true},
			{Output: map[string]any{}, Control: &Control{Break: true, Metadata: map[string]any{"k": int64(1)}}},
		}, HandoffNever,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDefaultsOfADocument(t *testing.T) {
	p := mustCheck(t, "name: p\nagents: [{name: a, remote: {}}, {name: b, model: {}}]\n")
	a, b := p.Agent("a"), p.Agent("b")
	if p.MaxIterations != 3 || p.MaxLLMCalls != 10 || p.MaxAgentHops != 21 || p.MaxStages != 5 || len(p.Bounds) > 0 || p.DefaultTimeout != 300*time.Second ||
		p.MaxParallel != 8 || p.OnFailure != Finish || p.OnBound != EndRun {
		t.Errorf("%+v", p)
	}
	if a.OutputKey != "a" || a.Effect != "once" || a.Remote.Agent != "a" || a.Remote.Wait != 30*time.Second || a.RetryDelay != time.Second ||
		a.Handoff != HandoffNever || a.MaxVisits != 0 || a.Join == joinAny {
		t.Errorf("%+v", a)
	}
	if b.Model.Agent != "default" || b.Model.MaxSteps != 32 || b.Keeps() || b.Model.Tools != nil || b.Model.Prompt != nil || b.Effect != "" {
		t.Errorf("%+v", b.Model)
	}
	empty := mustCheck(t, "name: p\nagents: []\n")
	if len(empty.Agents) != 0 || empty.Agents == nil {
		t.Errorf("%+v", empty)
	}
}

func TestIsPipeline(t *testing.T) {
	for src, want := range map[string]bool{
		reviewLoop: true, reviewLoopJSON: true, "kind: pipeline\n": true, "agents: []\n": true,
		"kind: plan\nagents: []\n": false, "kind: turn\n": false, "root: {}\n": false, "[1]": false, "": false, "kind: [\n": false,
	} {
		if got := IsPipeline([]byte(src)); got != want {
			t.Errorf("%.20q: %v", src, got)
		}
	}
}

func TestDocumentsAreLimited(t *testing.T) {
	var many strings.Builder
	many.WriteString(`{"name":"p","agents":[`)
	for i := range MaxAgents + 1 {
		if i > 0 {
			many.WriteByte(',')
		}
		name, _ := json.Marshal("a" + strings.Repeat("b", i%60) + string(rune('a'+i/60)))
		many.WriteString(`{"remote":{},"name":` + string(name) + `}`)
	}
	many.WriteString(`]}`)
	deep := strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1)
	for name, src := range map[string]string{
		"bytes":  "name: p\nagents: []\n#" + strings.Repeat("x", MaxSize),
		"agents": many.String(),
		"depth":  `{"name":"p","agents":[{"name":"a","remote":{},"routing_rules":[{"condition":"x","target":"end","value":` + deep + `}]}]}`,
	} {
		_, problems := Check("p", []byte(src), Resolver{})
		if len(problems) != 1 || problems[0].Code != "limit" {
			t.Errorf("%s: %+v", name, problems)
		}
	}
}
