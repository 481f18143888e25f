package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// connections checks what concerns more than one part of the document: names, and
// everything that names somebody.
func (r *reader) connections(p *Pipeline) {
	byName := r.names(p)
	for _, a := range p.Agents {
		for _, ref := range a.targets() {
			if byName[ref.name] == nil && (!reserved(ref.name) || ref.name == Start) {
				r.unknown(codeUnknownTarget, ref, "no agent has this name, nor is it end, clarification or confirmation", byName)
			}
		}
		for _, ref := range a.ruled("then") {
			if byName[ref.name] == nil && ref.name != End {
				r.unknown(codeUnknownTarget, ref, "no agent has this name, nor is it end", byName)
			}
		}
		for _, ref := range a.named(document.List, "requires", "after") {
			switch {
			case ref.name == a.Name && a.Name != "":
				r.ps.Add(codeSelfDependency, ref.at, ref.path, "%s cannot wait for itself", document.Brief(ref.name))
			case byName[ref.name] == nil:
				r.unknown(codeUnknownDependency, ref, "no agent has this name", byName)
			}
		}
	}
	for _, field := range []string{"clarification_resume_stage", "confirmation_resume_stage"} {
		for _, ref := range references(p.written, document.Text, field, field) {
			if byName[ref.name] == nil {
				r.unknown(codeUnknownTarget, ref, "no agent has this name", byName)
			}
		}
	}
	if p.Deliver != nil && p.Deliver.CorrectAt != "" && byName[p.Deliver.CorrectAt] == nil {
		r.unknown(codeUnknownTarget, reference{name: p.Deliver.CorrectAt, at: p.written.Find("deliver", "correct_at").At, path: "deliver.correct_at"}, "no agent has this name", byName)
	}
	r.cycles(p, byName)
	r.edges(p, byName)
}

func (r *reader) unknown(code string, ref reference, text string, byName map[string]*Agent) {
	r.ps.Add(code, ref.at, ref.path, "%q: %s%s", document.Brief(ref.name), text, tipstaff.DidYouMean(ref.name, sortedKeys(byName)))
}

// names are the agents by theirs. The first of a name has it.
func (r *reader) names(p *Pipeline) map[string]*Agent {
	byName, byKey := map[string]*Agent{}, map[string]*Agent{}
	for _, a := range p.Agents {
		if a.Name == "" {
			continue
		}
		if first := byName[a.Name]; first != nil {
			r.ps.Add(codeDuplicateName, a.written.Get("name").At, a.path+".name", "the name %s is taken by the agent of line %d", document.Brief(a.Name), first.written.At.Line)
			continue
		}
		byName[a.Name] = a
		if first := byKey[a.OutputKey]; first != nil {
			at := a.written.Get("name").At
			if key := a.written.Get("output_key"); key != nil && key.Text != "" {
				at = key.At
			}
			r.ps.Add(codeDuplicateOutputKey, at, a.path+".output_key", "the output key %s is that of %s; each has its own", document.Brief(a.OutputKey), document.Brief(first.Name))
			continue
		}
		byKey[a.OutputKey] = a
	}
	return byName
}

// cycles finds agents that wait for themselves by way of others: nobody could begin.
func (r *reader) cycles(p *Pipeline, byName map[string]*Agent) {
	searched := map[string]bool{}
	var way []string // from the first agent to the one that is looked at
	var search func(*Agent)
	search = func(a *Agent) {
		searched[a.Name] = true
		way = append(way, a.Name)
		for _, ref := range a.named(document.List, "requires", "after") {
			next, round := byName[ref.name], slices.Index(way, ref.name)
			switch {
			case next == nil || ref.name == a.Name:
			case round >= 0:
				r.ps.Add(codeDependencyCycle, ref.at, ref.path, "the agents wait for each other: %s → %s", strings.Join(way[round:], " → "), ref.name)
			case !searched[ref.name]:
				search(next)
			}
		}
		way = way[:len(way)-1]
	}
	for _, a := range p.Agents {
		if a.Name != "" && !searched[a.Name] {
			search(a)
		}
	}
}

// edges checks the limits of edges.
func (r *reader) edges(p *Pipeline, byName map[string]*Agent) {
	seen := map[Edge]document.Position{}
	for i, l := range p.EdgeLimits {
		if l.From == "" || l.To == "" {
			continue
		}
		written, path := p.written.Get("edge_limits").Items[i], fmt.Sprintf("edge_limits[%d]", i)
		for _, field := range []string{"from", "to"} {
			for _, ref := range references(written, document.Text, field, path+"."+field) {
				if byName[ref.name] == nil {
					r.unknown(codeUnknownEdge, ref, "no agent has this name", byName)
				}
			}
		}
		from := byName[l.From]
		if from == nil || byName[l.To] == nil {
			continue
		}
		edge := Edge{l.From, l.To}
		first, twice := seen[edge]
		seen[edge] = written.At
		switch {
		case twice:
			r.ps.Add(codeDuplicateEdgeLimit, written.At, path, "the edge from %s to %s has a limit in line %d already", l.From, l.To, first.Line)
		case !slices.ContainsFunc(from.targets(), func(ref reference) bool { return ref.name == l.To }):
			r.ps.Add(codeEdgeNotInGraph, written.At, path, "nothing routes from %s to %s, so that there is nothing to limit", l.From, l.To)
		}
	}
}

// passes checks that an edge which is limited in each pass of a loop has a loop around it.
func (r *reader) passes(p *Pipeline) {
	for i, l := range p.EdgeLimits {
		if l.Per == perPass && !p.enclosed(Edge{l.From, l.To}) {
			r.ps.Add(document.CodeFieldInvalid, p.written.Get("edge_limits").Items[i].Get("per").At, fmt.Sprintf("edge_limits[%d].per", i),
				"no loop leads around the edge from %s to %s, so that there is one pass: the run", l.From, l.To)
		}
	}
}

// enclosed reports whether the jump back of a loop leads around an edge.
func (p *Pipeline) enclosed(edge Edge) bool {
	return slices.ContainsFunc(p.Agents, func(a *Agent) bool {
		return slices.ContainsFunc(a.routes(), func(way route) bool {
			return p.IsCycle(a.Name, way.to) && p.around(Edge{a.Name, way.to}, edge)
		})
	})
}

// unreachable warns of stages that no run can come to.
func (p *Pipeline) unreachable() (warnings document.Problems) {
	reached := map[string]bool{}
	for _, a := range p.Agents {
		if a.Entry {
			p.reach(a, reached)
		}
	}
	for _, a := range p.Agents {
		if !reached[a.Name] {
			warnings.Add(codeUnreachableStage, a.written.Get("name").At, a.path, "no run can come to %s: it is no entry, and nothing that runs leads to it", a.Name)
		}
	}
	return warnings
}
