package runner_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
)

// pipe starts a pipeline and drives it to where it rests.
func (b *bed) pipe(doc string, with ...func(*tipstaff.StartRequest)) (tipstaff.ID, tipstaff.Driven) {
	b.t.Helper()
	req := tipstaff.StartRequest{Name: "pipe.yaml", Program: []byte(doc), Inputs: map[string]json.RawMessage{"raw_input": json.RawMessage(`"do it"`)}}
	for _, f := range with {
		f(&req)
	}
	s, err := b.Start(cli(), req)
	if err != nil {
		var e *tipstaff.Error
		_ = errors.As(err, &e)
		b.t.Fatalf("start: %v %+v", err, e.Problems)
	}
	return s.Run, b.wait(s.Run)
}

// withModel gives the workspace a model, the bed itself, and more of a manifest.
func (b *bed) withModel(more string) {
	b.t.Helper()
	b.write("script.yaml", "version: 1\nanswers: [{text: unused}]\n")
	b.write("tipstaff.yaml", manifest+"models:\n  main: {provider: scripted, script: script.yaml}\n"+more)
}

// state is the Envelope of a run as surfaces see it.
func (b *bed) state(run tipstaff.ID) map[string]any {
	b.t.Helper()
	raw, err := b.Envelope(cli(), run, "")
	if err != nil {
		b.t.Fatal(err)
	}
	var env map[string]any
	if err := json.Unmarshal(raw, &env); err != nil {
		b.t.Fatal(err)
	}
	return env
}

// output is what a stage has brought.
func output(env map[string]any, key string) any { return env["outputs"].(map[string]any)[key] }

const loop = `
name: loop
max_iterations: 5
agents:
  - {name: work, stage_order: 1, default_next: critic, scripted: {answers: [{output: {n: 1}}, {output: {n: 2}}], repeat: last}}
  - name: critic
    stage_order: 2
    scripted: {answers: [{output: {verdict: again}, control: {feedback: more}}, {output: {verdict: good}}], repeat: last}
    routing_rules: [{condition: verdict, value: again, target: work}]
`

