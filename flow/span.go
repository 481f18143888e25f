package flow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// span is the context of an attempt. It ends at the least of timeout, wall time left
// and deadline, when the attempt is cut off, and when it is over.
//
// Attempts that are prompt are often over before anybody has looked at it. So it
// becomes a context of the standard library, with its timer, when first asked.
type span struct {
	until time.Time     // zero: without a limit
	why   func() *Error // that limit

	mu     sync.Mutex
	ctx    context.Context // nil: nobody has asked
	cancel context.CancelCauseFunc
	stop   context.CancelFunc // of the timer
	ended  bool
	cause  error
}

// limit sets when the span of an attempt, or of a check, ends at the latest. 0: the call
// itself has no limit.
func (do *doing) limit(s *span, timeout time.Duration) {
	d := do.b.d
	now := time.Now()
	least := func(left time.Duration, why func() *Error) {
		if until := now.Add(max(left, 0)); s.until.IsZero() || until.Before(s.until) {
			s.until, s.why = until, why
		}
	}
	if timeout > 0 {
		least(timeout, do.tooLate)
	}
	if wall, ok := d.past.ledger.limit[WallTime]; ok {
		least(ms(wall)-d.wall(), func() *Error {
			return &Error{Code: CodeBoundExceeded, Bound: WallTime, Message: fmt.Sprintf("the run may take %v", ms(wall))}
		})
	}
	if !d.job.Deadline.IsZero() {
		least(d.job.Deadline.Sub(d.clock()), func() *Error { return &Error{Code: CodeDeadline, Message: "the deadline has passed"} })
	}
}

// tooLate is the failure of an attempt that takes longer than the call's timeout.
func (do *doing) tooLate() *Error {
	return &Error{Code: CodeTimeout, Message: do.Name + " took longer than " + do.Timeout.String(), Retry: true}
}

// made is the span as a context of the standard library.
func (s *span) made() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx != nil {
		return s.ctx
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	if s.why != nil && !s.ended {
		s.ctx, s.stop = context.WithDeadlineCause(s.ctx, s.until, s.why())
	}
	if s.ended {
		s.cancel(s.cause)
	}
	return s.ctx
}

func (s *span) Deadline() (time.Time, bool) { return s.until, !s.until.IsZero() }
func (s *span) Done() <-chan struct{}       { return s.made().Done() }
func (s *span) Err() error                  { return s.made().Err() }
func (s *span) Value(key any) any           { return s.made().Value(key) }

// end ends the span, the first time with its cause.
func (s *span) end(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.ended, s.cause = true, cause
	if s.ctx != nil {
		s.cancel(cause)
	}
	if s.stop != nil {
		s.stop()
	}
}

// limitedBy is the limit that has ended the span, if one did. Nobody may have seen
// that.
func (s *span) limitedBy() *Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var e *Error
	switch {
	case s.ctx != nil && errors.As(context.Cause(s.ctx), &e):
		return e
	case s.ctx == nil && s.cause == nil && s.why != nil && !time.Now().Before(s.until):
		return s.why()
	}
	return nil
}
