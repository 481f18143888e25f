package cli

import (
	"encoding/json"
	"testing"

	"github.com/tipstaff/tipstaff"
)

func TestPlainLines(t *testing.T) {
	for _, c := range []struct{ kind, path, body, want string }{
		{"run.started", "", `{}`, "run  started"},
		{"run.parked", "", `{}`, "run  parked"},
		{"run.interrupted", "", `{"reason":"signal:SIGINT"}`, "run  interrupted  signal:SIGINT"},
		{"run.cancel_requested", "", `{"reason":"wrong"}`, "run  cancel requested  wrong"},
		{"plan.step", "root/a", `{"status":"started"}`, "root/a  started"},
		{"plan.step", "root/a", `{"status":"completed","latency_ms":1250}`, "root/a  completed  1.2s"},
		{"plan.step", "root/a", `{"status":"refused","error":{"reason":"policy_denied","code":"effect_denied","message":"once"}}`, "root/a  refused  effect_denied: once"},
		{"plan.step", "root/a", `{"status":"failed","latency_ms":3,"error":{"reason":"bound_exceeded"}}`, "root/a  failed  3ms  bound_exceeded"},
		{"effect.failed", "root/a", `{"attempt":1,"error":{"code":"timeout"}}`, "root/a  attempt 1 failed  retrying: timeout"},
		{"effect.failed", "root/a", `{"attempt":2}`, "root/a  attempt 2 failed  retrying"},
		{"policy.gate", "root/ok", `{"question":"Publish\n\u001b[2J?"}`, `root/ok  waiting  Publish\n\u001b[2J?`},
		{"policy.gate.resolve", "root/ok", `{"action":"approve","via":"command"}`, "root/ok  decided  approve  command"},
		{"bound.refused", "root/a", `{"bound":"cost_usd","limit":500000000,"used":400000000}`, "root/a  bound refused  cost_usd $0.40/$0.50"},
		{"intent.attest", "", `{"outcome":"partial"}`, "run  completed  partial"},
		{"intent.fail", "", `{"reason":"bound_exceeded","bound":"tokens","message":"no more"}`, "run  failed  bound_exceeded tokens: no more"},
		{"intent.cancel", "", `{"reason":"wrong branch"}`, "run  cancelled  wrong branch"},
		{"effect.intended", "root/a", `{}`, ""},
		{"effect.finished", "root/a", `{"ms":1}`, ""},
		{"clock.read", "root/now#1", `{}`, ""},
		{"plan.step", "root/a", `not JSON`, ""},
	} {
		got := (&follower{}).plainLine(tipstaff.Event{Kind: tipstaff.Kind(c.kind), Path: c.path, Body: json.RawMessage(c.body)})
		equal(t, c.kind+" "+c.body, got.text(false), c.want)
	}
}

// Why a run failed is said once, by what made it fail.
func TestReasonIsSaidOnce(t *testing.T) {
	f := &follower{}
	said := func(kind, path, body string) string {
		return f.plainLine(tipstaff.Event{Kind: tipstaff.Kind(kind), Path: path, Body: json.RawMessage(body)}).text(false)
	}
	equal(t, "the node", said("plan.step", "root/a", `{"status":"failed","latency_ms":6,"error":{"code":"tool_error","message":"no such file"}}`), "root/a  failed  6ms  tool_error: no such file")
	equal(t, "the run", said("intent.fail", "", `{"reason":"tool_error","message":"no such file"}`), "run  failed")
	equal(t, "another", said("intent.fail", "", `{"reason":"tool_error","message":"no such folder"}`), "run  failed  tool_error: no such folder")
}
