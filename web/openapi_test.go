package web

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write openapi.json anew")

// The description is that of the routes as they are.
func TestOpenAPIIsThatOfTheRoutes(t *testing.T) {
	text, err := describe()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("openapi.json", text, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(text, openAPI) {
		t.Error("openapi.json is not that of the routes: go test ./web -run OpenAPI -update, and read what has changed")
	}
}
