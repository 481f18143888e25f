package page_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/tipstaff/tipstaff/test/webtest"
)

// description is openapi.json, as far as it is looked at.
type description struct {
	Components struct {
		Schemas   map[string]*jsonschema.Schema
		Responses map[string]response
	}
	Paths map[string]map[string]struct {
		Parameters []struct{ Name, In string }
		Responses  map[string]response
	}
}

type response struct {
	Ref     string `json:"$ref"`
	Content map[string]struct{ Schema *jsonschema.Schema }
}

var describedRoutes = sync.OnceValue(func() (d description) {
	text, err := os.ReadFile("../../web/openapi.json")
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		panic(err)
	}
	return d
})

var inBraces = regexp.MustCompile(`\{[a-z]+\}`)

// described fails a test whose request was answered with a status that the description of the
// route does not have. Paths that no route has are answered 400, 401, 403 or 404.
//
// A JSON answer must also fit the schema that is described.
func described(t testing.TB, method, at string, a answer) {
	t.Helper()
	status := a.status
	at, _, _ = strings.Cut(at, "?")
	for pattern, methods := range describedRoutes().Paths {
		fits := regexp.MustCompile("^" + inBraces.ReplaceAllString(pattern, `[^/]+`) + "$")
		if !fits.MatchString(at) {
			continue
		}
		of, known := methods[strings.ToLower(method)]
		if !known {
			if status != 401 && status != 403 && status != 405 && status != 400 {
				t.Errorf("%s %s is answered %d, and is not described", method, at, status)
			}
			return
		}
		response, known := of.Responses[fmt.Sprint(status)]
		if !known {
			t.Errorf("%s %s is answered %d, which is not described", method, at, status)
		}
		if response.Ref != "" {
			response = describedRoutes().Components.Responses[path.Base(response.Ref)]
		}
		if schema := response.Content["application/json"].Schema; schema != nil && a.header.Get("Content-Type") == "application/json" {
			if err := fitsSchema(schema, a.body); err != nil {
				t.Errorf("%s %s is answered %d with what is described otherwise: %v\n%.600s", method, at, status, err, a.body)
			}
		}
		return
	}
	if status != 400 && status != 401 && status != 403 && status != 404 {
		t.Errorf("%s %s is answered %d, and no such path is described", method, at, status)
	}
}

// fitsSchema validates an answer.
func fitsSchema(schema *jsonschema.Schema, body []byte) error {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return err
	}
	known, ok := resolved.Load(schema)
	if !ok {
		made, err := resolve(schema)
		if err != nil {
			return err
		}
		known, _ = resolved.LoadOrStore(schema, made)
	}
	return known.(*jsonschema.Resolved).Validate(v)
}

var resolved sync.Map // of schemas that were resolved

// resolve finds what a schema refers to among the shared ones of the description.
func resolve(schema *jsonschema.Schema) (*jsonschema.Resolved, error) {
	whole := &jsonschema.Schema{AllOf: []*jsonschema.Schema{schema.CloneSchemas()}, Defs: map[string]*jsonschema.Schema{}}
	for name, shared := range describedRoutes().Components.Schemas {
		whole.Defs[name] = shared.CloneSchemas()
	}
	text, err := json.Marshal(whole)
	if err != nil {
		return nil, err
	}
	whole = new(jsonschema.Schema)
	if err := json.Unmarshal(bytes.ReplaceAll(text, []byte("#/components/schemas/"), []byte("#/$defs/")), whole); err != nil {
		return nil, err
	}
	return whole.Resolve(nil)
}

// Every parameter that is described is read, and no other is.
func TestParametersAreThoseDescribed(t *testing.T) {
	b := newAPI(t)
	run := b.start("alice", webtest.Gated("a.txt"))
	gate := b.Rest(run).OpenGates[0].ID.String()
	n := 0
	for path, methods := range describedRoutes().Paths {
		of, known := methods["get"]
		if !known {
			continue
		}
		at := strings.NewReplacer("{run}", run, "{gate}", gate, "{seq}", "1", "{name}", "x").Replace(path)
		for _, p := range of.Parameters {
			if p.In != "query" {
				continue
			}
			n++
			if a := b.get("alice", at+"?"+url.Values{p.Name: {"\x00"}}.Encode()); a.status != 400 && a.status != 200 || strings.Contains(string(a.body), "there is no parameter") {
				t.Errorf("%s does not know its parameter %s: %s", at, p.Name, a.body)
			}
		}
		if a := b.get("alice", at+"?user=bob"); a.status != 400 || !strings.Contains(string(a.body), "there is no parameter") {
			t.Errorf("%s takes a parameter that it does not have: %d %s", at, a.status, a.body)
		}
	}
	if n < 20 {
		t.Errorf("%d parameters are described", n)
	}
}
