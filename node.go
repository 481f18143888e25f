package tipstaff

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// NodeState is what a [View] knows of one node.
type NodeState int

const (
	NodePending NodeState = iota
	NodeRunning
	NodeWaiting   // at a gate
	NodeDone      // completed, or carried over from an earlier revision
	NodeFailed    // the call, the step or a continued failure
	NodeRefused   // by policy, pin, bound: nothing was sent
	NodeCancelled // broken off
	NodeUncertain // sent, never answered
	NodeSkipped   // never reached
)

var nodeStates = [...]string{"pending", "running", "waiting", "done", "failed", "refused", "cancelled", "uncertain", "skipped"}

func (s NodeState) String() string { return nodeStates[s] }

// Quiet reports whether nothing happens, or went wrong, in a node of this state.
func (s NodeState) Quiet() bool { return s == NodePending || s == NodeDone || s == NodeSkipped }

// Node is one place in a program.
type Node struct {
	Path, Name, Kind, Label string
	Command                 string // that a call starts, as the program says it; "": none that is known
	Children                []*Node

	State   NodeState // of a branch pending: it follows from its children
	Started time.Time
	Ended   time.Time
	Took    time.Duration // as recorded; zero: not recorded
	Note    string
	Agent   *AgentWork // nil: no agent has told of itself
	Stage   *StageWork // nil: it is no stage of a pipeline

	Invocation  *Invocation // nil: it is a place in the program
	Invocations []*Node     // of workers, that did its work: their state is not its own

	Superseded bool // by a later revision of the program

	outlined bool    // the program named it; else a record did
	spans    []*Span // what happened in it, in the order in which it began
	call     *Span   // its own, the last
	cost     USD     // of itself
}

// Walk calls f for n and all below it.
func (n *Node) Walk(f func(*Node)) {
	f(n)
	for _, c := range n.Children {
		c.Walk(f)
	}
	for _, i := range n.Invocations {
		i.Walk(f)
	}
}

// Effective is n's state, or for a branch what its children add up to.
func (n *Node) Effective() NodeState {
	if n.State != NodePending || len(n.Children) == 0 {
		return n.State
	}
	var count [NodeSkipped + 1]int
	for _, c := range n.Children {
		count[c.Effective()]++
	}
	for _, s := range []NodeState{NodeRunning, NodeWaiting, NodeFailed, NodeRefused, NodeUncertain, NodeCancelled} {
		if count[s] > 0 {
			return s
		}
	}
	switch {
	case count[NodePending] == len(n.Children):
		return NodePending
	case count[NodePending] > 0: // between two children
		return NodeRunning
	case count[NodeDone] > 0:
		return NodeDone
	}
	return NodeSkipped
}

// branch reports whether n's state is that of its children.
func (n *Node) branch() bool { return n.outlined && len(n.Children) > 0 }

// outline makes nodes below a path: plans that are stages of pipelines all begin at
// the same one of their own.
func (v *View) outline(o *Outline, below string) *Node {
	n := &Node{Path: Joined("/", below, o.Path), Name: o.ID, Kind: o.Kind, Label: o.Label, Command: startedBy(o), outlined: true}
	if v.pipeline && below == "" && o.Path != "" {
		n.Stage, below = &StageWork{}, o.Path
	}
	if n.Name == "" {
		n.Name = lastSegment(o.Path)
	}
	v.byPath[n.Path] = n
	for _, c := range o.Children {
		n.Children = append(n.Children, v.outline(c, below))
	}
	return n
}

// startedBy is the command line that a call is given, with references as they are written.
func startedBy(o *Outline) string {
	var given struct {
		Args struct {
			Argv []string `json:"argv"`
		} `json:"args"`
	}
	if o.Given == nil || json.Unmarshal(o.Given, &given) != nil {
		return ""
	}
	words := make([]string, len(given.Args.Argv))
	for i, w := range given.Args.Argv {
		words[i] = ShellWord(w)
	}
	return strings.Join(words, " ")
}

