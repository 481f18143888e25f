package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store"
)

func testWatchSeesWhatTheOwnerDidNotWrite(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	run, other := b.MustCreate(), b.MustCreate()
	l := b.MustAcquire(run)
	b.MustAppend(l, Gate("G1", "root/a"), Gate("G2", "root/b"))
	seen := make(chan string, 20)
	stop := b.Watch(run, func(r flow.Record) { seen <- fmt.Sprint(r.Seq, " ", r.Kind) })
	b.MustWrite(run, flow.Draft{Kind: "run.cancel_requested"})
	b.MustAppend(l, Step("root/x"), Resolve("G1", "deny", "expiry"))
	b.MustWrite(other, flow.Draft{Kind: "run.cancel_requested"})
	b.MustWrite(run, Resolve("G2", "approve", "command"))
	for _, want := range []string{"8 run.cancel_requested", "10 policy.gate.resolve", "11 policy.gate.resolve"} {
		if got := <-seen; got != want {
			t.Fatalf("seen %s, want %s", got, want)
		}
	}
	stop()
	b.MustWrite(run, flow.Draft{Kind: "run.cancel_requested"})
	b.Shut() // nothing is left to be told
	if len(seen) > 0 {
		t.Fatalf("seen after stop: %s", <-seen)
	}
}

// A watcher that blocks, and one that stops itself, do not hold up the writer.
func testWatchersCannotHoldUpTheWriter(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	run := b.MustCreate()
	l := b.MustAcquire(run)
	entered, release := make(chan struct{}), make(chan struct{})
	var stop func()
	stop = b.Watch(run, func(flow.Record) { stop(); close(entered); <-release })
	b.MustWrite(run, flow.Draft{Kind: "run.cancel_requested"})
	<-entered
	if parked, err := b.Park(l, flow.Parking{}); err != nil || parked {
		t.Fatalf("parked %v: %v", parked, err)
	}
	close(release)
	b.MustAppend(l, Step("a"))
}

func testFollowIsCoalesced(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	run := b.MustCreate()
	l := b.MustAcquire(run)
	changed, stop := b.Follow(run)
	for i := range 20 {
		b.MustAppend(l, Step(fmt.Sprint(i)))
	}
	<-changed
	if n := len(changed); n > 1 {
		t.Fatalf("%d signals wait", n)
	}
	stop()
	for len(changed) > 0 {
		<-changed
	}
	b.MustAppend(l, Step("last"))
	if len(changed) > 0 {
		t.Fatal("signalled after stop")
	}
}

func testInboxIsPruned(t *testing.T, place Place) {
	c := &clock{now: time.Now()}
	b := place.Bench(t, &store.Options{Now: c.Now})
	held, free := b.MustCreate(), b.MustCreate()
	b.MustAcquire(held)
	b.MustWrite(held, flow.Draft{Kind: "run.cancel_requested"})
	b.MustWrite(free, flow.Draft{Kind: "run.cancel_requested"})
	c.pass(time.Hour)
	b.MustWrite(free, flow.Draft{Kind: "run.cancel_requested"})
	if err := b.DB.Do(t.Context(), &store.Op{Apply: (*store.Tx).Prune}); err != nil {
		t.Fatal(err)
	}
	var left []string
	err := b.DB.Query(t.Context(), func(r store.Row) error {
		left = append(left, fmt.Sprint(r.Text(0) == held, r.Int(1)))
		return nil
	}, `SELECT r.id, i.seq FROM inbox i JOIN runs r ON r.n = i.run ORDER BY i.id`)
	// Of the run that is held everything stays, of the other what is young.
	if want := []string{"true 1", "true 2", "true 3", "true 4", "true 6", "false 6"}; err != nil || !slices.Equal(left, want) {
		t.Fatalf("left: %v %v", left, err)
	}
}
