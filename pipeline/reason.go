package pipeline

import (
	"fmt"

	"github.com/tipstaff/tipstaff/document"
)

// reasons is the whole set: what each means for the run, and of a bound its name
// in documents.
var reasons = map[Reason]struct{ outcome, bound string }{
	ReasonCompleted: {OutcomeCompleted, ""},
	ReasonBreak:     {OutcomeCompleted, ""},

	ReasonIterations: {OutcomeBound, "max_iterations"},
	ReasonEdgeLimit:  {OutcomeBound, "edge_limits"},
	ReasonVisits:     {OutcomeBound, "max_visits"},
	ReasonHops:       {OutcomeBound, "max_agent_hops"},
	ReasonLLMCalls:   {OutcomeBound, "max_llm_calls"},
	ReasonToolCalls:  {OutcomeBound, "max_tool_calls"},
	ReasonTokens:     {OutcomeBound, "max_tokens"},
	ReasonCost:       {OutcomeBound, "max_cost_usd"},
	ReasonDeadline:   {OutcomeBound, "max_wall_seconds"},
	ReasonStages:     {OutcomeBound, "max_stages"},

	ReasonLLMFailed:   {OutcomeFailed, ""},
	ReasonToolFailed:  {OutcomeFailed, ""},
	ReasonStageFailed: {OutcomeFailed, ""},
	ReasonPolicy:      {OutcomeFailed, ""},
	ReasonDenied:      {OutcomeFailed, ""},
	ReasonDeadlock:    {OutcomeFailed, ""},
	ReasonInternal:    {OutcomeFailed, ""},

	ReasonCancelled:  {OutcomeCancelled, ""},
	ReasonHalted:     {OutcomeCancelled, ""},
	ReasonRolledBack: {OutcomeCancelled, ""},
}

// ParseReason is the reason of that name. A name that nobody knows is an error:
// what it would mean for the run is not to be guessed.
func ParseReason(name string) (Reason, error) {
	if r := Reason(name); r.Valid() {
		return r, nil
	}
	return "", fmt.Errorf("%q is no reason why a pipeline ends", document.Brief(name))
}

// Valid reports whether r is one of the set.
func (r Reason) Valid() bool {
	_, ok := reasons[r]
	return ok
}

// Outcome is what r means for the run; "" of what is no reason.
func (r Reason) Outcome() string { return reasons[r].outcome }

// Bound is the field of the document that set the bound; "" of other reasons.
func (r Reason) Bound() string { return reasons[r].bound }
