package pipeline

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff/document"
)

// Decode reads one JSON value. It is strict: a key that stands twice, a string that
// is not UTF-8 or has half a surrogate pair, and nesting beyond [MaxDepth] are
// refused with their path (a [*ValueError]), as is everything that is not JSON.
func Decode(raw []byte) (any, error) {
	return decode(raw, place{}, 0)
}

// DecodeObject is Decode for what must be an object.
func DecodeObject(raw []byte) (map[string]any, error) {
	v, err := Decode(raw)
	if err != nil {
		return nil, err
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, &ValueError{Text: "an object belongs here, not " + typeName(v)}
	}
	return object, nil
}

func decode(raw []byte, p place, depth int) (any, error) {
	if !json.Valid(raw) {
		return nil, p.refuse("not JSON: %v", json.Unmarshal(raw, new(any)))
	}
	d := &decoder{src: raw}
	return d.value(p, depth)
}

// decoder walks a text that json.Valid has accepted, so that it trusts the syntax.
type decoder struct {
	src []byte
	i   int
}

// next skips blanks and returns the byte that follows.
func (d *decoder) next() byte {
	for {
		switch c := d.src[d.i]; c {
		case ' ', '\t', '\r', '\n':
			d.i++
		default:
			return c
		}
	}
}

// more steps over a comma, or over the bracket that ends a list or an object.
func (d *decoder) more(end byte) bool {
	c := d.next()
	if c == ',' {
		d.i++
		d.next()
		return true
	}
	if c == end {
		d.i++
		return false
	}
	return true
}

func (d *decoder) value(p place, depth int) (any, error) {
	switch d.next() {
	case '{':
		return d.object(p, depth)
	case '[':
		return d.list(p, depth)
	case '"':
		return d.text(p)
	case 't':
		d.i += len("true")
		return true, nil
	case 'f':
		d.i += len("false")
		return false, nil
	case 'n':
		d.i += len("null")
		return nil, nil
	}
	begin := d.i
	for d.i < len(d.src) && bytes.IndexByte([]byte("+-.0123456789Ee"), d.src[d.i]) >= 0 {
		d.i++
	}
	return number(string(d.src[begin:d.i]), p)
}

func (d *decoder) list(p place, depth int) (any, error) {
	if depth >= MaxDepth {
		return nil, p.refuse(tooDeep, MaxDepth)
	}
	d.i++
	list := []any{}
	for d.more(']') {
		v, err := d.value(p.at(len(list)), depth+1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, nil
}

func (d *decoder) object(p place, depth int) (any, error) {
	if depth >= MaxDepth {
		return nil, p.refuse(tooDeep, MaxDepth)
	}
	d.i++
	object := map[string]any{}
	for d.more('}') {
		key, err := d.text(p)
		if err != nil {
			return nil, err
		}
		d.next()
		d.i++ // the colon
		at := p.member(key)
		if _, twice := object[key]; twice {
			return nil, at.refuse("the key stands twice")
		}
		if object[key], err = d.value(at, depth+1); err != nil {
			return nil, err
		}
	}
	return object, nil
}

func (d *decoder) text(p place) (string, error) {
	begin := d.i
	escaped := false
	for d.i++; d.src[d.i] != '"'; d.i++ {
		if d.src[d.i] == '\\' {
			escaped = true
			d.i++
		}
	}
	d.i++
	literal := d.src[begin:d.i]
	if !utf8.Valid(literal) {
		return "", p.refuse(notUTF8)
	}
	if !escaped {
		return string(literal[1 : len(literal)-1]), nil
	}
	if half := document.HalfSurrogate(literal); half != nil {
		return "", p.refuse("the string has half a surrogate pair, %s", half)
	}
	var s string
	err := json.Unmarshal(literal, &s)
	return s, err
}
