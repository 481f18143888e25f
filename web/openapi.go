package web

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
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
	fault, err := schemaOf(told{Error: &tipstaff.Error{}})
	if err != nil {
		return nil, err
	}
	doc := object{
		"openapi": "3.1.0",
		"info":    object{"title": "Tipstaff", "version": "1", "description": "Runs of AI agents' work: start them, follow them, decide what they ask."},
		"paths":   paths,
		"components": object{
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
			"schemas":         object{"Error": object{"type": "object", "required": []string{"error"}, "properties": object{"error": fault}}},
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
		for status, about := range of {
			if r.body != nil || bodyFaults[status] == "" {
				responses[fmt.Sprint(status)] = object{"description": about, "content": object{jsonType: object{"schema": object{"$ref": "#/components/schemas/Error"}}}}
			}
		}
	}
	if r.body != nil {
		schema, err := schemaOf(r.body)
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
	schema, err := schemaOf(r.answer)
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

// schemaOf describes the JSON of a type.
func schemaOf(v any) (*jsonschema.Schema, error) {
	text := func(pattern string) *jsonschema.Schema { return &jsonschema.Schema{Type: "string", Pattern: pattern} }
	return jsonschema.ForType(reflect.TypeOf(v), &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[tipstaff.ID]():     text(idPattern),
		reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
		reflect.TypeFor[json.RawMessage](): {},
		reflect.TypeFor[tipstaff.Bounds](): {Type: "object"},
		reflect.TypeFor[tipstaff.USD]():    {},
		// These hold others of their kind.
		reflect.TypeFor[tipstaff.MetricRow](): {Type: "object"},
		reflect.TypeFor[tipstaff.Outline]():   {Type: "object"},
	}})
}
