package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/tipstaff/tipstaff/document"
)

// Schema is a JSON Schema of a tool's arguments or output. It is compiled when it
// is first needed: of the many tools that servers list, a run calls a few.
type Schema struct {
	raw      json.RawMessage
	usable   func() error // compiles it, once
	root     *jsonschema.Schema
	resolved *jsonschema.Resolved
}

func newSchema(raw json.RawMessage) *Schema {
	s := &Schema{raw: slices.Clone(raw)}
	s.usable = sync.OnceValue(s.compile)
	return s
}

// SchemaError says where a value does not fit its schema.
type SchemaError struct {
	Pointer string // JSON pointer to the part of the value that is wrong
	Message string
}

func (e *SchemaError) Error() string {
	if e.Pointer == "" {
		return e.Message
	}
	return e.Pointer + ": " + e.Message
}

// maxSchema is the most bytes a schema may have. Definitions come from servers:
// a hostile one must not be able to occupy the process.
const maxSchema = 1 << 20

func (s *Schema) compile() error {
	if len(s.raw) > maxSchema {
		return fmt.Errorf("the schema has %d bytes: %d are the most", len(s.raw), maxSchema)
	}
	var err error
	if s.root, err = document.ReadSchema(s.raw); err != nil {
		return err
	}
	s.resolved, err = s.root.Resolve(nil)
	return err
}

// CompileSchema is a schema that stands outside of a definition, and is known to be
// usable.
func CompileSchema(raw json.RawMessage) (*Schema, error) {
	s := newSchema(raw)
	return s, s.usable()
}

// Raw is the schema as it was given.
func (s *Schema) Raw() json.RawMessage { return s.raw }

// Validate checks one JSON value, without coercion or defaults. The error is a
// *SchemaError.
func (s *Schema) Validate(value json.RawMessage) error {
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		return &SchemaError{Message: "not JSON: " + err.Error()}
	}
	return s.validate(v)
}

func (s *Schema) validate(v any) error {
	if err := s.usable(); err != nil {
		return &SchemaError{Message: "the schema cannot be used: " + err.Error()}
	}
	err := s.resolved.Validate(v)
	if err == nil {
		return nil
	}
	l := locator{schema: s, parts: map[string]*part{}}
	return l.locate("", "#", v, err)
}

// locator finds where in a value a failure lies, since the validator does not
// tell. It runs only after a failure.
type locator struct {
	schema *Schema
	parts  map[string]*part // by reference into the schema
}

// part is a piece of the schema that can validate by itself.
type part struct {
	ref      string // where it stands, after following references
	schema   *jsonschema.Schema
	resolved *jsonschema.Resolved
}

// locate descends from a place that failed to the innermost part of the value
// that fails by itself. at points into the value, ref into the schema.
func (l *locator) locate(at, ref string, v any, failure error) *SchemaError {
	for _, c := range l.children(ref, v) {
		p := l.part(c.ref)
		if p == nil {
			continue // the parent's failure stands
		}
		if err := p.resolved.Validate(c.value); err != nil {
			if p.schema.Not != nil && strings.HasSuffix(c.ref, "/additionalProperties") {
				return &SchemaError{at + "/" + escapePointer(c.name), l.unknown(ref)}
			}
			return l.locate(at+"/"+escapePointer(c.name), c.ref, c.value, err)
		}
	}
	return &SchemaError{at, innermost(failure)}
}

// unknown is the message for a member that the schema at ref does not take.
func (l *locator) unknown(ref string) string {
	var known []string
	if p := l.part(ref); p != nil {
		known = sortedKeys(p.schema.Properties)
	}
	if len(known) == 0 {
		return "nothing of that name is taken here"
	}
	return "nothing of that name is taken here, only " + strings.Join(known, ", ")
}

type child struct {
	name, ref string
	value     any
}

// children are the members of v that the schema at ref gives a schema of their
// own, in a fixed order.
func (l *locator) children(ref string, v any) []child {
	p := l.part(ref)
	if p == nil {
		return nil
	}
	var list []child
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			switch {
			case p.schema.Properties[name] != nil:
				list = append(list, child{name, p.ref + "/properties/" + url.PathEscape(escapePointer(name)), value})
			case p.schema.AdditionalProperties != nil && len(p.schema.PatternProperties) == 0:
				list = append(list, child{name, p.ref + "/additionalProperties", value})
			}
		}
		slices.SortFunc(list, func(a, b child) int { return strings.Compare(a.name, b.name) })
	case []any:
		for i, value := range v {
			switch {
			case i < len(p.schema.PrefixItems):
				list = append(list, child{strconv.Itoa(i), p.ref + "/prefixItems/" + strconv.Itoa(i), value})
			case p.schema.Items != nil:
				list = append(list, child{strconv.Itoa(i), p.ref + "/items", value})
			}
		}
	}
	return list
}