func lastSegment(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func parentPath(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return ""
}

// at finds the node that a record's path belongs to. Below a node of the outline
// that is this node itself: the calls of a step are the step's own. Elsewhere the
// tree grows, but for what is known to be such a call.
func (v *View) at(path string) *Node {
	if n := v.byPath[path]; n != nil {
		return n
	}
	var parent *Node
	if up := parentPath(path); up != "" {
		parent = v.at(up)
	}
	if parent != nil && (parent.outlined || withinAgent(path)) {
		return parent
	}
	n := &Node{Path: path, Name: lastSegment(path)}
	v.byPath[path] = n
	if parent == nil {
		v.Roots = append(v.Roots, n)
	} else {
		parent.Children = append(parent.Children, n)
	}
	return n
}

// agentSegments begin the last segments of what an agent, or who drafts a plan, does
// within its node: its calls and questions are no nodes themselves.
var agentSegments = []string{"model#", "tool#", "limit#", "try#", "check#", "clarify#", "worker#", "review#"}

func withinAgent(path string) bool {
	last := lastSegment(path)
	if strings.HasPrefix(lastSegment(parentPath(path)), "worker#") { // a question about an invocation
		return true
	}
	return slices.ContainsFunc(agentSegments, func(prefix string) bool { return strings.HasPrefix(last, prefix) })
}

// agentActivities are calls of the same sort whose places have plain names.
var agentActivities = []string{"tool.catalog", "router.narrow", "memory.recall", "plan.check"}

// applyNode takes in what happens at a place of the program.
func (v *View) applyNode(e *Event, call *Effect) {
	if v.pipeline && v.applyStage(e) || e.Path == "" || v.applyDelivery(e) {
		return
	}
	if e.Kind == KindGateTaken {
		v.takenUp(v.byPath[v.askers[e.Path]], e.At)
		return
	}
	path := v.place(e.Path)
	switch e.Kind {
	case KindEffectIntended, KindEffectFailed, KindEffectFinished:
		v.applyCall(e, path, call)
	case KindToolProgress: // what comes before the call is known to run, or after, is let go
		if n := v.byPath[path]; n != nil && n.State == NodeRunning {
			n.Note = BodyOf[ToolProgress](e).String()
		}
	case KindGroupClosed:
		v.skip(groupOf(path), BodyOf[GroupClosed](e).Skipped)
	case KindPlanStep:
		v.step(path, e.At, BodyOf[PlanStep](e))
	default:
		if !v.applyWorker(e, path) {
			v.applyAgent(e, path)
		}
	}
}

// applyCall takes in the begin or the end of a call. Where it is not the node's own,
// the node goes on.
func (v *View) applyCall(e *Event, path string, b *Effect) {
	if slices.Contains(agentActivities, b.Name) && parentPath(path) != "" {
		switch n := v.at(parentPath(path)); {
		case e.Kind == KindEffectIntended:
			v.begin(parentPath(path), e.At)
		case e.Kind == KindEffectFailed && !n.branch():
			n.Note = RetryText(e)
		}
		return
	}
	n := v.at(path)
	switch {
	case e.Kind == KindEffectIntended:
		v.begin(path, e.At)
	case e.Kind == KindEffectFailed:
		n.called(path, false)
		if !n.branch() {
			n.Note = RetryText(e)
		}
	case n.branch() || n.Stage != nil || n.Path != path:
		n.called(path, false)
	default:
		if n.Started.IsZero() {
			n.Started = e.At.Add(-b.Took())
		}
		n.State, n.Ended, n.Took, n.Note = NodeDone, e.At, b.Took(), ""
		if b.Attempt > 1 { // as long as somebody has waited for it
			n.Took = e.At.Sub(n.Started)
		}
		if b.Error != nil {
			n.State, n.Note = NodeFailed, ErrorText(b.Error)
		}
	}
}

// RetryText says that a call whose attempt failed is made again, when, and why.
func RetryText(failed *Event) string {
	b := BodyOf[Effect](failed)
	text := "retrying"
	if wait := b.RetryAt.Sub(failed.At).Round(100 * time.Millisecond); !b.RetryAt.IsZero() && wait > 0 {
		text += " in " + wait.String()
	}
	if b.Error != nil {
		text += ": " + ErrorText(b.Error)
	}
	return text
}

// ErrorText is why a call failed, in a line.
func ErrorText(e *flow.Error) string {
	code := e.Code
	if e.Bound != "" {
		code += " (" + e.Bound + ")"
	}
	return Joined(": ", code, e.Message)
}

// String is why a step failed, in a line.
func (e *StepError) String() string {
	code := e.Code
	if code == "" {
		code = e.Reason
	}
	return Joined(": ", code, e.Message)
}

// String is how far a call says it has come.
func (b ToolProgress) String() string {
	far := countText(b.Progress)
	if b.Total > 0 {
		far += " of " + countText(b.Total)
	}
	return Joined("  ", far, b.Message)
}

// countText is a number for people: whole if it is, and never longer than a row.
func countText(n float64) string {
	if math.Abs(n) >= 1e15 {
		return fmt.Sprintf("%.3g", n)
	}
	return strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64)
}

