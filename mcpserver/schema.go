package mcpserver

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/tipstaff/tipstaff"
)

// Schemas follow from the types of the root package. What a type does not say (a range, a
// choice, a length, what an argument is for) is said here.

// idPattern is the form of an id.
const idPattern = "^[0-7][0-9A-HJKMNP-TV-Z]{25}$"

// typeSchemas are those of types that are not written as they are declared.
var typeSchemas = sync.OnceValue(func() map[reflect.Type]*jsonschema.Schema {
	types := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[tipstaff.ID]():           {Type: "string"},
		reflect.TypeFor[json.RawMessage]():       {Description: "any JSON value"}, // without a word it would be written as true, which few clients take for a schema
		reflect.TypeFor[tipstaff.USD]():          {Types: []string{"string", "number"}},
		reflect.TypeFor[tipstaff.Bounds]():       {Type: "object", Description: "limits by the name of a bound, as documents write them"},
		reflect.TypeFor[tipstaff.BoundsStatus](): {Type: "object", Description: "limit, used and reserved by the name of a bound"},
	}
	// Rows of metrics have rows that explain them.
	rows := reflect.TypeFor[[]tipstaff.MetricRow]()
	types[rows] = &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "object"}}
	types[rows] = &jsonschema.Schema{Type: "array", Items: inferWith(rows.Elem(), types)}
	return types
})

// property is what is said of an argument beside its type.
type property struct {
	text     string // what it is for
	choices  []string
	least    float64
	most     float64 // 0: there is no range
	length   int     // characters; 0: as many as there are
	items    int     // of a list, or of an object; 0: as many as there are
	standard string  // what holds where it is absent, in JSON; "": nothing is said
}

// arguments are those that mean the same wherever they stand.
var arguments = map[string]property{
	"run_id":          {text: "id of the run: 26 upper-case characters"},
	"gate_id":         {text: "id of the gate, from open_gates or pending_decisions; required, so that a repeat never decides a later gate"},
	"after_seq":       {text: "cursor: only what was recorded after this seq", most: 1<<53 - 1, standard: "0"},
	"action":          {text: "one of the actions that the gate offers", length: 100},
	"answer":          {text: "value that the action takes, as JSON: the output for use_result, amounts by bound for extend, the reply for answer"},
	"feedback":        {text: "what whoever goes on is told, verbatim; required by retry_feedback, continue_with_waiver, fix and revise, refused elsewhere", length: 16 << 10},
	"note":            {text: "why, for the record", length: 4 << 10},
	"decided_by":      {text: "name of the person who decided; it is recorded as a claim", length: 200},
	"subject_digest":  {text: "digest of the gate as it was shown; another is refused as subject_changed", length: 100},
	"kinds":           {text: "only these kinds", items: 100},
	"project_dir":     {text: "folder inside the workspace that the run is about", length: 4096},
	"inputs":          {text: "inputs by name; of a pipeline: raw_input, metadata, goals, thread_id"},
	"labels":          {text: "labels by name", items: tipstaff.MaxLabels},
	"program":         {text: "text of a plan, pipeline or turn, YAML or JSON", length: 1 << 20},
	"program_file":    {text: "file of a program, inside the workspace", length: 4096},
	"idempotency_key": {text: "names this request: sent again it finds the same run", length: 200},
	"thread_id":       {text: "only runs of this thread", length: 200},
	"session":         {text: "only turns of this conversation", length: 200},
	"status":          {text: "only runs with one of these statuses", items: 20},
}

// inputSchema is that of the arguments of a tool.
func inputSchema(t reflect.Type, own map[string]property) *jsonschema.Schema {
	s := infer(t)
	for name, p := range s.Properties {
		said, ok := own[name]
		if !ok {
			said, ok = arguments[name]
		}
		if !ok {
			panic("mcpserver: nothing is said of the argument " + name + " of " + t.String())
		}
		said.apply(p)
	}
	for field := range t.Fields() {
		if field.Type == reflect.TypeFor[tipstaff.ID]() {
			name := nameOf(field)
			s.Properties[name].Pattern = idPattern
		}
	}
	return s
}

func (p property) apply(s *jsonschema.Schema) {
	s.Description = p.text
	if len(s.Types) == 2 && s.Types[0] == "null" { // an argument that is absent is left out
		s.Type, s.Types = s.Types[1], nil
	}
	of := s
	if s.Items != nil {
		of = s.Items
	}
	for _, choice := range p.choices {
		of.Enum = append(of.Enum, choice)
	}
	if p.most > 0 {
		s.Minimum, s.Maximum = &p.least, &p.most
	}
	if p.length > 0 {
		of.MaxLength = &p.length
	}
	switch {
	case p.items > 0 && s.Type == "array":
		s.MaxItems = &p.items
	case p.items > 0:
		s.MaxProperties = &p.items
	}
	if p.standard != "" {
		s.Default = json.RawMessage(p.standard)
	}
}

// outputSchema is that of a result: the answer of the tool or an error, because some clients
// check what an error says too.
func outputSchema(t reflect.Type) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", AnyOf: []*jsonschema.Schema{infer(t), infer(reflect.TypeFor[errorReply]())}}
}

// infer is the schema of a type. What an embedded pointer has is there if that is.
func infer(t reflect.Type) *jsonschema.Schema { return inferWith(t, typeSchemas()) }

func inferWith(t reflect.Type, types map[reflect.Type]*jsonschema.Schema) *jsonschema.Schema {
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: types})
	if err != nil {
		panic("mcpserver: " + err.Error()) // the types of the root package have schemas
	}
	for field := range t.Fields() {
		if field.Anonymous && field.Type.Kind() == reflect.Pointer {
			for inner := range field.Type.Elem().Fields() {
				name := nameOf(inner)
				s.Required = slices.DeleteFunc(s.Required, func(r string) bool { return r == name })
			}
		}
	}
	return s
}

// nameOf is what a field is called in JSON.
func nameOf(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}
