package runner_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/workspace"
)

// starting is a manifest that names a program.
const starting = manifest + `
  s: {command: [./server], tools: {t: {effect: read}}}
`

const reads = `
root: {kind: tool_call, id: a, tool: "mcp://builtin/json_query@1.0.0", args: {value: 1, expr: value}}
`

// untrusted is a bed whose workspace would start a program, and is not trusted before trust.
func untrusted(t *testing.T) (b *bed, trust func()) {
	b = newBed(t)
	b.write("tipstaff.yaml", starting)
	state := t.TempDir()
	record := filepath.Join(state, workspace.TrustFolder)
	b.State = state
	b.Trust = func(_ string, starts []string) error {
		if _, err := os.Stat(record); err == nil || len(starts) == 0 {
			return nil
		}
		return tipstaff.Errorf(tipstaff.WorkspaceUntrusted, "it is not trusted")
	}
	return b, func() { b.check(os.WriteFile(record, nil, 0o600)) }
}

func (b *bed) runs() int {
	b.t.Helper()
	list, err := b.List(cli(), tipstaff.ListRequest{})
	b.check(err)
	return len(list.Runs)
}

func TestNoRunIsMadeInAWorkspaceThatIsNotTrusted(t *testing.T) {
	b, trust := untrusted(t)
	req := tipstaff.StartRequest{Name: "plan.yaml", Program: []byte("kind: plan\nversion: 1\n" + reads)}
	_, err := b.Start(cli(), req)
	wantCode(t, err, tipstaff.WorkspaceUntrusted)
	_, err = b.Draft(cli(), tipstaff.DraftRequest{Prose: "do it"})
	wantCode(t, err, tipstaff.WorkspaceUntrusted)
	if n := b.runs(); n != 0 {
		t.Errorf("%d runs were made", n)
	}
	if _, err := b.Validate(cli(), tipstaff.ValidateRequest{Start: &req}); err != nil {
		t.Errorf("it cannot be looked at: %v", err)
	}
	trust()
	if _, d := b.run(reads); d.State != tipstaff.Completed {
		t.Errorf("of a trusted one it came to %+v", d)
	}
}

// parked is a run that waits for a decision, in a workspace that has named nothing until then.
func (b *bed) parked() tipstaff.ID {
	b.t.Helper()
	b.write("tipstaff.yaml", manifest)
	run, d := b.run("root:\n  kind: sequential\n  children:\n    - {id: ok, kind: gate, question: \"Well?\"}\n    - {id: a, kind: tool_call, tool: \"mcp://builtin/json_query@1.0.0\", args: {value: 1, expr: value}}\n")
	if d.Outcome != "parked" {
		b.t.Fatalf("it came to %+v", d)
	}
	b.write("tipstaff.yaml", starting)
	return run
}

func TestNoRunIsDrivenOnInAWorkspaceThatIsNotTrusted(t *testing.T) {
	b, trust := untrusted(t)
	run := b.parked()
	_, err := b.decide(run, "root/ok", "approve")
	b.check(err) // a decision starts nothing
	before := b.kinds(run)
	_, err = b.Resume(cli(), tipstaff.ResumeRequest{Run: run})
	wantCode(t, err, tipstaff.WorkspaceUntrusted)
	if after := b.kinds(run); !slices.Equal(before, after) {
		t.Errorf("it left %v", after[len(before):])
	}
	trust()
	if d := b.resume(run); d.State != tipstaff.Completed {
		t.Errorf("of a trusted one it came to %+v", d)
	}
}

// changes has the workspace name a program as soon as a run was let begin.
func (b *bed) changes() {
	b.write("tipstaff.yaml", manifest)
	now := b.Trust
	var asked atomic.Bool
	b.Trust = func(dir string, starts []string) error {
		if asked.CompareAndSwap(false, true) {
			b.write("tipstaff.yaml", starting)
			return nil
		}
		return now(dir, starts)
	}
}

