package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/document"
)

func mustCompile(t testing.TB, schema string) *Schema {
	t.Helper()
	s, err := CompileSchema(json.RawMessage(schema))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSchemaErrorPointsAtTheValue(t *testing.T) {
	const person = `{"type":"object","required":["name"],"additionalProperties":false,
		"properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0},
			"tags":{"type":"array","items":{"type":"string"}},
			"pair":{"type":"array","prefixItems":[{"type":"string"},{"type":"number"}]},
			"boss":{"$ref":"#"},"home":{"$ref":"#/$defs/place"},"a/b~c %":{"type":"null"}},
		"$defs":{"place":{"type":"object","properties":{"city":{"type":"string"},"near":{"type":"array","items":{"$ref":"#/$defs/place"}}}}}}`
	s := mustCompile(t, person)
	for value, want := range map[string]string{
		`{"name":"x"}`:                    "ok",
		`{"name":"x","age":1.0}`:          "ok",
		`{}`:                              "",
		`[]`:                              "",
		`{"name":1}`:                      "/name",
		`{"name":"x","age":"1"}`:          "/age",
		`{"name":"x","age":-1}`:           "/age",
		`{"name":"x","tags":["a","b",3]}`: "/tags/2",
		`{"name":"x","pair":["a","b"]}`:   "/pair/1",
		`{"name":"x","nick":1}`:           "/nick",
		`{"name":"x","boss":{"name":"y","boss":{"name":2}}}`: "/boss/boss/name",
		`{"name":"x","boss":{}}`:                             "/boss",
		`{"name":"x","home":{"near":[{},{"city":5}]}}`:       "/home/near/1/city",
		`{"name":"x","a/b~c %":1}`:                           "/a~1b~0c %",
		`{"name":"x","age":"z","tags":[0]}`:                  "/age",
	} {
		err := s.Validate(json.RawMessage(value))
		var wrong *SchemaError
		switch {
		case want == "ok":
			if err != nil {
				t.Errorf("%s: %v", value, err)
			}
		case !errors.As(err, &wrong):
			t.Errorf("%s: got %v", value, err)
		case wrong.Pointer != want || wrong.Message == "":
			t.Errorf("%s: got %q (%s), want %q", value, wrong.Pointer, wrong.Message, want)
		}
	}
}

func TestSchemaErrorSaysNull(t *testing.T) {
	err := mustCompile(t, `{"properties":{"a":{"type":"boolean"}}}`).Validate(json.RawMessage(`{"a":null}`))
	if err == nil || strings.Contains(err.Error(), "reflect") || !strings.Contains(err.Error(), "null") {
		t.Errorf("got %v", err)
	}
}

func TestSchemaErrorIsShortWhateverTheValue(t *testing.T) {
	s := mustCompile(t, `{"type":"object","properties":{"a":{"type":"string","maxLength":3}}}`)
	err := s.Validate(json.RawMessage(`{"a":"` + strings.Repeat("x", 1_000_000) + `"}`))
	if err == nil || len(err.Error()) > 400 {
		t.Errorf("the message has %d bytes", len(fmt.Sprint(err)))
	}
}

// Hostile schemas: each would hang, crash or reach out if it were accepted.
func TestHostileSchemaIsRefused(t *testing.T) {
	deep := strings.Repeat(`{"items":`, 500) + `{}` + strings.Repeat(`}`, 500)
	for name, schema := range map[string]string{
		"itself":         `{"$ref":"#"}`,
		"all of itself":  `{"allOf":[{"$ref":"#"}]}`,
		"not itself":     `{"type":"object","not":{"$ref":"#"}}`,
		"in a circle":    `{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"if":{"$ref":"#/$defs/a"}}}}`,
		"below a field":  `{"properties":{"default":{"oneOf":[{"$ref":"#/properties/default"}]}}}`,
		"by dependency":  `{"dependentSchemas":{"a":{"$ref":"#"}}}`,
		"in another id":  `{"$ref":"#/$defs/a","$defs":{"b":{},"a":{"$id":"https://x.invalid/","$ref":"#/$defs/b","$defs":{"b":{"$ref":"#"}}}}}`,
		"elsewhere":      `{"$ref":"https://example.com/schema"}`,
		"a file":         `{"$ref":"file:///etc/passwd"}`,
		"an anchor":      `{"$ref":"#x","$defs":{"x":{"$anchor":"x"}}}`,
		"dynamic":        `{"$dynamicRef":"#x"}`,
		"nowhere":        `{"$ref":"#/$defs/x"}`,
		"bad pattern":    `{"pattern":"("}`,
		"not a schema":   `"x"`,
		"not JSON":       `{`,
		"very deep":      deep,
		"very large":     `{"description":"` + strings.Repeat("x", 2<<20) + `"}`,
		"type as number": `{"type":1}`,
	} {
		if _, err := CompileSchema(json.RawMessage(schema)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestRecursiveSchemaThatConsumesIsAccepted(t *testing.T) {
	s := mustCompile(t, `{"type":"object","properties":{"next":{"$ref":"#"},"all":{"items":{"$ref":"#"}}},"default":{"$ref":"https://x"},"enum":[{},{"next":{}}]}`)
	if err := s.Validate(json.RawMessage(`{"next":{}}`)); err != nil {
		t.Error(err)
	}
}

func TestFailureInALargeArrayIsFoundSoon(t *testing.T) {
	s := mustCompile(t, `{"type":"array","items":{"type":"integer"}}`)
	value := []byte("[" + strings.Repeat("1,", 20_000) + `"x"]`)
	began := time.Now()
	var wrong *SchemaError
	if !errors.As(s.Validate(value), &wrong) || wrong.Pointer != "/20000" {
		t.Fatalf("got %v", wrong)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
}

// FuzzSchema: whatever a server lists, compiling and validating end without a
// panic, and a pointer leads to something.
func FuzzSchema(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"type":"string"}}}`, `{"a":1}`)
	f.Add(`{"allOf":[{"$ref":"#/$defs/x"}],"$defs":{"x":{"items":{"$ref":"#"}}}}`, `[[1]]`)
	f.Add(`{"$ref":"#/$defs/%61","$defs":{"a":{"type":"null"}}}`, `1`)
	f.Add(`{"patternProperties":{"^a":{"type":"null"}},"additionalProperties":false}`, `{"ab":1}`)
	f.Add(`true`, `1`)
	f.Fuzz(func(t *testing.T, schema, value string) {
		s, err := CompileSchema(json.RawMessage(schema))
		if err != nil {
			return
		}
		var wrong *SchemaError
		if !errors.As(s.Validate(json.RawMessage(value)), &wrong) || !json.Valid([]byte(value)) {
			return
		}
		var doc any
		if err := json.Unmarshal([]byte(value), &doc); err != nil {
			return
		}
		if part, _ := document.SchemaPart(doc, strings.ReplaceAll(wrong.Pointer, "%", "%25")); part == nil && !strings.Contains(value, "null") {
			t.Fatalf("schema %s, value %s: %q points nowhere", schema, value, wrong.Pointer)
		}
	})
}
