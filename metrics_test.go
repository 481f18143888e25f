package tipstaff

import (
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// threeLaunches is a run that was parked at a gate and lost in a crash: its agent asks a
// model twice and calls a tool, of which one call is lost, and a worker does another step.
func threeLaunches() records {
	usage := func(in, out, cached int64, cost *USD) *ModelUsage {
		return &ModelUsage{InputTokens: in, OutputTokens: out, CacheReadTokens: cached, TotalTokens: in + out, CostUSD: cost}
	}
	cents := func(n USD) *USD { n *= 10_000_000; return &n }
	j := accepted()
	j.add(KindRunStarted, "", 1, `{"epoch":1}`) // second 5
	j.add(KindPlanStep, "root/think", 1, `{"node":"think","status":"started"}`)
	j.add(KindEffectIntended, "root/think/model#1", 1, `{"name":"model.call","attempt":1,"reserve":{"model_calls":1,"cost_usd":90000000}}`)
	j.add(KindEffectFailed, "root/think/model#1", 1, `{"name":"model.call","attempt":1,"error":{"code":"rate_limited"},"use":{"model_calls":1,"cost_usd":0}}`)
	j.add(KindEffectIntended, "root/think/model#1", 1, `{"name":"model.call","attempt":2,"reserve":{"model_calls":1,"cost_usd":90000000}}`)
	j.add(KindEffectFinished, "root/think/model#1", 1, `{"name":"model.call","attempt":2,"use":{"model_calls":1,"cost_usd":20000000}}`)
	j.add(KindAgentMessage, "root/think/model#1", 1, body(AgentMessage{Model: "m-1", Usage: usage(100, 10, 40, cents(2))}))
	j.add(KindPolicyGate, "root/think/tool#1.1/approval", 0, opens(21, Approval, nil, "allow", "deny"))
	j.add(KindRunParked, "", 1, `{"wall_ms":7000}`) // second 13
	j.add(KindPolicyGateResolve, "root/think/tool#1.1/approval", 0, resolves(21, "allow"))
	j.add(KindRunResumed, "", 2, `{"epoch":2}`) // second 15
	j.add(KindEffectIntended, "root/think/tool#1.1", 2, `{"name":"tool.call","class":"once","attempt":1,"reserve":{"tool_calls":1}}`)
	j.add(KindRunInterrupted, "", 0, `{"reason":"owner_died"}`)
	j.add(KindRunResumed, "", 3, `{"epoch":3}`) // second 18
	j.add(KindEffectIntended, "root/think/tool#1.1", 3, `{"name":"tool.call","class":"once","attempt":2,"reserve":{"tool_calls":1}}`)
	j.add(KindEffectFinished, "root/think/tool#1.1", 3, `{"name":"tool.call","attempt":2}`)
	j.add(KindEffectFinished, "root/think/router", 3, `{"name":"router.narrow","attempt":1,"use":{"model_calls":1}}`)
	j.add(KindEffectIntended, "root/work/worker#1", 3, `{"name":"worker.spawn","class":"once","attempt":1,"reserve":{"agent_hops":1}}`)
	j.add(KindBoundReserved, "root/work/worker#1", 3, `{"by":{"cost_usd":50000000}}`)
	j.add(KindWorkerStarted, "root/work/worker#1", 3, body(WorkerStarted{Invocation: "I", Worker: "hand"}))
	j.add(KindAgentMessage, "root/work/worker#1", 3, body(AgentMessage{Model: "m-2", Usage: usage(7, 1, 0, nil), Inside: Inside{Invocation: "I"}}))
	j.add(KindWorkerEnded, "root/work/worker#1", 3, body(WorkerEnded{Invocation: "I", Outcome: "reported", Usage: *usage(8, 2, 1, nil), UsageKnown: true}))
	j.add(KindEffectFinished, "root/work/worker#1", 3, `{"name":"worker.spawn","attempt":1,"use":{"tokens":10}}`)
	j.add(KindEffectFinished, "root/read", 3, `{"name":"tool.call","attempt":1,"use":{"tool_calls":1}}`)
	j.add(KindEffectIntended, "root/late", 3, `{"name":"tool.call","attempt":1,"reserve":{"tool_calls":1}}`) // whose end nobody will tell
	j.add(KindIntentAttest, "", 0, `{"outcome":"success"}`)                                                  // second 30
	return j
}

func TestMetricRowsAddUp(t *testing.T) {
	p := newProject()
	p.blobs["sha256:p"] = `{"kind":"plan","root":{"kind":"sequential","children":[{"id":"think","kind":"step","agent":"sage"},` +
		`{"id":"work","kind":"step"},{"id":"read","kind":"tool_call"}]}}`
	p.add(1, threeLaunches())
	got, err := Metrics(t.Context(), p, testID(1), p.now)
	if err != nil {
		t.Fatal(err)
	}
	want := Metric{ModelCalls: 3, ToolCalls: 4, Invocations: 1, TokensIn: 108, TokensOut: 12, TokensCached: 41, CostUSD: 70_000_000, Retries: 1, Gates: 1}
	if got.Metric != want {
		t.Errorf("totals %+v\nwant   %+v", got.Metric, want)
	}
	if run, _ := p.Get(t.Context(), testID(1)); got.ModelCalls != run.Bounds[BoundModelCalls].Used || got.ToolCalls != run.Bounds[BoundToolCalls].Used ||
		int64(got.CostUSD) != run.Bounds[BoundCostUSD].Used {
		t.Errorf("the bounds of the run say otherwise: %+v", run.Bounds)
	}
	// 29 s from the first record to the end; 7, 1 and 12 of them were driven.
	if got.WallS != 29 || got.ActiveS != 20 || got.WaitingS != 9 {
		t.Errorf("wall %v, active %v, waiting %v", got.WallS, got.ActiveS, got.WaitingS)
	}
	for name, rows := range map[string][]MetricRow{"steps": got.Steps, "agents": got.Agents} {
		sum := Metric{Exact: true}
		for _, r := range rows {
			sum.Add(r.Metric)
		}
		if sum != got.Metric {
			t.Errorf("the %s add up to %+v", name, sum)
		}
	}
	steps := map[string]MetricRow{}
	for _, r := range got.Steps {
		steps[r.Name] = r
	}
	if s := steps["root/think"]; s.ModelCalls != 3 || s.ToolCalls != 2 || s.CostUSD != 20_000_000 || !s.Exact || len(s.Parts) != 1 || s.Parts[0].Name != "m-1" || s.Parts[0].TokensIn != 100 {
		t.Errorf("root/think: %+v", s)
	}
	// The worker told no price: it is charged as it was reserved. What its model said explains.
	if s := steps["root/work"]; s.CostUSD != 50_000_000 || s.Exact || s.TokensIn != 8 || s.ModelCalls != 0 || s.Parts[0].ModelCalls != 1 || s.Parts[0].TokensIn != 7 {
		t.Errorf("root/work: %+v", s)
	}
	agents := map[string]int64{}
	for _, r := range got.Agents {
		agents[r.Name] = r.ToolCalls
	}
	if len(agents) != 3 || agents["sage"] != 2 || agents[""] != 2 || agents["hand"] != 0 {
		t.Errorf("tool calls by agent: %v", agents)
	}
}

func TestMetricsOfStagesForksAndNothing(t *testing.T) {
	p := newProject()
	var j records
	j.add(KindIntentDraft, "", 0, `{"program_kind":"pipeline","program_digest":"sha256:q","pipeline":{}}`)
	j.add(KindRunForked, "", 0, body(RunForked{Counters: flow.Use{"model_calls": 7}, WallMs: new(int64(90_000))}))
	j.add(KindRunStarted, "", 1, `{}`)
	for visit, way := range map[string]string{"work#1": "remote", "work#2": "scripted"} {
		j.add(KindEffectFinished, visit+"/"+way, 1, `{"name":"stage.`+way+`","attempt":1,"use":{"model_calls":2}}`)
		j.add(KindStageRetrying, visit, 1, `{"stage":"work","next_attempt":2}`)
		j.add(KindStageFinished, visit, 1, `{"stage":"work","outcome":"success","usage":{"llm_calls":2,"tokens_in":5,"tokens_out":3}}`)
	}
	j.add(KindEffectIntended, "work#2/x", 1, `{"name":"model.call","reserve":{"model_calls":1}}`)
	j.add(KindRunContinued, "", 1, `{"used":{"model_calls":11}}`) // which has settled what was under way
	j.add(KindStageFinished, "own#1", 1, `{"stage":"own","outcome":"success","usage":{"tokens_in":99}}`)
	j.add(KindIntentFail, "", 0, `{"reason":"stage_error"}`)
	p.add(1, j)
	got, err := Metrics(t.Context(), p, testID(1), p.now)
	if err != nil {
		t.Fatal(err)
	}
	want := Metric{ModelCalls: 4, TokensIn: 10, TokensOut: 6, Retries: 2, Exact: true} // what was inherited is not its own
	if got.Metric != want || len(got.Steps) != 1 || got.Steps[0].Name != "work" || got.ActiveS != 10 {
		t.Errorf("%+v", got)
	}

	p.add(2, accepted())
	got, err = Metrics(t.Context(), p, testID(2), dawn.Add(time.Second))
	if err != nil || got.Metric != (Metric{Exact: true}) || got.WallS != 0 || got.Steps == nil || got.Agents == nil {
		t.Errorf("%+v, %v", got, err)
	}
}
