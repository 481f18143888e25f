package tipstaff

import (
	"fmt"
	"maps"
	"slices"
)

// TerminalReason is why a pipeline ended. The set is closed: an unknown one is an
// error, never a completion.
type TerminalReason string

// The reasons, by outcome.
const (
	TerminalCompleted TerminalReason = "completed"
	TerminalBreak     TerminalReason = "break_requested"

	TerminalIterations TerminalReason = "max_iterations_exceeded"
	TerminalEdgeLimit  TerminalReason = "edge_limit_exceeded"
	TerminalVisits     TerminalReason = "max_stage_visits_exceeded"
	TerminalHops       TerminalReason = "max_agent_hops_exceeded"
	TerminalLLMCalls   TerminalReason = "max_llm_calls_exceeded"
	TerminalToolCalls  TerminalReason = "max_tool_calls_exceeded"
	TerminalTokens     TerminalReason = "max_tokens_exceeded"
	TerminalCost       TerminalReason = "max_cost_exceeded"
	TerminalDeadline   TerminalReason = "deadline_exceeded"
	TerminalStages     TerminalReason = "max_stages_exceeded"

	TerminalLLMFailed   TerminalReason = "llm_failed_fatally"
	TerminalToolFailed  TerminalReason = "tool_failed_fatally"
	TerminalStageFailed TerminalReason = "stage_failed_fatally"
	TerminalPolicy      TerminalReason = "policy_violation"
	TerminalDenied      TerminalReason = "gate_denied"
	TerminalDeadlock    TerminalReason = "deadlock"
	TerminalInternal    TerminalReason = "internal_error"

	TerminalCancelled  TerminalReason = "user_cancelled"
	TerminalHalted     TerminalReason = "halted"
	TerminalRolledBack TerminalReason = "rolled_back"
)

// Outcomes of a pipeline.
const (
	OutcomeCompleted = "completed"
	OutcomeBound     = "bound_exceeded"
	OutcomeFailed    = "failed"
	OutcomeCancelled = "cancelled"
)

// terminalReasons is the whole set: what each means for the run, and of a bound its
// name in documents.
var terminalReasons = map[TerminalReason]struct{ outcome, bound string }{
	TerminalCompleted: {OutcomeCompleted, ""},
	TerminalBreak:     {OutcomeCompleted, ""},

	TerminalIterations: {OutcomeBound, "max_iterations"},
	TerminalEdgeLimit:  {OutcomeBound, "edge_limits"},
	TerminalVisits:     {OutcomeBound, "max_visits"},
	TerminalHops:       {OutcomeBound, "max_agent_hops"},
	TerminalLLMCalls:   {OutcomeBound, "max_llm_calls"},
	TerminalToolCalls:  {OutcomeBound, "max_tool_calls"},
	TerminalTokens:     {OutcomeBound, "max_tokens"},
	TerminalCost:       {OutcomeBound, "max_cost_usd"},
	TerminalDeadline:   {OutcomeBound, "max_wall_seconds"},
	TerminalStages:     {OutcomeBound, "max_stages"},

	TerminalLLMFailed:   {OutcomeFailed, ""},
	TerminalToolFailed:  {OutcomeFailed, ""},
	TerminalStageFailed: {OutcomeFailed, ""},
	TerminalPolicy:      {OutcomeFailed, ""},
	TerminalDenied:      {OutcomeFailed, ""},
	TerminalDeadlock:    {OutcomeFailed, ""},
	TerminalInternal:    {OutcomeFailed, ""},

	TerminalCancelled:  {OutcomeCancelled, ""},
	TerminalHalted:     {OutcomeCancelled, ""},
	TerminalRolledBack: {OutcomeCancelled, ""},
}

// TerminalReasons are all of them, sorted.
func TerminalReasons() []TerminalReason { return slices.Sorted(maps.Keys(terminalReasons)) }

// Check returns an error for what is not one of the set: its meaning for the run is
// not to be guessed.
func (r TerminalReason) Check() error {
	if _, ok := terminalReasons[r]; !ok {
		return fmt.Errorf("%.60q is no reason why a pipeline ends", r)
	}
	return nil
}

// Outcome is what r means for the run; "" of what is no reason.
func (r TerminalReason) Outcome() string { return terminalReasons[r].outcome }

// Bound is the field of the document that set the bound; "" of other reasons.
func (r TerminalReason) Bound() string { return terminalReasons[r].bound }
