package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/tipstaff/tipstaff"
)

// errStopping is what everybody is told while the server goes down.
var errStopping = tipstaff.Errorf(tipstaff.Stopping, "the server is shutting down: come back")

// Status is the HTTP status of a code.
func Status(code tipstaff.Code) int {
	if status, known := statusOf[code]; known {
		return status
	}
	return http.StatusInternalServerError
}

// statusOf says how an error looks here. A code that is not in it is 500.
var statusOf = map[tipstaff.Code]int{
	tipstaff.InvalidArgument:     http.StatusBadRequest,
	tipstaff.WorkspaceUnresolved: http.StatusBadRequest,
	tipstaff.PathOutside:         http.StatusBadRequest,
	tipstaff.CursorBeyondHead:    http.StatusBadRequest,

	tipstaff.Unauthenticated:    http.StatusUnauthorized,
	tipstaff.Forbidden:          http.StatusForbidden,
	tipstaff.OwnRun:             http.StatusForbidden,
	tipstaff.WorkspaceUntrusted: http.StatusForbidden,

	tipstaff.RunNotFound:        http.StatusNotFound,
	tipstaff.ArtifactNotFound:   http.StatusNotFound,
	tipstaff.CheckpointNotFound: http.StatusNotFound,
	tipstaff.AgentNotFound:      http.StatusNotFound,
	tipstaff.PipelineNotFound:   http.StatusNotFound,
	tipstaff.GateNotFound:       http.StatusNotFound,
	tipstaff.WorkerNotFound:     http.StatusNotFound,
	tipstaff.TaskNotFound:       http.StatusNotFound,
	tipstaff.SessionUnknown:     http.StatusNotFound,

	tipstaff.RunEnded:          http.StatusConflict,
	tipstaff.Busy:              http.StatusConflict,
	tipstaff.SessionBusy:       http.StatusConflict,
	tipstaff.SessionMismatch:   http.StatusConflict,
	tipstaff.SessionElsewhere:  http.StatusConflict,
	tipstaff.SessionIsClosed:   http.StatusConflict,
	tipstaff.SessionConflict:   http.StatusConflict,
	tipstaff.SessionIsLost:     http.StatusConflict,
	tipstaff.TaskTransition:    http.StatusConflict,
	tipstaff.TaskConflict:      http.StatusConflict,
	tipstaff.TaskBusy:          http.StatusConflict,
	tipstaff.ThreadBusy:        http.StatusConflict,
	tipstaff.ProjectBusy:       http.StatusConflict,
	tipstaff.VersionStale:      http.StatusConflict,
	tipstaff.WrongState:        http.StatusConflict,
	tipstaff.RequestConflict:   http.StatusConflict,
	tipstaff.HostConflict:      http.StatusConflict,
	tipstaff.DecisionConflict:  http.StatusConflict,
	tipstaff.GateClosed:        http.StatusConflict,
	tipstaff.GateExpired:       http.StatusConflict,
	tipstaff.SubjectChanged:    http.StatusConflict,
	tipstaff.InspectOnly:       http.StatusConflict,
	tipstaff.LeaseLost:         http.StatusConflict,
	tipstaff.FormatNewer:       http.StatusConflict,
	tipstaff.Refused:           http.StatusConflict,
	tipstaff.NotAGitRepository: http.StatusConflict,
	tipstaff.NoCommits:         http.StatusConflict,

	tipstaff.UnsupportedPlatform:       http.StatusConflict,
	tipstaff.WorkerUnavailable:         http.StatusConflict,
	tipstaff.WorkerUnsupportedVersion:  http.StatusConflict,
	tipstaff.WorkerDirectory:           http.StatusConflict,
	tipstaff.WorkerSettings:            http.StatusConflict,
	tipstaff.WorkerSandboxRequired:     http.StatusConflict,
	tipstaff.WorkerPolicyInexpressible: http.StatusConflict,
	tipstaff.WorkerContainment:         http.StatusConflict,
	tipstaff.ResumeUnsupported:         http.StatusConflict,

	tipstaff.InvalidProgram:     http.StatusUnprocessableEntity,
	tipstaff.CorrectionInvalid:  http.StatusUnprocessableEntity,
	tipstaff.ActionNotOffered:   http.StatusUnprocessableEntity,
	tipstaff.ActionBlocked:      http.StatusUnprocessableEntity,
	tipstaff.ObeyedFilesChanged: http.StatusUnprocessableEntity,
	tipstaff.FeedbackRequired:   http.StatusUnprocessableEntity,
	tipstaff.FeedbackNotAllowed: http.StatusUnprocessableEntity,
	tipstaff.WrongGateKind:      http.StatusUnprocessableEntity,

	tipstaff.QueueFull:       http.StatusTooManyRequests,
	tipstaff.LimitReached:    http.StatusTooManyRequests,
	tipstaff.CapacityReached: http.StatusTooManyRequests,
	tipstaff.TooManyWatchers: http.StatusTooManyRequests,

	tipstaff.Stopping:         http.StatusServiceUnavailable,
	tipstaff.SpawnFailed:      http.StatusServiceUnavailable,
	tipstaff.StoreUnavailable: http.StatusServiceUnavailable,
	tipstaff.StateUnavailable: http.StatusServiceUnavailable,
	tipstaff.StoreBusy:        http.StatusServiceUnavailable,
	tipstaff.StoreFull:        http.StatusServiceUnavailable,
	tipstaff.StoreLost:        http.StatusServiceUnavailable,
	tipstaff.DeadlineExceeded: http.StatusServiceUnavailable,
	tipstaff.CallCancelled:    http.StatusServiceUnavailable,

	tipstaff.Integrity:      http.StatusInternalServerError,
	tipstaff.ReplayMismatch: http.StatusInternalServerError,
	tipstaff.Internal:       http.StatusInternalServerError,
}

