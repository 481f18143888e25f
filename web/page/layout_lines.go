package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// laneEnd is one end of an edge that goes in a lane.
type laneEnd struct {
	edge, node int
	entry      bool // it ends there
	side       bool // at the right side of the node
	at         Point
	track      int // y of the horizontal line
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
		for k, node := range [...]int{l.Edges[i].From, l.Edges[i].To} {
			end := &laneEnd{edge: i, node: node, entry: k == 1}
			if end.side = last[l.items[end.node].rank] == end.node && used[end.node] < sidePorts && !l.Nodes[end.node].Small; end.side {
				used[end.node]++
			}
			l.ends, l.joins[i][k] = append(l.ends, end), end
		}
	}
	// From the left to the right along a node, and outermost first: so no line crosses
	// another of its own node.
	slices.SortStableFunc(l.ends, func(a, b *laneEnd) int {
		return cmp.Or(cmp.Compare(l.items[a.node].rank, l.items[b.node].rank), cmp.Compare(l.pos[a.node], l.pos[b.node]), cmp.Compare(l.lane[b.edge], l.lane[a.edge]))
	})
}

// rows gives the ranks their heights, with room for the horizontal lines between them, and
// the ends in lanes their ports.
func (l *layout) rows() {
	perNode := make([][]*laneEnd, len(l.Nodes))
	above, below := make([]int, len(l.ranks)), make([]int, len(l.ranks))
	for _, e := range l.ends {
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
	for i, lane := range l.lane {
		if lane == 0 {
			continue
		}
		x := right + laneGap*lane
		l.out.Width = max(l.out.Width, x+laneGap/2+margin)
		a, b := l.joins[i][0], l.joins[i][1]
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

// head is the arrow at the end of a curve, in the direction in which it arrives.
func head(c Curve) string {
	if len(c.Parts) == 0 {
		return ""
	}
	last := c.Parts[len(c.Parts)-1]
	from := last.C2
	if last.Straight {
		from = c.Start
		if len(c.Parts) > 1 {
			from = c.Parts[len(c.Parts)-2].To
		}
	}
	to := last.To
	if dx := to.X - from.X; dx != 0 && to.Y == from.Y {
		side := 7
		if dx > 0 {
			side = -7
		}
		return fmt.Sprintf("M%d %dl%d -4v8z", to.X, to.Y, side)
	}
	if to.Y < from.Y {
		return fmt.Sprintf("M%d %dl-4 7h8z", to.X, to.Y)
	}
	return fmt.Sprintf("M%d %dl-4 -7h8z", to.X, to.Y)
}
