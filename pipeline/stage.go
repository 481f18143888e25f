package pipeline

import (
	"encoding/json"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Perform runs one attempt of one stage. Errors of flow that must be handed up
// (parked, cancelled, non-determinism, misuse) come back as they are, a refused
// bound as the *flow.Error that Do gave; every other failure is a [*StageError].
// It stands at the attempt's own path: critic#3, critic#3.2 for its second attempt.
type Perform func(flow.Context, Stage) (Result, error)

// Stage is one attempt as it is given to Perform. Templates have been filled in.
type Stage struct {
	Agent          *Agent
	Visit, Attempt int
	View           *Envelope // read-only; the newest 50 records of its history
	Budget         Budget
	Timeout        time.Duration // of the attempt
	AskBounds      bool          // a refused bound of the ledger opens a gate (flow.Call.Ask)

	// Of model stages: the prompt with the feedback at its end. The first model call
	// was paid for when the stage began: it must reserve neither model_calls nor
	// agent_hops.
	Prompt, System string
	Args           json.RawMessage // of tool stages: an object
	Input          json.RawMessage // of remote and plan stages
	Feedback       string          // carried by the edge that entered it; "": none
	Response       *Response       // what was answered, of a stage that goes on after its interrupt
}

// Budget is what is left to the run when a stage starts, by the ledger's names; a
// bound that is absent has no limit.
type Budget map[string]int64

// Result is what an attempt brings.
type Result struct {
	Output  map[string]any // values as in an Envelope
	Control *Control
	Usage   tipstaff.StageUsage
	Once    bool // it made an effect that must not be repeated
}

// StageError is why an attempt failed.
type StageError struct {
	Code      string `json:"code"`
	Message   string `json:"message"`
	Retryable bool   `json:"retryable,omitempty"`

	Once   bool                `json:"-"` // the attempt made an effect that must not be repeated
	Denied bool                `json:"-"` // policy or a person refused a call: policy_violation, if fatal
	Usage  tipstaff.StageUsage `json:"-"`
}

func (e *StageError) Error() string { return e.Code + ": " + e.Message }

// Control is what a stage says beside its output.
type Control struct {
	Interrupt      *InterruptRequest `json:"interrupt,omitempty"`
	Break          bool              `json:"break,omitempty"` // end now, well
	Feedback       string            `json:"feedback,omitempty"`
	SatisfiedGoals []string          `json:"satisfied_goals,omitempty"`
	Summary        string            `json:"summary,omitempty"`
	Metadata       map[string]any    `json:"metadata,omitempty"` // merged
}

// InterruptRequest asks a person.
type InterruptRequest struct {
	Kind       string         `json:"kind"` // clarification, confirmation or question
	Question   string         `json:"question,omitempty"`
	Message    string         `json:"message,omitempty"`
	Data       map[string]any `json:"data,omitempty"`
	TTLSeconds int64          `json:"ttl_seconds,omitempty"` // 0 is 24 h
}

// Response is the answer to an interrupt, as stages, rules and templates see it.
type Response struct {
	InterruptID string `json:"interrupt_id"`
	Kind        string `json:"kind"`
	Action      string `json:"action"`
	Approved    *bool  `json:"approved,omitempty"` // of a confirmation
	Text        string `json:"text,omitempty"`
	Data        any    `json:"data,omitempty"`
	Note        string `json:"note,omitempty"`
	By          string `json:"by,omitempty"`
}
