package skill

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/gowebpki/jcs"
)

// kind is the JSON type of a value.
type kind uint8

const (
	null kind = iota
	boolean
	number
	text
	list
	object
)

func (k kind) String() string {
	return [...]string{"nothing", "true or false", "a number", "text", "a list", "a mapping"}[k]
}

// value is a JSON value that remembers where it was written.
type value struct {
	kind    kind
	text    string // of text; of number and boolean the JSON literal
	items   []*value
	members []member
	at      position
}

type member struct {
	key   string
	at    position
	value *value
}

// position is where something begins, counted from 1.
type position struct{ line, column int }

func (v *value) get(key string) *value {
	for _, m := range v.members {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// canonical is the RFC 8785 form of v. Its numbers have been found safe.
func (v *value) canonical() (json.RawMessage, error) {
	var b bytes.Buffer
	v.write(&b)
	return jcs.Transform(b.Bytes())
}

func (v *value) write(b *bytes.Buffer) {
	switch v.kind {
	case null:
		b.WriteString("null")
	case boolean, number:
		b.WriteString(v.text)
	case text:
		b.Write(quoteJSON(v.text))
	case list:
		b.WriteByte('[')
		for i, item := range v.items {
			if i > 0 {
				b.WriteByte(',')
			}
			item.write(b)
		}
		b.WriteByte(']')
	case object:
		b.WriteByte('{')
		for i, m := range v.members {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(quoteJSON(m.key))
			b.WriteByte(':')
			m.value.write(b)
		}
		b.WriteByte('}')
	}
}

func quoteJSON(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string always has a JSON form
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// valueOf reads JSON that was written here; it has no positions.
func valueOf(data []byte) (*value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	return nextValue(d)
}

func nextValue(d *json.Decoder) (*value, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Delim:
		return nextCollection(d, t)
	case string:
		return &value{kind: text, text: t}, nil
	case json.Number:
		return &value{kind: number, text: t.String()}, nil
	case bool:
		return &value{kind: boolean, text: strconv.FormatBool(t)}, nil
	}
	return &value{kind: null}, nil
}

func nextCollection(d *json.Decoder, open json.Delim) (*value, error) {
	v := &value{kind: list}
	if open == '{' {
		v.kind = object
	}
	for d.More() {
		key := ""
		if v.kind == object {
			token, err := d.Token()
			if err != nil {
				return nil, err
			}
			key, _ = token.(string) // the decoder allows nothing else here
		}
		item, err := nextValue(d)
		if err != nil {
			return nil, err
		}
		if v.kind == object {
			v.members = append(v.members, member{key: key, value: item})
		} else {
			v.items = append(v.items, item)
		}
	}
	_, err := d.Token() // the closing bracket
	return v, err
}

// safeNumber reports whether a JSON number keeps its exact decimal value in RFC
// 8785 form, where it is the shortest text of the nearest double.
func safeNumber(literal string) bool {
	f, err := strconv.ParseFloat(literal, 64)
	return err == nil && decimalOf(literal) == decimalOf(strconv.FormatFloat(f, 'e', -1, 64))
}

// decimal is ±0.digits × 10^exponent without zeros at either end of the digits,
// so that equal numbers are equal structs.
type decimal struct {
	negative bool
	digits   string
	exponent int64
}

func decimalOf(s string) decimal {
	var d decimal
	s, d.negative = strings.CutPrefix(s, "-")
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		d.exponent, _ = strconv.ParseInt(strings.TrimPrefix(s[i+1:], "+"), 10, 64) // one too large saturates, and is no double
		s = s[:i]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return decimal{}
	}
	d.exponent += int64(len(digits) - len(fraction))
	d.digits = strings.TrimRight(digits, "0")
	return d
}
