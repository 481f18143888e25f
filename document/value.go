package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/tipstaff/tipstaff/canon"
)

// Kind is the JSON type of a value.
type Kind uint8

// The types of JSON.
const (
	Null Kind = iota
	Boolean
	Number
	Text
	List
	Object
)

// String is the type in words, as messages have it: "a list".
func (k Kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "a list", "an object"}[k]
}

// Value is a JSON value that remembers where it was written. YAML and JSON
// both become this, so that everything after it knows one form.
type Value struct {
	Kind    Kind
	Text    string // of Text; of Number and Boolean the JSON literal
	Items   []*Value
	Members []Member // in document order; no key stands twice
	At      Position
}

// Member is a key of an object and what stands there.
type Member struct {
	Key   string
	At    Position // of the key
	Value *Value
}

// Position is where something begins, counted from 1 in characters. The zero
// Position is nowhere.
type Position struct{ Line, Column int }

// Get is the member with that key, or nil. Nothing has no members.
func (v *Value) Get(key string) *Value {
	if m := v.Member(key); m != nil {
		return m.Value
	}
	return nil
}

// Member is the member with that key and where it stands, or nil.
func (v *Value) Member(key string) *Member {
	if v == nil {
		return nil
	}
	for i := range v.Members {
		if v.Members[i].Key == key {
			return &v.Members[i]
		}
	}
	return nil
}

// Find follows keys, and indices of lists, from v; nil: nothing stands there.
func (v *Value) Find(keys ...string) *Value {
	for _, key := range keys {
		if v == nil {
			return nil
		}
		if i, err := strconv.Atoi(key); err == nil && v.Kind == List && i >= 0 && i < len(v.Items) {
			v = v.Items[i]
			continue
		}
		v = v.Get(key)
	}
	return v
}

// AppendJSON writes v with its members in document order.
func (v *Value) AppendJSON(b *bytes.Buffer) {
	switch v.Kind {
	case Null:
		b.WriteString("null")
	case Boolean, Number:
		b.WriteString(v.Text)
	case Text:
		b.Write(Quote(v.Text))
	case List:
		b.WriteByte('[')
		for i, item := range v.Items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.AppendJSON(b)
		}
		b.WriteByte(']')
	case Object:
		b.WriteByte('{')
		for i, m := range v.Members {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(Quote(m.Key))
			b.WriteByte(':')
			m.Value.AppendJSON(b)
		}
		b.WriteByte('}')
	}
}

// JSON is the RFC 8785 form of v. Callers have made sure that its numbers are
// safe: see [CheckNumbers].
func (v *Value) JSON() (json.RawMessage, error) {
	var b bytes.Buffer
	v.AppendJSON(&b)
	return canon.Form(b.Bytes())
}

// Raw is v in RFC 8785 form, nil for nil. What has no such form is null: a
// document with unsafe numbers is not used.
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