// refusal is an error that HTTP has a status of its own for.
type refusal struct {
	status int
	err    *tipstaff.Error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, tipstaff.Errorf(tipstaff.InvalidArgument, format, args...)}
}

// told is an error as clients see it.
type told struct {
	*tipstaff.Error
	About tipstaff.ID `json:"run,omitzero"` // as answers here name it; run_id is what all surfaces say
}

// fail tells what went wrong. What has no code is internal, and its text stays here: the
// client gets a number by which the log has it.
func (c *call) fail(err error) {
	if c.w.status != 0 {
		panic(http.ErrAbortHandler) // part of the answer is gone: the client must see that it is not whole
	}
	status, e := c.resolve(err)
	reply := e.Reply(c.s.o.Folders, false, nil)
	h := c.w.Header()
	switch {
	case status == http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || e.Code == tipstaff.Busy:
		h.Set("Retry-After", "5")
	}
	c.send(status, jsonType, encode(map[string]told{"error": {reply, reply.Run}}))
}

func (c *call) resolve(err error) (int, *tipstaff.Error) {
	var (
		e       *tipstaff.Error
		refused *refusal
	)
	stopping := c.s.serving.Err() != nil
	switch {
	case errors.As(err, &refused):
		return refused.status, refused.err
	case errors.As(err, &e) && e.Code != tipstaff.Internal:
		if status, known := statusOf[e.Code]; known {
			return status, e
		}
	case stopping:
		return http.StatusServiceUnavailable, errStopping
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, tipstaff.Errorf(tipstaff.CallCancelled, "the request was given up")
	}
	id := tipstaff.NewID(time.Now()).String()
	c.s.o.Log.ErrorContext(c.r.Context(), "internal error", "error_id", id, "error", err)
	internal := tipstaff.Errorf(tipstaff.Internal, "something unexpected went wrong: the server's log tells what, as error %s", id)
	if e != nil {
		internal.Run = e.Run
	}
	return http.StatusInternalServerError, internal
}

const jsonType = "application/json"

// with is an answer whose status is not 200.
type with struct {
	status int
	answer any
}

// stored are bytes that are sent as they are.
type stored struct {
	mediaType string
	bytes     []byte
}

// done is the answer of a route that has written it.
type done struct{}

// write sends the answer of a route.
func (c *call) write(answer any) error {
	status := http.StatusOK
	if w, ok := answer.(with); ok {
		status, answer = w.status, w.answer
	}
	switch answer := answer.(type) {
	case done:
	case stored:
		c.send(status, answer.mediaType, answer.bytes)
	default:
		c.send(status, jsonType, encode(answer))
	}
	return nil
}

// encode writes a value as JSON. Records stay the bytes that they are.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("an answer cannot be written: %v", err)) // all of them can be
	}
	return b.Bytes()
}

// send writes an answer to a reader who has so much time to take it.
func (c *call) send(status int, mediaType string, body []byte) {
	c.w.Header().Set("Content-Type", mediaType)
	c.w.Header().Set("Content-Length", fmt.Sprint(len(body)))
	_ = c.controller().SetWriteDeadline(time.Now().Add(writeTime))
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body) // nobody is left to be told
	_ = c.controller().SetWriteDeadline(time.Time{})
}

func (c *call) controller() *http.ResponseController {
	return http.NewResponseController(c.w.ResponseWriter)
}

// countingWriter knows whether an answer has begun.
type countingWriter struct {
	http.ResponseWriter
	status int // 0: it has not
}

func (w *countingWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *countingWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (c *call) level() slog.Level {
	switch {
	case c.w.status >= http.StatusInternalServerError && c.w.status != http.StatusServiceUnavailable:
		return slog.LevelError
	case c.route != nil && c.route.public:
		return slog.LevelDebug // whoever watches over a server asks every few seconds
	}
	return slog.LevelInfo
}
