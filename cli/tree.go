package cli

import (
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// nodeState is what a view knows of one node.
type nodeState int

const (
	pending nodeState = iota
	running
	waiting   // at a gate
	done      // completed, or carried over from an earlier revision
	failed    // the call, the step or a continued failure
	refused   // by policy, pin, bound: nothing was sent
	cancelled // broken off
	uncertain // sent, never answered
	skipped   // never reached
)

// node is one place in a program.
type node struct {
	path, name, kind, label string
	outlined                bool // the program named it; else a record did
	children                []*node

	state   nodeState // of a branch pending: it follows from its children
	started time.Time
	ended   time.Time
	took    time.Duration // as recorded; zero: not recorded
	note    string
	agent   *agentWork // nil: no agent has told of itself
	stage   *stageWork // nil: it is no stage of a pipeline
}

// tree holds the nodes of a run, those of later revisions beside the first.
type tree struct {
	roots  []*node
	byPath map[string]*node
	askers map[string]string // of gates: who asked, by the key

	pipeline bool // the only root is a pipeline
}

func newTree(o *tipstaff.Outline) *tree {
	t := &tree{byPath: map[string]*node{}, askers: map[string]string{}}
	if o != nil {
		t.pipeline = o.Kind == pipelineKind
		t.roots = append(t.roots, t.outline(o, ""))
	}
	return t
}

// plan shows a program that was not known before.
func (t *tree) plan(o *tipstaff.Outline) {
	if t.byPath[o.Path] == nil {
		t.roots = append(t.roots, t.outline(o, ""))
	}
}

// outline makes nodes below a path: plans that are stages of pipelines all begin at
// the same one of their own.
func (t *tree) outline(o *tipstaff.Outline, below string) *node {
	n := &node{path: joined("/", below, o.Path), name: o.ID, kind: o.Kind, label: o.Label, outlined: true}
	if t.pipeline && below == "" && o.Path != "" {
		n.stage, below = &stageWork{}, o.Path
	}
	if n.name == "" {
		n.name = lastSegment(o.Path)
	}
	t.byPath[n.path] = n
	for _, c := range o.Children {
		n.children = append(n.children, t.outline(c, below))
	}
	return n
}

func lastSegment(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func parentOf(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return ""
}

// at finds the node that a record's path belongs to. Below a node of the outline
// that is this node itself: the calls of a step are the step's own affair.
// Elsewhere the tree grows, but for what is known to be such a call.
func (t *tree) at(path string) *node {
	if n := t.byPath[path]; n != nil {
		return n
	}
	var parent *node
	if up := parentOf(path); up != "" {
		parent = t.at(up)
	}
	if parent != nil && (parent.outlined || ownAffair(path)) {
		return parent
	}
	n := &node{path: path, name: lastSegment(path)}
	t.byPath[path] = n
	if parent == nil {
		t.roots = append(t.roots, n)
	} else {
		parent.children = append(parent.children, n)
	}
	return n
}

// groupOf is the path whose branches a group's record speaks of: the record
// stands at the numbered go#1 below it.
func groupOf(path string) string {
	if strings.HasPrefix(lastSegment(path), "go#") {
		return parentOf(path)
	}
	return path
}

// branch reports whether n's state is that of its children.
func (n *node) branch() bool { return n.outlined && len(n.children) > 0 }

func (t *tree) fold(ev tipstaff.Event, b recordBody) {
	if t.foldStage(ev) || ev.Path == "" {
		return
	}
	if ev.Kind == "gate.taken" {
		t.takenUp(t.byPath[t.askers[ev.Path]], ev.At)
		return
	}
	ev.Path = t.place(ev.Path)
	if strings.HasPrefix(string(ev.Kind), "agent.") {
		t.work(ev)
		return
	}
	if ownActivity(ev, b) {
		if ev.Kind == "effect.intended" {
			t.begin(tipstaff.Event{Path: parentOf(ev.Path), At: ev.At})
		}
		return
	}
	switch ev.Kind {
	case "effect.intended":
		t.begin(ev)
	case "effect.failed":
		n := t.at(ev.Path)
		n.called(ev.Path, false)
		if !n.branch() && b.Error != nil {
			n.note = "retrying: " + b.Error.text()
		}
	case "tool.progress": // what comes before the call is known to run, or after, is let go
		if n := t.byPath[ev.Path]; n != nil && n.state == running {
			n.note = b.progress()
		}
	case "effect.finished":
		t.finish(ev, b)
	case "group.closed":
		t.skip(groupOf(ev.Path), b.Skipped)
	case "plan.step":
		t.step(ev, b)
	}
}

func (t *tree) begin(ev tipstaff.Event) {
	n := t.at(ev.Path)
	if n.branch() || n.stage != nil && lastSegment(ev.Path) == "begin" { // stage.started says so, and which visit it is
		return
	}
	if n.state != running {
		n.state = running
		if n.started.IsZero() {
			n.started = ev.At
		}
	}
	if n.called(ev.Path, true) || n.stage != nil {
		return
	}
	n.note = ""
	if n.path != ev.Path {
		n.note = lastSegment(ev.Path)
	}
}

// finish ends a call. Where it is not the node's own, the node goes on.
func (t *tree) finish(ev tipstaff.Event, b recordBody) {
	n := t.at(ev.Path)
	if n.branch() || n.stage != nil || n.path != ev.Path {
		n.called(ev.Path, false)
		return
	}
	took := time.Duration(b.Ms) * time.Millisecond
	if n.started.IsZero() {
		n.started = ev.At.Add(-took)
	}
	n.state, n.ended, n.took, n.note = done, ev.At, took, ""
	if b.Error != nil {
		n.state, n.note = failed, b.Error.text()
	}
}

// step takes the walker's word for how a node ended; it outranks the call's.
func (t *tree) step(ev tipstaff.Event, b recordBody) {
	n := t.at(ev.Path)
	if b.Status == "started" {
		t.begin(ev)
		return
	}
	state, ok := stepStates[b.Status]
	if !ok {
		return
	}
	n.state, n.ended, n.note = state, ev.At, ""
	if b.Status == "carried" {
		n.note = "carried"
	}
	if b.Error != nil {
		n.note = b.Error.text()
	}
	if b.LatencyMs == nil {
		return
	}
	n.took = time.Duration(*b.LatencyMs) * time.Millisecond
	if n.started.IsZero() {
		n.started = ev.At.Add(-n.took)
	}
}

var stepStates = map[string]nodeState{
	"completed": done, "carried": done, "failed": failed, "refused": refused, "cancelled": cancelled, "uncertain": uncertain,
}

func (t *tree) wait(kind tipstaff.GateKind, key string, at time.Time, question string) {
	path := t.place(tipstaff.AskerPath(kind, key))
	if path == "" {
		return
	}
	n := t.at(path)
	t.askers[key] = n.path
	if n.stage != nil && n.state != waiting {
		n.stage.asked = n.state
	}
	n.state, n.note = waiting, question
	if n.started.IsZero() {
		n.started = at
	}
}

// decided leaves the node pending: a decision starts nothing until it is taken.
func (t *tree) decided(key, action string) {
	if n := t.byPath[t.askers[key]]; n != nil && n.state == waiting {
		n.state, n.note = pending, "decided: "+action
	}
}

// takenUp is what happens to a node when a decision that it waited for is taken. A
// stage that was asked about after its work was done does not work again.
func (t *tree) takenUp(n *node, at time.Time) {
	switch {
	case n == nil:
	case n.stage != nil && quiet(n.stage.asked) && n.stage.asked != pending:
		n.state, n.note = n.stage.asked, ""
	default:
		t.begin(tipstaff.Event{Path: n.path, At: at})
	}
}

func (t *tree) skip(group string, names []string) {
	for _, name := range names {
		if n := t.byPath[joined("/", group, name)]; n != nil {
			n.walk(func(n *node) {
				if !n.branch() && n.state == pending {
					n.state = skipped
				}
			})
		}
	}
}

// breakOff is what the end of a drive does to nodes that it was working on.
func (t *tree) breakOff(note string) {
	t.walk(func(n *node) {
		if n.state == running {
			n.state, n.note, n.started = pending, note, time.Time{}
		}
	})
}

// leave is what a new revision does to the nodes of those before it: what they
// have not done is not done any more. A tree in which nothing has happened is the
// new one's.
func (t *tree) leave() {
	for _, r := range t.roots {
		if len(r.children) == 0 && r.state == running { // a confirmation whose answer was taken
			r.state, r.note = done, ""
			continue
		}
		begun := false
		r.walk(func(n *node) { begun = begun || n.state != pending || n.note != "" })
		if !begun {
			continue
		}
		r.walk(func(n *node) {
			if (n.state == pending || n.state == running || n.state == waiting) && len(n.children) == 0 {
				n.state, n.note = skipped, "superseded"
			}
		})
	}
}

// settle is what the end of the run does to nodes that have not ended.
func (t *tree) settle(at time.Time) {
	t.walk(func(n *node) {
		switch {
		case n.state == running, n.state == waiting:
			n.state, n.ended, n.note = cancelled, at, ""
		case n.state == pending && len(n.children) == 0:
			n.state, n.note = skipped, ""
		}
	})
}

func (t *tree) walk(f func(*node)) {
	for _, r := range t.roots {
		r.walk(f)
	}
}

func (n *node) walk(f func(*node)) {
	f(n)
	for _, c := range n.children {
		c.walk(f)
	}
}
