package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipstaff/tipstaff"
)

// errStopping is what everybody is told while the server goes down.
var errStopping = tipstaff.Errorf(tipstaff.Stopping, "the server is shutting down: come back")

// statusOf says how an error looks here. A code that is not in it is INTERNAL.
var statusOf = map[tipstaff.Code]codes.Code{
	tipstaff.InvalidArgument:     codes.InvalidArgument,
	tipstaff.InvalidProgram:      codes.InvalidArgument,
	tipstaff.CorrectionInvalid:   codes.InvalidArgument,
	tipstaff.WorkspaceUnresolved: codes.InvalidArgument,
	tipstaff.CursorBeyondHead:    codes.InvalidArgument,
	tipstaff.ActionNotOffered:    codes.InvalidArgument,
	tipstaff.FeedbackRequired:    codes.InvalidArgument,
	tipstaff.FeedbackNotAllowed:  codes.InvalidArgument,

	tipstaff.Unauthenticated:    codes.Unauthenticated,
	tipstaff.Forbidden:          codes.PermissionDenied,
	tipstaff.OwnRun:             codes.PermissionDenied,
	tipstaff.WorkspaceUntrusted: codes.PermissionDenied,

	tipstaff.RunNotFound:        codes.NotFound,
	tipstaff.ArtifactNotFound:   codes.NotFound,
	tipstaff.CheckpointNotFound: codes.NotFound,
	tipstaff.AgentNotFound:      codes.NotFound,
	tipstaff.PipelineNotFound:   codes.NotFound,
	tipstaff.GateNotFound:       codes.NotFound,
	tipstaff.WorkerNotFound:     codes.NotFound,
	tipstaff.TaskNotFound:       codes.NotFound,
	tipstaff.SessionUnknown:     codes.NotFound,

	tipstaff.RunEnded:           codes.FailedPrecondition,
	tipstaff.Busy:               codes.FailedPrecondition,
	tipstaff.SessionBusy:        codes.FailedPrecondition,
	tipstaff.ThreadBusy:         codes.FailedPrecondition,
	tipstaff.TaskBusy:           codes.FailedPrecondition,
	tipstaff.TaskTransition:     codes.FailedPrecondition,
	tipstaff.SessionMismatch:    codes.FailedPrecondition,
	tipstaff.SessionElsewhere:   codes.FailedPrecondition,
	tipstaff.SessionIsClosed:    codes.FailedPrecondition,
	tipstaff.SessionIsLost:      codes.FailedPrecondition,
	tipstaff.WrongState:         codes.FailedPrecondition,
	tipstaff.GateClosed:         codes.FailedPrecondition,
	tipstaff.GateExpired:        codes.FailedPrecondition,
	tipstaff.SubjectChanged:     codes.FailedPrecondition,
	tipstaff.InspectOnly:        codes.FailedPrecondition,
	tipstaff.FormatNewer:        codes.FailedPrecondition,
	tipstaff.Refused:            codes.FailedPrecondition,
	tipstaff.ActionBlocked:      codes.FailedPrecondition,
	tipstaff.ObeyedFilesChanged: codes.FailedPrecondition,

	tipstaff.PathOutside:         codes.InvalidArgument,
	tipstaff.WrongGateKind:       codes.InvalidArgument,
	tipstaff.ProjectBusy:         codes.FailedPrecondition,
	tipstaff.UnsupportedPlatform: codes.FailedPrecondition,
	tipstaff.SpawnFailed:         codes.Unavailable,
	tipstaff.CapacityReached:     codes.ResourceExhausted,
	tipstaff.TooManyWatchers:     codes.ResourceExhausted,

	tipstaff.NotAGitRepository: codes.FailedPrecondition,
	tipstaff.NoCommits:         codes.FailedPrecondition,

	tipstaff.WorkerUnavailable:         codes.FailedPrecondition,
	tipstaff.WorkerUnsupportedVersion:  codes.FailedPrecondition,
	tipstaff.WorkerDirectory:           codes.FailedPrecondition,
	tipstaff.WorkerSettings:            codes.FailedPrecondition,
	tipstaff.WorkerSandboxRequired:     codes.FailedPrecondition,
	tipstaff.WorkerPolicyInexpressible: codes.FailedPrecondition,
	tipstaff.WorkerContainment:         codes.FailedPrecondition,
	tipstaff.ResumeUnsupported:         codes.FailedPrecondition,

	tipstaff.QueueFull:    codes.ResourceExhausted,
	tipstaff.LimitReached: codes.ResourceExhausted,

	tipstaff.VersionStale:     codes.Aborted,
	tipstaff.DecisionConflict: codes.Aborted,
	tipstaff.LeaseLost:        codes.Aborted,
	tipstaff.TaskConflict:     codes.Aborted,
	tipstaff.SessionConflict:  codes.Aborted,

	tipstaff.RequestConflict: codes.AlreadyExists,
	tipstaff.HostConflict:    codes.AlreadyExists,

	tipstaff.Stopping:         codes.Unavailable,
	tipstaff.StoreUnavailable: codes.Unavailable,
	tipstaff.StoreBusy:        codes.Unavailable,
	tipstaff.StoreFull:        codes.Unavailable,
	tipstaff.StoreLost:        codes.Unavailable,

	tipstaff.Integrity:      codes.DataLoss,
	tipstaff.ReplayMismatch: codes.DataLoss,
	tipstaff.Internal:       codes.Internal,

	tipstaff.CallCancelled:    codes.Canceled,
	tipstaff.DeadlineExceeded: codes.DeadlineExceeded,
}

