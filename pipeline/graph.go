package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// Formats of graphs.
const (
	GraphMermaid = "mermaid"
	GraphDOT     = "dot"
	GraphJSON    = tipstaff.GraphJSON // its shape, for programs
)

// Graph draws the pipeline: where it begins, rules with their conditions, what
// happens on errors (dotted), who requires whom (bold), and edges that lead back with
// what limits them. counts is how often a run took each edge, which the shape leaves to
// [tipstaff.GraphFold]; nil: there is no run.
// The same pipeline and counts always give the same bytes.
func (p *Pipeline) Graph(format string, counts map[Edge]int64) (string, error) {
	if format == GraphJSON {
		text, err := json.Marshal(p.Shape())
		return string(text), err
	}
	g := &graph{p: p, counts: counts}
	g.draw()
	switch format {
	case GraphMermaid:
		return g.mermaid(), nil
	case GraphDOT:
		return g.dot(), nil
	}
	return "", &tipstaff.Error{Code: tipstaff.InvalidArgument,
		Message: fmt.Sprintf("%q is no format of graphs; there are %s, %s and %s", document.Brief(format), GraphMermaid, GraphDOT, GraphJSON)}
}

// graph is a drawing before it is written down in a format.
type graph struct {
	p      *Pipeline
	counts map[Edge]int64
	arrows []arrow
}

type arrow struct {
	from, to string
	label    string
	style    string // dotted, bold; "": plain
}

func (g *graph) draw() {
	if len(g.p.Agents) == 0 {
		g.arrows = append(g.arrows, arrow{from: Start, to: End})
	}
	for _, a := range g.p.Agents {
		if a.Entry {
			g.arrows = append(g.arrows, arrow{from: Start, to: a.Name})
		}
	}
	for _, a := range g.p.Agents {
		for _, r := range a.routes() {
			style := ""
			if r.kind == byError {
				style = "dotted"
			}
			g.arrows = append(g.arrows, arrow{a.Name, r.to, g.label(a, r), style})
		}
		if a.DefaultNext == "" && !g.p.depends {
			g.arrows = append(g.arrows, arrow{from: a.Name, to: End})
		}
	}
	for _, a := range g.p.Agents {
		for _, name := range a.Requires {
			label := ""
			if a.Join == joinAny {
				label = "any"
			}
			g.arrows = append(g.arrows, arrow{name, a.Name, label, "bold"})
		}
		for _, name := range a.After {
			g.arrows = append(g.arrows, arrow{name, a.Name, "after", "bold"})
		}
	}
}

// label says when an edge is taken, what limits it and how often a run took it.
func (g *graph) label(a *Agent, r route) string {
	var words []string
	switch r.kind {
	case byRule:
		words = append(words, r.label)
	case byError:
		words = append(words, "error")
	case byDenial:
		words = append(words, "denied")
	}
	if r.then != "" {
		words = append(words, "then "+r.then)
	}
	edge := Edge{a.Name, r.to}
	limit, limited := g.p.limits[edge]
	cycle := g.p.IsCycle(a.Name, r.to)
	per := ""
	if g.p.perPass[edge] {
		per = " a pass"
	}
	switch {
	case limited && cycle:
		words = append(words, fmt.Sprintf("↺ max %d%s", limit, per))
	case limited:
		words = append(words, fmt.Sprintf("max %d%s", limit, per))
	case cycle:
		words = append(words, fmt.Sprintf("↺ max_iterations %d", g.p.MaxIterations))
	}
	if taken := g.counts[edge]; taken > 0 {
		words = append(words, fmt.Sprintf("taken %d", taken))
	}
	return strings.Join(words, ", ")
}

// targets are the places that are no stages and that an arrow leads to or from.
func (g *graph) targets() []string {
	var used []string
	for _, name := range []string{Start, Clarification, Confirmation, End} {
		if slices.ContainsFunc(g.arrows, func(a arrow) bool { return a.from == name || a.to == name }) {
			used = append(used, name)
		}
	}
	return used
}

// id is a name that has no meaning in either format, as end has in Mermaid.
func (g *graph) id(name string) string {
	if a := g.p.Agent(name); a != nil {
		return fmt.Sprintf("s%d", a.Index)
	}
	return "to_" + name
}

// Mermaid reads HTML in labels, and has a way of its own to write characters that
// would end them.
var mermaidText = strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "&", "#amp;", "`", "#96;", "\n", " ", "\r", " ", "\t", " ")

func (g *graph) mermaid() string {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for _, name := range g.targets() {
		shape := [2]string{"([", "])"}
		if interrupts(name) {
			shape = [2]string{"{{", "}}"}
		}
		fmt.Fprintf(&b, "  %s%s\"%s\"%s\n", g.id(name), shape[0], name, shape[1])
	}
	for _, a := range g.p.Agents {
		fmt.Fprintf(&b, "  %s[\"%s\"]\n", g.id(a.Name), mermaidText.Replace(a.Name))
	}
	for _, a := range g.arrows {
		line := map[string]string{"": "-->", "dotted": "-.->", "bold": "==>"}[a.style]
		if a.label != "" {
			line += `|"` + mermaidText.Replace(a.label) + `"|`
		}
		fmt.Fprintf(&b, "  %s %s %s\n", g.id(a.from), line, g.id(a.to))
	}
	return b.String()
}

