package runner

import (
	"cmp"
	"encoding/json"
	"errors"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/plan"
)

// stageError is a failure in the words of pipelines. What must be handed up as it is
// comes back so.
func stageError(err error) error {
	var own *pipeline.StageError
	var failed *flow.Error
	var ended *plan.Failure
	switch {
	case flow.Parked(err), errors.Is(err, flow.ErrCancelled), errors.As(err, &own):
		return err
	case errors.As(err, &ended):
		if ended.Reason == plan.ReasonBound {
			return &flow.Error{Code: flow.CodeBoundExceeded, Bound: ended.Bound, Message: ended.Message}
		}
		return &pipeline.StageError{Code: cmp.Or(ended.Code, ended.Reason), Message: ended.Message, Retryable: pipeline.Retryable(ended.Reason),
			Denied: ended.Reason == plan.ReasonPolicyDenied || ended.Reason == plan.ReasonGateDenied}
	case errors.As(err, &failed):
		if failed.Code == flow.CodeBoundExceeded || failed.Code == flow.CodeDeadline {
			return err
		}
		reason := plan.Reason(failed)
		return &pipeline.StageError{Code: failed.Code, Message: failed.Message, Retryable: failed.Retry || pipeline.Retryable(reason),
			Denied: reason == plan.ReasonPolicyDenied || reason == plan.ReasonGateDenied}
	}
	return err
}

// endingFailure is the end of a pipeline in the closed terms of the lifecycle.
func endingFailure(e *pipeline.Ending) *plan.Failure {
	f := &plan.Failure{Reason: plan.ReasonStepError, Code: e.Code, Message: e.Text, Path: e.Path}
	switch e.Reason {
	case tipstaff.TerminalToolFailed:
		f.Reason = plan.ReasonToolError
	case tipstaff.TerminalPolicy:
		f.Reason = plan.ReasonPolicyDenied
	case tipstaff.TerminalDenied:
		f.Reason = plan.ReasonGateDenied
	case tipstaff.TerminalDeadlock:
		f.Reason = "x:deadlock"
	case tipstaff.TerminalInternal:
		f.Reason = plan.ReasonInternal
	}
	if e.Outcome == tipstaff.OutcomeBound {
		f.Reason, f.Bound = plan.ReasonBound, e.Bound
	}
	return f
}

// pipelineEnd is what the envelope that ends a pipeline run says beside what those of
// other runs say.
func pipelineEnd(out flow.Outcome) tipstaff.Ending {
	reason, text := tipstaff.TerminalInternal, ""
	var res pipelineResult
	var e *pipeline.Ending
	switch {
	case out.Status == flow.Completed && json.Unmarshal(out.Value, &res) == nil:
		reason, text = res.TerminalReason, res.TerminationReason
	case errors.As(out.Err, &e):
		reason, text = e.Reason, e.Text
	case out.Status == flow.Cancelled: // by others than the executor, which says the same
		reason, text = tipstaff.TerminalCancelled, pipeline.TextCancelled
	case out.Err != nil:
		text = out.Err.Error()
	}
	text = tipstaff.Printable(text)
	return tipstaff.Ending{TerminalReason: string(reason), TerminationReason: &text}
}
