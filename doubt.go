package tipstaff

import (
	"context"
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
		var body struct {
			Class string   `json:"class"`
			Gate  GateKind `json:"gate_kind"`
		}
		switch e.Kind {
		case KindEffectIntended:
			if decode(e.Body, &body) && body.Class == "once" {
				sent[e.Path] = true
			}
		case KindEffectFinished, KindEffectFailed, KindEffectSuspended:
			delete(sent, e.Path)
		case KindPolicyGate:
			if decode(e.Body, &body) && body.Gate == InDoubt {
				delete(sent, AskerPath(InDoubt, e.Path))
			}
		case KindRunContinued: // a segment begins while no call is under way
			clear(sent)
		}
	}
	return slices.Sorted(maps.Keys(sent)), nil
}
