package tipstaff

import (
	"errors"
	"fmt"
	"strings"
)

// Code names a kind of error, the same on every surface. The list is closed.
type Code string

const (
	InvalidArgument     Code = "invalid_argument"
	InvalidProgram      Code = "invalid_program"
	CorrectionInvalid   Code = "correction_invalid"
	WorkspaceUnresolved Code = "workspace_not_resolved"
	CursorBeyondHead    Code = "cursor_beyond_head"
	RunNotFound         Code = "run_not_found"
	RunEnded            Code = "run_ended"
	ArtifactNotFound    Code = "artifact_not_found"
	Busy                Code = "busy"
	SessionBusy         Code = "session_busy"      // a turn or an invocation of the session has not ended
	SessionUnknown      Code = "session_unknown"   // there is no such session
	SessionMismatch     Code = "session_mismatch"  // it is of another worker
	SessionElsewhere    Code = "session_elsewhere" // its files are on another host
	SessionIsClosed     Code = "session_closed"    // its task has ended, or its CLI does not know it
	SessionConflict     Code = "session_conflict"  // the CLI says that the id is in use
	SessionIsLost       Code = "session_lost"      // the CLI does not know it
	TaskNotFound        Code = "task_not_found"
	TaskTransition      Code = "task_transition"  // the task has no such move
	TaskConflict        Code = "task_conflict"    // it has changed since it was read
	TaskBusy            Code = "task_busy"        // a run is doing it
	ThreadBusy          Code = "thread_busy"      // a run of the thread has not ended
	VersionStale        Code = "version_stale"    // the draft has changed since it was read
	WrongState          Code = "wrong_state"      // the run is not in a state in which this can be done
	RequestConflict     Code = "request_conflict" // the same request id with other content
	HostConflict        Code = "host_conflict"    // hosts of one agent must agree on its effect class
	CheckpointNotFound  Code = "checkpoint_not_found"
	AgentNotFound       Code = "agent_not_found"
	PipelineNotFound    Code = "pipeline_not_found"
	QueueFull           Code = "queue_full"    // as many runs wait for their turn as may
	LimitReached        Code = "limit_reached" // more than a server takes: a message, an Envelope, streams
	LeaseLost           Code = "lease_lost"
	GateNotFound        Code = "gate_not_found"
	GateClosed          Code = "gate_closed"
	GateExpired         Code = "gate_expired"
	ActionNotOffered    Code = "action_not_offered"
	FeedbackRequired    Code = "feedback_required"
	FeedbackNotAllowed  Code = "feedback_not_allowed"
	SubjectChanged      Code = "subject_changed"
	DecisionConflict    Code = "decision_conflict"
	Unauthenticated     Code = "unauthenticated" // no token, or one that the server does not know
	Forbidden           Code = "forbidden"
	InspectOnly         Code = "inspect_only"
	OwnRun              Code = "own_run"
	WorkspaceUntrusted  Code = "workspace_untrusted" // its user has not said that what it would start may be started
	StateUnavailable    Code = "state_unavailable"   // there is no folder for what is kept for a user
	Stopping            Code = "shutting_down"       // the server is; nothing was decided
	CallCancelled       Code = "call_cancelled"      // by the caller
	DeadlineExceeded    Code = "deadline_exceeded"   // the caller's own
	StoreUnavailable    Code = "store_unavailable"
	StoreBusy           Code = "store_busy"
	StoreFull           Code = "store_full"
	StoreLost           Code = "store_lost" // its file was removed or replaced while it was open
	Integrity           Code = "integrity"  // the journal is not what was written
	FormatNewer         Code = "format_newer"
	ReplayMismatch      Code = "replay_mismatch"
	NotAGitRepository   Code = "not_a_git_repository"
	NoCommits           Code = "no_commits"           // of a repository
	ObeyedFilesChanged  Code = "obeyed_files_changed" // apply has to be told to change what runs and programs obey
	ActionBlocked       Code = "action_blocked"       // the gate offers it, but something stands in its way
	PathOutside         Code = "path_outside_workspace"
	CapacityReached     Code = "capacity_reached" // as many runs have processes of their own as may
	ProjectBusy         Code = "project_busy"     // another run works in the checkout
	SpawnFailed         Code = "spawn_failed"
	UnsupportedPlatform Code = "unsupported_platform"
	WrongGateKind       Code = "wrong_gate_kind"
	TooManyWatchers     Code = "too_many_watchers"
	Refused             Code = "refused" // preflight: pin, lock, environment; Details say which
	Internal            Code = "internal"

	// Of workers, before anything was started.
	WorkerNotFound            Code = "worker_unknown"
	WorkerUnavailable         Code = "worker_unavailable"          // its CLI is not installed, or does not run
	WorkerUnsupportedVersion  Code = "worker_unsupported_version"  // its CLI is too old
	WorkerDirectory           Code = "worker_directory"            // it may not work there
	WorkerSettings            Code = "worker_settings"             // its CLI cannot be told to leave alone what configures it there
	WorkerSandboxRequired     Code = "worker_sandbox_required"     // posture bypass, and nobody states a sandbox
	WorkerPolicyInexpressible Code = "worker_policy_inexpressible" // its CLI cannot be told the policy
	WorkerContainment         Code = "worker_containment"          // its processes cannot be contained as asked
	ResumeUnsupported         Code = "resume_unsupported"          // its CLI cannot go on with a session
)

// Error is the one error of every surface: what happened, and what to do.
type Error struct {
	Code     Code      `json:"code"`
	Message  string    `json:"message"`            // what happened, to what
	Hint     string    `json:"hint,omitempty"`     // what to do about it, wherever one is; may be empty
	Command  string    `json:"command,omitempty"`  // the same for people at the command line: it may name commands, options and files
	Run      ID        `json:"run_id,omitzero"`    // the run it concerns, if any
	Problems []Problem `json:"problems,omitempty"` // of invalid documents
	// Details say more of some codes, by name.
	Details map[string]string `json:"details,omitempty"`
	Err     error             `json:"-"` // the cause; its text is not for clients
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Message)
	if b.Len() == 0 {
		b.WriteString(string(e.Code))
	}
	if e.Err != nil && e.Code == Internal {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Is matches errors by code, so that errors.Is(err, &Error{Code: Busy}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Message == "" && t.Err == nil
}

// Errorf makes an error with a code.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithHint returns e with advice for the person who reads it.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// WithCommand returns e with advice for people at the command line of this machine.
func (e *Error) WithCommand(format string, args ...any) *Error {
	e.Command = fmt.Sprintf(format, args...)
	return e
}

// Advice is all that a person at the command line should know about what to do.
func (e *Error) Advice() string {
	if e.Hint != "" && e.Command != "" {
		return e.Hint + "; " + e.Command
	}
	return e.Hint + e.Command
}

// CodeOf is the code of err: internal if it has none, "" if err is nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return Internal
}
