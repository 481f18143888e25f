package plan

import (
	"encoding/json"
	"slices"
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
	var ceilings tipstaff.Bounds
	if r != nil {
		ceilings = tipstaff.Bounds(r.Bounds())
	}
	t := policy.Terms{
		Verb:     d.Intent.Verb,
		Deadline: instantText(d.Intent.Deadline),
		Anchor:   d.Intent.Anchor,
		Bounds:   tipstaff.Bounds(d.Bounds),
		Defaults: tipstaff.EffectiveBounds(ceilings, nil, nil), // of a run of a document that sets none
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
		u, _ := tipstaff.ParseToolURI(uri) // checked when the plan was validated
		t.Tools = append(t.Tools, policy.Tool{Server: u.Server, Name: u.Tool, Pin: u.Pin, Class: classOf(r, uri)})
	}
	t.Gates = guarded(d.Root, nil, func(leaf *Node, gates []policy.Gate) {
		switch leaf.Kind {
		case ToolCall:
			t.Calls = append(t.Calls, effects(r, leaf, "", []string{leaf.Tool}, orEmpty(leaf.Args), gates)...)
		case Step:
			t.Calls = append(t.Calls, effects(r, leaf, leaf.Agent, d.reach(leaf, r), d.told(leaf), gates)...)
			if r != nil && r.Agent(leaf.Agent).Once { // a worker has means of its own
				t.Calls = append(t.Calls, policy.Effect{ID: leaf.ID, Agent: leaf.Agent, Tool: "*", Class: flow.Once, Args: d.told(leaf), Gates: gates})
			}
		case SubDispatch:
			t.Dispatches = append(t.Dispatches, policy.Dispatch{Agent: leaf.Agent, Skill: leaf.Skill, Scope: leaf.Scope, Auto: leaf.Accept == AcceptAuto,
				Inputs: orEmpty(leaf.Inputs), Bounds: tipstaff.Bounds(leaf.Bounds), Continue: leaf.Continue, Gates: gates})
		}
	})
	return t
}

// guarded visits the leaves under n with the gates that have been passed when each
// begins: those before n, and those in an earlier child of a sequence. A gate beside
// it, in a parallel group, may still be open. It returns the gates under n, all of
// which have been passed when n has ended well: a gate's failure is never continued.
func guarded(n *Node, before []policy.Gate, visit func(*Node, []policy.Gate)) (within []policy.Gate) {
	if n.Kind == Gate {
		within = []policy.Gate{{Question: n.Question, Show: string(n.Show), Actions: string(flow.JSON(n.Actions))}}
	}
	if !n.Kind.Branch() {
		visit(n, before)
		return within
	}
	passed := slices.Clip(before)
	for _, c := range n.Children {
		inside := guarded(c, passed, visit)
		within = append(within, inside...)
		if n.Kind == Sequential {
			passed = append(passed, inside...)
		}
	}
	return within
}

// effects are the calls of a leaf that do more than read.
func effects(r Resolver, leaf *Node, agent string, tools []string, told json.RawMessage, gates []policy.Gate) (calls []policy.Effect) {
	for _, uri := range tools {
		if class := classOf(r, uri); class != flow.Read {
			calls = append(calls, policy.Effect{ID: leaf.ID, Agent: agent, Tool: uri, Class: class, Args: told, Gates: gates})
		}
	}
	return calls
}

// reach are the tools that an agent may call in a step, as far as the document says.
func (d *Document) reach(step *Node, r Resolver) []string {
	uris := d.callable(r)
	if step.Tools != nil {
		uris = slices.DeleteFunc(uris, func(uri string) bool { return !slices.Contains(*step.Tools, uri) })
	}
	return uris
}

// told is what an agent is told to do in a step.
func (d *Document) told(step *Node) json.RawMessage {
	return flow.JSON(struct {
		Inputs json.RawMessage `json:"inputs"`
		Prompt string          `json:"prompt"`
		Skill  string          `json:"skill"`
	}{orEmpty(step.Inputs), step.Prompt, d.Skill})
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

// orEmpty is an object as its author wrote it; none is an empty one.
func orEmpty(members json.RawMessage) json.RawMessage {
	if members == nil {
		return json.RawMessage("{}")
	}
	return members
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
