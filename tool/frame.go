package tool

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/tipstaff/tipstaff/workspace"
)

const (
	// maxFrame is the longest message that is kept in memory: twice the largest
	// result, for what escapes and base64 add to it.
	maxFrame = 2*workspace.MaxResult + 1<<20
	// maxSkipped is the longest message that is read at all. A server that sends
	// more in one line is not waited for any longer.
	maxSkipped = 512 << 20
)

// lineReader reads lines of limited length.
type lineReader struct {
	in    *bufio.Reader
	limit int
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{bufio.NewReaderSize(r, 64<<10), maxFrame}
}

// line returns the next line with its line feed. The last one may have none: its error
// is io.EOF. A line that is too long is read past, and its error is an *oversized: the
// line after it can still be read.
func (r *lineReader) line() ([]byte, error) {
	var line [][]byte
	size := 0
	for {
		piece, err := r.in.ReadSlice('\n')
		if size += len(piece); size > r.limit {
			return nil, r.skip(append(line, piece), size, err)
		}
		line = append(line, bytes.Clone(piece))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.Join(line, nil), err
		}
	}
}

// message returns the next line that is not blank, without the space around it.
func (r *lineReader) message() ([]byte, error) {
	for {
		line, err := r.line()
		line = bytes.TrimSpace(line)
		switch {
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, fmt.Errorf("the server ended in the middle of a message: %w", io.ErrUnexpectedEOF)
		case err != nil:
			return nil, err
		case len(line) > 0:
			return line, nil
		}
	}
}

// skip reads past a line of which size bytes were read, and keeps both its ends. err is
// what the last piece ended with.
func (r *lineReader) skip(line [][]byte, size int, err error) error {
	o := &oversized{head: bytes.Clone(line[0][:min(len(line[0]), keptEnd)])}
	for _, piece := range line {
		o.end(piece)
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		var piece []byte
		piece, err = r.in.ReadSlice('\n')
		o.end(piece)
		if size += len(piece); size > maxSkipped {
			return fmt.Errorf("the server sent more than %d bytes in one message", maxSkipped)
		}
	}
	if err != nil {
		return err
	}
	o.size = size
	return o
}

// oversized is a message that was read past and not kept.
type oversized struct {
	head, tail []byte // its first and last bytes
	size       int
}

const keptEnd = 256 // bytes of each end

func (o *oversized) Error() string {
	return fmt.Sprintf("the server sent a message of %d bytes: %d are the most", o.size, maxFrame)
}

// end takes note of another piece.
func (o *oversized) end(piece []byte) {
	o.tail = append(o.tail, piece[max(0, len(piece)-keptEnd):]...)
	o.tail = o.tail[max(0, len(o.tail)-keptEnd):]
}

// A reply has three members. Its id stands before or after the one that is long, at most
// with jsonrpc between it and the end of the message.
var (
	idFirst = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*([0-9]+)\s*,`)
	idLast  = regexp.MustCompile(`,\s*"id"\s*:\s*([0-9]+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
)

// call returns the id of the call that the message replies to. Those of our calls are
// numbers.
func (o *oversized) call() (id jsonrpc.ID, ok bool) {
	found := idFirst.FindSubmatch(o.head)
	if found == nil {
		found = idLast.FindSubmatch(o.tail)
	}
	if found == nil {
		return id, false
	}
	n, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		return id, false
	}
	id, err = jsonrpc.MakeID(n)
	return id, err == nil
}

// eventReader passes a stream of server-sent events on as it came, event by event, and
// shows the data of each before. An event that is too long is read past; what stands in
// its place is up to instead.
type eventReader struct {
	lines   *lineReader
	show    func(data []byte)
	instead func(size int) []byte // data of an event to pass on; nil: none

	ready bytes.Buffer // to be read
	err   error
}

func (r *eventReader) Read(p []byte) (int, error) {
	for r.ready.Len() == 0 {
		if r.err != nil {
			return 0, r.err
		}
		r.err = r.event()
	}
	return r.ready.Read(p)
}

// event reads one event: lines up to a blank one, or to the end of the stream.
func (r *eventReader) event() error {
	var data []byte
	size, ofMessages := 0, true
	for {
		line, err := r.lines.line()
		text := bytes.TrimRight(line, "\r\n")
		ended := err != nil || len(text) == 0
		if large := (*oversized)(nil); errors.As(err, &large) {
			size, ended = size+large.size, false
		}
		if size += len(line); size <= r.lines.limit {
			r.ready.Write(line)
		}
		name, value, _ := bytes.Cut(text, []byte(":"))
		switch value = bytes.TrimSpace(value); string(name) {
		case "data":
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, value...)
		case "event":
			ofMessages = len(value) == 0 || string(value) == "message"
		}
		if !ended {
			continue
		}
		if size <= r.lines.limit {
			if data != nil && ofMessages {
				r.show(data)
			}
			return err
		}
		r.ready.Reset()
		if data := r.instead(size); data != nil {
			fmt.Fprintf(&r.ready, "data: %s\n\n", data)
		}
		return err
	}
}
