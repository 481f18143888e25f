package tipstaff

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// Conditions of a [Diagnosis], in the order in which they are looked for.
const (
	DiagnosisUnreadable       = "unreadable" // what was recorded is not what is there, or needs a newer program
	DiagnosisDecision         = "needs_decision"
	DiagnosisDelivery         = "needs_delivery_decision"
	DiagnosisStalled          = "stalled" // its owner lives, and is not heard of
	DiagnosisActive           = "active"
	DiagnosisSuperseded       = "superseded_by_child" // a follow-up goes on with it
	DiagnosisBlockedWorktree  = "blocked_worktree"    // its worktree is gone
	DiagnosisReplayMismatch   = "replay_mismatch"
	DiagnosisResumeReady      = "resume_ready"
	DiagnosisInterrupted      = "interrupted"
	DiagnosisNotStarted       = "not_started"
	DiagnosisBoundExceeded    = "bound_exceeded"
	DiagnosisProviderPressure = "provider_pressure"
	DiagnosisFailed           = "failed"
	DiagnosisCancelled        = "cancelled"
	DiagnosisCompleted        = "completed"
)

// Who may have a run go on or end from elsewhere, and why not.
const (
	Controllable   = "mcp_controllable"
	InspectAlone   = "inspect_only"
	ForegroundRun  = "foreground_run"  // a person's process drives it
	DaemonRun      = "daemon_run"      // a daemon does, in its own process
	OtherWorkspace = "other_workspace" // its keys are not those of this store
)

// stalledAfter is how long a living owner may be silent.
const stalledAfter = 30 * time.Second

// Kinds of a [NextCall].
const (
	ReadyCall     = "ready_call"     // it succeeds as it is
	InputRequired = "input_required" // an argument is missing that only its caller knows
	PersonCall    = "person"         // a gate that the caller may not decide: no call, but what to tell a person
)

// Tools that calls name.
const (
	ToolRunStart      = "run_start"
	ToolRunResume     = "run_resume"
	ToolRunCancel     = "run_cancel"
	ToolRunStatus     = "run_status"
	ToolRunEventsTail = "run_events_tail"
	ToolRunWatch      = "run_watch"
	ToolRunEvidence   = "run_evidence"
	ToolRunVerify     = "run_verify"
	ToolRunDiff       = "run_diff"
	ToolDeliveryGate  = "delivery_gate"
	ToolGateDecide    = "gate_decide"
	ToolHandoff       = "phase_handoff_decide"
	ToolDelivery      = "delivery_decide"
)

// scopeOf is what a caller needs for a tool; those that are not named are for reading.
var scopeOf = map[string]string{
	ToolRunStart: ScopeRun, ToolRunResume: ScopeRun, ToolRunCancel: ScopeRun,
	ToolGateDecide: ScopeDecide, ToolHandoff: ScopeDecide, ToolDelivery: ScopeDecide,
}

// NextCall is something that can be done next: by its caller, who calls a tool, or by a person.
type NextCall struct {
	Kind    string            `json:"kind" jsonschema:"ready_call: send it as it is; input_required: what is missing must be filled in first; person: a person decides the gate, not you"`
	Tool    string            `json:"tool,omitempty"` // with Args: of a call
	Args    map[string]any    `json:"args,omitempty"`
	Why     string            `json:"why"`
	Missing []MissingArgument `json:"missing,omitempty"`

	// Of what is left to a person.
	Gate    ID     `json:"gate,omitzero"`
	Command string `json:"command,omitempty"` // that decides it at a terminal, with words in capitals to fill in
	URL     string `json:"url,omitempty"`     // of the gate on the page, where there is one

	run ID // that the gate is of
}

// MissingArgument is one that the caller has to give.
type MissingArgument struct {
	Name    string          `json:"name"`
	Schema  json.RawMessage `json:"schema"`
	Choices []string        `json:"choices,omitempty"`
}

