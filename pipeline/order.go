package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// arrange gives the agents their indices and derives what follows from these.
func (p *Pipeline) arrange() {
	slices.SortStableFunc(p.Agents, func(a, b *Agent) int { return cmp.Compare(a.StageOrder, b.StageOrder) })
	p.index = make(map[string]int, len(p.Agents))
	for i, a := range p.Agents {
		a.Index = i
		p.index[a.Name] = i
		p.depends = p.depends || len(a.Requires)+len(a.After) > 0
	}
	p.limits, p.perPass = map[Edge]int64{}, map[Edge]bool{}
	for _, l := range p.EdgeLimits {
		if l.MaxCount > 0 {
			p.limits[Edge{l.From, l.To}] = l.MaxCount
			p.perPass[Edge{l.From, l.To}] = l.Per == perPass
		}
	}
	p.releases = map[string][]*Agent{}
	for _, a := range p.Agents {
		for _, name := range a.Requires {
			if !slices.Contains(p.releases[name], a) {
				p.releases[name] = append(p.releases[name], a)
			}
		}
	}
	p.entries()
}

// entries are the stages of the first frontier. Without dependencies that is the
// first stage; with them each that waits for nobody and that no edge leads forward
// to. What a document says of a stage comes before that.
func (p *Pipeline) entries() {
	led := map[string]bool{}
	for _, a := range p.Agents {
		for _, r := range a.routes() {
			if to := p.Agent(r.to); to != nil && to.Index > a.Index {
				led[r.to] = true
			}
		}
	}
	for _, a := range p.Agents {
		a.Entry = a.Index == 0
		if p.depends {
			a.Entry = len(a.Requires) == 0 && !led[a.Name]
		}
		if a.EntrySaid != nil {
			a.Entry = *a.EntrySaid
		}
	}
}

// Agent is the stage of that name, or nil.
func (p *Pipeline) Agent(name string) *Agent {
	i, ok := p.index[name]
	if !ok {
		return nil
	}
	return p.Agents[i]
}

// IsCycle reports whether the edge leads back: to a stage of the same or a lower
// index. Targets that are no stages never do.
func (p *Pipeline) IsCycle(from, to string) bool {
	f, known := p.index[from]
	t, stage := p.index[to]
	return known && stage && t <= f
}

// around reports whether the jump back of a loop leads around an edge: from its last
// stage, or one behind it, to its first, or one before it; and it is not the same way.
func (p *Pipeline) around(jump, edge Edge) bool {
	from, to := p.index[edge.From], p.index[edge.To]
	first, last := min(from, to), max(from, to)
	back, start := p.index[jump.From], p.index[jump.To]
	return start <= first && last <= back && (start != first || back != last)
}

// route is one way on from a stage.
type route struct {
	to    string
	kind  routeKind
	label string // of a rule: when
	then  string // of an interrupt: where it goes on
}

type routeKind uint8

const (
	byRule routeKind = iota
	byDefault
	byError
	byDenial
)

// routes are all ways on from a, in the order in which they are considered.
func (a *Agent) routes() []route {
	var all []route
	for i := range a.Rules {
		r := &a.Rules[i]
		all = append(all, route{r.Target, byRule, r.label(), r.Then})
	}
	for _, r := range []route{{to: a.DefaultNext, kind: byDefault}, {to: a.ErrorNext, kind: byError}, {to: a.DeniedNext, kind: byDenial}} {
		if r.to != "" {
			all = append(all, r)
		}
	}
	return all
}

// reach notes all stages that a run can come to from a; nil is none.
func (p *Pipeline) reach(a *Agent, reached map[string]bool) {
	if a == nil || reached[a.Name] {
		return
	}
	reached[a.Name] = true
	for _, r := range a.routes() {
		p.reach(p.Agent(r.to), reached)
		p.reach(p.Agent(r.then), reached)
		switch r.to {
		case Clarification:
			p.reach(p.Agent(p.ClarificationResume), reached)
		case Confirmation:
			p.reach(p.Agent(p.ConfirmationResume), reached)
		}
	}
	for _, d := range p.releases[a.Name] {
		p.reach(d, reached)
	}
}

// Names are those of the agents, by index.
func (p *Pipeline) Names() []string {
	names := make([]string, len(p.Agents))
	for i, a := range p.Agents {
		names[i] = a.Name
	}
	return names
}

// WithOrder is the pipeline with its agents in the given order, which must name
// each of them once. It is another program, unless that is their order already.
func (p *Pipeline) WithOrder(names []string) (*Pipeline, error) {
	if slices.EqualFunc(p.Agents, names, func(a *Agent, name string) bool { return a.Name == name }) {
		return p, nil
	}
	if err := p.covers(names); err != nil {
		return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: "stage_order must name exactly the agents of the pipeline: " + err.Error()}
	}
	v, fault := document.Read(p.canonical, maxFrozen)
	if fault != nil {
		return nil, fmt.Errorf("pipeline: %s", fault.Message)
	}
	for _, agent := range v.Get("agents").Items {
		place := strconv.Itoa(slices.Index(names, agent.Get("name").Text) + 1)
		agent.Members = slices.DeleteFunc(agent.Members, func(m document.Member) bool { return m.Key == "stage_order" })
		agent.Members = append(agent.Members, document.Member{Key: "stage_order", Value: &document.Value{Kind: document.Number, Text: place}})
	}
	return Load(document.Raw(v))
}

func (p *Pipeline) covers(names []string) error {
	seen := map[string]bool{}
	for _, name := range names {
		switch {
		case p.Agent(name) == nil:
			return fmt.Errorf("%q is none", document.Brief(name))
		case seen[name]:
			return fmt.Errorf("%s stands twice", name)
		}
		seen[name] = true
	}
	for _, a := range p.Agents {
		if !seen[a.Name] {
			return fmt.Errorf("%s is missing", a.Name)
		}
	}
	return nil
}

// CheckOutput is for an output that somebody else gives: it says what keeps it from
// being what the stage promises; nil if nothing does.
func (a *Agent) CheckOutput(output map[string]any) error {
	if a.Way == WayTool { // whose control part is no part of its output
		output = maps.Clone(output)
		delete(output, controlKey)
	}
	return a.checkOutput(output, EncodeValue(output))
}

// checkOutput says what keeps an output from being what the stage promises; nil if
// nothing does. encoded is the same output.
func (a *Agent) checkOutput(output map[string]any, encoded json.RawMessage) error {
	var lacking []string
	for _, name := range a.RequiredFields {
		if _, ok := output[name]; !ok {
			lacking = append(lacking, name)
		}
	}
	if lacking != nil {
		return fmt.Errorf("the output has no %s", strings.Join(lacking, ", "))
	}
	if a.schema == nil {
		return nil
	}
	if err := document.Conforms(a.schema, encoded); err != nil {
		return fmt.Errorf("the output is not as its schema says: %w", err)
	}
	return nil
}
