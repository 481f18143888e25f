// Package canon is how the rest of the module reads and writes JSON where bytes
// count: it finds where values stand, refuses what readers could take for different
// things, and writes the canonical form of RFC 8785. The grammar is that of
// [jsontext]; what this package adds is numbers, which must not change their value
// by being written down. It imports nothing of ours.
//
// Start with [Check], [Members] and [Form].
package canon

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how many lists and objects can stand in each other, as in
// encoding/json.
const MaxDepth = 10_000

// SyntaxError is the offset at which bytes stop being JSON.
type SyntaxError int64

func (e SyntaxError) Error() string { return fmt.Sprintf("no valid JSON at byte %d", int64(e)) }

var errUTF8 = errors.New("no valid UTF-8")

// Check reports whether b is exactly one JSON value in valid UTF-8, with or without
// white space around it. Names may stand twice and surrogates alone, as a producer
// wrote them.
func Check(b []byte) error {
	if !utf8.Valid(b) {
		return errUTF8
	}
	d := open(b, lenient)
	defer d.close()
	if _, err := d.ReadValue(); err != nil {
		return d.syntax(err)
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return d.syntax(err)
	}
	return nil
}

// End is where the JSON value that b begins with ends. What follows it is not looked
// at.
func End(b []byte) (int, error) {
	if n := plainEnd(b); n > 0 {
		return n, nil
	}
	d := open(b, lenient)
	defer d.close()
	_, err := d.ReadValue()
	if err != nil {
		err = d.syntax(err)
	}
	return int(d.InputOffset()), err
}

// plainEnd is where a text without escapes or a whole number ends, as most members of
// records are; 0: b begins with neither.
func plainEnd(b []byte) int {
	switch {
	case len(b) == 0:
	case b[0] == '"':
		for i, c := range b[1:] {
			if c == '"' {
				return i + 2
			}
			if c < ' ' || c == '\\' || c >= utf8.RuneSelf {
				return 0
			}
		}
	case b[0] >= '0' && b[0] <= '9':
		for i, c := range b {
			if c == ',' || c == '}' {
				return i
			}
			if c < '0' || c > '9' || i == 1 && b[0] == '0' {
				return 0
			}
		}
	}
	return 0
}

// Member is one member of an object, as it stands in a text.
type Member struct {
	Name       string
	Start, End int // of its value
}

// Members yields the members of the object that b is, and then the fault that ends
// it, if there is one. Of another value it yields nothing but its fault.
func Members(b []byte) iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) {
		d := open(b, lenient)
		defer d.close()
		if d.PeekKind() != '{' {
			if err := Check(b); err != nil {
				yield(Member{}, err)
			}
			return
		}
		_, err := d.ReadToken()
		for err == nil && d.PeekKind() != '}' {
			var name, value jsontext.Value
			if name, err = d.ReadValue(); err != nil {
				break
			}
			m := Member{Name: Unquote(name)}
			if value, err = d.ReadValue(); err != nil {
				break
			}
			m.End = int(d.InputOffset())
			m.Start = m.End - len(value)
			if !yield(m, nil) {
				return
			}
		}
		if err == nil {
			if _, err = d.ReadToken(); err == nil {
				_, err = d.ReadToken()
			}
		}
		if err != io.EOF {
			yield(Member{}, d.syntax(err))
		}
	}
}

// Elements yields the elements of the list that b is; of anything else, nothing. b
// must be valid JSON.
func Elements(b []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		d := open(b, lenient)
		defer d.close()
		if d.PeekKind() != '[' {
			return
		}
		_, err := d.ReadToken()
		for err == nil && d.PeekKind() != ']' {
			var value jsontext.Value
			if value, err = d.ReadValue(); err == nil && !yield(value) {
				return
			}
		}
	}
}

// Scalars yields where each string, names included, and each number of b begins and
// ends. b must be valid JSON.
func Scalars(b []byte) iter.Seq2[int, int] {
	return func(yield func(start, end int) bool) {
		d := open(b, lenient)
		defer d.close()
		for {
			if kind := d.PeekKind(); kind != '"' && kind != '0' {
				if _, err := d.ReadToken(); err != nil {
					return
				}
				continue
			}
			value, err := d.ReadValue()
			end := int(d.InputOffset())
			if err != nil || !yield(end-len(value), end) {
				return
			}
		}
	}
}

