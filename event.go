package tipstaff

import (
	"encoding/json"
	"time"

	"github.com/tipstaff/tipstaff/journal"
)

// Event is one record of a run's journal or, without a seq, something that was told
// and not recorded.
type Event struct {
	V     int             `json:"v"`
	Seq   int64           `json:"seq,omitempty"`
	Kind  Kind            `json:"kind"`
	At    time.Time       `json:"at"`
	Run   ID              `json:"run"`
	Path  string          `json:"path"`
	Epoch int64           `json:"epoch,omitempty"`
	N     int             `json:"n,omitempty"`
	Note  bool            `json:"note,omitempty"`
	Body  json.RawMessage `json:"body"`

	// Of envelopes, the signed records, alone:
	ID   ID     `json:"id,omitzero"`
	From string `json:"from,omitempty"`
	Prev string `json:"prev,omitempty"`
	Head string `json:"head,omitempty"`
	Key  string `json:"key,omitempty"`
	Sig  string `json:"sig,omitempty"`

	Raw  []byte       `json:"-"` // the stored bytes: these are the record
	Hash journal.Hash `json:"-"` // of the chain after it, as the store keeps it; zero: not known here
}

// Kind names what a record says. The list is closed: a store that is asked to
// append another refuses, a reader that meets one is older than the record.
type Kind string

// Envelopes: the signed records. Together they are the lifecycle and the
// decisions of a run.
const (
	KindIntentDraft       Kind = "intent.draft"        // a run exists: its program, inputs, bounds, keys
	KindIntentCompiled    Kind = "intent.compiled"     // intent and program are known
	KindIntentClarify     Kind = "intent.clarify"      // questions before acceptance
	KindIntentAnswer      Kind = "intent.answer"       // the answers to them
	KindIntentAccept      Kind = "intent.accept"       // a user accepted exactly this program
	KindPlanProposed      Kind = "plan.proposed"       // the accepted program takes effect
	KindIntentCorrect     Kind = "intent.correct"      // a revised program; material ones need a new acceptance
	KindIntentDispatch    Kind = "intent.dispatch"     // a child run was started by a sub_dispatch node
	KindIntentAttest      Kind = "intent.attest"       // completed: outcome, outputs, evidence
	KindIntentFail        Kind = "intent.fail"         // failed: reason, code, evidence
	KindIntentCancel      Kind = "intent.cancel"       // cancelled, halted or rolled back
	KindPolicyGate        Kind = "policy.gate"         // a gate opened
	KindPolicyGateResolve Kind = "policy.gate.resolve" // it was decided, expired or closed
)

// Of the run itself: who drives it, and what others asked of it.
const (
	KindDraftUpdated           Kind = "draft.updated"            // a draft changed: version, fields, by whom
	KindRunLaunched            Kind = "run.launched"             // a process was started for it: launch, argv
	KindRunQueued              Kind = "run.queued"               // it waits for its turn to be driven: driven, places
	KindRunStarted             Kind = "run.started"              // its first owner: kind, epoch, pid
	KindRunResumed             Kind = "run.resumed"              // a later owner, likewise
	KindRunParked              Kind = "run.parked"               // it waits: gates, wake_at, wall_ms; the lease is released
	KindRunInterrupted         Kind = "run.interrupted"          // its owner is gone: reason, pid, who found it
	KindRunCancelRequested     Kind = "run.cancel_requested"     // someone wants it cancelled: actor, mode, deadline
	KindRunCorrectionRequested Kind = "run.correction_requested" // a revised program was handed in
	KindRunForked              Kind = "run.forked"               // it inherits another run's journal and counters
	KindRunContinued           Kind = "run.continued"            // its history starts afresh: state, used, limit, wall_ms
)

