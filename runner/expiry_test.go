package runner_test

import (
	"context"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

// asksFor is a pipeline whose question stays open for so many seconds.
func asksFor(seconds string) string {
	return `
name: asking
agents:
  - name: ask
    denied_next: late
    scripted: {answers: [{control: {interrupt: {kind: question, question: "Well?", ttl_seconds: ` + seconds + `}}}]}
  - {name: late, stage_order: 1, scripted: {answers: [{output: {late: true}}]}}
`
}

// expiring has gates expire, as a daemon does, until it is stopped or the test ends.
func (b *bed) expiring(kind string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	stop = func() { cancel(); <-done }
	b.t.Cleanup(stop)
	go func() {
		defer close(done)
		b.Expire(ctx, kind, func(err error) { b.t.Error(err) })
	}()
	return stop
}

// comes waits for a record of a run that nobody may be driving yet.
func (b *bed) comes(run tipstaff.ID, kind tipstaff.Kind) {
	b.t.Helper()
	changed, stop := b.store.Follow(run.String())
	defer stop()
	late := time.After(20 * time.Second)
	for len(b.of(run, kind)) == 0 {
		select {
		case <-changed:
		case <-late:
			b.t.Fatalf("there was no %s: %v", kind, b.kinds(run))
		}
	}
}

// A gate is denied when its time comes, and its run goes on: no command is needed.
func TestAGateThatExpiresIsActedOn(t *testing.T) {
	b := newBed(t)
	b.expiring("foreground") // before there is anything
	run, driven := b.pipe(asksFor("1"))
	if driven.Outcome != "parked" {
		t.Fatalf("%+v", driven)
	}
	b.comes(run, tipstaff.KindIntentAttest)
	if got := output(b.state(run), "late"); got == nil {
		t.Errorf("it did not go where a denial leads: %v", b.kinds(run))
	}
	opened, closed := b.of(run, tipstaff.KindPolicyGate)[0], b.of(run, tipstaff.KindPolicyGateResolve)[0].At
	due := tipstaff.BodyOf[tipstaff.GateOpened](&opened).ExpiresAt.Time // a second after the question, which is recorded a little later
	if closed.Before(due) || closed.Sub(due) > 20*time.Second || opened.At.Sub(due.Add(-time.Second)).Abs() > 20*time.Second {
		t.Errorf("the gate of %v, due at %v, was closed at %v", opened.At, due, closed)
	}
	_, err := b.decide(run, driven.Gates[0], "answer", func(d *tipstaff.DecideRequest) { d.Answer = []byte(`"yes"`) })
	if tipstaff.CodeOf(err) != tipstaff.GateExpired {
		t.Errorf("answered late: %v", err)
	}
	b.verified(run)
}

// What expired while nobody was there is acted on at the start. What another kind of
// owner has parked is denied, but waits for somebody to resume it.
func TestAGateThatHasExpiredIsActedOnAtTheStart(t *testing.T) {
	b := newBed(t)
	run, _ := b.pipe(asksFor("60"))
	next, _ := b.pipe(asksFor("121"))
	b.ahead.Store(int64(2 * time.Minute))
	stop := b.expiring("daemon")
	b.comes(run, tipstaff.KindPolicyGateResolve)
	b.comes(next, tipstaff.KindPolicyGateResolve) // so it has done with the first what it was going to do
	stop()
	if _, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: next}); err != nil {
		t.Fatal(err)
	}
	if r := b.get(run); r.State != tipstaff.Executing || r.Status != tipstaff.StatusAwaitingResume {
		t.Errorf("the run of another is %s", r.Status)
	}
	// An owner that ended between denying a gate and going on takes the run up when it is
	// back; others do not.
	for kind, want := range map[string]int{"daemon": 0, "foreground": 1} {
		if n, err := b.TakeUp(cli(), kind); err != nil || n != want {
			t.Errorf("%s takes up %d, %v", kind, n, err)
		}
	}
	b.comes(run, tipstaff.KindIntentAttest)
	other, _ := b.pipe(asksFor("60"))
	b.ahead.Store(int64(4 * time.Minute))
	// Whoever opens the store to write records what has expired, and has nothing go on.
	if err := b.DenyExpired(cli()); err != nil || b.get(other).Status != tipstaff.StatusAwaitingResume || len(b.of(other, tipstaff.KindPolicyGateResolve)) != 1 {
		t.Errorf("%v, %s: %v", err, b.get(other).Status, b.kinds(other))
	}
	b.expiring("foreground")
	b.comes(other, tipstaff.KindIntentAttest)
}
