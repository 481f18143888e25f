package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// insistent is a plan whose program tries to decide by way of a daemon. It decides for a run that
// the daemon drives, for one of its own, and for somebody's.
const insistent = `-- tipstaff.yaml --
allowed_effects: [read, once]
servers:
  builtin: {roots: ["."], programs: [bash], tools: {exec: {effect: once, timeout: 1h}}} # it starts many programs
-- gated.yaml --
{kind: plan, version: 1, root: {id: ok, kind: gate, question: "Go on?"}}
-- agent.yaml --
{kind: plan, version: 1, root: {id: agent, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [bash, agent.sh]}}}
-- agent.sh --
cd "$(dirname "$0")"
token=$(cat token); http=$(cat http); grpc=$(cat grpc)
hidden="env -i PATH=$PATH HOME=$HOME TIPSTAFF_TOKEN=$token"
echo "$TIPSTAFF_RUN_ID" > own
$hidden TIPSTAFF run gated.yaml --unattended --json > /dev/null 2>&1 # a run of its own
TIPSTAFF ls --json | grep awaiting_decision | sed 's/^{"run_id":"\([0-9A-Z]*\)".*/\1/' > gates
asks() { # what for, then the command: it is told own_run, or all that it is told is kept
	what=$1; shift
	"$@" > answer 2>&1
	if grep -q own_run answer; then echo "$what own_run" >> said; else { echo "$what"; cat answer; } >> said; fi
}
bearer="Authorization: Bearer $token"
for run in $(cat gates); do
	gate=$(TIPSTAFF show $run --json | grep -o '"gate_id":"[0-9A-Z]*"' | head -1 | cut -c12-37)
	echo "$gate" >> gate_ids
	for how in env "$hidden" "setsid -w $hidden"; do
		asks http $how curl -s -H "$bearer" -H 'Content-Type: application/json' -d '{"action":"approve"}' http://$http/runs/$run/gates/$gate/decision
		asks grpc $how TIPSTAFF decide $run root approve --server $grpc --json
		asks mcp $how curl -s -H "$bearer" -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: gate_decide' \
			-d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"gate_decide","arguments":{"run_id":"'$run'","gate_id":"'$gate'","action":"approve"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"}}}}' http://$http/mcp
	done
	# One that has lost its parents belongs to the run, too.
	rm -f lost
	(setsid $hidden bash -c "TIPSTAFF decide $run root approve --server $grpc --json > lost.new 2>&1; mv lost.new lost" < /dev/null > /dev/null 2>&1 &)
	while ! test -e lost; do sleep 0.01; done
	asks lost cat lost
done
# The page: a link, and a form.
link=$(curl -s -X POST -H "$bearer" http://$http/signin-codes | grep -o 'http:[^"]*'); at=${link%%/ui/*}
curl -s -c jar -o /dev/null -H "Origin: $at" -d "${link#*\?}" $at/ui/signin
for gate in $(paste -d/ gates gate_ids | sed 's,/,/gates/,'); do
	curl -s -b jar $at/ui/runs/$gate > shown
	value() { grep -o "name=\"$1\" value=\"[^\"]*\"" shown | head -1 | cut -d'"' -f4; }
	asks page curl -s -b jar -H "Origin: $at" -d "form=$(value form)" -d "subject_digest=$(value subject_digest)" -d confirmed=1 -d action=approve $at/ui/runs/$gate/decision
done
curl -s -o /dev/null -w '%{http_code}\n' -H "$bearer" http://$http/runs > looked
touch done
while ! test -e leave; do sleep 0.01; done
`

// Whoever drives a run, its processes decide nothing by way of a daemon, whatever token they
// show; somebody else does, while they live.
func TestNoProcessDecidesByWayOfADaemon(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"the daemon drives", "another process drives"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, insistent)
			s.Write("agent.sh", strings.ReplaceAll(s.Read("agent.sh"), "TIPSTAFF ", s.Prepare().Cmd.Path+" "))
			for file, text := range map[string]string{"token": s.token(), "http": s.httpAddr, "grpc": s.addr} {
				s.Write(file, text)
			}
			s.Must(4, "run", "gated.yaml", "--unattended")
			somebodys := strings.TrimSpace(s.runs()[0])
			at := s.workspace
			if name == "the daemon drives" {
				at = s.away
				at.Write("agent.yaml", s.Read("agent.yaml"))
			}
			p := at.Start("run", "agent.yaml", "--unattended")
			s.Until("the agent to give up", func() bool { return fileExists(s.Path("done")) || !p.Running() && p.Wait().Code != 0 })
			if !fileExists(s.Path("done")) {
				t.Fatal(p.Wait())
			}
			gates := strings.Fields(s.Read("gates"))
			if len(gates) != 2 {
				t.Fatalf("runs wait at gates: %q", gates)
			}
			want := strings.Repeat(strings.Repeat("http own_run\ngrpc own_run\nmcp own_run\n", 3)+"lost own_run\n", 2) + strings.Repeat("page own_run\n", 2)
			if got := s.Read("said"); got != want {
				t.Errorf("it was told:\n%s", got)
			}
			if got := s.Read("looked"); got != "200\n" {
				t.Errorf("what runs there are it is told with %q", got)
			}
			gate := strings.Fields(s.Read("gate_ids"))[slices.Index(gates, somebodys)]
			if res, body := s.http("POST", "/runs/"+somebodys+"/gates/"+gate+"/decision", `{"action":"approve"}`); res.StatusCode != 200 {
				t.Errorf("somebody else is answered %s: %s", res.Status, body)
			}
			s.Check(os.WriteFile(s.Path("leave"), nil, 0o600))
			if r := p.Wait(); r.Code != 0 {
				t.Error(r)
			}
		})
	}
}
