package tipstaff

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// maxMarks is how many combining marks may stack on one character. Real text
// needs three or four; more is a way to paint over the neighbouring lines.
const maxMarks = 4

// Printable makes foreign text fit for a terminal. Whatever does not print, or
// prints as something else than it is (control and bidirectional characters,
// invisible fillers, unassigned code points), is shown as its JSON escape, so
// that JSON means what it meant before. The result is one line.
//
// Joiners and marks of direction are kept where scripts need them: in Persian and
// Hindi words, after Hebrew letters, within emoji.
func Printable(s string) string { return printable(s, false) }

// PrintableProse is Printable for text that is read and not compared: the spaces of
// other scripts and of typography are kept.
func PrintableProse(s string) string { return printable(s, true) }

func printable(s string, prose bool) string {
	if plainASCII(s) {
		return s
	}
	var b strings.Builder
	var prev rune
	marks := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
			r = 'x'
		case (visible(r, prev) || prose && unicode.Is(unicode.Zs, r)) && (!isMark(r) || marks < maxMarks):
			b.WriteRune(r)
		default:
			escapeRune(&b, r)
			r = 'x'
		}
		if isMark(r) {
			marks++
		} else {
			marks = 0
		}
		prev = r
		i += size
	}
	return b.String()
}

func plainASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

const emojiSelector = '\ufe0f'

// joining are the scripts in which joiners shape letters, and rightToLeft those whose
// text has marks of direction in it.
var (
	joining = []*unicode.RangeTable{unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Mongolian, unicode.Devanagari, unicode.Bengali,
		unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada, unicode.Malayalam, unicode.Sinhala,
		unicode.Khmer, unicode.Myanmar, unicode.Tibetan}
	rightToLeft = []*unicode.RangeTable{unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko}
)

func isEmoji(r rune) bool {
	return unicode.Is(unicode.So, r) || r >= 0x1f3fb && r <= 0x1f3ff // colours of skin
}

func visible(r, prev rune) bool {
	if unicode.Is(unicode.Cf, prev) { // what cannot be seen follows what can
		prev = 'x'
	}
	switch r {
	case emojiSelector:
		return unicode.Is(unicode.So, prev)
	case '\u200d': // joins
		return unicode.In(prev, joining...) || isEmoji(prev) || prev == emojiSelector
	case '\u200c': // separates
		return unicode.In(prev, joining...)
	case '\u200e', '\u200f', '\u061c': // marks of direction
		return unicode.In(prev, rightToLeft...)
	}
	switch {
	case unicode.Is(unicode.Variation_Selector, r), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
		return false
	}
	return unicode.IsPrint(r)
}

func isMark(r rune) bool { return unicode.In(r, unicode.Mn, unicode.Me) }

func escapeRune(b *strings.Builder, r rune) {
	switch r {
	case '\n':
		b.WriteString(`\n`)
	case '\r':
		b.WriteString(`\r`)
	case '\t':
		b.WriteString(`\t`)
	default:
		if hi, lo := utf16.EncodeRune(r); hi != utf8.RuneError {
			fmt.Fprintf(b, `\u%04x\u%04x`, hi, lo)
			return
		}
		fmt.Fprintf(b, `\u%04x`, r)
	}
}

// Plural counts things: 1 run, 2 runs.
func Plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// Quote is s in quotes for a message, cut to about so many bytes.
func Quote(s string, most int) string {
	if len(s) <= most {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("%q… (%d bytes)", strings.ToValidUTF8(s[:most], ""), len(s))
}

// Joined joins the parts that are not empty.
func Joined(sep string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(parts), func(p string) bool { return p == "" }), sep)
}
