package tipstaff

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Stages of pipelines, as a View shows them.

// StageWork is what a stage has come to. However often it is visited, it is one node.
type StageWork struct {
	Visit, Attempt int64
	Calls          int64 // of models, in all visits
	Cost, Lost     USD   // in all visits
	asked          NodeState
}

// String is the visit: #3.2 is the second attempt of the third.
func (w *StageWork) String() string {
	if w.Visit == 0 {
		return ""
	}
	visit := fmt.Sprintf("#%d", w.Visit)
	if w.Attempt > 1 {
		visit += fmt.Sprintf(".%d", w.Attempt)
	}
	return visit
}

// Usage is what the stage has consumed.
func (w *StageWork) Usage() string { return usageText(w.Calls, w.Cost, w.Lost) }

func usageText(calls int64, cost, lost USD) string {
	var parts [2]string
	if calls > 0 {
		parts[0] = Plural(int(calls), "model call")
	}
	if cost > 0 {
		parts[1] = CostText(cost, lost)
	}
	return Joined("  ", parts[:]...)
}

// String is what the stage has consumed.
func (u StageUsage) String() string { return usageText(u.LLMCalls, u.CostUSD, u.LostUSD) }

// Took is how long the visit took.
func (b StageFinished) Took() time.Duration { return time.Duration(b.DurationMs) * time.Millisecond }

// Failure is why the stage failed, and where that leads; "": it did not.
func (b StageFinished) Failure() string {
	text := Joined(": ", b.Code, b.Error)
	if b.Next != "" {
		text += " → " + b.Next
	}
	return text
}

// Failure is why the attempt failed.
func (b StageRetrying) Failure() string { return Joined(": ", b.Code, b.Error) }

// place is where a path belongs in the tree: it is without the visit of its stage, which there
// is from then on. Names of stages have no #.
func (v *View) place(path string) string {
	if !v.pipeline {
		return path
	}
	first, _, _ := strings.Cut(path, "/")
	name, _, visited := strings.Cut(first, "#")
	if !visited || v.byPath[name] == nil && (name == "now" || name == "go") { // the engine's own
		return path
	}
	v.stage(name)
	return v.unvisited(path)
}

// stage is the node of a stage. Whoever looks at the run of another has no outline:
// then stages appear as they start.
func (v *View) stage(name string) *Node {
	if n := v.byPath[name]; n != nil {
		return n
	}
	root := v.Roots[0]
	n := &Node{Path: name, Name: name, Kind: "stage", outlined: true, Stage: &StageWork{}}
	v.byPath[name] = n
	root.Children = append(root.Children, n)
	return n
}

// applyStage takes in what an executor tells of stages, and reports whether it was
// that.
func (v *View) applyStage(e *Event) bool {
	switch e.Kind {
	case KindStageStarted:
		b := BodyOf[StageStarted](e)
		v.stage(b.Stage).visit(b, e.At)
	case KindStageRetrying:
		b := BodyOf[StageRetrying](e)
		n := v.stage(b.Stage)
		n.Stage.Attempt, n.Note = b.NextAttempt, "retrying: "+b.Failure()
	case KindStageFinished:
		b := BodyOf[StageFinished](e)
		v.stage(b.Stage).leave(b, e.At)
	case KindStageSkipped:
		b := BodyOf[StageSkipped](e)
		n := v.stage(b.Stage)
		n.State, n.Note = NodeSkipped, "without "+strings.Join(b.Unmet, ", ")
	case KindTransition:
		b := BodyOf[Transitioned](e)
		v.turnBack(b)
		if b.Back() || b.Reason == TransitionResume {
			v.epoch(b.From, b.To)
		}
	default:
		return false
	}
	return true
}

// visit begins the stage, or an attempt of it, anew.
func (n *Node) visit(b StageStarted, at time.Time) {
	if n.Stage.Visit != b.Visit || n.Started.IsZero() {
		n.Started = at
		for _, c := range n.Children {
			c.Walk(func(c *Node) {
				c.State, c.Started, c.Ended, c.Took, c.Note = NodePending, time.Time{}, time.Time{}, 0, ""
			})
		}
	}
	if n.Stage.Visit != b.Visit {
		n.Invocations = nil
	}
	n.Stage.Visit, n.Stage.Attempt = b.Visit, b.Attempt
	n.State, n.Ended, n.Took, n.Note, n.Agent = NodeRunning, time.Time{}, 0, "", nil
}

var stageOutcomes = map[string]NodeState{"success": NodeDone, "error": NodeFailed, "cancelled": NodeCancelled}

// leave ends a visit. One whose rules cannot be evaluated ends twice, and is counted
// once.
func (n *Node) leave(b StageFinished, at time.Time) {
	state, ok := stageOutcomes[b.Outcome]
	if !ok {
		return
	}
	if n.State == NodeRunning || n.State == NodePending {
		n.Stage.Calls += b.Usage.LLMCalls
		n.Stage.Cost += b.Usage.CostUSD
		n.Stage.Lost += b.Usage.LostUSD
	}
	n.State, n.Ended, n.Took, n.Note = state, at, b.Took(), b.Failure()
}

// epoch is what a new epoch does: the stages from the one it begins at are to run
// again.
func (v *View) epoch(from, to string) {
	stages := v.Roots[0].Children
	index := func(name string) int { return slices.IndexFunc(stages, func(n *Node) bool { return n.Path == name }) }
	at := index(to)
	if at < 0 || at > index(from) {
		return
	}
	for _, n := range stages[at:] {
		if n.State != NodeRunning {
			n.State, n.Note = NodePending, ""
		}
	}
}
