package vendor

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/provider"
)

// sameSchema compares the schema that we ask for with the one that the SDK would.
func sameSchema(t failer, s *vendorServer, m agent.Model, schema json.RawMessage) {
	r := hello
	r.OutputSchema = schema
	ask(t, m, r)
	var ours struct {
		OutputConfig struct {
			Format struct {
				Schema any `json:"schema"`
			} `json:"format"`
		} `json:"output_config"`
	}
	if err := json.Unmarshal(s.body(t), &ours); err != nil {
		t.Fatalf("%v", err)
	}
	var object map[string]any
	_ = json.Unmarshal(schema, &object) // what is no object has no such form
	theirs, _ := anthropic.BetaJSONSchemaOutputFormat(object).Schema.(map[string]any)
	var want any
	if theirs != nil {
		want = theirs
	}
	if diff := cmp.Diff(want, ours.OutputConfig.Format.Schema); diff != "" {
		t.Errorf("%s (-theirs +ours):\n%s", schema, diff)
	}
}

func TestSchemasAreMadeToFitAsTheSDKDoes(t *testing.T) {
	s := serve(t, anthropicHello)
	m := open(t, s, provider.Config{Provider: provider.Anthropic, Model: claude})
	for _, schema := range []string{
		// plain ones
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`,
		`{"type":"object","properties":{"a":{"type":"integer","minimum":3,"maximum":1e6}},"additionalProperties":true}`,
		`{"type":"object"}`, `{"type":"object","required":["a"]}`, `{"type":"object","additionalProperties":false}`,
		`{"type":"object","additionalProperties":{"type":"string","minLength":2}}`, `{"type":"object","properties":{},"additionalProperties":{"type":"string"}}`,
		`{"type":"string","format":"date-time"}`, `{"type":"string","format":"regex","description":"A pattern."}`, `{"type":"integer","format":"int64"}`,
		`{"type":"array","items":{"type":"object"},"minItems":0}`, `{"type":"array","minItems":1}`, `{"type":"array","minItems":2,"maxItems":3,"uniqueItems":true}`, `{"type":"string","minItems":5}`,
		`{"anyOf":[{"type":"string","maxLength":3},{"type":"null"}]}`, `{"oneOf":[{"type":"object"},{"description":"nothing"}]}`, `{"oneOf":[{"type":"null"}],"anyOf":[{"type":"string"}]}`,
		`{"allOf":[{"type":"object"},{"title":"nothing"}]}`, `{"$defs":{"a":{"type":"object"}},"type":"object","properties":{"x":{"$ref":"#/$defs/a","title":"t"}}}`, `{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}`,
		`{"enum":["a",1,null,{"b":[]}]}`, `{"const":{"a":1}}`, `{"const":false}`, `{"type":"string","default":"d","examples":["<",1],"deprecated":true}`,
		// keywords whose values are schemas
		`{"type":"string","not":{"type":"string","minLength":3,"enum":["<"],"unknown":1}}`, `{"type":"object","if":{"properties":{"a":{"const":1}}},"then":{"required":["b"]},"else":true}`,
		`{"type":"array","prefixItems":[{"type":"string","pattern":"x"},false],"contains":{},"maxContains":2}`,
		`{"type":"object","patternProperties":{"^b":{"type":"string"},"^a":{}},"propertyNames":{"maxLength":3},"dependentSchemas":{},"dependentRequired":{"a":["b"]}}`,
		`{"anyOf":[{"type":"null"}],"properties":{"a":{"type":"string","minLength":1}},"items":{"type":"object"},"additionalProperties":{"not":{}}}`,
		// true, false, null, and nothing
		`{"type":"array","items":false}`, `{"type":"object","properties":{"a":true,"b":false,"c":{},"d":null}}`, `{"anyOf":[true,{},null,false]}`, `{"anyOf":[{}]}`, `{"type":"string","anyOf":[{}]}`, `{"allOf":[null]}`,
		`{}`, `null`, `true`, `[]`, `{"description":"anything"}`, `{"const":null}`, `{"enum":[]}`, `{"type":""}`, `{"type":"string","default":null,"minimum":null,"items":null}`, `{"type":"string","examples":[],"uniqueItems":false,"not":{"examples":[]}}`,
		// numbers
		`{"type":"string","default":12345678}`, `{"type":"number","maximum":1e21,"minimum":-1.50,"multipleOf":0.1}`, `{"type":"string","maxLength":3.0}`, `{"type":"string","default":[1e6,0.1]}`, `{"type":"string","maximum":"3"}`,
		// names
		`{"type":"object","properties":{"":{"type":"null"},"a\"b\\":{"type":"null"},"\ud83d\ude00":{"type":"null"},"$ref":{"type":"null"}}}`, `{"Type":"object","MINIMUM":3}`, `{"type":"object","nullable":true,"definitions":{}}`,
		// what the SDK cannot read
		`{"type":["string","null"]}`, `{"type":"string","maxLength":-1}`, `{"type":"string","maxLength":1.5}`, `{"type":"string","maximum":"x"}`, `{"type":"array","items":[]}`, `{"type":"object","properties":[]}`,
		`{"type":"object","properties":{"a":1}}`, `{"type":"object","properties":{"a":"x"}}`, `{"type":"object","required":"a"}`, `{"type":"object","title":3}`, `{"type":"string","uniqueItems":"yes"}`,
	} {
		sameSchema(t, s, m, json.RawMessage(schema))
	}
}

// keywords draw values for each keyword, and for some that are none. It is a function
// since schemas are within schemas.
func keywords() map[string]func(t *rapid.T, depth int) any {
	return map[string]func(t *rapid.T, depth int) any{
		"$schema": word, "$id": word, "$anchor": word, "$dynamicRef": word, "$comment": word, "title": word, "description": word, "contentEncoding": word, "contentMediaType": word, "pattern": word,
		"$defs": members, "dependentSchemas": members, "properties": members, "patternProperties": members,
		"allOf": list, "anyOf": list, "oneOf": list, "prefixItems": list,
		"not": schema, "if": schema, "then": schema, "else": schema, "items": schema, "contains": schema, "additionalProperties": schema, "propertyNames": schema, "contentSchema": schema,
		"multipleOf": number, "maximum": number, "exclusiveMaximum": number, "minimum": number, "exclusiveMinimum": number,
		"maxLength": count, "minLength": count, "maxItems": count, "minItems": count, "maxContains": count, "minContains": count, "maxProperties": count, "minProperties": count,
		"uniqueItems": flag, "deprecated": flag, "readOnly": flag, "writeOnly": flag,
		"const": value, "default": value, "unknown": value, "nullable": flag,
		"enum": values, "examples": values,
		"required":          oneOf([]any{}, []any{"a"}, []any{"a", "b"}),
		"dependentRequired": oneOf(map[string]any{}, map[string]any{"a": []any{"b"}}),
		"format":            oneOf("date-time", "uuid", "regex", "", "ipv6", "idn-email"),
		"type":              oneOf("object", "object", "string", "array", "integer", "null", ""),
		"$ref":              oneOf("", "", "", "#/$defs/a"),
	}
}

func oneOf(choices ...any) func(*rapid.T, int) any {
	return func(t *rapid.T, _ int) any { return rapid.SampledFrom(choices).Draw(t, "choice") }
}

func word(t *rapid.T, _ int) any { return texts.Draw(t, "word") }
func flag(t *rapid.T, _ int) any { return rapid.Bool().Draw(t, "flag") }
func count(t *rapid.T, _ int) any {
	return rapid.IntRange(0, 3).Draw(t, "count")
}
func number(t *rapid.T, _ int) any {
	return rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1, 1e6, 1e21})).Draw(t, "number")
}
func value(t *rapid.T, depth int) any {
	return oneOf(nil, 0, 1e6, 0.1, "", "<x>", false, true, []any{}, []any{1e6, "<"}, map[string]any{"b": 1, "a": nil})(t, depth)
}
func values(t *rapid.T, depth int) any {
	return oneOf([]any{}, []any{1.5, "x", nil, true})(t, depth)
}

func list(t *rapid.T, depth int) any {
	all := []any{}
	for range rapid.IntRange(0, 3).Draw(t, "length") {
		all = append(all, schema(t, depth))
	}
	return all
}

func members(t *rapid.T, depth int) any {
	all := map[string]any{}
	for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "<", "ü", ""}), 0, 3).Draw(t, "names") {
		all[name] = schema(t, depth)
	}
	return all
}

func schema(t *rapid.T, depth int) any {
	if depth == 0 || rapid.IntRange(0, 9).Draw(t, "leaf") == 0 {
		return oneOf(true, false, nil, map[string]any{}, map[string]any{"type": "string"}, map[string]any{"description": "x"}, map[string]any{"const": nil})(t, depth)
	}
	return object(t, depth)
}

func object(t *rapid.T, depth int) map[string]any {
	draw := keywords()
	all := map[string]any{"type": draw["type"](t, depth)}
	for _, name := range rapid.SliceOfN(rapid.SampledFrom(slices.Sorted(maps.Keys(draw))), 0, 8).Draw(t, "keywords") {
		all[name] = draw[name](t, depth-1)
		if rapid.IntRange(0, 50).Draw(t, "odd") == 0 {
			all[name] = oneOf(nil, "x", 3, -1, 1.5, true, []any{nil}, []any{"x"}, map[string]any{"q": nil})(t, depth)
		}
	}
	return all
}

func TestRandomSchemasAreMadeToFitAsTheSDKDoes(t *testing.T) {
	s := serve(t, anthropicHello)
	m := open(t, s, provider.Config{Provider: provider.Anthropic, Model: claude})
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			raw, err := json.Marshal(object(t, 3))
			if err != nil {
				t.Fatalf("%v", err)
			}
			sameSchema(t, s, m, raw)
		}
	})
}
