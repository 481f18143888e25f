package file

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// The page that describes the two files names all their fields.
func TestPageNamesTheFields(t *testing.T) {
	page, err := os.ReadFile("../../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{entry{}, prices{}, scriptEntry{}, scriptWhen{}, Call{}, scriptUsage{}, Failure{}} {
		for i := range reflect.TypeOf(v).NumField() {
			if name := reflect.TypeOf(v).Field(i).Tag.Get("yaml"); name == "" || !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/models.md does not name `%s` (%T)", name, v)
			}
		}
	}
}