// Diagnosis is what is the matter with a run, and what can be done about it.
type Diagnosis struct {
	Run           ID             `json:"run_id"`
	Condition     string         `json:"condition"`
	Reason        string         `json:"reason"`
	Status        string         `json:"status,omitempty"`
	Control       string         `json:"control,omitempty"`
	ControlReason string         `json:"control_reason,omitempty"`
	Facts         DiagnosisFacts `json:"facts"`
	Recommended   ID             `json:"recommended_run_id,omitzero"` // the run to deal with instead
	Next          []NextCall     `json:"next"`
}

// DiagnosisFacts are what a condition was found by.
type DiagnosisFacts struct {
	HeadSeq     int64     `json:"head_seq,omitempty"`
	Unreadable  Code      `json:"unreadable,omitempty"` // what keeps it from being read
	Gates       []ID      `json:"gates,omitempty"`      // that are undecided
	Owner       *Owner    `json:"owner,omitempty"`
	Worktree    string    `json:"worktree,omitempty"`
	Present     *bool     `json:"worktree_present,omitempty"` // nil: it cannot be told from here
	Interrupted string    `json:"interrupted,omitempty"`      // why
	WakeAt      time.Time `json:"wake_at,omitzero"`
	Doubts      []string  `json:"doubts,omitempty"` // calls that were sent, and nobody knows what became of them
	Child       ID        `json:"child_run_id,omitzero"`
	Failure     *Failure  `json:"failure,omitempty"`
	Provider    string    `json:"provider,omitempty"` // what kept it from answering: limit, overload, access
}

// Diagnose says what is the matter with a run, by what is recorded, whether its owner lives
// and whether its worktree is there. present tells whether a directory is there; nil: nobody
// can tell. What its caller may not do is not among the next calls.
func Diagnose(ctx context.Context, r RunReader, id ID, now time.Time, present func(path string) bool) (Diagnosis, error) {
	d := &diagnosis{ctx: ctx, r: r, now: now, present: present, deep: true}
	got, err := d.of(id)
	return got.allowed(ctx), err
}

// DiagnoseRun is Diagnose of a run whose status is known, at no more cost than that was: of
// its records it reads only the last.
func DiagnoseRun(ctx context.Context, r RunReader, run Run, now time.Time, present func(path string) bool) (Diagnosis, error) {
	d := &diagnosis{ctx: ctx, r: r, now: now, present: present}
	got, err := d.known(run)
	return got.allowed(ctx), err
}

// allowed leaves out the calls that a caller may not make.
func (got Diagnosis) allowed(ctx context.Context) Diagnosis {
	caller := CallerFrom(ctx)
	got.Next = slices.DeleteFunc(got.Next, func(c NextCall) bool { return !caller.mayCall(c, got.Control) })
	return got
}

type diagnosis struct {
	ctx     context.Context
	r       RunReader
	now     time.Time
	present func(string) bool
	deep    bool // the records are read, and must lead to the head
}

// mayCall reports whether a caller can make a call about a run of such control.
func (c Caller) mayCall(call NextCall, control string) bool {
	scope := cmp.Or(scopeOf[call.Tool], ScopeRead)
	if call.raises() && !c.May(ScopeDecide) {
		return false
	}
	return c.May(scope) && !(c.Controlled() && control == InspectAlone && scope != ScopeRead)
}

// raises reports whether a call starts a run with bounds that its caller is to raise.
func (c NextCall) raises() bool { return c.Tool == ToolRunStart && c.Kind == InputRequired }

// unreadable reports whether an error says that a run cannot be read.
func unreadable(err error) bool {
	code := CodeOf(err)
	return code == Integrity || code == FormatNewer || code == ArtifactNotFound || errors.As(err, new(*malformedRecord))
}

func (d *diagnosis) of(id ID) (Diagnosis, error) {
	run, err := d.r.Get(d.ctx, id)
	if err != nil {
		return unreadRun(Diagnosis{Run: id, Next: []NextCall{}}, err)
	}
	return d.known(run)
}

// unreadRun is what there is to say of a run that cannot be read.
func unreadRun(got Diagnosis, err error) (Diagnosis, error) {
	if !unreadable(err) {
		return got, err
	}
	got.found(DiagnosisUnreadable, err.Error())
	got.Facts.Unreadable = CodeOf(err)
	got.call(ToolRunVerify, "find out what was changed", nil)
	return got, nil
}

