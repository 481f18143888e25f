package pb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// text reads a string.
func (r *reader) text() (string, error) {
	raw, err := r.quoted()
	if err != nil {
		return "", err
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1]), nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", r.fault("no valid JSON: " + err.Error())
	}
	return s, nil
}

// quoted reads a string and leaves it as it is written.
func (r *reader) quoted() ([]byte, error) {
	if r.peek() != '"' {
		return nil, r.lost()
	}
	raw := r.rest
	escapes := false
	for i := 1; i < len(raw); i++ {
		switch c := raw[i]; {
		case c == '"':
			raw, r.rest = raw[:i+1], raw[i+1:]
			return raw, r.checkText(raw, escapes)
		case c < ' ':
			r.rest = raw[i:]
			return nil, r.lost()
		case c == '\\':
			escapes = true
			width := escapeWidth(raw[i:])
			if width == 0 {
				r.rest = raw[min(i+1, len(raw)):]
				return nil, r.lost()
			}
			i += width - 1
		}
	}
	r.rest = nil
	return nil, r.lost()
}

// Escapes within a string.
const (
	shortEscape = len(`\n`)
	longEscape  = len(`\uXXXX`)
)

// escapeWidth is the length of the escape that b begins with; 0 is that it is none.
func escapeWidth(b []byte) int {
	switch {
	case len(b) < shortEscape:
		return 0
	case bytes.IndexByte([]byte(`"\/bfnrt`), b[1]) >= 0:
		return shortEscape
	case b[1] != 'u' || len(b) < longEscape:
		return 0
	}
	if _, err := strconv.ParseUint(string(b[shortEscape:longEscape]), 16, 16); err != nil {
		return 0
	}
	return longEscape
}

// checkText finds what would become U+FFFD by being decoded: a text must be what was
// sent.
func (r *reader) checkText(raw []byte, escapes bool) error {
	if !utf8.Valid(raw) {
		return r.fault("the text is not valid UTF-8")
	}
	for escapes {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return nil
		}
		first, width := escaped(raw[i:])
		if utf16.IsSurrogate(first) {
			second, more := escaped(raw[i+width:])
			if utf16.DecodeRune(first, second) == utf8.RuneError {
				return r.fault(fmt.Sprintf(`the text has half a character, \u%04x`, first))
			}
			width += more
		}
		raw = raw[i+width:]
	}
	return nil
}

// escaped is the code unit of the escape \uXXXX that b begins with, 0 of any other,
// and the length of the escape.
func escaped(b []byte) (unit rune, width int) {
	if len(b) == 0 || b[0] != '\\' {
		return 0, 0
	}
	if width = escapeWidth(b); width == longEscape {
		n, _ := strconv.ParseUint(string(b[shortEscape:longEscape]), 16, 16)
		unit = rune(n)
	}
	return unit, width
}

// number reads a number and leaves it as it is written.
func (r *reader) number() (string, error) {
	r.peek()
	start := r.rest
	if len(r.rest) > 0 && r.rest[0] == '-' {
		r.rest = r.rest[1:]
	}
	if len(r.rest) > 0 && r.rest[0] == '0' {
		r.rest = r.rest[1:]
	} else if !r.digits() {
		return "", r.lost()
	}
	if len(r.rest) > 0 && r.rest[0] == '.' {
		r.rest = r.rest[1:]
		if !r.digits() {
			return "", r.lost()
		}
	}
	if len(r.rest) > 0 && (r.rest[0] == 'e' || r.rest[0] == 'E') {
		r.rest = r.rest[1:]
		if len(r.rest) > 0 && (r.rest[0] == '+' || r.rest[0] == '-') {
			r.rest = r.rest[1:]
		}
		if !r.digits() {
			return "", r.lost()
		}
	}
	return string(start[:len(start)-len(r.rest)]), nil
}

// digits reads at least one.
func (r *reader) digits() bool {
	n := 0
	for n < len(r.rest) && '0' <= r.rest[n] && r.rest[n] <= '9' {
		n++
	}
	r.rest = r.rest[n:]
	return n > 0
}
