package plan

import (
	"encoding/json"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Outline is the tree for people, with the classes that r knows; r may be nil.
func (d *Document) Outline(r Resolver) *tipstaff.Outline {
	var written struct{ Root json.RawMessage }
	_ = json.Unmarshal(d.canonical, &written) // it has been read before; one that is yet to be written has none
	return d.Root.outline(r, written.Root)
}

// outline is a node, given as it is written, and what stands below it.
func (n *Node) outline(r Resolver, written json.RawMessage) *tipstaff.Outline {
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
	var members map[string]json.RawMessage
	_ = json.Unmarshal(written, &members)
	var children []json.RawMessage
	_ = json.Unmarshal(members["children"], &children)
	for _, name := range []string{"id", "kind", "children", label} {
		delete(members, name)
	}
	if len(members) > 0 {
		o.Given = flow.JSON(members)
	}
	for i, c := range n.Children {
		var below json.RawMessage
		if i < len(children) {
			below = children[i]
		}
		o.Children = append(o.Children, c.outline(r, below))
	}
	return o
}
