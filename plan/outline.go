package plan

import "github.com/tipstaff/tipstaff"

// Outline is the tree for people, with the classes that r knows; r may be nil.
func (d *Document) Outline(r Resolver) *tipstaff.Outline { return d.Root.outline(r) }

func (n *Node) outline(r Resolver) *tipstaff.Outline {
	o := &tipstaff.Outline{Path: n.Path, ID: n.ID, Kind: string(n.Kind)}
	switch n.Kind {
	case ToolCall:
		o.Label = n.Tool
		if r != nil {
			o.Class = string(r.Tool(n.Tool).Class)
		}
	case Gate:
		o.Label = n.Question
	case SubDispatch:
		o.Label = n.Skill
	case Step:
		o.Label = n.Agent
	}
	for _, c := range n.Children {
		o.Children = append(o.Children, c.outline(r))
	}
	return o
}
