package tipstaff

import "slices"

// InspectOnlyControlError refuses to drive a run whose process is somebody else's: it can be
// looked at, and decided.
type InspectOnlyControlError struct {
	Control, Reason string // inspect_only, and why
	Attempted       string // the tool
	Err             *Error // what surfaces tell of it
}

// InspectOnlyControl is the refusal of a tool.
func InspectOnlyControl(run ID, reason, attempted string) *InspectOnlyControlError {
	what := "a person's own process drives it"
	switch reason {
	case DaemonRun:
		what = "a daemon drives it"
	case OtherWorkspace:
		what = "it belongs to another workspace"
	}
	return &InspectOnlyControlError{Control: InspectAlone, Reason: reason, Attempted: attempted, Err: &Error{
		Code: InspectOnly, Run: run, Message: "run " + run.String() + " can be inspected, not driven from here: " + what,
		Hint:    "look at it and decide its gates; whoever started it drives it on",
		Details: map[string]string{"control": InspectAlone, "control_reason": reason, "attempted": attempted},
	}}
}

func (e *InspectOnlyControlError) Error() string { return e.Err.Error() }
func (e *InspectOnlyControlError) Unwrap() error { return e.Err }

// Retryable reports whether the same request may succeed later, as it is.
func (e *Error) Retryable() bool {
	return slices.Contains([]Code{Busy, SessionBusy, ThreadBusy, TaskBusy, QueueFull, LimitReached, CapacityReached, ProjectBusy, TooManyWatchers,
		StoreBusy, StoreUnavailable, StoreFull, Stopping, DeadlineExceeded}, e.Code)
}

// Next is what its caller can do about an error with the run that it concerns.
func (e *Error) Next() []NextCall {
	next := []NextCall{}
	if e.Run.IsZero() {
		return next
	}
	switch e.Code {
	case Forbidden: // another user's run, or a scope is missing
		if e.Details["scope"] == ScopeDecide {
			next = append(next, readyCall(ToolRunStatus, "see who decides", map[string]any{"run_id": e.Run}))
		}
	case InspectOnly:
		next = append(next, readyCall(ToolRunStatus, "see where it stands", map[string]any{"run_id": e.Run}),
			readyCall(ToolRunEvidence, "see what went wrong", map[string]any{"run_id": e.Run, "slice": SliceErrors}))
	case OwnRun, RunEnded, WrongState, CursorBeyondHead, GateNotFound, WrongGateKind, GateClosed, GateExpired, ActionNotOffered, ActionBlocked, ObeyedFilesChanged,
		FeedbackRequired, FeedbackNotAllowed, SubjectChanged, DecisionConflict, SpawnFailed:
		next = append(next, readyCall(ToolRunStatus, "see where it stands", map[string]any{"run_id": e.Run}))
	}
	return next
}
