package tipstaff

import (
	"fmt"
	"slices"
	"strings"
)

// Nearest is the known name that somebody who wrote name may have meant: at most
// two characters differ, and not all of them. "": none is that near.
func Nearest(name string, known []string) string {
	const far = 3
	best, least := "", far
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k), far); d < least && d < len(k) {
			best, least = k, d
		}
	}
	return best
}

// DidYouMean asks about the known name that is [Nearest], as messages end; "": none is
// near.
func DidYouMean(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// distance counts the single-character changes that make b of a. It does not
// count beyond far.
func distance(a, b string, far int) int {
	if max(len(a), len(b))-min(len(a), len(b)) >= far {
		return far
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
		if slices.Min(row) >= far {
			return far
		}
	}
	return row[len(b)]
}

// Suggest is advice about a name that is unknown: the nearest known one, if it is
// near, else all of them if they are few.
func Suggest(name string, known []string) string {
	near := Nearest(name, known)
	switch {
	case near != "":
		return fmt.Sprintf(": did you mean %q?", near)
	case len(known) > 0 && len(known) <= 20:
		return ": it has " + strings.Join(known, ", ")
	}
	return ""
}
