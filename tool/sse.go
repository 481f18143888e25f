package tool

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// eventReader passes a stream of server-sent events on, event by event, and shows
// the data of each before it is passed on. An event too long to be kept is read
// past; what stands in its place is up to instead.
type eventReader struct {
	in      *bufio.Reader
	limit   int
	show    func(data []byte)
	instead func(size int) []byte // data of an event to pass on; nil: none

	ready bytes.Buffer // to be read
	event bytes.Buffer // the event so far, as it came
	size  int          // of an event that is read past; 0: it is not
	err   error
}

func newEventReader(r io.Reader) *eventReader {
	return &eventReader{in: bufio.NewReaderSize(r, 64<<10), limit: maxFrame}
}

func (r *eventReader) Read(p []byte) (int, error) {
	for r.ready.Len() == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.err = r.line()
	}
	return r.ready.Read(p)
}

// line takes one line, or the piece of it that fits into the buffer.
func (r *eventReader) line() error {
	whole := true
	for {
		piece, err := r.in.ReadSlice('\n')
		r.add(piece)
		if errors.Is(err, bufio.ErrBufferFull) {
			whole = false
			continue
		}
		if blank := len(bytes.TrimRight(piece, "\r\n")) == 0; err != nil || whole && blank {
			r.end()
		}
		return err
	}
}

func (r *eventReader) add(piece []byte) {
	switch {
	case r.size > 0:
		r.size += len(piece)
	case r.event.Len()+len(piece) > r.limit:
		r.size = r.event.Len() + len(piece)
		r.event.Reset()
	default:
		r.event.Write(piece)
	}
}

// end is the end of an event.
func (r *eventReader) end() {
	defer func() { r.event.Reset(); r.size = 0 }()
	if r.size > 0 {
		if data := r.instead(r.size); data != nil {
			r.ready.WriteString("data: ")
			r.ready.Write(data)
			r.ready.WriteString("\n\n")
		}
		return
	}
	if data := eventData(r.event.Bytes()); data != nil {
		r.show(data)
	}
	r.ready.Write(r.event.Bytes())
}

// eventData is the data of an event, its lines joined; nil if it has none or is
// no message.
func eventData(event []byte) []byte {
	var data []byte
	for line := range bytes.SplitSeq(event, []byte("\n")) {
		name, value, _ := bytes.Cut(bytes.TrimRight(line, "\r"), []byte(":"))
		value = bytes.TrimSpace(value)
		switch string(name) {
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, value...)
		case "event":
			if len(value) > 0 && string(value) != "message" {
				return nil
			}
		}
	}
	return data
}
