package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gowebpki/jcs"
)

// JSON is the RFC 8785 form of v. Callers have made sure that its numbers are
// safe: see [CheckNumbers].
func (v *Value) JSON() (json.RawMessage, error) {
	if plain, ok := v.appendPlain(nil); ok {
		return plain, nil
	}
	var b bytes.Buffer
	v.AppendJSON(&b)
	return jcs.Transform(b.Bytes())
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

// appendPlain writes the RFC 8785 form of a value that has nothing unusual in it,
// which is nearly every one: printable ASCII that needs no escape, and whole
// numbers of a few digits. Of others it says so.
func (v *Value) appendPlain(b []byte) (_ []byte, ok bool) {
	switch v.Kind {
	case Null:
		return append(b, "null"...), true
	case Boolean:
		return append(b, v.Text...), true
	case Number:
		return append(b, v.Text...), plainNumber(v.Text)
	case Text:
		return appendPlainText(b, v.Text)
	case List:
		b, ok = append(b, '['), true
		for i, item := range v.Items {
			if i > 0 {
				b = append(b, ',')
			}
			if b, ok = item.appendPlain(b); !ok {
				return b, false
			}
		}
		return append(b, ']'), true
	}
	return v.appendPlainObject(b)
}

func (v *Value) appendPlainObject(b []byte) (_ []byte, ok bool) {
	members := v.Members
	byKey := func(a, b Member) int { return strings.Compare(a.Key, b.Key) }
	if !slices.IsSortedFunc(members, byKey) {
		members = slices.SortedFunc(slices.Values(members), byKey)
	}
	b = append(b, '{')
	for i, m := range members {
		if i > 0 {
			if members[i-1].Key == m.Key {
				return b, false
			}
			b = append(b, ',')
		}
		if b, ok = appendPlainText(b, m.Key); !ok {
			return b, false
		}
		if b, ok = m.Value.appendPlain(append(b, ':')); !ok {
			return b, false
		}
	}
	return append(b, '}'), true
}

func appendPlainText(b []byte, s string) (_ []byte, ok bool) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return b, false
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"'), true
}

// plainNumber: a whole number in its shortest form, exact as a float64.
func plainNumber(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	if len(digits) == 0 || len(digits) > 15 || digits[0] == '0' && s != "0" {
		return false
	}
	return strings.Trim(digits, "0123456789") == ""
}

// Quote is s as a JSON string.
func Quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string always has a JSON form
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// ErrUnsafe: RFC 8785 has no exact form of a number.
var ErrUnsafe = errors.New("a number cannot be kept exactly")

// Canonical is the RFC 8785 form of raw, or ErrUnsafe if a number in it would
// change its value by that.
func Canonical(raw json.RawMessage) (json.RawMessage, error) {
	if literal, ok := unsafeNumber(raw); ok {
		return nil, fmt.Errorf("%w: %s", ErrUnsafe, Brief(literal))
	}
	return jcs.Transform(raw)
}

// unsafeNumber is the first number in raw that has no exact canonical form.
func unsafeNumber(raw json.RawMessage) (string, bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	for {
		t, err := d.Token()
		if err != nil {
			return "", false
		}
		if n, ok := t.(json.Number); ok && !SafeNumber(n.String()) {
			return n.String(), true
		}
	}
}
