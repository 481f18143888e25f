package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/redact"
)

// play is a run of a program that works in a worktree, over the memory log.
type play struct {
	*bed
	log      *flow.Mem
	spec     Spec
	work     func(dir string) // what the program does there, once
	produced Produced
	exits    map[string]int // of checks, by name
	acts     map[string]flow.Activity
	blobs    map[string][]byte
	ran      []string // checks
	programs map[string]func(Command) (int, []byte, error)
	outcome  tipstaff.DeliveryOutcome
	locks    sync.Mutex
	locking  func(name string)               // is called before somebody waits for it
	waited   atomic.Pointer[context.Context] // of whoever has waited for it in vain
	known    *redact.Redactor
	there    []string // files that were last said to be there after the change
	protect  func(path string) (Protected, bool)
}

func newPlay(t *testing.T, d *document.Deliver) *play { return playIn(newBed(t), d) }

// playIn is one in a repository that is there already.
func playIn(b *bed, d *document.Deliver) *play {
	r := b.open()
	base, err := r.Resolve(context.Background(), "HEAD")
	must(b, err)
	p := &play{bed: b, log: flow.NewMem(), exits: map[string]int{}, blobs: map[string][]byte{},
		spec: Spec{Run: runID, Title: "Fix it", Program: "sha256:program", Place: r.Place, Base: base, Deliver: d},
		work: func(dir string) { edit(b, dir) }, locking: func(string) {},
		protect: func(string) (Protected, bool) { return Protected{}, false }}
	p.acts = Activities(Env{Git: b.git, Worktrees: filepath.Join(filepath.Dir(b.dir), "state"),
		Lock: func(ctx context.Context, name string) (func() error, error) {
			p.locking(name)
			for !p.locks.TryLock() {
				select {
				case <-ctx.Done():
					p.waited.Store(&ctx)
					return nil, context.Cause(ctx)
				case <-time.After(time.Millisecond):
				}
			}
			return func() error { p.locks.Unlock(); return nil }, nil
		},
		Check: func(_ context.Context, a flow.Attempt, c Command) (int, []byte, error) {
			argv, dir := c.Argv, c.Dir
			p.ran = append(p.ran, argv[0])
			if program := p.programs[argv[0]]; program != nil {
				return program(c)
			}
			if argv[0] == "refused" {
				return 0, nil, &flow.Error{Code: "refused", Message: "not in programs"}
			}
			if argv[0] == "writes" {
				writeFile(b.t, dir+"/generated", "x\n")
			}
			if argv[0] == "tells" {
				return 1, []byte("the key is " + apiKey), nil
			}
			if argv[0] == "meddles" {
				b.write(".git/hooks/pre-commit", "#!/bin/sh\n")
			}
			return p.exits[argv[0]], []byte("said " + argv[0]), nil
		},
		Redact: func(text []byte) []byte { return p.known.Bytes(text) },
		Protection: func(there []string) func(path string) (Protected, bool) {
			p.there = there
			return func(path string) (Protected, bool) { return p.protect(strings.TrimPrefix(path, b.dir+"/")) }
		},
		Put: func(_ context.Context, data []byte) (string, error) {
			digest := fmt.Sprintf("sha256:%d", len(p.blobs))
			p.blobs[digest] = data
			return digest, nil
		}})
	p.acts["work"] = flow.Activity{Run: func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		var dir string
		_ = json.Unmarshal(a.Input, &dir)
		p.work(dir)
		return flow.Done{Value: flow.JSON(true)}, nil
	}}
	return p
}

// lockCause is why somebody no longer waits for a lock.
func (p *play) lockCause() error {
	ctx := p.waited.Load()
	if ctx == nil {
		return nil
	}
	return context.Cause(*ctx)
}

func (p *play) flow(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
	produced, outcome, err := Run(fc, p.spec, func(fc flow.Context, w Worktree) (Produced, error) {
		_, err := fc.Do(flow.Call{Key: "work", Name: "work", Class: flow.Idempotent, Input: flow.JSON(w.Path)})
		return p.produced, err
	})
	p.outcome = outcome
	return produced.Outputs, err
}

