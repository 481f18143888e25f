package cortex

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// SummaryLimit is how many characters the text of an event has at most.
const SummaryLimit = 120

// Summary makes text fit for an event: one line, at most SummaryLimit characters.
func Summary(text string) string {
	line := strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\ufffd"), separates), " ")
	if utf8.RuneCountInString(line) <= SummaryLimit {
		return line
	}
	n := 0
	for i := range line {
		if n == SummaryLimit-1 {
			return line[:i] + "…"
		}
		n++
	}
	return line
}

// separates tells what may not stand in a line: control characters and every
// kind of white space, the separators of lines and paragraphs among them.
func separates(r rune) bool {
	return unicode.IsSpace(r) || unicode.IsControl(r) || r == '\u2028' || r == '\u2029'
}