func (d *diagnosis) known(run Run) (got Diagnosis, err error) {
	got = Diagnosis{Run: run.ID, Next: []NextCall{}, Status: run.Status, Control: run.Control, ControlReason: run.ControlReason}
	got.Facts = DiagnosisFacts{HeadSeq: run.HeadSeq, Owner: run.Owner, Failure: run.Error, Doubts: run.Doubts}
	if err = d.check(run); err == nil && run.Program.Digest != "" {
		_, err = d.r.Artifact(d.ctx, run.ID, run.Program.Digest)
	}
	if err != nil {
		return unreadRun(got, err)
	}
	got.Facts.Interrupted, got.Facts.WakeAt = run.lastDrive().Reason, run.lastDrive().WakeAt
	d.worktree(&got, run)
	if run.Delivery != nil && !run.Delivery.Followup.IsZero() {
		if next, err := d.r.Get(d.ctx, run.Delivery.Followup); err == nil && !next.State.Terminal() {
			got.Facts.Child = next.ID
		}
	}
	return got, d.judge(&got, run)
}

// check reads the records of a run, which must lead to its head, or only the last of them.
func (d *diagnosis) check(run Run) error {
	var head journal.Hash
	whole, last := false, int64(0)
	from := max(0, run.HeadSeq-1)
	if d.deep {
		from = 0
	}
	for e, err := range d.r.Events(d.ctx, EventsRequest{Run: run.ID, After: from}) {
		if err != nil {
			return err
		}
		if e.Seq > run.HeadSeq {
			break
		}
		whole, last = e.Raw != nil && (whole || e.Seq == 1), e.Seq // else there are no bytes that could be compared
		head = head.Next(e.Raw)
	}
	if whole && head.String() != run.Head || last != run.HeadSeq {
		return Errorf(Integrity, "the records of run %s do not lead to its head: they were changed", run.ID)
	}
	return nil
}

// judge finds the first condition that holds.
func (d *diagnosis) judge(got *Diagnosis, run Run) error {
	gates, err := d.gates(run)
	if err != nil {
		return err
	}
	alive := run.Owner != nil && run.Owner.Alive
	waits := !run.State.Terminal()
	switch {
	case len(gates) > 0:
		return d.asked(got, run, gates)
	case waits && alive && d.now.Sub(run.Owner.HeartbeatAt) > stalledAfter:
		got.found(DiagnosisStalled, fmt.Sprintf("process %d lives and drives it, but has given no sign of life for %s", run.Owner.Pid, d.now.Sub(run.Owner.HeartbeatAt).Round(time.Second)))
		got.call(ToolRunEventsTail, "see what it did last", map[string]any{"after_seq": max(0, run.HeadSeq-25)})
		got.call(ToolRunCancel, "end it for good", map[string]any{"mode": "hard"})
	case run.Condition == Running || run.Status == StatusQueued:
		why := "it is " + run.Status
		if run.Queued != nil && run.Queued.Lacks != "" {
			why = "it waits for a server that has what it needs; of this machine: " + run.Queued.Lacks
		}
		got.found(DiagnosisActive, why)
		got.call(ToolRunWatch, "follow it", map[string]any{"after_seq": run.HeadSeq})
	case !got.Facts.Child.IsZero():
		return d.superseded(got)
	case waits && got.Facts.Present != nil && !*got.Facts.Present && run.Delivery.Kind != DeliveryCompleted && run.Delivery.Kind != DeliveryDecided:
		got.found(DiagnosisBlockedWorktree, "its worktree "+got.Facts.Worktree+" is gone: what it had not recorded is lost, and it cannot go on")
		got.call(ToolRunDiff, "see what was recorded of its changes", nil)
		got.call(ToolRunEvidence, "see where its delivery stands", map[string]any{"slice": SliceDelivery})
	case waits && run.lastDrive().Kind == KindRunInterrupted && run.lastDrive().Reason == string(ReplayMismatch):
		got.found(DiagnosisReplayMismatch, "its program no longer does what was recorded of it: with this version of Tipstaff it cannot go on")
		got.call(ToolRunEvidence, "see what went wrong", map[string]any{"slice": SliceErrors})
		got.call(ToolRunVerify, "find out where it differs", nil)
	case run.Status == StatusAwaitingResume:
		if run.sleeps(d.now) {
			got.found(DiagnosisResumeReady, "it sleeps until "+run.lastDrive().WakeAt.UTC().Format(time.RFC3339)+", and can go on then")
			got.call(ToolRunStatus, "look at it again then", nil)
			return nil
		}
		got.found(DiagnosisResumeReady, "nothing is left to decide; it waits to be driven on")
		return d.resume(got, run)
	case run.Condition == Interrupted:
		got.found(DiagnosisInterrupted, Joined(": ", "nobody drives it any more", run.lastDrive().Reason))
		if err := d.resume(got, run); err != nil {
			return err
		}
		got.call(ToolRunEvidence, "see what went wrong", map[string]any{"slice": SliceErrors})
	case waits: // a draft
		got.found(DiagnosisNotStarted, "it is a draft, and was never started")
		got.call(ToolRunStatus, "look at it", nil)
	default:
		got.ended(run)
	}
	return nil
}

