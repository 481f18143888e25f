package page

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// diagram is one of so many stages, and an end behind them.
func diagram(stages int, edges ...DiagramEdge) Diagram {
	d := Diagram{Nodes: make([]DiagramNode, stages+1), Edges: edges}
	d.Nodes[stages].Small = true
	return d
}

func route(from, to int) DiagramEdge   { return DiagramEdge{From: from, To: to} }
func require(from, to int) DiagramEdge { return DiagramEdge{From: from, To: to, Firm: true} }

// looping is a pipeline as people write them.
func looping() Diagram {
	const intent, research, plan, work, test, repair, critic, end = 0, 1, 2, 3, 4, 5, 6, 7
	return diagram(7, route(intent, research), route(intent, plan), require(research, work), require(plan, work),
		route(work, test), route(work, critic), route(work, repair), require(test, critic), route(repair, repair), route(repair, end),
		route(test, work), route(critic, work), route(critic, intent), route(critic, end), route(intent, end))
}

func TestLayoutsByHand(t *testing.T) {
	for name, d := range map[string]Diagram{
		"none":           {},
		"one stage":      diagram(1, route(0, 1)),
		"alone":          {Nodes: make([]DiagramNode, 1)},
		"self-loop":      diagram(1, route(0, 0), route(0, 1)),
		"two self-loops": diagram(1, route(0, 0), route(0, 0)),
		"double edge":    diagram(2, route(0, 1), require(0, 1), route(1, 2), route(1, 0), route(1, 0)),
		"two components": diagram(4, route(0, 1), route(1, 0), route(2, 3), route(3, 2), route(3, 3)),
		"diamond":        diagram(4, require(0, 1), require(0, 2), require(1, 3), require(2, 3), route(3, 4), route(3, 0)),
		"plain loop":     diagram(3, route(0, 1), route(1, 2), route(2, 0), route(2, 3)),
		"looping":        looping(),
		"against order":  diagram(3, require(2, 0), route(0, 2), route(0, 1), route(1, 3), route(2, 1)),
		"cyclic demands": diagram(2, require(0, 1), require(1, 0)),
		"siblings":       diagram(3, require(0, 1), require(0, 2), route(2, 1), route(1, 1), route(2, 2)),
		"60 stages":      large(60, 120),
		"300 stages":     large(300, 600),
	} {
		t.Run(name, func(t *testing.T) { wantSound(t, d) })
	}
}

// Positions that follow from the rules alone.
func TestLayoutRanks(t *testing.T) {
	got := Arrange(looping()).Nodes
	rows := [][]int{{0}, {1, 2}, {3}, {4, 5}, {6}, {7}}
	for r, row := range rows {
		for _, n := range row {
			for _, m := range slices.Concat(rows[r+1:]...) {
				if got[n].Y+got[n].H >= got[m].Y {
					t.Errorf("stage %d at %v is not above %d at %v", n, got[n], m, got[m])
				}
			}
			if got[n].Y != got[row[0]].Y {
				t.Errorf("stage %d at %v stands beside %d at %v", n, got[n], row[0], got[row[0]])
			}
		}
	}
	if middle := func(r Rect) int { return r.X + r.W/2 }; middle(got[3]) <= middle(got[1]) || middle(got[3]) >= middle(got[2]) {
		t.Errorf("work at %v is not between what it requires, %v and %v", got[3], got[1], got[2])
	}
}

// A self-loop is the innermost lane, the longest way back the outermost.
func TestLayoutLanes(t *testing.T) {
	l := Arrange(looping())
	for edge, want := range map[int]int{8: 1, 10: 2, 11: 3, 12: 4, 0: 0, 13: 0, 14: 0} {
		if got := l.Edges[edge].Lane; got != want {
			t.Errorf("edge %d is in lane %d, want %d", edge, got, want)
		}
	}
}

// A node with nothing beside it is left and entered at its side.
func TestLayoutSides(t *testing.T) {
	l := Arrange(diagram(2, route(0, 1), route(1, 0), route(1, 2)))
	for n, p := range map[int]Point{1: l.Edges[1].Start, 0: last(l.Edges[1])} {
		if box := l.Nodes[n]; p.X != box.X+box.W || p.Y <= box.Y || p.Y >= box.Y+box.H {
			t.Errorf("the way back ends at %v, and not at the right side of %v", p, box)
		}
	}
}

