package tipstaff

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// Checkpoint is a boundary of a pipeline run to which it can be rolled back.
type Checkpoint struct {
	ID        string    `json:"id"`
	Envelope  string    `json:"envelope_id"`
	Run       ID        `json:"run_id"`
	Thread    string    `json:"thread_id"`
	Stage     string    `json:"stage"`
	Turn      int64     `json:"turn"`
	Seq       int64     `json:"seq"`
	Iteration int64     `json:"iteration"`
	Epoch     int64     `json:"epoch"`
	Parent    string    `json:"parent_id"`
	CreatedAt time.Time `json:"created_at"`
	Digest    string    `json:"digest"`
	Automatic bool      `json:"automatic"`
	Labels    []string  `json:"labels"`
	Size      int64     `json:"size_bytes"`
}

// StageTransition is one step of a pipeline from stage to stage.
type StageTransition struct {
	Seq int64 `json:"seq"`
	Transitioned
	Timestamp time.Time `json:"timestamp"`
	Run       ID        `json:"run_id"`
}

// CheckpointsOf lists the checkpoints of a run, oldest first, those included that it
// inherits: [Reader.Checkpoints] over the records.
func CheckpointsOf(ctx context.Context, svc Reader, run ID) ([]Checkpoint, error) {
	var list []Checkpoint
	places := map[string]int{}
	err := inheritedEvents(ctx, svc, run, func(e *Event, of Run) {
		if e.Kind != KindCheckpointCreated {
			return
		}
		var b CheckpointCreated
		if !decode(e.Body, &b) {
			return
		}
		c := Checkpoint{ID: b.ID, Run: e.Run, Stage: b.Stage, Turn: b.Turn, Seq: e.Seq, Iteration: b.Iteration, Epoch: b.Epoch, Parent: b.ParentID,
			CreatedAt: e.At, Digest: b.Digest, Automatic: b.Automatic, Labels: append([]string{}, b.Labels...), Size: int64(b.SizeBytes)}
		if of.Pipeline != nil {
			c.Envelope, c.Thread = of.Pipeline.Envelope, of.Pipeline.Thread
		}
		if i, had := places[c.ID]; had {
			list[i].Labels = append(list[i].Labels, c.Labels...) // the same boundary under a name
			return
		}
		places[c.ID] = len(list)
		list = append(list, c)
	})
	slices.SortStableFunc(list, func(a, b Checkpoint) int { return cmp.Compare(a.Turn, b.Turn) })
	return list, err
}

// Transitions lists the transitions of a run, oldest first, those included that it
// inherits.
func Transitions(ctx context.Context, svc Reader, run ID) ([]StageTransition, error) {
	var list []StageTransition
	err := inheritedEvents(ctx, svc, run, func(e *Event, _ Run) {
		if e.Kind != KindTransition {
			return
		}
		t := StageTransition{Run: e.Run, Timestamp: e.At}
		if json.Unmarshal(e.Body, &t) == nil {
			t.Seq = e.Seq
			list = append(list, t)
		}
	})
	return list, err
}

// inheritedEvents reads a run's records, and before them those of the run that it
// was forked from, up to where it was.
func inheritedEvents(ctx context.Context, svc Reader, run ID, take func(*Event, Run)) error {
	type part struct {
		run  Run
		upTo int64 // 0: all
	}
	var parts []part
	for id, upTo := run, int64(0); ; {
		r, err := svc.Get(ctx, id)
		if err != nil {
			return err
		}
		parts = append(parts, part{r, upTo})
		if l := r.Lineage; l == nil || l.Seq == 0 {
			break
		}
		id, upTo = r.Lineage.Parent, r.Lineage.Seq
	}
	for _, p := range slices.Backward(parts) {
		for e, err := range svc.Events(ctx, EventsRequest{Run: p.run.ID, Limit: int(p.upTo)}) {
			if err != nil {
				return err
			}
			take(&e, p.run)
		}
	}
	return nil
}

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
