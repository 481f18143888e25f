package runner_test

import (
	"context"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/runner"
)

// A server whose run another has taken breaks its drive off, although nothing that it does
// would tell it: its call hangs.
func TestWhatAnotherHasTakenIsBrokenOff(t *testing.T) {
	p := newPool(t)
	a := p.server("a", 1)
	run := a.hanging("alice")
	p.drivenBy(run, "a")
	p.server("b", 1)
	p.dead.Store("a", true) // as b sees it
	p.drivenBy(run, "b")
	for end := time.Now().Add(20 * time.Second); a.Drives() != (runner.DriveCount{Begun: 1, Ended: 1, Fenced: 1}); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the drives of a are %+v", a.Drives())
		}
	}
	p.cancel(run)
}

// Every server tells how many runs wait in the queue that they share, and for how long.
func TestServersTellOfTheirQueue(t *testing.T) {
	p := newPool(t)
	a, b := p.server("a", 1), p.server("b", 1)
	runs := []tipstaff.ID{a.hanging("alice"), b.hanging("alice"), a.hanging("alice")}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, waiting := b.Load()
		if s := b.Standing(); waiting == 1 && s.Queued == 1 && !s.Since.IsZero() && b.Ready() == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("b tells %d, %+v, %v", waiting, b.Standing(), b.Ready())
		}
	}
	p.cancel(runs...)
}

// tardy is a store in which the former owner of a parent makes its child a moment before the
// present one does.
type tardy struct{ flow.Store }

func (s tardy) Create(ctx context.Context, r flow.NewRun, drafts []flow.Draft) error {
	if r.Parent != "" {
		if err := s.Store.Create(ctx, r, drafts); err != nil {
			return err
		}
	}
	return s.Store.Create(ctx, r, drafts)
}

func TestAChildThatTheFormerOwnerHasMade(t *testing.T) {
	b := newBed(t)
	b.skill("child", "tools: none\nsub_skills: none")
	b.write("skills/child/plan.yaml", "kind: plan\nversion: 1\nskill: skill://child@1.0.0\nroot: {id: ok, kind: gate, question: Go?}\n")
	config := b.Config
	config.Store = tardy{b.store}
	b.Runner = runner.New(config)
	run, driven := b.run("root: {id: sub, kind: sub_dispatch, skill: skill://child@1.0.0}", func(r *tipstaff.StartRequest) { r.AllowSubDispatch = true })
	if driven.Outcome != "parked" || len(b.get(run).Lineage.Children) != 1 {
		t.Errorf("it ends %+v", driven)
	}
}
