package tipstaff

import (
	"encoding/json"
	"strings"
	"time"
)

// Fold is what the records of a run add up to: all that its status needs. It is
// pure. Taken as JSON and taken up again at any record it gives the same as in
// one piece, so that a store can keep it in the run's row.
//
// It grows with open gates, unsettled calls and lifecycle transitions, not with
// records. What it cannot read it ignores: finding faults is what verify does.
type Fold struct {
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

	// Step is the path of the leaf that started, asked or ended last.
	Step  string         `json:"step,omitempty"`
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

	// Owned is the last of run.started, run.resumed, run.parked, run.interrupted.
	Owned Kind `json:"owned,omitempty"`
	// WallMs is the time of ended drives. The present one began at DriveFrom and
	// wrote its last record at DriveTo.
	WallMs    int64     `json:"wall_ms,omitempty"`
	DriveFrom time.Time `json:"drive_from,omitzero"`
	DriveTo   time.Time `json:"drive_to,omitzero"`
}

// Apply adds one record. Records come in order; one that was added before is
// left out.
func (f *Fold) Apply(e *Event) {
	if e.Seq <= f.Seq {
		return
	}
	f.Seq, f.At = e.Seq, e.At
	if f.inDrive(e) {
		f.DriveTo = e.At
	}
	if e.Kind.Envelope() {
		f.applyEnvelope(e)
		return
	}
	switch e.Kind {
	case KindRunStarted, KindRunResumed, KindRunParked, KindRunInterrupted:
		f.applyOwnership(e)
	case KindRunContinued, KindRunForked:
		f.applyCarry(e)
	case KindEffectIntended, KindEffectFailed, KindEffectFinished:
		f.applyEffect(e)
	case KindEffectSuspended:
		f.Ledger.suspend(e.Path)
	case KindBoundReserved:
		var body struct {
			By amounts `json:"by"`
		}
		if decode(e.Body, &body) {
			f.Ledger.reserve(e.Path, body.By)
		}
	case KindGateTaken:
		var body struct {
			Gate string `json:"gate"`
		}
		if decode(e.Body, &body) {
			f.Ledger.take(body.Gate)
		}
	case KindPlanStep:
		f.applyStep(e)
	case KindStageStarted, KindStageFinished:
		f.Step = e.Path
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
		f.applyProgram(e)
		f.closeGate(e) // where a gate asked for it
	case KindIntentCompiled, KindPlanProposed, KindIntentCorrect:
		f.applyProgram(e)
	case KindIntentDispatch:
		f.applyDispatch(e)
	case KindIntentClarify, KindPolicyGate:
		f.openGate(e)
	case KindIntentAnswer, KindPolicyGateResolve:
		f.closeGate(e)
	case KindIntentAttest, KindIntentFail, KindIntentCancel:
		f.applyEnd(e)
	}
}

func (f *Fold) applyDraft(e *Event) {
	var body struct {
		Kind   string `json:"program_kind"`
		Digest string `json:"program_digest"`
		User   string `json:"user"`
		Origin string `json:"origin"`
		Title  string `json:"title"`
		Parent *struct {
			Run      ID     `json:"run"`
			Relation string `json:"relation"`
		} `json:"parent"`
		ForkOf *struct {
			Run ID    `json:"run"`
			Seq int64 `json:"seq"`
		} `json:"fork_of"`
		Bounds   json.RawMessage `json:"bounds"`
		Pipeline *PipelineStatus `json:"pipeline"`
		Rollback struct {
			Counters struct {
				Stage int64 `json:"current_stage_number"`
			} `json:"counters"`
		} `json:"rollback"`
	}
	f.Created = e.At
	if !decode(e.Body, &body) {
		return
	}
	f.Program, f.Pipeline = Program{Kind: body.Kind, Digest: body.Digest}, body.Pipeline
	f.User, f.Origin, f.Title = body.User, body.Origin, body.Title
	if body.ForkOf != nil {
		f.Lineage = &Lineage{Parent: body.ForkOf.Run, Relation: "fork", Seq: body.ForkOf.Seq}
	}
	if body.Parent != nil {
		seq := int64(0)
		if f.Lineage != nil {
			seq = f.Lineage.Seq
		}
		f.Lineage = &Lineage{Parent: body.Parent.Run, Relation: body.Parent.Relation, Seq: seq}
	}
	if f.Pipeline != nil {
		f.Pipeline.StageNumber = body.Rollback.Counters.Stage // a run that goes back has come as far as the one it leaves
	}
	f.limit(body.Bounds)
}

