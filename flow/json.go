package flow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
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
	e := encoders.Get().(*encoder)
	defer encoders.Put(e)
	e.Reset()
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("flow: cannot be encoded: %v", err))
	}
	return bytes.Clone(bytes.TrimSuffix(e.Bytes(), []byte("\n")))
}

// encoder is an encoder and what it writes to. A step encodes some ten small
// values, and to grow a new buffer for each took longer than to fill it.
type encoder struct {
	bytes.Buffer
	*json.Encoder
}

var encoders = sync.Pool{New: func() any {
	e := &encoder{}
	e.Encoder = json.NewEncoder(&e.Buffer)
	e.SetEscapeHTML(false)
	return e
}}

// Do performs a call and decodes its value. A value that cannot be decoded is misuse.
func Do[T any](fc Context, c Call) (T, error) {
	var v T
	r, err := fc.Do(c)
	if err == nil {
		err = Decode(fc, c, r, &v)
	}
	return v, err
}

// Decode decodes the result of a call that fc has performed, for programs that want more of
// it than [Do] returns. A value that cannot be decoded is misuse.
func Decode[T any](fc Context, c Call, r Result, v *T) error {
	err := json.Unmarshal(r.Value, v)
	if err == nil {
		return nil
	}
	wrong := &Misuse{join(fc.Path(), c.Key), fmt.Sprintf("the result of %s cannot be read as %T: %v", c.Name, *v, err)}
	_, _ = fc.Do(Call{misuse: wrong}) // ends the drive, whoever wraps fc: the result stays, and is served to a program that can read it
	return wrong
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

func (u Use) names() []string { return u.appendNames(make([]string, 0, len(u))) }

// appendNames appends the names, sorted among themselves.
func (u Use) appendNames(names []string) []string {
	before := len(names)
	for name := range u {
		names = append(names, name)
	}
	slices.Sort(names[before:])
	return names
}
