package provider

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff/canon"
)

// maxEvent is how long one line, and the data of one event, may be: many times the
// longest answer. What is longer must not fill the memory.
const maxEvent = 8 << 20

var errTooLong = fmt.Errorf("an event is longer than %d MiB", maxEvent>>20)

// serverSentEvents are the data of a stream's events, taken apart as the standard of
// server-sent events says, and the error that ends them, if one does. An event that
// its empty line does not end is not whole and left out. Names and ids of events are
// not read: every format says in the data what an event is.
func serverSentEvents(body io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		lines := lineReader{from: bufio.NewReader(body)}
		var data []byte // nil: the event has none so far, and is no event
		for first := true; ; first = false {
			line, err := lines.next()
			if err == nil && len(data)+len(line) > maxEvent {
				err = errTooLong
			}
			if err != nil {
				if err != io.EOF {
					yield(nil, err)
				}
				return
			}
			if first {
				line = bytes.TrimPrefix(line, []byte("\uFEFF"))
			}
			if len(line) == 0 {
				if data != nil && !yield(data, nil) {
					return
				}
				data = nil
				continue
			}
			data = addData(data, line)
		}
	}
}

// addData adds what a line holds of an event's data. A comment has no name; of the
// fields all others are of no use here.
func addData(data, line []byte) []byte {
	name, value, _ := bytes.Cut(line, []byte(":"))
	if string(name) != "data" {
		return data
	}
	if data == nil {
		data = []byte{}
	} else {
		data = append(data, '\n')
	}
	return append(data, bytes.TrimPrefix(value, []byte(" "))...)
}

// lineReader reads lines that end with CR, LF or both.
type lineReader struct {
	from *bufio.Reader
	line []byte
	cr   bool // the last byte was one: an LF belongs to it
}

// next is the next line without its end, valid until the one after it. It does not
// wait for the byte after a CR, which may come with the next event only. What
// follows the last end of a line is no line.
func (r *lineReader) next() ([]byte, error) {
	for r.line = r.line[:0]; ; {
		if _, err := r.from.Peek(1); err != nil { // waits for something to read
			return nil, err
		}
		here, _ := r.from.Peek(r.from.Buffered())
		if r.cr && here[0] == '\n' {
			here = here[1:]
			_, _ = r.from.Discard(1)
		}
		part, _, lf := bytes.Cut(here, []byte("\n"))
		part, _, r.cr = bytes.Cut(part, []byte("\r"))
		if len(r.line)+len(part) > maxEvent {
			return nil, errTooLong
		}
		r.line = append(r.line, part...)
		_, _ = r.from.Discard(len(part))
		if r.cr || lf {
			_, _ = r.from.Discard(1)
			return r.line, nil
		}
	}
}

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
