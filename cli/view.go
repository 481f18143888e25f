package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// view draws a run.
type view struct {
	*tipstaff.View
	pipeline bool // whose bounds have the names of its fields
}

func newView(run tipstaff.ID, name string, o *tipstaff.Outline) view {
	v := view{View: tipstaff.NewView(name, o), pipeline: o != nil && o.Kind == tipstaff.ProgramPipeline}
	v.Run = run
	return v
}

// bounds are those in use, as "tool_calls 3/20". Wall time is measured.
func (v view) bounds(wall time.Duration) (parts []string) {
	now := maps.Clone(v.Ledger.Used)
	if now == nil {
		now = map[string]int64{}
	}
	for _, held := range v.Ledger.Open {
		for name, n := range held {
			now[name] += n
		}
	}
	delete(now, tipstaff.BoundWallTime)
	if wall > 0 {
		now[tipstaff.BoundWallTime] = wall.Milliseconds()
	}
	for name := range v.Ledger.Held {
		now[name] += 0 // a bound of which nothing is used yet
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if now[name] != 0 || v.Ledger.Held[name] != 0 {
			limit, limited := v.Ledger.Limit[name]
			text := boundText(name, now[name], tipstaff.BoundStatus{Limit: limit, Limited: limited, Lost: v.Ledger.Lost[name], Held: v.Ledger.Held[name]})
			if v.pipeline {
				text = strings.TrimPrefix(ofPipeline(text), "max_") // a line is short
			}
			parts = append(parts, text)
		}
	}
	return parts
}

// boundText is what is used of a bound, as "tool_calls 3/20".
func boundText(name string, used int64, b tipstaff.BoundStatus) string {
	text := name + " " + amount(name, used)
	if b.Limited {
		text += "/" + tipstaff.AmountText(name, b.Limit)
	}
	if b.Lost > 0 {
		text += " (" + amount(name, b.Lost) + " lost)"
	}
	if b.Held > 0 {
		text += " (+ " + amount(name, b.Held) + " held)"
	}
	return text
}

// ofPipeline is what is said of a bound, which stands first, in the words of pipelines.
func ofPipeline(text string) string {
	name, rest, _ := strings.Cut(text, " ")
	return tipstaff.Joined(" ", tipstaff.BoundField(name), rest)
}

// amount is n of a bound for people.
func amount(name string, n int64) string {
	if name == tipstaff.BoundWallTime {
		return human(time.Duration(n) * time.Millisecond)
	}
	return tipstaff.AmountText(name, n)
}

// loopLines show the loops, as ↺ critic → intent 2/3.
func (v view) loopLines() (lines []line) {
	for _, l := range v.Loops {
		text := fmt.Sprintf("%s → %s %d", l.From, l.To, l.Iteration)
		if limit, ok := v.Ledger.Limit[tipstaff.BoundIterations]; ok {
			text += fmt.Sprintf("/%d", limit)
		}
		shown := line{say(yellow, "↺ "), say(plain, text)}
		if l.Refused != "" {
			shown = append(shown, say(red, "  refused: "+l.Refused))
		}
		lines = append(lines, shown)
	}
	return lines
}

