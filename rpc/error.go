package rpc

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/tipstaff/tipstaff"
)

// domain is that of the ErrorInfo of every error; its reason is the code.
const domain = "tipstaff"

// errStopping is what everybody is told while the server goes down.
var errStopping = status.Error(codes.Unavailable, "the server is shutting down: come back")

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

	tipstaff.Forbidden: codes.PermissionDenied,
	tipstaff.OwnRun:    codes.PermissionDenied,

	tipstaff.RunNotFound:        codes.NotFound,
	tipstaff.ArtifactNotFound:   codes.NotFound,
	tipstaff.CheckpointNotFound: codes.NotFound,
	tipstaff.AgentNotFound:      codes.NotFound,
	tipstaff.PipelineNotFound:   codes.NotFound,
	tipstaff.GateNotFound:       codes.NotFound,

	tipstaff.RunEnded:       codes.FailedPrecondition,
	tipstaff.Busy:           codes.FailedPrecondition,
	tipstaff.SessionBusy:    codes.FailedPrecondition,
	tipstaff.ThreadBusy:     codes.FailedPrecondition,
	tipstaff.WrongState:     codes.FailedPrecondition,
	tipstaff.GateClosed:     codes.FailedPrecondition,
	tipstaff.GateExpired:    codes.FailedPrecondition,
	tipstaff.SubjectChanged: codes.FailedPrecondition,
	tipstaff.InspectOnly:    codes.FailedPrecondition,
	tipstaff.FormatNewer:    codes.FailedPrecondition,
	tipstaff.Refused:        codes.FailedPrecondition,

	tipstaff.QueueFull: codes.ResourceExhausted,

	tipstaff.VersionStale:     codes.Aborted,
	tipstaff.DecisionConflict: codes.Aborted,
	tipstaff.LeaseLost:        codes.Aborted,

	tipstaff.RequestConflict: codes.AlreadyExists,
	tipstaff.HostConflict:    codes.AlreadyExists,

	tipstaff.StoreUnavailable: codes.Unavailable,
	tipstaff.StoreBusy:        codes.Unavailable,
	tipstaff.StoreFull:        codes.Unavailable,
	tipstaff.StoreLost:        codes.Unavailable,

	tipstaff.Integrity:      codes.DataLoss,
	tipstaff.ReplayMismatch: codes.DataLoss,
	tipstaff.Internal:       codes.Internal,
}

// status is an error as it goes over the wire. What has no code is internal, and its
// text stays here.
func (s *Server) status(ctx context.Context, err error) error {
	var e *tipstaff.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()): // the caller has gone, whatever was made of it on the way here
		return status.FromContextError(ctx.Err()).Err()
	case errors.As(err, &e):
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	default:
		if _, ok := status.FromError(err); ok {
			return err
		}
		e = &tipstaff.Error{Code: tipstaff.Internal, Err: err}
	}
	code, known := statusOf[e.Code]
	if !known || code == codes.Internal {
		s.o.Log.ErrorContext(ctx, "internal error", "error", err)
		if s.serving.Err() != nil { // what breaks because the server goes can be asked for again
			return errStopping
		}
		code = codes.Internal
	}
	return detailed(code, e)
}

func detailed(code codes.Code, e *tipstaff.Error) error {
	message := "something unexpected went wrong"
	if code != codes.Internal {
		message = e.Error()
		if e.Hint != "" {
			message += " (" + e.Hint + ")"
		}
	}
	info := &errdetails.ErrorInfo{Domain: domain, Reason: string(e.Code), Metadata: map[string]string{}}
	if !e.Run.IsZero() {
		info.Metadata["run_id"] = e.Run.String()
	}
	details := []protoadapt.MessageV1{info}
	if len(e.Problems) > 0 { // each with its place; its code is the reason of the violation
		bad := new(errdetails.BadRequest)
		for _, p := range e.Problems {
			text := p.Code + ": " + p.Message
			if p.Line > 0 {
				text = fmt.Sprintf("%d:%d: %s", p.Line, p.Column, text)
			}
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: p.Path, Description: text, Reason: p.Code})
		}
		details = append(details, bad)
	}
	st := status.New(code, message)
	if with, err := st.WithDetails(details...); err == nil {
		st = with
	}
	return st.Err()
}

// invalid refuses one field of a request.
func invalid(field, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	return &tipstaff.Error{Code: tipstaff.InvalidArgument, Message: field + ": " + text,
		Problems: []tipstaff.Problem{{Code: string(tipstaff.InvalidArgument), Path: field, Message: text}}}
}
