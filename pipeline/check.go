package pipeline

import (
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// connections checks what concerns more than one part of the document: names, and
// everything that names somebody.
func (r *reader) connections(p *Pipeline) {
	byName := r.names()
	for _, w := range r.agents {
		for _, ref := range w.targets {
			if byName[ref.name] == nil && (!reserved(ref.name) || ref.name == Start) {
				r.unknown(codeUnknownTarget, ref, "no agent has this name, nor is it end, clarification or confirmation", byName)
			}
		}
		for _, ref := range w.resumes {
			if byName[ref.name] == nil && ref.name != End {
				r.unknown(codeUnknownTarget, ref, "no agent has this name, nor is it end", byName)
			}
		}
		for _, ref := range slices.Concat(w.requires, w.after) {
			switch {
			case ref.name == w.Name && w.Name != "":
				r.ps.Add(codeSelfDependency, ref.at, ref.path, "%s cannot wait for itself", document.Brief(ref.name))
			case byName[ref.name] == nil:
				r.unknown(codeUnknownDependency, ref, "no agent has this name", byName)
			}
		}
	}
	for _, ref := range r.resumes {
		if byName[ref.name] == nil {
			r.unknown(codeUnknownTarget, ref, "no agent has this name", byName)
		}
	}
	r.cycles(byName)
	r.edges(p, byName)
}

func (r *reader) unknown(code string, ref reference, text string, byName map[string]*written) {
	advice := ""
	if near := tipstaff.Nearest(ref.name, sortedKeys(byName)); near != "" {
		advice = "; did you mean " + near + "?"
	}
	r.ps.Add(code, ref.at, ref.path, "%q: %s%s", document.Brief(ref.name), text, advice)
}

// names are the agents by theirs. The first of a name has it.
func (r *reader) names() map[string]*written {
	byName, byKey := map[string]*written{}, map[string]*written{}
	for _, w := range r.agents {
		if w.Name == "" {
			continue
		}
		if first := byName[w.Name]; first != nil {
			r.ps.Add(codeDuplicateName, w.nameAt, w.path+".name", "the name %s is taken by the agent of line %d", document.Brief(w.Name), first.at.Line)
			continue
		}
		byName[w.Name] = w
		if first := byKey[w.OutputKey]; first != nil {
			r.ps.Add(codeDuplicateOutputKey, w.keyAt, w.path+".output_key", "the output key %s is that of %s; each has its own", document.Brief(w.OutputKey), document.Brief(first.Name))
			continue
		}
		byKey[w.OutputKey] = w
	}
	return byName
}

// cycles finds agents that wait for themselves by way of others: nobody could begin.
func (r *reader) cycles(byName map[string]*written) {
	searched := map[string]bool{}
	var way []string // from the first agent to the one that is looked at
	var search func(*written)
	search = func(w *written) {
		searched[w.Name] = true
		way = append(way, w.Name)
		for _, ref := range slices.Concat(w.requires, w.after) {
			next, round := byName[ref.name], slices.Index(way, ref.name)
			switch {
			case next == nil || ref.name == w.Name:
			case round >= 0:
				r.ps.Add(codeDependencyCycle, ref.at, ref.path, "the agents wait for each other: %s → %s", strings.Join(way[round:], " → "), ref.name)
			case !searched[ref.name]:
				search(next)
			}
		}
		way = way[:len(way)-1]
	}
	for _, w := range r.agents {
		if w.Name != "" && !searched[w.Name] {
			search(w)
		}
	}
}

// edges checks the limits of edges.
func (r *reader) edges(p *Pipeline, byName map[string]*written) {
	seen := map[Edge]document.Position{}
	for _, l := range r.limits {
		p.EdgeLimits = append(p.EdgeLimits, l.EdgeLimit)
		if l.From == "" || l.To == "" {
			continue
		}
		from, to := byName[l.From], byName[l.To]
		if from == nil {
			r.unknown(codeUnknownEdge, l.from, "no agent has this name", byName)
		}
		if to == nil {
			r.unknown(codeUnknownEdge, l.to, "no agent has this name", byName)
		}
		if from == nil || to == nil {
			continue
		}
		edge := Edge{l.From, l.To}
		first, twice := seen[edge]
		seen[edge] = l.at
		switch {
		case twice:
			r.ps.Add(codeDuplicateEdgeLimit, l.at, l.path, "the edge from %s to %s has a limit in line %d already", l.From, l.To, first.Line)
		case !slices.ContainsFunc(from.targets, func(ref reference) bool { return ref.name == l.To }):
			r.ps.Add(codeEdgeNotInGraph, l.at, l.path, "nothing routes from %s to %s, so that there is nothing to limit", l.From, l.To)
		}
	}
}

// unreachable warns of stages that no run can come to.
func (r *reader) unreachable(p *Pipeline) (warnings document.Problems) {
	reached := map[string]bool{}
	for _, a := range p.Agents {
		if a.Entry {
			p.reach(a, reached)
		}
	}
	for _, w := range r.agents {
		if !reached[w.Name] {
			warnings.Add(codeUnreachableStage, w.nameAt, w.path, "no run can come to %s: it is no entry, and nothing that runs leads to it", w.Name)
		}
	}
	return warnings
}
