package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/workspace"
)

// misc is the toolkit of tools that nothing else claims.
const misc = "misc"

// Toolkit is a named group of tools, by which a router narrows a catalog.
type Toolkit struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Match       []string `json:"match"`  // patterns on server/tool
	Always      bool     `json:"always"` // in every selection
}

// ParseToolkits reads a toolkits.yaml. It reports every problem with its line and
// column; with any, there are no toolkits. name is the file's, for the problems.
func ParseToolkits(name string, src []byte) ([]Toolkit, []tipstaff.Problem) {
	configs, problems := workspace.ParseToolkits(name, src)
	if problems != nil {
		return nil, problems
	}
	toolkits := make([]Toolkit, len(configs))
	for i, c := range configs {
		toolkits[i] = Toolkit(c)
	}
	return toolkits, nil
}

// sorter sorts tools into toolkits.
type sorter struct {
	toolkits []Toolkit
	patterns [][]policy.Pattern // of each toolkit
}

func newSorter(toolkits []Toolkit) (*sorter, error) {
	s := &sorter{toolkits: toolkits}
	for _, t := range toolkits {
		var patterns []policy.Pattern
		for _, m := range t.Match {
			p, err := policy.ParsePattern(m)
			if err != nil {
				return nil, fmt.Errorf("toolkit %q: %w", t.Name, err)
			}
			patterns = append(patterns, p)
		}
		s.patterns = append(s.patterns, patterns)
	}
	return s, nil
}

// kits are the toolkits that have tools, in the order in which the catalog first
// names one of theirs; and for each tool of the catalog, which of them is its own.
func (s *sorter) kits(c *Catalog) (kits []Toolkit, homes []int) {
	for _, t := range c.Tools {
		home := s.home(t)
		i := slices.IndexFunc(kits, func(k Toolkit) bool { return k.Name == home.Name })
		if i < 0 {
			i = len(kits)
			kits = append(kits, home)
		}
		homes = append(homes, i)
	}
	return kits, homes
}

// home is the toolkit that a tool belongs to: the first that matches, else the one
// that its name begins with, which need not be declared.
func (s *sorter) home(t Tool) Toolkit {
	for i, patterns := range s.patterns {
		if slices.ContainsFunc(patterns, func(p policy.Pattern) bool { return p.Match(t.Server, t.Name) }) {
			return s.toolkits[i]
		}
	}
	name, _, found := strings.Cut(t.Name, "_")
	if !found || name == "" {
		name = misc
	}
	if i := slices.IndexFunc(s.toolkits, func(k Toolkit) bool { return k.Name == name }); i >= 0 {
		return s.toolkits[i]
	}
	return Toolkit{Name: name}
}
