package plan

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"unicode/utf8"
)

// readJSON reads src, which json.Valid has accepted.
func readJSON(src []byte) (*value, *problem) {
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	r := &jsonReader{src: src, dec: d, at: position{1, 1}}
	v := r.value(0)
	return v, r.problem
}

// jsonReader walks the tokens of a document and keeps count of lines. It stops
// at the first problem.
type jsonReader struct {
	src     []byte
	dec     *json.Decoder
	at      position // of offset
	offset  int
	problem *problem
}

// next is the next token, where it begins and its text.
func (r *jsonReader) next() (json.Token, position, []byte) {
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
		r.at.line += n
		r.at.column = 1
		passed = passed[bytes.LastIndexByte(passed, '\n')+1:]
	}
	r.at.column += utf8.RuneCount(passed)
	r.offset = to
}

func (r *jsonReader) fail(p *problem) {
	if r.problem == nil {
		r.problem = p
	}
}

func (r *jsonReader) value(depth int) *value {
	token, at, raw := r.next()
	if r.problem != nil {
		return nil
	}
	if depth > maxNesting {
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
		return &value{kind: text, text: r.text(t, raw, at), at: at}
	case json.Number:
		return &value{kind: number, text: t.String(), at: at}
	case bool:
		return &value{kind: boolean, text: strconv.FormatBool(t), at: at}
	}
	return &value{kind: null, at: at}
}

func (r *jsonReader) list(at position, depth int) *value {
	v := &value{kind: list, at: at}
	for r.problem == nil && r.dec.More() {
		v.items = append(v.items, r.value(depth+1))
	}
	r.next() // the closing bracket
	return v
}

func (r *jsonReader) object(at position, depth int) *value {
	v := &value{kind: object, at: at}
	seen := map[string]position{}
	for r.problem == nil && r.dec.More() {
		token, at, raw := r.next()
		name, _ := token.(string)
		key := r.text(name, raw, at)
		if first, ok := seen[key]; ok {
			r.fail(duplicate(key, at, first))
		}
		seen[key] = at
		v.members = append(v.members, member{key, at, r.value(depth + 1)})
	}
	r.next() // the closing brace
	return v
}

var surrogate = regexp.MustCompile(`\\(?:u[dD][89aAbB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[dD][89a-fA-F][0-9a-fA-F]{2}|.)`)

// text is a string token's value. The decoder replaces half a surrogate pair
// silently; a document must not change by being read.
func (r *jsonReader) text(decoded string, raw []byte, at position) string {
	const half = len(`\uXXXX`)
	if bytes.Contains(raw, []byte(`\u`)) {
		for _, m := range surrogate.FindAll(raw, -1) {
			if len(m) == half {
				r.fail(syntaxAt(at, "the string has half a surrogate pair, %s", m))
			}
		}
	}
	return decoded
}
