package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

const engineWork = gatedWork + `-- steps.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: one, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo one >> effects"]}}
    - {id: nap, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 8s}}
    - {id: two, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo two >> effects"]}}
`

// engineWorkspace has its runs in a schema of its own, and a queue of its own at the engine.
func engineWorkspace(t *testing.T) *workspace {
	t.Helper()
	store, engine := os.Getenv("TIPSTAFF_POSTGRES"), os.Getenv("TIPSTAFF_TEMPORAL")
	if store == "" || engine == "" {
		t.Skip("TIPSTAFF_POSTGRES and TIPSTAFF_TEMPORAL name no servers: make test-engine starts them")
	}
	w := newWorkspace(t, manifest, engineWork)
	own := fmt.Sprintf("engine%x", rand.Uint64())
	w.Env = append(w.Env, "TIPSTAFF_STORE="+store+"?search_path="+own, "TIPSTAFF_ENGINE="+engine+"?queue="+own)
	return w
}

// server starts a server, and returns when it says where it listens.
func (w *workspace) server() *cmdtest.Process {
	w.Helper()
	p := w.Prepare("serve", "--grpc-addr", "127.0.0.1:0", "--addr", "127.0.0.1:0", "--json")
	out, err := p.Cmd.StdoutPipe()
	w.Check(err)
	p.Begin()
	w.Cleanup(func() { p.Kill() })
	w.Check(json.NewDecoder(out).Decode(new(struct{})))
	return p
}

// driven is what processes have driven a run as.
func (w *workspace) driven(run string) (kinds []string) {
	for _, r := range w.journal(run) {
		if r.Kind == "run.started" || r.Kind == "run.resumed" {
			kinds = append(kinds, r.field("kind"))
		}
	}
	return kinds
}

// onlyRun is the run that was started, when it is there.
func (w *workspace) onlyRun() (run string) {
	w.Helper()
	w.Until("there is a run", func() bool {
		runs := w.runs()
		if len(runs) == 1 {
			run = runs[0]
		}
		return run != ""
	})
	return run
}

// temporal does something with the workflow of a run, with Temporal's own command.
func (w *workspace) temporal(does string, run ...string) string {
	w.Helper()
	args := []string{"workflow", does, "--address", strings.TrimPrefix(os.Getenv("TIPSTAFF_TEMPORAL"), "temporal://")}
	if len(run) > 0 {
		args = append(args, "--workflow-id", run[0])
	}
	out, err := exec.Command(os.Getenv("TIPSTAFF_TEMPORAL_CLI"), args...).CombinedOutput()
	if err != nil {
		w.Fatalf("temporal %v: %v: %s", args, err, out)
	}
	return string(out)
}

// starting starts runs of steps.yaml and follows them, until all sleep.
func (w *workspace) starting(n int) (followers []*cmdtest.Process) {
	w.Helper()
	for range n {
		followers = append(followers, w.Start("run", "steps.yaml", "--unattended", "--json"))
	}
	w.Until("all runs have taken their first step", func() bool {
		effects, _ := os.ReadFile(w.Path("effects"))
		return strings.Count(string(effects), "one") == n
	})
	return followers
}

// allEnd waits for runs, which have completed, and each of their effects has happened once.
func (w *workspace) allEnd(followers []*cmdtest.Process) {
	w.Helper()
	drives := 0
	for _, f := range followers {
		run := runID(w, f.Must(0))
		w.Must(0, "verify", run)
		kinds := w.driven(run)
		if slices.ContainsFunc(kinds, func(kind string) bool { return kind != "engine" }) {
			w.Errorf("driven as %v", kinds)
		}
		drives += len(kinds)
	}
	if drives <= len(followers) {
		w.Errorf("%d drives of %d runs: none was driven on", drives, len(followers))
	}
	effects := w.Read("effects")
	if one, two := strings.Count(effects, "one"), strings.Count(effects, "two"); one != len(followers) || two != len(followers) {
		w.Errorf("%d and %d effects of %d runs", one, two, len(followers))
	}
}

func TestAnEngineDrivesTheRunsOfAKilledServerElsewhere(t *testing.T) {
	t.Parallel()
	w := engineWorkspace(t)
	first := w.server()
	followers := w.starting(4)
	w.server()
	first.Kill()
	w.allEnd(followers)
}

func TestAnEngineDrivesTheRunsOfAStoppedServerElsewhere(t *testing.T) {
	t.Parallel()
	w := engineWorkspace(t)
	first := w.server()
	followers := w.starting(4)
	w.server()
	first.Signal(syscall.SIGTERM)
	first.Must(0)
	w.allEnd(followers)
}