// TestADriveLooksAgain: what the workspace names may have changed since the run was let begin.
func TestADriveLooksAgain(t *testing.T) {
	b, _ := untrusted(t)
	b.changes()
	s := b.start(reads)
	d := b.wait(s.Run)
	if tipstaff.CodeOf(d.Err) != tipstaff.WorkspaceUntrusted || slices.Contains(b.kinds(s.Run), string(tipstaff.KindRunStarted)) {
		t.Errorf("it came to %+v, with %v", d, b.kinds(s.Run))
	}
}

func TestARunCanBeCancelledInAWorkspaceThatIsNotTrusted(t *testing.T) {
	b, _ := untrusted(t)
	run := b.parked()
	c, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run})
	if err != nil || c.State != tipstaff.Cancelled {
		t.Errorf("it is %s, %v", c.State, err)
	}
}

// waiting is a run that a daemon has wait until its workspace is trusted.
func (b *bed) waiting() tipstaff.ID {
	b.t.Helper()
	b.changes()
	b.Serves, b.Origin = true, tipstaff.OriginDaemon
	run := b.start(reads).Run
	b.recorded(run, tipstaff.KindRunQueued)
	return run
}

func TestADaemonHasItsRunsWaitForTrust(t *testing.T) {
	b, trust := untrusted(t)
	run := b.waiting()
	if q := b.get(run).Queued; q == nil || !strings.HasPrefix(q.Lacks, "workspace_untrusted: ") {
		t.Errorf("it does not say what it waits for: %+v", q)
	}
	if !strings.HasPrefix(b.Untrusted(), "workspace_untrusted: ") {
		t.Errorf("the daemon says %q", b.Untrusted())
	}
	if _, why := b.Lacks(); len(why) != 1 {
		t.Errorf("it lacks %v", why)
	}
	trust()
	if d := b.wait(run); d.State != tipstaff.Completed {
		t.Errorf("it came to %+v", d)
	}
	if b.Untrusted() != "" {
		t.Errorf("the daemon still says %q", b.Untrusted())
	}
}

func TestTheNextDaemonTakesUpWhatWaitsForTrust(t *testing.T) {
	b, trust := untrusted(t)
	run := b.waiting()
	record, state := b.Trust, b.State
	b.stop(&flow.Stop{Reason: "signal:TERM"})
	b.Drain()
	b.reopened()
	b.dead[""] = true // the daemon that had it wait
	b.Trust, b.State, b.Serves, b.Origin = record, state, true, tipstaff.OriginDaemon
	if n, err := b.TakeUp(cli(), tipstaff.OriginDaemon); err != nil || n != 1 {
		t.Fatalf("%d taken up, %v", n, err)
	}
	trust()
	if d := b.wait(run); d.State != tipstaff.Completed {
		t.Errorf("it came to %+v", d)
	}
}

func TestARunThatWaitsForTrustCanBeCancelled(t *testing.T) {
	b, _ := untrusted(t)
	run := b.waiting()
	c, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run})
	if err != nil || c.State != tipstaff.Cancelled {
		t.Errorf("it is %s, %v", c.State, err)
	}
}

func TestALookThatStartsServersNeedsTrust(t *testing.T) {
	b, _ := untrusted(t)
	tools := b.Tools()
	_, _, err := tools.Live(cli(), nil)
	wantCode(t, err, tipstaff.WorkspaceUntrusted)
	_, err = tools.Compare(cli(), nil)
	wantCode(t, err, tipstaff.WorkspaceUntrusted)
	_, err = tools.Verify(cli(), false)
	wantCode(t, err, tipstaff.WorkspaceUntrusted)
	_, err = tools.Describe(cli(), "s/t", true)
	wantCode(t, err, tipstaff.WorkspaceUntrusted)
	for what, look := range map[string]func() error{
		"list":    func() error { _, err := tools.List(cli()); return err },
		"verify":  func() error { _, err := tools.Verify(cli(), true); return err },
		"explain": func() error { _, err := tools.Explain(cli(), "s/t", nil); return err },
	} {
		if err := look(); err != nil {
			t.Errorf("%s starts nothing, and is refused: %v", what, err)
		}
	}
}
