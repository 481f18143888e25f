package pipeline

import "github.com/tipstaff/tipstaff/flow"

// Reason is why a pipeline ended. The set is closed: an unknown one is an error,
// never a completion.
type Reason string

const (
	ReasonCompleted Reason = "completed"
	ReasonBreak     Reason = "break_requested"

	ReasonIterations Reason = "max_iterations_exceeded"
	ReasonEdgeLimit  Reason = "edge_limit_exceeded"
	ReasonVisits     Reason = "max_stage_visits_exceeded"
	ReasonHops       Reason = "max_agent_hops_exceeded"
	ReasonLLMCalls   Reason = "max_llm_calls_exceeded"
	ReasonToolCalls  Reason = "max_tool_calls_exceeded"
	ReasonTokens     Reason = "max_tokens_exceeded"
	ReasonCost       Reason = "max_cost_exceeded"
	ReasonDeadline   Reason = "deadline_exceeded"
	ReasonStages     Reason = "max_stages_exceeded"

	ReasonLLMFailed   Reason = "llm_failed_fatally"
	ReasonToolFailed  Reason = "tool_failed_fatally"
	ReasonStageFailed Reason = "stage_failed_fatally"
	ReasonPolicy      Reason = "policy_violation"
	ReasonDenied      Reason = "gate_denied"
	ReasonDeadlock    Reason = "deadlock"
	ReasonInternal    Reason = "internal_error"

	ReasonCancelled  Reason = "user_cancelled"
	ReasonHalted     Reason = "halted"
	ReasonRolledBack Reason = "rolled_back"
)

// Outcomes of a pipeline.
const (
	OutcomeCompleted = "completed"
	OutcomeBound     = "bound_exceeded"
	OutcomeFailed    = "failed"
	OutcomeCancelled = "cancelled"
)

// Ending is the error with which Execute returns a pipeline that did not complete.
// The Envelope beside it says the same.
type Ending struct {
	Reason  Reason
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