var dotText = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ", "\r", " ", "\t", " ")

func (g *graph) dot() string {
	quote := func(s string) string { return `"` + dotText.Replace(s) + `"` }
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n  node [shape=box];\n", quote(g.p.Name))
	for _, name := range g.targets() {
		shape := "ellipse"
		if interrupts(name) {
			shape = "hexagon"
		}
		fmt.Fprintf(&b, "  %s [label=%s, shape=%s];\n", quote(g.id(name)), quote(name), shape)
	}
	for _, a := range g.p.Agents {
		fmt.Fprintf(&b, "  %s [label=%s];\n", quote(g.id(a.Name)), quote(a.Name))
	}
	for _, a := range g.arrows {
		var attributes []string
		if a.label != "" {
			attributes = append(attributes, "label="+quote(a.label))
		}
		if a.style != "" {
			attributes = append(attributes, "style="+a.style)
		}
		list := ""
		if attributes != nil {
			list = " [" + strings.Join(attributes, ", ") + "]"
		}
		fmt.Fprintf(&b, "  %s -> %s%s;\n", quote(g.id(a.from)), quote(g.id(a.to)), list)
	}
	b.WriteString("}\n")
	return b.String()
}

// wayKinds are the kinds of routes, for programs.
var wayKinds = map[routeKind]string{byRule: tipstaff.WayRule, byDefault: tipstaff.WayDefault, byError: tipstaff.WayError, byDenial: tipstaff.WayDenied}

// Shape is the pipeline as a graph without a run: stages by index; entries, then routes by
// stage, then dependencies.
func (p *Pipeline) Shape() tipstaff.Graph {
	g := tipstaff.Graph{Name: p.Name, MaxIterations: p.MaxIterations, Stages: []tipstaff.GraphStage{}, Edges: []tipstaff.GraphEdge{}}
	for _, a := range p.Agents {
		g.Stages = append(g.Stages, tipstaff.GraphStage{Name: a.Name, Kind: string(a.Way), Label: a.Label(), Entry: a.Entry, MaxVisits: a.MaxVisits,
			State: tipstaff.NodePending.String()})
		if a.Entry {
			g.Edges = append(g.Edges, tipstaff.GraphEdge{From: Start, To: a.Name, Kind: tipstaff.EdgeEntry})
		}
	}
	for _, a := range p.Agents {
		g.Edges = append(g.Edges, p.routeEdges(a)...)
	}
	p.renew(g.Edges)
	for _, a := range p.Agents {
		for _, name := range a.Requires {
			g.Edges = append(g.Edges, tipstaff.GraphEdge{From: name, To: a.Name, Kind: tipstaff.EdgeRequires, Any: a.Join == joinAny})
		}
		for _, name := range a.After {
			g.Edges = append(g.Edges, tipstaff.GraphEdge{From: name, To: a.Name, Kind: tipstaff.EdgeAfter})
		}
	}
	return g
}

// routeEdges are the edges on from a stage, each with the ways that lead along it.
func (p *Pipeline) routeEdges(a *Agent) (edges []tipstaff.GraphEdge) {
	add := func(to string, w tipstaff.GraphWay) {
		i := slices.IndexFunc(edges, func(e tipstaff.GraphEdge) bool { return e.To == to })
		if i < 0 {
			edge := Edge{a.Name, to}
			i = len(edges)
			edges = append(edges, tipstaff.GraphEdge{From: a.Name, To: to, Kind: tipstaff.EdgeRoute, Back: p.IsCycle(a.Name, to),
				Limit: p.limits[edge], PerPass: p.perPass[edge]})
		}
		edges[i].Ways = append(edges[i].Ways, w)
	}
	for i, r := range a.routes() {
		w := tipstaff.GraphWay{Kind: wayKinds[r.kind], Label: r.label, Then: r.then}
		if r.kind == byRule { // they come first
			w.Rule = i + 1
		}
		add(r.to, w)
	}
	if a.DefaultNext == "" && !p.depends {
		add(End, tipstaff.GraphWay{Kind: tipstaff.WayEnd})
	}
	return edges
}

// renew notes which edges begin another pass of those that are limited in each.
func (p *Pipeline) renew(edges []tipstaff.GraphEdge) {
	for i := range edges {
		for j, jump := range edges {
			if inner := &edges[i]; i != j && inner.PerPass && jump.Back && p.around(Edge{jump.From, jump.To}, Edge{inner.From, inner.To}) {
				inner.Renewed = append(inner.Renewed, j)
			}
		}
	}
}
