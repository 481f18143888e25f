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
		got := plainLine(tipstaff.Event{Kind: tipstaff.Kind(c.kind), Path: c.path, Body: json.RawMessage(c.body)})
		equal(t, c.kind+" "+c.body, got.text(false), c.want)
	}
}
