package flowtest

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff/flow"
)

// Arbitrary draws any value of a type: texts that need escapes or cannot be encoded
// as they are, raw JSON that is laid out in one way or another. Types may have
// generators of their own.
func Arbitrary[T any](own map[reflect.Type]*rapid.Generator[any]) *rapid.Generator[T] {
	texts := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "<&>", "\u2028", "\x00\x1f\x7f", "\xff", "é\U0001F600", `"\\/{`, "\t\n\r\b\f"}))
	types := map[reflect.Type]*rapid.Generator[any]{
		reflect.TypeFor[float64](): rapid.SampledFrom([]float64{0, 0.7, 1e-9, 1e21, -2}).AsAny(),
		reflect.TypeFor[json.RawMessage](): rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{}`),
			json.RawMessage(" { \"a\" : [ 1.50, \"\\u0041<\" ] }\n"), json.RawMessage("\"\u2028\"")}).AsAny(),
	}
	maps.Copy(types, own)
	return rapid.MakeCustom[T](rapid.MakeConfig{Kinds: map[reflect.Kind]*rapid.Generator[any]{reflect.String: texts.AsAny()}, Types: types})
}

// WritesItself checks that what a type writes is what encoding/json makes of it:
// of any value, and of one in which no field is left out.
func WritesItself[T flow.Appender](t *testing.T, own map[reflect.Type]*rapid.Generator[any]) {
	of := reflect.TypeFor[T]()
	t.Run(of.String(), func(t *testing.T) {
		same(t, Filled[T]())
		rapid.Check(t, func(t *rapid.T) {
			v := Arbitrary[T](own).Draw(t, "value")
			if of.Kind() != reflect.Pointer || !reflect.ValueOf(v).IsNil() {
				same(t, v)
			}
		})
	})
}

func same(t interface{ Fatalf(string, ...any) }, v flow.Appender) {
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatalf("encoding/json: %v", err)
	}
	if got := flow.JSON(v); string(got) != strings.TrimSuffix(want.String(), "\n") {
		t.Fatalf("got  %s\nwant %s", got, want.String())
	}
	if before, got := "before{", v.AppendJSON([]byte("before{")); string(got) != before+strings.TrimSuffix(want.String(), "\n") {
		t.Fatalf("not at the end of what was there: %s", got)
	}
}

// Filled is a value of a type without a zero in it.
func Filled[T any]() (v T) {
	fill(reflect.ValueOf(&v).Elem())
	return v
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`[{"a":1}]`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(0.7)
	default:
		panic("a field of type " + v.Type().String() + " cannot be filled")
	}
}
