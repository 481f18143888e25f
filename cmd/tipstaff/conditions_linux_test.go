package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tipstaff/tipstaff"
)

// conditions is a workspace with a program for everything that a run can come to.
const conditions = `-- tipstaff.yaml --
allowed_effects: [read, idempotent, once]
servers:
  builtin:
    roots: ["."]
    programs: [sh]
    tools: {read_file: {effect: read}, list_dir: {effect: read}, json_query: {effect: read}, sleep: {effect: read}, exec: {effect: once}}
models:
  first: {provider: scripted, script: model.yaml}
agents:
  default: {model: first}
workers:
  hand: {type: scripted, script: hand.yaml}
policy:
  rules:
    - {id: careful, tool: "builtin/list_*", do: ask}
    - {id: files, tool: "worker-scripted/*", do: allow}
-- model.yaml --
version: 1
answers:
  - {when: {step: 1}, error: {status: 401, message: no}}
-- hand.yaml --
version: 1
answers:
  - {when: {step: 1}, calls: [{tool: worker-scripted/write_file, args: {path: out.txt, content: "hello\n"}}]}
  - {when: {step: 2}, calls: [{tool: tipstaff/task_set_status, args: {status: needs_review, reason: it is written}}]}
  - {when: {step: 3}, text: All done.}
-- question.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: look, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: hand.yaml}}
    - {id: ok, kind: gate, question: Go on?, show: {what: "a <b> & ü"}}
-- two.yaml --
kind: plan
version: 1
root: {kind: parallel, children: [{id: one, kind: gate, question: One?}, {id: two, kind: gate, question: Two?}]}
-- approval.yaml --
kind: plan
version: 1
root: {id: look, kind: tool_call, tool: "mcp://builtin/list_dir@1.0.0", args: {path: .}}
-- clarification.yaml --
name: clarification
agents:
  - {name: ask, scripted: {answers: [{output: {}, control: {interrupt: {kind: clarification, question: "Which one?"}}}, {output: {}}]}}
-- confirmation.yaml --
name: confirmation
agents:
  - {name: ask, scripted: {answers: [{output: {}, control: {interrupt: {kind: confirmation, question: "Shall I?"}}}, {output: {}}]}}
-- bound.yaml --
name: bound
max_iterations: 1
on_bound: ask
agents:
  - {name: work, stage_order: 1, default_next: judge, scripted: {answers: [{output: {}}]}}
  - {name: judge, stage_order: 2, default_next: work, scripted: {answers: [{output: {}}]}}
-- handoff.yaml --
name: handoff
agents:
  - {name: work, stage_order: 1, default_next: critic, scripted: {answers: [{output: {}}]}}
  - name: critic
    stage_order: 2
    handoff: on_reject
    default_next: end
    scripted: {answers: [{output: {verdict: rejected, findings: [{severity: P1, title: It leaks, body: Everywhere.}]}}, {output: {verdict: approved}}]}
-- delivery.yaml --
kind: plan
version: 1
name: say hello
root: {kind: step, id: work, agent: hand, prompt: "Write hello into out.txt."}
deliver: {}
-- worktree.yaml --
kind: plan
version: 1
files: worktree
deliver: {}
root: {id: ok, kind: gate, question: Go on?}
-- spends.yaml --
kind: plan
version: 1
bounds: {tool_calls: 1}
root:
  kind: sequential
  children:
    - {id: one, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: hand.yaml}}
    - {id: two, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: hand.yaml}}
-- fails.yaml --
kind: plan
version: 1
root: {id: bad, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "exit 3"]}}
-- works.yaml --
kind: plan
version: 1
root: {id: well, kind: tool_call, tool: "mcp://builtin/json_query@1.0.0", args: {value: 1, expr: value}}
`

// asker brings runs to where tests want them, by the tools of the control plane.
type asker struct {
	*workspace
	tools *mcpClient
}

// started leaves a run to a process of its own.
func (a asker) started(args map[string]any) tipstaff.ID {
	a.Helper()
	return a.tools.call("", "run_start", args).Run
}