func (p *play) drive() flow.Outcome {
	p.t.Helper()
	out, err := flow.New(p.log, nil).Drive(context.Background(), flow.Job{Run: runID, Flow: p.flow, Acts: p.acts, Owner: flow.Owner{Kind: "foreground"}})
	must(p.bed, err)
	if out.Status == flow.Interrupted {
		p.t.Fatalf("%s: %v", out.Reason, out.Err)
	}
	return out
}

// gate is the open gate of a key.
func (p *play) gate(key string) tipstaff.Gate {
	p.t.Helper()
	for _, r := range slices.Backward(p.log.Records(runID)) {
		if r.Kind == string(tipstaff.KindPolicyGate) && r.Path == key {
			g, err := tipstaff.OpenedGate(tipstaff.Kind(r.Kind), r.Path, r.Seq, r.At, r.Body)
			must(p.bed, err)
			return g
		}
	}
	p.t.Fatalf("there is no gate %s", key)
	return tipstaff.Gate{}
}

func (p *play) subject(key string) tipstaff.DeliverySubject {
	p.t.Helper()
	s, ok := tipstaff.DeliverySubjectOf(p.gate(key))
	if !ok {
		p.t.Fatal("the gate has another subject")
	}
	return s
}

func (p *play) decide(key, action string) {
	p.t.Helper()
	must(p.bed, p.log.Decide(runID, p.gate(key).ID.String(), flow.Decision{Action: action, By: "ada", Via: "command"}))
}

// kinds are the events of delivery, in order.
func (p *play) kinds() string {
	var kinds []string
	for _, r := range p.log.Records(runID) {
		if r.N > 0 {
			kinds = append(kinds, r.Kind)
		}
	}
	return strings.Join(kinds, " ")
}

func blocked(s tipstaff.DeliverySubject) string {
	var all []string
	for _, b := range s.Blocked {
		all = append(all, b.Action+":"+b.Code)
	}
	return strings.Join(all, " ")
}

func check(name string) document.DeliverCheck {
	return document.DeliverCheck{Name: name, Run: []string{name}, Timeout: time.Minute, Required: true}
}

func TestApprovedDeliveryIsTheCommitThatWasShown(t *testing.T) {
	p := newPlay(t, &document.Deliver{Checks: []document.DeliverCheck{check("test")}})
	main, index := p.user("rev-parse", "main"), p.user("ls-files", "-s")
	if out := p.drive(); out.Status != flow.ParkedRun {
		t.Fatalf("%+v", out)
	}
	g, s := p.gate("delivery#1"), p.subject("delivery#1")
	if g.Path != "" || g.Kind != tipstaff.Delivery || blocked(s) != "" || s.DefaultAction != "approve" || s.Files != 3 || len(s.Checks) != 1 || s.Checks[0].Tree != s.Tree {
		t.Errorf("%+v", s)
	}
	if p.kept(s.Worktree, "rev-parse", s.Commit+"^{tree}") != s.Tree || p.kept(s.Worktree, "rev-parse", s.Commit+"^") != main {
		t.Error("the commit is not the one that is kept")
	}
	if got := p.kept(s.Worktree, "show", "-s", "--format=%B", s.Commit); got != "Fix it\n\nTipstaff-Run: "+runID+"\nTipstaff-Program: sha256:program\n" {
		t.Errorf("%q", got)
	}
	writeFile(t, s.Worktree+"/README", "edited after the gate\n")
	p.decide("delivery#1", "approve")
	if out := p.drive(); out.Status != flow.Completed {
		t.Fatalf("%+v", out)
	}
	branch := "refs/heads/tipstaff/deliver/" + runID + "-fix-it"
	if p.user("rev-parse", branch) != s.Commit || p.outcome != (tipstaff.DeliveryOutcome{Status: "committed", Branch: branch, Commit: s.Commit, Patch: s.Patch}) {
		t.Errorf("%+v", p.outcome)
	}
	if readFile(t, s.Worktree+"/README") != "edited after the gate\n" {
		t.Error("what was edited is lost")
	}
	if p.user("rev-parse", "main") != main || p.user("ls-files", "-s") != index || p.user("status", "--porcelain") != "" || p.user("symbolic-ref", "HEAD") != "refs/heads/main" {
		t.Error("something of the user's was changed")
	}
	if got := p.kinds(); got != "worktree.created diff.recorded check.finished delivery.committed" {
		t.Error(got)
	}
	if len(p.ran) != 1 {
		t.Errorf("checks ran %v", p.ran)
	}
}

