package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/flow/flowtest"
)

// Whatever a graph looks like, its run ends within its bounds, every stage that
// started has ended, the ledger agrees with the Envelope, and the records alone give
// the same again.
func TestRandomGraphsEndWithinTheirBounds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		doc := randomPipeline(func(n int) int { return rapid.IntRange(0, n-1).Draw(rt, "choice") })
		p, problems := Check("p.json", doc, Resolver{})
		if len(problems) > 0 {
			rt.Fatalf("%s: %+v", doc, problems)
		}
		b := bedOf(p)
		b.in.Goals = []string{"one", "two"}
		b.finish(t, func(kind string, actions []string) flow.Decision {
			d := flow.Decision{Action: rapid.SampledFrom(actions).Draw(rt, "action"), By: "ada"}
			switch d.Action {
			case actionExtend:
				d.Answer = json.RawMessage(`{"iterations":1,"agent_hops":1,"model_calls":1,"edge_limits":1,"max_visits":1,"max_stages":1}`)
			case actionAnswer:
				d.Answer = json.RawMessage(`{"n":1.0}`)
			case tipstaff.ActionRetry, tipstaff.ActionWaive:
				d.Feedback = "again"
			}
			return d
		})
		b.sound(rt)
	})
}

// finish drives the run to its end and answers its gates; if that takes too many
// drives, it cancels it.
func (b *bed) finish(t testing.TB, answer func(kind string, actions []string) flow.Decision) flow.Outcome {
	t.Helper()
	for drives := 0; ; drives++ {
		out := b.take(t)
		if out.Status.Terminal() {
			return out
		}
		if drives == 12 {
			b.cancel(t)
		}
		for _, g := range b.open() {
			if err := b.log.Decide(b.run, g.Gate, answer(g.Kind, g.Actions)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

type openGate struct {
	Gate    string
	Kind    string `json:"gate_kind"`
	Actions []string
}

// open are the gates that wait for a decision.
func (b *bed) open() (open []openGate) {
	for _, r := range b.all() {
		switch r.Kind {
		case "policy.gate":
			open = append(open, read[openGate](r))
		case "policy.gate.resolve":
			open = slices.DeleteFunc(open, func(g openGate) bool { return g.Gate == idOf(r) })
		}
	}
	return open
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// sound checks what is true of every run that has ended.
func (b *bed) sound(t fataler) {
	t.Helper()
	e := b.env
	if !e.Terminated || e.TerminalReason.Check() != nil || e.Outcome != e.TerminalReason.Outcome() {
		t.Fatalf("it ended as %q, %q", e.TerminalReason, e.Outcome)
	}
	var visits int64
	for _, n := range e.Visits {
		visits += n
	}
	for _, c := range []struct {
		name      string
		used, max int64
	}{{"hops", e.AgentHopCount, e.MaxAgentHops}, {"model calls", e.LLMCallCount, e.MaxLLMCalls}} {
		if c.used > c.max {
			t.Fatalf("%d %s, of %d", c.used, c.name, c.max)
		}
	}
	if e.AgentHopCount != visits {
		t.Fatalf("%d hops, but %d visits", e.AgentHopCount, visits)
	}
	used := flow.Totals(flow.History{Records: b.all()}, b.limits()).Used
	if used[tipstaff.BoundAgentHops] != e.AgentHopCount || used[tipstaff.BoundModelCalls] != e.LLMCallCount || used[tipstaff.BoundIterations] > e.Iteration {
		t.Fatalf("the ledger says %v, the Envelope %d hops, %d calls, %d iterations", used, e.AgentHopCount, e.LLMCallCount, e.Iteration)
	}
	ended := map[string]int{}
	for _, f := range bodies[tipstaff.StageFinished](b, tipstaff.KindStageFinished) {
		if f.Code != codeRouting {
			ended[pathOf(f.Stage, f.Visit)]++
		}
	}
	for _, s := range bodies[tipstaff.StageStarted](b, tipstaff.KindStageStarted) {
		if n := ended[pathOf(s.Stage, s.Visit)]; n != 1 {
			t.Fatalf("%s ended %d times\n%s", pathOf(s.Stage, s.Visit), n, b.story(0))
		}
	}
	for i, tr := range bodies[tipstaff.Transitioned](b, tipstaff.KindTransition) {
		if tr.N != int64(i+1) {
			t.Fatalf("transition %d has number %d", i+1, tr.N)
		}
	}
	asked := 0
	for _, tr := range bodies[tipstaff.Transitioned](b, tipstaff.KindTransition) {
		if interrupts(tr.To) || tr.To == string(tipstaff.Question) {
			asked++
		}
	}
	for _, i := range e.Interrupts {
		if _, question := gateActions[i.Kind]; question {
			asked--
		}
	}
	if asked > 0 && e.HistoryTotal <= kept && e.Outcome == tipstaff.OutcomeCompleted && e.TerminalReason != tipstaff.TerminalBreak {
		t.Fatalf("%d questions were never asked", asked)
	}
	if e.InterruptPending || len(e.ActiveStages) > 0 {
		t.Fatalf("pending %v, active %v", e.InterruptPending, e.ActiveStages)
	}
}

// randomPipeline is a document with a bit of everything; pick chooses a number below n.
func randomPipeline(pick func(n int) int) []byte {
	type object = map[string]any
	between := func(least, most int) int { return least + pick(most-least+1) }
	n := between(1, 6)
	name := func(i int) string { return fmt.Sprintf("s%d", i) }
	targets := []string{End, Clarification, Confirmation}
	for i := range n {
		targets = append(targets, name(i), name(i))
	}
	target := func() string { return targets[pick(len(targets))] }
	some := func() bool { return pick(4) == 3 }
	var agents []object
	for i := range n {
		a := object{"name": name(i), "stage_order": between(0, n)}
		if i > 0 && some() {
			a["requires"] = []string{name(pick(i))}
			if i > 1 && some() {
				a["requires"], a["join"] = []string{name(0), name(i - 1)}, "any"
			}
		}
		if i > 0 && some() {
			a["after"] = []string{name(pick(i))}
		}
		for _, edge := range []string{"default_next", "error_next", "denied_next"} {
			if pick(2) == 1 {
				a[edge] = target()
			}
		}
		if some() {
			a["routing_rules"] = []object{{"condition": "k", "value": 1, "target": target()},
				{"when": "output.k == 2 && response == null", "target": target()}}
		}
		if some() {
			a["handoff"] = []string{"always", "on_reject"}[pick(2)]
		}
		if some() {
			a["max_visits"] = between(1, 3)
		}
		if some() {
			a["max_retries"], a["retry_delay_ms"] = 1, 1
		}
		if some() {
			a["model"] = object{"name": "m", "prompt": "${input}"}
		} else {
			var answers []object
			for range between(1, 3) {
				answers = append(answers, randomAnswer(pick))
			}
			a["scripted"] = object{"answers": answers, "repeat": []string{"last", "cycle", "fail"}[pick(3)]}
		}
		agents = append(agents, a)
	}
	return flow.JSON(object{"name": "random", "agents": agents,
		"max_iterations": between(1, 5), "max_agent_hops": between(1, 25),
		"max_llm_calls": between(1, 6), "max_stages": between(1, 2), "max_parallel": between(1, 3),
		"on_failure": []string{"finish", "cancel"}[pick(2)], "on_bound": []string{"end", "ask"}[pick(2)]})
}

func randomAnswer(pick func(n int) int) map[string]any {
	type object = map[string]any
	switch 9 - pick(10) {
	case 0:
		return object{"error": object{"code": "odd", "message": "it went wrong", "retryable": pick(2) == 1}}
	case 1:
		return object{"output": object{"k": 1}, "control": object{"interrupt": object{"kind": []string{"question", "clarification", "confirmation"}[pick(3)], "question": "What?"}}}
	case 2:
		return object{"output": object{"k": 2, "verdict": "approved"}, "control": object{"satisfied_goals": []string{[]string{"one", "two"}[pick(2)]}}}
	case 3:
		return object{"output": object{"verdict": "rejected"}, "control": object{"feedback": "Better.", "metadata": object{"m": 1}}}
	case 4:
		return object{"output": object{"k": 3}, "usage": object{"llm_calls": 1, "tokens_in": 10}}
	}
	return object{"output": object{"k": pick(4)}}
}

// looping is a pipeline with a loop, a batch, a retry, a gate and a model in it.
const looping = `
name: looping
max_iterations: 5
max_llm_calls: 50
max_agent_hops: 80
agents:
  - {name: plan, stage_order: 1, model: {name: m, prompt: "${input}"}}
  - {name: left, stage_order: 2, requires: [plan], max_retries: 2, retry_delay_ms: 1, effect: read, remote: {}}
  - {name: right, stage_order: 2, requires: [plan], tool: {uri: "mcp://f/write@1.0.0"}}
  - name: judge
    stage_order: 3
    requires: [left, right]
    routing_rules:
      - {condition: verdict, value: again, target: left}
      - {condition: verdict, value: sure, target: confirmation, then: end}
    scripted: {answers: [{output: {verdict: again}, control: {feedback: "More."}}, {output: {verdict: sure}}]}
`

func loopingBed(t testing.TB) *bed {
	b := newBed(t, looping)
	b.world.by = map[string]deed{
		"plan":   {output: map[string]any{"steps": int64(2)}, calls: 2},
		"left#1": {err: &StageError{Code: "agent_unavailable", Message: "not yet"}}, "left#1.2": {output: map[string]any{"n": 1.0}},
		"right": {output: map[string]any{"sent": true}, once: true},
	}
	return b
}

// yes says yes, and of what is in doubt that it was done.
func yes(kind string, actions []string) flow.Decision {
	if kind == string(tipstaff.InDoubt) {
		return flow.Decision{Action: "use_result", Answer: json.RawMessage(`"ok"`)}
	}
	return flow.Decision{Action: actions[0]}
}

// A process that dies before or after any write leaves a run that ends as one that
// nothing disturbed; no stage that had finished runs again.
func TestCrashAtEveryWrite(t *testing.T) {
	calm := loopingBed(t)
	calm.finish(t, yes)
	want := calm.ways()
	writes := 0
	for n, fault := 1, flowtest.KillBefore; ; {
		b := loopingBed(t)
		died := false
		b.wrap = func(log flow.Log) flow.Log {
			f := flowtest.NewFaulty(log)
			if !died {
				f.Before = func(w flowtest.Write) flowtest.Fault {
					writes = max(writes, w.N)
					if w.N == n {
						died = true
						return fault
					}
					return flowtest.Pass
				}
			}
			return f
		}
		_, _ = b.engine().Drive(t.Context(), b.job())
		b.wrap = nil
		out := flow.Outcome{}
		if h, err := b.log.Load(t.Context(), b.run); err == nil && h.Ended != "" {
			out.Status = h.Ended // it had written its end before it died
		} else {
			out = b.finish(t, yes)
		}
		if out.Status != flow.Completed || !slices.Equal(b.ways(), want) {
			t.Fatalf("write %d, fault %d: %s, ways\n%v\nnot\n%v\n%s", n, fault, out.Status, b.ways(), want, b.story(0))
		}
		for path, calls := range b.world.calls {
			if calls > 1 && (slices.Contains([]string{"right#1/act#1", "right#2/act#1"}, path) || calls > 2) {
				t.Fatalf("write %d, fault %d: %s was performed %d times", n, fault, path, calls)
			}
		}
		if fault == flowtest.KillBefore {
			fault = flowtest.KillAfter
		} else {
			n, fault = n+1, flowtest.KillBefore
		}
		if !died {
			break // there are no more writes
		}
	}
	if writes < 20 {
		t.Fatalf("only %d writes were tried", writes)
	}
}

// A record of what was decided that is altered, and its hashes with it, does not fit
// the program any more.
func TestReplayFindsAlteredDecisions(t *testing.T) {
	bounded := loopOf(t, 3)
	bounded.in.Bounds = tipstaff.Bounds{tipstaff.BoundIterations: 1}
	for name, b := range map[string]*bed{"a loop with a gate": loopingBed(t), "a bound": bounded} {
		t.Run(name, func(t *testing.T) {
			b.finish(t, yes)
			h, err := b.log.Load(t.Context(), b.run)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range h.Records {
				for _, member := range []string{"to", "iteration", "reason", "edge_count", "digest", "outcome", "visit", "epoch", "used", "limit"} {
					body, ok := altered(r, member)
					if !ok {
						continue
					}
					records := slices.Clone(h.Records)
					records[i].Body = body
					if !b.misfits(t, flow.History{Records: records, Ended: h.Ended}) {
						t.Errorf("%s at %q may have another %s", r.Kind, r.Path, member)
					}
				}
			}
		})
	}
}

// altered is the body of an event of the program with another value of a member, if
// it has that.
func altered(r flow.Record, member string) (json.RawMessage, bool) {
	var body map[string]any
	if r.N == 0 || json.Unmarshal(r.Body, &body) != nil || body[member] == nil {
		return nil, false
	}
	switch v := body[member].(type) {
	case string:
		body[member] = v + "x"
	case float64:
		body[member] = v + 1
	}
	return flow.JSON(body), true
}

// misfits reports whether a replay finds that the program does not fit a history.
func (b *bed) misfits(t *testing.T, h flow.History) bool {
	t.Helper()
	job := b.job()
	job.Acts = nil
	out, err := flow.Replay(h).Drive(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	var nd *flow.NonDeterminism
	return out.Status == flow.Interrupted && errors.As(out.Err, &nd)
}
