package cli

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// streamText makes foreign text that comes in pieces fit for a terminal. What a
// piece shows does not depend on where it was cut: marks, and what goes with them,
// are judged with the character before them. Line feeds and tabs are kept.
type streamText struct {
	tail string // the last character that was shown, with its marks
	held string // a carriage return, which may be half of a line's end
}

// maxTail is how far back the character before is looked for.
const maxTail = 256

func (s *streamText) clean(piece string) string {
	piece, s.held = s.held+piece, ""
	if strings.HasSuffix(piece, "\r") {
		piece, s.held = piece[:len(piece)-1], "\r"
	}
	before := s.tail
	shown := cleanText(before + piece)
	shown = shown[len(cleanText(before)):]
	s.tail = lastCharacter(before + piece)
	return shown
}

// cleanText is clean for text with lines and tabs.
func cleanText(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i, l := range lines {
		parts := strings.Split(l, "\t")
		for j, p := range parts {
			parts[j] = clean(p)
		}
		lines[i] = strings.Join(parts, "\t")
	}
	return strings.Join(lines, "\n")
}

// lastCharacter is the end of text from the last rune on that is no mark.
func lastCharacter(text string) string {
	i := len(text)
	for i > 0 {
		r, size := utf8.DecodeLastRuneInString(text[:i])
		i -= size
		if !joins(r) {
			break
		}
		if len(text)-i > maxTail { // no text of people's
			return ""
		}
	}
	return text[i:]
}

// dataText is an answer for a pipe: the text itself, in which nothing acts on the
// terminal that it may end up on.
func dataText(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\r\n", "\n")
	if !strings.ContainsFunc(text, acts) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if acts(r) {
			b.WriteString(clean(string(r)))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func acts(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
