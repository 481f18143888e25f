package tipstaff

import (
	"bytes"
	"encoding/json"
)

// Members gives each the members of the body, one after the other and undecoded,
// until it returns false. It reports whether the body is one valid object and each
// always returned true. Whoever needs little of a body reads it several times as
// fast as by decoding all of it.
func (e *Event) Members(each func(name string, value json.RawMessage) bool) bool {
	p := memberScanner{rest: e.Body}
	for p.next() {
		if !each(string(p.name), p.value) {
			return false
		}
	}
	return p.object && !p.invalid
}

// memberScanner walks the members of one JSON object, without looking at their
// values more than it must to see that they are valid: a record's body may be
// large, and every surface reads many records.
type memberScanner struct {
	rest        []byte
	object      bool // an object has begun
	invalid     bool // it is not JSON, as far as was read
	name, value []byte
}

// next reads a member. After the last one everything has been seen to be JSON, or
// it is marked as invalid.
func (p *memberScanner) next() bool {
	switch c := p.peek(); {
	case !p.object && c == '{':
		p.object = true
		p.rest = p.rest[1:]
		if p.peek() == '}' {
			return p.end()
		}
	case p.object && c == ',':
		p.rest = p.rest[1:]
		p.peek()
	case p.object && c == '}':
		return p.end()
	default: // another value, or nothing
		p.invalid = p.object || !p.take(&p.value, valueEnd(p.rest, 0)) || p.peek() != 0 || len(p.rest) > 0
		return false
	}
	return p.member()
}

// end is what follows the closing brace: nothing.
func (p *memberScanner) end() bool {
	p.rest = p.rest[1:]
	p.peek()
	p.invalid = len(p.rest) > 0
	return false
}

func (p *memberScanner) member() bool {
	ok := p.take(&p.name, stringEnd(p.rest)) && p.peek() == ':'
	if ok {
		p.name, p.rest = p.name[1:len(p.name)-1], p.rest[1:] // no member of ours has an escape in its name
		p.peek()
		ok = p.take(&p.value, valueEnd(p.rest, 0))
	}
	p.invalid = !ok
	return ok
}

// peek skips white space and returns the byte after it, 0 at the end.
func (p *memberScanner) peek() byte {
	p.rest = p.rest[spaceEnd(p.rest):]
	if len(p.rest) == 0 {
		return 0
	}
	return p.rest[0]
}

// take cuts off n bytes; with none there is nothing valid to cut off.
func (p *memberScanner) take(to *[]byte, n int) bool {
	if n > 0 {
		*to, p.rest = p.rest[:n:n], p.rest[n:]
	}
	return n > 0
}

func spaceEnd(b []byte) (n int) {
	for n < len(b) && (b[n] == ' ' || b[n] == '\t' || b[n] == '\r' || b[n] == '\n') {
		n++
	}
	return n
}

// maxNesting is as deep as encoding/json goes.
const maxNesting = 10_000

// valueEnd is the length of the valid value that b begins with, 0 if there is
// none.
func valueEnd(b []byte, depth int) int {
	if len(b) == 0 || depth > maxNesting {
		return 0
	}
	switch b[0] {
	case '"':
		return stringEnd(b)
	case '{', '[':
		return containerEnd(b, depth)
	}
	for _, word := range [...]string{"null", "true", "false"} {
		if bytes.HasPrefix(b, []byte(word)) {
			return len(word)
		}
	}
	return numberEnd(b)
}

func stringEnd(b []byte) int {
	if len(b) == 0 || b[0] != '"' {
		return 0
	}
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return 0
		case c == '\\':
			if i++; i == len(b) {
				return 0
			}
			switch b[i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				if i+4 >= len(b) || !isHex(b[i+1:i+5]) {
					return 0
				}
				i += 4
			default:
				return 0
			}
		}
	}
	return 0
}

func isHex(b []byte) bool {
	for _, c := range b {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return false
		}
	}
	return true
}

func containerEnd(b []byte, depth int) int {
	object := b[0] == '{'
	i := 1 + spaceEnd(b[1:])
	if i < len(b) && b[i] == b[0]+2 { // the closing mark of either kind
		return i + 1
	}
	for {
		if object {
			n := stringEnd(b[i:])
			i += n
			i += spaceEnd(b[i:])
			if n == 0 || i == len(b) || b[i] != ':' {
				return 0
			}
			i++
			i += spaceEnd(b[i:])
		}
		n := valueEnd(b[i:], depth+1)
		i += n
		i += spaceEnd(b[i:])
		if n == 0 || i == len(b) {
			return 0
		}
		switch b[i] {
		case b[0] + 2:
			return i + 1
		case ',':
			i++
			i += spaceEnd(b[i:])
		default:
			return 0
		}
	}
}

func numberEnd(b []byte) int {
	i := 0
	if b[0] == '-' {
		i++
	}
	whole := digitsEnd(b[i:])
	if whole == 0 || whole > 1 && b[i] == '0' {
		return 0
	}
	i += whole
	if i < len(b) && b[i] == '.' {
		n := digitsEnd(b[i+1:])
		if n == 0 {
			return 0
		}
		i += 1 + n
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		n := digitsEnd(b[i:])
		if n == 0 {
			return 0
		}
		i += n
	}
	return i
}

func digitsEnd(b []byte) (n int) {
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return n
}
