package document

import (
	"path"
	"strings"
)

// LiteralPath reports whether a pattern names one path.
func LiteralPath(pattern string) bool { return !strings.ContainsAny(pattern, `*?[\`) }

// MatchPath reports whether a pattern matches a path with slashes, segment by segment: **
// stands for any number of segments, also none.
//
// Patterns come with documents of others. Only the last ** that was met is tried again with
// one segment more: whatever an earlier one could take instead, the last one can take too.
func MatchPath(pattern, name string) bool {
	patterns, names := strings.Split(pattern, "/"), strings.Split(name, "/")
	p, n := 0, 0
	last, taken := -1, 0 // the last **, and the segments before the end of what it stands for
	for n < len(names) {
		if p < len(patterns) && patterns[p] == "**" {
			last, taken, p = p, n, p+1
			continue
		}
		if p < len(patterns) {
			if ok, _ := path.Match(patterns[p], names[n]); ok { // a fault is no match
				p, n = p+1, n+1
				continue
			}
		}
		if last < 0 {
			return false
		}
		taken++
		p, n = last+1, taken
	}
	for p < len(patterns) && patterns[p] == "**" {
		p++
	}
	return p == len(patterns)
}
