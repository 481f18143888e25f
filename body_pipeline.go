package tipstaff

import (
	"encoding/json"
)

// Bodies of the records of pipelines.

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
	LostUSD   USD   `json:"lost_usd,omitempty"` // of that, what was reserved for attempts that told nothing of their cost
}

// Plus is what both have used.
func (u StageUsage) Plus(more StageUsage) StageUsage {
	return StageUsage{LLMCalls: u.LLMCalls + more.LLMCalls, ToolCalls: u.ToolCalls + more.ToolCalls, Hops: u.Hops + more.Hops,
		TokensIn: u.TokensIn + more.TokensIn, TokensOut: u.TokensOut + more.TokensOut, CostUSD: u.CostUSD + more.CostUSD, LostUSD: u.LostUSD + more.LostUSD}
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

	// Of one that gives a boundary a name:
	EnvelopeID string   `json:"envelope_id,omitempty"`
	ThreadID   string   `json:"thread_id,omitempty"`
	Labels     []string `json:"labels,omitempty"`
	By         string   `json:"by,omitempty"`
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
