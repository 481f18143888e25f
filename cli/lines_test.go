package cli

import (
	"encoding/json"
	"testing"
	"time"

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
		{"worker.started", "root/a/worker#1", `{"worker":"careful","cli_version":"2.1.197","session":"01S","posture":"auto"}`, "root/a/worker#1  worker  careful 2.1.197 begins session 01S, auto"},
		{"worker.started", "root/a/worker#2", `{"worker":"careful","session":"01S","posture":"write","resumed":true}`, "root/a/worker#2  worker  careful goes on with session 01S, write"},
		{"worker.ended", "root/a/worker#1", `{"outcome":"limit","which":"idle","steps":3,"duration_ms":1250,"usage":{"cost_usd":"0.40"}}`, "root/a/worker#1  worker ended  1.2s  limit (idle)  3 steps  $0.40"},
		{"worker.event", "root/a/worker#1", `{"kind":"text","raw":"x"}`, ""},
		{"task.status", "root/a", `{"task":"010","from":"in_progress","to":"paused","why":"it asks"}`, "root/a  task  010 in_progress → paused: it asks"},
		{"task.status", "root/a", `{"task":"010","from":"in_progress","to":"in_progress","session_id":"5bb28a54"}`, "root/a  session  5bb28a54"},
		{"worktree.created", "deliver", `{"path":"/w/01A","base":"0123456789abcdef0123"}`, "deliver  worktree  /w/01A at 0123456789ab"},
		{"worktree.created", "deliver", `{"path":"/w/01A","base":"0123456789abcdef0123","dirty":1}`, "deliver  worktree  /w/01A at 0123456789ab  without 1 uncommitted change of the checkout"},
		{"diff.recorded", "root/a/worker#1", `{"stage":"root/a","files":0}`, "root/a/worker#1  changed so far  nothing"},
		{"diff.recorded", "deliver", `{"files":1,"added":3,"removed":2}`, "deliver  changed  1 file, +3 −2 lines"},
		{"diff.recorded", "deliver", `{"files":0,"notices":[{"code":"refs_changed","message":"main"}]}`, "deliver  changed  nothing  refs_changed"},
		{"diff.recorded", "deliver", `{"files":0,"notices":[{"code":"refs_changed"},{"code":"config_changed"},{"code":"refs_changed"},{"code":"config_changed"}]}`, "deliver  changed  nothing  config_changed  refs_changed"},
		{"check.finished", "deliver", `{"name":"test","tree":"t","exit_code":0,"duration_ms":1250}`, "deliver  check passed  test  1.2s"},
		{"check.finished", "deliver", `{"name":"test","tree":"t","exit_code":0,"duration_ms":1250,"in":"clean"}`, "deliver  check passed  test  1.2s"},
		{"check.finished", "deliver", `{"name":"test","tree":"t","exit_code":0,"duration_ms":1250,"in":"worktree"}`, "deliver  check passed  test  in the worktree  1.2s"},
		{"worktree.prepared", "deliver", `{"copied":2,"linked":[{"path":"node_modules"}],"ports":[20001],"left_out":[{"path":".env","why":"it is a pipe"}]}`, "deliver  prepared  2 files copied, node_modules linked, port 20001, .env left out: it is a pipe"},
		{"setup.finished", "deliver", `{"phase":"setup","argv":["npm","ci"],"tree":"t","duration_ms":1250}`, "deliver  setup done  npm ci  1.2s"},
		{"setup.finished", "deliver", `{"phase":"setup","argv":["npm","ci"],"tree":"t","in":"worktree","duration_ms":1250}`, "deliver  setup done  npm ci  1.2s"},
		{"setup.finished", "deliver", `{"phase":"teardown","argv":["stop"],"tree":"t","exit_code":2,"duration_ms":5,"in":"clean"}`, "deliver  teardown failed  stop  for the checks  5ms  exit code 2"},
		{"check.finished", "deliver", `{"name":"test","tree":"t","exit_code":1,"duration_ms":5}`, "deliver  check failed  test  5ms  exit code 1"},
		{"check.finished", "deliver", `{"name":"test","tree":"t","code":"timeout","message":"it took too long","duration_ms":5}`, "deliver  check failed  test  5ms  timeout: it took too long"},
		{"delivery.committed", "deliver", `{"branch":"refs/heads/tipstaff/deliver/x","commit":"0123456789abcdef0123"}`, "deliver  delivered  tipstaff/deliver/x at 0123456789ab"},
		{"delivery.applied", "deliver", `{"already":true}`, "deliver  applied  the checkout had the changes already"},
		{"delivery.skipped", "deliver", `{"gate":"01G"}`, "deliver  not delivered  the worktree stays"},
		{"followup.created", "", `{"child":"01C"}`, "run  followed up  by 01C"},
		{"task.log", "root/a", `{"level":"info","text":"half\n\u001b[2J done"}`, `root/a  task log  info: half\n\u001b[2J done`},
		{"task.output", "root/a", `{"output":{"kind":"file","path":"a.go","note":"the fix"}}`, "root/a  task output  file  a.go  the fix"},
		{"effect.intended", "root/a", `{}`, ""},
		{"effect.finished", "root/a", `{"ms":1}`, ""},
		{"clock.read", "root/now#1", `{}`, ""},
		{"plan.step", "root/a", `not JSON`, ""},
	} {
		got := (&follower{}).plainLine(tipstaff.Event{Kind: tipstaff.Kind(c.kind), Path: c.path, Body: json.RawMessage(c.body)})
		equal(t, c.kind+" "+c.body, got.text(false), c.want)
	}
}

// The live view, too, says how long somebody has waited for a call that was made again.
func TestViewOfARetriedCall(t *testing.T) {
	v := newView(runA, "notes", nil)
	for i, e := range []struct{ kind, body string }{
		{"run.started", `{}`}, {"effect.intended", `{"name":"tool.call","attempt":1}`}, {"effect.failed", `{"attempt":1,"error":{"code":"timeout"}}`},
		{"effect.intended", `{"name":"tool.call","attempt":2}`}, {"effect.finished", `{"attempt":2,"ms":1000}`},
	} {
		v.Apply(&tipstaff.Event{Seq: int64(i + 1), At: epoch.Add(time.Duration(i) * time.Second), Kind: tipstaff.Kind(e.kind), Path: "root", Body: json.RawMessage(e.body)})
	}
	text := ""
	for _, l := range v.render(80, 5, epoch.Add(time.Minute)) {
		text += l.text(false) + "\n"
	}
	contains(t, "view", text, "✓ root  3.0s")
}

// A problem that the message of an error tells is not told again below it.
func TestAProblemIsSaidOnce(t *testing.T) {
	b := newBench(t)
	a := &app{env: b.env, out: &output{w: b.out}, err: &output{w: b.err}}
	missing := tipstaff.Problem{Code: "env_missing", Path: "models.m", Message: "the variable KEY is not set"}
	a.report(&tipstaff.Error{Code: tipstaff.InvalidProgram, Message: "model m: the variable KEY is not set", Problems: []tipstaff.Problem{missing}})
	equal(t, "one", b.err.String(), "error: model m: the variable KEY is not set\n")
	b.err.Reset()
	a.report(&tipstaff.Error{Code: tipstaff.InvalidProgram, Message: "it cannot be run: 1 problem", Problems: []tipstaff.Problem{missing}})
	equal(t, "another", b.err.String(), "error: it cannot be run: 1 problem\nenv_missing: the variable KEY is not set (models.m)\n")
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
