package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// family is a plan that starts two child runs side by side, each of which does
// things that must happen only once, and one of which starts a child itself.
const family = `-- tipstaff.yaml --
allowed_effects: [read, once]
servers:
  builtin: {roots: ["."], programs: [sh], tools: {json_query: {effect: read}, exec: {effect: once}}}
policy: {sub_dispatch: true, rules: [{id: all, tool: "*/*", do: allow}]}
-- work.yaml --
kind: plan
version: 1
bounds: {tool_calls: 5000, agent_hops: 2000} # an attempt whose end nobody saw is charged
root:
  kind: sequential
  children:
    - {id: before, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo before | tee -a effects"]}}
    - kind: parallel
      children:
        - {id: ann, kind: sub_dispatch, skill: "skill://middle@1.0.0", accept: auto, bounds: {tool_calls: 400, agent_hops: 40}}
        - {id: ben, kind: sub_dispatch, skill: "skill://asked@1.0.0", bounds: {tool_calls: 30}}
    - {id: after, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo after | tee -a effects"]}}
outputs: {ann: "${ann.output.got}", ben: "${ben.output.got}", after: "${after.output.stdout}"}
-- skills/middle/skill.yaml --
id: middle
version: 1.0.0
verbs: [build]
outputs: {got: {type: string}}
tools: ["mcp://builtin/exec@1.0.0"]
sub_skills: ["skill://leaf@1.0.0"]
-- skills/middle/SKILL.md --
---
name: middle
description: Has a child.
---
-- skills/middle/plan.yaml --
kind: plan
version: 1
skill: skill://middle@1.0.0
root:
  kind: sequential
  children:
    - {id: upper, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo upper | tee -a effects; sleep 0.02"]}}
    - {id: down, kind: sub_dispatch, skill: "skill://leaf@1.0.0", accept: auto, bounds: {tool_calls: 20}}
outputs: {got: "${down.output.got}"}
-- skills/leaf/skill.yaml --
id: leaf
version: 1.0.0
verbs: [build]
outputs: {got: {type: string}}
tools: ["mcp://builtin/exec@1.0.0"]
sub_skills: none
-- skills/leaf/SKILL.md --
---
name: leaf
description: Has no child.
---
-- skills/leaf/plan.yaml --
kind: plan
version: 1
skill: skill://leaf@1.0.0
root: {kind: sequential, children: [
  {id: lower, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "sleep 0.02; echo lower | tee -a effects"]}}]}
outputs: {got: "${lower.output.stdout}"}
-- skills/asked/skill.yaml --
id: asked
version: 1.0.0
verbs: [build]
outputs: {got: {type: string}}
tools: ["mcp://builtin/exec@1.0.0"]
sub_skills: none
-- skills/asked/SKILL.md --
---
name: asked
description: Is confirmed.
---
-- skills/asked/plan.yaml --
kind: plan
version: 1
skill: skill://asked@1.0.0
root: {kind: sequential, children: [
  {id: beside, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo beside | tee -a effects; sleep 0.05"]}}]}
outputs: {got: "${beside.output.stdout}"}
`

// TestKillFamily kills the process that drives a run and its children at random
// moments: nothing happens twice, no child is made twice, and every journal
// holds.
func TestKillFamily(t *testing.T) {
	cmdtest.SkipSweep(t)
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	k := &killer{dice: rand.New(rand.NewPCG(seed, 2)), left: max(1, kills(t)/4)}
	for k.left > 0 {
		k.workspace = newWorkspace(t, family)
		k.oneFamily()
	}
	t.Logf("%d commands killed, %d ended by themselves; %d gates in doubt", k.killed, k.spared, k.doubts)
}

func (k *killer) oneFamily() {
	k.Helper()
	for len(k.runs()) == 0 {
		if r, ended := k.risk("run", "work.yaml", "--yes", "--unattended"); ended && r.Code != 0 {
			k.Fatalf("%v", r)
		}
	}
	run := k.show("@").ID
	for k.show(run).State != "completed" {
		r, ended := k.risk("resume", run, "--yes", "--unattended")
		switch {
		case !ended, r.Code == 0, r.Code == 3:
		case r.Code == 4:
			for _, any := range k.runs() {
				k.settleDoubts(any, k.insist)
			}
		default:
			k.Fatalf("%v", r)
		}
	}
	if got, want := string(k.show(run).Outputs), `{"after":"after\n","ann":"lower\n","ben":"beside\n"}`; got != want {
		k.Errorf("outputs %s, want %s", got, want)
	}
	if got, want := k.effects(), "after before beside lower upper"; got != want {
		k.Errorf("effects %s, want %s", got, want)
	}
	all := k.runs()
	if len(all) != 4 {
		k.Errorf("%d runs, want a run and three children", len(all))
	}
	for _, any := range all {
		k.Must(0, "verify", any)
	}
}
