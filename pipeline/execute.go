package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Execute runs a pipeline to its end, or as far as it goes in this drive. fc stands
// at the run's root; do performs the stages that do not perform themselves.
//
// It changes the Envelope in place: however Execute returns, the Envelope is the state
// that the run has reached. A pipeline that did not complete returns an [*Ending], which
// is flow.ErrCancelled if it was cancelled. Errors of flow come back as they are, and
// so does a flow.Continue, whose state [Restore] reads.
func Execute(fc flow.Context, p *Pipeline, s *State, do Perform) error {
	x := newExecutor(fc, p, s, do)
	err := x.run()
	var ending *Ending
	switch {
	case errors.Is(err, errCompleted):
		return nil
	case errors.As(err, &ending), flow.Parked(err):
		return err
	case errors.Is(err, flow.ErrCancelled):
		return x.cancelled()
	}
	return err
}

// State is an Envelope, and how Execute goes on from it.
type State struct {
	*Envelope

	// Rollbacks are what a run that was rolled back or forked takes over beyond the
	// journal it inherits, oldest first: one for every run on the way from the first.
	// Until the last is applied the Envelope has the identity of the run whose journal
	// is replayed, so that records name what they named then.
	Rollbacks []Rollback

	// StopAt has Execute return [ErrBoundary] at the boundary of that turn, with the
	// Envelope as it was there. nil: at none.
	StopAt *int64
	// StopRolledBack has Execute return, parked, once the last of Rollbacks is applied:
	// the state of a run that was rolled back and has not been driven since.
	StopRolledBack bool
	// Earlier is for runs from before a result that raises an interrupt could do without
	// its fields, and bounds were called as documents have them. Such a run is checked,
	// and says what it says, as it was then.
	Earlier bool
	// Uncut is for runs from before the texts of errors were cut.
	Uncut bool

	continued *pending // what a continued run carries; nil: the run begins
}

// ErrBoundary is how Execute returns at the boundary that State.StopAt names.
var ErrBoundary = errors.New("pipeline: this is the boundary that was asked for")

// Ending is the error with which Execute returns a pipeline that did not complete.
// The Envelope beside it says the same.
type Ending struct {
	Reason  tipstaff.TerminalReason
	Outcome string
	Text    string
	Stage   string // at which; "": at none
	Path    string
	Bound   string // of a bound: its name in documents, max_iterations …
	Code    string // of a failed stage
	// Halted is the decision that ended the run; nil: it was ended otherwise.
	Halted *flow.Decision
	cause  error
}

func (e *Ending) Error() string { return string(e.Reason) + ": " + e.Text }

// Unwrap lets an ending that is a cancellation be flow.ErrCancelled.
func (e *Ending) Unwrap() error { return e.cause }

// errCompleted unwinds a pipeline that has ended well.
var errCompleted = errors.New("pipeline: completed")

// executor is one run of a pipeline in one drive. Branches of a batch read it; the
// root alone changes it, between batches.
type executor struct {
	fc    flow.Context
	p     *Pipeline
	state *State
	env   *Envelope // of state
	do    Perform
	pending

	stages []stageState // by index
	held   []*question
	now    time.Time // the last one that was read at the root
	size   int       // of the Envelope, at most
	slots  *slotCache

	// Of the turn that is being routed.
	merged string // its first stage
	digest string
	saved  string // its checkpoint; "": it has none
	// followup is one that begins at its boundary; nil: none does.
	followup *Rollback
	reset    map[int]bool // stages that its jumps have begun anew

	records int // of this segment, about
	// How often something was asked for at a path: a key is used once.
	questions, bounds, begins map[string]int
}

// stageState is where one stage stands.
type stageState struct {
	mark     mark
	frontier bool
	active   bool
	held     bool
}

// mark is what became of a stage in this epoch.
type mark uint8

const (
	unmarked mark = iota
	completed
	closed // completed, and its branch ends there: it releases nobody
	failed
	skipped
)

