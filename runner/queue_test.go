package runner_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/runner"
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

// Another process sees that runs wait, and where each stands: lines are served in turn. It
// sees no queue any more when the daemon is gone.
func TestEveryProcessSeesTheQueue(t *testing.T) {
	b := newBed(t)
	b.Places(2)
	var runs []tipstaff.ID
	lives := true
	other := runner.New(runner.Config{Store: b.store, Workspace: b.dir, Self: b.Self, Alive: func(flow.Owner, time.Time, time.Time) bool { return lives }})
	for i, user := range []string{"alice", "bob", "alice", "alice", "bob"} {
		runs = append(runs, b.hanging(user))
		if i < 2 {
			b.recorded(runs[i], tipstaff.KindStageStarted)
			continue
		}
		b.recorded(runs[i], tipstaff.KindRunQueued) // two at the same moment have no order that others could see
	}
	for i, want := range []int{0, 0, 1, 3, 1} {
		for name, svc := range map[string]tipstaff.Service{"the daemon": b.Runner, "another process": other} {
			got, err := svc.Get(cli(), runs[i])
			if err != nil {
				t.Fatal(err)
			}
			place := 0
			if got.Queued != nil {
				place = got.Queued.Place
			}
			if place != want || (got.Status == tipstaff.StatusQueued) != (want > 0) {
				t.Errorf("%s: run %d is %s at place %d, want %d", name, i, got.Status, place, want)
			}
		}
	}
	if n, err := other.TakeUp(cli(), "daemon"); n != 0 || err != nil {
		t.Errorf("another daemon has taken up %d runs that wait for this one: %v", n, err)
	}
	lives = false
	gone := runner.New(other.Config)
	if got, err := gone.Get(cli(), runs[3]); err != nil || got.Status != tipstaff.StatusAwaitingResume || got.Queued != nil {
		t.Errorf("without its daemon it is %s, %+v, %v", got.Status, got.Queued, err)
	}
	for _, run := range runs {
		if _, err := b.Cancel(cli(), tipstaff.CancelRequest{Run: run}); err != nil {
			t.Fatal(err)
		}
	}
}
