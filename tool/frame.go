package tool

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

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

// frames reads messages that end in a line feed.
type frames struct {
	in    *bufio.Reader
	limit int
}

func newFrames(r io.Reader) *frames { return &frames{bufio.NewReaderSize(r, 64<<10), maxFrame} }

// oversized is a message that was read past and not kept.
type oversized struct {
	id   []byte // of the request it replies to, as JSON; nil: it has none
	size int
}

func (o *oversized) Error() string {
	return fmt.Sprintf("the server sent a message of %d bytes: %d are the most", o.size, maxFrame)
}

// next is the next message that is not blank. Its error is an *oversized where
// one was read past: the message after it can still be read.
func (f *frames) next() ([]byte, error) {
	for {
		line, err := f.line()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}

func (f *frames) line() ([]byte, error) {
	var line [][]byte
	size := 0
	for {
		piece, err := f.in.ReadSlice('\n')
		if size += len(piece); size > f.limit {
			return nil, f.skip(append(line, piece), size, err)
		}
		line = append(line, bytes.Clone(piece))
		switch {
		case err == nil:
			return joined(line), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(bytes.TrimSpace(joined(line))) > 0:
			return nil, fmt.Errorf("the server ended in the middle of a message: %w", io.ErrUnexpectedEOF)
		default:
			return nil, err
		}
	}
}

// joined puts a line together; most have one piece.
func joined(line [][]byte) []byte {
	if len(line) == 1 {
		return line[0]
	}
	return bytes.Join(line, nil)
}

// skip reads past a message, keeping nothing of it but its id. line is what was
// read of it, err what the last piece ended with.
func (f *frames) skip(line [][]byte, size int, err error) error {
	var s skimmer
	for _, piece := range line {
		s.read(piece)
	}
	for err != nil {
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		var piece []byte
		piece, err = f.in.ReadSlice('\n')
		s.read(piece)
		if size += len(piece); size > maxSkipped {
			return fmt.Errorf("the server sent more than %d bytes in one message", maxSkipped)
		}
	}
	return &oversized{s.id, size}
}

// skimmer finds the member id of a JSON object in the object's bytes as they pass
// by, in constant memory.
type skimmer struct {
	depth   int
	quoted  bool
	escaped bool
	text    []byte // of the last name or value at depth 1, as far as it may matter
	name    string // the last name at depth 1
	value   bool   // what follows is its value
	id      []byte
}

const maxID = 256 // bytes of an id that are kept

func (s *skimmer) read(data []byte) {
	quote, escape := finder{data, '"', -1}, finder{data, '\\', -1}
	for i := 0; i < len(data); i++ {
		if s.quoted && !s.escaped { // most of a long message is a long text
			end := min(quote.from(i), escape.from(i))
			s.keep(data[i:end])
			if i = end; i == len(data) {
				return
			}
		}
		s.byte(data[i])
	}
}

// finder finds the next of one byte, looking at each byte of the data once.
type finder struct {
	data []byte
	c    byte
	at   int
}

func (f *finder) from(i int) int {
	if f.at < i {
		if f.at = len(f.data); i < len(f.data) {
			if n := bytes.IndexByte(f.data[i:], f.c); n >= 0 {
				f.at = i + n
			}
		}
	}
	return f.at
}

func (s *skimmer) byte(c byte) {
	if s.quoted {
		s.keep([]byte{c})
		switch {
		case s.escaped:
			s.escaped = false
		case c == '\\':
			s.escaped = true
		case c == '"':
			s.quoted = false
		}
		return
	}
	switch c {
	case '{', '[':
		s.depth++
		s.text = s.text[:0]
	case '}', ']':
		s.end()
		s.depth--
	case ',':
		s.end()
	case ':':
		if s.depth == 1 {
			s.name, s.value, s.text = string(s.text), true, s.text[:0]
		}
	case '"':
		s.quoted = true
		s.keep([]byte{c})
	case ' ', '\t', '\r', '\n':
	default:
		s.keep([]byte{c})
	}
}

func (s *skimmer) keep(data []byte) {
	if s.depth == 1 {
		s.text = append(s.text, data[:min(len(data), maxID-len(s.text))]...)
	}
}

// end is the end of a member.
func (s *skimmer) end() {
	if s.depth != 1 {
		return
	}
	if s.value && s.name == `"id"` && len(s.text) > 0 && len(s.text) < maxID {
		s.id = bytes.Clone(s.text)
	}
	s.value, s.text = false, s.text[:0]
}
