package page

import (
	"cmp"
	"slices"
)

// Diagram is a graph to be drawn: stages by index, and then what else edges lead to.
type Diagram struct {
	Nodes []DiagramNode
	Edges []DiagramEdge
}

// DiagramNode is a box, or a small mark: the end, a question.
type DiagramNode struct{ Small bool }

// DiagramEdge joins two nodes, given by their places in the list.
type DiagramEdge struct {
	From, To int
	Firm     bool // a dependency: it leads down, whatever the indices are
}

// Layout is where everything stands, in pixels. It is a function of the diagram alone.
type Layout struct {
	Width, Height int
	Nodes         []Rect
	Edges         []Curve
}

// Rect is the place of a node.
type Rect struct{ X, Y, W, H int }

// Point is a place.
type Point struct{ X, Y int }

// Curve is the line of an edge.
type Curve struct {
	Start Point
	Parts []Part
	Pill  Point // the middle of its label
	Lane  int   // from 1, the innermost, of an edge that leads back; 0: it leads down
}

// Part is a cubic curve, or a straight line, from where the one before ended.
type Part struct {
	C1, C2, To Point
	Straight   bool
}

// Measures.
const (
	nodeWidth  = 168
	nodeHeight = 54
	smallSide  = 28
	smallSlot  = 84 // with the name below it
	nodeGap    = 36 // between two boxes
	lineGap    = 14 // beside a line that passes a rank
	rankGap    = 58 // at least
	trackGap   = 7  // between horizontal lines
	clear      = 14 // of arrowheads, before the first of them
	curveGap   = 30 // for the curves themselves
	laneGap    = 38 // a pill fits in it
	margin     = 24
	corner     = 8
	sidePorts  = 8 // ends at the right side of a node; more go above and below
)

// item is a node, or the place of an edge in a rank that it passes.
type item struct {
	id       int // of a node its index; of a line behind them
	rank     int
	w        int
	up, down []int
}

type layout struct {
	Diagram
	back  []bool  // edges that go in a lane
	items []item  // nodes first
	pos   []int   // of each item in its rank
	x     []int   // the middle of each item
	chain [][]int // of an edge that leads down: its items from end to end
	ranks [][]int
	top   []int // where the boxes of each rank begin
	out   Layout
	ends  []*laneEnd
	joins [][2]*laneEnd // of an edge that leads back: where it begins and ends
	lane  []int         // by edge
}

// Arrange lays out a diagram in ranks. The same diagram always gives the same layout.
func Arrange(d Diagram) Layout {
	l := &layout{Diagram: d, back: make([]bool, len(d.Edges)), chain: make([][]int, len(d.Edges)), joins: make([][2]*laneEnd, len(d.Edges)), lane: make([]int, len(d.Edges))}
	l.out = Layout{Nodes: make([]Rect, len(d.Nodes)), Edges: make([]Curve, len(d.Edges))}
	if len(d.Nodes) == 0 {
		return l.out
	}
	l.rank()
	l.thread()
	l.order()
	l.columns()
	l.lanes()
	l.rows()
	l.draw()
	return l.out
}

// rank puts every node one below the lowest of those that lead to it. Dependencies count
// first, then edges to a higher index, each unless it closes a cycle with those before.
func (l *layout) rank() {
	next := make([][]int, len(l.Nodes))
	closes := func(from, to int) bool {
		seen, stack := make([]bool, len(l.Nodes)), []int{to}
		for len(stack) > 0 {
			n := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if n == from {
				return true
			}
			if !seen[n] {
				seen[n] = true
				stack = append(stack, next[n]...)
			}
		}
		return false
	}
	order := make([]int, len(l.Edges))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := l.Edges[a], l.Edges[b]
		if x.Firm != y.Firm {
			return map[bool]int{true: -1, false: 1}[x.Firm]
		}
		return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To))
	})
	waits := make([]int, len(l.Nodes))
	for _, i := range order {
		e := l.Edges[i]
		if l.back[i] = !e.Firm && e.To <= e.From || closes(e.From, e.To); !l.back[i] {
			next[e.From] = append(next[e.From], e.To)
			waits[e.To]++
		}
	}
	l.items = make([]item, len(l.Nodes))
	var ready []int
	for n, small := range l.Nodes {
		l.items[n] = item{id: n, w: nodeWidth}
		if small.Small {
			l.items[n].w = smallSlot
		}
		if waits[n] == 0 {
			ready = append(ready, n)
		}
	}
	for len(ready) > 0 {
		n := ready[0]
		ready = ready[1:]
		for _, to := range next[n] {
			l.items[to].rank = max(l.items[to].rank, l.items[n].rank+1)
			if waits[to]--; waits[to] == 0 {
				ready = append(ready, to)
			}
		}
	}
}

