package tipstaff

import (
	"context"
	"encoding/json"
	"slices"
	"time"
)

// Graph is the graph of a pipeline: its stages by index and the edges between them, with
// what a run has done in it up to a record. The shape is the program's alone (package
// pipeline gives it, and [Envelopes.Graph] as [GraphJSON]); a [GraphFold] fills in the rest.
type Graph struct {
	Name   string       `json:"name"`
	Stages []GraphStage `json:"stages"`
	Edges  []GraphEdge  `json:"edges"`
	// Iterations are the cycle edges that were taken, MaxIterations how many may be.
	Iterations    int64 `json:"iterations"`
	MaxIterations int64 `json:"max_iterations"`

	Seq  int64 `json:"seq,omitempty"` // the last record that is in it; 0: it is the shape alone
	Last *int  `json:"last,omitempty"`
	// Moves are transitions over no edge of the program: going on after a question, a
	// rollback, a follow-up, the end by a break.
	Moves []GraphMove `json:"moves,omitempty"`
}

// GraphJSON is the format in which [Envelopes.Graph] gives the shape of a pipeline.
const GraphJSON = "json"

// Ends of edges that are no stages.
const (
	GraphStart         = "start"
	GraphEnd           = "end"
	GraphClarification = "clarification"
	GraphConfirmation  = "confirmation"
)

// GraphStage is one stage.
type GraphStage struct {
	Name      string `json:"name"`
	Kind      string `json:"kind"`                 // the way it is run: model, worker, tool …
	Label     string `json:"label,omitempty"`      // who runs it
	Entry     bool   `json:"entry,omitempty"`      // the run begins here
	MaxVisits int64  `json:"max_visits,omitempty"` // 0: no limit of its own

	State   string        `json:"state"` // of its last visit, as a [NodeState]
	Visits  int64         `json:"visits,omitempty"`
	Attempt int64         `json:"attempt,omitempty"` // of the last visit
	Note    string        `json:"note,omitempty"`
	Started time.Time     `json:"started_at,omitzero"`
	Ended   time.Time     `json:"ended_at,omitzero"`
	Took    time.Duration `json:"took_ns,omitempty"`
	Calls   int64         `json:"llm_calls,omitempty"` // in all visits, like Cost
	Cost    USD           `json:"cost_usd,omitempty"`
}

// GraphEdgeKind is what makes an edge.
type GraphEdgeKind string

const (
	EdgeEntry    GraphEdgeKind = "entry"    // from start
	EdgeRequires GraphEdgeKind = "requires" // a dependency: no transition takes it
	EdgeAfter    GraphEdgeKind = "after"    // likewise, a soft one
	EdgeRoute    GraphEdgeKind = "route"    // a transition; its ways say when
)

// GraphEdge leads from one stage to another, to end, or to a question. Routes are keyed by
// their ends, as limits are: several ways may lead along one edge.
type GraphEdge struct {
	From string        `json:"from"`
	To   string        `json:"to"`
	Kind GraphEdgeKind `json:"kind"`
	Any  bool          `json:"any,omitempty"`   // of requires: one of them is enough
	Ways []GraphWay    `json:"ways,omitempty"`  // of a route
	Back bool          `json:"cycle,omitempty"` // it leads to a stage of the same or a lower index

	Limit   int64 `json:"limit,omitempty"`    // 0: only the iterations limit it, if it leads back
	PerPass bool  `json:"per_pass,omitempty"` // Limit is of each pass of a loop around it
	Renewed []int `json:"renewed,omitempty"`  // of PerPass: the edges that begin another pass

	Count   int64     `json:"count,omitempty"` // how often it was taken
	Pass    int64     `json:"pass,omitempty"`  // of PerPass: how often in this pass
	LastAt  time.Time `json:"last_at,omitzero"`
	LastSeq int64     `json:"last_seq,omitempty"`
	// Refused is the limit that stood in the way when the run last came here, Refusals how
	// often one did.
	Refused  string `json:"refused,omitempty"`
	Refusals int64  `json:"refusals,omitempty"`
}

// Used is how much of its limit an edge has used.
func (e *GraphEdge) Used() int64 {
	if e.PerPass {
		return e.Pass
	}
	return e.Count
}

// ErrorOnly reports whether only failures lead along the edge.
func (e *GraphEdge) ErrorOnly() bool {
	return len(e.Ways) > 0 && !slices.ContainsFunc(e.Ways, func(w GraphWay) bool { return w.Kind != WayError })
}

