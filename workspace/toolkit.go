package workspace

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/policy"
)

// Toolkit is a group of tools as a toolkits.yaml declares it.
type Toolkit struct {
	Name        string   `json:"name" doc:"name"`
	Description string   `json:"description" doc:"description"`
	Match       []string `json:"match" doc:"match"`   // patterns on server/tool; none: tools come to it by its name
	Always      bool     `json:"always" doc:"always"` // part of every selection
}

// ParseToolkits reads a toolkits.yaml. It reports every problem with its line and
// column; with any, the list is nil. name is the file's, for the problems.
func ParseToolkits(name string, src []byte) ([]Toolkit, []tipstaff.Problem) {
	file := toolkitFile{Toolkits: []Toolkit{}}
	if problems := new(parser).read(name, src, &file); len(problems) > 0 {
		return nil, problems
	}
	return file.Toolkits, nil
}

type toolkitFile struct {
	Version  int       `doc:"version,min=1,max=1"`
	Toolkits []Toolkit `doc:"toolkits"`
}

// CheckDocument finds names that stand twice: models are not held to upper and lower
// case.
func (file *toolkitFile) CheckDocument(f *document.Fields) {
	for i, t := range file.Toolkits {
		if v := f.Value.Find("toolkits", strconv.Itoa(i), "name"); v != nil && t.Name != "" &&
			slices.ContainsFunc(file.Toolkits[:i], func(other Toolkit) bool { return strings.EqualFold(other.Name, t.Name) }) {
			f.Report(document.CodeFieldInvalid, v.At, index("toolkits", i)+".name", "there is already a toolkit %q", t.Name)
		}
	}
}

var toolkitForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// CheckDocument checks the name and the patterns.
func (t *Toolkit) CheckDocument(f *document.Fields) {
	needs(f, "name", "")
	t.Match = orEmpty(t.Match)
	check(f, "name", func(s string) error {
		if !toolkitForm.MatchString(s) {
			return fmt.Errorf("%s cannot name a toolkit: 1 to 64 of A-Z, a-z, 0-9, _, . and -, beginning with a letter or digit", tipstaff.Quote(s, 100))
		}
		return nil
	})
	checkEach(f, "match", func(s string) error {
		_, err := policy.ParsePattern(s)
		return err
	})
}
