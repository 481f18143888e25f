package flowtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
)

// replay drives the program on the records alone. Nothing may be performed.
func (r *rig) replay(h flow.History) flow.Outcome {
	r.t.Helper()
	forbidden := flow.Activity{Run: func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		return flow.Done{}, fmt.Errorf("replay performed %s", a.Path)
	}}
	engine := flow.Verify(h)
	if r.reclassed {
		engine = flow.Replay(h)
	}
	return r.begin(engine, forbidden).wait()
}

// agree checks that a replay of the ended run takes the same way as its last
// drive, and that the journal keeps the engine's rules.
func (r *rig) agree(live flow.Outcome) {
	r.t.Helper()
	seen := r.sights()
	again := r.replay(r.history())
	if got, want := describe(again), describe(live); got != want {
		r.t.Fatalf("replay ended %s, the run %s%v", got, want, r.journal())
	}
	if !sameUse(again.Used, live.Used) || !sameUse(again.Held, live.Held) {
		r.t.Fatalf("replay counts %+v, the run %+v%v", again.Tally, live.Tally, r.journal())
	}
	if now := r.sights(); !maps.Equal(seen, now) {
		r.t.Fatalf("replay saw other things than the drive:\n%s%v", difference(seen, now), r.journal())
	}
	r.audit()
}

// describe is all of an outcome that a replay must reproduce.
func describe(out flow.Outcome) string {
	s := string(out.Status) + " " + string(out.Value)
	if out.Err != nil {
		s += " " + out.Err.Error()
	}
	return s
}

func difference(want, got map[string]string) string {
	var b strings.Builder
	places := slices.Sorted(maps.Keys(want))
	for k := range got {
		if _, ok := want[k]; !ok {
			places = append(places, k)
		}
	}
	for _, k := range places {
		if want[k] != got[k] {
			fmt.Fprintf(&b, "\t%s: live %q, replayed %q\n", k, want[k], got[k])
		}
	}
	return b.String()
}