// Unquote decodes a string literal of valid JSON.
func Unquote(quoted []byte) string {
	if len(quoted) < 2 {
		return ""
	}
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	s, _ := jsontext.AppendUnquote(nil, quoted) // U+FFFD where a surrogate stands alone
	return string(s)
}

// AppendString appends s as RFC 8785 writes strings. What is no UTF-8 becomes
// U+FFFD.
func AppendString(dst []byte, s string) []byte {
	if isPlain(s) {
		return append(append(append(dst, '"'), s...), '"')
	}
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}

// AppendText appends s as encoding/json writes it, without escapes for HTML. Unlike
// AppendString it escapes U+2028 and U+2029, and U+FFFD where it stands for what is
// no UTF-8: texts in the bodies of records have always been written so.
func AppendText(dst []byte, s string) []byte {
	if isPlain(s) {
		return append(append(append(dst, '"'), s...), '"')
	}
	b := bytes.NewBuffer(dst)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always has a JSON form
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// isPlain reports whether s is written alike everywhere, as most are.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// Form is the RFC 8785 form of b. Names that stand twice, invalid UTF-8, lone
// surrogates, numbers that no float64 comes near and anything after the value are
// refused.
func Form(b []byte) ([]byte, error) {
	form, err := jsontext.AppendFormat(make([]byte, 0, len(b)), b, canonical...)
	if err != nil {
		if _, fault := Decode(b, MaxDepth); fault != nil {
			err = fault // which says more about where
		}
		return nil, err
	}
	// jsontext writes the largest float for any number beyond it.
	if bytes.Contains(form, []byte(largest)) {
		if n := changed(b, func(_, form string) bool { return form == "" }); n != nil {
			return nil, n
		}
	}
	return form, nil
}

const largest = "1.7976931348623157e+308"

// Exact is the RFC 8785 form of b, if no number in it has another value then: else
// it returns an [*UnsafeNumber] for the first.
func Exact(b []byte) ([]byte, error) {
	form, err := Form(b)
	if unsafe := (*UnsafeNumber)(nil); err == nil && bytes.Equal(form, b) || err != nil && !errors.As(err, &unsafe) {
		return form, err
	}
	if n := changed(b, func(literal, form string) bool { return form == "" || !SameNumber(literal, form) }); n != nil {
		return nil, n
	}
	return form, nil
}

// changed is the first number in b whose literal and canonical form are bad.
func changed(b []byte, bad func(literal, form string) bool) error {
	d := open(b, lenient)
	defer d.close()
	for {
		t, err := d.ReadToken()
		if err != nil {
			return nil
		}
		if t.Kind() != '0' {
			continue
		}
		if literal := t.String(); bad(literal, canonicalNumber(literal)) {
			return &UnsafeNumber{string(d.StackPointer()), strings.Clone(literal), canonicalNumber(literal)}
		}
	}
}

var (
	// lenient takes what encoding/json takes.
	lenient   = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	strict    = []jsontext.Options{}
	canonical = []jsontext.Options{jsontext.CanonicalizeRawInts(true), jsontext.CanonicalizeRawFloats(true), jsontext.ReorderRawObjects(true)}
)

// decoder reads from memory, without copying it.
type decoder struct {
	jsontext.Decoder
	in bytes.Buffer
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

func open(b []byte, options []jsontext.Options) *decoder {
	d := decoders.Get().(*decoder)
	d.in = *bytes.NewBuffer(b)
	d.Reset(&d.in, options...)
	return d
}

func (d *decoder) close() { decoders.Put(d) }

// syntax says where a text is no JSON. err is nil where another value follows.
func (d *decoder) syntax(err error) error {
	if e := new(jsontext.SyntacticError); errors.As(err, &e) {
		return SyntaxError(e.ByteOffset)
	}
	return SyntaxError(d.InputOffset())
}

// verbatim are the options under which a text keeps everything but its white space.
var verbatim = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))

// Compact is a text without the white space between its tokens.
func Compact(b []byte) ([]byte, error) {
	return jsontext.AppendFormat(make([]byte, 0, len(b)), b, verbatim)
}
