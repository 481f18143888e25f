package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gowebpki/jcs"
)

// kind is the JSON type of a value.
type kind uint8

const (
	null kind = iota
	boolean
	number
	text
	list
	object
)

func (k kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a string", "a list", "an object"}[k]
}

// value is a JSON value that remembers where it was written. YAML and JSON
// both become this, so that everything after it knows one form.
type value struct {
	kind    kind
	text    string // of text; of number and boolean the JSON literal
	items   []*value
	members []member
	at      position
}

type member struct {
	key   string
	at    position
	value *value
}

// position is where something begins, counted from 1 in characters.
type position struct{ line, column int }

// get is the member with that key, or nil.
func (v *value) get(key string) *value {
	for i := range v.members {
		if v.members[i].key == key {
			return v.members[i].value
		}
	}
	return nil
}

// appendJSON writes v with its members in document order.
func (v *value) appendJSON(b *bytes.Buffer) {
	switch v.kind {
	case null:
		b.WriteString("null")
	case boolean, number:
		b.WriteString(v.text)
	case text:
		b.Write(quote(v.text))
	case list:
		b.WriteByte('[')
		for i, item := range v.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.appendJSON(b)
		}
		b.WriteByte(']')
	case object:
		b.WriteByte('{')
		for i, m := range v.members {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(quote(m.key))
			b.WriteByte(':')
			m.value.appendJSON(b)
		}
		b.WriteByte('}')
	}
}

// json is the RFC 8785 form of v. Callers have made sure that its numbers are
// safe.
func (v *value) json() (json.RawMessage, error) {
	if plain, ok := v.appendPlain(nil); ok {
		return plain, nil
	}
	var b bytes.Buffer
	v.appendJSON(&b)
	return jcs.Transform(b.Bytes())
}

// appendPlain writes the RFC 8785 form of a value that has nothing unusual in it,
// which is nearly every one: printable ASCII that needs no escape, and whole
// numbers of a few digits. Of others it says so.
func (v *value) appendPlain(b []byte) (_ []byte, ok bool) {
	switch v.kind {
	case null:
		return append(b, "null"...), true
	case boolean:
		return append(b, v.text...), true
	case number:
		return append(b, v.text...), plainNumber(v.text)
	case text:
		return appendPlainText(b, v.text)
	case list:
		b, ok = append(b, '['), true
		for i, item := range v.items {
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

func (v *value) appendPlainObject(b []byte) (_ []byte, ok bool) {
	members := v.members
	byKey := func(a, b member) int { return strings.Compare(a.key, b.key) }
	if !slices.IsSortedFunc(members, byKey) {
		members = slices.SortedFunc(slices.Values(members), byKey)
	}
	b = append(b, '{')
	for i, m := range members {
		if i > 0 {
			if members[i-1].key == m.key {
				return b, false
			}
			b = append(b, ',')
		}
		if b, ok = appendPlainText(b, m.key); !ok {
			return b, false
		}
		if b, ok = m.value.appendPlain(append(b, ':')); !ok {
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

// quote is s as a JSON string.
func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string always has a JSON form
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

var errUnsafe = errors.New("a number cannot be kept exactly")

// canonical is the RFC 8785 form of raw, or errUnsafe if a number in it would
// change its value by that.
func canonical(raw json.RawMessage) (json.RawMessage, error) {
	if literal, ok := unsafeNumber(raw); ok {
		return nil, fmt.Errorf("%w: %s", errUnsafe, brief(literal))
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
		if n, ok := t.(json.Number); ok && !safeNumber(n.String()) {
			return n.String(), true
		}
	}
}

// brief is s, cut to what fits in a message.
func brief(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && s[cut]&0xC0 == 0x80 { // not inside a character
		cut--
	}
	return s[:cut] + "…"
}
