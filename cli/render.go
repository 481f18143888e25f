package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// render draws a view in at most height lines of at most width cells. It is a
// pure function of its arguments: the screen only has to put it in place.
func (v *view) render(width, height int, now time.Time) []line {
	height = max(1, height)
	lines := []line{v.header(now)}
	foot := v.footer(now)
	for len(foot) > 0 && height < 2+len(foot) { // the tree matters more
		foot = foot[:len(foot)-1]
	}
	if room := height - 1 - len(foot); room > 0 {
		for _, r := range v.rows(room) {
			lines = append(lines, r.line(v, width, now))
		}
	}
	lines = append(lines, foot...)
	for i := range lines {
		lines[i] = lines[i].fit(width)
	}
	return lines
}

// header has the state first and the id last: what a narrow terminal cuts off is
// printed in full at the end.
func (v *view) header(now time.Time) line {
	var l line
	add := func(c color, text string) {
		switch {
		case text == "":
		case len(l) == 0:
			l = append(l, say(c, text))
		default:
			l = append(l, say(c, "  "+text))
		}
	}
	add(stateColors[v.state], v.state)
	add(bold, v.name)
	if d := v.drivenAt(now); d > 0 {
		add(dim, human(d))
	}
	add(plain, v.why)
	add(dim, v.run.String())
	return l
}

var stateColors = map[string]color{
	"running": blue, "waiting": yellow, "interrupted": yellow, "completed": green, "failed": red, "cancelled": yellow,
}

// footer is the loops of a pipeline, and the bounds in use.
func (v *view) footer(now time.Time) []line {
	lines := v.loopLines()
	if parts := v.spent.parts(v.drivenAt(now)); len(parts) > 0 {
		lines = append(lines, line{say(dim, strings.Join(parts, "  "))})
	}
	return lines
}

// glyphs and colours of node states.
var marks = map[nodeState]span{
	pending:   {"·", dim},
	running:   {"▸", blue},
	waiting:   {"?", yellow},
	done:      {"✓", green},
	failed:    {"✗", red},
	refused:   {"⊘", red},
	cancelled: {"×", yellow},
	uncertain: {"!", red},
	skipped:   {"-", dim},
}

var stateNames = map[nodeState]string{
	pending: "pending", running: "running", waiting: "waiting", done: "done", failed: "failed",
	refused: "refused", cancelled: "cancelled", uncertain: "uncertain", skipped: "skipped",
}

// effective is n's state, or for a branch what its children add up to.
func (n *node) effective() nodeState {
	if n.state != pending || len(n.children) == 0 {
		return n.state
	}
	var count [skipped + 1]int
	for _, c := range n.children {
		count[c.effective()]++
	}
	for _, s := range []nodeState{running, waiting, failed, refused, uncertain, cancelled} {
		if count[s] > 0 {
			return s
		}
	}
	switch {
	case count[pending] == len(n.children):
		return pending
	case count[pending] > 0: // between two children
		return running
	case count[done] > 0:
		return done
	}
	return skipped
}

// leaves counts n's leaves, and those that have ended well.
func (n *node) leaves() (ended, all int) {
	n.walk(func(n *node) {
		if len(n.children) == 0 {
			all++
			if n.state == done {
				ended++
			}
		}
	})
	return ended, all
}

// span of time from the first start to the last end below n.
func (n *node) times() (from, to time.Time) {
	n.walk(func(n *node) {
		if !n.started.IsZero() && (from.IsZero() || n.started.Before(from)) {
			from = n.started
		}
		if n.ended.After(to) {
			to = n.ended
		}
	})
	return from, to
}

// row is a line of the tree: one node, or several siblings that are alike.
type row struct {
	depth  int
	state  nodeState
	node   *node
	folded bool // the subtree is not shown
	alike  int  // of a row without node: how many nodes it stands for
	more   int  // of the last row: how many rows are not shown
}

// quiet reports whether nothing happens, or went wrong, below a node in state s.
func quiet(s nodeState) bool { return s == pending || s == done || s == skipped }

// rows draws the tree in at most room rows. First subtrees are folded in which
// nothing happens, then siblings that are alike are counted, and at last the rows
// kept are those where something happens.
func (v *view) rows(room int) []row {
	var rows []row
	for level := range 3 {
		rows = rows[:0]
		for _, r := range v.tree.roots {
			rows = unfold(rows, r, 0, level)
		}
		if len(rows) <= room {
			return rows
		}
	}
	return squeeze(rows, room)
}