// What is committed is the tree that was compared and checked, also where somebody writes to
// the worktree before the commit is made.
func TestCommitIsOfWhatWasRecorded(t *testing.T) {
	p := newPlay(t, &document.Deliver{})
	act := p.acts[ActCommit]
	commit := act.Run
	act.Run = func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		in, err := decoded[commitInput](a.Input)
		if err != nil {
			return flow.Done{}, err
		}
		writeFile(t, in.Worktree.Path+"/README", "edited before the commit\n")
		return commit(ctx, a)
	}
	p.acts[ActCommit] = act
	p.drive()
	s := p.subject("delivery#1")
	if got := p.kept(s.Worktree, "rev-parse", s.Commit+"^{tree}"); got != s.Tree {
		t.Errorf("the commit has tree %s, shown is %s", got, s.Tree)
	}
	if len(s.Notices) != 1 || s.Notices[0].Code != CodeWorktreeEdited {
		t.Errorf("%+v", s.Notices)
	}
}

func TestApprovedWorktreeIsRemoved(t *testing.T) {
	for name, broken := range map[string]func(dir string) error{ // what an attempt has left that was broken off
		"at once":             func(string) error { return nil },
		"its index was gone":  func(dir string) error { return os.Remove(dir + ".index") },
		"half of it was gone": func(dir string) error { return errors.Join(os.Remove(dir+".index"), os.Remove(dir+"/README")) },
		"its files were gone": func(dir string) error { return errors.Join(os.Remove(dir+".index"), os.RemoveAll(dir)) },
		"its repository was gone": func(dir string) error {
			return errors.Join(os.Remove(dir+".index"), os.RemoveAll(dir), os.RemoveAll(dir+".git"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t, &document.Deliver{})
			p.drive()
			s := p.subject("delivery#1")
			p.decide("delivery#1", "approve")
			must(p.bed, broken(s.Worktree))
			p.drive()
			if _, err := os.Stat(s.Worktree); err == nil || strings.Contains(p.user("for-each-ref"), "refs/tipstaff/") {
				t.Error("the worktree is still there")
			}
		})
	}
}

func TestEmptyDiffHasNoGate(t *testing.T) {
	p := newPlay(t, &document.Deliver{})
	p.work = func(string) {}
	if out := p.drive(); out.Status != flow.Completed || p.outcome.Status != "empty" {
		t.Errorf("%+v %+v", out, p.outcome)
	}
}

func TestWorktreeWithoutDelivery(t *testing.T) {
	p := newPlay(t, nil)
	if out := p.drive(); out.Status != flow.Completed || p.outcome != (tipstaff.DeliveryOutcome{}) || p.kinds() != "worktree.created diff.recorded" {
		t.Errorf("%+v %s", p.outcome, p.kinds())
	}
}

func TestAppliedDelivery(t *testing.T) {
	p := newPlay(t, &document.Deliver{})
	p.drive()
	s := p.subject("delivery#1")
	p.decide("delivery#1", "apply")
	if out := p.drive(); out.Status != flow.Completed || p.outcome.Status != "applied" {
		t.Fatalf("%+v", out)
	}
	if got := p.user("status", "--porcelain"); got != " M README\n D src/b.txt\n?? src/new.txt" {
		t.Error(got)
	}
	if _, err := os.Stat(s.Worktree); err != nil {
		t.Error("the worktree is gone", err)
	}
}

