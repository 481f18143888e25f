package tipstaff

import (
	"encoding/json"
	"slices"
	"time"
)

// View is a run as its records tell it, for drawing: a tree of nodes with the state
// of each, the loops of a pipeline, and what was used. It is a pure fold: the same
// records give the same view, whoever drives the run. What is told and not recorded
// only adds to the note of a call in flight.
type View struct {
	Fold
	Name   string
	Status string // running, waiting, interrupted, completed, failed, cancelled; "" before the first owner
	Why    string // reason of an end or an interruption
	Roots  []*Node
	Loops  []Loop // of a pipeline, the latest last

	pipeline bool // the only root is a pipeline
	byPath   map[string]*Node
	askers   map[string]string // of gates: the path of who asked, by the key

	spans     map[string]*Span // the last at each path
	open      map[*Span]bool   // that have not ended
	names     map[string]string
	approvals map[Approved]*Approved
	segment   int // of the history
	drives    []drive
	marks     []Mark
	lastSeen  time.Time // the end of the last drive
}

// ProgramPipeline is the kind of a program, and of an outline whose children are
// stages.
const ProgramPipeline = "pipeline"

// NewView shows a program before its first record. Without an outline the tree grows
// as records name places in it.
func NewView(name string, o *Outline) *View {
	v := &View{Name: name, byPath: map[string]*Node{}, askers: map[string]string{}, spans: map[string]*Span{}, open: map[*Span]bool{},
		names: map[string]string{}, approvals: map[Approved]*Approved{}}
	if o != nil {
		v.pipeline = o.Kind == ProgramPipeline
		v.Roots = append(v.Roots, v.outline(o, ""))
	}
	return v
}

// Apply takes in one event.
func (v *View) Apply(e *Event) {
	var call, whole *Effect // read once: most records tell of calls
	switch e.Kind {
	case KindEffectIntended, KindEffectFailed, KindEffectFinished:
		if call = new(Effect); decode(e.Body, call) {
			whole = call
		}
	}
	if e.Seq <= v.Seq { // it was told and not recorded, or is known
		v.applyTree(e, call)
		return
	}
	last, before, held := v.DriveTo, v.Ledger.Used[BoundCostUSD], v.heldCost(e)
	v.Fold.apply(e, whole)
	v.applyTree(e, call)
	v.applySpan(e, call)
	v.applyDrive(e, last)
	if call != nil {
		v.charge(e.Path, v.Ledger.Used[BoundCostUSD]-before)
	}
	for path, cost := range held {
		v.charge(path, cost)
	}
}

// heldCost is what the end of a run charges for calls under way, by their paths.
func (v *View) heldCost(e *Event) (held map[string]int64) {
	if !e.Kind.Terminal() {
		return nil
	}
	for path, reserve := range v.Ledger.Open {
		if !v.Ledger.Suspended[path] {
			cost := reserve[BoundCostUSD]
			if v.Ledger.Holds {
				cost = v.Ledger.Known[path][BoundCostUSD]
			}
			put(&held, path, cost)
		}
	}
	return held
}

// applyTree takes in what an event, be it of a call, says of nodes.
func (v *View) applyTree(e *Event, call *Effect) {
	switch e.Kind {
	case KindIntentDraft:
		if v.Title != "" {
			v.Name = v.Title
		}
	case KindRunQueued:
		v.Status, v.Why = StatusQueued, ""
	case KindRunStarted, KindRunResumed:
		v.Status, v.Why = StatusRunning, ""
	case KindRunParked:
		v.Status, v.Why = string(Waiting), ""
		v.breakOff("")
	case KindRunInterrupted:
		v.Status, v.Why = StatusInterrupted, BodyOf[RunInterrupted](e).Reason
		v.breakOff(StatusInterrupted)
	case KindIntentAttest:
		v.end(e.At, Completed, BodyOf[IntentAttest](e).Outcome)
	case KindIntentFail:
		b := BodyOf[IntentFail](e)
		v.end(e.At, Failed, Joined(": ", Joined(" ", b.Reason, b.Bound), b.Message))
	case KindIntentCancel:
		v.end(e.At, Cancelled, BodyOf[IntentCancel](e).Reason)
	case KindPolicyGate:
		b := BodyOf[GateOpened](e)
		v.wait(GateKind(b.Kind), e.Path, e.At, b.Question)
		if d := DraftOf(Gate{Kind: GateKind(b.Kind), Subject: b.Subject}); d != nil && v.byPath[d.Outline.Path] == nil {
			v.Roots = append(v.Roots, v.outline(d.Outline, ""))
		}
	case KindIntentClarify:
		v.wait(Clarification, e.Path, e.At, Plural(len(BodyOf[IntentClarify](e).Questions), "question"))
	case KindIntentAnswer:
		v.decided(e.Path, "answer")
	case KindIntentAccept:
		v.decided(e.Path, "accept")
	case KindPolicyGateResolve:
		v.decided(e.Path, BodyOf[GateResolved](e).Action)
	case KindRunContinued:
		if !v.pipeline { // which only begins its history afresh
			v.supersede()
		}
	default:
		v.applyNode(e, call)
	}
}

