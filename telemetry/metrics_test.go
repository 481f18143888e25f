package telemetry

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tipstaff/tipstaff/flow"
)

func draft(kind, path, body string) flow.Draft {
	return flow.Draft{Kind: kind, Path: path, Body: []byte(body)}
}

func TestCountersOfRecords(t *testing.T) {
	m := newMetrics()
	const usage = `"usage":{"input_tokens":100,"output_tokens":20,"cost_usd":"0.25"}`
	// What an earlier drive began: its input and its gate are known from there.
	m.Recorded("a", draft("effect.intended", "turn/model#1", `{"name":"model.call","input":{"model":"large"}}`))
	m.Recorded("a", draft("policy.gate", "turn/g", `{"gate":"G1","gate_kind":"approval"}`))
	for _, d := range []flow.Draft{
		draft("effect.finished", "turn/router", `{"name":"router.narrow","input":{},"value":{`+usage+`}}`),
		draft("effect.finished", "turn/model#1", `{"name":"model.call","value":{`+usage+`}}`),
		draft("agent.step_started", "turn/model#2", `{"step":2,"model":"large"}`),
		draft("effect.intended", "turn/model#2", `{"name":"model.call","input":{"model":"large"}}`),
		draft("effect.failed", "turn/model#2", `{"name":"model.call","error":{"code":"rate_limited"}}`),
		draft("effect.intended", "turn/model#2", `{"name":"model.call","attempt":2}`), // the input is not repeated
		draft("effect.finished", "turn/model#2", `{"name":"model.call","error":{"code":"rate_limited"}}`),
		draft("effect.finished", "turn/tool#1.1", `{"name":"tool.call","input":{"uri":"mcp://ops/df@1.0.0"},"error":{"code":"tool_error"}}`),
		draft("effect.finished", "turn/catalog", `{"name":"tool.catalog","input":{},"value":{}}`),
		draft("policy.gate.resolve", "turn/g", `{"gate":"G1","action":"allow"}`),
		draft("intent.fail", "", `{}`),
	} {
		m.Appended("a", d)
	}
	m.Forget("a")
	m.Appended("b", draft("intent.attest", "", `{}`))
	m.Appended("c", draft("intent.cancel", "", `{}`))
	m.Appended("c", draft("effect.finished", "x", `not JSON`))
	want := `
# HELP tipstaff_cost_usd_total What model calls cost, where the price is known.
# TYPE tipstaff_cost_usd_total counter
tipstaff_cost_usd_total 0.5
# HELP tipstaff_gates_total Gates that were closed, by what was decided.
# TYPE tipstaff_gates_total counter
tipstaff_gates_total{action="allow",kind="approval"} 1
# HELP tipstaff_model_calls_total Model calls by outcome: ok, or the code of the failure.
# TYPE tipstaff_model_calls_total counter
tipstaff_model_calls_total{model="large",outcome="ok"} 1
tipstaff_model_calls_total{model="large",outcome="rate_limited"} 1
# HELP tipstaff_runs_total Runs that ended, by state.
# TYPE tipstaff_runs_total counter
tipstaff_runs_total{state="cancelled"} 1
tipstaff_runs_total{state="completed"} 1
tipstaff_runs_total{state="failed"} 1
# HELP tipstaff_tokens_total Tokens that models counted, in and out.
# TYPE tipstaff_tokens_total counter
tipstaff_tokens_total{direction="input",model="large"} 200
tipstaff_tokens_total{direction="output",model="large"} 40
# HELP tipstaff_tool_calls_total Tool calls by outcome: ok, or the code of the failure.
# TYPE tipstaff_tool_calls_total counter
tipstaff_tool_calls_total{outcome="tool_error",server="ops",tool="df"} 1
`
	if err := testutil.GatherAndCompare(m.registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
