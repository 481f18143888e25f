package plan

import (
	"encoding/json"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// Outline is the tree for people, with the classes that r knows; r may be nil.
func (d *Document) Outline(r Resolver) *tipstaff.Outline { return d.Root.outline(r) }

func (n *Node) outline(r Resolver) *tipstaff.Outline {
	o := &tipstaff.Outline{Path: n.Path, ID: n.ID, Kind: string(n.Kind)}
	label := ""
	switch n.Kind {
	case ToolCall:
		o.Label, label = n.Tool, "tool"
		if r != nil {
			o.Class = string(r.Tool(n.Tool).Class)
		}
	case Gate:
		o.Label, label = n.Question, "question"
	case SubDispatch:
		o.Label, label = n.Skill, "skill"
	case Step:
		o.Label, label = n.Agent, "agent"
	}
	if given := n.members("id", "kind", "children", label); len(given.Members) > 0 {
		o.Given = document.Raw(given)
	}
	for _, c := range n.Children {
		o.Children = append(o.Children, c.outline(r))
	}
	return o
}

// members are those of a node as it is written, but for some.
func (n *Node) members(except ...string) *document.Value {
	v := &document.Value{Kind: document.Object}
	if n.written == nil {
		return v
	}
	v.Members = slices.DeleteFunc(slices.Clone(n.written.Members), func(m document.Member) bool { return slices.Contains(except, m.Key) })
	return v
}

// Position is where a node is written: line and column, from 1.
func (n *Node) Position() (line, column int) { return n.at.Line, n.at.Column }

// LiteralArgs are the arguments of a tool call as they will be sent, if no reference
// stands in them.
func (n *Node) LiteralArgs() (args json.RawMessage, ok bool) {
	if !n.literal {
		return nil, false
	}
	if n.args == nil {
		return json.RawMessage("{}"), true
	}
	args, err := render(n.args, nil)
	return args, err == nil
}