// ended is what there is to say of a run that is over.
func (got *Diagnosis) ended(run Run) {
	failure := Failure{}
	if run.Error != nil {
		failure = *run.Error
	}
	why := Joined(": ", Joined(" at ", Joined(" ", cmp.Or(failure.Code, failure.Reason), failure.Bound), failure.Path), failure.Message)
	evidence := func(slice, text string) { got.call(ToolRunEvidence, text, map[string]any{"slice": slice}) }
	again := func() { got.call(ToolRunStart, "try again from before the failure", map[string]any{"fork_of": run.ID}) }
	switch {
	case run.State == Completed:
		got.found(DiagnosisCompleted, Joined(": ", "it has completed", run.Outcome))
		evidence(SliceAll, "see what was done")
		if run.Delivery != nil && run.Delivery.Diff != nil {
			got.call(ToolRunDiff, "see what has changed", nil)
		}
	case run.State == Cancelled:
		got.found(DiagnosisCancelled, Joined(": ", "it was cancelled", failure.Message))
		evidence(SliceDecisions, "see who decided what")
	case failure.Bound != "":
		got.found(DiagnosisBoundExceeded, why)
		evidence(SliceBounds, "see what was used")
		got.Next = append(got.Next, NextCall{Kind: InputRequired, Tool: ToolRunStart, Args: map[string]any{"fork_of": run.ID},
			Why:     "go on with a higher bound",
			Missing: []MissingArgument{{Name: "bounds", Schema: json.RawMessage(`{"type":"object"}`), Choices: []string{failure.Bound}}}})
	case PressureOf(failure.Code) != "":
		got.Facts.Provider = PressureOf(failure.Code)
		got.found(DiagnosisProviderPressure, why)
		evidence(SliceErrors, "see what the provider said")
		again()
	default:
		got.found(DiagnosisFailed, why)
		evidence(SliceErrors, "see what went wrong")
		again()
	}
}

// asked is what there is to say of a run that waits for decisions.
func (d *diagnosis) asked(got *Diagnosis, run Run, gates []AskedGate) error {
	delivers := 0
	for _, g := range gates {
		got.Facts.Gates = append(got.Facts.Gates, g.ID)
		if g.Kind == Delivery {
			delivers++
		}
		if g.Run != run.ID {
			got.Recommended = g.Run
		}
	}
	got.found(DiagnosisDecision, "it asks: "+gates[0].Question)
	if more := len(gates) - 1; more > 0 {
		got.Reason = fmt.Sprintf("%s (and %d more)", got.Reason, more)
	}
	if delivers == len(gates) {
		got.Condition = DiagnosisDelivery
		got.call(ToolDeliveryGate, "see what is delivered", nil)
	}
	caller := CallerFrom(d.ctx)
	for _, g := range gates {
		got.Next = append(got.Next, caller.gateCall(g, got.Control))
	}
	if got.Next[len(got.Next)-1].Kind == PersonCall {
		got.call(ToolRunWatch, "wait until a person has answered", map[string]any{"after_seq": run.HeadSeq, "until": UntilDecision})
	}
	if launches, err := d.launches(run); err != nil || !launches {
		return err
	}
	return d.resume(got, run)
}

