package provider

import (
	"encoding/json"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// What the vendor's own SDK makes of these and many others is compared in
// test/referee.
func TestAnthropicSchemaIsBroughtIntoTheSubset(t *testing.T) {
	for _, c := range []struct{ name, schema, want string }{
		{"open object", `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":true}`,
			`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`},
		{"object without properties", `{"type":"object"}`, `{"type":"object","properties":{},"additionalProperties":false}`},
		{"dictionary", `{"type":"object","additionalProperties":{"type":"object","maxProperties":3}}`,
			`{"type":"object","additionalProperties":{"type":"object","properties":{},"additionalProperties":false,"description":"{maxProperties: 3}"}}`},
		{"bounds", `{"type":"integer","minimum":3.0,"maximum":1e6,"description":"How many."}`,
			`{"type":"integer","description":"How many.\n\n{maximum: 1000000, minimum: 3}"}`},
		{"format that is known", `{"type":"string","format":"uuid","pattern":"x"}`, `{"type":"string","format":"uuid","pattern":"x"}`},
		{"format that is not", `{"type":"string","format":"regex"}`, `{"type":"string","description":"{format: regex}"}`},
		{"one item at least", `{"type":"array","minItems":1,"items":{"type":"object"}}`,
			`{"type":"array","minItems":1,"items":{"type":"object","properties":{},"additionalProperties":false}}`},
		{"two items at least", `{"type":"array","minItems":2,"maxItems":0,"uniqueItems":true}`, `{"type":"array","description":"{maxItems: 0, minItems: 2, uniqueItems: true}"}`},
		{"one of", `{"oneOf":[{"type":"null"},{"type":"string","minLength":1},{"title":"nothing"}]}`,
			`{"anyOf":[{"type":"null"},{"type":"string","description":"{minLength: 1}"}]}`},
		{"any of before one of", `{"oneOf":[{"type":"null"}],"anyOf":[{"type":"string"}]}`, `{"anyOf":[{"type":"string"}]}`},
		{"all of", `{"allOf":[{"type":"object"},{}]}`, `{"allOf":[{"type":"object","properties":{},"additionalProperties":false},true]}`},
		{"reference", `{"$defs":{"a":{"type":"string","maxLength":9}},"type":"object","properties":{"x":{"$ref":"#/$defs/a","title":"X"}}}`,
			`{"$defs":{"a":{"type":"string","description":"{maxLength: 9}"}},"type":"object","properties":{"x":{"$ref":"#/$defs/a"}},"additionalProperties":false}`},
		{"schemas in descriptions", `{"type":"string","not":{"minLength":3,"enum":["<"],"odd":1,"type":"string"},"examples":[1,"x"],"default":"d"}`,
			`{"type":"string","description":"{default: d, examples: [1,\"x\"], not: {\"type\":\"string\",\"enum\":[\"\\u003c\"],\"minLength\":3}}"}`},
		{"true and false", `{"type":"object","properties":{"a":true,"b":false,"c":{}}}`, `{"type":"object","properties":{"a":true,"b":false,"c":true},"additionalProperties":false}`},
		{"values", `{"enum":["a",1,null],"const":false}`, `{"enum":["a",1,null],"const":false}`},
		{"unknown keywords", `{"type":"string","nullable":true}`, `{"type":"string"}`},
	} {
		sameJSON(t, c.name, flow.JSON(anthropicSchema(json.RawMessage(c.schema))), c.want)
	}
}

func TestAnthropicSchemaThatCannotBeSent(t *testing.T) {
	for _, schema := range []string{``, `null`, `true`, `[]`, `{"cut`, `{}`, `{"description":"anything"}`, `{"type":["string","null"]}`, `{"type":"string","maxLength":-1}`, `{"type":"array","items":[]}`} {
		if got := anthropicSchema(json.RawMessage(schema)); got != nil {
			t.Errorf("%s became %s", schema, flow.JSON(got))
		}
	}
}
