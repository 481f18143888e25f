package page

import "github.com/tipstaff/tipstaff"

// Limits of a tree: of a branch with many children some are shown, and of a large tree what
// fits on a page.
const (
	treeRows     = 400
	treeBeside   = 100 // beside a large graph
	treeChildren = 200
	treeFirst    = 50 // of a branch with more than treeChildren
)

// tree is a run, or what is below a node of it, as nested lists.
type tree struct {
	Roots []*branch
	Rows  int // that are shown
	More  int // at the top that are not shown
	Error string
}

// branch is a row with those below it.
type branch struct {
	tipstaff.Row
	Children []*branch
	More     int // children that are not shown

	all     []*branch // children
	wanted  bool      // it, or something below it, has failed, runs or waits
	visible bool
}

// treeOf nests rows of a view. It copies what it shows: the view goes on.
func treeOf(rows []tipstaff.Row, most int) tree {
	top := &branch{}
	stack := []*branch{top} // by depth
	for _, r := range rows {
		depth := r.Depth - rows[0].Depth
		b := branchOf(r)
		stack = append(stack[:depth+1], b)
		stack[depth].all = append(stack[depth].all, b)
		if !r.Shown.Quiet() && r.Shown != tipstaff.NodeCancelled {
			for _, up := range stack {
				up.wanted = true
			}
		}
	}
	t := tree{Rows: top.choose(most)}
	top.settle()
	t.Roots, t.More = top.Children, top.More
	return t
}

// rowsBelow are those under the one at a place.
func rowsBelow(rows []tipstaff.Row, at int) []tipstaff.Row {
	end := at + 1
	for end < len(rows) && rows[end].Depth > rows[at].Depth {
		end++
	}
	return rows[at+1 : end]
}

func branchOf(r tipstaff.Row) *branch {
	node := *r.Node
	r.Node = &node
	return &branch{Row: r}
}

// choose marks the rows that are shown, at most so many: level by level, first those on the
// way to what has failed, runs or waits. It gives their number.
func (b *branch) choose(most int) (rows int) {
	for _, wanted := range []bool{true, false} {
		for level := []*branch{b}; len(level) > 0; {
			var next []*branch
			for _, up := range level {
				for _, c := range up.candidates() {
					if wanted && !c.wanted {
						continue
					}
					if !c.visible {
						if rows >= most {
							return rows
						}
						c.visible = true
						rows++
					}
					next = append(next, c)
				}
			}
			level = next
		}
	}
	return rows
}

// candidates are the children that may be shown: of many the first, and those that need
// attention.
func (b *branch) candidates() []*branch {
	if len(b.all) <= treeChildren {
		return b.all
	}
	some := append([]*branch{}, b.all[:treeFirst]...)
	for _, c := range b.all[treeFirst:] {
		if c.wanted && len(some) < treeChildren {
			some = append(some, c)
		}
	}
	return some
}

// settle keeps the rows that are shown.
func (b *branch) settle() {
	for _, c := range b.all {
		if c.visible {
			c.settle()
			b.Children = append(b.Children, c)
		}
	}
	b.More = len(b.all) - len(b.Children)
	b.all = nil
}

// Branch reports whether something is below it.
func (b *branch) Branch() bool { return len(b.Children) > 0 || b.More > 0 }

// Link is the address of its panel.
func (b *branch) Link(run tipstaff.ID, at *atBar) string { return nodeLink(run, b.Path, at) }

// Key tells the row from others on the page.
func (b *branch) Key() string { return keyOf(b.Path) }
