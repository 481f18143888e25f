package page

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/tipstaff/tipstaff"
)

// Limits of the folded runs that are kept.
const (
	foldsAtOnce   = 4
	foldsMost     = 64 << 20 // bytes, by estimate
	foldBytes     = 16 << 10 // of a fold without records
	foldPerRecord = 168      // what a record adds to it, by estimate
	foldsEvery    = 10_000   // records after which a copy is kept, to go on from to any moment
)

// folds keeps runs as their records tell them: those looked at last, each continued by new
// records alone, and where there is room copies of what they were on the way.
type folds struct {
	runs  tipstaff.Service
	every int64
	turns chan struct{} // one for each fold at a time

	mu    sync.Mutex
	kept  []*fold // the one used last at the end
	bytes int64
}

// fold is one run up to a record. It is used by one at a time.
type fold struct {
	run    tipstaff.ID
	at     int64 // where it was asked to stop; 0: it goes on to the head
	stays  bool  // it is a copy that never goes on
	bytes  int64 // by estimate
	use    sync.Mutex
	view   *tipstaff.View      // nil: nothing is folded yet
	graph  *tipstaff.GraphFold // nil: nobody has asked for it
	graphs int64               // the last record in it
}

func newFolds(runs tipstaff.Service) *folds {
	return &folds{runs: runs, every: foldsEvery, turns: make(chan struct{}, foldsAtOnce)}
}

// with calls f with a run as of a record, 0 being its head. f keeps nothing of the fold: it
// goes on when f has returned.
func (k *folds) with(ctx context.Context, r tipstaff.Run, at int64, f func(*fold) error) error {
	select {
	case k.turns <- struct{}{}:
		defer func() { <-k.turns }()
	case <-ctx.Done():
		return ctx.Err()
	}
	one := k.take(r, at)
	one.use.Lock()
	defer one.use.Unlock()
	if at > 0 && one.view != nil && one.view.Seq > at { // somebody has gone on with it meanwhile
		one = &fold{run: r.ID, at: at}
		one.use.Lock()
		defer one.use.Unlock()
	}
	if err := k.goOn(ctx, one, r, at); err != nil {
		k.drop(one)
		return err
	}
	k.keep(one)
	return f(one)
}

// take finds the fold to go on with: that of the head or, for an earlier record, the one
// that has come nearest to it.
func (k *folds) take(r tipstaff.Run, at int64) *fold {
	k.mu.Lock()
	defer k.mu.Unlock()
	best := k.nearest(func(one *fold) bool {
		return !one.stays && one.run == r.ID && (one.at == 0) == (at == 0) && one.at <= at
	})
	if held := k.copyOf(r.ID, at); best == nil || held != nil && at > 0 && held.at > best.at {
		best = &fold{run: r.ID}
	}
	best.at = at
	return best
}

// copyOf is the last copy that a run can go on from to a record, 0 being its head; nil: there
// is none.
func (k *folds) copyOf(run tipstaff.ID, at int64) *fold {
	return k.nearest(func(one *fold) bool { return one.stays && one.run == run && (at == 0 || one.at <= at) })
}

// nearest is the fold that stops last of those that will do.
func (k *folds) nearest(does func(*fold) bool) (best *fold) {
	for _, one := range k.kept {
		if does(one) && (best == nil || one.at > best.at) {
			best = one
		}
	}
	return best
}

// keep puts a fold among those used last, and lets go of what does not fit: the longest
// copies, then what was used before all else.
func (k *folds) keep(one *fold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remove(one)
	one.bytes = sizeOf(max(one.view.Seq, one.graphs))
	k.bytes += one.bytes
	k.kept = append(k.kept, one)
	for k.bytes > foldsMost && len(k.kept) > 1 {
		if longest := k.nearest(func(one *fold) bool { return one.stays }); longest != nil {
			k.remove(longest)
		} else {
			k.remove(k.kept[0])
		}
	}
}

// sizeOf is how much the fold of so many records takes.
func sizeOf(records int64) int64 { return foldBytes + foldPerRecord*records }

