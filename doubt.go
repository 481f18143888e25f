package tipstaff

import (
	"context"
	"github.com/tipstaff/tipstaff/flow"
	"iter"
	"maps"
	"slices"
)

// Follower is the part of [Service] that reads records.
type Follower interface {
	Events(context.Context, EventsRequest) iter.Seq2[Event, error]
}

// Doubts are the paths of calls that may be made only once, and that a run had sent
// when it was interrupted and heard nothing of. No gate asks about them yet: theirs
// open when the run is resumed.
func Doubts(ctx context.Context, runs Follower, run ID) ([]string, error) {
	sent := map[string]bool{}
	for e, err := range runs.Events(ctx, EventsRequest{Run: run}) {
		if err != nil {
			return nil, err
		}
		switch e.Kind {
		case KindEffectIntended:
			if BodyOf[Effect](&e).Class == flow.Once {
				sent[e.Path] = true
			}
		case KindEffectFinished, KindEffectFailed, KindEffectSuspended:
			delete(sent, e.Path)
		case KindPolicyGate:
			if BodyOf[GateOpened](&e).Kind == string(InDoubt) {
				delete(sent, AskerPath(InDoubt, e.Path))
			}
		case KindRunContinued: // a segment begins while no call is under way
			clear(sent)
		}
	}
	return slices.Sorted(maps.Keys(sent)), nil
}
