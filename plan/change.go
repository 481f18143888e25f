package plan

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
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
	var members map[string]json.RawMessage
	_ = json.Unmarshal(d.canonical, &members) // it has been read before
	var node func(n *Node, written json.RawMessage)
	node = func(n *Node, written json.RawMessage) {
		var own map[string]json.RawMessage
		_ = json.Unmarshal(written, &own)
		var below []json.RawMessage
		_ = json.Unmarshal(own["children"], &below)
		names := make([]string, len(n.Children))
		for i, c := range n.Children {
			names[i] = c.name()
		}
		delete(own, "id")
		if own["stands at"] = flow.JSON(n.Path); len(names) > 0 {
			own["children"] = flow.JSON(names)
		}
		add(n.name(), flow.JSON(own))
		for i, c := range n.Children {
			node(c, below[i])
		}
	}
	node(d.Root, members["root"])
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
