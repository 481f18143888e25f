package storetest

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// child makes a run that comes from another.
func (b *Bench) child(parent, relation string) string {
	b.Helper()
	drafts := Begun(b.Keys())
	var draft map[string]any
	err := json.Unmarshal(drafts[0].Body, &draft)
	if err == nil {
		draft["parent"] = map[string]string{"run": parent, "relation": relation}
		drafts[0].Body = flow.JSON(draft)
		id := tipstaff.NewID(time.Now()).String()
		if err = b.Create(context.Background(), flow.NewRun{ID: id, User: "local", Kind: "plan", Parent: parent}, drafts); err == nil {
			return id
		}
	}
	b.Fatal(err)
	return ""
}

// A run at rest is due as soon as a child that it has dispatched has ended, whichever comes
// first, whatever is written to it afterwards, and until it is driven.
func testTheEndOfAChildMakesItsParentDue(t *testing.T, place Place) {
	b := place.Bench(t, nil)
	due := func(run string) bool {
		runs, err := b.Due(context.Background(), Me.Kind)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Contains(runs, run)
	}
	park := func(l flow.Lease, runs ...string) {
		if parked, err := b.Park(l, flow.Parking{Runs: runs}); err != nil || !parked {
			t.Fatalf("parked %v: %v", parked, err)
		}
	}
	for name, c := range map[string]struct {
		relation string
		late     bool // the child ends before its parent parks
		seen     bool // which knows it
		due      bool
	}{
		"it ends while its parent rests":        {"dispatch", false, false, true},
		"it ends before its parent rests":       {"dispatch", true, false, true},
		"its parent has seen it end":            {"dispatch", true, true, false},
		"it is a fork":                          {"fork", false, false, false},
		"it has done an agent's work on a plan": {"agent", false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			parent := b.MustCreate()
			child := b.child(parent, c.relation)
			l := b.MustAcquire(parent)
			end := func() { b.MustAppend(b.MustAcquire(child), Terminals["completed"]) }
			if c.late {
				end()
			}
			if c.seen {
				park(l)
			} else {
				park(l, child)
			}
			if !c.late {
				if due(parent) {
					t.Error("it is due before anything has happened")
				}
				end()
			}
			b.MustWrite(parent, flow.Draft{Kind: "run.cancel_requested"}) // and whatever else is written to its row
			if due(parent) != c.due {
				t.Errorf("due: %v, want %v", !c.due, c.due)
			}
			b.MustAcquire(parent)
			if due(parent) {
				t.Error("it is due while it is driven")
			}
		})
	}
}

// A claim is undone by who has made it, and not by who had one before.
func testAClaimIsUndoneByItsHolderAlone(t *testing.T, place Place) {
	now := time.Now()
	o := NobodyLives()
	o.Now = func() time.Time { return now }
	b := place.Bench(t, o)
	run := b.MustCreate()
	b.MustWrite(run, flow.Draft{Kind: "run.queued", Body: Body(`{"driven":0,"places":1,"principal":"local","host":"here","daemon":{}}`)})
	claim := func(want string) int64 {
		t.Helper()
		got, at, err := b.Claim(context.Background(), "here", "local", 0)
		if err != nil || got != want {
			t.Fatalf("%q is taken, %v, want %q", got, err, want)
		}
		return at
	}
	unclaim := func(at int64) {
		t.Helper()
		if err := b.Unclaim(context.Background(), run, at); err != nil {
			t.Fatal(err)
		}
	}
	slow := claim(run)
	claim("")
	now = now.Add(time.Minute)
	later := claim(run) // for the first has died, it seems
	unclaim(slow)
	claim("")
	unclaim(later)
	claim(run)
}