// Of the engine: effects, waiting, branches, time.
const (
	KindEffectIntended  Kind = "effect.intended"  // an attempt is about to start: class once, or one that reserves
	KindEffectFailed    Kind = "effect.failed"    // an attempt failed and another follows at retry_at
	KindEffectSuspended Kind = "effect.suspended" // the activity itself parked: a child run waits
	KindEffectFinished  Kind = "effect.finished"  // a call's one outcome: result or error, and what it used
	KindEffectLost      Kind = "effect.lost"      // nobody knows how an attempt of once ended: when it was sent, what is known
	KindEffectSent      Kind = "effect.sent"      // a once call was handed to an agent host, which alone may bring its result later
	KindEffectGiven     Kind = "effect.given"     // a result that its host brought when nobody waited for it: it settles a call without an outcome
	KindEffectLate      Kind = "effect.late"      // a late or different result, which is not used
	KindGateTaken       Kind = "gate.taken"       // the program took this decision
	KindGroupClosed     Kind = "group.closed"     // a group of branches failed: those not started
	KindTimerSet        Kind = "timer.set"        // a sleep began: until when
	KindTimerFired      Kind = "timer.fired"      // it ended
	KindClockRead       Kind = "clock.read"       // the program asked for the time and was told this
	KindBoundWarned     Kind = "bound.warned"     // four fifths of a bound are used
	KindBoundRefused    Kind = "bound.refused"    // a bound stopped an effect: limit, used, what was wanted
	KindBoundExtended   Kind = "bound.extended"   // a decision raised a bound: by how much
	KindBoundReserved   Kind = "bound.reserved"   // an attempt holds more while it runs: by how much
	KindBoundUsed       Kind = "bound.used"       // what an attempt under way has used so far, as far as it tells
)

// Of plans.
const (
	KindPlanDrafted Kind = "plan.drafted" // a model wrote a valid plan, named by its digest
	KindPlanStep    Kind = "plan.step"    // a node ended; a step or sub_dispatch also started
	KindPlanOutput  Kind = "plan.output"  // a piece of what a tool printed
)

// Of pipelines.
const (
	KindStageStarted      Kind = "stage.started"      // visit, attempt, turn, what released it
	KindStageFinished     Kind = "stage.finished"     // visit, outcome, usage, output or error
	KindStageRetrying     Kind = "stage.retrying"     // the next attempt and its delay
	KindStageSkipped      Kind = "stage.skipped"      // requirements were not met
	KindTransition        Kind = "transition"         // from one stage to another, and why
	KindTurnMerged        Kind = "turn.merged"        // a turn's outputs became the pipeline's data
	KindCheckpointCreated Kind = "checkpoint.created" // a place to roll back to
)

// Of the agent loop.
const (
	KindAgentStepStarted     Kind = "agent.step_started"      // a model is about to be called
	KindAgentMessage         Kind = "agent.message"           // what it said
	KindAgentRouterDecided   Kind = "agent.router_decided"    // which tools this turn offers
	KindAgentToolCallRequest Kind = "agent.tool_call_request" // a tool call the model asked for
	KindAgentApprovalDecided Kind = "agent.approval_decided"  // allowed or denied without a gate
	KindAgentToolCallResult  Kind = "agent.tool_call_result"  // what the model was told of the call
	KindAgentFinish          Kind = "agent.finish"            // the turn ended well
	KindAgentError           Kind = "agent.error"             // the turn ended badly
)

// Of reviews.
const (
	KindFindingRecorded   Kind = "finding.recorded"   // one finding of a stage
	KindWaiverRecorded    Kind = "waiver.recorded"    // a person let findings pass: which, why
	KindHandoffOverridden Kind = "handoff.overridden" // a person went on past a rejection
)

// Of delivery.
const (
	KindWorktreeCreated    Kind = "worktree.created"     // path, branch, base
	KindWorktreePrepared   Kind = "worktree.prepared"    // what was copied and linked there, and its ports
	KindSetupFinished      Kind = "setup.finished"       // the receipt of a command that has made it ready
	KindDiffRecorded       Kind = "diff.recorded"        // tree, patch digest, counts
	KindCheckFinished      Kind = "check.finished"       // a check's receipt, with the tree it ran on
	KindDeliveryCommitted  Kind = "delivery.committed"   // branch and commit
	KindDeliveryApplied    Kind = "delivery.applied"     // the patch is in the checkout
	KindDeliverySkipped    Kind = "delivery.skipped"     // by whose decision
	KindFollowupCreated    Kind = "followup.created"     // the child run, and the decision that made it
	KindFollowupFixedPoint Kind = "followup.fixed_point" // nothing changed since the parent's gate
)

// Of workers and their tasks.
const (
	KindWorkerStarted Kind = "worker.started" // a CLI was started: session, version, posture
	KindWorkerEvent   Kind = "worker.event"   // a raw line of it, skipped by replay
	KindWorkerEnded   Kind = "worker.ended"   // how it ended
	KindTaskStatus    Kind = "task.status"    // a task moved from one status to another
	KindTaskLog       Kind = "task.log"       // a worker's note on its task
	KindTaskOutput    Kind = "task.output"    // what a task brought forth
)

