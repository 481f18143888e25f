package docs_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The routes on the page are those that there are.
func TestRoutesAreListed(t *testing.T) {
	text, err := os.ReadFile("../web/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var described struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &described); err != nil {
		t.Fatal(err)
	}
	var real []string
	for path, methods := range described.Paths {
		for method := range methods {
			real = append(real, strings.ToUpper(method)+" "+path)
		}
	}
	var listed []string
	for _, found := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /[^`]*)` \\|").FindAllStringSubmatch(section(t, "http.md", "## Routes"), -1) {
		listed = append(listed, found[1])
	}
	slices.Sort(real)
	slices.Sort(listed)
	if !slices.Equal(listed, real) {
		t.Errorf("http.md lists\n%v, there are\n%v", listed, real)
	}
}
