package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// CompileSchema makes a validator of a JSON Schema that a document holds. Nothing
// is fetched: a schema can only refer to its own parts. A type that no value has is
// refused: the library would say so only of every value.
func CompileSchema(schema json.RawMessage) (*jsonschema.Resolved, error) {
	s, err := readSchema(schema, true)
	if err != nil {
		return nil, err
	}
	return s.Resolve(nil)
}

// ReadSchema reads a JSON Schema that can be validated by: each of its references leads
// to a part of it, and none back to where it came from with the same value.
func ReadSchema(schema json.RawMessage) (*jsonschema.Schema, error) { return readSchema(schema, false) }

func readSchema(schema json.RawMessage, types bool) (*jsonschema.Schema, error) {
	var root any
	if err := json.Unmarshal(schema, &root); err != nil {
		return nil, err
	}
	if object, ok := root.(map[string]any); ok {
		g := &schemaGraph{root: object, types: types, state: map[string]visit{}}
		if err := g.everywhere("#", object); err != nil {
			return nil, err
		}
	}
	s := new(jsonschema.Schema)
	return s, json.Unmarshal(schema, s)
}

// Conforms says what keeps a JSON value from being one that schema describes.
func Conforms(schema *jsonschema.Resolved, raw json.RawMessage) error {
	var instance any
	if err := json.Unmarshal(raw, &instance); err != nil {
		return err
	}
	return schema.Validate(instance)
}

// schemaGraph looks for schemas that apply themselves to the same value again,
// like {"$ref": "#"}. A validator follows such a loop until its stack is
// exhausted, which no recover can catch.
type schemaGraph struct {
	root  map[string]any
	types bool             // types are looked at, too
	state map[string]visit // by JSON pointer
}

const maxSchemaDepth = 200

type visit uint8

const (
	unseen visit = iota
	open
	done
)

// keyword is a member of a schema that holds schemas.
type keyword struct {
	name    string
	named   bool // in an object, by names that are not keywords
	inPlace bool // they apply to the value itself, not to a part of it
}

// keywords of drafts 7 and 2020-12. What is not listed here is data: a default
// may look like a schema without being one.
var keywords = []keyword{
	{name: "allOf", inPlace: true}, {name: "anyOf", inPlace: true}, {name: "oneOf", inPlace: true},
	{name: "not", inPlace: true}, {name: "if", inPlace: true}, {name: "then", inPlace: true}, {name: "else", inPlace: true},
	{name: "dependentSchemas", named: true, inPlace: true}, {name: "dependencies", named: true, inPlace: true},
	{name: "properties", named: true}, {name: "patternProperties", named: true},
	{name: "$defs", named: true}, {name: "definitions", named: true},
	{name: "items"}, {name: "prefixItems"}, {name: "additionalItems"}, {name: "unevaluatedItems"}, {name: "contains"},
	{name: "additionalProperties"}, {name: "unevaluatedProperties"}, {name: "propertyNames"}, {name: "contentSchema"},
}

// schemas visits the schemas that a keyword holds: one, or a list or an object
// of them.
func (k keyword) schemas(pointer string, v any, visit func(string, map[string]any) error) error {
	pointer += "/" + k.name
	if one, ok := v.(map[string]any); ok && !k.named {
		return visit(pointer, one)
	}
	return eachPart(pointer, v, func(p string, part any) error {
		if s, ok := part.(map[string]any); ok {
			return visit(p, s)
		}
		return nil
	})
}

// everywhere looks at the schema at pointer and at every one inside it.
func (g *schemaGraph) everywhere(pointer string, schema map[string]any) error {
	if strings.Count(pointer, "/") > maxSchemaDepth {
		return fmt.Errorf("the schema is nested deeper than %d levels", maxSchemaDepth)
	}
	if g.types {
		if err := checkTypes(pointer, schema["type"]); err != nil {
			return err
		}
	}
	if err := g.search(pointer, schema); err != nil {
		return err
	}
	for _, k := range keywords {
		if err := k.schemas(pointer, schema[k.name], g.everywhere); err != nil {
			return err
		}
	}
	return nil
}

// checkTypes refuses a type that no value has.
func checkTypes(pointer string, v any) error {
	types := []string{"null", "boolean", "object", "array", "number", "integer", "string"}
	if list, ok := v.([]any); ok {
		for _, item := range list {
			if err := checkTypes(pointer, item); err != nil {
				return err
			}
		}
		return nil
	}
	if name, ok := v.(string); ok && !slices.Contains(types, name) {
		return fmt.Errorf("%q at %s is not a type; it must be one of %v", Brief(name), pointer, types)
	}
	return nil
}

// search follows what applies in place, depth first.
func (g *schemaGraph) search(pointer string, schema map[string]any) error {
	switch g.state[pointer] {
	case open:
		return fmt.Errorf("the schema at %s applies itself to the same value without end", pointer)
	case done:
		return nil
	}
	g.state[pointer] = open
	defer func() { g.state[pointer] = done }()
	if err := g.follow(pointer, schema); err != nil {
		return err
	}
	for _, k := range keywords {
		if !k.inPlace {
			continue
		}
		if err := k.schemas(pointer, schema[k.name], g.search); err != nil {
			return err
		}
	}
	return nil
}

var errForeignRef = errors.New(`a schema can only refer to its own parts, like "#/$defs/name"`)

// follow goes where a $ref points.
func (g *schemaGraph) follow(pointer string, schema map[string]any) error {
	for _, other := range []string{"$dynamicRef", "$recursiveRef"} {
		if _, ok := schema[other].(string); ok {
			return errForeignRef
		}
	}
	if _, ok := schema["$id"].(string); ok && pointer != "#" { // "#" would be another place inside it
		return errForeignRef
	}
	ref, ok := schema["$ref"].(string)
	if !ok {
		return nil
	}
	if ref != "#" && !strings.HasPrefix(ref, "#/") {
		return errForeignRef
	}
	target, pointer := SchemaPart(g.root, ref)
	if s, ok := target.(map[string]any); ok {
		return g.search(pointer, s)
	}
	return nil // what is missing is reported when the schema is resolved
}

// SchemaPart finds what a reference like #/$defs/x names in a decoded schema; nil:
// nothing. pointer is the reference without the escapes of URLs.
func SchemaPart(root any, ref string) (part any, pointer string) {
	pointer, err := url.PathUnescape(ref)
	if err != nil {
		return nil, ref
	}
	for _, segment := range strings.Split(pointer, "/")[1:] {
		segment = strings.NewReplacer("~1", "/", "~0", "~").Replace(segment)
		switch v := root.(type) {
		case map[string]any:
			root = v[segment]
		case []any:
			i, err := strconv.Atoi(segment)
			if err != nil || i < 0 || i >= len(v) {
				return nil, pointer
			}
			root = v[i]
		default:
			return nil, pointer
		}
	}
	return root, pointer
}

// eachPart visits members and items in a fixed order.
func eachPart(pointer string, v any, visit func(string, any) error) error {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(k)
			if err := visit(pointer+"/"+escaped, v[k]); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range v {
			if err := visit(pointer+"/"+strconv.Itoa(i), item); err != nil {
				return err
			}
		}
	}
	return nil
}