func newExecutor(fc flow.Context, p *Pipeline, s *State, do Perform) *executor {
	return &executor{fc: fc, p: p, state: s, env: s.Envelope, do: do, stages: make([]stageState, len(p.Agents)),
		questions: map[string]int{}, bounds: map[string]int{}, begins: map[string]int{}, now: s.CreatedAt, slots: newSlots(s.Envelope)}
}

// run begins the pipeline, or goes on where a Continue left it, and takes turns.
func (x *executor) run() error {
	if x.state.continued != nil {
		x.restore()
	} else if err := x.begin(); err != nil {
		return err
	}
	for {
		if err := x.oneTurn(); err != nil {
			x.publish()
			return err
		}
	}
}

// begin puts the entry stages into the frontier. The boundary of turn 0 precedes it.
func (x *executor) begin() error {
	x.Entries = map[string]entry{}
	if err := x.boundary(nil); err != nil {
		return err
	}
	for _, a := range x.p.Agents {
		if a.Entry {
			x.enter(a, entry{})
			x.emitTransition(tipstaff.Transitioned{From: Start, To: a.Name, Reason: tipstaff.TransitionStart})
		}
	}
	return nil
}

// oneTurn is one pass over the frontier. Its order matters: what is complete is
// complete whatever bound it has reached, and a question that waits is no exceeded
// bound.
func (x *executor) oneTurn() error {
	for len(x.held) > 0 { // an answer may lead to the next question
		if err := x.ask(); err != nil {
			return err
		}
	}
	x.skip()
	ready := x.runnable()
	switch {
	case len(ready) > 0:
	case slices.ContainsFunc(x.stages, func(s stageState) bool { return s.frontier }):
		return x.deadlock()
	default:
		return x.end(tipstaff.TerminalCompleted, "", where{})
	}
	if x.records >= maxRecords {
		return x.resumeLater()
	}
	batch, err := x.start(ready)
	if err != nil {
		return err
	}
	if err := x.perform(batch); err != nil {
		return err
	}
	overwritten := x.merge(batch)
	if err := x.boundary(overwritten); err != nil {
		return err
	}
	if r := x.followup; r != nil {
		x.followup = nil
		x.reenter(r)
		return nil
	}
	return x.settle(batch)
}

// settle decides, stage by stage, where the run goes from a boundary. The first
// that ends the run is the last.
func (x *executor) settle(batch []*visit) error {
	for _, v := range batch { // as they are now: an earlier one may begin a new epoch
		v.output = x.env.Outputs[v.agent.OutputKey]
	}
	defer x.publish()
	for _, v := range batch {
		if err := x.settleOne(v); err != nil {
			return err
		}
	}
	return nil
}

func (x *executor) settleOne(v *visit) error {
	switch {
	case v.status == statusCancelled:
		return nil
	case v.refused != nil:
		return x.end(reasonOf(v.refused), fmt.Sprintf("%s: %s", v.path, v.refused.Message), where{visit: v, code: v.refused.Code})
	case v.status == statusError:
		return x.routeFailure(v)
	case v.control.Break:
		return x.end(tipstaff.TerminalBreak, v.agent.Name+" asked to end here", where{visit: v})
	case v.control.Interrupt != nil:
		return x.hold(v, *v.control.Interrupt, target{to: v.control.Interrupt.Kind, reason: tipstaff.TransitionInterrupt})
	}
	if v.agent.Handoff != HandoffNever && v.agent.Handoff != "" {
		for _, f := range contractOf(v).findings {
			x.emitAt(v.path, tipstaff.KindFindingRecorded, tipstaff.FindingRecorded{Stage: v.agent.Name, Visit: v.n, StageFinding: f})
		}
	}
	if v.agent.Handoff == HandoffAlways {
		return x.handoff(v)
	}
	return x.route(v)
}

// where says at which stage a pipeline ended; its zero value: at no stage.
type where struct {
	visit       *visit
	stage, path string // of a stage that has not started
	code        string
	halted      *flow.Decision
}

