package tipstaff

import (
	"encoding/json"
	"time"

	"github.com/tipstaff/tipstaff/flow"
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
	GateOpened         = flow.GateOpened
	GateResolved       = flow.GateResolved
	GateTaken          = flow.GateTaken
	GroupClosed        = flow.GroupClosed
	BoundWarned        = flow.BoundWarned
	BoundRefused       = flow.BoundRefused
	BoundExtended      = flow.BoundExtended
	BoundReserved      = flow.BoundReserved
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

	Pipeline *PipelineStatus `json:"pipeline,omitempty"`
	Rollback json.RawMessage `json:"rollback,omitempty"` // of a run that goes back, or forks off: what it takes over
	Hold     bool            `json:"hold,omitempty"`     // it is a draft until it is started

	Parent *RunParent `json:"parent,omitempty"`
	ForkOf *ForkPoint `json:"fork_of,omitempty"`
}

// RunKeys are the public keys with which the envelopes of a run are signed.
type RunKeys struct {
	User     string `json:"user"`
	Executor string `json:"executor"`
}

// RunParent is the run that a run comes from.
type RunParent struct {
	Run      string `json:"run"`
	Relation string `json:"relation"`
}

// ForkPoint is the last record that a fork inherits.
type ForkPoint struct {
	Run  string `json:"run"`
	Seq  int64  `json:"seq"`
	Hash string `json:"hash"`
}

// IntentCompiled is the body of intent.compiled.
type IntentCompiled struct {
	Intent        json.RawMessage `json:"intent,omitempty"`
	IntentHash    string          `json:"intent_hash,omitempty"`
	ProgramDigest string          `json:"program_digest,omitempty"`
	Model         string          `json:"model,omitempty"`
	Attempts      int             `json:"attempts"`
}

// IntentClarify is the body of intent.clarify.
type IntentClarify struct {
	Gate      string            `json:"gate"`
	Round     int               `json:"round"`
	Questions []ClarifyQuestion `json:"questions"`
}

// IntentAnswer is the body of intent.answer.
type IntentAnswer struct {
	Gate       string          `json:"gate"`
	Answers    json.RawMessage `json:"answers"`
	Via        string          `json:"via"`
	Note       string          `json:"note,omitempty"`
	DecidedBy  string          `json:"decided_by,omitempty"`
	OnBehalfOf string          `json:"on_behalf_of,omitempty"`
}

