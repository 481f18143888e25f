package web

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/tipstaff/tipstaff"
)

// openAPI describes the routes. It is made of their table, and kept beside it so that a
// change of the API is seen as one.
//
//go:embed openapi.json
var openAPI []byte

func (c *call) description() (any, error) { return stored{jsonType, openAPI}, nil }

// faults are the statuses of errors that any route may answer with.
var faults = map[int]string{
	http.StatusBadRequest: "The request cannot be read, or a field of it is wrong.", http.StatusUnauthorized: "There is no token, or it is not known.",
	http.StatusForbidden: "Another user's, or a scope is missing, or the request is for another host or from another origin.",
	http.StatusNotFound:  "There is no such thing.", http.StatusConflict: "It cannot be done as things stand.",
	http.StatusTooManyRequests: "There is no room at present.", http.StatusInternalServerError: "Something unexpected went wrong.",
	http.StatusServiceUnavailable: "The server is shutting down, or its store cannot be reached.",
}

// bodyFaults are those of routes that read a body besides.
var bodyFaults = map[int]string{
	http.StatusRequestEntityTooLarge: "The body has more than 4 MiB.", http.StatusUnsupportedMediaType: "The body is not JSON.",
	http.StatusUnprocessableEntity: "The program is not valid, or the action or feedback does not fit.",
}

type object = map[string]any

// describe is the description of the routes in the form of OpenAPI 3.1.
func describe() ([]byte, error) {
	paths := object{}
	for _, r := range routes {
		if r.method == anyMethod {
			continue // MCP describes itself
		}
		described, err := r.describe()
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", r.method, r.path, err)
		}
		path, _ := paths[r.path].(object)
		if path == nil {
			path = object{}
		}
		path[strings.ToLower(r.method)] = described
		paths[r.path] = path
	}
	schemas := object{}
	fault, err := schemaOf(reflect.TypeFor[told]())
	if err != nil {
		return nil, err
	}
	schemas["Error"] = object{"type": "object", "required": []string{"error"}, "properties": object{"error": fault}}
	for _, t := range shared {
		if schemas[t.Name()], err = schemaOf(t, t); err != nil {
			return nil, err
		}
	}
	replies := object{}
	for _, of := range []map[int]string{faults, bodyFaults} {
		for status, about := range of {
			replies[fmt.Sprint(status)] = object{"description": about, "content": object{jsonType: object{"schema": object{"$ref": "#/components/schemas/Error"}}}}
		}
	}
	doc := object{
		"openapi": "3.1.0",
		"info":    object{"title": "Tipstaff", "version": APIVersion, "description": "Runs of AI agents' work: start them, follow them, decide what they ask."},
		"paths":   paths,
		"components": object{
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
			"schemas":         schemas,
			"responses":       replies,
		},
		"security": []object{{"token": []string{}}},
	}
	text, err := json.MarshalIndent(doc, "", " ")
	return append(text, '\n'), err
}

