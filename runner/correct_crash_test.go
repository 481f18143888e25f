package runner_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/runner"
)

// dying is a store whose owner dies at one of its writes: that one, stored or not,
// is the last, and nobody learns of it.
type dying struct {
	flow.Store
	at     int  // which write of the owner
	stored bool // it is stored all the same

	mu     sync.Mutex
	writes int
	died   bool
}

// survives counts a write. died: it, or one before, was the last.
func (s *dying) survives() (stored, died bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	if s.died {
		return false, true
	}
	s.died = s.writes == s.at
	return !s.died || s.stored, s.died
}

func (s *dying) Append(l flow.Lease, drafts []flow.Draft, done func(error)) {
	stored, died := s.survives()
	switch {
	case stored && died:
		s.Store.Append(l, drafts, func(error) { done(flow.ErrStoreDown) })
	case died:
		done(flow.ErrStoreDown)
	default:
		s.Store.Append(l, drafts, done)
	}
}

func (s *dying) Park(l flow.Lease, p flow.Parking) (bool, error) {
	stored, died := s.survives()
	if stored {
		parked, err := s.Store.Park(l, p)
		if !died {
			return parked, err
		}
	}
	return false, flow.ErrStoreDown
}

// An owner that dies at any of its writes around a material correction leaves a
// run that comes to the same end, without a call made twice.
func TestAnOwnerMayDieAnywhereInACorrection(t *testing.T) {
	b, each := newBed(t), 1
	if testing.Short() {
		each = 4
	}
	for _, stored := range []bool{false, true} {
		for at := 1 + rand.IntN(each); ; at += each {
			tag := fmt.Sprintf("effects-%v-%d", stored, at)
			plan := strings.ReplaceAll(corrected, "effects", tag)
			run, out := b.run(plan)
			if out.Outcome != "parked" {
				t.Fatalf("%+v", out)
			}
			died := b.diesAt(run, at, stored, strings.ReplaceAll(harsh, "effects", tag))
			b.bringToEnd(run, tag)
			got := b.get(run)
			if got.State != tipstaff.Completed || string(got.Outputs) != `{"first":0}` || b.read(tag) != "one\ntwo\n" {
				t.Fatalf("write %d, stored %v: %s, outputs %s, effects %q", at, stored, got.State, got.Outputs, b.read(tag))
			}
			rep := b.verified(run)
			if want := "executing --[intent.correct]--> accepted --[plan.proposed]--> executing --[intent.attest]--> completed"; !strings.HasSuffix(rep.Lifecycle, want) {
				t.Errorf("lifecycle %s", rep.Lifecycle)
			}
			if ev := b.evidence(run); ev.Revision != 2 || ev.Counts["carried"] != 1 {
				t.Errorf("evidence %+v", ev)
			}
			if t.Failed() {
				t.Fatalf("write %d, stored %v: %v", at, stored, b.kinds(run))
			}
			if !died {
				break
			}
		}
	}
}

// diesAt hands a correction in and drives it with an owner that dies at a write.
// It reports whether there was such a write.
func (b *bed) diesAt(run tipstaff.ID, at int, stored bool, plan string) bool {
	b.t.Helper()
	c := b.Runner.Config
	s := &dying{Store: c.Store, at: at, stored: stored}
	c.Store = s
	r := runner.New(c)
	if _, err := correct(r, run, plan, tipstaff.Presence{Yes: true}); err != nil {
		b.t.Fatal(err)
	}
	r.Drain()
	row, err := b.store.Run(b.t.Context(), run.String())
	if err != nil {
		b.t.Fatal(err)
	}
	if row.Owner != nil {
		b.dead[row.Owner.Launch] = true
	}
	if err := b.Recover(b.t.Context(), "test"); err != nil {
		b.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.died
}

// bringToEnd resumes until the run has ended; who is asked about a call in doubt
// looks whether it was made.
func (b *bed) bringToEnd(run tipstaff.ID, effects string) {
	b.t.Helper()
	for range 10 {
		got := b.get(run)
		if got.State.Terminal() {
			return
		}
		for _, g := range got.OpenGates {
			if g.Kind != tipstaff.InDoubt {
				continue
			}
			action, with := "retry", func(*tipstaff.DecideRequest) {}
			if name := g.Path[strings.LastIndexByte(g.Path, '/')+1:]; strings.Contains(b.read(effects), name) {
				action, with = "use_result", answer(`{"exit_code":0,"stderr":"","stdout":""}`)
			}
			if _, err := b.decide(run, g.ID.String(), action, with); err != nil {
				b.t.Fatal(err)
			}
		}
		s, err := b.Resume(cli(), tipstaff.ResumeRequest{Run: run, Presence: tipstaff.Presence{Yes: true}})
		if err != nil {
			b.t.Fatal(err)
		}
		b.wait(s.Run)
	}
	b.t.Fatalf("the run does not end: %v", b.kinds(run))
}
