package cli

import "strings"

// wrapper breaks text that comes in pieces between words, where a row of the terminal ends. Code
// between fences stays as it is, so that it can be copied.
type wrapper struct {
	width  int    // of a row; 0: nothing is broken
	column int    // where the next word would stand
	space  string // before the word
	word   string // held back, since it may go on in the next piece
	begin  string // of the line, until it is known whether that is a fence
	code   bool   // between fences
}

// Near the edge of a row a word is held back until it is whole. Before that it is written as it
// comes: a word of this length still fits.
const nearEdge = 24

// add returns what can be written now.
func (w *wrapper) add(text string) string {
	if w.width <= 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n':
			b.WriteString(w.rest() + "\n")
			w.column, w.begin = 0, ""
			continue
		case r == ' ':
			b.WriteString(w.flush())
			w.space += " "
		default:
			w.word += string(r)
			if len(w.word) > 4*w.width {
				b.WriteString(w.flush()) // no row holds it
			}
		}
		if len(w.begin) < len(fence) {
			if w.begin += string(r); w.begin == fence {
				w.code = !w.code
			}
		}
	}
	if w.column+len(w.space)+cells(w.word) <= w.width-nearEdge {
		b.WriteString(w.flush())
	}
	return b.String()
}

const fence = "```"

// flush returns the word that was held back, on the next row if this one has no room for it.
func (w *wrapper) flush() string {
	if w.word == "" {
		return ""
	}
	text, long := w.space+w.word, cells(w.word)
	if w.space != "" && w.column > 0 && !w.code && w.column+len(w.space)+long > w.width {
		text, w.column = "\n"+w.word, 0
	} else {
		w.column += len(w.space)
	}
	w.column += long
	w.space, w.word = "", ""
	return text
}

// rest returns all that was held back.
func (w *wrapper) rest() string {
	text := w.flush() + w.space
	w.space = ""
	return text
}
