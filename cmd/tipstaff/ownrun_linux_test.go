package main

import (
	"os"
	"strings"
	"testing"
)

// kin is a plan whose child run has a program that tries to decide for both.
const kin = `-- tipstaff.yaml --
allowed_effects: [read, once]
servers:
  builtin: {roots: ["."], programs: [sh], tools: {exec: {effect: once, timeout: 1h}}} # it starts some fifty programs
policy: {sub_dispatch: true, rules: [{id: all, tool: "*/*", do: allow}]}
-- plan.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: down, kind: sub_dispatch, skill: "skill://below@1.0.0", accept: auto, bounds: {tool_calls: 20}}
-- skills/below/skill.yaml --
id: below
version: 1.0.0
verbs: [build]
tools: ["mcp://builtin/exec@1.0.0"]
sub_skills: none
-- skills/below/SKILL.md --
---
name: below
description: Tries to decide for itself.
---
-- skills/below/plan.yaml --
kind: plan
version: 1
skill: skill://below@1.0.0
root: {kind: sequential, children: [
  {id: agent, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, agent.sh]}}]}
-- agent.sh --
echo "$TIPSTAFF_RUN_ID" > own.new; mv own.new own
while ! test -e runs; do sleep 0.01; done
try() { # how it is started, and the command
	"$@" --workspace "$PWD" > /dev/null 2> why; code=$?
	grep -o 'own_run' why | sort -u | sed "s/^/$code /" >> said
	grep -q own_run why || { echo "$code $*"; cat why; } >> said
}
serve() { # the run, and how the server is started: it is asked for everything that changes a run
	of='"run_id":"'$1'"'; gate='"gate_id":"01J00000000000000000000000","action":"approve"'; shift
	(
		echo '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"agent","version":"1"}}}'
		echo '{"jsonrpc":"2.0","method":"notifications/initialized"}'
		id=0
		for call in run_resume, run_cancel, gate_decide,"$gate" phase_handoff_decide,"$gate" delivery_decide,"$gate"; do
			id=$((id + 1)); more=${call#*,}
			echo '{"jsonrpc":"2.0","id":'$id',"method":"tools/call","params":{"name":"'${call%%,*}'","arguments":{'$of${more:+,$more}'}}}'
		done
	) | "$@" TIPSTAFF mcp --decide --workspace "$PWD" > answers 2>&1
	grep '"id":[1-5]' answers | grep -o '"code":"[a-z_]*"' >> served
}
clean="env -i PATH=$PATH HOME=$HOME"
for run in $(cat runs); do
	for how in env "env -u TIPSTAFF_RUN_ID" "env TIPSTAFF_RUN_ID=01J00000000000000000000000" "$clean" "setsid -w $clean"; do
		try $how TIPSTAFF decide $run root/x approve --json
		try $how TIPSTAFF cancel $run --json
		try $how TIPSTAFF resume $run --json
		serve $run $how
	done
	TIPSTAFF exec $run --json --workspace "$PWD" > /dev/null 2>&1; echo $? >> executed # it has the token of its launch
done
# One that has lost its parents belongs to it, too.
(setsid $clean sh -c "TIPSTAFF cancel $run --json --workspace $PWD 2> lost.new; mv lost.new lost" < /dev/null > /dev/null 2>&1 &)
while ! test -e lost; do sleep 0.01; done
`

// No process of a run decides for it, or for the run above it, by any command or as an MCP
// server, whatever it does to its environment and session, and whoever drives the run.
func TestNoProcessDecidesForItsOwnRun(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"foreground": {"--unattended"}, "detached": {"--detach"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			noneDecidesForItself(t, flags)
		})
	}
}

func noneDecidesForItself(t *testing.T, flags []string) {
	w := newWorkspace(t, kin)
	w.endLaunched()
	w.Write("agent.sh", strings.ReplaceAll(w.Read("agent.sh"), "TIPSTAFF ", w.Prepare().Cmd.Path+" "))
	p := w.Start(append([]string{"run", "plan.yaml"}, flags...)...)
	w.Until("the agent", func() bool { return fileExists(w.Path("own")) || !p.Running() && p.Wait().Code != 0 })
	if !fileExists(w.Path("own")) {
		t.Fatal(p.Wait())
	}
	own, runs := strings.TrimSpace(w.Read("own")), w.runs()
	if len(runs) != 2 || runs[0] != own && runs[1] != own {
		t.Fatalf("the runs are %q, the agent's is %s", runs, own)
	}
	before := map[string]int64{}
	for _, run := range runs {
		before[run] = w.show(run).HeadSeq
	}
	w.Write("runs.new", strings.Join(runs, "\n"))
	w.Check(os.Rename(w.Path("runs.new"), w.Path("runs")))
	w.Until("the agent to give up", func() bool { return fileExists(w.Path("lost")) })
	if r := p.Wait(); r.Code != 0 {
		t.Fatal(r)
	}
	if got, want := w.Read("said"), strings.Repeat("3 own_run\n", 2*5*3); got != want {
		t.Errorf("it was told:\n%s", got)
	}
	if got := w.Read("executed"); got != "3\n3\n" {
		t.Errorf("a token was used again: %s", got)
	}
	if got, want := w.Read("served"), strings.Repeat("\"code\":\"own_run\"\n", 2*5*5); got != want {
		t.Errorf("as a server it was told:\n%s\n%s", got, w.Read("answers"))
	}
	if lost := w.Read("lost"); !strings.Contains(lost, "own_run") {
		t.Errorf("the lost one was told %q", lost)
	}
	for _, run := range runs {
		w.Until("the end of "+run, func() bool { return w.show(run).State == "completed" })
		for _, r := range w.journal(run) {
			if r.Seq > before[run] && (r.Kind == "run.cancel_requested" || r.Kind == "run.resumed" || r.Kind == "run.launched") {
				t.Errorf("run %s has %s at %d", run, r.Kind, r.Seq)
			}
		}
		w.Must(0, "verify", run)
	}
}
