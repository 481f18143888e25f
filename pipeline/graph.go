package pipeline

import (
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
)

// Graph draws the pipeline: where it begins, rules with their conditions, what
// happens on errors (dotted), who requires whom (bold), and edges that lead back with
// what limits them. counts is how often a run took each edge; nil: there is no run.
// The same pipeline and counts always give the same bytes.
func (p *Pipeline) Graph(format string, counts map[Edge]int64) (string, error) {
	g := &graph{p: p, counts: counts}
	g.draw()
	switch format {
	case GraphMermaid:
		return g.mermaid(), nil
	case GraphDOT:
		return g.dot(), nil
	}
	return "", &tipstaff.Error{Code: tipstaff.InvalidArgument,
		Message: fmt.Sprintf("%q is no format of graphs; there are %s and %s", document.Brief(format), GraphMermaid, GraphDOT)}
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