// rests waits until nobody drives a run any more, neither it nor its process.
func (a asker) rests(run tipstaff.ID) tipstaff.ID {
	a.Helper()
	a.Until("the process of "+run.String(), func() bool {
		return a.show(run.String()).Status != "running" && len(a.leftOver(run.String())) == 0
	})
	return run
}

// parked starts a program of the workspace, and waits for it to rest.
func (a asker) parked(file string) tipstaff.ID {
	a.Helper()
	return a.rests(a.started(map[string]any{"program_file": file}))
}

// decided answers the one gate of a run.
func (a asker) decided(run tipstaff.ID, action string, more ...string) tipstaff.ID {
	a.Helper()
	a.Must(0, append([]string{"decide", run.String(), a.show(run.String()).OpenGates[0].ID, action}, more...)...)
	return run
}

// underWay starts the long plan, and returns when its program has had its effect.
func (a asker) underWay() (run tipstaff.ID, pid int) {
	a.Helper()
	s := a.tools.call("", "run_start", map[string]any{"program_file": "long.yaml"})
	a.Until("the program's line", func() bool { return a.happened("slow") })
	return s.Run, s.Pid
}

// killed is a run whose process has died in the middle of a call.
func (a asker) killed() tipstaff.ID {
	a.Helper()
	run, pid := a.underWay()
	killPid(pid)
	a.Until("its end", func() bool { return !lives(pid) })
	a.Must(0, "ls") // which notes it
	return a.rests(run)
}

// doubted is a run that asks what became of a call.
func (a asker) doubted() tipstaff.ID {
	a.Helper()
	run := a.killed()
	a.tools.call("", "run_resume", map[string]any{"run_id": run})
	return a.rests(run)
}

// homeless is a run whose worktree is gone.
func (a asker) homeless() tipstaff.ID {
	a.Helper()
	run := a.decided(a.parked("worktree.yaml"), "approve")
	a.Check(os.RemoveAll(filepath.Join(a.Path("state"), "tipstaff", "worktrees", run.String())))
	return run
}

// mismatched is a run whose program does something else than is recorded of it.
func (a asker) mismatched() tipstaff.ID {
	a.Helper()
	run := a.decided(a.parked("question.yaml"), "approve")
	b := a.openBook()
	b.state = "executing"
	b.edit(b.at("plan.step", "root/look"), `"completed"`, `"carried"`)
	b.forge(a.keys())
	a.tools.call("", "run_resume", map[string]any{"run_id": run})
	return a.rests(run)
}

// cancelled is a run that somebody has ended.
func (a asker) cancelled() tipstaff.ID {
	a.Helper()
	run := a.parked("question.yaml")
	a.tools.call("", "run_cancel", map[string]any{"run_id": run})
	return run
}

// stalled is a run whose process stands still.
func (a asker) stalled() tipstaff.ID {
	a.Helper()
	run, pid := a.underWay()
	a.hold(pid)
	a.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	a.beat(run.String(), 45*time.Second)
	return run
}

// changed is a run whose records were changed by a statement.
func (a asker) changed(statement string) tipstaff.ID {
	a.Helper()
	run := a.parked("question.yaml")
	a.sql(statement)
	return run
}

// newer is a run with a record that a later version has written.
func (a asker) newer() tipstaff.ID {
	a.Helper()
	run := a.parked("question.yaml")
	b := a.openBook()
	b.state = "executing"
	b.records[b.at("run.parked")].Kind = "run.paused"
	b.forge(a.keys())
	return run
}

// programless is a run whose program is gone.
func (a asker) programless() tipstaff.ID {
	a.Helper()
	run := a.parked("question.yaml")
	var of struct{ Program struct{ Digest string } }
	a.Check(json.Unmarshal([]byte(a.Must(0, "show", run.String(), "--json").Out), &of))
	name := strings.TrimPrefix(of.Program.Digest, "sha256:")
	gone := false
	a.eachBlob(func(path string) {
		if strings.HasSuffix(strings.ReplaceAll(path, "/", ""), name) {
			gone = true
			a.Check(os.Remove(a.Path(path)))
		}
	})
	if !gone {
		a.Fatalf("there is no blob %s", name)
	}
	return run
}
