package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/journal"
)

// What is shown of a run ends with what can be done next, as commands.
func TestShowEndsWithWhatIsNext(t *testing.T) {
	run := runA.String()
	failed := func(kind string) tipstaff.Run {
		return tipstaff.Run{State: tipstaff.Failed, Status: "failed", Program: tipstaff.Program{Kind: kind}, Error: &tipstaff.Failure{Reason: "bound_exceeded", Bound: "iterations", Message: "3 of 3"}}
	}
	driven := func(heard time.Time) tipstaff.Run {
		return tipstaff.Run{State: tipstaff.Executing, Condition: tipstaff.Running, Status: "running", Owner: &tipstaff.Owner{Pid: 7, Alive: true, HeartbeatAt: heard}}
	}
	asked := waitingRun()
	asked.Condition, asked.Status, asked.Owner = tipstaff.Running, "running", &tipstaff.Owner{Pid: 7, Alive: true, HeartbeatAt: time.Now()}
	for name, c := range map[string]struct {
		run  tipstaff.Run
		tail string
	}{
		"driven":                {driven(time.Now()), "\nnext:\n  tipstaff watch " + run + "\n"},
		"silent":                {driven(time.Now().Add(-time.Hour)), " given no sign of life for 1h0m0s\nnext:\n  tipstaff events " + run + " --after 0\n  tipstaff cancel " + run + "\n"},
		"asked while driven":    {asked, "root/ok deny\n"},
		"completed":             {tipstaff.Run{State: tipstaff.Completed, Status: "completed"}, "\nnext:\n  tipstaff show " + run + " --evidence all\n"},
		"a bound of a plan":     {failed("plan"), "\nnext:\n  tipstaff show " + run + " --evidence bounds\n"},
		"a bound of a pipeline": {failed("pipeline"), "\nnext:\n  tipstaff show " + run + " --evidence bounds\n  tipstaff fork " + run + " --raise max_iterations=N\n"},
		"its program is gone":   {tipstaff.Run{State: tipstaff.Completed, Status: "completed", Program: tipstaff.Program{Digest: "sha256:gone"}}, "\nunreadable: there is no artifact sha256:gone\nnext:\n  tipstaff verify " + run + "\n"},
	} {
		c.run.ID = runA
		b := newBench(t)
		b.svc.runs = []tipstaff.Run{c.run}
		b.run(t, 0, "show", run)
		if !strings.HasSuffix(b.out.String(), c.tail) {
			t.Errorf("%s ends with\n%s\nwant\n%s", name, b.out, c.tail)
		}
	}
}

// Nobody can tell from here whether a worktree at a server is there.
func TestDiagnosisAtAServer(t *testing.T) {
	for _, served := range []bool{false, true} {
		b := newBench(t)
		if served {
			b.served()
		}
		b.svc.append(tipstaff.KindWorktreeCreated, "deliver", `{"path":"/nowhere/at/all"}`)
		head := journal.Hash{}.Next(b.svc.log[0].Stored()).String()
		b.svc.runs = []tipstaff.Run{{ID: runA, State: tipstaff.Executing, Condition: tipstaff.Interrupted, Status: "interrupted", HeadSeq: 1, Head: head,
			Delivery: &tipstaff.RunDelivery{Kind: tipstaff.DeliveryNone, Worktree: &tipstaff.WorktreeState{Path: "/nowhere/at/all"}, WorktreeSeq: 1}}}
		b.run(t, 0, "show", runA.String(), "--diagnose")
		want := map[bool]string{false: "condition  blocked_worktree\n", true: "condition  interrupted\n"}[served]
		contains(t, "stdout", b.out.String(), want)
	}
}