// groupOf is the path whose branches a group's record speaks of: the record stands at
// the numbered go#1 below it.
func groupOf(path string) string {
	if strings.HasPrefix(lastSegment(path), "go#") {
		return parentPath(path)
	}
	return path
}

func (v *View) begin(path string, at time.Time) {
	n := v.at(path)
	if n.branch() || n.Stage != nil && lastSegment(path) == "begin" { // stage.started says so, and which visit it is
		return
	}
	if n.State != NodeRunning {
		n.State = NodeRunning
		if n.Started.IsZero() {
			n.Started = at
		}
	}
	if n.called(path, true) || n.Stage != nil {
		return
	}
	n.Note = ""
	if last := lastSegment(path); n.Path != path && !strings.HasPrefix(last, "worker#") { // which has a line of its own
		n.Note = last
	}
}

var stepStates = map[string]NodeState{
	StepCompleted: NodeDone, StepCarried: NodeDone, StepFailed: NodeFailed, StepRefused: NodeRefused,
	StepCancelled: NodeCancelled, StepUncertain: NodeUncertain,
}

// step takes the walker's word for how a node ended; it outranks the call's.
func (v *View) step(path string, at time.Time, b PlanStep) {
	n := v.at(path)
	if b.Status == StepStarted {
		v.begin(path, at)
		return
	}
	state, ok := stepStates[b.Status]
	if !ok {
		return
	}
	n.State, n.Ended, n.Note = state, at, ""
	if b.Status == StepCarried {
		n.Note = StepCarried
	}
	if b.Error != nil {
		n.Note = b.Error.String()
	}
	if b.LatencyMs == 0 {
		return
	}
	n.Took = time.Duration(b.LatencyMs) * time.Millisecond
	if n.Started.IsZero() {
		n.Started = at.Add(-n.Took)
	}
}

func (v *View) wait(kind GateKind, key string, at time.Time, question string) {
	path := v.place(AskerPath(kind, key))
	if kind == Delivery || ofDelivery(path) {
		path = v.delivery().Path
	}
	if path == "" {
		return
	}
	n := v.at(path)
	v.askers[key] = n.Path
	if n.Stage != nil && n.State != NodeWaiting {
		n.Stage.asked = n.State
	}
	n.State, n.Note = NodeWaiting, question
	if n.Started.IsZero() {
		n.Started = at
	}
}

// decided leaves the node pending: a decision starts nothing until it is taken.
func (v *View) decided(key, action string) {
	if n := v.byPath[v.askers[key]]; n != nil && n.State == NodeWaiting {
		n.State, n.Note = NodePending, "decided: "+action
	}
}

// takenUp is what happens to a node when a decision that it waited for is taken. A
// stage that was asked about after its work was done does not work again.
func (v *View) takenUp(n *Node, at time.Time) {
	switch {
	case n == nil:
	case n.Stage != nil && n.Stage.asked.Quiet() && n.Stage.asked != NodePending:
		n.State, n.Note = n.Stage.asked, ""
	default:
		v.begin(n.Path, at)
	}
}

