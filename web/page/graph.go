package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/tipstaff/tipstaff"
)

// Limits of a drawing. The server cannot measure text: names and notes are cut.
const (
	graphStages  = 300 // above that there is the table alone
	graphName    = 16
	graphNote    = 20
	graphFits    = 60  // stages that fit the width
	graphRows    = 100 // edges in the table, at once
	layoutsMost  = 64
	edgeThinnest = 1.5
	edgeThickest = 4.0
)

// layouts are those of pipelines that were drawn, by the digest of the program: a graph that
// is looked at never moves.
type layouts struct {
	mu   sync.Mutex
	kept map[string]Layout
}

// of is the layout of a program, made once.
func (l *layouts) of(digest string, d Diagram) Layout {
	l.mu.Lock()
	defer l.mu.Unlock()
	if had, ok := l.kept[digest]; ok && len(had.Nodes) == len(d.Nodes) && len(had.Edges) == len(d.Edges) {
		return had
	}
	if len(l.kept) >= layoutsMost || l.kept == nil {
		l.kept = map[string]Layout{}
	}
	l.kept[digest] = Arrange(d)
	return l.kept[digest]
}

// drawnGraph is the graph of a pipeline, for a template.
type drawnGraph struct {
	Width, Height int
	Large         bool // it scrolls
	Drawn         bool // there is a picture; else the table alone
	Summary       string
	Nodes         []drawnNode
	Edges         []drawnEdge
	Bundles       []bundle // of a large graph: its lines, which are too many to be elements each
	Overview      []bundle // of a large graph: its boxes by state
	Table         []edgeRow
	From, Of      int // the first row of the table, and all of them
	Moves         []tipstaff.GraphMove
	Error         string
}

// drawnNode is a stage, or a mark where edges end.
type drawnNode struct {
	Rect
	Name, Note, Visits string // as they are drawn
	Title              string // all of it
	Path               string // "": it is no stage
	Shape              string // stage, end or question
	State              mark
	Entry              bool
}

// drawnEdge is a line with its head and its pill.
type drawnEdge struct {
	Line, Head string
	Width      string
	Class      string
	Title      string
	Pill       *pill
}

// pill says how often an edge that leads back was taken.
type pill struct {
	Point
	Text  string
	Class string // "", waiting: one is left, refused: a limit stood in the way
	W     int
}

// edgeRow is an edge in the table.
type edgeRow struct{ tipstaff.GraphEdge }

// Rule says by which rules, or else by what, the edge is taken.
func (e edgeRow) Rule() string {
	var ways []string
	for _, w := range e.Ways {
		way := w.Kind
		if w.Rule > 0 {
			way = fmt.Sprintf("rule %d", w.Rule)
		}
		ways = append(ways, tipstaff.Joined(" ", way, w.Label))
	}
	if e.Ways == nil {
		return string(e.Kind)
	}
	return tipstaff.Joined("; ", ways...)
}

// Most is how often it may be taken; "": as often as the pipeline permits.
func (e edgeRow) Most() string {
	switch {
	case e.Limit <= 0:
		return ""
	case e.PerPass:
		return fmt.Sprintf("%d a pass", e.Limit)
	}
	return strconv.FormatInt(e.Limit, 10)
}

// Graph is the pipeline with what the run has done in it; nil: the run is of none.
func (p *runPage) Graph() *drawnGraph {
	if p.Run.Program.Kind != tipstaff.ProgramPipeline {
		return nil
	}
	var g tipstaff.Graph
	err := p.fold(func(f *fold) (err error) {
		g, err = f.follow(p.v.ctx(), p.v.s.control.Runs)
		return err
	})
	if err != nil {
		return &drawnGraph{Error: p.failed(err)}
	}
	from, _ := strconv.Atoi(p.v.r.FormValue("edges")) // what is no number is the beginning
	return draw(g, p.Run.Program.Digest, &p.v.s.layouts).window(max(0, from))
}

// draw places the graph of a pipeline, whose program has a digest.
func draw(g tipstaff.Graph, digest string, layouts *layouts) *drawnGraph {
	d := &drawnGraph{Summary: summary(g), Moves: g.Moves, Large: len(g.Stages) > graphFits}
	for _, e := range g.Edges {
		d.Table = append(d.Table, edgeRow{e})
	}
	if len(g.Stages) == 0 || len(g.Stages) > graphStages {
		return d
	}
	diagram, names, edges := diagramOf(g)
	l := layouts.of(digest, diagram)
	d.Drawn, d.Width, d.Height = true, l.Width, l.Height
	for i, box := range l.Nodes {
		if i < len(g.Stages) {
			n := stageOf(&g.Stages[i], box)
			if d.Nodes = append(d.Nodes, n); d.Large {
				bundled(&d.Overview, n.State.Class, "").Lines += fmt.Sprintf("M%d %dh%dv%dh-%dz", box.X, box.Y, box.W, box.H, box.W)
			}
			continue
		}
		n := drawnNode{Rect: box, Name: names[i], Title: names[i], Shape: "question"}
		if names[i] == tipstaff.GraphEnd {
			n.Shape = "end"
		}
		d.Nodes = append(d.Nodes, n)
	}
	for i, c := range l.Edges {
		e := edgeOf(&g, edges[i], c)
		if d.Large {
			b := bundled(&d.Bundles, e.Class, e.Width)
			b.Lines, b.Heads = b.Lines+e.Line, b.Heads+e.Head
		}
		d.Edges = append(d.Edges, e)
	}
	return d
}