// reasonOf says which of our codes stands behind a status that gRPC has made by itself.
// One that is not in it is internal.
var reasonOf = map[codes.Code]tipstaff.Code{
	codes.Canceled:          tipstaff.CallCancelled,
	codes.DeadlineExceeded:  tipstaff.DeadlineExceeded,
	codes.ResourceExhausted: tipstaff.LimitReached,
	codes.Unavailable:       tipstaff.StoreUnavailable,
	codes.Unimplemented:     tipstaff.FormatNewer,
}

// status is an error as it goes over the wire. One that has its details already stays as
// it is.
func (s *Server) status(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if st, ok := status.FromError(err); ok && len(st.Details()) > 0 {
		return err
	}
	code, e := s.resolve(ctx, err)
	return s.reply(ctx, e, code, false)
}

// resolve finds the status and the code of an error. What has no code is internal, and
// its text stays here: the client gets a number by which the log has it.
func (s *Server) resolve(ctx context.Context, err error) (codes.Code, *tipstaff.Error) {
	code, e := codeOf(ctx, err)
	switch {
	case ctx.Err() == nil && s.serving.Err() != nil && passes(code):
		return codes.Unavailable, errStopping
	case code == codes.Internal:
		id := tipstaff.NewID(time.Now()).String()
		s.o.Log.ErrorContext(ctx, "internal error", "error_id", id, "error", err)
		return code, &tipstaff.Error{Code: tipstaff.Internal, Run: e.Run,
			Message: "something unexpected went wrong: the server's log tells what, as error " + id}
	}
	return code, e
}

func codeOf(ctx context.Context, err error) (codes.Code, *tipstaff.Error) {
	var e *tipstaff.Error
	coded := errors.As(err, &e) && e.Code != tipstaff.Internal
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()): // the caller has gone, whatever was made of it on the way here
		err = status.FromContextError(ctx.Err()).Err()
	case coded:
		if code, known := statusOf[e.Code]; known {
			return code, e
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		err = status.FromContextError(err).Err()
	case e != nil:
		return codes.Internal, e
	}
	st := status.Convert(err)
	reason, known := reasonOf[st.Code()]
	if !known || coded {
		return codes.Internal, &tipstaff.Error{Code: tipstaff.Internal, Err: err}
	}
	return st.Code(), &tipstaff.Error{Code: reason, Message: st.Message()}
}

// passes reports whether an error of a call may come from the server's going down: it
// can be asked for again, and is then answered as it deserves. What the request itself
// has wrong is told at once.
func passes(code codes.Code) bool {
	switch code {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented, codes.DataLoss:
		return false
	}
	return true
}

// invalid refuses one field of a request.
func invalid(field, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	return &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: field + ": " + text,
		Problems: []tipstaff.Problem{{Code: string(tipstaff.InvalidArgument), Path: field, Message: text}}}
}