// applyVersion follows how often the state of a pipeline has changed.
func (f *Fold) applyVersion(e *Event) {
	var body struct {
		Version int64           `json:"version"`
		Stage   int64           `json:"stage_number"`
		Digest  string          `json:"program_digest"`
		Thread  string          `json:"thread_id"`
		Used    amounts         `json:"used"`
		Bounds  json.RawMessage `json:"bounds"`
	}
	if f.Pipeline == nil || !decode(e.Body, &body) {
		return
	}
	f.Pipeline.Version = max(f.Pipeline.Version, body.Version)
	f.Pipeline.StageNumber = max(f.Pipeline.StageNumber, body.Stage)
	if e.Kind != KindDraftUpdated {
		return
	}
	if body.Digest != "" {
		f.Program.Digest = body.Digest
	}
	if body.Thread != "" {
		f.Pipeline.Thread = body.Thread
	}
	f.limit(body.Bounds)
	f.Ledger.carry(body.Used, nil)
}

// applyDispatch takes note of a child run.
func (f *Fold) applyDispatch(e *Event) {
	var body struct {
		Child ID `json:"child"`
	}
	if !decode(e.Body, &body) || body.Child.IsZero() {
		return
	}
	if f.Lineage == nil {
		f.Lineage = new(Lineage)
	}
	f.Lineage.Children = append(f.Lineage.Children, body.Child)
}

// applyProgram follows which program is in force. A material correction is not,
// until it is proposed anew.
func (f *Fold) applyProgram(e *Event) {
	var body struct {
		Digest   string          `json:"program_digest"`
		Revision int             `json:"revision"`
		Material bool            `json:"material"`
		Gate     string          `json:"gate"`
		Bounds   json.RawMessage `json:"bounds"`
	}
	if !decode(e.Body, &body) {
		return
	}
	if body.Digest != "" && !body.Material {
		f.Program.Digest, f.Program.Revision = body.Digest, 0
		if body.Revision > 1 {
			f.Program.Revision = body.Revision
		}
	}
	if e.Kind == KindIntentAccept {
		f.limit(body.Bounds)
		f.dropGate(body.Gate, true)
	}
}

// limit sets the limits that a draft, or the acceptance that completes it, names.
func (f *Fold) limit(doc json.RawMessage) {
	var b Bounds
	if len(doc) > 0 && decode(doc, &b) && b != nil {
		f.Ledger.Limit = b
	}
}

func (f *Fold) openGate(e *Event) {
	var body struct {
		Gate string   `json:"gate"`
		Kind GateKind `json:"gate_kind"`
	}
	if !decode(e.Body, &body) || body.Gate == "" {
		return
	}
	if e.Kind == KindIntentClarify {
		body.Kind = Clarification
	}
	if f.Gates == nil {
		f.Gates = map[string]GateKind{}
	}
	f.Gates[body.Gate] = body.Kind
	f.Opened++
	if e.Path != "" {
		f.Step = leafOf(AskerPath(body.Kind, e.Path))
	}
}

func (f *Fold) closeGate(e *Event) {
	var body resolveBody
	if !decode(e.Body, &body) {
		return
	}
	if f.Gates[body.Gate] == Bound && body.Action == "extend" && body.decision() {
		var by amounts
		if decode(body.Answer, &by) {
			for said, name := range ownBounds {
				if n, ok := by[said]; ok && by[name] == 0 {
					by[name] = n
				}
			}
			f.Ledger.grant(body.Gate, by)
		}
	}
	f.dropGate(body.Gate, body.decision())
}

func (f *Fold) dropGate(gate string, decided bool) {
	if _, open := f.Gates[gate]; !open {
		return
	}
	delete(f.Gates, gate)
	if decided {
		f.Decided++
	}
}

