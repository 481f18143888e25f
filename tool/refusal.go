package tool

import (
	"fmt"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/workspace"
)

// Codes of refusals by the gate. Nothing was sent.
const (
	CodeUndeclared        = "undeclared_tool"
	CodeUnknown           = "unknown_tool"
	CodePinMismatch       = "pin_mismatch"
	CodeUnlocked          = "unlocked_tool"
	CodeDefinitionChanged = "definition_changed"
	CodePackageChanged    = "package_changed"
	CodeEnvMissing        = workspace.CodeEnvMissing
	CodeNumberUnsafe      = "number_unsafe"
	CodeInvalidArguments  = "invalid_arguments"
	CodeUncleanPath       = builtin.CodeUncleanPath
	CodeProgramChanged    = builtin.CodeProgramChanged
	CodeEffectDenied      = "effect_denied"
	CodeGuardRefused      = "guard_refused"
	CodePolicyDenied      = "policy_denied"
)

// Codes of calls that were let through and failed.
const (
	CodeToolError     = "tool_error"       // the tool ran and reported an error
	CodeUnavailable   = "tool_unavailable" // the server could not be reached, or was lost
	CodeOutputInvalid = "output_invalid"   // the reply cannot be used
	CodePanic         = "panic"            // what makes the call panicked
	CodeKilled        = "killed"           // ended because its run was cancelled or its group failed
)

// detail is what a failure says for machines.
type detail map[string]any

// refusal is an error of the gate.
func refusal(code string, d detail, format string, args ...any) *flow.Error {
	e := &flow.Error{Code: code, Message: fmt.Sprintf(format, args...), NotSent: true}
	if d != nil {
		e.Detail = flow.JSON(d)
	}
	return e
}
