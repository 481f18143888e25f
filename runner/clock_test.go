package runner_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

// A clock that jumps makes nobody dead who lives; a gate that it had expire stays denied.
func TestClockThatJumps(t *testing.T) {
	b := newBed(t)
	l := launching(b)
	s, err := b.detach(tipstaff.StartRequest{})
	b.check(err)
	for _, jump := range []time.Duration{time.Hour, -time.Hour, 0} {
		b.ahead.Store(int64(jump))
		b.check(b.Recover(cli(), "test"))
		if r := b.get(s.Run); r.Status != tipstaff.StatusRunning || count(b.kinds(s.Run), "run.interrupted") != 0 {
			t.Errorf("at %v a launch is %s: %v", jump, r.Status, b.kinds(s.Run))
		}
	}
	d, err := b.execute(s.Run, l.last().Token)
	if err != nil || d.Outcome != "parked" {
		t.Fatalf("%+v, %v", d, err)
	}
	b.check(b.process(l.last().Token).Executed(cli(), s.Run, 4, nil))
	for _, jump := range []time.Duration{-time.Hour, 25 * time.Hour, 0} {
		b.ahead.Store(int64(jump))
		b.check(errors.Join(b.Recover(cli(), "test"), b.DenyExpired(cli()))) // as every command that writes
		want := 0
		if jump >= 0 { // the day is over, or was
			want = 1
		}
		if n := count(b.kinds(s.Run), "policy.gate.resolve"); n != want {
			t.Errorf("at %v the gate was denied %d times", jump, n)
		}
	}
	_, err = b.decide(s.Run, "root/ok", "approve")
	wantCode(t, err, tipstaff.GateExpired)
	_, err = b.Resume(cli(), tipstaff.ResumeRequest{Run: s.Run, Detach: true})
	b.check(err)
	if d, err := b.execute(s.Run, l.last().Token); err != nil || !d.State.Terminal() {
		t.Errorf("%+v, %v", d, err)
	}
	b.verified(s.Run)
}
