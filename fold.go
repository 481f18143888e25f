package tipstaff

import (
	"cmp"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// Fold is what the records of a run add up to: all that its status needs. It is
// pure. Taken as JSON and taken up again at any record it gives the same as in
// one piece, so that a store can keep it in the run's row.
//
// It grows with open gates, unsettled calls and lifecycle transitions, not with
// records. What it cannot read it ignores: finding faults is what verify does.
type Fold struct {
	Rules     int       `json:"rules,omitempty"` // by which it was made
	Seq       int64     `json:"seq"`
	At        time.Time `json:"at,omitzero"` // of that record
	Run       ID        `json:"run,omitzero"`
	State     State     `json:"state,omitempty"`
	Lifecycle string    `json:"lifecycle,omitempty"`

	Title   string    `json:"title,omitempty"`
	User    string    `json:"user,omitempty"`
	Origin  string    `json:"origin,omitempty"`
	Program Program   `json:"program"` // without its name, which only the document has
	Lineage *Lineage  `json:"lineage,omitempty"`
	Created time.Time `json:"created,omitzero"`

	// Outcome and Failure are of the terminal envelope, and so is Ended.
	Outcome string    `json:"outcome,omitempty"`
	Failure *Failure  `json:"failure,omitempty"`
	Ended   time.Time `json:"ended,omitzero"`

	// Step is the path of the leaf that started, asked or ended last, Stage the name of the
	// stage that started last.
	Step  string         `json:"step,omitempty"`
	Stage string         `json:"stage,omitempty"`
	Steps map[string]int `json:"steps,omitempty"` // plan.step by status
	// BadStep is the step that failed last, to tell where a run failed.
	BadStep *Failure `json:"bad_step,omitempty"`

	// Pipeline is that of a pipeline run.
	Pipeline *PipelineStatus `json:"pipeline,omitempty"`

	Ledger    Ledger `json:"ledger"`
	Followups int    `json:"followups,omitempty"`

	// Gates are the open ones. Opened and Decided count all.
	Gates   map[string]GateKind `json:"gates,omitempty"`
	Opened  int                 `json:"opened,omitempty"`
	Decided int                 `json:"decided,omitempty"`

	// Given are the records of results that were brought for calls without an outcome,
	// by the path of the call.
	Given map[string]int64 `json:"given,omitempty"`

	// Queue is in which line the run waits for its turn; nil: it does not.
	Queue *QueuedBy `json:"queue,omitempty"`

	// Owned is the last of run.queued, run.started, run.resumed, run.parked, run.interrupted.
	Owned Kind `json:"owned,omitempty"`
	FoldRest
	flow.DriveTime
}

// QueuedBy is who has a run wait for its turn, and since when.
type QueuedBy struct {
	RunQueued
	At time.Time `json:"at"`
}

// Apply adds one record. Records come in order; one that was added before is
// left out.
func (f *Fold) Apply(e *Event) { f.apply(e, nil) }

// apply adds a record whose body, of a call, may be known.
func (f *Fold) apply(e *Event, effect *Effect) {
	if e.Seq <= f.Seq {
		return
	}
	if f.Seq == 0 {
		f.Rules = foldRules
	}
	f.Seq, f.At = e.Seq, e.At
	f.applyRest(e)
	f.Life.apply(e, f.DriveTo)
	f.DriveTime.Apply(string(e.Kind), e.Epoch, e.At, e.Body)
	if e.Kind.Envelope() {
		f.applyEnvelope(e)
		return
	}
	switch e.Kind {
	case KindRunQueued, KindRunStarted, KindRunResumed, KindRunParked, KindRunInterrupted:
		f.Owned, f.Queue = e.Kind, nil
		if e.Kind == KindRunQueued {
			f.Queue = &QueuedBy{RunQueued: BodyOf[RunQueued](e), At: e.At}
		}
	case KindRunForked:
		body := BodyOf[RunForked](e)
		f.Ledger.carry(body.Counters, body.Held, body.Limit)
		f.Said = body.Counters[BoundModelCalls] > 0
	case KindRunContinued:
		body := BodyOf[RunContinued](e)
		f.Ledger.carry(body.Used, body.Held, f.withOwn(body.Limit))
	case KindEffectIntended, KindEffectFailed, KindEffectFinished:
		f.applyEffect(e, effect)
	case KindEffectGiven:
		if _, has := f.Given[e.Path]; !has { // the first counts
			put(&f.Given, e.Path, e.Seq)
		}
	case KindEffectSuspended:
		f.Ledger.suspend(e.Path)
		f.doubt(e.Kind, e.Path, "")
	case KindBoundReserved:
		f.Ledger.reserve(e.Path, BodyOf[BoundReserved](e).By)
	case KindBoundUsed:
		f.Ledger.spent(e.Path, BodyOf[BoundUsed](e).SoFar)
	case KindGateTaken:
		f.Ledger.take(BodyOf[GateTaken](e).Gate)
		f.Ledger.decideDoubt(e.Path, f.Given)
	case KindPlanStep:
		f.applyStep(e)
	case KindStageStarted, KindStageFinished:
		if f.Step = e.Path; e.Kind == KindStageStarted {
			f.Stage = stageOf(e.Path)
		}
	case KindTurnMerged, KindDraftUpdated:
		f.applyVersion(e)
	case KindFollowupCreated:
		f.Followups++
	}
}

func (f *Fold) applyEnvelope(e *Event) {
	way := trail{Machine{f.Run, f.State}, f.Lifecycle}
	way.apply(e)
	f.Run, f.State, f.Lifecycle = way.Run, way.State, way.Text

	switch e.Kind {
	case KindIntentDraft:
		f.applyDraft(e)
	case KindIntentAccept:
		body := BodyOf[IntentAccept](e)
		f.inForce(body.ProgramDigest, body.Revision)
		f.limit(body.Bounds)
		f.closeGate(e) // where a gate asked for it
	case KindIntentCompiled:
		f.inForce(BodyOf[IntentCompiled](e).ProgramDigest, 0)
	case KindPlanProposed:
		body := BodyOf[PlanProposed](e)
		f.inForce(body.ProgramDigest, body.Revision)
	case KindIntentCorrect:
		// A material correction is not in force until it is proposed anew.
		if body := BodyOf[IntentCorrect](e); body.Material == nil || !*body.Material {
			f.inForce(body.ProgramDigest, body.Revision)
		}
	case KindIntentDispatch:
		if child := BodyOf[IntentDispatch](e).Child; !child.IsZero() {
			if f.Lineage == nil {
				f.Lineage = new(Lineage)
			}
			f.Lineage.Children = append(f.Lineage.Children, child)
		}
	case KindIntentClarify, KindPolicyGate:
		f.openGate(e)
	case KindIntentAnswer, KindPolicyGateResolve:
		f.closeGate(e)
	case KindIntentAttest, KindIntentFail, KindIntentCancel:
		f.applyEnd(e)
	}
}

func (f *Fold) applyDraft(e *Event) {
	f.Created = e.At
	body := BodyOf[IntentDraft](e)
	f.Program, f.Pipeline = Program{Kind: body.ProgramKind, Digest: body.ProgramDigest}, body.Pipeline
	f.User, f.Origin, f.Title = body.User, body.Origin, body.Title
	f.Ledger.Holds = body.Holds()
	if body.ForkOf != nil {
		f.Lineage = &Lineage{Relation: relationFork, Seq: body.ForkOf.Seq}
		f.Lineage.Parent, _ = ParseID(body.ForkOf.Run)
	}
	if body.Parent != nil {
		if f.Lineage == nil {
			f.Lineage = new(Lineage)
		}
		f.Lineage.Parent, _ = ParseID(body.Parent.Run)
		f.Lineage.Relation = body.Parent.Relation
	}
	if f.Pipeline != nil {
		var rollback struct {
			Counters struct {
				Stage int64 `json:"current_stage_number"`
			} `json:"counters"`
		}
		_ = decode(body.Rollback, &rollback)
		f.Pipeline.StageNumber = rollback.Counters.Stage // a run that goes back has come as far as the one it leaves
	}
	f.limit(body.Bounds)
}

// applyVersion follows how often the state of a pipeline has changed.
func (f *Fold) applyVersion(e *Event) {
	if f.Pipeline == nil {
		return
	}
	if e.Kind == KindTurnMerged {
		body := BodyOf[TurnMerged](e)
		f.Pipeline.Version = max(f.Pipeline.Version, body.Version)
		f.Pipeline.StageNumber = max(f.Pipeline.StageNumber, body.StageNumber)
		return
	}
	body := BodyOf[DraftUpdated](e)
	f.Pipeline.Version = max(f.Pipeline.Version, body.Version)
	f.Program.Digest = cmp.Or(body.ProgramDigest, f.Program.Digest)
	f.Pipeline.Thread = cmp.Or(body.Thread, f.Pipeline.Thread)
	f.limit(body.Bounds)
	f.Ledger.carry(body.Used, nil, nil)
}

// inForce follows which program is in force.
func (f *Fold) inForce(digest string, revision int) {
	if digest == "" {
		return
	}
	f.Program.Digest, f.Program.Revision = digest, 0
	if revision > 1 {
		f.Program.Revision = revision
	}
}

// limit sets the limits that a draft, or the acceptance that completes it, names.
func (f *Fold) limit(b Bounds) {
	if b != nil {
		f.Ledger.Limit = flow.Use(b)
	}
}

func (f *Fold) openGate(e *Event) {
	body, err := flow.ReadOpened(string(e.Kind), e.Body)
	if err != nil || body.Gate == "" {
		return
	}
	put(&f.Gates, body.Gate, GateKind(body.Kind))
	if _, done := f.DoneStages[stageOf(e.Path)]; done {
		f.DoneStages[stageOf(e.Path)] = body.Gate
	}
	f.Opened++
	if GateKind(body.Kind) == InDoubt {
		delete(f.Sent, AskerPath(InDoubt, e.Path))
	}
	if e.Path != "" {
		f.Step = leafOf(AskerPath(GateKind(body.Kind), e.Path))
	}
}

func (f *Fold) closeGate(e *Event) {
	body, err := flow.ReadResolved(string(e.Kind), e.Body)
	if err != nil {
		return
	}
	if f.Gates[body.Gate] == Bound && body.Action == "extend" && body.Decision() {
		var by flow.Use
		if decode(body.Answer, &by) {
			for said, name := range ownBounds {
				if n, ok := by[said]; ok && by[name] == 0 {
					by[name] = n
				}
			}
			f.Ledger.grant(body.Gate, by)
		}
	}
	f.dropGate(body.Gate, body.Decision())
}

func (f *Fold) dropGate(gate string, decided bool) {
	if _, open := f.Gates[gate]; !open {
		return
	}
	delete(f.Gates, gate)
	for stage, asks := range f.DoneStages {
		if asks == gate {
			f.DoneStages[stage] = ""
		}
	}
	if decided {
		f.Decided++
	}
}

func (f *Fold) applyEnd(e *Event) {
	body := BodyOf[Terminal](e)
	switch e.Kind {
	case KindIntentAttest:
		f.Outcome = body.Outcome
	case KindIntentFail:
		f.Failure = &Failure{Reason: body.Reason, Code: body.Code, Message: body.Message, Bound: body.Bound}
		f.Failure.Path = f.whereFailed()
	case KindIntentCancel:
		f.Failure = &Failure{Reason: string(Cancelled), Message: body.Reason}
		f.dropGate(body.Gate, true)
	}
	if f.Pipeline != nil {
		f.Pipeline.TerminalReason = body.TerminalReason
	}
	f.Ended = e.At
	if e.Kind == KindIntentCancel { // which anyone may have written, later
		f.DriveTime.End(f.DriveTo)
	} else {
		f.DriveTime.End(e.At)
	}
	f.Ledger.end()
	f.Gates, f.BadStep, f.Given = nil, nil, nil
}

// whereFailed is the step that the run failed for, if it is certain: several may
// have failed, and some failures are continued.
func (f *Fold) whereFailed() string {
	bad := f.BadStep
	if bad == nil || bad.Reason != f.Failure.Reason || bad.Code != f.Failure.Code || bad.Message != f.Failure.Message {
		return ""
	}
	return bad.Path
}

// ownBounds are those that a pipeline watches over itself, and no engine, by the names
// that its document has for them.
var ownBounds = map[string]string{"max_iterations": BoundIterations, "max_stages": BoundStages}

// withOwn adds to the limits of an engine those that a pipeline watches over itself.
func (f *Fold) withOwn(limit flow.Use) flow.Use {
	if limit == nil || f.Pipeline == nil {
		return limit
	}
	for _, name := range ownBounds {
		if n, ok := f.Ledger.Limit[name]; ok {
			limit[name] = n
		}
	}
	return limit
}

func (f *Fold) applyEffect(e *Event, body *Effect) {
	if body == nil {
		if body = new(Effect); !decode(e.Body, body) {
			return
		}
	}
	f.Step = leafOf(e.Path)
	f.doubt(e.Kind, e.Path, body.Class)
	delete(f.Given, e.Path)
	if e.Kind == KindEffectIntended {
		f.Ledger.intend(e.Path, body)
	} else {
		f.Ledger.finish(e.Path, body)
	}
}

func (f *Fold) applyStep(e *Event) {
	f.Step = e.Path
	var body PlanStep
	if !decode(e.Body, &body) || !stepStatus(body.Status) {
		return
	}
	put(&f.Steps, body.Status, f.Steps[body.Status]+1)
	if failed := body.Error; failed != nil && failed.Reason != "" {
		f.BadStep = &Failure{Reason: failed.Reason, Code: failed.Code, Message: failed.Message, Path: e.Path}
	}
}

// stepStatus keeps the counts closed: a record cannot make the fold grow.
func stepStatus(s string) bool {
	switch s {
	case StepStarted, StepCompleted, StepFailed, StepRefused, StepCancelled, StepCarried, StepUncertain:
		return true
	}
	return false
}

// leafOf is the node or stage at work in a call's path: the calls of an agent
// loop are numbered below it, as in critic#3/model#2.
func leafOf(path string) string {
	for {
		i := strings.LastIndexByte(path, '/')
		if i < 0 || !strings.Contains(path[i:], "#") {
			return path
		}
		path = path[:i]
	}
}