// part is the piece of the schema at ref; nil if it cannot stand alone.
func (l *locator) part(ref string) *part {
	if p, ok := l.parts[ref]; ok {
		return p
	}
	p := l.make(ref)
	l.parts[ref] = p
	return p
}

func (l *locator) make(ref string) *part {
	var doc any
	if json.Unmarshal(l.schema.raw, &doc) != nil {
		return nil
	}
	for { // it ends: no reference leads back to itself
		piece, _ := document.SchemaPart(doc, ref)
		if piece == nil {
			return nil
		}
		text, err := json.Marshal(piece)
		if err != nil {
			return nil
		}
		schema := new(jsonschema.Schema)
		if json.Unmarshal(text, schema) != nil {
			return nil
		}
		if schema.Ref != "" {
			ref = schema.Ref
			continue
		}
		resolved, err := l.alone(ref)
		if err != nil {
			return nil
		}
		return &part{ref, schema, resolved}
	}
}

// alone resolves the piece at ref by itself. The whole schema goes along under
// an identifier of its own, so that references inside it keep their meaning.
func (l *locator) alone(ref string) (*jsonschema.Resolved, error) {
	const id = "https://tipstaff.invalid/schema"
	whole := l.schema.root.CloneSchemas()
	whole.ID = id
	wrapper := &jsonschema.Schema{
		Schema: whole.Schema,
		Ref:    id + ref,
		Defs:   map[string]*jsonschema.Schema{"whole": whole},
	}
	return wrapper.Resolve(nil)
}

// innermost is the text of the failure itself, without the chain of schemas that
// led to it.
func innermost(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			break
		}
		err = next
	}
	text := strings.ReplaceAll(err.Error(), "<invalid reflect.Value>", "null") // what the validator calls it
	return cut(text, 300)
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

func escapePointer(name string) string { return pointerEscaper.Replace(name) }

// headerMember marks a parameter whose value travels in a header of the request
// as well, where whatever stands between client and server can see it.
const headerMember = "x-mcp-header"

// checkHeaders refuses an input schema whose parameters cannot travel in the
// headers that it names. The protocol forbids to offer such a tool: a value that
// is no header's could break out of it.
func checkHeaders(raw json.RawMessage) error {
	if !strings.Contains(string(raw), headerMember) {
		return nil
	}
	var schema any
	if err := json.Unmarshal(raw, &schema); err != nil {
		return err
	}
	return checkHeadersOf(schema, "#", map[string]bool{})
}

// checkHeadersOf looks at the properties of a schema; taken are the names used so far,
// which differ in more than case.
func checkHeadersOf(schema any, at string, taken map[string]bool) error {
	object, _ := schema.(map[string]any) // true and false have nothing to say here
	properties, _ := object["properties"].(map[string]any)
	for _, name := range sortedKeys(properties) {
		property, _ := properties[name].(map[string]any)
		at := at + "/properties/" + name
		if asked, ok := property[headerMember]; ok {
			header, err := headerName(asked, property["type"])
			if err == nil && taken[strings.ToLower(header)] {
				err = fmt.Errorf("two parameters ask for the header %q", header)
			}
			if err != nil {
				return fmt.Errorf("%s: %s: %w", at, headerMember, err)
			}
			taken[strings.ToLower(header)] = true
		}
		if err := checkHeadersOf(property, at, taken); err != nil {
			return err
		}
	}
	return nil
}

// headerName is the name that a parameter of a type asks for.
func headerName(asked, kind any) (string, error) {
	name, _ := asked.(string)
	if name == "" {
		return "", errors.New("it is not the name of a header")
	}
	const allowed = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" // in a header's name, by HTTP
	if i := strings.IndexFunc(name, func(r rune) bool { return !strings.ContainsRune(allowed, r) }); i >= 0 {
		return "", fmt.Errorf("%q cannot stand in the name of a header", name[i:])
	}
	if kind != "string" && kind != "integer" && kind != "boolean" {
		return "", errors.New("only a string, an integer or a boolean can travel in a header")
	}
	return name, nil
}
