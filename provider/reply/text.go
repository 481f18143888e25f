package reply

import (
	"encoding/json"
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// joiner puts text together that arrives as JSON strings, piece by piece, where a
// piece may end in the middle of a character: after half of a surrogate pair, or
// between the bytes of one that a server did not escape. A JSON decoder would put
// replacement characters for both halves, so the raw JSON is read instead. What the
// joiner gives out is valid UTF-8 at every moment.
type joiner struct {
	high rune   // first half of a surrogate pair; 0: none
	tail []byte // beginning of a character
}

var errNoText = errors.New("a piece of text is not a JSON string")

// add takes the next piece, as raw JSON, and returns the whole characters so far.
// null and absence are no text.
func (j *joiner) add(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	if len(raw) < 2 || raw[0] != '"' || raw[len(raw)-1] != '"' {
		return "", errNoText
	}
	out, err := j.decode(j.tail, raw[1:len(raw)-1])
	if err != nil {
		return "", err
	}
	whole := len(out) - incomplete(out)
	text := valid(out[:whole])
	j.tail = append([]byte(nil), out[whole:]...)
	return text, nil
}

// end gives what is left of a character that was never completed.
func (j *joiner) end() string {
	left := j.high != 0 || len(j.tail) > 0
	*j = joiner{}
	if left {
		return string(utf8.RuneError)
	}
	return ""
}

// decode appends the characters of a string's inside.
func (j *joiner) decode(out, s []byte) ([]byte, error) {
	for len(s) > 0 {
		if s[0] != '\\' {
			out = j.drop(out)
			out, s = append(out, s[0]), s[1:]
			continue
		}
		if len(s) < 2 {
			return nil, errNoText
		}
		if s[1] != 'u' {
			c, ok := escapes[s[1]]
			if !ok {
				return nil, errNoText
			}
			out = j.drop(out)
			out, s = append(out, c), s[2:]
			continue
		}
		if len(s) < 6 {
			return nil, errNoText
		}
		unit, err := strconv.ParseUint(string(s[2:6]), 16, 16)
		if err != nil {
			return nil, errNoText
		}
		out, s = j.unit(out, rune(unit)), s[6:]
	}
	return out, nil
}

var escapes = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unit appends an escaped UTF-16 unit, keeping the first half of a pair until the
// second comes.
func (j *joiner) unit(out []byte, u rune) []byte {
	if j.high != 0 {
		if pair := utf16.DecodeRune(j.high, u); pair != utf8.RuneError {
			j.high = 0
			return utf8.AppendRune(out, pair)
		}
		out = j.drop(out)
	}
	if u >= 0xd800 && u < 0xdc00 {
		j.high = u
		return out
	}
	return utf8.AppendRune(out, u) // a lone second half becomes the replacement character
}

// drop gives up on a first half that something else follows.
func (j *joiner) drop(out []byte) []byte {
	if j.high == 0 {
		return out
	}
	j.high = 0
	return utf8.AppendRune(out, utf8.RuneError)
}

// incomplete is how many bytes at the end of b begin a character that is not whole.
func incomplete(b []byte) int {
	for n := 1; n <= min(len(b), utf8.UTFMax-1); n++ {
		if last := b[len(b)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// valid replaces every byte that belongs to no character.
func valid(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	return string([]rune(string(b)))
}
