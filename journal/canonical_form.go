package journal

import (
	"bytes"
	"unicode/utf8"
)

// IsCanonical reports whether b is surely in RFC 8785 form already, which most of
// what is asked about is: it was encoded with sorted names a moment ago. Of some
// canonical texts it cannot say so, those with names beyond ASCII, fractions or
// large numbers: false means only that the way through the canonicaliser is
// needed.
func IsCanonical(b []byte) bool {
	end, ok := canonicalValue(b, 0, 0)
	return ok && end == len(b) && utf8.Valid(b)
}

// canonicalValue returns the end of the canonical value that starts at i.
func canonicalValue(b []byte, i, depth int) (end int, ok bool) {
	if i >= len(b) || depth > maxDepth {
		return i, false
	}
	switch c := b[i]; c {
	case '"':
		return canonicalText(b, i)
	case '{':
		return canonicalObject(b, i+1, depth)
	case '[':
		return canonicalArray(b, i+1, depth)
	case 't', 'f', 'n':
		end, err := (&scanner{b: b}).value(i)
		return end, err == nil
	}
	return canonicalNumber(b, i)
}

func canonicalObject(b []byte, i, depth int) (end int, ok bool) {
	if i < len(b) && b[i] == '}' {
		return i + 1, true
	}
	var before []byte
	for first := true; ; first = false {
		start := i
		if i, ok = canonicalText(b, i); !ok || i >= len(b) || b[i] != ':' {
			return i, false
		}
		name := b[start+1 : i-1]
		if !plainASCII(name) || !first && bytes.Compare(before, name) >= 0 {
			return i, false
		}
		before = name
		if i, ok = canonicalValue(b, i+1, depth+1); !ok || i >= len(b) {
			return i, false
		}
		switch b[i] {
		case '}':
			return i + 1, true
		case ',':
			i++
		default:
			return i, false
		}
	}
}

func canonicalArray(b []byte, i, depth int) (end int, ok bool) {
	if i < len(b) && b[i] == ']' {
		return i + 1, true
	}
	for {
		if i, ok = canonicalValue(b, i, depth+1); !ok || i >= len(b) {
			return i, false
		}
		switch b[i] {
		case ']':
			return i + 1, true
		case ',':
			i++
		default:
			return i, false
		}
	}
}

// canonicalText: nothing is escaped that need not be, and in no other way.
func canonicalText(b []byte, i int) (end int, ok bool) {
	if i >= len(b) || b[i] != '"' {
		return i, false
	}
	for i++; i < len(b); i++ {
		switch {
		case plainChar[b[i]]:
		case b[i] == '"':
			return i + 1, true
		case b[i] == '\\' && i+1 < len(b) && bytes.IndexByte([]byte(`"\bfnrt`), b[i+1]) >= 0:
			i++
		default:
			return i, false
		}
	}
	return i, false
}

// plainASCII: such names sort by bytes as they do by UTF-16.
func plainASCII(name []byte) bool {
	for _, c := range name {
		if c > '~' || c == '\\' {
			return false
		}
	}
	return true
}

// canonicalNumber: a whole number in its shortest form, which a float64 keeps.
func canonicalNumber(b []byte, i int) (end int, ok bool) {
	negative := b[i] == '-'
	if negative {
		i++
	}
	start := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	digits := b[start:i]
	switch {
	case len(digits) == 0 || len(digits) > 15:
		return i, false
	case digits[0] == '0' && (len(digits) > 1 || negative):
		return i, false
	}
	return i, i == len(b) || b[i] == ',' || b[i] == '}' || b[i] == ']'
}
