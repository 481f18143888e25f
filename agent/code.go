package agent

import (
	"errors"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Codes with which a turn ends, beside those of the calls that fail it.
const (
	CodeCancelled       = "cancelled"
	CodeContextOverflow = "context_overflow" // what must be sent does not fit the model
	CodePriceUnknown    = "price_unknown"    // there is a bound of cost, and nobody knows what the model costs
	CodeApproverFailed  = "approver_failed"  // who was to approve could not be asked
	CodeToolPanic       = "tool_panic"
	CodeOutputInvalid   = "output_invalid" // the answer does not fit the output schema
)

// Codes of answers that no run can end well with.
const (
	CodeOutputTruncated = "model_output_truncated"
	CodeModelRefused    = "model_refused"
	CodeEmptyResponse   = "empty_response"
)

// ConfigInvalid is the code of a configuration that no turn can be made with. Its
// Problems are all there are.
const ConfigInvalid tipstaff.Code = "config_invalid"

// Classes of results that never reached a tool, or did not come back. Others are
// the codes of package tool.
const (
	ClassNotOffered     = "not_offered"     // the router did not select it for this turn
	ClassApprovalDenied = "approval_denied" // a person said no, or nobody said anything in time
	ClassStepLimit      = "step_limit"      // the turn may take no more steps
	ClassCutOff         = "cut_off"         // the message that asks for it broke off
	ClassNotExecuted    = "not_executed"    // the turn ended before it came to this
	ClassCancelled      = "cancelled"
	ClassInDoubt        = flow.CodeInDoubt // it was sent, and nobody knows what became of it
	ClassPanic          = "panic"          // what performs calls panicked
)

// BoundSteps is the bound of a turn that Settings.MaxSteps sets.
const BoundSteps = "steps"

// ErrMaxSteps: the turn needed more steps than it may take.
var ErrMaxSteps = errors.New("agent: the turn may take no more steps")

// stepsExceeded is the failure that matches ErrMaxSteps.
type stepsExceeded struct{ failure *flow.Error }

func (e *stepsExceeded) Error() string        { return e.failure.Error() }
func (e *stepsExceeded) Unwrap() error        { return e.failure }
func (e *stepsExceeded) Is(target error) bool { return target == ErrMaxSteps }

// Failure is why a run cannot end well with this answer; nil if it can. The turn has
// finished all the same. It is a *flow.Error.
func (o Output) Failure() error {
	switch {
	case o.Reason == ReasonLength:
		return &flow.Error{Code: CodeOutputTruncated, Message: "the model's answer broke off at the most tokens that it may have", Answered: true}
	case o.Reason == ReasonContentFilter:
		return &flow.Error{Code: CodeModelRefused, Message: "the model, or a filter of its vendor, refused to answer", Answered: true}
	case isBlank(o.Text):
		return &flow.Error{Code: CodeEmptyResponse, Message: "the model answered nothing", Answered: true}
	}
	return nil
}