// render draws a view in at most height lines of at most width cells. It is a
// pure function of its arguments: the screen only has to put it in place.
func (v view) render(width, height int, now time.Time) []line {
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
func (v view) header(now time.Time) line {
	l := line{}.and(stateColors[v.Status], v.Status).and(bold, v.Name)
	if d := v.Wall(now); d > 0 {
		l = l.and(dim, human(d))
	}
	return l.and(plain, v.Why).and(dim, v.Run.String())
}

var stateColors = map[string]color{
	"running": blue, "waiting": yellow, "interrupted": yellow, "completed": green, "failed": red, "cancelled": yellow,
}

// footer is the loops of a pipeline, and the bounds in use.
func (v view) footer(now time.Time) []line {
	lines := v.loopLines()
	if parts := v.bounds(v.Wall(now)); len(parts) > 0 {
		lines = append(lines, line{say(dim, strings.Join(parts, "  "))})
	}
	return lines
}

// glyphs and colours of node states.
var marks = map[tipstaff.NodeState]span{
	tipstaff.NodePending:   {"·", dim},
	tipstaff.NodeRunning:   {"▸", blue},
	tipstaff.NodeWaiting:   {"?", yellow},
	tipstaff.NodeDone:      {"✓", green},
	tipstaff.NodeFailed:    {"✗", red},
	tipstaff.NodeRefused:   {"⊘", red},
	tipstaff.NodeCancelled: {"×", yellow},
	tipstaff.NodeUncertain: {"!", red},
	tipstaff.NodeSkipped:   {"-", dim},
}

// row is a line of the tree: one node, or several siblings that are alike.
type row struct {
	depth  int
	state  tipstaff.NodeState
	node   *tipstaff.Node
	folded bool // the subtree is not shown
	alike  int  // of a row without node: how many nodes it stands for
	more   int  // of the last row: how many rows are not shown
}

// rows draws the tree in at most room rows. First subtrees are folded in which
// nothing happens, then siblings that are alike are counted, and at last the rows
// kept are those where something happens.
func (v view) rows(room int) []row {
	var rows []row
	for level := range 3 {
		rows = rows[:0]
		for _, r := range v.Roots {
			rows = unfold(rows, r, 0, level)
		}
		if len(rows) <= room {
			return rows
		}
	}
	return squeeze(rows, room)
}

func unfold(rows []row, n *tipstaff.Node, depth, level int) []row {
	s := n.Effective()
	below := slices.Concat(n.Children, n.Invocations)
	folded := level > 0 && depth > 0 && len(below) > 0 && s.Quiet()
	rows = append(rows, row{depth: depth, state: s, node: n, folded: folded})
	if folded {
		return rows
	}
	for i := 0; i < len(below); i++ {
		k := 0
		if level > 1 {
			k = alike(below[i:])
		}
		if k < 2 {
			rows = unfold(rows, below[i], depth+1, level)
			continue
		}
		rows = append(rows, row{depth: depth + 1, state: below[i].Effective(), alike: k})
		i += k - 1
	}
	return rows
}

// alike is how many nodes from the first on are quiet in the same way.
func alike(nodes []*tipstaff.Node) int {
	s := nodes[0].Effective()
	if !s.Quiet() {
		return 0
	}
	k := 1
	for k < len(nodes) && nodes[k].Effective() == s {
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
	case r.state == tipstaff.NodeRunning || r.state == tipstaff.NodeWaiting:
		return 0
	case !r.state.Quiet():
		return 1
	}
	return 2
}

// minLabelWidth is the narrowest terminal on which tools are named.
const minLabelWidth = 48

func (r row) line(v view, width int, now time.Time) line {
	indent := say(plain, strings.Repeat(" ", min(2*r.depth, width/3)))
	if r.more > 0 {
		return line{indent, say(dim, fmt.Sprintf("… %d more", r.more))}
	}
	if r.node == nil {
		return line{indent, marks[r.state], say(plain, " "), say(dim, fmt.Sprintf("%d %s", r.alike, r.state))}
	}
	n := v.Row(r.node, r.state, r.folded, now)
	l := line{indent, marks[n.Shown], say(plain, " "), say(plain, n.Name)}
	if width >= minLabelWidth {
		l = l.and(dim, n.Title).and(plain, fit(clean(n.Command), maxDetail))
	}
	var visit, took, used string
	if n.Stage != nil {
		visit, used = n.Stage.String(), n.Stage.Usage()
	}
	if n.Timed {
		took = human(n.Elapsed)
	}
	l = l.and(plain, visit).and(dim, took).and(dim, used)
	if n.Note != n.Label {
		l = l.and(plain, n.Note)
	}
	return l
}
