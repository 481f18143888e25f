package flow

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/tipstaff/tipstaff/canon"
)

// Bodies are read as the engine writes them, without reflection, which dominated loading and
// replaying. What was written otherwise, or says more, goes the ordinary way: a reader that
// gives up has decided nothing.

// ReadEffect reads the body of an effect.intended, failed, suspended or finished.
func ReadEffect(body json.RawMessage) (b Effect, err error) {
	if !eachMember(body, b.member) {
		b = Effect{}
		err = json.Unmarshal(body, &b)
	}
	return b, err
}

func (b *Effect) member(name, value []byte) (ok bool) {
	switch string(name) {
	case "name":
		return plainText(value, &b.Name)
	case "class":
		return plainText(value, &b.Class)
	case "attempt":
		var n int64
		ok = plainNumber(value, &n)
		b.Attempt = int(n)
		return ok && int64(b.Attempt) == n
	case "digest":
		return plainText(value, &b.Digest)
	case "input":
		b.Input = bytes.Clone(value)
	case "reserve":
		return plainUse(value, &b.Reserve)
	case "error":
		return json.Unmarshal(value, &b.Error) == nil
	case "value":
		b.Value = bytes.Clone(value)
	case "ms":
		b.Ms = new(int64)
		return plainNumber(value, b.Ms)
	case "use":
		return plainUse(value, &b.Use)
	case "wanted":
		return plainUse(value, &b.Wanted)
	case "by":
		return plainText(value, &b.By)
	default:
		return false
	}
	return true
}

// eachMember calls take for the members of an object that was written compactly, and
// reports whether b is one and all of it was taken.
func eachMember(b []byte, take func(name, value []byte) bool) bool {
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
		n, err := canon.End(b[at:])
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

// plainText takes a text without escapes.
func plainText[T ~string](value []byte, into *T) bool {
	if len(value) < 2 || value[0] != '"' || *into != "" {
		return false
	}
	inner := value[1 : len(value)-1]
	*into = T(inner)
	return isPlain(inner)
}

func isPlain(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c == '"' || c == '\\' || c > '~' {
			return false
		}
	}
	return true
}

func plainNumber(value []byte, into *int64) bool {
	n, err := strconv.ParseInt(string(value), 10, 64)
	*into = n
	return err == nil && (len(value) == 1 || value[0] >= '1' && value[0] <= '9')
}

func plainUse(value []byte, into *Use) bool {
	if *into != nil {
		return false
	}
	*into = Use{}
	return eachMember(value, func(name, value []byte) bool {
		var n int64
		ok := plainNumber(value, &n)
		(*into)[string(name)] = n
		return ok && isPlain(name)
	})
}
