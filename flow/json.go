package flow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
)

// JSON encodes v compactly, map keys sorted, without HTML escapes: the form in
// which inputs and event bodies are digested. It panics if v cannot be encoded,
// which is a fault of the program.
func JSON(v any) json.RawMessage {
	if raw, ok := v.(json.RawMessage); ok && raw != nil {
		var b bytes.Buffer
		if err := json.Compact(&b, raw); err != nil {
			panic(fmt.Sprintf("flow: not JSON: %v", err))
		}
		return b.Bytes()
	}
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	e.Reset()
	if a, ok := v.(Appender); ok {
		e.own = a.AppendJSON(e.own[:0])
		return bytes.Clone(e.own)
	}
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("flow: cannot be encoded: %v", err))
	}
	return bytes.Clone(bytes.TrimSuffix(e.Bytes(), []byte("\n")))
}

// encoder is an encoder and what it writes to. A step encodes some ten small
// values, and to grow a new buffer for each took longer than to fill it.
type encoder struct {
	bytes.Buffer
	*json.Encoder
	own []byte // for what writes itself
}

var encoders = sync.Pool{New: func() any {
	e := &encoder{}
	e.Encoder = json.NewEncoder(&e.Buffer)
	e.SetEscapeHTML(false)
	return e
}}

// Do performs a call and decodes its value.
func Do[T any](fc Context, c Call) (T, error) {
	var v T
	r, err := fc.Do(c)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(r.Value, &v); err != nil {
		return v, &Error{Code: CodeInternal, Message: fmt.Sprintf("the result of %s is not what was expected: %v", c.Name, err)}
	}
	return v, nil
}

// Each runs a branch for every item; name gives a branch's name, "" its index.
func Each[T any](fc Context, g Group, items []T, name func(int, T) string, run func(Context, T) error) error {
	branches := make([]Branch, len(items))
	for i, item := range items {
		branches[i].Run = func(fc Context) error { return run(fc, item) }
		if name != nil {
			branches[i].Name = name(i, item)
		}
	}
	return fc.Go(g, branches...)
}

func (u Use) names() []string { return u.appendNames(make([]string, 0, len(u))) }

// appendNames appends the names, sorted among themselves.
func (u Use) appendNames(names []string) []string {
	before := len(names)
	for name := range u {
		names = append(names, name)
	}
	slices.Sort(names[before:])
	return names
}

// maxNesting bounds the depth of a value: what is deeper is no honest result.
const maxNesting = 1000

// validJSON is json.Valid for values that stand in records, several times as
// fast: every result passes it.
func validJSON(b []byte) bool {
	rest, ok := skipValue(b, 0)
	return ok && len(skipSpace(rest)) == 0
}

func skipSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\n' || b[0] == '\t' || b[0] == '\r') {
		b = b[1:]
	}
	return b
}

// skipValue returns what follows the first value of b.
func skipValue(b []byte, depth int) ([]byte, bool) {
	b = skipSpace(b)
	if len(b) == 0 || depth > maxNesting {
		return nil, false
	}
	switch c := b[0]; {
	case c == '"':
		return skipString(b)
	case c == '{':
		return skipMembers(b[1:], '}', depth)
	case c == '[':
		return skipMembers(b[1:], ']', depth)
	case c == '-' || '0' <= c && c <= '9':
		return skipNumber(b)
	}
	for _, word := range [...]string{"null", "true", "false"} {
		if rest, ok := bytes.CutPrefix(b, []byte(word)); ok {
			return rest, true
		}
	}
	return nil, false
}

// skipMembers reads the rest of an object or array up to its closing mark.
func skipMembers(b []byte, end byte, depth int) ([]byte, bool) {
	if b = skipSpace(b); len(b) > 0 && b[0] == end {
		return b[1:], true
	}
	for ok := true; ; {
		if end == '}' {
			if b, ok = skipName(b); !ok {
				return nil, false
			}
		}
		if b, ok = skipValue(b, depth+1); !ok {
			return nil, false
		}
		if b = skipSpace(b); len(b) == 0 {
			return nil, false
		}
		switch b[0] {
		case end:
			return b[1:], true
		case ',':
			b = b[1:]
		default:
			return nil, false
		}
	}
}

// skipName reads a member's name and its colon.
func skipName(b []byte) ([]byte, bool) {
	if b = skipSpace(b); len(b) == 0 || b[0] != '"' {
		return nil, false
	}
	b, ok := skipString(b)
	if b = skipSpace(b); !ok || len(b) == 0 || b[0] != ':' {
		return nil, false
	}
	return b[1:], true
}

func skipString(b []byte) ([]byte, bool) {
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return b[i+1:], true
		case c < 0x20:
			return nil, false
		case c == '\\':
			i++
			if i >= len(b) {
				return nil, false
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if i+4 >= len(b) || !isHex(b[i+1:i+5]) { // which are then passed like any others
					return nil, false
				}
			default:
				return nil, false
			}
		}
	}
	return nil, false
}

func isHex(b []byte) bool {
	for _, c := range b {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
			return false
		}
	}
	return true
}

func skipNumber(b []byte) ([]byte, bool) {
	if b[0] == '-' {
		b = b[1:]
	}
	whole := digits(b)
	if whole == 0 || whole > 1 && b[0] == '0' {
		return nil, false
	}
	b = b[whole:]
	if len(b) > 0 && b[0] == '.' {
		n := digits(b[1:])
		if n == 0 {
			return nil, false
		}
		b = b[1+n:]
	}
	if len(b) > 0 && (b[0] == 'e' || b[0] == 'E') {
		b = b[1:]
		if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
			b = b[1:]
		}
		n := digits(b)
		if n == 0 {
			return nil, false
		}
		b = b[n:]
	}
	return b, true
}

func digits(b []byte) (n int) {
	for n < len(b) && '0' <= b[n] && b[n] <= '9' {
		n++
	}
	return n
}