// diagramOf is what of a graph is placed: stages, then what else edges lead to, and the edges
// with their places in the graph. It follows from the program alone.
func diagramOf(g tipstaff.Graph) (d Diagram, names []string, edges []int) {
	for _, s := range g.Stages {
		names = append(names, s.Name)
	}
	d.Nodes = make([]DiagramNode, len(names))
	place := func(name string, stage bool) int {
		if i := slices.Index(names[:len(g.Stages)], name); i >= 0 {
			return i
		}
		if stage {
			return -1
		}
		if i := slices.Index(names[len(g.Stages):], name); i >= 0 {
			return len(g.Stages) + i
		}
		names, d.Nodes = append(names, name), append(d.Nodes, DiagramNode{Small: true})
		return len(names) - 1
	}
	for i, e := range g.Edges {
		from := place(e.From, true)
		if e.Kind == tipstaff.EdgeEntry || from < 0 { // a dot at its stage
			continue
		}
		firm := e.Kind == tipstaff.EdgeRequires || e.Kind == tipstaff.EdgeAfter
		d.Edges = append(d.Edges, DiagramEdge{From: from, To: place(e.To, false), Firm: firm})
		edges = append(edges, i)
	}
	return d, names, edges
}

func stageOf(s *tipstaff.GraphStage, box Rect) drawnNode {
	note := s.Note
	if note == "" && s.Took > 0 {
		note = took(s.Took)
	}
	if s.Note == "" && s.Cost > 0 {
		note = tipstaff.Joined(" · ", note, "$"+s.Cost.String())
	}
	n := drawnNode{Rect: box, Name: printed(s.Name, graphName), Note: printed(note, graphNote), Path: s.Name, Shape: "stage", State: stateOf(s.State), Entry: s.Entry}
	n.Title = printed(tipstaff.Joined(" · ", s.Name, s.Kind, s.Label, n.State.Word, note), 200)
	switch {
	case s.Visits > 0 && s.MaxVisits > 0:
		n.Visits = fmt.Sprintf("%d/%d", s.Visits, s.MaxVisits)
	case s.Visits > 0:
		n.Visits = fmt.Sprintf("#%d", s.Visits)
	}
	return n
}

// edgeOf is the line of an edge of the graph.
func edgeOf(g *tipstaff.Graph, i int, c Curve) drawnEdge {
	e := &g.Edges[i]
	d := drawnEdge{Line: c.Path(), Head: head(c), Class: "route", Title: edgeTitle(g, e)}
	switch {
	case e.Kind == tipstaff.EdgeRequires || e.Kind == tipstaff.EdgeAfter:
		d.Class = "requires"
	case e.ErrorOnly():
		d.Class = "route error"
	}
	if c.Lane > 0 {
		d.Class += " back"
	}
	if e.Count > 0 {
		d.Class += " taken"
	}
	if e.Refused != "" {
		d.Class += " refused"
	}
	if g.Last != nil && *g.Last == i {
		d.Class += " last"
	}
	width := edgeThinnest
	if e.Count > 0 {
		width = min(edgeThickest, edgeThinnest+math.Log2(float64(e.Count))/2)
	}
	d.Width = strconv.FormatFloat(width, 'f', 2, 64)
	if e.Back || c.Lane > 0 && e.Kind == tipstaff.EdgeRoute {
		d.Pill = pillOf(g, e, c.Pill)
	}
	return d
}

// pillOf counts an edge against its limit.
func pillOf(g *tipstaff.Graph, e *tipstaff.GraphEdge, at Point) *pill {
	p := &pill{Point: at, Text: strconv.FormatInt(e.Used(), 10)}
	left := g.MaxIterations - g.Iterations
	if e.Limit > 0 {
		p.Text, left = fmt.Sprintf("%d/%d", e.Used(), e.Limit), e.Limit-e.Used()
	}
	switch {
	case e.Refused != "":
		p.Class = "refused"
	case left == 1 && (e.Limit > 0 || g.MaxIterations > 0):
		p.Class = "waiting"
	}
	p.W = max(28, 12+7*len(p.Text))
	return p
}

// Left is where the box of the pill begins.
func (p pill) Left() int { return p.X - p.W/2 }

func edgeTitle(g *tipstaff.Graph, e *tipstaff.GraphEdge) string {
	r := edgeRow{*e}
	title := e.From + " → " + e.To + ": " + tipstaff.Joined(", ", r.Rule(), fmt.Sprintf("taken %d", e.Count))
	if most := r.Most(); most != "" {
		title += " of " + most
	} else if e.Back && g.MaxIterations > 0 {
		title += fmt.Sprintf(", %d iterations left", max(0, g.MaxIterations-g.Iterations))
	}
	if e.Refused != "" {
		title += ", refused: " + words(e.Refused)
	}
	return printed(title, 200)
}

// summary is the graph in a sentence.
func summary(g tipstaff.Graph) string {
	reached := 0
	for _, s := range g.Stages {
		if s.Visits > 0 {
			reached++
		}
	}
	text := fmt.Sprintf("%s, %d reached", tipstaff.Plural(len(g.Stages), "stage"), reached)
	if g.MaxIterations > 0 {
		text += fmt.Sprintf("; %d of %d iterations", g.Iterations, g.MaxIterations)
	}
	return text
}

// Link is the address of its panel.
func (n drawnNode) Link(run tipstaff.ID, at *atBar) string { return nodeLink(run, n.Path, at) }

// Key tells the stage from others on the page.
func (n drawnNode) Key() string { return keyOf(n.Path) }

// Diamond is the mark of a question.
func (n drawnNode) Diamond() string {
	return fmt.Sprintf("M%d %dl%d %dl-%d %dl-%d -%dz", n.X+n.W/2, n.Y, n.W/2, n.H/2, n.W/2, n.H/2, n.W/2, n.H/2)
}
