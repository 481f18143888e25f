package delivery

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// What stands in the way of an open gate is looked for again: it comes and goes, whatever the
// gate has recorded.
func TestWhatStandsInTheWayNow(t *testing.T) {
	p := newPlay(t, &document.Deliver{})
	p.write("README", "local\n")
	p.drive()
	s, r := p.subject("delivery#1"), p.open()
	if blocked(s) != "apply:target_dirty" {
		t.Fatalf("%+v", s.Blocked)
	}
	now := func(want, suggested string) {
		t.Helper()
		got, err := r.Look(context.Background(), s)
		must(p.bed, err)
		s := s
		if s.Blocked = got.Blocked; blocked(s) != want || got.DefaultAction != suggested {
			t.Errorf("%s, by default %s", blocked(s), got.DefaultAction)
		}
	}
	now("apply:target_dirty", "approve")
	p.user("checkout", "-q", "README")
	now("", "approve")
	p.user("branch", strings.TrimPrefix(s.Branch, "refs/heads/"))
	now("approve:branch_exists", "fix")
	must(p.bed, os.RemoveAll(s.Worktree))
	now("approve:branch_exists fix:worktree_missing", "skip")
	p.user("branch", "-D", strings.TrimPrefix(s.Branch, "refs/heads/"))
	now("fix:worktree_missing", "approve")
}

// What the run alone knows of follow-ups stays as it was recorded.
func TestWhatIsSettledOfFollowUps(t *testing.T) {
	p := newPlay(t, &document.Deliver{})
	p.produced.Exhausted = tipstaff.BoundIterations
	p.drive()
	s := p.subject("delivery#1")
	got, err := p.open().Look(context.Background(), s)
	must(p.bed, err)
	if len(got.Blocked) != 1 || got.Blocked[0] != s.Blocked[0] || s.Blocked[0].Code != tipstaff.BlockBound {
		t.Errorf("%+v, was %+v", got.Blocked, s.Blocked)
	}
}

// A gate suggests what can be done there. Runs of before recorded something else, and go on
// to.
func TestSuggestedAction(t *testing.T) {
	for _, c := range []struct {
		live     bool
		rejected bool
		taken    bool
		want     string
	}{
		{live: true, want: "approve"},
		{live: true, taken: true, want: "fix"},
		{live: true, rejected: true, want: "fix"},
		{live: false, taken: true, want: "approve"},
		{live: false, rejected: true, want: "fix"},
	} {
		d := &document.Deliver{}
		if c.rejected {
			d.Release = "false"
		}
		p := newPlay(t, d)
		p.spec.Earlier = !c.live
		p.spec.Release = func(Produced) (bool, error) { return false, nil }
		if c.taken {
			p.user("branch", "tipstaff/deliver/"+runID+"-fix-it")
		}
		p.drive()
		if s := p.subject("delivery#1"); s.DefaultAction != c.want {
			t.Errorf("%+v: %s, and %s is blocked", c, s.DefaultAction, blocked(s))
		}
	}
	if got := tipstaff.DefaultDelivery([]tipstaff.BlockedAction{{Action: "approve"}, {Action: "fix"}, {Action: "skip"}}, true); got != "halt" {
		t.Error(got)
	}
}

// A gate that opens again says what became of the decision at the one before.
func TestAGateThatOpensAgainSaysWhy(t *testing.T) {
	for _, live := range []bool{true, false} {
		p := newPlay(t, &document.Deliver{})
		p.spec.Earlier = !live
		p.drive()
		p.decide("delivery#1", "apply")
		p.write("README", "local\n")
		p.drive()
		said := ""
		for _, n := range p.subject("delivery#2").Notices {
			said += n.Code + ": " + n.Message
		}
		want := "delivery_hindered: apply was decided, and could not be done: target_dirty. Nothing was changed"
		if live && said != want || !live && said != "" {
			t.Errorf("%v: %q", live, said)
		}
		p.decide("delivery#2", "skip")
		p.drive()
	}
}

// Of two that put the same changes into a checkout at once the second finds them there.
func TestTwoThatApplyAtOnce(t *testing.T) {
	p := newPlay(t, &document.Deliver{})
	p.drive()
	s := p.subject("delivery#1")
	apply := func() flow.Done {
		done, err := p.acts[ActApply].Run(context.Background(), flow.Attempt{Input: flow.JSON(applyInput{Place: p.spec.Place, Worktree: &Worktree{Path: s.Worktree}, Base: s.Base, Commit: s.Commit})})
		must(p.bed, err)
		return done
	}
	waits, second := make(chan struct{}), make(chan flow.Done, 1)
	run, begun := p.git.Run, false
	p.locking = func(string) {
		if begun {
			close(waits)
		}
	}
	p.git.Run = func(ctx context.Context, dir string, env []string, stdin []byte, args ...string) ([]byte, error) {
		if args[0] == "checkout-index" && !begun { // the first writes: it has looked before
			begun = true
			go func() { second <- apply() }()
			select {
			case <-waits:
			case done := <-second: // it has not waited
				second <- done
			}
		}
		return run(ctx, dir, env, stdin, args...)
	}
	first := apply()
	if got := string((<-second).Value); string(first.Value) != "{}" || got != `{"already":true}` {
		t.Errorf("%s, then %s", first.Value, got)
	}
	if got := p.user("status", "--porcelain"); got != " M README\n D src/b.txt\n?? src/new.txt" {
		t.Error(got)
	}
}
