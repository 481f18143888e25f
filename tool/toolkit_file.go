package tool

import (
	"regexp"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/policy"
)

// ToolkitConfig is a group of tools as a toolkits.yaml declares it.
type ToolkitConfig struct {
	Name        string
	Description string
	Match       []string // patterns on server/tool; none: tools come to it by its name
	Always      bool     // part of every selection
}

// ParseToolkits reads a toolkits.yaml. It reports every problem with its line and
// column; with any, the list is nil. name is the file's, for the problems.
func ParseToolkits(name string, src []byte) ([]ToolkitConfig, []tipstaff.Problem) {
	p := &toolkitParser{reader: reader{file: name}, list: []ToolkitConfig{}}
	if root, ok := p.document(src); ok && root.value != nil {
		p.credentials(root)
		p.object(root, fields{
			"version":  func(v at) { p.integer(v, 1, 1) },
			"toolkits": func(v at) { p.reader.list(v, p.toolkit) },
		})
	}
	if p.problems != nil {
		slices.SortStableFunc(p.problems, byPlace)
		return nil, p.problems
	}
	return p.list, nil
}

type toolkitParser struct {
	reader
	list []ToolkitConfig
}

func (p *toolkitParser) toolkit(_ int, n at) {
	t := ToolkitConfig{Match: []string{}}
	named := false
	p.object(n, fields{
		"name":        func(v at) { named = true; t.Name = p.name(v) },
		"description": func(v at) { t.Description, _ = p.text(v) },
		"match":       func(v at) { p.reader.list(v, func(_ int, item at) { t.Match = append(t.Match, p.pattern(item)) }) },
		"always":      func(v at) { t.Always = p.boolean(v) },
	})
	if !named {
		p.report(ProblemMissing, n, "%s needs a name", n.path)
	}
	p.list = append(p.list, t)
}

var toolkitForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// name is one that no other toolkit has: models are not held to upper and lower
// case.
func (p *toolkitParser) name(n at) string {
	s, ok := p.text(n)
	if !ok {
		return ""
	}
	switch {
	case !toolkitForm.MatchString(s):
		p.report(ProblemRange, n, "%s cannot name a toolkit: 1 to 64 of A-Z, a-z, 0-9, _, . and -, beginning with a letter or digit", tipstaff.Quote(s, 100))
	case slices.ContainsFunc(p.list, func(t ToolkitConfig) bool { return strings.EqualFold(t.Name, s) }):
		p.report(ProblemDuplicate, n, "there is already a toolkit %q", s)
	}
	return s
}

func (p *toolkitParser) pattern(n at) string {
	s, ok := p.text(n)
	if !ok {
		return ""
	}
	if _, err := policy.ParsePattern(s); err != nil {
		p.report(ProblemRange, n, "%v", err)
	}
	return s
}
