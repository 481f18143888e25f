package tipstaff

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
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
	Left      bool      `json:"left,omitempty"` // behind, by a rollback: no run of the Envelope goes on from it
}

// StageTransition is one step of a pipeline from stage to stage.
type StageTransition struct {
	Seq int64 `json:"seq"`
	Transitioned
	Timestamp time.Time `json:"timestamp"`
	Run       ID        `json:"run_id"`
}

// CheckpointsOf lists the checkpoints of a run, oldest first, those included that it
// inherits and those that rollbacks on the way to it have left behind:
// [Reader.Checkpoints] over the records.
func CheckpointsOf(ctx context.Context, svc Reader, run ID) ([]Checkpoint, error) {
	var list []Checkpoint
	places, order := map[string]int{}, map[ID]int{}
	var turn int64 // the last that was inherited of the run that is read
	err := inheritedEvents(ctx, svc, run, func(e *Event, of *inheritance) {
		if e.Seq == 1 {
			turn, order[e.Run] = -1, len(order)
		}
		if e.Kind == KindTurnMerged && e.Seq <= of.upTo {
			turn = BodyOf[TurnMerged](e).Turn
		}
		var b CheckpointCreated
		if e.Kind != KindCheckpointCreated || !decode(e.Body, &b) {
			return
		}
		c := Checkpoint{ID: b.ID, Run: e.Run, Stage: b.Stage, Turn: b.Turn, Seq: e.Seq, Iteration: b.Iteration, Epoch: b.Epoch, Parent: b.ParentID,
			CreatedAt: e.At, Digest: b.Digest, Automatic: b.Automatic, Labels: append([]string{}, b.Labels...), Size: int64(b.SizeBytes),
			Left: e.Seq > of.upTo && b.Turn > turn}
		if p := of.run.Pipeline; p != nil {
			c.Envelope, c.Thread = p.Envelope, p.Thread
		}
		if i, had := places[c.ID]; had {
			list[i].Labels = append(list[i].Labels, c.Labels...) // the same boundary under a name
			return
		}
		places[c.ID] = len(list)
		list = append(list, c)
	})
	slices.SortStableFunc(list, func(a, b Checkpoint) int {
		return cmp.Or(cmp.Compare(order[a.Run], order[b.Run]), cmp.Compare(a.Turn, b.Turn))
	})
	return list, err
}

// Transitions lists the transitions of a run, oldest first, those included that it
// inherits and those that rollbacks on the way to it have left behind.
func Transitions(ctx context.Context, svc Reader, run ID) ([]StageTransition, error) {
	var list []StageTransition
	err := inheritedEvents(ctx, svc, run, func(e *Event, _ *inheritance) {
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

// inheritance is a run whose records another begins with, up to one of them. Further ones
// were left behind.
type inheritance struct {
	run   Run
	upTo  int64
	shown int64 // as far as it is read
}

// inheritedEvents reads a run's records, and before them those of the runs that it comes
// from, in the order in which those were made.
func inheritedEvents(ctx context.Context, svc Reader, id ID, take func(*Event, *inheritance)) error {
	run, err := svc.Get(ctx, id)
	if err != nil {
		return err
	}
	l := &line{svc: svc, parts: map[ID]*inheritance{}}
	if err := l.add(ctx, run, true); err != nil {
		return err
	}
	if err := l.addLeft(ctx, run); err != nil {
		return err
	}
	older := func(a, b *inheritance) int {
		return cmp.Or(a.run.CreatedAt.Compare(b.run.CreatedAt), strings.Compare(a.run.ID.String(), b.run.ID.String()))
	}
	for _, p := range slices.SortedFunc(maps.Values(l.parts), older) {
		for e, err := range svc.Events(ctx, EventsRequest{Run: p.run.ID, Limit: int(p.shown)}) {
			if err != nil {
				return err
			}
			take(&e, p)
		}
	}
	return nil
}

// line is the runs that a run comes from.
type line struct {
	svc   Reader
	parts map[ID]*inheritance
}

// add takes in a run and those that it was forked from, each up to there. Of the run
// that is asked about (head) that is what it inherits.
func (l *line) add(ctx context.Context, run Run, head bool) (err error) {
	for upTo := int64(math.MaxInt32); ; {
		p := l.parts[run.ID]
		if p == nil {
			p = &inheritance{run: run}
			l.parts[run.ID] = p
		}
		if p.shown = max(p.shown, upTo); head {
			p.upTo = upTo
		}
		from := run.Lineage
		if from == nil || from.Seq == 0 {
			return nil
		}
		upTo = from.Seq
		if known := l.parts[from.Parent]; known != nil {
			run = known.run
		} else if run, err = l.svc.Get(ctx, from.Parent); err != nil {
			return err
		}
	}
}

// addLeft takes in, whole, the runs in whose place a rollback has put another: those of
// the same Envelope that were made before.
func (l *line) addLeft(ctx context.Context, run Run) error {
	if run.Lineage == nil || run.Lineage.Relation != relationRollback || run.Pipeline == nil {
		return nil
	}
	for req := (ListRequest{Envelope: run.Pipeline.Envelope, Before: run.ID, Limit: 100}); ; {
		page, err := l.svc.List(ctx, req)
		if err != nil {
			return err
		}
		for _, left := range page.Runs {
			if from := left.Lineage; from != nil && from.Relation == relationAgent {
				continue
			}
			if err := l.add(ctx, left, false); err != nil {
				return err
			}
		}
		if req.Before = page.Next; req.Before.IsZero() {
			return nil
		}
	}
}
