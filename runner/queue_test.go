package runner_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

func TestRunsWaitForTheirTurn(t *testing.T) {
	b := newBed(t)
	b.Places(1)
	h := b.attach("h1", tipstaff.HostedAgent{Name: "critic", Effect: "read", Concurrency: 10})
	first, firstDone := b.beginRemote("read")
	call := b.call(h)
	second, secondDone := b.beginRemote("read")
	if got := b.get(second).Status; got != tipstaff.StatusQueued {
		t.Errorf("the second run is %s", got)
	}
	if call.Run != first {
		t.Errorf("run %s was asked for first", call.Run)
	}
	if err := h.Complete(cli(), given(call, `{}`)); err != nil {
		t.Fatal(err)
	}
	<-firstDone
	if err := h.Complete(cli(), given(b.call(h), `{}`)); err != nil {
		t.Fatal(err)
	}
	if driven := <-secondDone; driven.State != tipstaff.Completed {
		t.Errorf("the second run ended %+v", driven)
	}
}

// hanging is a run of a user that has a place, or waits for one, until it is let go.
func (b *bed) hanging(user string) tipstaff.ID {
	b.t.Helper()
	ctx := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "grpc", User: user, Principal: "token:" + user, Scopes: tipstaff.DefaultScopes()})
	s, err := b.Start(ctx, tipstaff.StartRequest{Name: "p.yaml", Program: []byte("name: p\nagents: [{name: hang, timeout_seconds: 600, scripted: {answers: [{hang: true}]}}]")})
	if err != nil {
		b.t.Fatal(err)
	}
	return s.Run
}

// recorded waits for a record of a kind.
func (b *bed) recorded(run tipstaff.ID, kind tipstaff.Kind) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(cli(), time.Minute)
	defer cancel()
	for e, err := range b.Events(ctx, tipstaff.EventsRequest{Run: run, Follow: true}) {
		if err != nil {
			b.t.Fatal(err)
		}
		if e.Kind == kind {
			return
		}
	}
	b.t.Fatalf("run %s has no record %s", run, kind)
}

// One user fills every place with runs that never end, and more of them: others have their
// turn all the same. Whoever has to wait can see it, and be cancelled; the record says it.
func TestHangingRunsKeepNobodyOut(t *testing.T) {
	b := newBed(t)
	b.Places(8) // of which one user has at most six
	var alices []tipstaff.ID
	for range 10 {
		alices = append(alices, b.hanging("alice"))
	}
	for i, run := range alices {
		if i < 6 {
			b.recorded(run, tipstaff.KindRunStarted)
			if slices.Contains(b.kinds(run), string(tipstaff.KindRunQueued)) {
				t.Errorf("run %d had a place at once, and says that it waited", i)
			}
			continue
		}
		b.recorded(run, tipstaff.KindRunQueued)
		got := b.get(run)
		if got.Status != tipstaff.StatusQueued || got.Condition != tipstaff.Waiting || got.Queued == nil || got.Queued.Place > i-5 {
			t.Errorf("run %d is %s, %s, %+v", i, got.Status, got.Condition, got.Queued)
		}
	}
	bob := b.hanging("bob")
	b.recorded(bob, tipstaff.KindStageStarted) // it is driven

	queued := alices[9]
	if got, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: queued, Reason: "no longer"}); err != nil || got.State != tipstaff.Cancelled {
		t.Errorf("a run that waits is cancelled as %s, %v", got.State, err)
	}
	// Each that ends makes room for the next, which says when it waited and when it started.
	for _, run := range append(alices[:2:2], bob) {
		if _, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run}); err != nil {
			t.Fatal(err)
		}
	}
	for _, run := range alices[6:8] {
		b.recorded(run, tipstaff.KindStageStarted)
		if kinds := b.kinds(run); slices.Index(kinds, string(tipstaff.KindRunQueued)) > slices.Index(kinds, string(tipstaff.KindRunStarted)) {
			t.Errorf("it recorded %v", kinds)
		}
	}
	for _, run := range alices[2:9] {
		if _, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run}); err != nil {
			t.Fatal(err)
		}
	}
}