// hold keeps a copy of a fold that goes on, if there is room beside that. Only who asks for a
// moment asks for others: the first look at a run does not pay for them.
func (k *folds) hold(one *fold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := one.view.Seq
	if had := k.copyOf(one.run, at); had != nil && had.at == at || k.bytes+sizeOf(at)+sizeOf(one.at) > foldsMost {
		return
	}
	k.bytes += sizeOf(at)
	k.kept = append(k.kept, &fold{run: one.run, at: at, stays: true, bytes: sizeOf(at), view: one.view.Clone()})
}

func (k *folds) drop(one *fold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remove(one)
}

func (k *folds) remove(one *fold) {
	for i, had := range k.kept {
		if had == one {
			k.kept = append(k.kept[:i:i], k.kept[i+1:]...)
			k.bytes -= one.bytes
			return
		}
	}
}

// goOn takes in the records up to one, 0 being the head. A new fold begins with a copy, if
// there is one.
func (k *folds) goOn(ctx context.Context, f *fold, r tipstaff.Run, at int64) error {
	if f.view == nil {
		k.mu.Lock()
		held := k.copyOf(r.ID, at)
		k.mu.Unlock()
		if err := f.begin(ctx, k.runs, r, held); err != nil {
			return err
		}
	}
	return after(ctx, k.runs, f.run, f.view.Seq, at, func(e *tipstaff.Event) {
		if f.view.Apply(e); at > 0 && e.Seq%k.every == 0 {
			k.hold(f)
		}
	})
}

// begin makes a fold of nothing, or of a copy.
func (f *fold) begin(ctx context.Context, runs tipstaff.GraphReader, r tipstaff.Run, held *fold) error {
	if held == nil {
		stages, err := stagesOf(ctx, runs, r)
		if err == nil {
			f.view = tipstaff.NewView(nameOf(r), stages)
		}
		return err
	}
	if r.Program.Kind == tipstaff.ProgramPipeline {
		held.use.Lock()
		defer held.use.Unlock()
		if _, err := held.follow(ctx, runs); err != nil {
			return err
		}
		f.graph, f.graphs = held.graph.Clone(), held.graphs
	}
	f.view = held.view.Clone()
	return nil
}

// stagesOf is the outline of a pipeline; nil: the run is of none, and its tree grows as its
// records name places.
func stagesOf(ctx context.Context, runs tipstaff.GraphReader, r tipstaff.Run) (*tipstaff.Outline, error) {
	if r.Program.Kind != tipstaff.ProgramPipeline {
		return nil, nil
	}
	text, err := runs.Graph(ctx, r.ID, tipstaff.GraphJSON)
	if err != nil {
		return nil, err
	}
	var shape tipstaff.Graph
	if err := json.Unmarshal(text, &shape); err != nil {
		return nil, err
	}
	o := &tipstaff.Outline{Kind: tipstaff.ProgramPipeline, ID: shape.Name}
	for _, s := range shape.Stages {
		o.Children = append(o.Children, &tipstaff.Outline{Path: s.Name, ID: s.Name, Kind: s.Kind, Label: s.Label})
	}
	return o, nil
}

// follow gives the graph of a pipeline, as of the same record as the view.
func (f *fold) follow(ctx context.Context, runs tipstaff.GraphReader) (tipstaff.Graph, error) {
	if f.graph == nil {
		g, err := tipstaff.GraphOf(ctx, runs, f.run, f.view.Seq)
		if err != nil {
			return tipstaff.Graph{}, err
		}
		f.graph, f.graphs = g, f.view.Seq
	}
	err := after(ctx, runs, f.run, f.graphs, f.view.Seq, func(e *tipstaff.Event) {
		f.graph.Apply(e)
		f.graphs = e.Seq
	})
	return f.graph.Graph(), err
}

// after calls take with the records of a run after one and up to another, 0 being its head.
func after(ctx context.Context, runs tipstaff.Reader, run tipstaff.ID, from, to int64, take func(*tipstaff.Event)) error {
	if to > 0 && to <= from {
		return nil
	}
	req := tipstaff.EventsRequest{Run: run, After: from}
	if to > 0 {
		req.Limit = int(to - from)
	}
	for e, err := range runs.Events(ctx, req) {
		if err != nil {
			return err
		}
		if to > 0 && e.Seq > to {
			return nil
		}
		take(&e)
	}
	return nil
}
