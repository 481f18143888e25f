package runner_test

import (
	"errors"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// A process on another host or in another namespace cannot be signalled from here: it
// learns from the store that its run is to end, and when it is gone somebody else ends it.
func TestCancelOfAProcessElsewhere(t *testing.T) {
	b := newBed(t)
	l := launching(b)
	l.onStop = func(flow.Owner, time.Duration) (tipstaff.Stopped, error) {
		return tipstaff.Stopped{}, errors.ErrUnsupported
	}
	s, err := b.detach(tipstaff.StartRequest{Program: []byte(blocked), Name: "plan.yaml"})
	b.check(err)
	c, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: s.Run, Hard: true, Wait: 300 * time.Millisecond})
	if err != nil || c.How != tipstaff.CancelSent || c.State.Terminal() || len(l.stops) != 1 {
		t.Errorf("%+v, %v; tried %d times", c, err, len(l.stops))
	}
	if got := b.kinds(s.Run); got[len(got)-1] != "run.cancel_requested" {
		t.Errorf("%v", got)
	}
	b.gone.Store(l.last().Token, true)
	c, err = b.Cancel(cli(), tipstaff.CancelRequest{Run: s.Run})
	if err != nil || c.State != tipstaff.Cancelled || count(b.kinds(s.Run), "run.cancel_requested") != 1 {
		t.Errorf("%+v, %v: %v", c, err, b.kinds(s.Run))
	}
}
