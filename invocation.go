package tipstaff

import (
	"fmt"
	"slices"
	"time"
)

// Invocations of workers, as a View shows them.

// Invocation is one process of a worker, as far as records tell of it.
type Invocation struct {
	ID      string
	Worker  string
	Session string // of Tipstaff
}

// outcomeStates are how invocations end other than by failing.
var outcomeStates = map[string]NodeState{"reported": NodeDone, "paused": NodeDone, "approval": NodeDone, "cancelled": NodeCancelled}

// sessionShown is how much of a session's id stands in a line: as a rule it is enough to
// name the session.
const sessionShown = 10

// applyWorker takes in what a worker tells, or is told of one, and reports whether it was
// that.
func (v *View) applyWorker(e *Event, path string) bool {
	id := BodyOf[Inside](e).Invocation
	if id == "" || parentPath(path) == "" {
		return false
	}
	n := v.invocation(path, id)
	switch e.Kind {
	case KindWorkerStarted:
		b := BodyOf[WorkerStarted](e)
		n.Name, n.Label = b.Worker, b.Session[:min(len(b.Session), sessionShown)]
		n.Invocation.Worker, n.Invocation.Session = b.Worker, b.Session
		n.State, n.Started = NodeRunning, e.At
	case KindWorkerEvent:
		if b := BodyOf[WorkerEvent](e); n.State == NodeRunning && b.What == WorkerRetry {
			n.Note = Joined("  ", n.invocationText(), "tries again")
		}
	case KindWorkerEnded:
		n.endInvocation(BodyOf[WorkerEnded](e), e.At)
	default:
		n.told(e)
	}
	return true
}

// invocation is the node of an invocation: a line below the step or stage whose work it
// does.
func (v *View) invocation(path, id string) *Node {
	of := v.at(parentPath(path))
	for _, n := range of.Invocations {
		if n.Invocation.ID == id {
			return n
		}
	}
	n := &Node{Path: path, Name: lastSegment(path), Kind: "worker", Invocation: &Invocation{ID: id}, Agent: newAgentWork()}
	of.Invocations = append(of.Invocations, n)
	return n
}

// told takes in an event of the CLI's own loop. Its calls are known by their ids: they
// have no records of their own.
func (n *Node) told(e *Event) {
	w := n.Agent
	w.apply(e, BodyOf[AgentToolCallRequest](e).ID)
	switch e.Kind {
	case KindAgentMessage:
		if b := BodyOf[AgentMessage](e); b.Usage != nil && b.Usage.CostUSD != nil {
			w.Cost += *b.Usage.CostUSD
		}
	case KindAgentToolCallRequest:
		w.calling(BodyOf[AgentToolCallRequest](e).ID, true)
	}
	if n.State == NodeRunning {
		n.Note = n.invocationText()
	}
}

func (n *Node) invocationText() string {
	if n.Agent.Step == 0 { // it has said nothing yet
		return ""
	}
	return n.Agent.String()
}

func (n *Node) endInvocation(b WorkerEnded, at time.Time) {
	state, well := outcomeStates[b.Outcome]
	if !well {
		state = NodeFailed
	}
	n.State, n.Ended, n.Took = state, at, time.Duration(b.DurationMS)*time.Millisecond
	n.Note = b.String()
}

// String is how an invocation ended, in a line.
func (b WorkerEnded) String() string {
	outcome := b.Outcome
	if b.Which != "" {
		outcome += " (" + b.Which + ")"
	}
	var cost string
	if b.Usage.CostUSD != nil && *b.Usage.CostUSD > 0 {
		cost = CostText(*b.Usage.CostUSD, 0)
	}
	return Joined("  ", outcome, Plural(b.Steps, "step"), cost)
}

// String is who was started, in a line.
func (b WorkerStarted) String() string {
	begun := "begins"
	if b.Resumed {
		begun = "goes on with"
	}
	return fmt.Sprintf("%s %s session %s, %s", Joined(" ", b.Worker, b.CLIVersion), begun, b.Session, b.Posture)
}

// Invocations are the nodes of all invocations, in the order of the tree.
func (v *View) Invocations() (all []*Node) {
	v.walk(func(n *Node) {
		if n.Invocation != nil {
			all = append(all, n)
		}
	})
	return slices.Clip(all)
}
