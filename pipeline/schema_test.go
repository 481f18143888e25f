package pipeline

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/document"
)

// rawDocument is a source as the schema's validator takes it.
func rawDocument(t testing.TB, src string) json.RawMessage {
	t.Helper()
	v, fault := document.Read([]byte(src), MaxSize)
	if fault != nil {
		t.Fatal(fault.Message)
	}
	return document.Raw(v)
}

func TestTheSchemaAllowsWhatCheckAllows(t *testing.T) {
	schema, err := document.CompileSchema(Schema())
	if err != nil {
		t.Fatal(err)
	}
	for _, src := range []string{reviewLoop, loop, everything, seedShaped, drawn, drawnWithDependencies} {
		if err := document.Conforms(schema, rawDocument(t, src)); err != nil {
			t.Errorf("%.20s: %v", src, err)
		}
	}
	for _, f := range faulty {
		src, _ := marked(f.src)
		if f.codes != "field_unknown" {
			continue
		}
		if document.Conforms(schema, rawDocument(t, src)) == nil {
			t.Errorf("the schema has nothing against\n%s", src)
		}
	}
}

// frames hold an object of each kind that the schema describes.
var frames = map[string]string{
	"":           `{"name":"p","agents":[],%s}`,
	"edge_limit": `{"name":"p","agents":[],"edge_limits":[{%s}]}`,
	"deliver":    `{"name":"p","agents":[],"deliver":{%s}}`,
	"check":      `{"name":"p","agents":[],"deliver":{"checks":[{%s}]}}`,
	"worktree":   `{"name":"p","agents":[],"files":{%s}}`,
	"command":    `{"name":"p","agents":[],"files":{"setup":[{%s}]}}`,
	"agent":      `{"name":"p","agents":[{%s}]}`,
	"rule":       `{"name":"p","agents":[{"routing_rules":[{%s}]}]}`,
	"model":      `{"name":"p","agents":[{"model":{%s}}]}`,
	"tool":       `{"name":"p","agents":[{"tool":{%s}}]}`,
	"remote":     `{"name":"p","agents":[{"remote":{%s}}]}`,
	"plan":       `{"name":"p","agents":[{"plan":{%s}}]}`,
	"scripted":   `{"name":"p","agents":[{"scripted":{%s}}]}`,
	"answer":     `{"name":"p","agents":[{"scripted":{"answers":[{%s}]}}]}`,
	"error":      `{"name":"p","agents":[{"scripted":{"answers":[{"error":{%s}}]}}]}`,
	"usage":      `{"name":"p","agents":[{"scripted":{"answers":[{"usage":{%s}}]}}]}`,
	"control":    `{"name":"p","agents":[{"scripted":{"answers":[{"control":{%s}}]}}]}`,
	"interrupt":  `{"name":"p","agents":[{"scripted":{"answers":[{"control":{"interrupt":{"kind":"question",%s}}}]}}]}`,
}

// unknownMember reports whether Check finds the member of an object unknown.
func unknownMember(frame, member string) bool {
	src := strings.Replace(frame, "%s", `"`+member+`":null`, 1)
	if strings.Count(frame, `"`+member+`":`) == 1 && !strings.Contains(frame, "{%s}") {
		return false // the frame has it already
	}
	_, problems := Check("p", []byte(src), Resolver{})
	for _, p := range problems {
		if p.Code == document.CodeFieldUnknown || strings.Contains(p.Message, "nobody knows") {
			return true
		}
	}
	return false
}

func TestTheSchemaNamesTheFieldsThatAreRead(t *testing.T) {
	type object struct {
		Properties map[string]any `json:"properties"`
	}
	var schema struct {
		object
		Defs map[string]object `json:"$defs"`
	}
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	objects := map[string]object{"": schema.object}
	for name, o := range schema.Defs {
		objects[name] = o
	}
	if len(objects) != len(frames) {
		t.Errorf("the schema has %d objects, this test %d", len(objects), len(frames))
	}
	for name, o := range objects {
		if !unknownMember(frames[name], "nonsense") {
			t.Errorf("%s: nonsense is read", name)
		}
		for field := range o.Properties {
			if unknownMember(frames[name], field) {
				t.Errorf("%s: %s is in the schema, but nobody reads it", name, field)
			}
		}
	}
}
