package flowtest

import (
	"context"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// A suite that finds nothing must be able to find something.
func TestBrokenJournals(t *testing.T) {
	rec := func(seq int64, kind, path string, n int) flow.Record {
		return flow.Record{Seq: seq, Epoch: 1, Draft: flow.Draft{Kind: kind, Path: path, N: n, Body: flow.JSON(map[string]int{})}}
	}
	stale := rec(3, "clock.read", "root/now#1", 0)
	second := rec(2, "run.resumed", "", 0)
	second.Epoch = 2
	for name, c := range map[string]struct {
		records journal
		want    string
	}{
		"sound":            {journal{rec(1, "run.started", "", 0), rec(2, "effect.finished", "root/a", 0), rec(3, "intent.attest", "", 0)}, ""},
		"a gap":            {journal{rec(1, "run.started", "", 0), rec(3, "clock.read", "root/now#1", 0)}, "seq 3 follows 1"},
		"a second outcome": {journal{rec(1, "effect.finished", "root/a", 0), rec(2, "effect.finished", "root/a", 0)}, "after its outcome"},
		"a late attempt":   {journal{rec(1, "effect.finished", "root/a", 0), rec(2, "effect.intended", "root/a", 0)}, "after its outcome"},
		"two segments":     {journal{rec(1, "effect.finished", "root/a", 0), rec(2, "run.continued", "", 0), rec(3, "effect.finished", "root/a", 0)}, ""},
		"closed twice":     {journal{rec(1, "group.closed", "root/go#1", 0), rec(2, "group.closed", "root/go#1", 0)}, "a second group.closed"},
		"an event twice":   {journal{rec(1, "agent.said", "root", 1), rec(2, "agent.said", "root", 1)}, "is numbered 1"},
		"an event lost":    {journal{rec(1, "agent.said", "root", 2)}, "is numbered 2"},
		"after the end":    {journal{rec(1, "intent.fail", "", 0), rec(2, "run.interrupted", "", 0)}, "appended after intent.fail"},
		"a stale epoch":    {journal{rec(1, "run.started", "", 0), second, stale}, "epoch falls to 1"},
	} {
		got := c.records.broken()
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}

func TestOverdoneEffects(t *testing.T) {
	intent := flow.Record{Seq: 1, Draft: flow.Draft{Kind: "effect.intended", Path: "root/a", Body: flow.JSON(map[string]any{"class": "once", "attempt": 1})}}
	attempt := flow.Attempt{Path: "root/a", N: 1, Class: flow.Once, Key: "k"}
	again, foreign := attempt, attempt
	again.N, foreign.Key = 2, "other"
	for name, c := range map[string]struct {
		attempts []flow.Attempt
		journal  journal
		want     string
	}{
		"sound":         {[]flow.Attempt{attempt}, journal{intent}, ""},
		"twice":         {[]flow.Attempt{attempt, attempt}, journal{intent}, "was made twice"},
		"not intended":  {[]flow.Attempt{attempt}, nil, "without an intent"},
		"another retry": {[]flow.Attempt{attempt, again}, journal{intent}, "attempt 2 of the once call root/a was made without an intent"},
		"another key":   {[]flow.Attempt{attempt, foreign}, journal{intent}, "two idempotency keys"},
	} {
		r := &rig{t: t, world: NewWorld()}
		act := r.world.Activity(nil)
		for _, a := range c.attempts {
			if _, err := act.Run(context.Background(), a); err != nil {
				t.Fatal(err)
			}
		}
		if got := r.overdone(c.journal); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}

func TestDeadProcessesDoNothing(t *testing.T) {
	w := NewWorld()
	dead := make(chan struct{})
	close(dead)
	if _, err := w.Activity(dead).Run(context.Background(), flow.Attempt{Path: "root/a"}); err == nil || w.Count("root/a") != 0 {
		t.Errorf("a dead process reached the world: %v", w.Calls())
	}
}
