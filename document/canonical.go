package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tipstaff/tipstaff/canon"
)

// JSON is the RFC 8785 form of v. Callers have made sure that its numbers are
// safe: see [CheckNumbers].
func (v *Value) JSON() (json.RawMessage, error) {
	var b bytes.Buffer
	v.AppendJSON(&b)
	return canon.Form(b.Bytes())
}

// Raw is v in RFC 8785 form, nil for nil. What has no such form is null: whoever
// has found its numbers unsafe does not use the document.
func Raw(v *Value) json.RawMessage {
	if v == nil {
		return nil
	}
	b, err := v.JSON()
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}

// Quote is s as a JSON string.
func Quote(s string) []byte { return canon.AppendText(nil, s) }

// ErrUnsafe: RFC 8785 has no exact form of a number.
var ErrUnsafe = errors.New("a number cannot be kept exactly")

// Canonical is the RFC 8785 form of raw, or ErrUnsafe if a number in it would
// change its value by that.
func Canonical(raw json.RawMessage) (json.RawMessage, error) {
	form, err := canon.Exact(raw)
	if n := (*canon.UnsafeNumber)(nil); errors.As(err, &n) {
		return nil, fmt.Errorf("%w: %s", ErrUnsafe, Brief(n.Literal))
	}
	return form, err
}
