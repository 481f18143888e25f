package policy

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
