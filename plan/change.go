package plan

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

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
func (n *Node) name() string {
	if n.ID != "" {
		return n.ID
	}
	return n.Path
}
