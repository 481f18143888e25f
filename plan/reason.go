package plan

import (
	"errors"
	"slices"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Reasons why a run fails, a closed set beside x:<name>. The particular error
// is the code; many codes have one reason.
const (
	ReasonPlanInvalid     = "plan_invalid"
	ReasonAmbiguous       = "ambiguous_after_clarify"
	ReasonConstraint      = "blocked_by_constraint"
	ReasonPolicyDenied    = "policy_denied"
	ReasonToolError       = "tool_error"
	ReasonToolUnavailable = "tool_unavailable"
	ReasonTimeout         = "timeout"
	ReasonDeadline        = "deadline_exceeded"
	ReasonBound           = "bound_exceeded"
	ReasonStepError       = "step_error"
	ReasonOutputInvalid   = "output_invalid"
	ReasonFactualError    = "factual_error"
	ReasonWrongAssumption = "wrong_assumption"
	ReasonGateDenied      = "gate_denied"
	ReasonSubagent        = "subagent_failed"
	ReasonInDoubt         = "in_doubt"
	ReasonInternal        = "internal"
)

var reasons = []string{
	ReasonPlanInvalid, ReasonAmbiguous, ReasonConstraint, ReasonPolicyDenied, ReasonToolError, ReasonToolUnavailable,
	ReasonTimeout, ReasonDeadline, ReasonBound, ReasonStepError, ReasonOutputInvalid, ReasonFactualError,
	ReasonWrongAssumption, ReasonGateDenied, ReasonSubagent, ReasonInDoubt, ReasonInternal,
}

// codeApprovalDenied is the refusal that a person gave.
const codeApprovalDenied = "approval_denied"

// refusals are the codes of calls that were not allowed to be made.
var refusals = []string{
	"undeclared_tool", "unknown_tool",
	"pin_mismatch", "unlocked_tool", "definition_changed", "package_changed",
	document.CodeNumberUnsafe, "invalid_arguments", "unclean_path",
	"effect_denied", "guard_refused", "policy_denied", "program_changed",
	codeApprovalDenied,
}

// reasonOf are codes that are neither a reason themselves nor a refusal.
var reasonOf = map[string]string{
	codeApprovalDenied:      ReasonGateDenied,
	codeRefUnresolved:       ReasonStepError,
	codeNotImplemented:      ReasonSubagent,
	"env_missing":           ReasonToolUnavailable,
	flow.CodeResultTooLarge: ReasonOutputInvalid,
	flow.CodeHistoryTooLong: ReasonInternal,

	// Of agents: an answer that is none, or not all of one.
	"model_output_truncated": ReasonOutputInvalid,
	"empty_response":         ReasonOutputInvalid,
}

// Reason is the reason of an error, by its type and code alone. What has none
// that anybody knows is internal, or tool_error if the tool itself answered so.
func Reason(err error) string {
	var f *Failure
	if errors.As(err, &f) {
		return f.Reason
	}
	var l *leafError
	if errors.As(err, &l) {
		return l.reason
	}
	var e *flow.Error
	if !errors.As(err, &e) {
		return ReasonInternal
	}
	switch {
	case reasonOf[e.Code] != "":
		return reasonOf[e.Code]
	case slices.Contains(reasons, e.Code) || document.IsExtension(e.Code):
		return e.Code
	case slices.Contains(refusals, e.Code):
		return ReasonPolicyDenied
	case e.Answered:
		return ReasonToolError
	}
	return ReasonInternal
}

// validFailReason reports whether a gate may name this as its reason.
func validFailReason(s string) bool {
	return slices.Contains(reasons, s) || document.IsExtension(s)
}
