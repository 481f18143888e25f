package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors a flow meets. It must return them, wrapped or not.
var (
	// ErrParked: this branch cannot go on in this drive. Do nothing else.
	ErrParked = errors.New("flow: parked")
	// ErrCancelled: the run was cancelled, or the branch's group has failed. A
	// flow may Emit before it returns this.
	ErrCancelled = errors.New("flow: cancelled")
)

// Errors of logs and stores.
var (
	ErrBusy        = errors.New("flow: the run has a living owner")
	ErrLeaseLost   = errors.New("flow: another process owns the run now")
	ErrEnded       = errors.New("flow: the run has ended")
	ErrDecided     = errors.New("flow: the gate was decided otherwise")
	ErrNoRun       = errors.New("flow: no such run")
	ErrSessionBusy = errors.New("flow: the session has a turn that has not ended")
	// ErrThreadBusy is a thread that has an unfinished run.
	ErrThreadBusy = errors.New("flow: the thread has a run that has not ended")
	// ErrRequestKnown is a request that has made a run before.
	ErrRequestKnown = errors.New("flow: the request has made a run already")
	// ErrCapacity: as many runs have a process of their own as may.
	ErrCapacity = errors.New("flow: no more runs may have a process of their own")
	// ErrProjectBusy: another run works in the checkout.
	ErrProjectBusy = errors.New("flow: another run works in the checkout of the project")
	ErrNoBlob      = errors.New("flow: no such blob")
	ErrStoreFull   = errors.New("flow: the disk of the store is full")
	ErrStoreBusy   = errors.New("flow: the store is locked by another process")
	ErrStoreDown   = errors.New("flow: the store cannot be written")
	ErrReadOnly    = errors.New("flow: the store is open for reading only")
	// ErrIntegrity is a run whose records are not what was written: nothing acts on them.
	ErrIntegrity = errors.New("flow: the journal was changed")
	// ErrStoreLost is a store whose file is no longer where it was opened.
	ErrStoreLost = errors.New("flow: the store is gone")
)

// Codes of failures that the engine itself records.
const (
	CodeTimeout        = "timeout"
	CodeBoundExceeded  = "bound_exceeded"
	CodeDeadline       = "deadline_exceeded"
	CodeInDoubt        = "in_doubt"
	CodeInternal       = "internal"
	CodeResultTooLarge = "result_too_large"
	CodeHistoryTooLong = "history_too_long"
	CodeNotStarted     = "not_started" // of once: its scope closed while its intent was written
)

// Error is a call's failure, the only error that is recorded.
type Error struct {
	Code     string          `json:"code"`
	Message  string          `json:"message,omitempty"`
	Bound    string          `json:"bound,omitempty"` // of bound_exceeded
	Detail   json.RawMessage `json:"detail,omitempty"`
	Retry    bool            `json:"retry,omitempty"`    // may be tried again
	NotSent  bool            `json:"not_sent,omitempty"` // surely not done
	Answered bool            `json:"answered,omitempty"` // a definite answer
	Whole    string          `json:"whole,omitempty"`    // digest of the blob with all of a message that was cut
	After    time.Duration   `json:"-"`                  // the least delay before a retry; recorded as after_ms
}

// MostMessage is how many bytes of the text of an error are recorded and told. The whole
// of a longer one is a blob of its run.
const MostMessage = 4 << 10

// CutText is the beginning and the end of the text of an error that is too long to be
// told. whole is the digest of all of it; "": nobody has that.
func CutText(text, whole string) string { return cutText(MostMessage, text, whole) }

func cutText(most int, text, whole string) string {
	if len(text) <= most {
		return text
	}
	cut := fmt.Sprintf("\n[… cut: %d bytes in all", len(text))
	if whole != "" {
		cut += ", which show --artifact " + whole + " prints"
	}
	cut += " …]\n"
	room := most - len(cut)
	return strings.ToValidUTF8(text[:room/2], "") + cut + strings.ToValidUTF8(text[len(text)-room/2:], "")
}

// Shortened is e with a text that a record can have. keep stores the whole of a longer
// one, durably, and returns its digest; nil: it is not kept.
func (e *Error) Shortened(keep func([]byte) (string, error)) *Error {
	if len(e.Message) <= MostMessage {
		return e
	}
	c := *e
	if keep != nil {
		c.Whole, _ = keep([]byte(e.Message)) // the error itself matters more than all of its text
	}
	c.Message = CutText(e.Message, c.Whole)
	return &c
}

// shortened is an error of an activity whose text was too long.
type shortened struct {
	error
	as *Error
}

func (s *shortened) Error() string { return s.as.Error() }
func (s *shortened) Unwrap() error { return s.error }

// As makes the error that is recorded the first one in the chain.
func (s *shortened) As(target any) bool {
	e, ok := target.(**Error)
	if ok {
		*e = s.as
	}
	return ok
}

// cutFailure is what a run failed with, of which the text was too long.
type cutFailure struct {
	error
	text, whole string
}

func (c *cutFailure) Error() string { return c.text }
func (c *cutFailure) Unwrap() error { return c.error }

// mostAround is what may stand around the text of a call's error, which was cut already.
const mostAround = 256

// cutFailed cuts the text of what a flow failed with, and has the whole of it stored.
func (d *drive) cutFailed(err error) error {
	text := err.Error()
	var e *Error
	if errors.As(err, &e) && len(e.Message) <= MostMessage && len(text) <= len(e.Message)+mostAround || len(text) <= MostMessage {
		return err
	}
	c := &cutFailure{error: err}
	text = string(d.redact([]byte(strings.ToValidUTF8(text, "\uFFFD"))))
	if d.job.Keep != nil {
		c.whole, _ = d.job.Keep([]byte(text)) // the error itself matters more than all of its text
	}
	c.text = CutText(text, c.whole)
	return c
}

// errorJSON is an Error with its delay as it is recorded.
type errorJSON struct {
	*plainError
	AfterMs int64 `json:"after_ms,omitempty"`
}

type plainError Error

// MarshalJSON writes the delay in milliseconds.
func (e *Error) MarshalJSON() ([]byte, error) {
	return JSON(errorJSON{(*plainError)(e), e.After.Milliseconds()}), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Error) UnmarshalJSON(b []byte) error {
	wire := errorJSON{plainError: (*plainError)(e)}
	err := json.Unmarshal(b, &wire)
	e.After = ms(wire.AfterMs)
	return err
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Code)
	if e.Bound != "" {
		b.WriteString(" (" + e.Bound + ")")
	}
	if e.Message != "" {
		b.WriteString(": " + e.Message)
	}
	return b.String()
}

// Misuse: a rule of this package was broken by the flow.
type Misuse struct{ Path, Message string }

func (e *Misuse) Error() string { return fmt.Sprintf("flow misuse at %q: %s", e.Path, e.Message) }

type continued struct{ state json.RawMessage }

func (c *continued) Error() string { return "flow: continue" }

// Continue ends the current segment of history: the flow is entered again with
// state, and keys and counters start anew. Only a root Func may return it.
func Continue(state json.RawMessage) error { return &continued{state} }

// Parked reports whether err means that the branch cannot go on in this drive.
func Parked(err error) bool { return errors.Is(err, ErrParked) }

// Stop is a cause for the end of a drive's context: it names why the run is
// interrupted, as in signal:TERM.
type Stop struct{ Reason string }

func (s *Stop) Error() string { return "stopped: " + s.Reason }
