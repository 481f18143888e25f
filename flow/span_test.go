package flow

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errLimit = &Error{Code: CodeTimeout, Message: "too late"}

func newSpan(left time.Duration) *span {
	s := &span{}
	if left > 0 {
		s.until, s.why = time.Now().Add(left), func() *Error { return errLimit }
	}
	return s
}

func TestSpanEndsAtItsLimit(t *testing.T) {
	for name, looks := range map[string]func(*span){
		"somebody waits":   func(s *span) { <-s.Done() },
		"somebody looks":   func(s *span) { _ = s.Err(); time.Sleep(time.Second) },
		"somebody derives": func(s *span) { inner, stop := context.WithCancel(s); <-inner.Done(); stop() },
		"nobody looks":     func(*span) { time.Sleep(time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSpan(time.Second)
				if at, ok := s.Deadline(); !ok || !at.Equal(time.Now().Add(time.Second)) {
					t.Errorf("its deadline is %v, %v", at, ok)
				}
				looks(s)
				synctest.Wait()
				s.end(nil)
				if e := s.limitedBy(); e != errLimit {
					t.Errorf("it was ended by %v", e)
				}
			})
		})
	}
}

func TestSpanThatIsOverInTimeHasNoLimit(t *testing.T) {
	for name, looks := range map[string]func(*span){"seen": func(s *span) { _ = s.Err() }, "unseen": func(*span) {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSpan(time.Second)
				looks(s)
				s.end(nil)
				if e := s.limitedBy(); e != nil {
					t.Errorf("it was ended by %v", e)
				}
				if err := s.Err(); !errors.Is(err, context.Canceled) {
					t.Errorf("afterwards it says %v", err)
				}
			})
		})
	}
}

// What cuts an attempt is its cause for whoever looks, before or afterwards; what
// comes later changes nothing.
func TestSpanIsCut(t *testing.T) {
	for name, looks := range map[string]func(*span){"seen": func(s *span) { _ = s.Err() }, "unseen": func(*span) {}} {
		t.Run(name, func(t *testing.T) {
			s := newSpan(time.Hour)
			looks(s)
			s.end(ErrCancelled)
			s.end(errAbandoned)
			<-s.Done()
			if err := context.Cause(s); err != ErrCancelled {
				t.Errorf("its cause is %v", err)
			}
			if e := s.limitedBy(); e != nil {
				t.Errorf("it was ended by %v", e)
			}
		})
	}
}

// A limit that passes later has ended nothing.
func TestSpanWhoseLimitPassesLater(t *testing.T) {
	for name, c := range map[string]struct {
		looks func(*span)
		cause error
	}{
		"seen, and over":  {func(s *span) { _ = s.Err() }, nil},
		"seen, and cut":   {func(s *span) { _ = s.Err() }, ErrCancelled},
		"unseen, and cut": {func(*span) {}, ErrCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSpan(time.Second)
				c.looks(s)
				s.end(c.cause)
				time.Sleep(time.Minute)
				if e := s.limitedBy(); e != nil {
					t.Errorf("it was ended by %v", e)
				}
			})
		})
	}
}

func TestSpanWithoutALimit(t *testing.T) {
	s := newSpan(0)
	if at, ok := s.Deadline(); ok {
		t.Errorf("its deadline is %v", at)
	}
	if s.Err() != nil || s.limitedBy() != nil {
		t.Error("it has ended")
	}
}