// end ends the run. The first ending stands.
func (x *executor) end(r tipstaff.TerminalReason, text string, at where) error {
	x.readClock()
	x.terminate(r, text)
	if r.Outcome() == tipstaff.OutcomeCompleted {
		return errCompleted
	}
	e := &Ending{Reason: r, Outcome: r.Outcome(), Text: text, Bound: r.Bound(), Code: at.code, Stage: at.stage, Path: at.path}
	if at.visit != nil {
		e.Stage, e.Path = at.visit.agent.Name, at.visit.path
	}
	if e.Outcome == tipstaff.OutcomeCancelled {
		e.cause, e.Halted = flow.ErrCancelled, at.halted
	}
	return e
}

// terminate writes the ending down. Nobody will take an answer any more.
func (x *executor) terminate(r tipstaff.TerminalReason, text string) {
	x.env.Terminate(r, text, x.now)
	for i := range x.env.Interrupts {
		x.env.Interrupts[i].Open = false
	}
	x.env.Version++
	x.publish()
}

// TextCancelled is what is said of every run that was cancelled, whoever settles it.
const TextCancelled = "the run was cancelled"

// cancelled ends a run that was cancelled: what was at work is recorded so. It reads
// no clock, for others may settle such a run.
func (x *executor) cancelled() error {
	for i, a := range x.p.Agents {
		if x.stages[i].active {
			x.stages[i].active = false
			n := x.env.Visits[a.Name]
			x.emitAt(pathOf(a.Name, n), tipstaff.KindStageFinished, tipstaff.StageFinished{Stage: a.Name, Visit: n, Outcome: statusCancelled})
		}
	}
	for i := range x.env.ProcessingHistory {
		if r := &x.env.ProcessingHistory[i]; r.Status == statusRunning {
			r.Status = statusCancelled
		}
	}
	x.terminate(tipstaff.TerminalCancelled, TextCancelled)
	return &Ending{Reason: tipstaff.TerminalCancelled, Outcome: tipstaff.OutcomeCancelled, Text: TextCancelled, cause: flow.ErrCancelled}
}

func (x *executor) deadlock() error {
	var waits []string
	for i, a := range x.p.Agents {
		if x.stages[i].frontier {
			waits = append(waits, fmt.Sprintf("%s waits for %s", a.Name, strings.Join(x.missing(a), ", ")))
		}
	}
	return x.end(tipstaff.TerminalDeadlock, strings.Join(waits, "; "), where{})
}

// publish writes down in the Envelope where the stages stand.
func (x *executor) publish() {
	e := x.env
	e.Frontier, e.ActiveStages = []string{}, []string{} // others may hold the old ones
	e.CompletedStages = make([]string, 0, len(e.CompletedStages)+1)
	e.CurrentStage = End
	current := func(name string) {
		if e.CurrentStage == End {
			e.CurrentStage = name
		}
	}
	asking := ""
	for i, a := range x.p.Agents {
		s := x.stages[i]
		if s.frontier {
			e.Frontier = append(e.Frontier, a.Name)
			current(a.Name)
		}
		if s.active {
			e.ActiveStages = append(e.ActiveStages, a.Name)
			current(a.Name)
		}
		if s.mark == completed || s.mark == closed {
			e.CompletedStages = append(e.CompletedStages, a.Name)
		}
		if s.held && asking == "" {
			asking = a.Name
		}
	}
	if asking != "" {
		e.CurrentStage = asking
	}
	e.InterruptPending = slices.ContainsFunc(e.Interrupts, func(i Interrupt) bool { return i.Open })
}

func (x *executor) readClock() {
	x.now = x.fc.Now()
	x.records++
}

// emit appends an event at the root.
func (x *executor) emit(kind tipstaff.Kind, body any) {
	x.fc.Emit(flow.Event{Kind: string(kind), Body: body})
	x.records++
}

// emitAt appends an event at the path of a stage.
func (x *executor) emitAt(path string, kind tipstaff.Kind, body any) {
	x.fc.At(path).Emit(flow.Event{Kind: string(kind), Body: body})
	x.records++
}

// emitTransition numbers a transition and says where the run stands.
func (x *executor) emitTransition(t tipstaff.Transitioned) {
	x.Transitions++
	t.N, t.Iteration, t.Epoch, t.Turn = x.Transitions, x.env.Iteration, x.env.Epoch, x.Turn
	x.emit(tipstaff.KindTransition, t)
}