func large(stages, edges int) Diagram {
	d := diagram(stages)
	seed := uint32(7)
	next := func(n int) int { seed = seed*1664525 + 1013904223; return int(seed>>8) % n }
	for i := range stages {
		d.Edges = append(d.Edges, route(i, i+1))
	}
	for len(d.Edges) < edges {
		from := next(stages)
		switch next(4) {
		case 0:
			d.Edges = append(d.Edges, route(from, next(from+1)))
		case 1:
			d.Edges = append(d.Edges, route(from, stages))
		default:
			d.Edges = append(d.Edges, route(from, min(from+1+next(8), stages)))
		}
	}
	return d
}

func TestLayoutsAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stages := rapid.IntRange(1, 24).Draw(t, "stages")
		d := diagram(stages)
		for range rapid.IntRange(0, 40).Draw(t, "edges") {
			d.Edges = append(d.Edges, DiagramEdge{From: rapid.IntRange(0, stages-1).Draw(t, "from"), To: rapid.IntRange(0, stages).Draw(t, "to"),
				Firm: rapid.IntRange(0, 3).Draw(t, "firm") == 0})
		}
		wantSound(t, d)
	})
}

func last(c Curve) Point { return c.Parts[len(c.Parts)-1].To }

// points are many along a curve.
func points(c Curve) (all []Point) {
	at := c.Start
	for _, p := range c.Parts {
		c1, c2 := p.C1, p.C2
		if p.Straight {
			c1, c2 = at, p.To
		}
		const n = 32
		for k := range n + 1 {
			a, b := n-k, k
			mix := func(w, x, y, z int) int { return (a*a*a*w + 3*a*a*b*x + 3*a*b*b*y + b*b*b*z) / (n * n * n) }
			all = append(all, Point{mix(at.X, c1.X, c2.X, p.To.X), mix(at.Y, c1.Y, c2.Y, p.To.Y)})
		}
		at = p.To
	}
	return all
}

// span is a straight piece of a lane.
type span struct {
	across    bool // horizontal
	at        int
	low, high int
	edge      int
}

func spans(edge int, c Curve) (all []span) {
	at := c.Start
	for _, p := range c.Parts {
		switch {
		case !p.Straight || at == p.To:
		case at.Y == p.To.Y:
			all = append(all, span{true, at.Y, min(at.X, p.To.X), max(at.X, p.To.X), edge})
		default:
			all = append(all, span{false, at.X, min(at.Y, p.To.Y), max(at.Y, p.To.Y), edge})
		}
		at = p.To
	}
	return all
}

type failing interface {
	Helper()
	Errorf(string, ...any)
	Fatalf(string, ...any)
}

// wantSound checks what holds of every layout.
func wantSound(t failing, d Diagram) {
	t.Helper()
	before := Diagram{slices.Clone(d.Nodes), slices.Clone(d.Edges)}
	l := Arrange(d)
	if again := Arrange(d); !reflect.DeepEqual(l, again) || svg(d, l) != svg(d, again) || !reflect.DeepEqual(d, before) {
		t.Fatalf("laid out again it is another, or the diagram was changed")
	}
	for i, a := range l.Nodes {
		if a.X < 0 || a.Y < 0 || a.X+a.W > l.Width || a.Y+a.H > l.Height {
			t.Errorf("node %d at %v is outside of %d by %d", i, a, l.Width, l.Height)
		}
		for j, b := range l.Nodes[:i] {
			if a.X < b.X+b.W+lineGap && b.X < a.X+a.W+lineGap && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("nodes %d and %d overlap: %v %v", i, j, a, b)
			}
		}
	}
	entry := slices.ContainsFunc(d.Edges, func(e DiagramEdge) bool { return e.Firm && e.To == 0 })
	for i, box := range l.Nodes {
		if !entry && !d.Nodes[0].Small && box.Y < l.Nodes[0].Y {
			t.Errorf("node %d stands above the entry: %v %v", i, box, l.Nodes[0])
		}
	}
	ports, lanes := map[Point]int{}, map[int]int{}
	var lines []span
	for i, c := range l.Edges {
		e := d.Edges[i]
		if !onBorder(l.Nodes[e.From], c.Start) || !onBorder(l.Nodes[e.To], last(c)) {
			t.Errorf("edge %d, %+v, is not at its nodes: %v to %v", i, e, c.Start, last(c))
		}
		for _, p := range points(c) {
			if p.X < 0 || p.Y < 0 || p.X > l.Width || p.Y > l.Height {
				t.Errorf("edge %d leaves the drawing at %v", i, p)
			}
			for n, box := range l.Nodes {
				if p.X > box.X && p.X < box.X+box.W && p.Y > box.Y && p.Y < box.Y+box.H {
					t.Errorf("edge %d, %+v, runs through node %d, %v, at %v", i, e, n, box, p)
				}
			}
		}
		if c.Lane == 0 {
			if last(c).Y <= c.Start.Y || !e.Firm && e.To <= e.From {
				t.Errorf("edge %d, %+v, leads back and has no lane", i, e)
			}
			for j, other := range l.Edges[:i] {
				if d.Edges[j].From == e.From && d.Edges[j].To == e.To && other.Lane == 0 && other.Path() == c.Path() {
					t.Errorf("edges %d and %d, which are double, are one line", i, j)
				}
			}
			continue
		}
		if had, taken := lanes[c.Lane]; taken {
			t.Errorf("edges %d and %d are in one lane", i, had)
		}
		lanes[c.Lane] = i
		for _, p := range []Point{c.Start, last(c)} {
			if had, taken := ports[p]; taken {
				t.Errorf("edges %d and %d end at one port, %v", i, had, p)
			}
			ports[p] = i
		}
		lines = append(lines, spans(i, c)...)
	}
	for i, c := range l.Edges {
		for _, p := range []Point{c.Start, last(c)} {
			if had, taken := ports[p]; taken && c.Lane == 0 {
				t.Errorf("edge %d, which leads down, ends at the port of %d, %v", i, had, p)
			}
		}
	}
	for i, a := range lines {
		for _, b := range lines[:i] {
			if a.edge != b.edge && a.across == b.across && a.at == b.at && a.low < b.high && b.low < a.high {
				t.Errorf("edges %d and %d run over each other: %+v %+v", a.edge, b.edge, a, b)
			}
		}
	}
	for i, a := range l.Edges {
		for _, b := range l.Edges[:i] {
			if a.Lane > 0 && b.Lane > 0 && abs(a.Pill.X-b.Pill.X) < 34 && abs(a.Pill.Y-b.Pill.Y) < 20 {
				t.Errorf("the pills at %v and %v overlap", a.Pill, b.Pill)
			}
		}
	}
}