func TestPipelineLoops(t *testing.T) {
	b := newBed(t)
	run, driven := b.pipe(loop)
	if driven.State != tipstaff.Completed {
		t.Fatalf("the run ended %+v", driven)
	}
	env := b.state(run)
	if env["terminal_reason"] != "completed" || env["iteration"] != 1.0 || env["agent_hop_count"] != 4.0 {
		t.Errorf("the Envelope says %v, iteration %v, hops %v", env["terminal_reason"], env["iteration"], env["agent_hop_count"])
	}
	r := b.get(run)
	if r.Program.Kind != "pipeline" || r.Pipeline == nil || r.Pipeline.TerminalReason != "completed" || r.Pipeline.Envelope != "env_"+run.String() {
		t.Errorf("its status says %+v %+v", r.Program, r.Pipeline)
	}
	for bound, want := range map[string]int64{tipstaff.BoundAgentHops: 4, tipstaff.BoundIterations: 1} {
		if r.Bounds[bound].Used != want {
			t.Errorf("%s used: %v, want %d", bound, r.Bounds[bound], want)
		}
	}
	b.verified(run)
	moves, err := tipstaff.Transitions(cli(), b, run)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, m := range moves {
		told = append(told, fmt.Sprintf("%s→%s %s", m.From, m.To, m.Reason))
	}
	if want := "start→work start, work→critic default, critic→work reintent, work→critic default, critic→end complete"; strings.Join(told, ", ") != want {
		t.Errorf("transitions:\n%s\nwant\n%s", strings.Join(told, ", "), want)
	}
	points, err := b.Checkpoints(cli(), run)
	if err != nil || len(points) != 1 || points[0].Iteration != 0 || points[0].Stage != "critic" {
		t.Fatalf("checkpoints %+v %v: one, at critic, before the first iteration", points, err)
	}
	past, err := b.Envelope(cli(), run, points[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(past), `"verdict":"again"`) {
		t.Errorf("at the checkpoint the critic had not asked for more: %s", past)
	}
}

// Every way to run a stage, in one pipeline: each sees what those before brought.
func TestPipelineWaysToRun(t *testing.T) {
	b := newBed(t)
	b.withModel("agents:\n  helper: {model: main}\n")
	b.write("note.txt", "from the file")
	prompts := []string{}
	b.says = func(r agent.Request) agent.Response {
		last := r.Messages[len(r.Messages)-1].Text
		prompts = append(prompts, last)
		if strings.Contains(last, "summarise") {
			return agent.Response{Text: "```json\n{\"title\": \"T\", \"_control\": {\"metadata\": {\"seen\": true}}}\n```"}
		}
		return agent.Response{Text: "only words"}
	}
	run, driven := b.pipe(`
name: ways
agents:
  - {name: script, stage_order: 1, default_next: read, scripted: {answers: [{output: {file: note.txt}}]}}
  - {name: read, stage_order: 2, default_next: model, tool: {uri: "mcp://builtin/read_file@1.0.0", args: {path: "${outputs.script.file}"}}}
  - {name: model, stage_order: 3, default_next: words, model: {name: main, prompt: "summarise ${outputs.read.text}"}}
  - {name: words, stage_order: 4, default_next: walk, model: {agent: helper, prompt: "say ${outputs.model.title}"}}
  - name: walk
    stage_order: 5
    plan:
      inputs: {word: "${outputs.words.text}"}
      document:
        kind: plan
        version: 1
        inputs: {word: {type: string}}
        root:
          kind: sequential
          children:
            - {kind: tool_call, id: put, tool: "mcp://builtin/write_file@1.0.0", args: {path: out.txt, content: "${input.word}"}}
            - {kind: tool_call, id: get, tool: "mcp://builtin/read_file@1.0.0", args: {path: out.txt}}
        outputs: {text: "${get.output}"}
`)
	if driven.State != tipstaff.Completed {
		t.Fatalf("the run ended %+v", driven)
	}
	env := b.state(run)
	if got := fmt.Sprint(output(env, "model")); got != "map[title:T]" {
		t.Errorf("the model's output is %s: the control part is not in it, the fence is gone", got)
	}
	if got := fmt.Sprint(output(env, "words")); got != "map[text:only words]" {
		t.Errorf("words became %s", got)
	}
	if b.read("out.txt") != "only words" {
		t.Errorf("the plan wrote %q", b.read("out.txt"))
	}
	if env["metadata"].(map[string]any)["seen"] != true {
		t.Errorf("metadata %v", env["metadata"])
	}
	if env["llm_call_count"] != 2.0 || env["tool_call_count"] != 3.0 || env["tokens_in"] != 200.0 || env["tokens_out"] != 20.0 {
		t.Errorf("counted %v model calls, %v tool calls, %v and %v tokens", env["llm_call_count"], env["tool_call_count"], env["tokens_in"], env["tokens_out"])
	}
	r := b.get(run)
	for bound, want := range map[string]int64{tipstaff.BoundModelCalls: 2, tipstaff.BoundToolCalls: 3, tipstaff.BoundAgentHops: 5, tipstaff.BoundTokens: 220} {
		if r.Bounds[bound].Used != want {
			t.Errorf("the ledger has %s %v, want %d", bound, r.Bounds[bound], want)
		}
	}
	if !strings.Contains(prompts[0], "from the file") || !strings.Contains(prompts[1], "say T") {
		t.Errorf("the model was told %q", prompts)
	}
	b.verified(run)
}

// Surfaces know by the outline which stages wait for hosts, before there is a run and
// when it is taken up again.
func TestPipelineOutlineTellsWhatHostsDo(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	program := []byte(`
name: both
agents:
  - {name: first, stage_order: 1, default_next: ask, scripted: {answers: [{output: {}}]}}
  - {name: ask, stage_order: 2, default_next: critic, scripted: {answers: [{output: {}, control: {interrupt: {kind: question, question: Q?}}}]}}
  - {name: critic, stage_order: 3, effect: read, remote: {wait_seconds: 1}}
`)
	hosted := func(o *tipstaff.Outline) (names []string) {
		for _, stage := range o.Children {
			if stage.Hosted {
				names = append(names, stage.ID)
			}
		}
		return names
	}
	s, err := b.Start(cli(), tipstaff.StartRequest{Name: "p.yaml", Program: program})
	if err != nil {
		t.Fatal(err)
	}
	if driven := b.wait(s.Run); driven.Outcome != "parked" {
		t.Fatalf("the run is %+v", driven)
	}
	if got := hosted(s.Outline); !slices.Equal(got, []string{"critic"}) {
		t.Errorf("of the run that begins, hosts do %q", got)
	}
	gate := b.get(s.Run).OpenGates[0]
	if _, err := b.decide(s.Run, gate.Key, "answer", answer(`{}`)); err != nil {
		t.Fatal(err)
	}
	again, err := b.Resume(cli(), tipstaff.ResumeRequest{Run: s.Run})
	if err != nil {
		t.Fatal(err)
	}
	b.wait(again.Run)
	if got := hosted(again.Outline); !slices.Equal(got, []string{"critic"}) {
		t.Errorf("of the run that goes on, hosts do %q", got)
	}
}

// What a stage does not name it may not use, whatever other stages may.
func TestPipelineStagesHaveTheirOwnAllowList(t *testing.T) {
	b := newBed(t)
	b.withModel("")
	var offered []string
	b.says = func(r agent.Request) agent.Response {
		for _, o := range r.Tools {
			offered = append(offered, o.Name)
		}
		return agent.Response{Text: "{}"}
	}
	run, driven := b.pipe(`
name: narrow
agents:
  - {name: read, stage_order: 1, default_next: talk, tool: {uri: "mcp://builtin/read_file@1.0.0", args: {path: tipstaff.yaml}}}
  - {name: talk, stage_order: 2, default_next: ask, model: {name: main, prompt: hello}}
  - {name: ask, stage_order: 3, model: {name: main, prompt: hello, tools: ["mcp://builtin/json_query@1.0.0"]}}
`)
	if driven.State != tipstaff.Completed || strings.Join(offered, " ") != "builtin__json_query" {
		t.Errorf("ended %+v; the models were offered %q, want builtin__json_query in the last stage alone", driven, offered)
	}
	b.verified(run)
}

// Ten model stages at once, three calls left: exactly three are made, and none of
// them by a stage that took two.
func TestPipelineModelCallsAreBounded(t *testing.T) {
	b := newBed(t)
	b.withModel("")
	b.says = func(agent.Request) agent.Response { return agent.Response{Text: "{}"} }
	doc := &strings.Builder{}
	fmt.Fprint(doc, "name: many\nmax_llm_calls: 3\nagents:\n  - {name: first, scripted: {answers: [{output: {}}]}}\n")
	for i := range 10 {
		fmt.Fprintf(doc, "  - {name: m%d, stage_order: 1, requires: [first], model: {name: main, prompt: hello}}\n", i)
	}
	for range 5 {
		run, driven := b.pipe(doc.String())
		if driven.Reason != "bound_exceeded" || driven.Bound != "max_llm_calls" {
			t.Fatalf("ended %+v", driven)
		}
		env, r := b.state(run), b.get(run)
		if env["llm_call_count"] != 3.0 || r.Bounds[tipstaff.BoundModelCalls].Used != 3 || env["terminal_reason"] != "max_llm_calls_exceeded" {
			t.Errorf("%v calls by the Envelope, %v by the ledger, ended %v", env["llm_call_count"], r.Bounds[tipstaff.BoundModelCalls], env["terminal_reason"])
		}
		b.verified(run)
	}
}

func TestPipelineAsks(t *testing.T) {
	b := newBed(t)
	const doc = `
name: ask
agents:
  - name: draft
    stage_order: 1
    scripted: {answers: [{output: {risk: 5}}, {output: {risk: 1}}]}
    routing_rules: [{when: "output.risk > 3", target: confirmation, then: send}]
    default_next: send
    denied_next: end
  - {name: send, stage_order: 2, scripted: {answers: [{output: {sent: true}}]}}
`
	for action, sent := range map[string]bool{"approve": true, "reject": false} {
		run, driven := b.pipe(doc)
		if driven.Outcome != "parked" || len(driven.Gates) != 1 {
			t.Fatalf("it did not wait: %+v", driven)
		}
		env := b.state(run)
		ask := env["interrupts"].([]any)[0].(map[string]any)
		if env["interrupt_pending"] != true || env["current_stage"] != "draft" || ask["id"] != driven.Gates[0] || output(env, "send") != nil {
			t.Errorf("while it waits the Envelope says %v at %v, asked %v", env["interrupt_pending"], env["current_stage"], ask)
		}
		if _, err := b.decide(run, driven.Gates[0], action); err != nil {
			t.Fatal(err)
		}
		if driven = b.resume(run); driven.State != tipstaff.Completed {
			t.Fatalf("after %s it ended %+v", action, driven)
		}
		if got := output(b.state(run), "send") != nil; got != sent {
			t.Errorf("after %s send ran: %v", action, got)
		}
		b.verified(run)
	}
}

// A long loop begins its history afresh, and what it is stays one.
func TestPipelineLongLoop(t *testing.T) {
	b := newBed(t)
	run, driven := b.pipe(`
name: long
max_iterations: 400
max_agent_hops: 1000
agents:
  - {name: work, stage_order: 1, default_next: critic, scripted: {answers: [{output: {n: 1}}], repeat: last}}
  - name: critic
    stage_order: 2
    scripted: {answers: [{output: {go: true}}], repeat: last}
    routing_rules: [{when: "iteration < 400", target: work}]
`)
	if driven.State != tipstaff.Completed {
		t.Fatalf("ended %+v", driven)
	}
	env, r := b.state(run), b.get(run)
	if env["iteration"] != 400.0 || r.Bounds[tipstaff.BoundIterations].Used != 400 || r.Bounds[tipstaff.BoundAgentHops].Used != 802 {
		t.Errorf("iteration %v, bounds %v", env["iteration"], r.Bounds)
	}
	if r.Bounds[tipstaff.BoundIterations].Limit != 400 || r.Bounds[tipstaff.BoundStages].Limit != 5 {
		t.Errorf("once its history began afresh its limits are %v", r.Bounds)
	}
	continued := 0
	for e, err := range b.Events(cli(), tipstaff.EventsRequest{Run: run}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == tipstaff.KindRunContinued {
			continued++
		}
	}
	if continued < 2 {
		t.Errorf("its history began afresh %d times", continued)
	}
	b.verified(run)
	points, err := b.Checkpoints(cli(), run)
	if err != nil || len(points) != 400 {
		t.Fatalf("%d checkpoints, %v", len(points), err)
	}
	for _, at := range []int{0, 199, 399} {
		if _, err := b.Envelope(cli(), run, points[at].ID); err != nil {
			t.Errorf("checkpoint %d of 400: %v", at, err)
		}
	}
}

// What a stage's model said stays in its session, if the document says so; also
// over a new beginning of the history.
func TestPipelineKeepsSessions(t *testing.T) {
	b := newBed(t)
	b.withModel("")
	most := 0
	b.says = func(r agent.Request) agent.Response {
		most = max(most, len(r.Messages))
		return agent.Response{Text: "{}"}
	}
	run, driven := b.pipe(`
name: keeping
max_iterations: 150
max_agent_hops: 400
max_llm_calls: 200
agents:
  - {name: talk, stage_order: 1, default_next: again, model: {name: main, prompt: hello, session: keep}}
  - {name: again, stage_order: 2, scripted: {answers: [{output: {}}], repeat: last}, routing_rules: [{when: "iteration < 150", target: talk}]}
`)
	if driven.State != tipstaff.Completed || most < 2*150 {
		t.Errorf("ended %+v; the longest conversation had %d messages, want all of 151 visits", driven, most)
	}
	if !slices.Contains(b.kinds(run), string(tipstaff.KindRunContinued)) {
		t.Error("its history never began afresh")
	}
	b.verified(run)
}

const reviewing = `
name: review
max_iterations: 1
agents:
  - {name: write, stage_order: 1, default_next: review, scripted: {answers: [{output: {text: a}}, {output: {text: b}}, {output: {text: c}}]}}
  - name: review
    stage_order: 2
    handoff: on_reject
    scripted: {answers: [{output: {verdict: rejected, summary: no, findings: [{severity: P1, title: Bad}]}}], repeat: last}
    routing_rules: [{condition: verdict, value: rejected, target: write}]
`

// A handoff asks when no round is left, and what is answered has its effect: at once
// where the run is halted, else when it is resumed.
func TestPipelineHandsOver(t *testing.T) {
	b := newBed(t)
	feedback := func(text string) func(*tipstaff.DecideRequest) {
		return func(r *tipstaff.DecideRequest) { r.Feedback = text }
	}
	for action, c := range map[string]struct {
		with   []func(*tipstaff.DecideRequest)
		reason string
		visits float64 // of write
	}{
		"halt":                 {nil, "halted", 2},
		"continue":             {nil, "completed", 2},
		"continue_with_waiver": {[]func(*tipstaff.DecideRequest){feedback("it will do")}, "completed", 2},
		"retry_feedback":       {[]func(*tipstaff.DecideRequest){feedback("shorter, please")}, "", 3},
	} {
		t.Run(action, func(t *testing.T) {
			run, driven := b.pipe(reviewing)
			if driven.Outcome != "parked" || b.get(run).Status != tipstaff.StatusAwaitingHandoff {
				t.Fatalf("it did not wait at a handoff: %+v %s", driven, b.get(run).Status)
			}
			gate := driven.Gates[0]
			if c.with != nil {
				if _, err := b.decide(run, gate, action); tipstaff.CodeOf(err) != tipstaff.FeedbackRequired {
					t.Errorf("%s without feedback: %v", action, err)
				}
			} else if _, err := b.decide(run, gate, action, feedback("unused")); tipstaff.CodeOf(err) != tipstaff.FeedbackNotAllowed {
				t.Errorf("%s with feedback: %v", action, err)
			}
			first, err := b.decide(run, gate, action, c.with...)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := b.decide(run, gate, action, c.with...); err != nil || string(again.Raw) != string(first.Raw) {
				t.Errorf("the same decision again: %v, %s", err, again.Raw)
			}
			if action == "halt" {
				if got := b.get(run).State; got != tipstaff.Cancelled {
					t.Errorf("halted, it is %s", got)
				}
			} else {
				b.resume(run)
			}
			env := b.state(run)
			if got, _ := env["terminal_reason"].(string); got != c.reason {
				t.Errorf("it ended %q, want %q", got, c.reason)
			}
			if got := env["visits"].(map[string]any)["write"]; got != c.visits {
				t.Errorf("write ran %v times, want %v", got, c.visits)
			}
			if action == "continue_with_waiver" && len(env["waivers"].([]any)) != 1 {
				t.Errorf("waivers %v", env["waivers"])
			}
			if c.reason != "" {
				b.verified(run)
			}
		})
	}
}

// Time that a pipeline runs is bounded, time that it waits is not.
func TestPipelineWallTime(t *testing.T) {
	b := newBed(t)
	run, driven := b.pipe(`
name: hanging
max_wall_seconds: 1
agents:
  - {name: hang, scripted: {answers: [{hang: true}]}, error_next: end}
`)
	if driven.Reason != "bound_exceeded" || b.state(run)["terminal_reason"] != "deadline_exceeded" {
		t.Errorf("a stage that hangs ended the run with %+v, %v", driven, b.state(run)["terminal_reason"])
	}
	b.verified(run)

	run, driven = b.pipe(`
name: waiting
max_wall_seconds: 5
agents:
  - {name: ask, stage_order: 1, scripted: {answers: [{output: {}, control: {interrupt: {kind: question, question: "Well?"}}}, {output: {said: true}}]}}
`)
	b.ahead.Add(int64(time.Hour))
	if _, err := b.decide(run, driven.Gates[0], "answer", func(r *tipstaff.DecideRequest) { r.Answer = json.RawMessage(`"yes"`) }); err != nil {
		t.Fatal(err)
	}
	if driven = b.resume(run); driven.State != tipstaff.Completed {
		t.Errorf("after an hour of waiting it ended %+v", driven)
	}
	if got := b.state(run); got["wall_ms"].(float64) > 5000 || got["visits"].(map[string]any)["ask"] != 2.0 {
		t.Errorf("it ran for %v ms, ask %v times", got["wall_ms"], got["visits"])
	}
	b.verified(run)
}
