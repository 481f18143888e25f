package main

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
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
	w.must(4, "run", "gated.yaml", "--unattended")
	w.must(0, "decide", "@", "root/ok", "approve")
	var rivals []*process
	for range 4 {
		rivals = append(rivals, w.start("resume", "@", "--unattended", "--json"))
	}
	w.until("all but one to give up", func() bool { return running(rivals) <= 1 })
	w.until("the winner's effect", func() bool { return w.happened("go") || running(rivals) == 0 })
	w.write("enough", "")
	won := 0
	for _, p := range rivals {
		switch r := p.wait(); r.code {
		case 0:
			won++
		case 3:
			r.says(t, `"code":"busy"`)
		default:
			t.Errorf("%v", r)
		}
	}
	if won != 1 || w.effects() != "go" {
		t.Errorf("%d of them drove the run; effects %q", won, w.effects())
	}
	w.must(0, "verify", "@")
}

func running(all []*process) (n int) {
	for _, p := range all {
		if p.running() {
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
	w.must(4, "run", "gate.yaml", "--unattended")
	g := w.show("@").OpenGates[0]
	var voters []*process
	for i := range 50 {
		voters = append(voters, w.start("decide", "@", g.ID, []string{"approve", "deny"}[i%2], "--json"))
	}
	stored := map[string]int{}
	conflicts := 0
	for _, p := range voters {
		switch r := p.wait(); {
		case r.code == 0:
			stored[r.out]++
		case r.code == 3 && strings.Contains(r.err, `"code":"decision_conflict"`):
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
	p := w.start("run", "both.yaml", "--unattended")
	w.until("the gate", func() bool { return w.happened("slow") && len(w.show("@").OpenGates) == 1 || !p.running() })
	w.must(0, "decide", "@", "root/0/ok", "approve")
	if r := p.wait(); r.code != 0 {
		t.Errorf("the answer did not reach it\n%v", r)
	}
	w.must(0, "verify", "@")
}

// Eight processes make the store at the same time.
func TestManyMakeTheStore(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, small)
	var all []*process
	for range 8 {
		all = append(all, w.start("run", "small.yaml", "--json"))
	}
	ids := map[string]bool{}
	for _, p := range all {
		r := p.wait()
		if r.code != 0 {
			t.Fatalf("%v", r)
		}
		ids[r.runID(t)] = true
	}
	if len(ids) != 8 || len(w.runs()) != 8 {
		t.Errorf("%d runs were told, %d are listed", len(ids), len(w.runs()))
	}
	for id := range ids {
		w.must(0, "verify", id)
	}
}

// However many look at once, a dead owner is noted once.
func TestDeadOwnerIsNotedOnce(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, long, small)
	p := w.startLong()
	run := w.show("@").ID
	w.must(0, "run", "small.yaml") // a run beside it is left alone
	p.kill()
	var all []*process
	for range 4 {
		all = append(all, w.start("ls"), w.start("show", run), w.start("decide"))
	}
	for _, p := range all {
		if r := p.wait(); r.code != 0 {
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
func (p *process) pause() {
	p.w.Helper()
	db := p.w.openWritable(50 * time.Millisecond)
	defer db.Close()
	p.w.until("a moment outside of a commit", func() bool {
		p.signal(syscall.SIGSTOP)
		tx, err := db.Begin()
		if err == nil {
			p.w.check(tx.Rollback())
			return true
		}
		p.signal(syscall.SIGCONT)
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
	old.pause()
	w.setOwner(run, "Start", 1) // to everybody else it is another process now
	w.must(4, "resume", run, "--unattended")
	old.signal(syscall.SIGCONT)
	r := old.wait()
	if r.code != 3 {
		t.Errorf("the superseded owner: want exit code 3\n%v", r)
	}
	resumed := false
	for _, rec := range w.journal(run) {
		resumed = resumed || rec.Kind == "run.resumed"
		if resumed && rec.Kind == "effect.finished" {
			t.Errorf("seq %d: the superseded owner wrote after its successor", rec.Seq)
		}
	}
	w.must(0, "verify", run, "--open")
}

// A pid says nothing: a stranger who has it by now is not taken for the owner, and
// is left alone.
func TestReusedPid(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, manifest, long)
	p := w.startLong()
	run := w.show("@").ID
	p.kill()
	stranger := exec.Command("sleep", "600")
	w.check(stranger.Start())
	t.Cleanup(func() { _ = stranger.Process.Kill(); _ = stranger.Wait() })
	w.setOwner(run, "Pid", stranger.Process.Pid)
	w.must(4, "resume", run, "--unattended").says(t, "in_doubt")
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the stranger was ended: %v", err)
	}
	if n := strings.Count(fmt.Sprint(w.journal(run)), "run.interrupted"); n != 1 {
		t.Errorf("run.interrupted stands there %d times", n)
	}
}
