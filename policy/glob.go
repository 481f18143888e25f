package policy

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// glob is a pattern on server/tool. Its two halves are matched separately, so
// that no wildcard can cross the slash.
type glob struct{ server, tool string }

var errNoSlash = errors.New(`a tool pattern is server/tool with exactly one "/", as in "*/delete_*"`)

// parseGlob refuses a pattern without its slash: a deny rule that silently
// matches nothing would be worse than an error.
func parseGlob(s string) (glob, error) {
	server, tool, ok := strings.Cut(s, "/")
	switch {
	case !ok || strings.Contains(tool, "/"):
		return glob{}, fmt.Errorf("%q: %w", s, errNoSlash)
	case server == "" || tool == "":
		return glob{}, fmt.Errorf("%q: both sides of the slash need a pattern", s)
	}
	for _, r := range s {
		if !globRune(r) {
			return glob{}, fmt.Errorf("%q: %q cannot stand in the name of a server or tool", s, r)
		}
	}
	return glob{server, tool}, nil
}

// globRune admits the characters of names and the two wildcards. Brackets and
// braces are refused rather than matched literally: who writes them expects a
// set, and would get a rule that never matches.
func globRune(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return true
	}
	return strings.ContainsRune("_.-/*?", r)
}

func (g glob) match(server, tool string) bool {
	return wild(g.server, server) && wild(g.tool, tool)
}

// wild matches * (any run, also empty) and ? (one character).
func wild(pattern, s string) bool {
	ok, err := path.Match(pattern, s)
	return ok && err == nil
}

// overlaps reports whether some tool could match both patterns.
func (g glob) overlaps(h glob) bool {
	return meet(g.server, h.server) && meet(g.tool, h.tool)
}

// meet reports whether some text matches both patterns: it walks them together, and
// wherever one has a star the other may go ahead by one.
func meet(a, b string) bool {
	reach := make([]bool, len(b)+1) // after the part of a so far: which parts of b can stand beside it
	reach[0] = true
	spread := func(of []bool, star bool) {
		for j := range len(b) {
			if of[j] && (star || b[j] == '*') {
				of[j+1] = true
			}
		}
	}
	spread(reach, false)
	for i := range len(a) {
		next := make([]bool, len(b)+1)
		for j, here := range reach {
			switch {
			case !here:
			case a[i] == '*':
				next[j] = true
			case j < len(b) && b[j] == '*':
				next[j] = true
			case j < len(b) && (a[i] == '?' || b[j] == '?' || a[i] == b[j]):
				next[j+1] = true
			}
		}
		spread(next, a[i] == '*')
		reach = next
	}
	return reach[len(b)]
}

// Pattern is a pattern on server/tool, as rules have it, for others who name
// tools by patterns. The zero value matches nothing.
type Pattern struct{ glob glob }

// ParsePattern reads a pattern like "*/delete_*": * and ? do not cross the one
// slash that it must have.
func ParsePattern(s string) (Pattern, error) {
	g, err := parseGlob(s)
	return Pattern{g}, err
}

// Match reports whether a tool is meant.
func (p Pattern) Match(server, tool string) bool { return p.glob.match(server, tool) }
