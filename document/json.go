package document

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff/canon"
)

// readJSON reads src, which json.Valid has accepted.
func readJSON(src []byte) (*Value, Problems) {
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	r := &jsonReader{src: src, dec: d, at: start}
	return r.outcome(r.value(0))
}

// jsonReader walks the tokens of a document and keeps count of lines.
type jsonReader struct {
	faults
	src    []byte
	dec    *json.Decoder
	at     Position // of offset
	offset int
}

// next is the next token, where it begins and its text.
func (r *jsonReader) next() (json.Token, Position, []byte) {
	r.advance(int(r.dec.InputOffset()))
	token, err := r.dec.Token()
	end := int(r.dec.InputOffset())
	// Between two tokens stand blanks and the punctuation that Token leaves out.
	for r.offset < end && bytes.IndexByte([]byte(" \t\r\n,:"), r.src[r.offset]) >= 0 {
		r.advance(r.offset + 1)
	}
	at := r.at
	if err != nil {
		r.fail(syntaxAt(at, "%v", err))
		return nil, at, nil
	}
	return token, at, r.src[r.offset:end]
}

// advance moves the count of lines and columns on to an offset.
func (r *jsonReader) advance(to int) {
	passed := r.src[r.offset:to]
	if n := bytes.Count(passed, []byte("\n")); n > 0 {
		r.at.Line += n
		r.at.Column = 1
		passed = passed[bytes.LastIndexByte(passed, '\n')+1:]
	}
	r.at.Column += utf8.RuneCount(passed)
	r.offset = to
}

func (r *jsonReader) value(depth int) *Value {
	token, at, raw := r.next()
	if r.fatal != nil {
		return nil
	}
	if depth > MaxNesting {
		r.fail(tooDeep(at))
		return nil
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '[' {
			return r.list(at, depth)
		}
		return r.object(at, depth)
	case string:
		return &Value{Kind: Text, Text: r.text(t, raw, at), At: at}
	case json.Number:
		return &Value{Kind: Number, Text: t.String(), At: at}
	case bool:
		return &Value{Kind: Boolean, Text: strconv.FormatBool(t), At: at}
	}
	return &Value{Kind: Null, At: at}
}

func (r *jsonReader) list(at Position, depth int) *Value {
	v := &Value{Kind: List, At: at}
	for r.fatal == nil && r.dec.More() {
		r.item(v, func() *Value { return r.value(depth + 1) })
	}
	r.next() // the closing bracket
	return v
}

func (r *jsonReader) object(at Position, depth int) *Value {
	o := newObject(at)
	for r.fatal == nil && r.dec.More() {
		token, at, raw := r.next()
		name, _ := token.(string)
		o.add(&r.faults, r.text(name, raw, at), at, func() *Value { return r.value(depth + 1) })
	}
	r.next() // the closing brace
	return o.Value
}

// text is a string token's value. The decoder replaces half a surrogate pair
// silently; a document must not change by being read.
func (r *jsonReader) text(decoded string, raw []byte, at Position) string {
	if bytes.IndexByte(raw, '\\') >= 0 {
		if _, err := canon.Decode(raw, 0); err != nil {
			r.fail(syntaxAt(at, "%v", err))
		}
	}
	return decoded
}
