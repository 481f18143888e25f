package pipeline

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestCloneCopiesEveryField(t *testing.T) {
	e := full(t)
	c := e.Clone()
	if diff := cmp.Diff(e, c, sameEnvelope); diff != "" {
		t.Error(diff)
	}
	v, w := reflect.ValueOf(e).Elem(), reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if v.Field(i).IsZero() {
			t.Errorf("the test leaves %s empty", name)
		}
		shared(t, name, v.Field(i), w.Field(i))
	}
}

// shared reports memory that both values lead to and that could be written.
func shared(t *testing.T, path string, a, b reflect.Value) {
	t.Helper()
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() {
			return
		}
		if a.Pointer() == b.Pointer() {
			t.Errorf("%s is shared", path)
			return
		}
		shared(t, path, a.Elem(), b.Elem())
	case reflect.Interface:
		if !a.IsNil() {
			shared(t, path, a.Elem(), b.Elem())
		}
	case reflect.Slice:
		if a.Len() > 0 && a.Pointer() == b.Pointer() {
			t.Errorf("%s is shared", path)
		}
		for i := range a.Len() {
			shared(t, fmt.Sprintf("%s[%d]", path, i), a.Index(i), b.Index(i))
		}
	case reflect.Map:
		if a.Len() > 0 && a.Pointer() == b.Pointer() {
			t.Errorf("%s is shared", path)
			return
		}
		for _, key := range a.MapKeys() {
			shared(t, path+"."+key.String(), a.MapIndex(key), b.MapIndex(key))
		}
	case reflect.Struct:
		if a.Type().PkgPath() == "time" { // its zone is a pointer that nobody writes through
			return
		}
		for i := range a.NumField() {
			shared(t, path+"."+a.Type().Field(i).Name, a.Field(i), b.Field(i))
		}
	}
}

func TestCloneKeepsNilAndEmpty(t *testing.T) {
	zero := &Envelope{}
	if diff := cmp.Diff(zero, zero.Clone(), sameEnvelope); diff != "" {
		t.Error(diff)
	}
	empty := NewEnvelope(nil, Input{Metadata: map[string]any{"nil": []any(nil), "empty": []any{}, "none": map[string]any(nil), "object": map[string]any{}}})
	if diff := cmp.Diff(empty, empty.Clone(), sameEnvelope); diff != "" {
		t.Error(diff)
	}
	if (*Envelope)(nil).Clone() != nil {
		t.Error("nothing has a clone")
	}
}

// anyValue draws values as an Envelope holds them.
func anyValue(depth int) *rapid.Generator[any] {
	scalars := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), asAny[bool]), rapid.Map(rapid.String(), asAny[string]),
		rapid.Map(rapid.Int64(), asAny[int64]), rapid.Map(rapid.Float64(), asAny[float64]),
		rapid.Map(rapid.SampledFrom([]json.Number{"9007199254740993.0", "123456789012345678901234567890", "1e400"}), asAny[json.Number]),
	}
	if depth > 0 {
		scalars = append(scalars,
			rapid.Map(rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return anyValue(depth - 1) }), 0, 4), asAny[[]any]),
			rapid.Map(anyObject(depth-1), asAny[map[string]any]))
	}
	return rapid.OneOf(scalars...)
}

func anyObject(depth int) *rapid.Generator[map[string]any] {
	return rapid.MapOfN(rapid.StringN(0, 4, -1), rapid.Deferred(func() *rapid.Generator[any] { return anyValue(depth) }), 0, 4)
}

func asAny[T any](v T) any { return v }

// scribble changes everything that can be changed in a value.
func scribble(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range sortedKeys(v) {
			scribble(v[key])
			v[key] = "scribbled"
		}
		v["new"] = true
	case []any:
		for i := range v {
			scribble(v[i])
			v[i] = "scribbled"
		}
	}
}

func TestWritingToOneCopyLeavesTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := NewEnvelope(nil, Input{Metadata: anyObject(3).Draw(t, "metadata")})
		e.Outputs["a"] = anyObject(3).Draw(t, "output")
		e.Interrupts = []Interrupt{{Data: anyObject(2).Draw(t, "data"), Response: &Response{Data: anyValue(2).Draw(t, "answer")}}}
		before := string(EncodeEnvelope(e))
		c := e.Clone()
		if string(EncodeEnvelope(c)) != before {
			t.Fatal("the copy differs")
		}
		first, second := e, c
		if rapid.Bool().Draw(t, "write to the copy") {
			first, second = c, e
		}
		scribble(first.Metadata)
		scribble(first.Outputs["a"])
		scribble(first.Interrupts[0].Data)
		scribble(first.Interrupts[0].Response.Data)
		first.Outputs["b"] = map[string]any{}
		first.Interrupts[0].Key = "scribbled"
		if string(EncodeEnvelope(second)) != before {
			t.Fatal("a change to one copy shows in the other")
		}
	})
}

// megabyte is an Envelope of that size, shaped as stages make them.
func megabyte() *Envelope {
	e := NewEnvelope(nil, Input{RawInput: "do it"})
	size := 0
	for stage := 0; size < 1<<20; stage++ {
		var findings []any
		for i := range 50 {
			findings = append(findings, map[string]any{"line": int64(i), "score": 0.5, "title": strings.Repeat("word ", 10), "tags": []any{"a", "b"}, "open": true})
		}
		output := map[string]any{"findings": findings, "summary": strings.Repeat("text ", 200)}
		e.Outputs[fmt.Sprintf("stage%d", stage)] = output
		size += len(EncodeValue(output))
	}
	return e
}

func BenchmarkClone(b *testing.B) {
	e := megabyte()
	b.SetBytes(int64(e.Size()))
	for b.Loop() {
		e.Clone()
	}
}

func BenchmarkCloneByJSON(b *testing.B) {
	e := megabyte()
	b.SetBytes(int64(e.Size()))
	for b.Loop() {
		raw, err := json.Marshal(e)
		if err != nil {
			b.Fatal(err)
		}
		var c Envelope
		if err := json.Unmarshal(raw, &c); err != nil {
			b.Fatal(err)
		}
	}
}

// A turn that changes one small slot of a large Envelope.
func BenchmarkDataDigestOfATurn(b *testing.B) {
	e := megabyte()
	known := newSlots(e)
	known.digest(e)
	for i := 0; b.Loop(); i++ {
		e.Outputs["stage0"] = map[string]any{"n": int64(i)}
		known.digest(e)
	}
}
