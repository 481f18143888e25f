package flowtest

import (
	"encoding/json"
	"maps"
	"reflect"

	"pgregory.net/rapid"
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
