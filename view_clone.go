package tipstaff

import (
	"encoding/json"
	"maps"
	"slices"
)

// Clone is the same view, which goes on by itself: what one of the two is told the other
// does not know. What never changes they share.
func (v *View) Clone() *View {
	c := *v
	stored, _ := json.Marshal(&v.Fold) // of which a store keeps no more
	c.Fold = *ReadFold(stored)
	c.Loops, c.drives, c.marks = slices.Clone(v.Loops), slices.Clone(v.drives), slices.Clip(v.marks)
	c.askers, c.names, c.approvals = maps.Clone(v.askers), maps.Clone(v.names), maps.Clone(v.approvals)
	c.byPath, c.spans, c.open = make(map[string]*Node, len(v.byPath)), make(map[string]*Span, len(v.spans)), make(map[*Span]bool, len(v.open))
	nodes, spans := make(map[*Node]*Node, len(v.byPath)), make(map[*Span]*Span, len(v.spans))
	c.Roots = cloneEach(v.Roots, func(n *Node) *Node { return n.clone(nodes, spans) })
	for path, n := range v.byPath {
		c.byPath[path] = nodes[n]
	}
	for path, s := range v.spans {
		c.spans[path] = s.clone(spans)
	}
	for s := range v.open {
		c.open[s.clone(spans)] = true
	}
	return &c
}

// clone copies a node with all below it, and notes which is whose.
func (n *Node) clone(nodes map[*Node]*Node, spans map[*Span]*Span) *Node {
	c := *n
	nodes[n] = &c
	again := func(n *Node) *Node { return n.clone(nodes, spans) }
	c.Children, c.Invocations = cloneEach(n.Children, again), cloneEach(n.Invocations, again)
	c.Stage, c.Invocation, c.Agent = cloneOf(n.Stage), cloneOf(n.Invocation), cloneOf(n.Agent)
	if c.Agent != nil {
		c.Agent.names, c.Agent.calls = maps.Clone(n.Agent.names), slices.Clone(n.Agent.calls)
	}
	c.spans = cloneEach(n.spans, func(s *Span) *Span { return s.clone(spans) })
	if n.call != nil {
		c.call = n.call.clone(spans)
	}
	return &c
}

// clone copies a span once.
func (s *Span) clone(spans map[*Span]*Span) *Span {
	c := spans[s]
	if c == nil {
		c = cloneOf(s)
		spans[s] = c
		if c.more = cloneOf(s.more); c.more != nil {
			c.more.Tries = slices.Clip(c.more.Tries)
		}
	}
	return c
}

func cloneOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

func cloneEach[T any](all []*T, clone func(*T) *T) []*T {
	if all == nil {
		return nil
	}
	c := make([]*T, len(all))
	for i, one := range all {
		c[i] = clone(one)
	}
	return c
}

// Clone is the same graph, which goes on by itself.
func (f *GraphFold) Clone() *GraphFold {
	c := *f
	c.graph = f.Graph() // its states come of the view
	c.view, c.moves = f.view.Clone(), maps.Clone(f.moves)
	return &c
}
