package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
)

// Terms is what somebody agrees to by accepting the document, which must be a
// valid one. The resolver tells the classes of tools, what the document's skill
// allows, and the ceilings of bounds; nil knows nothing. A tool of unknown class
// counts as once.
func (d *Document) Terms(r Resolver) policy.Terms {
	t := policy.Terms{
		Verb:     d.Intent.Verb,
		Deadline: instantText(d.Intent.Deadline),
		Anchor:   d.Intent.Anchor,
		Bounds:   tipstaff.Bounds(d.Bounds),
		Defaults: d.defaultBounds(r),
	}
	for _, o := range d.Intent.Objects {
		t.Objects = append(t.Objects, policy.Object(o))
	}
	for _, c := range d.Intent.SuccessCriteria {
		t.Criteria = append(t.Criteria, c.JSON)
	}
	for _, a := range d.Intent.Budget {
		t.Budget = append(t.Budget, policy.Amount(a))
	}
	for _, c := range d.Intent.Constraints {
		t.Constraints = append(t.Constraints, c.term())
	}
	for _, uri := range d.callable(r) {
		t.Tools = append(t.Tools, toolTerm(uri, classOf(r, uri)))
	}
	for leaf := range d.Root.Leaves {
		switch {
		case leaf.Kind == ToolCall && classOf(r, leaf.Tool) == flow.Once:
			t.Calls = append(t.Calls, policy.OnceCall{ID: leaf.ID, Tool: leaf.Tool, Args: arguments(leaf)})
		case leaf.Kind == SubDispatch:
			t.Dispatches = append(t.Dispatches, policy.Dispatch{Agent: leaf.Agent, Skill: leaf.Skill, Scope: leaf.Scope})
		}
	}
	return t
}

// defaultBounds are those of a run of a document that sets none.
func (d *Document) defaultBounds(r Resolver) tipstaff.Bounds {
	var ceilings tipstaff.Bounds
	if r != nil {
		ceilings = tipstaff.Bounds(r.Bounds())
	}
	return tipstaff.EffectiveBounds(ceilings, nil, nil)
}

// callable are the tools that a run may call, sorted: those of the document, of
// its skill if the document names none, and of its own nodes in any case.
func (d *Document) callable(r Resolver) []string {
	uris := d.AllowList()
	if d.Skill != "" && d.Tools == nil && r != nil {
		uris = append(uris, r.Skill(d.Skill).Tools...)
	}
	for leaf := range d.Root.Leaves {
		if leaf.Kind == ToolCall {
			uris = append(uris, leaf.Tool)
		}
	}
	slices.Sort(uris)
	return slices.Compact(uris)
}

func classOf(r Resolver, uri string) flow.Class {
	if r != nil {
		if class := r.Tool(uri).Class; class != "" {
			return class
		}
	}
	return flow.Once
}

func toolTerm(uri string, class flow.Class) policy.Tool {
	name, pin, _ := cutPin(uri)
	server, tool, _ := strings.Cut(strings.TrimPrefix(name, "mcp://"), "/")
	return policy.Tool{Server: server, Name: tool, Pin: pin, Class: class}
}

// arguments of a call as its author wrote them; none are an empty object.
func arguments(n *Node) json.RawMessage {
	if n.Args == nil {
		return json.RawMessage("{}")
	}
	return n.Args
}

func (c Constraint) term() policy.Constraint {
	t := policy.Constraint{Type: c.Type, Hard: c.Hard}
	switch c.Type {
	case "budget":
		t.Name, t.Limit = c.Max.Asset, c.Max.Amount
	case "deadline":
		t.Limit = instantText(c.By)
	case "jurisdiction":
		t.Allow, t.Deny = c.Allow, c.Deny
	case "quality":
		t.Name, t.Limit = c.Metric, c.Min
	case "rule":
		t.Name = c.Rule
	case "policy":
		t.Name = c.Policy
	default:
		t.Data = c.Data
	}
	return t
}

// instantText is a time as documents write it; "" is none.
func instantText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
