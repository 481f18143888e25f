package delivery

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Whoever waits for another that applies does so no longer than git may take. Then a person is
// asked again, and nothing has changed.
func TestALockThatNobodyLetsGo(t *testing.T) {
	p := newPlay(t, &document.Deliver{})
	p.drive()
	p.decide("delivery#1", "apply")
	p.locks.Lock()
	p.git.Limit, p.git.LimitHint = time.Millisecond, "the hint"
	at := ""
	p.locking = func(name string) { at, p.git.Limit = name, 0 }
	if out := p.drive(); out.Status != flow.ParkedRun {
		t.Fatalf("%+v", out)
	}
	s := p.subject("delivery#2")
	want := "apply was decided, and could not be done: repository_busy: another process has held " + at + " for more than 1ms: wait until it has ended, or end it, and try again; the hint. Nothing was changed"
	if len(s.Notices) != 1 || s.Notices[0].Message != want || blocked(s) != "" || p.user("status", "--porcelain") != "" {
		t.Errorf("%+v, blocked %q, want %s", s.Notices, blocked(s), want)
	}
	p.locks.Unlock()
	p.decide("delivery#2", "apply")
	if out := p.drive(); out.Status != flow.Completed || p.outcome.Status != tipstaff.DeliveredApplied {
		t.Errorf("%+v %+v", out, p.outcome)
	}
}

// Waiting ends when the process is told to stop, and goes on with the next one. Where that has to
// wait, too, it is seen that nothing was changed, or that all was, and nobody is in doubt.
func TestWaitingForALockIsInterrupted(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(p *play) (action string) // "": the run ends
	}{
		{"and it is free", func(p *play) string { p.locks.Unlock(); return "" }},
		{"and it is held", func(p *play) string {
			p.git.Limit = time.Millisecond
			p.locking = func(string) { p.git.Limit = 0 }
			return "delivery#2"
		}},
		{"and it is held by who has applied the same", func(p *play) string {
			edit(p.bed, p.dir)
			p.git.Limit = time.Millisecond
			p.locking = func(string) { p.git.Limit = 0 }
			return ""
		}},
	} {
		t.Run(c.name, func(t *testing.T) { interruptedWaiting(t, c.then) })
	}
}

func interruptedWaiting(t *testing.T, then func(p *play) (gate string)) {
	p := newPlay(t, &document.Deliver{})
	p.drive()
	p.decide("delivery#1", "apply")
	p.locks.Lock()
	ctx, stop := context.WithCancelCause(context.Background())
	p.locking = func(string) { stop(&flow.Stop{Reason: "signal:INT"}) }
	out, err := flow.New(p.log, &flow.Options{Grace: time.Second}).Drive(ctx, flow.Job{Run: runID, Flow: p.flow, Acts: p.acts, Owner: flow.Owner{Kind: "foreground"}})
	var told *flow.Stop
	if must(p.bed, err); out.Status != flow.Interrupted || !errors.As(p.lockCause(), &told) {
		t.Errorf("%+v, and whoever waits is told %v", out, p.lockCause())
	}
	p.locking = func(string) {}
	gate := then(p)
	out = p.drive()
	if gate != "" {
		if s := p.subject(gate); out.Status != flow.ParkedRun || len(s.Notices) != 1 || !strings.Contains(s.Notices[0].Message, "repository_busy") {
			t.Errorf("%+v %+v", out, s.Notices)
		}
		p.locks.Unlock()
		p.decide(gate, "apply")
		out = p.drive()
	}
	if out.Status != flow.Completed || p.outcome.Status != tipstaff.DeliveredApplied {
		t.Errorf("%+v %+v", out, p.outcome)
	}
}

// A run that is cancelled while it waits has changed nothing, and nobody is in doubt.
func TestCancelledWhileItWaitsForALock(t *testing.T) {
	p := newPlay(t, &document.Deliver{})
	p.drive()
	p.decide("delivery#1", "apply")
	p.locks.Lock()
	p.locking = func(string) {
		must(p.bed, p.log.Write(runID, flow.Draft{Kind: flow.KindRunCancelRequested, Body: flow.JSON(map[string]any{"mode": "graceful", "deadline": time.Now().Add(time.Hour)})}))
	}
	if out := p.drive(); out.Status != flow.Cancelled {
		t.Errorf("%+v", out)
	}
	for _, r := range p.log.Records(runID) {
		if strings.Contains(string(r.Body), flow.CodeInDoubt) || r.Kind == flow.KindEffectLost {
			t.Errorf("%s %s", r.Kind, r.Body)
		}
	}
}

// Two repositories are no concern of each other. Worktrees of git's own share one.
func TestLocksAreOfOneRepository(t *testing.T) {
	b, other := newBed(t), newBed(t)
	linked := filepath.Join(filepath.Dir(b.dir), "linked")
	b.user("worktree", "add", "-q", linked)
	of, err := Open(context.Background(), b.git, linked)
	must(b, err)
	if one := applyLock(b.open()); one == applyLock(other.open()) || one != applyLock(of) {
		t.Errorf("%s, of another %s, of a worktree %s", one, applyLock(other.open()), applyLock(of))
	}
}

// Ports that a directory has need no lock. Whoever waits for it can be stopped.
func TestWaitingForPorts(t *testing.T) {
	state := t.TempDir()
	ctx, stop := context.WithCancel(context.Background())
	held := false
	e := Env{Git: &Git{}, Worktrees: state, Lock: func(ctx context.Context, _ string) (func() error, error) {
		if held {
			stop()
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return func() error { return nil }, nil
	}}
	if ports, err := e.givePorts(ctx, filepath.Join(state, "a"), 2); err != nil || len(ports) != 2 {
		t.Errorf("%v %v", ports, err)
	}
	held = true
	if ports, err := e.givePorts(ctx, filepath.Join(state, "a"), 2); err != nil || len(ports) != 2 {
		t.Errorf("again: %v %v", ports, err)
	}
	if _, err := e.givePorts(ctx, filepath.Join(state, "b"), 2); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