// GraphWay is one reason to take an edge.
type GraphWay struct {
	Kind  string `json:"kind"`           // rule, default, error, denied or end
	Rule  int    `json:"rule,omitempty"` // its number, from 1
	Label string `json:"label,omitempty"`
	Then  string `json:"then,omitempty"`  // of a question: where the run goes on
	Count int64  `json:"count,omitempty"` // how often it was the reason
}

// Kinds of ways. One whose rules and defaults say nothing ends the run.
const (
	WayRule    = "rule"
	WayDefault = "default"
	WayError   = "error"
	WayDenied  = "denied"
	WayEnd     = "end"
)

// GraphMove is a transition over no edge.
type GraphMove struct {
	From   string    `json:"from"`
	To     string    `json:"to"`
	Reason string    `json:"reason"`
	Count  int64     `json:"count"`
	LastAt time.Time `json:"last_at"`
}

// GraphFold follows a run through the graph of its pipeline. It is a pure fold: it can stop
// at any record and go on later.
type GraphFold struct {
	graph Graph
	view  *View // which knows the states of stages
	pairs map[[2]string]int
	moves map[GraphMove]int // by all but count and time
}

// NewGraphFold begins with the shape of a pipeline.
func NewGraphFold(shape Graph) *GraphFold {
	shape.Stages, shape.Edges = slices.Clone(shape.Stages), slices.Clone(shape.Edges)
	f := &GraphFold{graph: shape, pairs: map[[2]string]int{}, moves: map[GraphMove]int{}}
	outline := &Outline{Kind: ProgramPipeline, ID: shape.Name}
	for _, s := range shape.Stages {
		outline.Children = append(outline.Children, &Outline{Path: s.Name, ID: s.Name, Kind: s.Kind, Label: s.Label})
	}
	f.view = NewView(shape.Name, outline)
	for i := range shape.Edges {
		e := &f.graph.Edges[i]
		e.Ways = slices.Clone(e.Ways)
		if e.Kind == EdgeRoute || e.Kind == EdgeEntry {
			f.pairs[[2]string{e.From, e.To}] = i
		}
	}
	return f
}

// Apply takes in a record of the run.
func (f *GraphFold) Apply(e *Event) {
	if e.Seq > 0 {
		f.graph.Seq = e.Seq
	}
	f.apply(e, true)
}

// apply takes in a record of the run or of one that it comes from. What a rollback has left
// behind is counted, and is no state of a stage.
func (f *GraphFold) apply(e *Event, stays bool) {
	if stays && e.Seq == 1 { // the records of another run begin
		f.view.breakOff("")
		f.view.Fold = Fold{}
	}
	switch e.Kind {
	case KindIntentDraft:
		f.carry(BodyOf[IntentDraft](e).Rollback)
	case KindTransition:
		f.transition(e)
	case KindStageStarted:
		b := BodyOf[StageStarted](e)
		if i := f.stage(b.Stage); i >= 0 {
			f.graph.Stages[i].Visits = max(f.graph.Stages[i].Visits, b.Visit)
		}
	}
	if stays {
		f.view.Apply(e)
	}
}

// carry takes over the counters of the run that this one goes back in: they never go down,
// not even to what they were there.
func (f *GraphFold) carry(rollback json.RawMessage) {
	var b struct {
		Counters struct {
			Iteration  int64            `json:"iteration"`
			EdgeCounts []GraphEdge      `json:"edge_counts"`
			Visits     map[string]int64 `json:"visits"`
		} `json:"counters"`
	}
	if !decode(rollback, &b) {
		return
	}
	f.graph.Iterations = max(f.graph.Iterations, b.Counters.Iteration)
	for _, had := range b.Counters.EdgeCounts {
		if i, known := f.pairs[[2]string{had.From, had.To}]; known {
			edge := &f.graph.Edges[i]
			edge.Count, edge.Pass = max(edge.Count, had.Count), had.Pass
		}
	}
	for name, n := range b.Counters.Visits {
		if i := f.stage(name); i >= 0 {
			f.graph.Stages[i].Visits = max(f.graph.Stages[i].Visits, n)
		}
	}
}

func (f *GraphFold) stage(name string) int {
	return slices.IndexFunc(f.graph.Stages, func(s GraphStage) bool { return s.Name == name })
}

