package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
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

// Position is where a node is written: line and column, from 1; zero: nowhere.
func (n *Node) Position() (line, column int) { return n.at().Line, n.at().Column }

// LiteralArgs are the arguments of a tool call as they will be sent, if no reference
// stands in them.
func (n *Node) LiteralArgs() (args json.RawMessage, ok bool) {
	if !n.literal {
		return nil, false
	}
	written := n.field("args")
	if written == nil {
		return json.RawMessage("{}"), true
	}
	args, err := render(written, nil)
	return args, err == nil
}

// Changes are what a revision changes of a document: first the nodes, in the order of the
// new tree and then of the old, then the members beside the tree.
func Changes(old, new *Document) []tipstaff.Change {
	was, wasOrder := old.parts()
	now, nowOrder := new.parts()
	var all []tipstaff.Change
	for _, what := range nowOrder {
		if !bytes.Equal(was[what], now[what]) {
			all = append(all, tipstaff.Change{What: what, Was: was[what], Now: now[what]})
		}
	}
	for _, what := range wasOrder {
		if now[what] == nil {
			all = append(all, tipstaff.Change{What: what, Was: was[what]})
		}
	}
	return all
}

// parts are the nodes of a document by id, or by path if they have none, each with where
// it stands and without what stands below it; then its other members by name.
func (d *Document) parts() (parts map[string]json.RawMessage, order []string) {
	parts = map[string]json.RawMessage{}
	add := func(what string, v json.RawMessage) {
		parts[what] = v
		order = append(order, what)
	}
	var node func(n *Node)
	node = func(n *Node) {
		own := n.members("id", "children")
		place := func(name string, v *document.Value) {
			own.Members = append(own.Members, document.Member{Key: name, Value: v})
		}
		place("stands at", &document.Value{Kind: document.Text, Text: n.Path})
		if len(n.Children) > 0 {
			names := &document.Value{Kind: document.List}
			for _, c := range n.Children {
				names.Items = append(names.Items, &document.Value{Kind: document.Text, Text: c.name()})
			}
			place("children", names)
		}
		add(n.name(), document.Raw(own))
		for _, c := range n.Children {
			node(c)
		}
	}
	node(d.Root)
	var members map[string]json.RawMessage
	_ = json.Unmarshal(d.canonical, &members) // it has been read before
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if name != "root" {
			add("plan."+name, members[name]) // which no node is called
		}
	}
	return parts, order
}

// name is what people call a node.
func (n *Node) name() string { return cmp.Or(n.ID, n.Path) }
