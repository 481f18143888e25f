package main

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// Of two who resume one run, one drives it and the other is told that it is busy.
func TestTwoResumes(t *testing.T) {
	t.Parallel()
	const plan = `-- gated.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: ok, kind: gate, question: Go?}
    - {id: go, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo go >> effects; while ! test -e enough; do sleep 0.01; done"]}}
`
	w := newWorkspace(t, manifest, plan)
	w.Must(4, "run", "gated.yaml", "--unattended")
	w.Must(0, "decide", "@", "root/ok", "approve")
	var rivals []*cmdtest.Process
	for range 4 {
		rivals = append(rivals, w.Start("resume", "@", "--unattended", "--json"))
	}
	w.Until("all but one to give up", func() bool { return running(rivals) <= 1 })
	w.Until("the winner's effect", func() bool { return w.happened("go") || running(rivals) == 0 })
	w.Write("enough", "")
	won := 0
	for _, p := range rivals {
		switch r := p.Wait(); r.Code {
		case 0:
			won++
		case 3:
			r.Says(t, `"code":"busy"`)
		default:
			t.Errorf("%v", r)
		}
	}
	if won != 1 || w.effects() != "go" {
		t.Errorf("%d of them drove the run; effects %q", won, w.effects())
	}
	w.Must(0, "verify", "@")
}

func running(all []*cmdtest.Process) (n int) {
	for _, p := range all {
		if p.Running() {
			n++
		}
	}
	return n
}

// Fifty processes give one gate two different answers at the same time: one is
// stored, and everybody is told the same of it.
func TestFiftyDecisions(t *testing.T) {
	t.Parallel()
	const plan = `-- gate.yaml --
kind: plan
version: 1
root: {id: ok, kind: gate, question: Go?}
`
	w := newWorkspace(t, manifest, plan)
	w.Must(4, "run", "gate.yaml", "--unattended")
	g := w.show("@").OpenGates[0]
	var voters []*cmdtest.Process
	for i := range 50 {
		voters = append(voters, w.Start("decide", "@", g.ID, []string{"approve", "deny"}[i%2], "--json"))
	}
	stored := map[string]int{}
	conflicts := 0
	for _, p := range voters {
		switch r := p.Wait(); {
		case r.Code == 0:
			stored[r.Out]++
		case r.Code == 3 && strings.Contains(r.Err, `"code":"decision_conflict"`):
			conflicts++
		default:
			t.Errorf("%v", r)
		}
	}
	if len(stored) != 1 || conflicts != 25 {
		t.Errorf("want one decision 25 times and 25 conflicts, got %d conflicts and %v", conflicts, stored)
	}
	n := 0
	for _, r := range w.journal("@") {
		if r.Kind == "policy.gate.resolve" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d decisions are recorded", n)
	}
}

// A decision reaches the process that drives the run, in the middle of its work.
func TestDecisionReachesTheOwner(t *testing.T) {
	t.Parallel()
	const plan = `-- both.yaml --
kind: plan
version: 1
root:
  kind: parallel
  children:
    - kind: sequential
      children:
        - {id: ok, kind: gate, question: Go?}
        - {id: go, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo go >> effects; touch enough"]}}
    - {id: slow, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo slow >> effects; while ! test -e enough; do sleep 0.01; done"]}}
`
	w := newWorkspace(t, manifest, plan)
	p := w.Start("run", "both.yaml", "--unattended")
	w.Until("the gate", func() bool { return w.happened("slow") && len(w.show("@").OpenGates) == 1 || !p.Running() })
	w.Must(0, "decide", "@", "root/0/ok", "approve")
	if r := p.Wait(); r.Code != 0 {
		t.Errorf("the answer did not reach it\n%v", r)
	}
	w.Must(0, "verify", "@")
}