// What comes in the way between gate and resume is shown at a new gate.
func TestNewObstacleOpensANewGate(t *testing.T) {
	p := newPlay(t, &document.Deliver{})
	p.drive()
	p.decide("delivery#1", "apply")
	p.write("README", "local\n")
	if out := p.drive(); out.Status != flow.ParkedRun {
		t.Fatalf("%+v", out)
	}
	if s := p.subject("delivery#2"); blocked(s) != "apply:target_dirty" || p.kept(s.Worktree, "rev-parse", s.Commit+"^{tree}") != s.Tree {
		t.Errorf("%+v", s.Blocked)
	}
	p.user("branch", "tipstaff/deliver/"+runID+"-fix-it")
	p.decide("delivery#2", "approve")
	p.drive()
	if s := p.subject("delivery#3"); blocked(s) != "approve:branch_exists apply:target_dirty" {
		t.Errorf("%+v", s.Blocked)
	}
	p.decide("delivery#3", "skip")
	if out := p.drive(); out.Status != flow.Completed || p.outcome.Status != "skipped" || readFile(t, p.dir+"/README") != "local\n" {
		t.Errorf("%+v", out)
	}
	if !strings.HasSuffix(p.kinds(), "delivery.skipped") {
		t.Error(p.kinds())
	}
}

// A crash within apply never applies twice.
func TestApplyThatWasBrokenOff(t *testing.T) {
	for _, c := range []struct {
		name string
		left func(p *play) // what the crash has left in the checkout
		want flow.Status
	}{
		{"before it began", func(*play) {}, flow.Completed},
		{"when it was done", func(p *play) { edit(p.bed, p.dir) }, flow.Completed},
		{"in the middle", func(p *play) { p.write("README", "first\nsecond\nlast\n") }, flow.ParkedRun},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlay(t, &document.Deliver{})
			p.drive()
			p.decide("delivery#1", "apply")
			whole := p.acts[ActApply]
			broken := whole
			ctx, kill := context.WithCancelCause(context.Background())
			killed, forget := make(chan struct{}), make(chan struct{})
			t.Cleanup(func() { close(forget) })
			broken.Run = func(context.Context, flow.Attempt) (flow.Done, error) {
				c.left(p)
				kill(&flow.Stop{Reason: "signal:KILL"})
				close(killed)
				<-forget // nobody hears of it
				return flow.Done{}, errors.New("killed")
			}
			p.acts[ActApply] = broken
			_, err := flow.New(p.log, nil).Drive(ctx, flow.Job{Run: runID, Flow: p.flow, Acts: p.acts, Owner: flow.Owner{Kind: "foreground"}, Abandon: killed})
			must(p.bed, err)
			p.acts[ActApply] = whole
			out := p.drive()
			if out.Status != c.want {
				t.Fatalf("%+v", out)
			}
			if c.want == flow.Completed && (p.outcome.Status != "applied" || p.user("status", "--porcelain") != " M README\n D src/b.txt\n?? src/new.txt") {
				t.Errorf("%+v: %s", p.outcome, p.user("status", "--porcelain"))
			}
			if c.want == flow.ParkedRun && p.gate("deliver/apply#1/in_doubt").Kind != tipstaff.InDoubt {
				t.Error("nobody is asked")
			}
		})
	}
}

func TestHaltAndFix(t *testing.T) {
	p := newPlay(t, &document.Deliver{})
	p.drive()
	p.decide("delivery#1", "halt")
	var halted *Halted
	if out := p.drive(); !errors.As(out.Err, &halted) || halted.Decision.By != "ada" || !errors.Is(out.Err, flow.ErrCancelled) {
		t.Errorf("%+v", out)
	}
	p = newPlay(t, &document.Deliver{})
	p.drive()
	p.decide("delivery#1", "fix")
	if out := p.drive(); out.Status != flow.Completed || p.outcome.Status != "followed_up" {
		t.Errorf("%+v", out)
	}
}

