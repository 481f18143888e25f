package runner_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/process"
)

// withGit makes the workspace a repository, and gives its runs worktrees.
func (b *bed) withGit() {
	b.t.Helper()
	b.write(".gitignore", ".tipstaff\n")
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=u", "-c", "user.email=u@example.com", "commit", "-qm", "begin"}} {
		c := exec.Command("git", args...)
		c.Dir = b.dir
		if out, err := c.CombinedOutput(); err != nil {
			b.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	b.Git, b.Worktrees = process.Git(), filepath.Join(b.t.TempDir(), "worktrees")
}

// deliverable is a plan that waits while the test changes files in its place.
const deliverable = "files: worktree\ndeliver: {}\n" + waits

// changed drives a run past its gate to that of its delivery.
func (b *bed) changed(run tipstaff.ID, worktree string) {
	b.t.Helper()
	b.check(os.WriteFile(filepath.Join(worktree, run.String()), []byte("x\n"), 0o644))
	_, err := b.decide(run, "root", "approve")
	b.check(err)
	if d := b.resume(run); !d.Waits() {
		b.t.Fatalf("%+v", d)
	}
}

func (b *bed) ended(run tipstaff.ID) {
	b.t.Helper()
	_, err := b.decide(run, "delivery#1", tipstaff.DeliverSkip)
	b.check(err)
	if d := b.resume(run); d.Waits() || b.get(run).State != tipstaff.Completed {
		b.t.Fatalf("%+v", d)
	}
}

// A worktree is removed seven days after the last run in it has ended, and no other.
func TestWorktreesAreTidied(t *testing.T) {
	b := newBed(t)
	b.withGit()
	place := func(run tipstaff.ID) string { return filepath.Join(b.Worktrees, run.String()) }
	over, _ := b.run(deliverable)
	b.changed(over, place(over))
	b.ended(over)
	gone, _ := b.run(deliverable) // its worktree is: what belongs to it is not
	b.changed(gone, place(gone))
	b.ended(gone)
	b.check(os.RemoveAll(place(gone)))
	beside := func(run tipstaff.ID) []string {
		t.Helper()
		found, err := filepath.Glob(place(run) + "*")
		b.check(err)
		c := exec.Command("git", "for-each-ref", "--format=%(refname)", "refs/tipstaff/base/"+run.String())
		c.Dir = b.dir
		refs, err := c.Output()
		b.check(err)
		return append(found, strings.Fields(string(refs))...)
	}
	followed, _ := b.run(deliverable)
	b.changed(followed, place(followed))
	decided, err := b.decide(followed, "delivery#1", tipstaff.DeliverFix, func(r *tipstaff.DecideRequest) { r.Feedback = "more" })
	b.check(err)
	waiting, _ := b.run(deliverable)
	forked, _ := b.run(deliverable)
	b.changed(forked, place(forked))
	b.ended(forked)
	fork, err := b.Fork(cli(), forking{Run: forked})
	b.check(err)
	stranger := tipstaff.NewID(time.Now()) // a run of another workspace
	b.check(os.Mkdir(place(stranger), 0o755))
	tidied := func(after time.Duration, left ...tipstaff.ID) {
		t.Helper()
		b.ahead.Add(int64(after))
		b.check(b.TidyWorktrees(cli()))
		for _, run := range []tipstaff.ID{over, followed, waiting, forked, stranger} {
			_, err := os.Stat(place(run))
			if (err == nil) != slices.Contains(left, run) {
				t.Errorf("after %v the worktree of %s: %v", after, run, err)
			}
		}
	}
	const day = 24 * time.Hour
	tidied(6*day, over, followed, waiting, forked, stranger)
	if len(beside(gone)) < 3 {
		t.Errorf("of the one that is gone there is only %v", beside(gone))
	}
	tidied(2*day, followed, waiting, forked, stranger)
	if left := append(beside(gone), beside(over)...); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
	_, err = b.Cancel(cli(), tipstaff.CancelRequest{Run: fork.ID})
	b.check(err)
	tidied(0, followed, waiting, stranger)
	child := decided.Decision.FollowupRunID
	if d := b.resume(child); !d.Waits() {
		t.Fatalf("%+v", d)
	}
	b.changed(child, place(followed))
	b.ended(child)
	tidied(6*day, followed, waiting, stranger)
	tidied(2*day, waiting, stranger)
}

// A fork of a run that asks about its delivery asks the same, about the same commit: what
// it publishes is what was shown.
func TestForkOfADelivery(t *testing.T) {
	b := newBed(t)
	b.withGit()
	run, _ := b.run(deliverable)
	b.changed(run, filepath.Join(b.Worktrees, run.String()))
	shown, _ := tipstaff.DeliverySubjectOf(b.get(run).OpenGates[0])
	fork, err := b.Fork(cli(), forking{Run: run})
	b.check(err)
	if d := b.resume(fork.ID); !d.Waits() {
		t.Fatalf("%+v", d)
	}
	for _, of := range []tipstaff.ID{fork.ID, run} {
		if asks, _ := tipstaff.DeliverySubjectOf(b.get(of).OpenGates[0]); asks.Commit != shown.Commit || asks.Branch != shown.Branch || of == fork.ID && len(asks.Blocked) > 0 {
			t.Errorf("%s asks about %+v", of, asks)
		}
		_, err = b.decide(of, "delivery#1", tipstaff.DeliverApprove)
		b.check(err)
		if d := b.resume(of); d.State != tipstaff.Completed {
			t.Fatalf("%s: %+v", of, d)
		}
		c := exec.Command("git", "rev-parse", shown.Branch)
		c.Dir = b.dir
		if out, err := c.Output(); err != nil || strings.TrimSpace(string(out)) != shown.Commit {
			t.Errorf("%s published %s: %v", of, out, err)
		}
	}
}

// What a run has used is used for its follow-ups, and each of them is an iteration of it.
func TestFollowUpsInheritBounds(t *testing.T) {
	b := newBed(t)
	b.withGit()
	fix := func(run tipstaff.ID) tipstaff.ID {
		t.Helper()
		made, err := b.decide(run, "delivery#1", tipstaff.DeliverFix, func(r *tipstaff.DecideRequest) { r.Feedback = "more" })
		b.check(err)
		if l := b.get(made.Decision.FollowupRunID).Lineage; l == nil || l.Parent != run || l.Relation != "followup" {
			t.Errorf("%+v", l)
		}
		return made.Decision.FollowupRunID
	}
	run, _ := b.run(`files: worktree
deliver: {}
bounds: {tool_calls: 1}
root:
  kind: sequential
  children:
    - {id: one, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo one >> effects"]}}
    - {id: ok, kind: gate, question: "go on?"}`)
	place := filepath.Join(b.Worktrees, run.String())
	b.check(os.WriteFile(filepath.Join(place, "new"), []byte("x\n"), 0o644))
	_, err := b.decide(run, "root/ok", "approve")
	b.check(err)
	b.resume(run)
	if d := b.resume(fix(run)); d.State != tipstaff.Failed || d.Reason != "bound_exceeded" || b.read("effects") != "one\n" {
		t.Errorf("%+v, effects %q", d, b.read("effects"))
	}
	run, _ = b.run("bounds: {iterations: 1}\n" + deliverable)
	place = filepath.Join(b.Worktrees, run.String())
	b.changed(run, place)
	child := fix(run)
	b.resume(child)
	b.changed(child, place)
	g := b.get(child).OpenGates[0]
	if blocked := tipstaff.BlockedAt(g, tipstaff.DeliverFix); blocked == nil || blocked.Code != tipstaff.BlockBound || slices.Contains(g.Available(), tipstaff.DeliverFix) {
		t.Errorf("%+v", g)
	}
}