// AskedGate is an undecided gate, with the run that asks.
type AskedGate struct {
	Run ID
	Gate
}

// decideTools are the tools that decide gates of a kind; of the others gate_decide does.
var decideTools = map[GateKind]string{Handoff: ToolHandoff, Delivery: ToolDelivery}

// gateCall is what a caller can do about a gate: call the tool that decides it, or tell a
// person, who can. What the person decides is for them to say: no call holds it.
func (c Caller) gateCall(g AskedGate, control string) NextCall {
	if call := decideCall(g, g.Available()...); c.mayCall(call, control) {
		return call
	}
	words := []string{"decide", g.Run.String(), g.Typable(), "ACTION"}
	return NextCall{Kind: PersonCall, Gate: g.ID, Command: CommandLine(words...), run: g.Run,
		Why: "a person answers, with " + strings.Join(g.Available(), " or ") + ": " + cutText(g.Question, watchedText)}
}

// decideCall is the call that takes one of some actions at a gate, once somebody has said
// which.
func decideCall(g AskedGate, actions ...string) NextCall {
	c := NextCall{Tool: cmp.Or(decideTools[g.Kind], ToolGateDecide), Why: "decide " + g.Key + " as the person says",
		Args: map[string]any{"run_id": g.Run, "gate_id": g.ID, "subject_digest": g.Digest}}
	c.miss("action", map[string]any{"type": "string"}, actions)
	needing := func(needs func(string) bool) (of []string) {
		for _, action := range actions {
			if needs(action) {
				of = append(of, action)
			}
		}
		return of
	}
	if of := needing(NeedsFeedback); len(of) > 0 {
		c.miss("feedback", map[string]any{"type": "string", "maxLength": 16384, "description": "needed by " + strings.Join(of, ", ")}, nil)
	}
	if of := needing(func(action string) bool { return NeedsAnswer(g.Gate, action) }); len(of) > 0 {
		c.miss("answer", map[string]any{"description": "needed by " + strings.Join(of, ", ")}, nil)
	}
	return c
}

func (c *NextCall) miss(name string, schema map[string]any, choices []string) {
	c.Kind = InputRequired
	c.Missing = append(c.Missing, MissingArgument{Name: name, Schema: flow.JSON(schema), Choices: choices})
}

// NeedsAnswer tells of the actions that mean nothing without a value.
func NeedsAnswer(g Gate, action string) bool {
	return action == "use_result" && g.Given == nil || action == "extend" || action == "answer" || action == "modify"
}

// NeedsFeedback tells of the actions that hand words on to whoever works next.
func NeedsFeedback(action string) bool {
	return action == ActionRetry || action == ActionWaive || action == DeliverFix || action == "revise"
}

// superseded is what there is to say of a run that a follow-up goes on with: the same as of
// the follow-up.
func (d *diagnosis) superseded(got *Diagnosis) error {
	child, err := d.of(got.Facts.Child)
	if err != nil {
		return err
	}
	got.found(DiagnosisSuperseded, "run "+child.Run.String()+" goes on with it: "+child.Reason)
	got.Recommended = cmp.Or(child.Recommended, child.Run)
	got.Next = append(got.Next, child.Next[:min(1, len(child.Next))]...)
	return nil
}

// resume adds the call that has the run go on: that of the run which it works for.
func (d *diagnosis) resume(got *Diagnosis, run Run) error {
	top, err := d.top(run)
	if err != nil {
		return err
	}
	if top != run.ID {
		got.Recommended = top
	}
	got.Next = append(got.Next, NextCall{Kind: ReadyCall, Tool: ToolRunResume, Args: map[string]any{"run_id": top}, Why: "have it go on"})
	return nil
}