func TestEachObstacleInItsOrder(t *testing.T) {
	rejected := func(p *play) {
		p.spec.Deliver.Release = "false"
		p.spec.Release = func(Produced) (bool, error) { return false, nil }
	}
	for _, c := range []struct {
		name string
		set  func(p *play)
		want string
		by   string // the default action
	}{
		{"nothing", func(*play) {}, "", "approve"},
		{"paths", func(p *play) {
			p.spec.Deliver.Paths = []string{"src/**"}
			p.spec.Deliver.Checks, p.exits["bad"] = []document.DeliverCheck{check("bad")}, 1
			rejected(p)
		}, "approve:scope_violation apply:scope_violation skip:release_rejected", "fix"},
		{"a failed check", func(p *play) {
			p.spec.Deliver.Checks, p.exits["bad"] = []document.DeliverCheck{check("good"), check("bad")}, 1
			rejected(p)
		}, "approve:verification_failed apply:verification_failed skip:release_rejected", "fix"},
		{"a check that was refused", func(p *play) { p.spec.Deliver.Checks = []document.DeliverCheck{check("refused")} },
			"approve:verification_failed apply:verification_failed", "fix"},
		{"a check before one that writes", func(p *play) { p.spec.Deliver.Checks = []document.DeliverCheck{check("good"), check("writes")} }, "", "approve"},
		{"a check before one that writes, of an earlier run", func(p *play) {
			p.spec.Earlier = true
			p.spec.Deliver.Checks = []document.DeliverCheck{check("good"), check("writes")}
		}, "approve:verification_failed apply:verification_failed", "approve"},
		{"a failed check that need not pass", func(p *play) {
			p.spec.Deliver.Checks, p.exits["bad"] = []document.DeliverCheck{check("bad")}, 1
			p.spec.Deliver.Checks[0].Required = false
		}, "", "approve"},
		{"a rejected release", func(p *play) {
			rejected(p)
			p.write("README", "local\n")
		}, "approve:release_rejected apply:release_rejected skip:release_rejected", "fix"},
		{"a release that cannot be told", func(p *play) {
			p.spec.Deliver.Release = "outputs.x.y"
			p.spec.Release = func(Produced) (bool, error) { return true, errors.New("no such key: x") }
		}, "approve:release_rejected apply:release_rejected skip:release_rejected", "fix"},
		{"a branch and a dirty checkout", func(p *play) {
			p.user("branch", "tipstaff/deliver/"+runID+"-fix-it")
			p.write("README", "local\n")
		}, "approve:branch_exists apply:target_dirty", "fix"},
		{"a conflict", func(p *play) {
			p.write("README", "other\n")
			p.user("commit", "-qam", "other")
		}, "apply:patch_conflict", "approve"},
		{"no worktree", func(p *play) {
			commit := p.acts[ActCommit].Run
			p.acts[ActCommit] = flow.Activity{Run: func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
				must(p.bed, os.RemoveAll(filepath.Join(filepath.Dir(p.dir), "state", runID)))
				return commit(ctx, a)
			}}
			p.produced.Exhausted = "iterations"
		}, "fix:worktree_missing", "approve"},
		{"a bound", func(p *play) { p.produced.Exhausted = "iterations" }, "fix:bound_exceeded", "approve"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlay(t, &document.Deliver{})
			c.set(p)
			p.drive()
			s := p.subject("delivery#1")
			if blocked(s) != c.want || s.DefaultAction != c.by {
				t.Errorf("%+v, default %s", s.Blocked, s.DefaultAction)
			}
			for _, action := range tipstaff.DeliveryActions {
				if is := tipstaff.BlockedAt(p.gate("delivery#1"), action) != nil; is == slices.Contains(s.Available, action) {
					t.Errorf("%s is both available and blocked, or neither", action)
				}
			}
		})
	}
}

