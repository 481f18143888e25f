package tipstaff

import (
	"errors"
	"fmt"
	"testing"
)

func TestErrorsAreMatchedByCode(t *testing.T) {
	err := fmt.Errorf("resume: %w", Errorf(Busy, "run %d is driven", 7).WithHint("wait for it"))
	if CodeOf(err) != Busy || !errors.Is(err, &Error{Code: Busy}) || errors.Is(err, &Error{Code: RunEnded}) {
		t.Errorf("%v has code %s", err, CodeOf(err))
	}
	if errors.Is(err, &Error{Code: Busy, Message: "another"}) {
		t.Error("errors of one code and different messages are the same")
	}
	if CodeOf(nil) != "" || CodeOf(errors.New("x")) != Internal {
		t.Errorf("%q, %q", CodeOf(nil), CodeOf(errors.New("x")))
	}
}

func TestOnlyInternalErrorsTellTheirCause(t *testing.T) {
	cause := errors.New("disk on fire")
	for _, c := range []struct {
		err  *Error
		want string
	}{
		{&Error{Code: Internal, Message: "append", Err: cause}, "append: disk on fire"},
		{&Error{Code: StoreUnavailable, Message: "the store cannot be read", Err: cause}, "the store cannot be read"},
		{&Error{Code: Busy}, "busy"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		if c.err.Err != nil && !errors.Is(c.err, cause) {
			t.Error("the cause is lost")
		}
	}
}
