package worker

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"

	"github.com/tipstaff/tipstaff/canon"
)

// longest is the size of a line beyond which it is not parsed.
const longest = 16 << 20

const (
	chunk  = 64 << 10 // read at once
	window = 64 << 10 // no credential is longer
)

// lineSink takes the lines of a stream. Lines come with their end, if they have one.
type lineSink interface {
	// line is given a whole line.
	line(raw []byte)
	// piece is given a part of a line that is too long to be held.
	piece(raw []byte, last bool)
	// alive hears of bytes, and when a line of them was whole.
	alive(whole bool)
	// quiet is called when what was written so far has been taken.
	quiet()
}

// readLines reads r to its end. Lines are cleaned as a whole, so that a credential is
// found which was written in two pieces; of a line that is too long to be held, the pieces
// are cut where none is.
func readLines(r io.Reader, clean func([]byte) []byte, to lineSink) error {
	in := bufio.NewReaderSize(noticing{r, to}, chunk)
	var held []byte // of the line that has not ended
	long := false   // pieces of it were handed over
	for {
		part, err := in.ReadSlice('\n')
		ended := err == nil
		switch {
		case ended && len(held) == 0 && !long:
			to.line(clean(part))
		case ended || err != bufio.ErrBufferFull:
			held = append(held, part...)
			if long {
				to.piece(clean(held), true)
			} else if len(held) > 0 {
				to.line(clean(held))
			}
			if cap(held) > 1<<20 {
				held = nil
			}
			held, long = held[:0], false
		default:
			held = append(held, part...)
			if len(held) > longest || long && len(held) > 4*window {
				at := safeCut(held, clean)
				to.piece(clean(held[:at]), false)
				held, long = append(held[:0], held[at:]...), true
				if cap(held) > longest {
					held = bytes.Clone(held)
				}
			}
		}
		if ended {
			to.alive(true)
		}
		if err != nil && err != bufio.ErrBufferFull {
			to.quiet()
			if err == io.EOF {
				return nil
			}
			return err
		}
		if in.Buffered() == 0 {
			to.quiet()
		}
	}
}

// noticing tells a sink of bytes before they are a line.
type noticing struct {
	io.Reader
	to lineSink
}

func (h noticing) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n > 0 {
		h.to.alive(false)
	}
	return n, err
}

// safeCut is where a part of a line can be cut so that no credential is cut with it: both
// sides cleaned are the whole cleaned.
func safeCut(b []byte, clean func([]byte) []byte) int {
	at := len(b) - window
	for range 16 {
		from := max(0, at-window)
		apart := append(bytes.Clone(clean(bytes.Clone(b[from:at]))), clean(bytes.Clone(b[at:]))...)
		if bytes.Equal(apart, clean(bytes.Clone(b[from:]))) {
			break
		}
		at -= 1021 // so that what repeats itself is cut elsewhere
	}
	return at
}

// decode reads JSON leniently: members of an unexpected type are as if they were not
// there, for CLIs change faster than we do. It reports whether b is JSON at all.
func decode(b []byte, into any) bool {
	err := json.Unmarshal(b, into)
	var mismatch *json.UnmarshalTypeError
	return err == nil || errors.As(err, &mismatch)
}

// members calls each for the members of an object. It reports whether b is one, and valid.
func members(b []byte, each func(name string, value []byte)) bool {
	if b = bytes.TrimLeft(b, " \t\r"); len(b) == 0 || b[0] != '{' {
		return false
	}
	for m, err := range canon.Members(b) {
		if err != nil {
			return false
		}
		each(m.Name, b[m.Start:m.End])
	}
	return true
}

// jsonText is a string of JSON; "" of anything else.
func jsonText(value []byte) string {
	if len(value) == 0 || value[0] != '"' {
		return ""
	}
	return canon.Unquote(value)
}

// blocks are the content of a message: a text, or a list of blocks.
type blocks []block

type block struct {
	kind    string
	text    string
	id      string
	name    string
	input   json.RawMessage
	callID  string
	content blocks
	isError bool
}

// UnmarshalJSON reads either form. Anything else is shown as it is.
func (b *blocks) UnmarshalJSON(data []byte) error {
	b.decode(data)
	return nil
}

// decode is given valid JSON. What it keeps of it is its own.
func (b *blocks) decode(data []byte) {
	*b = nil
	switch {
	case len(data) == 0 || bytes.Equal(data, []byte("null")):
	case data[0] == '"':
		*b = blocks{{kind: "text", text: canon.Unquote(data)}}
	case data[0] == '[':
		for element := range canon.Elements(data) {
			var one block
			one.decode(element)
			*b = append(*b, one)
		}
	default:
		*b = blocks{{kind: "text", text: string(data)}}
	}
}

func (b *block) decode(data []byte) {
	if data[0] != '{' {
		b.kind, b.text = "text", string(data)
		return
	}
	members(data, func(name string, value []byte) {
		switch name {
		case "type":
			b.kind = jsonText(value)
		case "text":
			b.text = jsonText(value)
		case "id":
			b.id = jsonText(value)
		case "name":
			b.name = jsonText(value)
		case "input":
			b.input = bytes.Clone(value)
		case "tool_use_id":
			b.callID = jsonText(value)
		case "content":
			b.content.decode(value)
		case "is_error":
			b.isError = string(value) == "true"
		}
	})
}

// text is what there is to read; other blocks are named.
func (b blocks) text() string {
	var parts []string
	for _, one := range b {
		switch {
		case one.kind == "text" || one.kind == "" && one.text != "":
			parts = append(parts, one.text)
		case len(one.content) > 0:
			parts = append(parts, one.content.text())
		default:
			parts = append(parts, fmt.Sprintf("[%s]", one.kind))
		}
	}
	return strings.Join(parts, "\n")
}

// longLine is a line of which only the beginning is kept.
type longLine struct {
	head []byte
	size int64
	sum  hash.Hash
}

func (l *longLine) add(raw []byte) {
	if l.sum == nil {
		l.sum = sha256.New()
	}
	if room := rawKept - len(l.head); room > 0 {
		l.head = append(l.head, raw[:min(room, len(raw))]...)
	}
	l.size += int64(len(raw))
	l.sum.Write(raw)
}

func (l *longLine) digest() string { return "sha256:" + hex.EncodeToString(l.sum.Sum(nil)) }
