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
  builtin: {roots: ["."], programs: [sh], tools: {exec: {effect: once}}}
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
clean="env -i PATH=$PATH HOME=$HOME"
for run in $(cat runs); do
	for how in env "env -u TIPSTAFF_RUN_ID" "env TIPSTAFF_RUN_ID=01J00000000000000000000000" "$clean" "setsid -w $clean"; do
		try $how TIPSTAFF decide $run root/x approve --json
		try $how TIPSTAFF cancel $run --json
		try $how TIPSTAFF resume $run --json
	done
done
# One that has lost its parents belongs to it, too.
(setsid $clean sh -c "TIPSTAFF cancel $run --json --workspace $PWD 2> lost.new; mv lost.new lost" < /dev/null > /dev/null 2>&1 &)
while ! test -e lost; do sleep 0.01; done
`

// No process of a run decides for it, or for the run above it, whatever it does to its
// environment and session.
func TestNoProcessDecidesForItsOwnRun(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, kin)
	w.Write("agent.sh", strings.ReplaceAll(w.Read("agent.sh"), "TIPSTAFF ", w.Prepare().Cmd.Path+" "))
	p := w.Start("run", "plan.yaml", "--unattended")
	w.Until("the agent", func() bool { return fileExists(w.Path("own")) || !p.Running() })
	if !p.Running() {
		t.Fatal(p.Wait())
	}
	own, runs := strings.TrimSpace(w.Read("own")), w.runs()
	if len(runs) != 2 || runs[0] != own && runs[1] != own {
		t.Fatalf("the runs are %q, the agent's is %s", runs, own)
	}
	w.Write("runs.new", strings.Join(runs, "\n"))
	w.Check(os.Rename(w.Path("runs.new"), w.Path("runs")))
	if r := p.Wait(); r.Code != 0 {
		t.Fatal(r)
	}
	if got, want := w.Read("said"), strings.Repeat("3 own_run\n", 2*5*3); got != want {
		t.Errorf("it was told:\n%s", got)
	}
	if lost := w.Read("lost"); !strings.Contains(lost, "own_run") {
		t.Errorf("the lost one was told %q", lost)
	}
	for _, run := range runs {
		if s := w.show(run); s.State != "completed" {
			t.Errorf("run %s is %s", run, s.State)
		}
	}
}
