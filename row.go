package tipstaff

import (
	"fmt"
	"slices"
	"time"
)

// Row is what is shown of one node, on a terminal and on the page.
type Row struct {
	*Node
	Parent  string // its path; "": it stands at the top
	Depth   int
	Shown   NodeState     // in the light of the run's state
	Title   string        // what it does; of a branch, how far it got
	Elapsed time.Duration // so far
	Timed   bool          // Elapsed is known

	Attempts int
	Cost     USD      // of all below it, as far as it is charged
	Child    ID       // the run that it has dispatched
	Gates    []string // ids of those that it waits at
}

// Rows are the nodes in the order of the tree, as of the last record that was applied.
func (v *View) Rows(now time.Time) (rows []Row) {
	var add func(n *Node, parent string, depth int)
	add = func(n *Node, parent string, depth int) {
		r := v.Row(n, n.Effective(), false, now)
		r.Parent, r.Depth = parent, depth
		rows = append(rows, r)
		for _, c := range slices.Concat(n.Children, n.Invocations) {
			add(c, n.Path, depth+1)
		}
	}
	for _, n := range v.Roots {
		add(n, "", 0)
	}
	return rows
}

// Row is what is shown of a node of an effective state; folded: what is below it is not
// shown.
func (v *View) Row(n *Node, state NodeState, folded bool, now time.Time) Row {
	r := Row{Node: n, Shown: v.shown(n, state), Title: n.title(folded)}
	r.Elapsed, r.Timed = n.elapsed(r.Shown, now)
	if n.call != nil {
		r.Attempts, r.Child = int(n.call.Attempt), n.call.More().Child
	}
	if n.Stage != nil {
		r.Attempts = int(n.Stage.Attempt)
	}
	n.Walk(func(n *Node) { r.Cost += n.cost })
	for _, s := range n.spans {
		if s.Kind == SpanGate && s.State == NodeWaiting {
			r.Gates = append(r.Gates, s.More().Gate)
		}
	}
	return r
}

// leaves counts n's leaves, and those that have ended well.
func (n *Node) leaves() (ended, all int) {
	n.Walk(func(n *Node) {
		if len(n.Children) == 0 && n.Invocation == nil {
			all++
			if n.State == NodeDone {
				ended++
			}
		}
	})
	return ended, all
}

// times are the first start and the last end below n.
func (n *Node) times() (from, to time.Time) {
	n.Walk(func(n *Node) {
		if !n.Started.IsZero() && (from.IsZero() || n.Started.Before(from)) {
			from = n.Started
		}
		if n.Ended.After(to) {
			to = n.Ended
		}
	})
	return from, to
}

// shown is the state of a node in the light of the run's: in a run that completed,
// a branch with a failure went on from it, and nothing works while nobody drives.
func (v *View) shown(n *Node, state NodeState) NodeState {
	branch := len(n.Children) > 0
	switch {
	case branch && n.Kind == ProgramPipeline && v.Status == string(Failed):
		return NodeFailed
	case branch && n.Kind == ProgramPipeline && v.Status == string(Cancelled):
		return NodeCancelled
	case v.Status == string(Completed) && branch && !state.Quiet():
		return NodeDone
	case !v.Driven() && branch && state == NodeRunning:
		return NodePending
	}
	return state
}

// title is what a node does; of a branch, how far it got.
func (n *Node) title(folded bool) string {
	if len(n.Children) == 0 {
		return n.Label
	}
	ended, all := n.leaves()
	if !folded && ended == 0 {
		return n.Kind
	}
	return Joined(" ", n.Kind, fmt.Sprintf("%d/%d", ended, all))
}

// elapsed is how long n took, or has been taking, if that is known.
func (n *Node) elapsed(s NodeState, now time.Time) (time.Duration, bool) {
	from, to := n.times()
	switch {
	case n.Stage != nil:
		from, to = n.Started, n.Ended
	case n.Kind == ProgramPipeline: // its stages tell of their last visits alone, the header of the whole
		return 0, false
	}
	switch {
	case from.IsZero(), s == NodePending:
		return 0, false
	case s == NodeRunning || s == NodeWaiting:
		return now.Sub(from), true
	case len(n.Children) == 0 && n.Took > 0:
		return n.Took, true
	case to.IsZero():
		return 0, false
	}
	return to.Sub(from), true
}
