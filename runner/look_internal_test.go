package runner

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipstaff/tipstaff"
)

// What was found counts for a moment, for all who ask meanwhile, and not longer. Few look at once.
func TestLooksAreShared(t *testing.T) {
	var l looks
	at := time.Unix(1000, 0)
	clock := func() time.Time { return at }
	found := 0
	ask := func(gate string) {
		l.at(t.Context(), t.Context(), gate, clock, func(context.Context) *tipstaff.DeliveryNow { found++; return nil })
	}
	counts := func(what string, want int) {
		t.Helper()
		if found != want {
			t.Errorf("%s: it was looked %d times, not %d", what, found, want)
		}
	}
	ask("a")
	ask("a")
	counts("again", 1)
	ask("b")
	counts("another", 2)
	at = at.Add(lookKept - 1)
	ask("a")
	counts("within the moment", 2)
	at = at.Add(1)
	ask("a")
	counts("later", 3)
	l.forget("a")
	ask("a")
	counts("forgotten", 4)
	if len(l.all) != 1 {
		t.Errorf("%d are kept", len(l.all))
	}
}

func TestOneLooksForAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l looks
		var looking, all atomic.Int64
		going := make(chan struct{})
		find := func(context.Context) *tipstaff.DeliveryNow {
			looking.Add(1)
			all.Add(1)
			<-going
			looking.Add(-1)
			return &tipstaff.DeliveryNow{DefaultAction: "skip"}
		}
		for _, gate := range []string{"a", "b", "c", "d", "a", "b", "c", "d"} {
			go func() {
				if now := l.at(t.Context(), t.Context(), gate, time.Now, find); now == nil || now.DefaultAction != "skip" {
					t.Errorf("%s: %+v", gate, now)
				}
			}()
		}
		synctest.Wait()
		if n := looking.Load(); n != looksAtOnce {
			t.Errorf("%d look at once", n)
		}
		left, leave := context.WithCancel(t.Context())
		leave()
		if now := l.at(left, t.Context(), "a", time.Now, find); now != nil {
			t.Error("who has left is kept waiting")
		}
		close(going)
		synctest.Wait()
		if n := all.Load(); n != 4 {
			t.Errorf("%d looked", n)
		}
	})
}