// Transient kinds. Events of these have no seq, are never stored, and reach only
// those who follow a run in the process that drives it.
const (
	KindAgentTextDelta Kind = "agent.text_delta" // what a model says while it says it: step, channel, offset, text
	KindToolProgress   Kind = "tool.progress"    // how far a call has come, as its server says: progress, total, message
)

// trait is what Tipstaff needs to know of a kind beyond its name.
type trait uint8

const (
	plain    trait = 0
	envelope trait = 1 << iota
	driving
	terminal
	transient
	opening // of a gate
	closing // of the gate it names
)

var kinds = map[Kind]trait{
	KindIntentDraft:       envelope,
	KindIntentCompiled:    envelope | driving,
	KindIntentClarify:     envelope | driving | opening,
	KindIntentAnswer:      envelope | driving | closing,
	KindIntentAccept:      envelope | driving | closing,
	KindPlanProposed:      envelope | driving,
	KindIntentCorrect:     envelope | driving,
	KindIntentDispatch:    envelope,
	KindIntentAttest:      envelope | driving | terminal,
	KindIntentFail:        envelope | driving | terminal,
	KindIntentCancel:      envelope | driving | terminal | closing,
	KindPolicyGate:        envelope | opening,
	KindPolicyGateResolve: envelope | closing,

	KindDraftUpdated: plain, KindRunLaunched: plain, KindRunQueued: plain, KindRunStarted: plain, KindRunResumed: plain,
	KindRunParked: plain, KindRunInterrupted: plain, KindRunCancelRequested: plain,
	KindRunCorrectionRequested: plain, KindRunForked: plain, KindRunContinued: plain,

	KindEffectIntended: plain, KindEffectFailed: plain, KindEffectSuspended: plain, KindEffectFinished: plain,
	KindEffectLate: plain, KindEffectLost: plain, KindEffectSent: plain, KindEffectGiven: plain, KindGateTaken: plain, KindGroupClosed: plain, KindTimerSet: plain,
	KindTimerFired: plain, KindClockRead: plain, KindBoundWarned: plain, KindBoundRefused: plain,
	KindBoundExtended: plain, KindBoundReserved: plain, KindBoundUsed: plain,

	KindPlanDrafted: plain, KindPlanStep: plain, KindPlanOutput: plain,

	KindStageStarted: plain, KindStageFinished: plain, KindStageRetrying: plain, KindStageSkipped: plain,
	KindTransition: plain, KindTurnMerged: plain, KindCheckpointCreated: plain,

	KindAgentStepStarted: plain, KindAgentMessage: plain, KindAgentRouterDecided: plain,
	KindAgentToolCallRequest: plain, KindAgentApprovalDecided: plain, KindAgentToolCallResult: plain,
	KindAgentFinish: plain, KindAgentError: plain,

	KindFindingRecorded: plain, KindWaiverRecorded: plain, KindHandoffOverridden: plain,

	KindWorktreeCreated: plain, KindWorktreePrepared: plain, KindSetupFinished: plain, KindDiffRecorded: plain, KindCheckFinished: plain,
	KindDeliveryCommitted: plain, KindDeliveryApplied: plain, KindDeliverySkipped: plain,
	KindFollowupCreated: plain, KindFollowupFixedPoint: plain,

	KindWorkerStarted: plain, KindWorkerEvent: plain, KindWorkerEnded: plain,
	KindTaskStatus: plain, KindTaskLog: plain, KindTaskOutput: plain,

	KindAgentTextDelta: transient, KindToolProgress: transient,
}

// KnownKind reports whether k is on the closed list of what a journal may hold.
func KnownKind(k Kind) bool { t, ok := kinds[k]; return ok && t&transient == 0 }

// Transient reports whether events of this kind are told and never stored.
func (k Kind) Transient() bool { return kinds[k]&transient != 0 }

// Envelope reports whether records of this kind are signed.
func (k Kind) Envelope() bool { return kinds[k]&envelope != 0 }

// Driving reports whether the kind moves a run from one state to another.
// intent.draft does not: it makes the run.
func (k Kind) Driving() bool { return kinds[k]&driving != 0 }

// Terminal reports whether nothing follows a record of this kind.
func (k Kind) Terminal() bool { return kinds[k]&terminal != 0 }

// OpensGate reports whether a record of this kind opens a gate.
func (k Kind) OpensGate() bool { return kinds[k]&opening != 0 }

// ClosesGate reports whether a record of this kind decides the gate that it names.
// Before acceptance an answer, an acceptance or a cancellation is the decision
// itself, and the last two may name none.
func (k Kind) ClosesGate() bool { return kinds[k]&closing != 0 }