func (r *route) describe() (object, error) {
	d := object{"summary": r.about}
	if r.public {
		d["security"] = []object{}
	}
	params := []object{}
	for part := range strings.SplitSeq(r.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			schema := object{"type": "string"}
			if part == "{run}" {
				schema["pattern"] = idPattern
			}
			params = append(params, object{"name": strings.TrimSuffix(name, "}"), "in": "path", "required": true, "schema": schema})
		}
	}
	for _, p := range r.query {
		schema := object{"type": p.kind}
		if p.list {
			schema = object{"type": "array", "items": schema}
		}
		params = append(params, object{"name": p.name, "in": "query", "description": p.about, "schema": schema})
	}
	if r.keyed {
		params = append(params, object{"name": "Idempotency-Key", "in": "header", "description": "names the request: sent again, it finds its run", "schema": object{"type": "string", "maxLength": 200}})
	}
	if r.path == "/runs/{run}/events" {
		params = append(params, object{"name": "Last-Event-ID", "in": "header", "description": "the last record of a stream that was had", "schema": object{"type": "integer"}})
	}
	if len(params) > 0 {
		d["parameters"] = params
	}
	responses := object{}
	for _, of := range []map[int]string{faults, bodyFaults} {
		for status := range of {
			if r.body != nil || bodyFaults[status] == "" {
				responses[fmt.Sprint(status)] = object{"$ref": fmt.Sprintf("#/components/responses/%d", status)}
			}
		}
	}
	if r.body != nil {
		schema, err := schemaOf(reflect.TypeOf(r.body))
		if err != nil {
			return nil, err
		}
		d["requestBody"] = object{"required": !r.empty, "content": object{jsonType: object{"schema": schema}}}
	}
	answer, err := r.describeAnswer()
	if err != nil {
		return nil, err
	}
	for _, status := range r.status {
		if described := (object{"description": http.StatusText(status)}); status == http.StatusNoContent {
			responses[fmt.Sprint(status)] = described
		} else {
			described["content"] = answer
			responses[fmt.Sprint(status)] = described
		}
	}
	d["responses"] = responses
	return d, nil
}

func (r *route) describeAnswer() (object, error) {
	switch answer := r.answer.(type) {
	case nil:
		return object{jsonType: object{"schema": object{"type": "object"}}}, nil
	case string:
		return object{answer: object{}}, nil
	}
	schema, err := schemaOf(reflect.TypeOf(r.answer))
	content := object{jsonType: object{"schema": schema}}
	if r.path == "/runs/{run}/events" {
		content["text/event-stream"] = object{}
	}
	if r.path == "/runs" && r.method == http.MethodPost { // a dry run answers otherwise
		content = object{jsonType: object{"schema": object{"anyOf": []any{schema, object{"type": "object"}}}}}
	}
	return content, err
}

const idPattern = "^[0-7][0-9A-HJKMNP-TV-Z]{25}$"

// shared are types that many answers hold, which are described once.
var shared = []reflect.Type{
	reflect.TypeFor[tipstaff.Gate](), reflect.TypeFor[tipstaff.NextCall](), reflect.TypeFor[tipstaff.Problem](), reflect.TypeFor[tipstaff.Outline](), reflect.TypeFor[tipstaff.MetricRow](), reflect.TypeFor[tipstaff.Life](),
}

// schemaOf describes the JSON of a type; own is the shared type that is being described.
func schemaOf(t reflect.Type, own ...reflect.Type) (*jsonschema.Schema, error) {
	known := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[tipstaff.ID]():           {Type: "string", Pattern: idPattern},
		reflect.TypeFor[time.Time]():             {Type: "string", Format: "date-time"},
		reflect.TypeFor[json.RawMessage]():       {},
		reflect.TypeFor[tipstaff.Bounds]():       {Type: "object"},
		reflect.TypeFor[tipstaff.BoundsStatus](): {Type: "object"},
		reflect.TypeFor[tipstaff.USD]():          {Type: "string"},
	}
	for _, t := range shared {
		if !slices.Contains(own, t) {
			known[t] = &jsonschema.Schema{Ref: "#/components/schemas/" + t.Name()}
		} else if t.Kind() == reflect.Struct { // what it holds of its kind is not described again
			for i := range t.NumField() {
				if inner := t.Field(i).Type; inner.Kind() == reflect.Slice && (inner.Elem() == t || inner.Elem() == reflect.PointerTo(t)) {
					known[inner] = &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Ref: "#/components/schemas/" + t.Name()}}
				}
			}
		}
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: known})
	if err == nil {
		plainRefs(s)
	}
	return s, err
}

// plainRefs takes the type off references. That of a pointer says null alone, which nothing
// that is referred to is.
func plainRefs(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Ref != "" {
		s.Type, s.Types = "", nil
	}
	for _, inner := range s.Properties {
		plainRefs(inner)
	}
	plainRefs(s.Items)
	plainRefs(s.AdditionalProperties)
}
