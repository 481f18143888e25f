package cli

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// lineRows is a text as it stands on a terminal, with the cursor in it.
type lineRows struct {
	rows     []string
	row, col int
}

const tabCells = 4

// rows lays the text out after a prompt, in rows of at most width cells. Lines
// after the first are indented as far as a short prompt is wide.
func (e *lineEditor) rows(prompt string, width int) lineRows {
	switch s := e.search; {
	case s != nil && s.failed:
		prompt = "(not found: " + clean(s.query) + ") "
	case s != nil:
		prompt = "(search: " + clean(s.query) + ") "
	}
	rows, used := []string{""}, 0
	feed := func(indent int) { rows, used = append(rows, strings.Repeat(" ", indent)), indent }
	room := func(shown string) {
		if used > 0 && used+cells(shown) > width {
			feed(0)
		}
	}
	put := func(shown string) {
		room(shown)
		rows[len(rows)-1] += shown
		used += cells(shown)
	}
	for _, r := range prompt {
		put(string(r))
	}
	indent := 0
	if len(rows) == 1 && used <= width/2 {
		indent = used
	}
	var out lineRows
	for i := 0; i < len(e.text); i = e.right(i) {
		shown, ends := shownCharacter(string(e.text[i:e.right(i)])), e.text[i] == '\n'
		if !ends {
			room(shown)
		}
		if i == e.at {
			out.row, out.col = len(rows)-1, used
		}
		if ends {
			feed(indent)
		} else {
			put(shown)
		}
	}
	if e.at == len(e.text) {
		out.row, out.col = len(rows)-1, used
	}
	out.rows = rows
	return out
}

// shownCharacter is a character, with its marks, for a terminal.
func shownCharacter(s string) string {
	if s == "\t" {
		return strings.Repeat(" ", tabCells)
	}
	if r, _ := utf8.DecodeRuneInString(s); joins(r) { // it must not join what is not of the text
		s = "◌" + s
	}
	return clean(s)
}

// window cuts what is higher than a terminal to the rows around the cursor.
func (l lineRows) window(height int) lineRows {
	if len(l.rows) <= height {
		return l
	}
	from := min(max(0, l.row-height+1), len(l.rows)-height)
	return lineRows{l.rows[from : from+height], l.row - from, l.col}
}

// lineScreen keeps a text that is typed on a terminal.
type lineScreen struct {
	w     io.Writer
	size  func() (width, height int)
	above []int // widths of the rows above the cursor's, as they were drawn
	col   int   // of the cursor
}

// draw puts the text in place of the one that it drew before.
func (s *lineScreen) draw(e *lineEditor, prompt string) {
	width, height := s.size()
	// A full last column makes some terminals wrap.
	l := e.rows(prompt, max(1, width-1)).window(max(1, height))
	text := s.home(width) + "\x1b[J" + strings.Join(l.rows, "\r\n")
	if up := len(l.rows) - 1 - l.row; up > 0 {
		text += fmt.Sprintf("\x1b[%dA", up)
	}
	text += "\r"
	if l.col > 0 {
		text += fmt.Sprintf("\x1b[%dC", l.col)
	}
	io.WriteString(s.w, text)
	s.above, s.col = s.above[:0], l.col
	for _, r := range l.rows[:l.row] {
		s.above = append(s.above, cells(r))
	}
}

func (s *lineScreen) home(width int) string { return upOver(s.above, s.col/width, width) }

// leave lets the text stand as it is, and begins a new line below it.
func (s *lineScreen) leave(e *lineEditor, prompt string) {
	e.at, e.search = len(e.text), nil
	s.draw(e, prompt)
	io.WriteString(s.w, "\r\n")
	s.above, s.col = nil, 0
}

// erase takes the text away.
func (s *lineScreen) erase() {
	width, _ := s.size()
	io.WriteString(s.w, s.home(width)+"\x1b[J")
	s.above, s.col = nil, 0
}
