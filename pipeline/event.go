package pipeline

import (
	"encoding/json"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

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
	Stage      string `json:"stage"`
	Visit      int64  `json:"visit"`
	Outcome    string `json:"outcome"`  // success, error or cancelled
	Attempts   int64  `json:"attempts"` // 0: it was cut off before one had ended
	DurationMs int64  `json:"duration_ms"`
	Usage      Usage  `json:"usage"`

	OutputKey string          `json:"output_key,omitempty"`
	Output    json.RawMessage `json:"output,omitempty"`

	Code  string `json:"code,omitempty"`
	Error string `json:"error,omitempty"`
	Next  string `json:"next,omitempty"` // where a failure leads; "": nowhere
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

// Transition is the body of transition. N counts them, over rollbacks too.
type Transition struct {
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

// BoundRefused is the body of bound.refused, as the engine writes it too.
type BoundRefused struct {
	Bound   string `json:"bound"`
	Limit   int64  `json:"limit"`
	Used    int64  `json:"used"`
	Refused string `json:"refused"`
}

// FindingRecorded is the body of finding.recorded.
type FindingRecorded struct {
	Stage string `json:"stage"`
	Visit int64  `json:"visit"`
	Finding
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
func (x *executor) emitTransition(t Transition) {
	x.Transitions++
	t.N, t.Iteration, t.Epoch, t.Turn = x.Transitions, x.env.Iteration, x.env.Epoch, x.Turn
	x.emit(tipstaff.KindTransition, t)
}
