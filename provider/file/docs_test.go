package file

import (
	"os"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/document"
)

// The page that describes the two files names all their fields.
func TestPageNamesTheFields(t *testing.T) {
	page, err := os.ReadFile("../../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	for what, read := range map[string]func(*document.Fields){
		"an entry of the table":  func(f *document.Fields) { f.Decode(new(entry)) },
		"the prices of an entry": func(f *document.Fields) { f.Decode(new(prices)) },
		"an answer":              func(f *document.Fields) { f.Decode(new(Answer)) },
		"when":                   func(f *document.Fields) { readTests(f) },
		"a call":                 func(f *document.Fields) { f.Decode(new(Call)) },
		"usage":                  func(f *document.Fields) { f.Decode(new(usage)) },
		"error":                  func(f *document.Fields) { f.Decode(new(Failure)) },
	} {
		f := document.FieldsOf(new(document.Problems), &document.Value{Kind: document.Object}, "")
		read(f)
		if len(f.Known()) == 0 {
			t.Errorf("%s has no fields", what)
		}
		for _, name := range f.Known() {
			if !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/models.md does not name `%s` of %s", name, what)
			}
		}
	}
}