// DraftedPlan is what a confirmation asks to accept: a plan that a model has written.
type DraftedPlan struct {
	ProgramDigest string   `json:"program_digest"`
	Outline       *Outline `json:"outline"`
}

// DraftOf is the plan that a gate asks about; nil: it asks about something else.
func DraftOf(g Gate) *DraftedPlan {
	var d DraftedPlan
	if g.Kind != Confirmation || json.Unmarshal(g.Subject, &d) != nil || d.Outline == nil {
		return nil
	}
	return &d
}

// Driven reports whether somebody drives the run.
func (v *View) Driven() bool { return !v.DriveFrom.IsZero() }

// Wall is how long the run was driven up to now, all owners together.
func (v *View) Wall(now time.Time) time.Duration {
	c := Waiting
	if v.Driven() {
		c = Running
	}
	return time.Duration(v.used(c, now)[BoundWallTime]) * time.Millisecond
}

func (v *View) end(at time.Time, state State, why string) {
	v.Status, v.Why = string(state), why
	v.walk(func(n *Node) {
		switch {
		case n.State == NodeRunning, n.State == NodeWaiting:
			n.State, n.Ended, n.Note = NodeCancelled, at, ""
		case n.State == NodePending && len(n.Children) == 0:
			n.State, n.Note = NodeSkipped, ""
		}
	})
}

// breakOff is what the end of a drive does to nodes that it was working on.
func (v *View) breakOff(note string) {
	v.walk(func(n *Node) {
		switch {
		case n.State != NodeRunning:
		case n.Invocation != nil: // its process has ended, and nobody saw how
			n.State, n.Note = NodeUncertain, note
		default:
			n.State, n.Note, n.Started = NodePending, note, time.Time{}
		}
	})
}

// supersede is what a new revision does to the nodes of those before it: what they
// have not done is not done any more. A tree in which nothing has happened is the
// new one's.
func (v *View) supersede() {
	for _, r := range v.Roots {
		if len(r.Children) == 0 && r.State == NodeRunning { // a confirmation whose answer was taken
			r.State, r.Note = NodeDone, ""
			continue
		}
		begun := false
		r.Walk(func(n *Node) { begun = begun || n.State != NodePending || n.Note != "" })
		if !begun {
			continue
		}
		r.Walk(func(n *Node) {
			if (n.State == NodePending || n.State == NodeRunning || n.State == NodeWaiting) && len(n.Children) == 0 {
				n.State, n.Note, n.Superseded = NodeSkipped, "superseded", true
			}
		})
	}
}

func (v *View) walk(f func(*Node)) {
	for _, r := range v.Roots {
		r.Walk(f)
	}
}

// Loop is an edge that leads back, and the iteration in which it was taken last.
type Loop struct {
	From, To  string
	Iteration int64
	Refused   string // by what, at last; "": it was taken
}

// loopsKept is how many loops a view keeps: the latest.
const loopsKept = 3

// turnBack notes a transition that leads back, or would have.
func (v *View) turnBack(t Transitioned) {
	if !t.Back() && !t.Refused() {
		return
	}
	l := Loop{From: t.From, To: t.To, Iteration: t.Iteration}
	if t.Refused() {
		l.Refused = t.Reason
	}
	v.Loops = slices.DeleteFunc(v.Loops, func(had Loop) bool { return had.From == l.From && had.To == l.To })
	v.Loops = append(v.Loops, l)
	if len(v.Loops) > loopsKept {
		v.Loops = v.Loops[1:]
	}
}
