package cli

import (
	"strings"
	"unicode"

	"github.com/tipstaff/tipstaff"
)

// clean makes foreign text fit for a terminal: one line of what it means, with
// nothing in it that acts.
func clean(s string) string { return tipstaff.Printable(s) }

// cleanLines is clean for text of several lines.
func cleanLines(s string) []string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = clean(l)
	}
	return lines
}

// wide holds the characters that fill two cells. Where terminals disagree it
// takes the larger width: a line that ends early is harmless, one that wraps
// breaks the frame.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x1100, 0x11ff, 1}, {0x231a, 0x231b, 1}, {0x2329, 0x232a, 1}, {0x23e9, 0x23f3, 1}, {0x25fd, 0x25fe, 1},
		{0x2614, 0x2615, 1}, {0x2630, 0x2637, 1}, {0x2648, 0x2653, 1}, {0x267f, 0x267f, 1}, {0x268a, 0x268f, 1},
		{0x2693, 0x2693, 1}, {0x26a1, 0x26a1, 1}, {0x26aa, 0x26ab, 1}, {0x26bd, 0x26be, 1}, {0x26c4, 0x26c5, 1},
		{0x26ce, 0x26ce, 1}, {0x26d4, 0x26d4, 1}, {0x26ea, 0x26ea, 1}, {0x26f2, 0x26f5, 1}, {0x26fa, 0x26fd, 1},
		{0x2705, 0x2705, 1}, {0x270a, 0x270b, 1}, {0x2728, 0x2728, 1}, {0x274c, 0x274e, 1}, {0x2753, 0x2757, 1},
		{0x2795, 0x2797, 1}, {0x27b0, 0x27bf, 1}, {0x2b1b, 0x2b1c, 1}, {0x2b50, 0x2b55, 1}, {0x2e80, 0xa4cf, 1},
		{0xa960, 0xa97f, 1}, {0xac00, 0xd7ff, 1}, {0xf900, 0xfaff, 1}, {0xfe10, 0xfe1f, 1}, {0xfe30, 0xfe6f, 1},
		{0xff01, 0xff60, 1}, {0xffe0, 0xffe6, 1},
	},
	R32: []unicode.Range32{
		{0x16fe0, 0x18dff, 1}, {0x1aff0, 0x1b2ff, 1}, {0x1d300, 0x1d37f, 1}, {0x1f000, 0x1faff, 1}, {0x20000, 0x3fffd, 1},
	},
}

func runeWidth(r rune) int {
	switch {
	case r < 0x300 || r == '\ufe0f': // the selector of emoji widens the symbol before it
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me): // marks on the character before
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// cells is the width of clean text on a terminal.
func cells(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// fit cuts clean text to at most n cells, and says that it did with an ellipsis.
func fit(s string, n int) string {
	if n <= 0 {
		return ""
	}
	if cells(s) <= n {
		return s
	}
	used := 0
	for i, r := range s {
		if used+runeWidth(r) > n-1 {
			return s[:i] + "…"
		}
		used += runeWidth(r)
	}
	return s
}

// pad fills clean text with spaces up to n cells.
func pad(s string, n int) string {
	return s + strings.Repeat(" ", max(0, n-cells(s)))
}

func plural(n int, one string) string { return tipstaff.Plural(n, one) }