// top is the run that somebody has started and that this one works for.
func (d *diagnosis) top(run Run) (ID, error) {
	for run.Lineage != nil && run.Lineage.Relation == relationDispatch {
		parent, err := d.r.Get(d.ctx, run.Lineage.Parent)
		if code := CodeOf(err); code == RunNotFound || code == Forbidden || err == nil && parent.State.Terminal() {
			break // it has to go on by itself
		}
		if err != nil {
			return run.ID, err
		}
		run = parent
	}
	return run.ID, nil
}

// gates are the undecided ones of a run and of those that it has dispatched.
func (d *diagnosis) gates(run Run) (all []AskedGate, err error) {
	if run.State.Terminal() {
		return nil, nil
	}
	for _, g := range run.OpenGates {
		all = append(all, AskedGate{run.ID, g})
	}
	for _, id := range run.children() {
		child, err := d.r.Get(d.ctx, id)
		if CodeOf(err) == RunNotFound {
			continue // it was announced and not made yet
		}
		var below []AskedGate
		if err == nil {
			below, err = d.gates(child)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, below...)
	}
	return all, nil
}

// lastDrive is empty where nothing is known of it.
func (r Run) lastDrive() (last LastDrive) {
	if r.LastDrive != nil {
		last = *r.LastDrive
	}
	return last
}

// sleeps reports whether a run has parked until a time that has not come, and nothing was
// decided since.
func (r Run) sleeps(now time.Time) bool {
	last := r.lastDrive()
	return last.Kind == KindRunParked && !last.News && now.Before(last.WakeAt)
}

// children are the runs that a run has dispatched.
func (r Run) children() []ID {
	if r.Lineage == nil {
		return nil
	}
	return r.Lineage.Children
}

// launches reports whether a resume would drive a run on that asks. One that has parked
// stays as it is until something is decided, or happens below it.
func (d *diagnosis) launches(run Run) (bool, error) {
	last := run.lastDrive()
	switch {
	case run.State.Terminal(), run.Condition == Running || run.Status == StatusQueued:
		return false, nil
	case last.Kind != KindRunParked, last.News, !last.WakeAt.IsZero() && !d.now.Before(last.WakeAt):
		return true, nil
	}
	for _, id := range run.children() {
		child, err := d.r.Get(d.ctx, id)
		if CodeOf(err) == RunNotFound {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if child.State.Terminal() {
			if child.EndedAt.After(run.UpdatedAt) {
				return true, nil // which the run has not seen yet
			}
			continue
		}
		gates, err := d.gates(child)
		if err != nil || len(gates) == 0 {
			return err == nil, err
		}
		if launches, err := d.launches(child); err != nil || launches {
			return launches, err
		}
	}
	return false, nil
}

// worktree notes where the run works, and whether that is still there. A fork works where
// the run does that it comes from. What cannot be read tells nothing.
func (d *diagnosis) worktree(got *Diagnosis, run Run) {
	if run.Delivery == nil {
		return
	}
	at := run.Delivery.Worktree
	for from := run.Lineage; at == nil && from != nil && from.Seq > 0; {
		parent, err := d.r.Get(d.ctx, from.Parent)
		if err != nil || parent.Delivery == nil {
			return
		}
		if parent.Delivery.WorktreeSeq <= from.Seq { // what came later is not inherited
			at = parent.Delivery.Worktree
		}
		from = parent.Lineage
	}
	if at == nil {
		return
	}
	if got.Facts.Worktree = at.Path; d.present != nil {
		is := d.present(at.Path)
		got.Facts.Present = &is
	}
}

func (got *Diagnosis) found(condition, reason string) { got.Condition, got.Reason = condition, reason }

// call adds a call about the run that needs nothing more.
func (got *Diagnosis) call(tool, why string, args map[string]any) {
	all := map[string]any{}
	maps.Copy(all, args)
	if all["fork_of"] == nil {
		all["run_id"] = got.Run
	}
	got.Next = append(got.Next, NextCall{Kind: ReadyCall, Tool: tool, Args: all, Why: why})
}