func (f *GraphFold) transition(e *Event) {
	var t Transitioned
	if !decode(e.Body, &t) {
		return
	}
	f.graph.Iterations = max(f.graph.Iterations, t.Iteration)
	i, known := f.pairs[[2]string{t.From, t.To}]
	if !known || !t.TakesEdge() && !t.Refused() {
		f.move(t, e.At)
		return
	}
	edge := &f.graph.Edges[i]
	if t.Refused() {
		edge.Refused = t.Reason
		edge.Refusals++
		return
	}
	if edge.Count++; t.EdgeCount > 0 {
		edge.Count = t.EdgeCount
	}
	edge.LastAt, edge.LastSeq, edge.Refused = e.At, e.Seq, ""
	edge.count(t)
	f.graph.Last = &i
	if edge.PerPass {
		edge.Pass++
	}
	if !edge.Back {
		return
	}
	for j := range f.graph.Edges {
		if inner := &f.graph.Edges[j]; slices.Contains(inner.Renewed, i) {
			inner.Pass = 0
		}
	}
}

// count notes which of its ways led along the edge.
func (e *GraphEdge) count(t Transitioned) {
	is := func(w GraphWay) bool {
		switch {
		case t.Rule > 0:
			return w.Rule == t.Rule
		case t.Reason == TransitionError:
			return w.Kind == WayError
		}
		return w.Rule == 0 && w.Kind != WayError
	}
	if i := slices.IndexFunc(e.Ways, is); i >= 0 {
		e.Ways[i].Count++
	}
}

func (f *GraphFold) move(t Transitioned, at time.Time) {
	m := GraphMove{From: t.From, To: t.To, Reason: t.Reason}
	i, known := f.moves[m]
	if !known {
		i = len(f.graph.Moves)
		f.moves[m] = i
		f.graph.Moves = append(f.graph.Moves, m)
	}
	f.graph.Moves[i].Count++
	f.graph.Moves[i].LastAt = at
}

// Graph is the graph as of the last record. It shares nothing with the fold.
func (f *GraphFold) Graph() Graph {
	g := f.graph
	g.Stages, g.Edges, g.Moves = slices.Clone(g.Stages), slices.Clone(g.Edges), slices.Clone(g.Moves)
	for i := range g.Edges {
		g.Edges[i].Ways = slices.Clone(g.Edges[i].Ways)
	}
	if limit, ok := f.view.Ledger.Limit[BoundIterations]; ok {
		g.MaxIterations = limit
	}
	for i := range g.Stages {
		s, n := &g.Stages[i], f.view.byPath[g.Stages[i].Name]
		s.State, s.Note, s.Started, s.Ended, s.Took = n.Effective().String(), n.Note, n.Started, n.Ended, n.Took
		s.Attempt, s.Calls, s.Cost = n.Stage.Attempt, n.Stage.Calls, n.Stage.Cost
	}
	return g
}

// TakesEdge reports whether the transition is one over an edge of the program. To go on after
// a question is none, nor is to enter a stage anew by a rollback or a follow-up.
func (t Transitioned) TakesEdge() bool {
	switch {
	case t.Refused(), t.Reason == TransitionResume, t.Reason == TransitionRollback:
		return false
	case t.Back():
		return t.EdgeCount > 0
	}
	return true
}

// GraphReader is what a graph is read from.
type GraphReader interface {
	Reader
	Graph(ctx context.Context, run ID, format string) ([]byte, error)
}

// GraphOf follows a pipeline run up to a record of its own, 0 being its head, through its
// graph: with what it inherits from others, and what rollbacks on the way to it have left
// behind. The fold can go on with later records of the run.
func GraphOf(ctx context.Context, svc GraphReader, run ID, at int64) (*GraphFold, error) {
	text, err := svc.Graph(ctx, run, GraphJSON)
	if err != nil {
		return nil, err
	}
	var shape Graph
	if err := json.Unmarshal(text, &shape); err != nil {
		return nil, err
	}
	f := NewGraphFold(shape)
	err = inheritedEvents(ctx, svc, run, func(e *Event, of *inheritance) {
		switch {
		case of.run.ID != run:
			f.apply(e, e.Seq <= of.upTo)
		case at == 0 || e.Seq <= at:
			f.Apply(e)
		}
	})
	return f, err
}
