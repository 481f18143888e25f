package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

// delivering is a run that asks about its delivery, with its worktree.
func (b *bed) delivering() (run tipstaff.ID, worktree string) {
	b.t.Helper()
	run, _ = b.run(deliverable)
	worktree = filepath.Join(b.Worktrees, run.String())
	b.changed(run, worktree)
	return run, worktree
}

func blockers(g tipstaff.Gate) string {
	var all []string
	for _, action := range tipstaff.DeliveryActions {
		if b := tipstaff.BlockedAt(g, action); b != nil {
			all = append(all, action+":"+b.Code)
		}
	}
	return strings.Join(all, " ")
}

// What stood in the way when a gate opened and is gone stands in nobody's way, and what has
// come since does: wherever the gate is shown, and when it is decided.
func TestBlockersAreLookedForAgain(t *testing.T) {
	b := newBed(t)
	b.withGit()
	run, worktree := b.delivering()
	in := func(name string) string { return filepath.Join(b.dir, name) }
	everywhere := func(want string) {
		t.Helper()
		b.ahead.Add(int64(time.Minute)) // what was found counts for a moment
		gate, err := b.Gate(cli(), run, "delivery#1")
		b.check(err)
		now := b.get(run)
		view, err := tipstaff.DeliveryView(cli(), b.Runner, now, nil)
		b.check(err)
		var viewed []string
		for _, s := range view.Blocked {
			viewed = append(viewed, s.Action+":"+s.Code)
		}
		for where, got := range map[string]string{"gate": blockers(gate), "status": blockers(now.OpenGates[0]), "delivery": strings.Join(viewed, " ")} {
			if got != want {
				t.Errorf("%s: %q, not %q", where, got, want)
			}
		}
		if said := strings.Contains(strings.Join(gate.Shown.Lines, "\n"), " is blocked"); said != (want != "") {
			t.Errorf("shown: %s", strings.Join(gate.Shown.Lines, "\n"))
		}
	}
	everywhere("")
	b.check(os.WriteFile(in(run.String()), []byte("mine\n"), 0o644))
	everywhere("apply:target_dirty")
	if _, err := b.decide(run, "delivery#1", tipstaff.DeliverApply); tipstaff.CodeOf(err) != tipstaff.ActionBlocked {
		t.Errorf("apply into a checkout with changes: %v", err)
	}
	b.check(os.Remove(in(run.String())))
	everywhere("")
	b.check(os.RemoveAll(worktree))
	everywhere("fix:worktree_missing")
	before, err := b.List(cli(), tipstaff.ListRequest{})
	b.check(err)
	_, err = b.decide(run, "delivery#1", tipstaff.DeliverFix, func(r *tipstaff.DecideRequest) { r.Feedback = "more" })
	after, err2 := b.List(cli(), tipstaff.ListRequest{})
	b.check(err2)
	if tipstaff.CodeOf(err) != tipstaff.ActionBlocked || len(after.Runs) != len(before.Runs) {
		t.Errorf("a follow-up without a worktree: %v, %d runs", err, len(after.Runs))
	}
}

// Whoever shows a gate again and again has it looked at now and then; whoever decides always.
func TestDecisionsAreLookedAtAnew(t *testing.T) {
	b := newBed(t)
	b.withGit()
	run, _ := b.delivering()
	at := time.Now().Add(time.Minute)
	b.Now = func() time.Time { return at }
	var started atomic.Int64
	git := b.Git.Run
	b.Git.Run = func(ctx context.Context, dir string, env []string, stdin []byte, args ...string) ([]byte, error) {
		started.Add(1)
		return git(ctx, dir, env, stdin, args...)
	}
	shown := func(want string) {
		t.Helper()
		if got := blockers(b.get(run).OpenGates[0]); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	shown("")
	first := started.Load()
	for range 10 {
		shown("")
	}
	if now := started.Load(); now != first || first == 0 {
		t.Errorf("git was started %d times, and %d for the first", now, first)
	}
	b.check(os.WriteFile(filepath.Join(b.dir, run.String()), []byte("mine\n"), 0o644))
	if _, err := b.decide(run, "delivery#1", tipstaff.DeliverApply); tipstaff.CodeOf(err) != tipstaff.ActionBlocked {
		t.Errorf("decided by what was so a moment ago: %v", err)
	}
	shown("apply:target_dirty")
}

// What was blocked when the gate opened can be decided when it is free.
func TestABlockerThatIsGone(t *testing.T) {
	b := newBed(t)
	b.withGit()
	run, _ := b.run(deliverable)
	mine := filepath.Join(b.dir, run.String())
	b.check(os.WriteFile(mine, []byte("mine\n"), 0o644))
	b.changed(run, filepath.Join(b.Worktrees, run.String()))
	if got := blockers(b.get(run).OpenGates[0]); got != "apply:target_dirty" {
		t.Fatal(got)
	}
	b.check(os.Remove(mine))
	_, err := b.decide(run, "delivery#1", tipstaff.DeliverApply)
	b.check(err)
	if d := b.resume(run); d.State != tipstaff.Completed {
		t.Errorf("%+v", d)
	}
}

// Who has only to publish needs no worktree.
func TestADecidedDeliveryNeedsNoWorktree(t *testing.T) {
	for _, action := range []string{tipstaff.DeliverApprove, tipstaff.DeliverApply, tipstaff.DeliverSkip} {
		b := newBed(t)
		b.withGit()
		run, worktree := b.delivering()
		b.check(os.RemoveAll(worktree))
		there := func(path string) bool { _, err := os.Stat(path); return err == nil }
		_, err := b.decide(run, "delivery#1", action)
		b.check(err)
		d, err := tipstaff.Diagnose(cli(), b.Runner, run, time.Now(), there)
		b.check(err)
		if d.Condition != tipstaff.DiagnosisResumeReady || d.Facts.Present == nil || *d.Facts.Present {
			t.Errorf("%s: %s: %s", action, d.Condition, d.Reason)
		}
		if d := b.resume(run); d.State != tipstaff.Completed {
			t.Errorf("%s: %+v", action, d)
		}
	}
}

// The newest difference that is recorded can be seen at any time, and stands at the gates
// that somebody decides by looking at it.
func TestTheNewestDifference(t *testing.T) {
	g := tipstaff.Gate{Kind: tipstaff.Handoff, Key: "work/review#1", Changed: &tipstaff.RecordedChange{Stage: "work#1", Files: 3, Added: 2, Removed: 1,
		First: []tipstaff.FileChange{{Path: "go.mod", Status: tipstaff.FileModified, Added: 2, Removed: 1}}}}
	lines := tipstaff.Subject(g).Lines
	for _, want := range []string{"changed: 3 files, +2 −1 lines", "  modified go.mod  +2 −1", "  … and 2 more files, which the whole difference has …"} {
		if !slices.Contains(lines, want) {
			t.Errorf("%q is not in %q", want, lines)
		}
	}
	for _, c := range []struct {
		kind  tipstaff.GateKind
		key   string
		about bool
	}{
		{tipstaff.Handoff, "work/review#1", true}, {tipstaff.Question, "work/worker#1/failure", true}, {tipstaff.Question, "work/worker#1/failure#2", true},
		{tipstaff.Question, "work/worker#1/question", false}, {tipstaff.Approval, "work/approval", false}, {tipstaff.Delivery, "delivery#1", false},
	} {
		if g := (tipstaff.Gate{Kind: c.kind, Key: c.key}); g.AboutChanges() != c.about {
			t.Errorf("%s at %s: %v", c.kind, c.key, !c.about)
		}
	}
}