// IntentAccept is the body of intent.accept.
type IntentAccept struct {
	Terms
	Revision   int    `json:"revision"`
	Bounds     Bounds `json:"bounds"`
	Via        string `json:"via"`
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

// DraftUpdated is the body of draft.updated: what changed, and where the draft stands
// then.
type DraftUpdated struct {
	Version int64           `json:"version"`
	Changed []string        `json:"changed"`
	Value   json.RawMessage `json:"value,omitempty"` // a change; it may be large
	Used    flow.Use        `json:"used,omitempty"`  // of the ledger, so far; nil: as before
	By      string          `json:"by"`

	// Another program, which takes the place of the draft's when it is started.
	ProgramDigest string            `json:"program_digest,omitempty"`
	Bounds        Bounds            `json:"bounds,omitempty"`
	Frozen        map[string]string `json:"frozen,omitempty"`
	Asks          string            `json:"asks,omitempty"`

	// The thread that it is started in, if that is another than it was made for.
	Thread string `json:"thread_id,omitempty"`

	// A single agent works on the draft, or has done so: a run of its own.
	Locked   string `json:"locked,omitempty"`
	Unlocked string `json:"unlocked,omitempty"`
}

// EffectLate is the body of effect.late: what came when the call had its answer, or
// had been given up. It is not used, but a person who decides about a call in doubt
// can see it.
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
	Noop         bool       `json:"noop,omitempty"`
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

// StageStarted is the body of stage.started. ReleasedBy names the stages whose
// completion let it start; nil: a transition led to it.
type StageStarted struct {
	Stage      string   `json:"stage"`
	Visit      int64    `json:"visit"`
	Attempt    int64    `json:"attempt"`
	Turn       int64    `json:"turn"`
	ReleasedBy []string `json:"released_by,omitempty"`
}

// StageFinished is the body of stage.finished. A stage whose rules cannot be
// evaluated has succeeded first, and then a second one with the error.
type StageFinished struct {
	Stage      string     `json:"stage"`
	Visit      int64      `json:"visit"`
	Outcome    string     `json:"outcome"`  // success, error or cancelled
	Attempts   int64      `json:"attempts"` // 0: it was cut off before one had ended
	DurationMs int64      `json:"duration_ms"`
	Usage      StageUsage `json:"usage"`

	OutputKey string          `json:"output_key,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`

	Code  string `json:"code,omitempty"`
	Error string `json:"error,omitempty"`
	Next  string `json:"next,omitempty"` // where a failure leads; "": nowhere
}

// StageUsage is what a stage has used.
type StageUsage struct {
	LLMCalls  int64 `json:"llm_calls,omitempty"`
	ToolCalls int64 `json:"tool_calls,omitempty"`
	Hops      int64 `json:"agent_hops,omitempty"` // of step nodes of a plan stage
	TokensIn  int64 `json:"tokens_in,omitempty"`
	TokensOut int64 `json:"tokens_out,omitempty"`
	CostUSD   USD   `json:"cost_usd,omitempty"`
}

// StageRetrying is the body of stage.retrying.
type StageRetrying struct {
	Stage       string `json:"stage"`
	Visit       int64  `json:"visit"`
	NextAttempt int64  `json:"next_attempt"`
	DelayMs     int64  `json:"delay_ms"`
	Code        string `json:"code"`
	Error       string `json:"error,omitempty"`
}

// StageSkipped is the body of stage.skipped.
type StageSkipped struct {
	Stage string   `json:"stage"`
	Unmet []string `json:"unmet"`
}

// Transitioned is the body of transition. N counts them, over rollbacks too.
type Transitioned struct {
	N          int64  `json:"n"`
	From       string `json:"from"`
	To         string `json:"to"`
	Reason     string `json:"reason"`
	Iteration  int64  `json:"iteration"`
	Epoch      int64  `json:"epoch"`
	Turn       int64  `json:"turn"`
	Rule       int    `json:"rule,omitempty"`       // the number of the rule, from 1
	EdgeCount  int64  `json:"edge_count,omitempty"` // how often the edge was taken, this time included
	Checkpoint string `json:"checkpoint,omitempty"`
	By         string `json:"by,omitempty"`   // of a rollback: who
	Left       string `json:"left,omitempty"` // of a rollback: the run that was left
}

// Reasons of transitions.
const (
	TransitionStart     = "start"
	TransitionEdge      = "edge_limit" // refused, like the next two: To is what was refused
	TransitionVisit     = "visit_limit"
	TransitionIteration = "iteration_limit"
	TransitionError     = "error"
	TransitionInterrupt = "interrupt"
	TransitionComplete  = "complete"
	TransitionNextStage = "next_stage" // a cycle edge that began a round
	TransitionReintent  = "reintent"   // any other cycle edge
	TransitionRouting   = "routing"
	TransitionDefault   = "default"
	TransitionResume    = "resume"
	TransitionRollback  = "rollback"
)

// Back reports whether the transition leads back, over an edge that counts as an
// iteration.
func (t Transitioned) Back() bool {
	return t.Reason == TransitionReintent || t.Reason == TransitionNextStage
}

// Refused reports whether a limit stood in the way.
func (t Transitioned) Refused() bool {
	return t.Reason == TransitionEdge || t.Reason == TransitionVisit || t.Reason == TransitionIteration
}

// TurnMerged is the body of turn.merged: a boundary.
type TurnMerged struct {
	Turn        int64         `json:"turn"`
	Digest      string        `json:"digest"`
	Version     int64         `json:"version"`      // of the Envelope
	StageNumber int64         `json:"stage_number"` // of the round that it is in
	Overwritten []Overwritten `json:"overwritten,omitempty"`
}

// Overwritten is a value of the metadata that one stage of a batch wrote and a later
// one of it replaced.
type Overwritten struct {
	Key   string          `json:"key"`
	Stage string          `json:"stage"`
	Value json.RawMessage `json:"value"`
}

// CheckpointCreated is the body of checkpoint.created.
type CheckpointCreated struct {
	ID        string `json:"id"`
	Stage     string `json:"stage"`
	Turn      int64  `json:"turn"`
	Iteration int64  `json:"iteration"`
	Epoch     int64  `json:"epoch"`
	ParentID  string `json:"parent_id"`
	Digest    string `json:"digest"`
	Automatic bool   `json:"automatic"`
	SizeBytes int    `json:"size_bytes"` // of the data: input, metadata and slots
}

// StageFinding is something a stage with a handoff objects to.
type StageFinding struct {
	ID          string `json:"id"` // the visit and the number of the finding in it
	Severity    string `json:"severity,omitempty"`
	Title       string `json:"title,omitempty"`
	Body        string `json:"body,omitempty"`
	RequiredFix string `json:"required_fix,omitempty"`
	File        string `json:"file,omitempty"`
	Line        int64  `json:"line,omitempty"`
}

// FindingRecorded is the body of finding.recorded.
type FindingRecorded struct {
	Stage string `json:"stage"`
	Visit int64  `json:"visit"`
	StageFinding
}

// Waiver is a person's decision to let findings pass.
type Waiver struct {
	Stage      string   `json:"stage"`
	Visit      int64    `json:"visit"`
	FindingIDs []string `json:"finding_ids"`
	Reason     string   `json:"reason"`
	Actor      string   `json:"actor"`
}

// WaiverRecorded is the body of waiver.recorded.
type WaiverRecorded struct {
	Waiver
	Gate string `json:"gate"`
}

// HandoffOverridden is the body of handoff.overridden.
type HandoffOverridden struct {
	Stage  string `json:"stage"`
	Visit  int64  `json:"visit"`
	Gate   string `json:"gate"`
	Action string `json:"action"`
	Actor  string `json:"actor"`
	Note   string `json:"note,omitempty"`
}

// ModelUsage is what a model call used, as the vendor counts it.
type ModelUsage struct {
	InputTokens      int64 `json:"input_tokens"` // cached ones included
	OutputTokens     int64 `json:"output_tokens"`
	CacheReadTokens  int64 `json:"cache_read_tokens"`
	CacheWriteTokens int64 `json:"cache_write_tokens"`
	ReasoningTokens  int64 `json:"reasoning_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
	CostUSD          *USD  `json:"cost_usd"` // nil: the price is not known
}

// Add sums up. What costs an unknown amount makes the sum unknown.
func (u *ModelUsage) Add(v *ModelUsage) {
	if v == nil {
		return
	}
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.CacheReadTokens += v.CacheReadTokens
	u.CacheWriteTokens += v.CacheWriteTokens
	u.ReasoningTokens += v.ReasoningTokens
	u.TotalTokens += v.TotalTokens
	if u.CostUSD == nil || v.CostUSD == nil {
		u.CostUSD = nil
		return
	}
	sum := *u.CostUSD + *v.CostUSD
	u.CostUSD = &sum
}

// AgentStepStarted is the body of agent.step_started: a model is about to be called.
type AgentStepStarted struct {
	Step           int      `json:"step"`
	Model          string   `json:"model"`
	Messages       int      `json:"messages"` // that are sent
	Tools          int      `json:"tools"`    // that are offered
	EstInputTokens int64    `json:"est_input_tokens"`
	Cut            AgentCut `json:"cut"`
}

// AgentCut is what was left out of a request so that it fits.
type AgentCut struct {
	Elided  int `json:"elided"`  // results of which a line was sent
	Dropped int `json:"dropped"` // messages that were not sent
}

// AgentTextDelta is the body of agent.text_delta: a piece of what a model says while
// it says it. Offset 0 begins the text of its channel anew; a gap means that deltas
// were lost.
type AgentTextDelta struct {
	Step    int    `json:"step"`
	Channel string `json:"channel"`
	Offset  int64  `json:"offset"` // in bytes
	Text    string `json:"text"`
}

// AgentMessage is the body of agent.message: what a model said in a step.
type AgentMessage struct {
	Step     int         `json:"step"`
	Text     string      `json:"text"`
	Reason   string      `json:"reason"`
	Calls    int         `json:"calls"`
	Usage    *ModelUsage `json:"usage"` // nil: not known
	Attempts int         `json:"attempts"`
	Model    string      `json:"model"` // that answered, as the vendor says
}

// AgentRouterDecided is the body of agent.router_decided: the tools that this turn
// offers were selected.
type AgentRouterDecided struct {
	Router   string      `json:"router"`
	Toolkits []string    `json:"toolkits"`
	Tools    int         `json:"tools"`
	Fallback string      `json:"fallback"` // why it is the whole catalog after all; "": it was selected
	Usage    *ModelUsage `json:"usage"`
}

// AgentToolCallRequest is the body of agent.tool_call_request: a tool call that a
// model asks for.
type AgentToolCallRequest struct {
	Step        int             `json:"step"`
	Index       int             `json:"index"` // from 1
	ID          string          `json:"id"`
	Name        string          `json:"name"`   // as offered
	Server      string          `json:"server"` // "": there is no such tool
	Tool        string          `json:"tool"`
	URI         string          `json:"uri"`
	Arguments   json.RawMessage `json:"arguments"`   // an object; {} where what came is none
	ArgsDigest  string          `json:"args_digest"` // of the canonical arguments; "": they do not fit
	Effect      flow.Class      `json:"effect"`
	Destructive bool            `json:"destructive"`
	OpenWorld   bool            `json:"open_world"`
	Facts       json.RawMessage `json:"facts"` // that guards found, an object

	// For approvers; no part of the event:
	Rule      string `json:"-"` // that asks
	Untrusted bool   `json:"-"` // an earlier result of the turn came from an open world
}

// Title is what the model wants to call, under the name that it has here.
func (b *AgentToolCallRequest) Title() string {
	if b.Server == "" {
		return b.Name
	}
	return b.Server + "/" + b.Tool
}

// AgentApprovalRequested is how agents tell of a gate that asks whether a call may be
// made. The record is the gate's own.
type AgentApprovalRequested struct {
	ID           string    `json:"id"` // of the call
	Gate         string    `json:"gate"`
	Rule         string    `json:"rule"`
	PolicyDigest string    `json:"policy_digest"`
	Actions      []string  `json:"actions"`
	ExpiresAt    time.Time `json:"expires_at,omitzero"`
}

// AgentApprovalDecided is the body of agent.approval_decided: a call that reached the
// policy was allowed or denied.
type AgentApprovalDecided struct {
	ID           string `json:"id"`       // of the call
	Decision     string `json:"decision"` // allow, allow_all, deny
	By           string `json:"by"`
	Rule         string `json:"rule"`
	PolicyDigest string `json:"policy_digest"`
	Gate         string `json:"gate"` // "": none was asked
	Reason       string `json:"reason"`
}

// AgentToolCallResult is the body of agent.tool_call_result: what a model was told of
// its call.
type AgentToolCallResult struct {
	ID         string `json:"id"`
	IsError    bool   `json:"is_error"`
	Class      string `json:"class"`   // of what went wrong; "": nothing
	Content    string `json:"content"` // its first 4 KiB
	Bytes      int64  `json:"bytes"`   // of the whole
	Ref        string `json:"ref"`     // digest of the whole
	DurationMS int64  `json:"duration_ms"`
	Untrusted  bool   `json:"untrusted"` // it came from an open world
}

// AgentFinish is the body of agent.finish: the turn ended with an answer.
type AgentFinish struct {
	Reason    string          `json:"reason"`
	Text      string          `json:"text"`
	Output    json.RawMessage `json:"output"` // with an output schema; null: there is none
	Usage     ModelUsage      `json:"usage"`  // of the turn, its router included
	Steps     int             `json:"steps"`
	ToolCalls int             `json:"tool_calls"` // that were made
}

// AgentError is the body of agent.error: the turn ended without an answer.
type AgentError struct {
	Code  string     `json:"code"`
	Msg   string     `json:"msg"`
	Which string     `json:"which"` // the bound, of bound_exceeded
	Usage ModelUsage `json:"usage"`
	Steps int        `json:"steps"`
}

// Kinds of what agents tell, by body.

func (*AgentStepStarted) Kind() Kind       { return KindAgentStepStarted }
func (*AgentTextDelta) Kind() Kind         { return KindAgentTextDelta }
func (*AgentMessage) Kind() Kind           { return KindAgentMessage }
func (*AgentRouterDecided) Kind() Kind     { return KindAgentRouterDecided }
func (*AgentToolCallRequest) Kind() Kind   { return KindAgentToolCallRequest }
func (*AgentApprovalRequested) Kind() Kind { return "agent.approval_requested" } // told, never recorded
func (*AgentApprovalDecided) Kind() Kind   { return KindAgentApprovalDecided }
func (*AgentToolCallResult) Kind() Kind    { return KindAgentToolCallResult }
func (*AgentFinish) Kind() Kind            { return KindAgentFinish }
func (*AgentError) Kind() Kind             { return KindAgentError }
