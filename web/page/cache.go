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
)

// folds keeps runs as their records tell them: those looked at last, each continued by new
// records alone.
type folds struct {
	runs  tipstaff.Service
	turns chan struct{} // one for each fold at a time

	mu    sync.Mutex
	kept  []*fold // the one used last at the end
	bytes int64
}

// fold is one run up to a record. It is used by one at a time.
type fold struct {
	run    tipstaff.ID
	at     int64 // where it was asked to stop; 0: it goes on to the head
	bytes  int64 // by estimate
	use    sync.Mutex
	view   *tipstaff.View      // nil: nothing is folded yet
	graph  *tipstaff.GraphFold // nil: nobody has asked for it
	graphs int64               // the last record in it
}

func newFolds(runs tipstaff.Service) *folds {
	return &folds{runs: runs, turns: make(chan struct{}, foldsAtOnce)}
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
	if err := one.goOn(ctx, k.runs, r, at); err != nil {
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
	var best *fold
	for _, one := range k.kept {
		if one.run != r.ID || (one.at == 0) != (at == 0) || one.at > at {
			continue
		}
		if best == nil || one.at > best.at {
			best = one
		}
	}
	if best == nil {
		best = &fold{run: r.ID}
	}
	best.at = at
	return best
}

// keep puts a fold among those used last, and lets go of the oldest that do not fit.
func (k *folds) keep(one *fold) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remove(one)
	one.bytes = foldBytes + foldPerRecord*max(one.view.Seq, one.graphs)
	k.bytes += one.bytes
	k.kept = append(k.kept, one)
	for k.bytes > foldsMost && len(k.kept) > 1 {
		k.remove(k.kept[0])
	}
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

// goOn takes in the records up to one, 0 being the head.
func (f *fold) goOn(ctx context.Context, runs tipstaff.GraphReader, r tipstaff.Run, at int64) error {
	if f.view == nil {
		stages, err := stagesOf(ctx, runs, r)
		if err != nil {
			return err
		}
		f.view = tipstaff.NewView(nameOf(r), stages)
	}
	return after(ctx, runs, f.run, f.view.Seq, at, f.view.Apply)
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

// gates are the open ones, as far as the fold knows them.
func (f *fold) gates() (open []tipstaff.Gate) {
	for _, n := range f.view.Roots {
		n.Walk(func(n *tipstaff.Node) {
			for _, s := range n.Spans() {
				more := s.More()
				if s.Kind != tipstaff.SpanGate || s.State != tipstaff.NodeWaiting {
					continue
				}
				if id, err := tipstaff.ParseID(more.Gate); err == nil {
					open = append(open, tipstaff.Gate{ID: id, Kind: tipstaff.GateKind(s.Name), Key: s.Path, Path: n.Path, Question: more.Question, OpenedAt: s.Started(), OpenedSeq: s.First})
				}
			}
		})
	}
	return open
}
