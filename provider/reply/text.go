package reply

import (
	"encoding/json"
	"errors"
	"regexp"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff/canon"
)

// joiner puts text together that arrives as JSON strings, piece by piece, where a
// piece may end in the middle of a character: after half of a surrogate pair, or
// between the bytes of one that a server did not escape. A JSON decoder would put
// replacement characters for both halves, so such an end is kept, as raw JSON, for
// the next piece. What the joiner gives out is valid UTF-8 at every moment.
type joiner struct{ tail []byte }

var errNoText = errors.New("a piece of text is not a JSON string")

// highSurrogate is a string that ends with an escaped first half of a pair.
var highSurrogate = regexp.MustCompile(`(?:^|[^\\])(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2})$`)

// add takes the next piece, as raw JSON, and returns the whole characters so far.
// null and absence are no text.
func (j *joiner) add(raw json.RawMessage) (string, error) {
	if isNull(raw) {
		return "", nil
	}
	if raw[0] != '"' || raw[len(raw)-1] != '"' || !json.Valid(raw) {
		return "", errNoText
	}
	text := append(j.tail, raw[1:len(raw)-1]...)
	whole := len(text) - incomplete(text)
	if half := highSurrogate.FindSubmatchIndex(text); half != nil {
		whole = half[2]
	}
	j.tail = append([]byte(nil), text[whole:]...)
	return canon.Unquote([]byte(`"` + string(text[:whole]) + `"`)), nil
}

// end gives what is left of a character that was never completed.
func (j *joiner) end() string {
	left := len(j.tail) > 0
	*j = joiner{}
	if left {
		return string(utf8.RuneError)
	}
	return ""
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
