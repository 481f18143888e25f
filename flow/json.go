package flow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// JSON encodes v compactly, map keys sorted, without HTML escapes: the form in
// which inputs and event bodies are digested. It panics if v cannot be encoded,
// which is a fault of the program.
func JSON(v any) json.RawMessage {
	if raw, ok := v.(json.RawMessage); ok && raw != nil {
		var b bytes.Buffer
		if err := json.Compact(&b, raw); err != nil {
			panic(fmt.Sprintf("flow: not JSON: %v", err))
		}
		return b.Bytes()
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("flow: cannot be encoded: %v", err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Do performs a call and decodes its value.
func Do[T any](fc Context, c Call) (T, error) {
	var v T
	r, err := fc.Do(c)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(r.Value, &v); err != nil {
		return v, &Error{Code: CodeInternal, Message: fmt.Sprintf("the result of %s is not what was expected: %v", c.Name, err)}
	}
	return v, nil
}

// Each runs a branch for every item; name gives a branch's name, "" its index.
func Each[T any](fc Context, g Group, items []T, name func(int, T) string, run func(Context, T) error) error {
	branches := make([]Branch, len(items))
	for i, item := range items {
		branches[i].Run = func(fc Context) error { return run(fc, item) }
		if name != nil {
			branches[i].Name = name(i, item)
		}
	}
	return fc.Go(g, branches...)
}

// object builds a JSON object member by member. Record bodies are written on
// the path of every step, so they are not encoded by reflection.
type object []byte

func newObject(size int) object { return append(make(object, 0, size), '{') }

func (o object) key(k string) object {
	if len(o) > 1 {
		o = append(o, ',')
	}
	o = append(o, '"')
	o = append(o, k...)
	return append(o, '"', ':')
}

func (o object) str(k, v string) object        { return appendString(o.key(k), v) }
func (o object) int(k string, v int64) object  { return strconv.AppendInt(o.key(k), v, 10) }
func (o object) raw(k string, v []byte) object { return append(o.key(k), v...) }
func (o object) time(k string, t time.Time) object {
	return append(t.UTC().AppendFormat(append(o.key(k), '"'), timeForm), '"')
}

func (o object) use(k string, u Use) object {
	o = append(o.key(k), '{')
	for i, name := range u.names() {
		if i > 0 {
			o = append(o, ',')
		}
		o = strconv.AppendInt(append(appendString(o, name), ':'), u[name], 10)
	}
	return append(o, '}')
}

func (o object) strs(k string, list []string) object {
	o = append(o.key(k), '[')
	for i, s := range list {
		if i > 0 {
			o = append(o, ',')
		}
		o = appendString(o, s)
	}
	return append(o, ']')
}

func (o object) close() json.RawMessage { return json.RawMessage(append(o, '}')) }

// timeForm is RFC 3339 with nanoseconds, always nine digits.
const timeForm = "2006-01-02T15:04:05.000000000Z07:00"

func appendString(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return append(b, JSON(s)...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func (u Use) names() []string {
	names := make([]string, 0, len(u))
	for name := range u {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