// thread gives every edge that leads down a column in each rank that it passes.
func (l *layout) thread() {
	for i, e := range l.Edges {
		if l.back[i] {
			continue
		}
		chain := []int{e.From}
		for r := l.items[e.From].rank + 1; r < l.items[e.To].rank; r++ {
			chain = append(chain, len(l.items))
			l.items = append(l.items, item{id: len(l.Nodes) + i, rank: r})
		}
		l.chain[i] = append(chain, e.To)
		for k, below := range l.chain[i][1:] {
			above := chain[k]
			l.items[above].down = append(l.items[above].down, below)
			l.items[below].up = append(l.items[below].up, above)
		}
	}
	l.pos, l.x = make([]int, len(l.items)), make([]int, len(l.items))
	for i := range l.items {
		for len(l.ranks) <= l.items[i].rank {
			l.ranks = append(l.ranks, nil)
		}
		r := &l.ranks[l.items[i].rank]
		l.pos[i] = len(*r)
		*r = append(*r, i)
	}
}

// order sorts each rank by the barycentres of its neighbours: four sweeps, ties by index.
func (l *layout) order() {
	key := make([]int, len(l.items))
	l.sweep(4, func(rank []int, down bool) {
		for _, i := range rank {
			key[i] = l.mean(i, down, l.pos, 1<<10)
		}
		slices.SortFunc(rank, func(a, b int) int {
			return cmp.Or(cmp.Compare(key[a], key[b]), cmp.Compare(l.items[a].id, l.items[b].id))
		})
		for pos, i := range rank {
			l.pos[i] = pos
		}
	})
}

// sweep calls f with every rank, so many times: downwards, then upwards, and so on.
func (l *layout) sweep(times int, f func(rank []int, down bool)) {
	for n := range times {
		for r := range l.ranks {
			if n%2 == 0 {
				f(l.ranks[r], true)
			} else {
				f(l.ranks[len(l.ranks)-1-r], false)
			}
		}
	}
}

// mean is that of the values of the neighbours above an item, or below it, in parts of a unit;
// its own if there are none.
func (l *layout) mean(i int, above bool, values []int, unit int) int {
	near := l.items[i].down
	if above {
		near = l.items[i].up
	}
	if len(near) == 0 {
		return values[i] * unit
	}
	sum := 0
	for _, n := range near {
		sum += values[n]
	}
	return sum * unit / len(near)
}

// columns moves every item towards its neighbours, as far as those beside it permit.
func (l *layout) columns() {
	for _, rank := range l.ranks {
		for k, i := range rank {
			if k > 0 {
				l.x[i] = l.x[rank[k-1]] + l.apart(rank[k-1], i)
			}
		}
	}
	l.sweep(8, l.settle)
	left := l.x[0]
	for i, x := range l.x {
		left = min(left, x-l.items[i].w/2)
	}
	for i := range l.x {
		l.x[i] += margin - left
	}
}

// settle places a rank as near as it can to where its neighbours want it: the middle between
// the placement that makes room to the right and the one that makes room to the left, which
// keeps all distances since both do.
func (l *layout) settle(rank []int, down bool) {
	right, left := make([]int, len(rank)), make([]int, len(rank))
	for k, i := range rank {
		want := l.mean(i, down, l.x, 1)
		right[k], left[k] = want, want
		if k > 0 {
			right[k] = max(want, right[k-1]+l.apart(rank[k-1], i))
		}
	}
	for k := len(rank) - 2; k >= 0; k-- {
		left[k] = min(left[k], left[k+1]-l.apart(rank[k], rank[k+1]))
	}
	for k, i := range rank {
		l.x[i] = (right[k] + left[k]) >> 1
	}
}

// apart is how far the middles of two neighbours in a rank must be apart.
func (l *layout) apart(a, b int) int {
	gap := lineGap
	if a < len(l.Nodes) && b < len(l.Nodes) {
		gap = nodeGap
	}
	return (l.items[a].w+1)/2 + (l.items[b].w+1)/2 + gap
}