func (f *Fold) applyEnd(e *Event) {
	var body struct {
		Outcome string `json:"outcome"`
		Reason  string `json:"reason"`
		Code    string `json:"code"`
		Message string `json:"message"`
		Bound   string `json:"bound"`
		Gate    string `json:"gate"`
		Why     string `json:"terminal_reason"`
	}
	_ = decode(e.Body, &body) // an unreadable end is an end
	f.dropGate(body.Gate, true)
	if f.Pipeline != nil {
		f.Pipeline.TerminalReason = body.Why
	}
	switch e.Kind {
	case KindIntentAttest:
		f.Outcome = body.Outcome
	case KindIntentFail:
		f.Failure = &Failure{Reason: body.Reason, Code: body.Code, Message: body.Message, Bound: body.Bound}
		f.Failure.Path = f.whereFailed()
	case KindIntentCancel:
		f.Failure = &Failure{Reason: string(Cancelled), Message: body.Reason}
	}
	f.Ended = e.At
	if !f.DriveFrom.IsZero() && e.Kind != KindIntentCancel { // which anyone may have written, later
		f.DriveTo = e.At
	}
	f.endDrive()
	f.Ledger.end()
	f.Gates, f.BadStep = nil, nil
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

func (f *Fold) applyOwnership(e *Event) {
	f.Owned = e.Kind
	switch e.Kind {
	case KindRunStarted, KindRunResumed:
		f.endDrive() // of an owner that was lost without a word
		f.DriveFrom, f.DriveTo = e.At, e.At
	case KindRunParked:
		f.setWall(e)
	case KindRunInterrupted:
		f.endDrive()
	}
}

// inDrive reports whether the owner wrote the record in the present drive. A new
// owner's first record does not lengthen the drive of the one before.
func (f *Fold) inDrive(e *Event) bool {
	return e.Epoch > 0 && !f.DriveFrom.IsZero() && e.Kind != KindRunStarted && e.Kind != KindRunResumed
}

// endDrive adds the time of the present drive, up to its last record.
func (f *Fold) endDrive() {
	if ms := f.DriveTo.Sub(f.DriveFrom).Milliseconds(); ms > 0 {
		f.WallMs = saturated(f.WallMs, ms)
	}
	f.DriveFrom, f.DriveTo = time.Time{}, time.Time{}
}

// setWall takes the sum that the owner itself measured.
func (f *Fold) setWall(e *Event) {
	var body struct {
		WallMs *int64 `json:"wall_ms"`
	}
	if !decode(e.Body, &body) || body.WallMs == nil || *body.WallMs < 0 {
		f.endDrive()
		return
	}
	f.WallMs = *body.WallMs
	f.DriveFrom, f.DriveTo = time.Time{}, time.Time{}
}

func (f *Fold) applyCarry(e *Event) {
	var body struct {
		Used     amounts `json:"used"`
		Counters amounts `json:"counters"`
		Limit    amounts `json:"limit"`
		WallMs   int64   `json:"wall_ms"`
	}
	if !decode(e.Body, &body) {
		return
	}
	if e.Kind == KindRunForked {
		f.Ledger.carry(body.Counters, body.Limit)
		f.WallMs = max(f.WallMs, body.WallMs)
		return
	}
	f.Ledger.carry(body.Used, f.withOwn(body.Limit))
	f.setWall(e)
	f.DriveFrom, f.DriveTo = e.At, e.At // the drive goes on
}

// ownBounds are those that a pipeline watches over itself, and no engine, by the names
// that its document has for them.
var ownBounds = map[string]string{"max_iterations": BoundIterations, "max_stages": BoundStages}

// withOwn adds to the limits of an engine those that a pipeline watches over itself.
func (f *Fold) withOwn(limit amounts) amounts {
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

func (f *Fold) applyEffect(e *Event) {
	var reserve, use amounts
	if !e.Members(func(name string, value json.RawMessage) bool {
		switch name {
		case "reserve":
			return decode(value, &reserve)
		case "use":
			return decode(value, &use)
		}
		return true
	}) {
		return
	}
	f.Step = leafOf(e.Path)
	if e.Kind == KindEffectIntended {
		f.Ledger.intend(e.Path, reserve)
	} else {
		f.Ledger.settle(e.Path, use)
	}
}

func (f *Fold) applyStep(e *Event) {
	var status string
	var failed struct {
		Reason  string `json:"reason"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	f.Step = e.Path
	if !e.Members(func(name string, value json.RawMessage) bool {
		switch name {
		case "status":
			return decode(value, &status)
		case "error":
			return decode(value, &failed)
		}
		return true
	}) || !stepStatus(status) {
		return
	}
	if f.Steps == nil {
		f.Steps = map[string]int{}
	}
	f.Steps[status]++
	if failed.Reason != "" {
		f.BadStep = &Failure{Reason: failed.Reason, Code: failed.Code, Message: failed.Message, Path: e.Path}
	}
}

// stepStatus keeps the counts closed: a record cannot make the fold grow.
func stepStatus(s string) bool {
	switch s {
	case "started", "completed", "failed", "refused", "cancelled", "carried", "uncertain":
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
