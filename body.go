package tipstaff

import (
	"encoding/json"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// BodyOf reads the body of a record, as far as it can be read: views and folds ignore
// what has another form than expected. Finding faults is what verify does.
func BodyOf[T any](e *Event) (b T) {
	_ = json.Unmarshal(e.Body, &b)
	return b
}

// decode reads a body, and reports whether it could be read whole.
func decode(body json.RawMessage, v any) bool { return json.Unmarshal(body, v) == nil }

// Bodies of the records that the engine writes; package flow documents them.
type (
	Effect             = flow.Effect
	EffectLost         = flow.EffectLost
	EffectGiven        = flow.EffectGiven
	GateOpened         = flow.GateOpened
	GateResolved       = flow.GateResolved
	GateTaken          = flow.GateTaken
	IntentClarify      = flow.IntentClarify
	IntentAnswer       = flow.IntentAnswer
	GroupClosed        = flow.GroupClosed
	BoundWarned        = flow.BoundWarned
	BoundRefused       = flow.BoundRefused
	BoundExtended      = flow.BoundExtended
	BoundReserved      = flow.BoundReserved
	BoundUsed          = flow.BoundUsed
	RunStarted         = flow.RunStarted
	RunParked          = flow.RunParked
	RunInterrupted     = flow.RunInterrupted
	RunContinued       = flow.RunContinued
	RunForked          = flow.RunForked
	RunCancelRequested = flow.RunCancelRequested
)

// Terms are what is accepted: neither half may change afterwards.
type Terms struct {
	IntentHash    string `json:"intent_hash"`
	ProgramDigest string `json:"program_digest"`
}

// IntentDraft is the body of intent.draft: a run exists.
type IntentDraft struct {
	ProgramKind   string            `json:"program_kind"`
	ProgramDigest string            `json:"program_digest,omitempty"` // "": it is to be drafted
	Prose         string            `json:"prose,omitempty"`          // for which
	Skill         string            `json:"skill,omitempty"`
	SkillDigest   string            `json:"skill_digest,omitempty"`
	Inputs        json.RawMessage   `json:"inputs"`
	Bounds        Bounds            `json:"bounds"`
	User          string            `json:"user"`
	Origin        string            `json:"origin"`
	Keys          RunKeys           `json:"keys"`
	Frozen        map[string]string `json:"frozen"`          // digests of documents
	Rules         int               `json:"rules,omitempty"` // under which the run was made
	Asks          string            `json:"asks,omitempty"`  // calls that an acceptance does not cover
	Title         string            `json:"title,omitempty"`
	Trace         string            `json:"trace,omitempty"` // the span of whoever asked for the run
	By            string            `json:"by,omitempty"`    // who asked for it on behalf of the user; "": the user
	Labels        map[string]string `json:"labels,omitempty"`
	Within        []string          `json:"within,omitempty"` // runs whose process has asked for it

	Pipeline *PipelineStatus `json:"pipeline,omitempty"`
	Rollback json.RawMessage `json:"rollback,omitempty"` // of a run that goes back, or forks off: what it takes over
	Hold     bool            `json:"hold,omitempty"`     // it is a draft until it is started

	Files    *RunFiles  `json:"files,omitempty"` // nil: its agents change none
	Parent   *RunParent `json:"parent,omitempty"`
	ForkOf   *ForkPoint `json:"fork_of,omitempty"`
	Followup *Followup  `json:"followup,omitempty"` // of a follow-up, and of what forks off from one
}

// RulesHeld are the rules of runs from which on the money that a lost attempt had reserved
// is held, and not spent.
const RulesHeld = 3

// Holds reports whether that is so in the run.
func (b *IntentDraft) Holds() bool { return b.Rules >= RulesHeld }

// LabelMessage is the label of a run that was made of a message: a user has one at a time.
const LabelMessage = "tipstaff.message"

// LabelTask is the label of a run that names the task which it does.
const LabelTask = "task"

// RunKeys are the public keys with which the envelopes of a run are signed.
type RunKeys struct {
	User     journal.PublicKey `json:"user"`
	Executor journal.PublicKey `json:"executor"`
}

// RunParent is the run that a run comes from.
type RunParent struct {
	Run      string `json:"run"`
	Relation string `json:"relation"`
}

// Dispatched reports whether that run has started the other to do a part of its own work, and
// goes on when it has ended.
func (p *RunParent) Dispatched() bool { return p != nil && p.Relation == relationDispatch }

// ForkPoint is the last record that a fork inherits.
type ForkPoint struct {
	Run  string       `json:"run"`
	Seq  int64        `json:"seq"`
	Hash journal.Hash `json:"hash"`
}

// IntentCompiled is the body of intent.compiled.
type IntentCompiled struct {
	Intent        json.RawMessage `json:"intent,omitempty"`
	IntentHash    string          `json:"intent_hash,omitempty"`
	ProgramDigest string          `json:"program_digest,omitempty"`
	Model         string          `json:"model,omitempty"`
	Attempts      int             `json:"attempts"`
}

// IntentAccept is the body of intent.accept.
type IntentAccept struct {
	Terms
	Revision   int    `json:"revision"`
	Bounds     Bounds `json:"bounds"`
	Via        string `json:"via"`
	Client     string `json:"client,omitempty"` // what was used to decide the gate
	Gate       string `json:"gate,omitempty"`
	Note       string `json:"note,omitempty"`
	DecidedBy  string `json:"decided_by,omitempty"`
	OnBehalfOf string `json:"on_behalf_of,omitempty"`
}

// PlanProposed is the body of plan.proposed.
type PlanProposed struct {
	Terms
	Revision   int    `json:"revision"`
	AcceptedBy string `json:"accepted_by"` // an envelope
}

// RunCorrectionRequested is the body of run.correction_requested, beside the revision
// that is handed in.
type RunCorrectionRequested struct {
	Reason string `json:"reason"`
	Actor  string `json:"actor"`
}

// IntentCorrect is the body of intent.correct.
type IntentCorrect struct {
	Target   string   `json:"target"`
	Reason   string   `json:"reason"`
	Material *bool    `json:"material"`
	Reasons  []Reason `json:"reasons"`
	Terms
	Revision   int    `json:"revision"`
	OnBehalfOf string `json:"on_behalf_of"`
}

// IntentDispatch is the body of intent.dispatch.
type IntentDispatch struct {
	Child       ID     `json:"child"`
	Skill       string `json:"skill"`
	SkillDigest string `json:"skill_digest"`
	Bounds      Bounds `json:"bounds"`
}

// Ending is what every terminal envelope says.
type Ending struct {
	Cited             []string        `json:"cited"` // items of the memory
	Evidence          json.RawMessage `json:"evidence"`
	TerminalReason    string          `json:"terminal_reason,omitempty"` // of a pipeline
	TerminationReason *string         `json:"termination_reason,omitempty"`
}

// IntentAttest is the body of intent.attest.
type IntentAttest struct {
	Outcome       string `json:"outcome"`
	OutputsDigest string `json:"outputs_digest"`
	Ending
}

// IntentFail is the body of intent.fail.
type IntentFail struct {
	Reason  string `json:"reason"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	Bound   string `json:"bound,omitempty"`
	Ending
}

// IntentCancel is the body of intent.cancel.
type IntentCancel struct {
	Reason     string `json:"reason"`
	Via        string `json:"via"`
	Gate       string `json:"gate,omitempty"`
	OnBehalfOf string `json:"on_behalf_of,omitempty"`
	Ending
}

// Terminal reads the body of any of the three: each has the members that apply to it.
type Terminal struct {
	Outcome       string `json:"outcome"`
	OutputsDigest string `json:"outputs_digest"`
	Reason        string `json:"reason"`
	Code          string `json:"code"`
	Message       string `json:"message"`
	Bound         string `json:"bound"`
	Gate          string `json:"gate"`
	Behalf
	Ending
}

// Behalf is how an envelope says for whom the executor has signed it.
type Behalf struct {
	Via        string `json:"via"`
	OnBehalfOf string `json:"on_behalf_of"`
}

// RunLaunched is the body of run.launched: a process is started for the run.
type RunLaunched struct {
	Launch string   `json:"launch"` // that its processes carry in their environment
	Argv   []string `json:"argv"`
}

// RunQueued is the body of run.queued: how many runs of its user were driven then, how
// many of all can be, in whose line it stands, and which process has it wait.
type RunQueued struct {
	Driven    int             `json:"driven"`
	Places    int             `json:"places"`
	Principal string          `json:"principal,omitempty"`
	Host      string          `json:"host,omitempty"`
	Daemon    ProcessIdentity `json:"daemon,omitzero"` // zero: any server may drive it

	Answers *AdvanceAnswers `json:"answers,omitempty"` // that whoever drives it then goes by; nil: none
}

// AdvanceAnswers are given to the gates of a run before it is driven, as [Presence] has them.
type AdvanceAnswers struct {
	Yes       bool   `json:"yes,omitempty"`
	Accept    bool   `json:"accept,omitempty"`
	DraftOnly bool   `json:"draft_only,omitempty"` // what is drafted is accepted by nobody
	By        Caller `json:"by,omitzero"`
}

// DraftUpdated is the body of draft.updated: what changed, and where the draft stands
// then.
type DraftUpdated struct {
	Version int64           `json:"version"`
	Changed []string        `json:"changed"`
	Value   json.RawMessage `json:"value,omitempty"` // a change; it may be large
	flow.DraftUsed
	By string `json:"by"`

	// Another program, which takes the place of the draft's when it is started.
	ProgramDigest string            `json:"program_digest,omitempty"`
	Bounds        Bounds            `json:"bounds,omitempty"`
	Frozen        map[string]string `json:"frozen,omitempty"`
	// Asks is that of this program; without one, what the draft asks beside what it did.
	Asks string `json:"asks,omitempty"`

	// The thread that it is started in, if that is another than it was made for.
	Thread string `json:"thread_id,omitempty"`

	// A single agent works on the draft, or has done so: a run of its own.
	Locked   string `json:"locked,omitempty"`
	Unlocked string `json:"unlocked,omitempty"`
}

// EffectSent is the body of effect.sent.
type EffectSent struct {
	Attempt int    `json:"attempt"`
	Host    string `json:"host_id"`
}

// EffectLate is the body of effect.late: what came when the call had its answer, or
// from a host that was not asked.
type EffectLate struct {
	Call    string          `json:"call_id"`
	Host    string          `json:"host_id"`
	Output  json.RawMessage `json:"output,omitempty"`
	Control json.RawMessage `json:"control,omitempty"`
	Error   *HostError      `json:"error,omitempty"`
}

// PlanDrafted is the body of plan.drafted.
type PlanDrafted struct {
	Attempts      int    `json:"attempts"`
	IntentHash    string `json:"intent_hash"`
	Model         string `json:"model"`
	ProgramDigest string `json:"program_digest"`
}

// PlanStep is the body of plan.step. No time enters it but the recorded one of the
// call.
type PlanStep struct {
	Node         string     `json:"node"`
	Status       string     `json:"status"`
	ResultDigest string     `json:"result_digest,omitempty"`
	Error        *StepError `json:"error,omitempty"`
	LatencyMs    int64      `json:"latency_ms,omitempty"`
}

// Statuses of a leaf in plan.step.
const (
	StepStarted   = "started" // of step and sub_dispatch alone
	StepCompleted = "completed"
	StepFailed    = "failed"
	StepRefused   = "refused"
	StepCancelled = "cancelled"
	StepUncertain = "uncertain" // once, and nobody knows whether it happened
	StepCarried   = "carried"   // completed by an earlier revision: nothing was called
)

// StepError is why a leaf did not complete.
type StepError struct {
	Reason  string `json:"reason"`
	Code    string `json:"code"`
	Rule    string `json:"rule,omitempty"`
	Message string `json:"message"`
}

// PlanOutput is the body of plan.output: one piece of what a call printed.
type PlanOutput struct {
	Channel string `json:"channel"` // stdout, stderr
	N       int    `json:"n"`       // from 1, in each channel
	Chunk   string `json:"chunk"`
	Final   bool   `json:"final"`
}

// ToolProgress is the body of tool.progress: how far a call says it has come.
type ToolProgress struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitempty"` // 0: not known
	Message  string  `json:"message,omitempty"`
}
