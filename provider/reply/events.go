package reply

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"iter"
)

// maxEvent is how long one line, and the data of one event, may be: many times the
// longest answer. What is longer must not fill the memory.
const maxEvent = 8 << 20

var errTooLong = fmt.Errorf("an event is longer than %d MiB", maxEvent>>20)

// Events are the data of a stream's events, taken apart as the standard of
// server-sent events says, and the error that ends them, if one does. An event that
// its empty line does not end is not whole and left out. Names and ids of events are
// not read: both formats say in the data what an event is.
func Events(body io.Reader) iter.Seq2[[]byte, error] {
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