func TestAnEngineDrivesOnAfterADecision(t *testing.T) {
	t.Parallel()
	w := engineWorkspace(t)
	w.server()
	run := runID(t, w.Must(4, "run", "plan.yaml", "--unattended", "--json"))
	w.Must(4, "resume", run, "--unattended") // nothing to drive, and nothing is
	w.Must(0, "decide", run, "root/ok", "approve")
	w.Must(0, "resume", run, "--unattended")
	if kinds := w.driven(run); fmt.Sprint(kinds) != "[engine engine]" {
		t.Errorf("driven as %v", kinds)
	}
	if effects := w.Read("effects"); effects != "done\n" {
		t.Errorf("effects %q", effects)
	}
}

const childWork = manifest + `policy:
  sub_dispatch: true
  rules: [{id: all, tool: "*/*", do: allow}]
-- parent.yaml --
kind: plan
version: 1
root: {id: sub, kind: sub_dispatch, skill: "skill://child@1.0.0", accept: auto}
-- skills/child/SKILL.md --
---
name: child
description: A child that sleeps.
---
Sleep.
-- skills/child/skill.yaml --
id: child
version: 1.0.0
verbs: [build]
tools: ["mcp://builtin/sleep@1.0.0"]
sub_skills: none
-- skills/child/plan.yaml --
kind: plan
version: 1
skill: skill://child@1.0.0
root:
  kind: sequential
  children:
    - {id: ok, kind: gate, question: "Go?"}
    - {id: nap, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 8s}}
`

// A child that is driven by itself goes on elsewhere, and its parent when it has ended.
func TestAnEngineDrivesAChildOfAKilledServerElsewhere(t *testing.T) {
	t.Parallel()
	w := engineWorkspace(t)
	w.Unpack(childWork)
	first := w.server()
	parent := w.show(runID(t, w.Must(4, "run", "parent.yaml", "--unattended", "--json")))
	child := parent.Lineage.Children[0]
	w.Must(0, "decide", child, "root/ok", "approve")
	follower := w.Start("resume", child, "--unattended", "--json")
	w.Until("the child is driven", func() bool { return w.records(child, "gate.taken") > 0 })
	w.server()
	first.Kill()
	follower.Must(0)
	w.Until("the parent has ended", func() bool { return w.show(parent.ID).State == "completed" })
	w.Must(0, "verify", parent.ID)
}

// What is done to a workflow with Temporal's own means stops the drive, and no more.
func TestAnEnginesWorkflowIsTerminated(t *testing.T) {
	t.Parallel()
	w := engineWorkspace(t)
	w.server()
	follower := w.Start("run", "long.yaml", "--unattended", "--json")
	run := w.onlyRun()
	w.Until("the run is driven", func() bool { return len(w.driven(run)) == 1 })
	w.temporal("terminate", run)
	if r := follower.Wait(); !strings.Contains(r.Out, `"outcome":"interrupted"`) {
		t.Errorf("the follower says %v", r)
	}
	w.Must(1, "doctor").Says(t, "warning: run_waits: run "+run+": the engine is not going to have it driven", "tipstaff resume "+run)
	again := w.Start("resume", run, "--unattended", "--json")
	w.Until("it is driven again", func() bool { return len(w.driven(run)) == 2 })
	w.Must(0, "doctor")
	w.Must(0, "cancel", run)
	again.Must(8)
}

// A run that waits for the engine, and that the engine has lost, is found by a server.
func TestAnEngineIsToldOfRunsThatItHasLost(t *testing.T) {
	t.Parallel()
	w := engineWorkspace(t)
	follower := w.Start("run", "steps.yaml", "--unattended")
	run := w.onlyRun()
	w.Until("the run is scheduled", func() bool { return strings.Contains(w.temporal("list"), run) })
	w.temporal("terminate", run)
	w.server()
	follower.Must(0)
}

func TestAnEngineForgetsACancelledRun(t *testing.T) {
	t.Parallel()
	w := engineWorkspace(t)
	w.server()
	run := runID(t, w.Must(4, "run", "plan.yaml", "--unattended", "--json"))
	w.Must(0, "cancel", run)
	w.Until("its workflow has ended", func() bool { return strings.Contains(w.temporal("describe", run), "COMPLETED") })
}

func TestAnEngineThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, engineWork)
	for _, c := range []struct {
		code         int
		store, words string
		engine       string
	}{
		{2, "", "an engine schedules the runs of a database", "temporal://127.0.0.1:1"},
		{2, "postgres://127.0.0.1:1/x", "the address of an engine is like temporal://", "127.0.0.1:7233"},
		{2, "postgres://127.0.0.1:1/x", "holds no user or password", "temporal://ada:secret@127.0.0.1:1"},
		{3, "postgres://127.0.0.1:1/x", "the Temporal server at 127.0.0.1:1 does not answer", "temporal://127.0.0.1:1"},
	} {
		w.Env = append(w.Env[:0:0], "TIPSTAFF_STORE="+c.store)
		if r := w.Must(c.code, "run", "plan.yaml", "--unattended", "--engine", c.engine).Says(t, c.words); strings.Contains(r.Err, "secret") {
			t.Error(r)
		}
	}
}