// Eight processes make the store at the same time.
func TestManyMakeTheStore(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, small)
	var all []*cmdtest.Process
	for range 8 {
		all = append(all, w.Start("run", "small.yaml", "--json"))
	}
	ids := map[string]bool{}
	for _, p := range all {
		r := p.Wait()
		if r.Code != 0 {
			t.Fatalf("%v", r)
		}
		ids[runID(t, r)] = true
	}
	if len(ids) != 8 || len(w.runs()) != 8 {
		t.Errorf("%d runs were told, %d are listed", len(ids), len(w.runs()))
	}
	for id := range ids {
		w.Must(0, "verify", id)
	}
}

// However many look at once, a dead owner is noted once.
func TestDeadOwnerIsNotedOnce(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, long, small)
	p := w.startLong()
	run := w.show("@").ID
	w.Must(0, "run", "small.yaml") // a run beside it is left alone
	p.Kill()
	var all []*cmdtest.Process
	for range 4 {
		all = append(all, w.Start("ls"), w.Start("show", run), w.Start("decide"))
	}
	for _, p := range all {
		if r := p.Wait(); r.Code != 0 {
			t.Errorf("%v", r)
		}
	}
	n := 0
	for _, r := range w.journal(run) {
		if r.Kind == "run.interrupted" {
			n++
		}
	}
	if n != 1 {
		t.Errorf("run.interrupted stands there %d times", n)
	}
	if left := w.leftOver(run); len(left) > 0 {
		t.Errorf("its program was left over: %v", left)
	}
	for _, r := range w.journal("@") {
		if r.Kind == "run.interrupted" {
			t.Error("the run beside it was touched")
		}
	}
}

// setOwner changes what the store knows of a run's owner.
func (w *workspace) setOwner(run, member string, value any) {
	w.Helper()
	w.sql(`UPDATE runs SET owner = json_set(owner, '$.' || ?, ?) WHERE id = ?`, member, value, run)
}

// pause stops a process where it stands, but not in the middle of a commit: the
// store would stay locked.
func (w *workspace) pause(p *cmdtest.Process) {
	w.Helper()
	db := w.openWritable(50 * time.Millisecond)
	defer db.Close()
	w.Until("a moment outside of a commit", func() bool {
		p.Signal(syscall.SIGSTOP)
		tx, err := db.Begin()
		if err == nil {
			w.Check(tx.Rollback())
			return true
		}
		p.Signal(syscall.SIGCONT)
		return false
	})
}

// An owner that was superseded writes nothing more: its next record is refused,
// and it ends with exit code 3.
func TestSupersededOwner(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, long)
	old := w.startLong()
	run := w.show("@").ID
	w.pause(old)
	w.setOwner(run, "Start", 1) // to everybody else it is another process now
	w.Must(4, "resume", run, "--unattended")
	old.Signal(syscall.SIGCONT)
	r := old.Wait()
	if r.Code != 3 {
		t.Errorf("the superseded owner: want exit code 3\n%v", r)
	}
	resumed := false
	for _, rec := range w.journal(run) {
		resumed = resumed || rec.Kind == "run.resumed"
		if resumed && rec.Kind == "effect.finished" {
			t.Errorf("seq %d: the superseded owner wrote after its successor", rec.Seq)
		}
	}
	w.Must(0, "verify", run, "--open")
}

// A pid says nothing: a stranger who has it by now is not taken for the owner, and
// is left alone.
func TestReusedPid(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, long)
	p := w.startLong()
	run := w.show("@").ID
	p.Kill()
	stranger := exec.Command("sleep", "600")
	w.Check(stranger.Start())
	t.Cleanup(func() { _ = stranger.Process.Kill(); _ = stranger.Wait() })
	w.setOwner(run, "Pid", stranger.Process.Pid)
	w.Must(4, "resume", run, "--unattended").Says(t, "in_doubt")
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the stranger was ended: %v", err)
	}
	if n := strings.Count(fmt.Sprint(w.journal(run)), "run.interrupted"); n != 1 {
		t.Errorf("run.interrupted stands there %d times", n)
	}
}
