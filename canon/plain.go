package canon

import "bytes"

// Plain calls take for the members of an object that was written compactly, and reports
// whether b is one and all of it was taken. A name is given as it stands in b. Whoever is told
// no reads the object another way: it is not said to be wrong.
func Plain(b []byte, take func(name, value []byte) bool) bool {
	if len(b) == 0 || b[0] != '{' {
		return false
	}
	for at := 1; at < len(b) && b[at] == '"'; at++ {
		n := bytes.IndexByte(b[at+1:], '"')
		if n < 0 {
			return false
		}
		name := b[at+1 : at+1+n]
		if at += n + 3; at >= len(b) || b[at-1] != ':' || b[at] <= ' ' {
			return false
		}
		n, err := End(b[at:])
		if err != nil || at+n >= len(b) || !take(name, b[at:at+n]) {
			return false
		}
		at += n
		switch b[at] {
		case '}':
			return at == len(b)-1
		case ',':
		default:
			return false
		}
	}
	return false
}

// IsPlain reports whether a text stands in JSON as it is: printable ASCII without escapes.
func IsPlain(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c == '"' || c == '\\' || c > '~' {
			return false
		}
	}
	return true
}
