package tool

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
)

// errNumberUnsafe: a number would be sent with another value than was written.
var errNumberUnsafe = errors.New("the number would change its value in canonical JSON")

// canonical is the RFC 8785 form of one JSON value. A number that it could only
// write with another decimal value is errNumberUnsafe.
func canonical(raw []byte) ([]byte, error) {
	form, err := canon.Exact(raw)
	if unsafe := (*canon.UnsafeNumber)(nil); errors.As(err, &unsafe) {
		return nil, fmt.Errorf("%w: %s", errNumberUnsafe, tipstaff.Quote(unsafe.Literal, 60))
	}
	return form, err
}

// canonicalOf encodes v and brings it into canonical form.
func canonicalOf(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return canonical(raw)
}

func digestOf(data []byte) string {
	return flow.Digest(data)
}