// A follow-up takes the worktree over as it is; one that changes nothing is no use.
func TestFollowUp(t *testing.T) {
	p := newPlay(t, &document.Deliver{Checks: []document.DeliverCheck{check("bad")}})
	p.exits["bad"] = 1
	p.produced.Findings = []tipstaff.FindingRecorded{{Stage: "review", StageFinding: tipstaff.StageFinding{ID: "review#1/1", Title: "No  TESTS", Severity: "P1"}}}
	p.drive()
	s := p.subject("delivery#1")
	followup := tipstaff.FollowupOf(runID, "01JCQ8R4T5V6W7X8Y9Z0A1B2C3", s, "add tests")
	if followup.Feedback != "add tests" || len(followup.Findings) != 1 || len(followup.Checks) != 1 || followup.ParentRunID != runID || !followup.Fixpoint().Equal(s.Fixpoint()) {
		t.Errorf("%+v", followup)
	}
	child := &play{bed: p.bed, log: flow.NewMem(), spec: p.spec, exits: p.exits, acts: p.acts, blobs: p.blobs, produced: p.produced}
	child.spec.Run = "01JCQ8R4T5V6W7X8Y9Z0A1B2C4"
	child.spec.Line, child.spec.Parent = []string{runID, child.spec.Run}, &Parent{Run: runID, Gate: s.Fixpoint()}
	child.produced.Findings[0].ID, child.produced.Findings[0].Title = "review#2/1", "no tests" // the same, in another visit
	p.work = func(dir string) {
		if dir != s.Worktree {
			t.Errorf("it works in %s", dir)
		}
	}
	child.drive()
	if s := child.subject("delivery#1"); blocked(s) != "approve:verification_failed apply:verification_failed fix:followup_not_converging" || !strings.Contains(child.kinds(), "followup.fixed_point") {
		t.Errorf("%+v", s.Blocked)
	}
	child.log, child.produced.Findings = flow.NewMem(), nil // the files are as they were, and nothing is found wrong with them any more
	child.drive()
	if s := child.subject("delivery#1"); strings.Contains(blocked(s), "followup_not_converging") {
		t.Errorf("a follow-up that has settled a finding: %+v", s.Blocked)
	}
	child.log = flow.NewMem()
	p.work = func(dir string) { writeFile(t, dir+"/tests", "x\n") }
	child.drive()
	if s := child.subject("delivery#1"); s.Files != 4 || strings.Contains(blocked(s), "fix") { // the diff is cumulative
		t.Errorf("%d files, %+v", s.Files, s.Blocked)
	}
}

func TestNoticesOfAnAgentThatMeddles(t *testing.T) {
	p := newPlay(t, &document.Deliver{Checks: []document.DeliverCheck{check("meddles")}})
	p.produced.Notices = []tipstaff.Notice{{Code: RefsChanged, Message: "main was moved"}}
	p.drive()
	s := p.subject("delivery#1")
	if len(s.Notices) != 2 || s.Notices[0].Code != RefsChanged || s.Notices[1].Code != RepositoryChanged || !strings.Contains(s.Notices[1].Message, "hooks/pre-commit") {
		t.Errorf("%+v", s.Notices)
	}
	if blocked(s) != "" {
		t.Error("a notice blocks")
	}
}

func TestOutside(t *testing.T) {
	for _, c := range []struct{ patterns, prefix, names, want string }{
		{"", "", "a b/c", ""},
		{"src/**", "", "src/a src/b/c README srcs/x", "README srcs/x"},
		{"src/**", "sub", "sub/src/a src/a", "src/a"},
		{"*.go docs/**/*.md", "", "a.go b/c.go docs/x.md docs/a/b/x.md docs/x.txt", "b/c.go docs/x.txt"},
		{"**", "", "a b/c/d", ""},
		{"a/**/b", "", "a/b a/x/b a/x/y/b a/c", "a/c"},
	} {
		if got := strings.Join(Outside(strings.Fields(c.patterns), c.prefix, strings.Fields(c.names)), " "); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