func (v *View) skip(group string, names []string) {
	for _, name := range names {
		if n := v.byPath[Joined("/", group, name)]; n != nil {
			n.Walk(func(n *Node) {
				if !n.branch() && n.State == NodePending {
					n.State = NodeSkipped
				}
			})
		}
	}
}

// AgentWork is what a node's agent is doing.
type AgentWork struct {
	Step   int
	Model  string
	Said   int64             // bytes of the text that it is writing
	Tokens int64             // so far
	Cost   USD               // so far, of a worker, as far as it is known
	names  map[string]string // of the tools that it has asked for, by the path of the call; of a worker, by its id
	calls  []string          // that run, by the same
}

// String is what stands beside the node.
func (w *AgentWork) String() string {
	doing := w.Model
	switch {
	case len(w.calls) > 0:
		doing = w.names[w.calls[0]]
		if more := len(w.calls) - 1; more > 0 {
			doing += fmt.Sprintf(" and %d more", more)
		}
	case w.Said > 0:
		doing = Joined(" ", doing, "writes, "+Plural(int(w.Said), "byte"))
	}
	used := ""
	switch {
	case w.Cost > 0:
		used = CostText(w.Cost, 0)
	case w.Tokens > 0:
		used = Plural(int(w.Tokens), "token")
	}
	return Joined("  ", fmt.Sprintf("step %d", w.Step), doing, used)
}

func newAgentWork() *AgentWork { return &AgentWork{names: map[string]string{}} }

// applyAgent takes in what an agent tells of itself.
func (v *View) applyAgent(e *Event, path string) {
	switch e.Kind {
	case KindAgentTextDelta, KindAgentStepStarted, KindAgentMessage, KindAgentToolCallRequest, KindAgentToolCallResult,
		KindAgentApprovalDecided, KindAgentRouterDecided, KindAgentFinish, KindAgentError:
	default:
		return
	}
	n := v.at(path)
	if n.branch() || e.Kind == KindAgentTextDelta && n.Agent == nil {
		return
	}
	if n.Agent == nil {
		n.Agent = newAgentWork()
	}
	if e.Kind != KindAgentTextDelta || n.State == NodeRunning {
		n.Agent.apply(e, path)
	}
	if e.Kind == KindAgentStepStarted {
		v.begin(path, e.At)
	}
	if n.State == NodeRunning {
		n.Note = n.Agent.String()
	}
}

// apply takes in one event of an agent; call is what its tool call is known by.
func (w *AgentWork) apply(e *Event, call string) {
	switch e.Kind {
	case KindAgentTextDelta:
		b := BodyOf[AgentTextDelta](e)
		w.Said = b.Offset + int64(len(b.Text))
	case KindAgentStepStarted:
		b := BodyOf[AgentStepStarted](e)
		w.Step, w.Model, w.Said = b.Step, b.Model, 0
	case KindAgentMessage:
		if b := BodyOf[AgentMessage](e); b.Usage != nil {
			w.Tokens += b.Usage.TotalTokens
		}
		w.Said = 0
	case KindAgentToolCallRequest:
		b := BodyOf[AgentToolCallRequest](e)
		w.names[call] = b.Title()
	case KindAgentToolCallResult: // it is not made again
		w.calling(call, false)
		delete(w.names, call)
	}
}

// calling notes that a call began or ended.
func (w *AgentWork) calling(call string, runs bool) {
	w.calls = slices.DeleteFunc(w.calls, func(c string) bool { return c == call })
	if runs && w.names[call] != "" {
		w.calls = append(w.calls, call)
	}
}

// called notes that a call of the node's agent began or ended, and reports whether it
// was one.
func (n *Node) called(path string, runs bool) bool {
	if n.Agent == nil || n.Path == path {
		return false
	}
	n.Agent.calling(path, runs)
	if n.State == NodeRunning {
		n.Note = n.Agent.String()
	}
	return true
}