func unfold(rows []row, n *node, depth, level int) []row {
	s := n.effective()
	folded := level > 0 && depth > 0 && len(n.children) > 0 && quiet(s)
	rows = append(rows, row{depth: depth, state: s, node: n, folded: folded})
	if folded {
		return rows
	}
	for i := 0; i < len(n.children); i++ {
		k := 0
		if level > 1 {
			k = alike(n.children[i:])
		}
		if k < 2 {
			rows = unfold(rows, n.children[i], depth+1, level)
			continue
		}
		rows = append(rows, row{depth: depth + 1, state: n.children[i].effective(), alike: k})
		i += k - 1
	}
	return rows
}

// alike is how many nodes from the first on are quiet in the same way.
func alike(nodes []*node) int {
	s := nodes[0].effective()
	if !quiet(s) {
		return 0
	}
	k := 1
	for k < len(nodes) && nodes[k].effective() == s {
		k++
	}
	return k
}

// squeeze keeps the rows that matter most, in their order: where something
// happens or went wrong, and only then what is quiet.
func squeeze(rows []row, room int) []row {
	if room == 1 { // the root says how far the run got
		return rows[:1]
	}
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return rows[a].rank() - rows[b].rank() })
	kept := order[:room-1]
	slices.Sort(kept)
	var out []row
	for _, i := range kept {
		out = append(out, rows[i])
	}
	return append(out, row{more: len(rows) - len(kept)})
}

func (r row) rank() int {
	switch {
	case r.state == running || r.state == waiting:
		return 0
	case !quiet(r.state):
		return 1
	}
	return 2
}

// minLabelWidth is the narrowest terminal on which tools are named.
const minLabelWidth = 48

func (r row) line(v *view, width int, now time.Time) line {
	indent := say(plain, strings.Repeat(" ", min(2*r.depth, width/3)))
	if r.more > 0 {
		return line{indent, say(dim, fmt.Sprintf("… %d more", r.more))}
	}
	state := v.shown(r)
	l := line{indent, marks[state], say(plain, " ")}
	if r.node == nil {
		return append(l, say(dim, fmt.Sprintf("%d %s", r.alike, stateNames[r.state])))
	}
	n := r.node
	l = append(l, say(plain, n.name))
	if label := n.title(r.folded); label != "" && width >= minLabelWidth {
		l = append(l, say(dim, "  "+label))
	}
	if n.stage != nil && n.stage.visit > 0 {
		l = append(l, say(plain, "  "+n.stage.text()))
	}
	if t := n.elapsed(state, now); t != "" {
		l = append(l, say(dim, "  "+t))
	}
	if n.stage != nil && n.stage.used() != "" {
		l = append(l, say(dim, "  "+n.stage.used()))
	}
	if n.note != "" && n.note != n.label {
		l = append(l, say(plain, "  "+n.note))
	}
	return l
}

// shown is the state of a row in the light of the run's: in a run that completed,
// a branch with a failure went on from it, and nothing works while nobody drives.
func (v *view) shown(r row) nodeState {
	branch := r.node != nil && len(r.node.children) > 0
	switch {
	case branch && r.node.kind == pipelineKind && v.state == "failed":
		return failed
	case branch && r.node.kind == pipelineKind && v.state == "cancelled":
		return cancelled
	case v.state == "completed" && branch && !quiet(r.state):
		return done
	case v.drivenSince.IsZero() && branch && r.state == running:
		return pending
	}
	return r.state
}

// title is what a node does; of a branch, how far it got.
func (n *node) title(folded bool) string {
	if len(n.children) == 0 {
		return n.label
	}
	ended, all := n.leaves()
	if !folded && ended == 0 {
		return n.kind
	}
	return joined(" ", n.kind, fmt.Sprintf("%d/%d", ended, all))
}

// elapsed is how long n took, or has been taking.
func (n *node) elapsed(s nodeState, now time.Time) string {
	from, to := n.times()
	switch {
	case n.stage != nil:
		from, to = n.started, n.ended
	case n.kind == pipelineKind: // its stages tell of their last visits alone, the header of the whole
		return ""
	}
	switch {
	case from.IsZero():
		return ""
	case s == pending:
		return ""
	case s == running || s == waiting:
		return human(now.Sub(from))
	case len(n.children) == 0 && n.took > 0:
		return human(n.took)
	case to.IsZero():
		return ""
	}
	return human(to.Sub(from))
}