func abs(n int) int { return max(n, -n) }

func onBorder(r Rect, p Point) bool {
	inside := p.X >= r.X && p.X <= r.X+r.W && p.Y >= r.Y && p.Y <= r.Y+r.H
	return inside && (p.X == r.X || p.X == r.X+r.W || p.Y == r.Y || p.Y == r.Y+r.H)
}

// svg is a plain drawing, for the eye.
func svg(d Diagram, l Layout) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12" fill="none"><rect width="100%%" height="100%%" fill="#14151a"/>`, l.Width, l.Height)
	fmt.Fprint(&b, `<defs><marker id="a" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" fill="#9aa0ff"/></marker></defs>`)
	for i, c := range l.Edges {
		colour := "#a0a0a8"
		switch {
		case c.Lane > 0:
			colour = "#8f9bff"
		case d.Edges[i].Firm:
			colour = "#ffffff"
		}
		fmt.Fprintf(&b, `<path d="%s" stroke="%s" stroke-width="1.5" marker-end="url(#a)"/>`, c.Path(), colour)
	}
	for i, c := range l.Edges {
		if c.Lane > 0 {
			fmt.Fprintf(&b, `<rect x="%d" y="%d" width="32" height="20" rx="10" fill="#14151a" stroke="#8f9bff"/><text x="%d" y="%d" fill="#8f9bff" text-anchor="middle">e%d</text>`, c.Pill.X-16, c.Pill.Y-10, c.Pill.X, c.Pill.Y+4, i)
		}
	}
	for i, r := range l.Nodes {
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" rx="8" fill="#1c1e26" stroke="#444"/><text x="%d" y="%d" fill="#eee">%d</text>`, r.X, r.Y, r.W, r.H, r.X+10, r.Y+18, i)
	}
	return b.String() + "</svg>"
}

// With LAYOUT_SVG a file is written that can be looked at.
func TestLayoutForTheEye(t *testing.T) {
	name := os.Getenv("LAYOUT_SVG")
	if name == "" {
		t.Skip("LAYOUT_SVG names no file")
	}
	d := looping()
	if strings.Contains(name, "60") {
		d = large(60, 110)
	}
	if err := os.WriteFile(name, []byte(svg(d, Arrange(d))), 0o644); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkLayout60(b *testing.B)  { benchmark(b, large(60, 120)) }
func BenchmarkLayout300(b *testing.B) { benchmark(b, large(300, 600)) }

func benchmark(b *testing.B, d Diagram) {
	for b.Loop() {
		Arrange(d)
	}
}
