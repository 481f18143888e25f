package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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

// Path is the curve as SVG writes it.
func (c Curve) Path() string {
	var b strings.Builder
	fmt.Fprintf(&b, "M%d %d", c.Start.X, c.Start.Y)
	for _, p := range c.Parts {
		if p.Straight {
			fmt.Fprintf(&b, "L%d %d", p.To.X, p.To.Y)
		} else {
			fmt.Fprintf(&b, "C%d %d %d %d %d %d", p.C1.X, p.C1.Y, p.C2.X, p.C2.Y, p.To.X, p.To.Y)
		}
	}
	return b.String()
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
	ends  []laneEnd
	lane  []int // by edge
}

// laneEnd is one end of an edge that goes in a lane.
type laneEnd struct {
	edge, node int
	entry      bool // it ends there
	side       bool // at the right side of the node
	at         Point
	track      int // y of the horizontal line
}

// Arrange lays out a diagram in ranks. The same diagram always gives the same layout.
func Arrange(d Diagram) Layout {
	l := &layout{Diagram: d, back: make([]bool, len(d.Edges)), chain: make([][]int, len(d.Edges)), lane: make([]int, len(d.Edges))}
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
	total := len(l.Nodes)
	for i, e := range l.Edges {
		if !l.back[i] {
			total += l.items[e.To].rank - l.items[e.From].rank - 1
		}
	}
	l.items = slices.Grow(l.items, total)
	for i, e := range l.Edges {
		if l.back[i] {
			continue
		}
		first := len(l.items)
		l.chain[i] = make([]int, 0, l.items[e.To].rank-l.items[e.From].rank+1)
		l.chain[i] = append(l.chain[i], e.From)
		for r := l.items[e.From].rank + 1; r < l.items[e.To].rank; r++ {
			l.chain[i] = append(l.chain[i], len(l.items))
			l.items = append(l.items, item{id: len(l.Nodes) + i, rank: r})
		}
		c := append(l.chain[i], e.To)
		l.chain[i] = c
		for k := range len(c) - 2 { // a line has one neighbour on either side
			l.items[first+k].up, l.items[first+k].down = c[k:k+1], c[k+2:k+3]
		}
		l.items[e.From].down = append(l.items[e.From].down, c[1])
		l.items[e.To].up = append(l.items[e.To].up, c[len(c)-2])
	}
	l.pos, l.x = make([]int, total), make([]int, total)
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
	for sweep := range 4 {
		down := sweep%2 == 0
		for n := range l.ranks {
			rank := l.ranks[n]
			if !down {
				rank = l.ranks[len(l.ranks)-1-n]
			}
			for _, i := range rank {
				key[i] = l.mean(i, down, l.pos, 1<<10)
			}
			slices.SortFunc(rank, func(a, b int) int {
				return cmp.Or(cmp.Compare(key[a], key[b]), cmp.Compare(l.items[a].id, l.items[b].id))
			})
			for pos, i := range rank {
				l.pos[i] = pos
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
	for pass := range 8 {
		down := pass%2 == 0
		for n := range l.ranks {
			rank := l.ranks[n]
			if !down {
				rank = l.ranks[len(l.ranks)-1-n]
			}
			l.settle(rank, down)
		}
	}
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

// lanes numbers the edges that lead back: self-loops first, then the shorter inside.
func (l *layout) lanes() {
	var back []int
	for i := range l.Edges {
		if l.back[i] {
			back = append(back, i)
		}
	}
	length := func(i int) int {
		n := l.items[l.Edges[i].From].rank - l.items[l.Edges[i].To].rank
		if l.Edges[i].From == l.Edges[i].To {
			return -1
		}
		return max(n, -n)
	}
	slices.SortStableFunc(back, func(a, b int) int {
		return cmp.Or(cmp.Compare(length(a), length(b)), cmp.Compare(l.items[l.Edges[b].From].rank, l.items[l.Edges[a].From].rank))
	})
	last := make([]int, len(l.ranks)) // the rightmost node of each rank
	for r, rank := range l.ranks {
		last[r] = -1
		for _, i := range rank {
			if i < len(l.Nodes) {
				last[r] = i
			}
		}
	}
	used := make([]int, len(l.Nodes))
	for n, i := range back {
		l.lane[i] = n + 1
		for _, end := range [...]laneEnd{{edge: i, node: l.Edges[i].From}, {edge: i, node: l.Edges[i].To, entry: true}} {
			if end.side = last[l.items[end.node].rank] == end.node && used[end.node] < sidePorts && !l.Nodes[end.node].Small; end.side {
				used[end.node]++
			}
			l.ends = append(l.ends, end)
		}
	}
	// From the left to the right along a node, and outermost first: so no line crosses
	// another of its own node.
	slices.SortStableFunc(l.ends, func(a, b laneEnd) int {
		return cmp.Or(cmp.Compare(l.items[a.node].rank, l.items[b.node].rank), cmp.Compare(l.pos[a.node], l.pos[b.node]), cmp.Compare(l.lane[b.edge], l.lane[a.edge]))
	})
}

// rows gives the ranks their heights, with room for the horizontal lines between them, and
// the ends in lanes their ports.
func (l *layout) rows() {
	perNode := make([][]*laneEnd, len(l.Nodes))
	above, below := make([]int, len(l.ranks)), make([]int, len(l.ranks))
	for k := range l.ends {
		e := &l.ends[k]
		perNode[e.node] = append(perNode[e.node], e)
		if r := l.items[e.node].rank; !e.side && e.entry {
			above[r]++
		} else if !e.side {
			below[r]++
		}
	}
	room := func(tracks int) int {
		if tracks == 0 {
			return 0
		}
		return clear + tracks*trackGap
	}
	y := margin + room(above[0])
	for r, rank := range l.ranks {
		l.top = append(l.top, y)
		up, down := above[r], below[r]
		for _, i := range rank {
			if i >= len(l.Nodes) {
				continue
			}
			box := Rect{l.x[i] - l.items[i].w/2, y, l.items[i].w, nodeHeight}
			if l.Nodes[i].Small {
				box = Rect{l.x[i] - smallSide/2, y + (nodeHeight-smallSide)/2, smallSide, smallSide}
			}
			l.out.Nodes[i] = box
			up, down = ports(perNode[i], box, y, up, down)
		}
		y += nodeHeight + room(below[r])
		if r < len(l.ranks)-1 {
			more := room(above[r+1])
			y += more + max(curveGap, rankGap-room(below[r])-more)
		}
	}
	l.out.Height = y + margin
}

// ports gives the ends at a node their places: those at its side in the upper half if they
// enter and the lower if they leave, others at the right of its top and bottom. Tracks
// are taken from the outermost on; up and down are how many are left.
func ports(ends []*laneEnd, box Rect, y, up, down int) (int, int) {
	var entries, exits, top, bottom []*laneEnd
	for _, e := range ends {
		switch {
		case e.side && e.entry:
			entries = append(entries, e)
		case e.side:
			exits = append([]*laneEnd{e}, exits...) // the innermost first
		case e.entry:
			top = append(top, e)
		default:
			bottom = append(bottom, e)
		}
	}
	side := append(entries, exits...)
	for k, e := range side {
		e.at = Point{box.X + box.W, box.Y + box.H/2}
		if len(side) > 1 {
			e.at.Y = box.Y + 10 + (box.H-20)*k/(len(side)-1)
		}
		e.track = e.at.Y
	}
	first, width := box.X+box.W*3/4, box.W/4-corner // beside the fan
	for k, e := range top {
		e.at = Point{first + 1 + width*(k+1)/(len(top)+1), box.Y}
		e.track = y - clear - (up-1)*trackGap
		up--
	}
	for k, e := range bottom {
		e.at = Point{first + 1 + width*(k+1)/(len(bottom)+1), box.Y + box.H}
		e.track = y + nodeHeight + clear + (down-1)*trackGap
		down--
	}
	return up, down
}

// draw makes the curves.
func (l *layout) draw() {
	right := 0
	for i, x := range l.x {
		right = max(right, x+l.items[i].w/2)
	}
	l.out.Width = right + margin
	starts, stops := l.fan(false), l.fan(true)
	for i := range l.Edges {
		if !l.back[i] {
			l.out.Edges[i] = l.descend(i, starts[i], stops[i])
		}
	}
	from, to := make([]laneEnd, len(l.Edges)), make([]laneEnd, len(l.Edges))
	for _, e := range l.ends {
		if e.entry {
			to[e.edge] = e
		} else {
			from[e.edge] = e
		}
	}
	for i, lane := range l.lane {
		if lane == 0 {
			continue
		}
		x := right + laneGap*lane
		l.out.Width = max(l.out.Width, x+laneGap/2+margin)
		a, b := from[i], to[i]
		c := rounded([]Point{a.at, {a.at.X, a.track}, {x, a.track}, {x, b.track}, {b.at.X, b.track}, b.at})
		c.Lane, c.Pill = lane, Point{x, (a.track + b.track) / 2}
		l.out.Edges[i] = c
	}
}

// fan spreads the ends of edges that lead down over the middle of the top or the bottom of
// their nodes, in the order of where they come from or lead to. It gives an x for each edge.
func (l *layout) fan(top bool) []int {
	at := make([]int, len(l.Edges))
	groups := make([][]int, len(l.Nodes))
	for i, c := range l.chain {
		if c != nil && top {
			groups[l.Edges[i].To] = append(groups[l.Edges[i].To], i)
		} else if c != nil {
			groups[l.Edges[i].From] = append(groups[l.Edges[i].From], i)
		}
	}
	far := func(i int) int {
		if top {
			return l.x[l.chain[i][len(l.chain[i])-2]]
		}
		return l.x[l.chain[i][1]]
	}
	for n, group := range groups {
		slices.SortStableFunc(group, func(a, b int) int { return cmp.Compare(far(a), far(b)) })
		box := l.out.Nodes[n]
		step := min(12, box.W/2/max(len(group), 1)) // of many they are one
		for k, i := range group {
			at[i] = box.X + box.W/2 + (2*k-len(group)+1)*step/2
		}
	}
	return at
}

// descend is the curve of an edge that leads down, from x to x.
func (l *layout) descend(i, from, to int) Curve {
	chain := l.chain[i]
	a, b := l.out.Nodes[chain[0]], l.out.Nodes[chain[len(chain)-1]]
	c := Curve{Start: Point{from, a.Y + a.H}}
	at := c.Start
	curve := func(p Point) {
		mid := (at.Y + p.Y) / 2
		c.Parts = append(c.Parts, Part{C1: Point{at.X, mid}, C2: Point{p.X, mid}, To: p})
		c.Pill = Point{(at.X + p.X) / 2, mid}
		at = p
	}
	for _, n := range chain[1 : len(chain)-1] {
		y := l.top[l.items[n].rank]
		curve(Point{l.x[n], y})
		at = Point{l.x[n], y + nodeHeight}
		c.Parts = append(c.Parts, Part{To: at, Straight: true})
	}
	curve(Point{to, b.Y})
	return c
}

// rounded is a line through points with round corners. Points that are the same are one.
func rounded(points []Point) Curve {
	points = slices.Compact(points)
	c := Curve{Start: points[0]}
	towards := func(a, b Point, n int) Point { // n pixels from a to b, along one axis
		return Point{a.X + max(-n, min(n, b.X-a.X)), a.Y + max(-n, min(n, b.Y-a.Y))}
	}
	far := func(a, b Point) int { return max(a.X-b.X, b.X-a.X, a.Y-b.Y, b.Y-a.Y) }
	for k := 1; k < len(points)-1; k++ {
		p := points[k]
		r := min(corner, far(p, points[k-1])/2, far(p, points[k+1])/2)
		end := towards(p, points[k+1], r)
		c.Parts = append(c.Parts, Part{To: towards(p, points[k-1], r), Straight: true}, Part{C1: p, C2: p, To: end})
	}
	c.Parts = append(c.Parts, Part{To: points[len(points)-1], Straight: true})
	return c
}
