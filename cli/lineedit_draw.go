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
	if e.search != nil {
		prompt = e.search.title()
	}
	p := page{width: width, rows: []string{""}}
	for _, r := range prompt {
		p.put(string(r))
	}
	indent := 0
	if len(p.rows) == 1 && p.used <= width/2 {
		indent = p.used
	}
	var out lineRows
	for i := 0; i < len(e.text); {
		next := e.right(i)
		shown := shownCharacter(string(e.text[i:next]))
		if e.text[i] != '\n' {
			p.room(shown)
		}
		if i == e.at {
			out.row, out.col = len(p.rows)-1, p.used
		}
		if e.text[i] == '\n' {
			p.feed(indent)
		} else {
			p.put(shown)
		}
		i = next
	}
	if e.at == len(e.text) {
		out.row, out.col = len(p.rows)-1, p.used
	}
	out.rows = p.rows
	return out
}

// page is rows that are being filled.
type page struct {
	width int
	rows  []string
	used  int // cells of the last row
}

// room makes room for a character.
func (p *page) room(shown string) {
	if p.used > 0 && p.used+cells(shown) > p.width {
		p.feed(0)
	}
}

func (p *page) put(shown string) {
	p.room(shown)
	p.rows[len(p.rows)-1] += shown
	p.used += cells(shown)
}

func (p *page) feed(indent int) {
	p.rows = append(p.rows, strings.Repeat(" ", indent))
	p.used = indent
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
	var b strings.Builder
	b.WriteString(s.home(width))
	b.WriteString("\x1b[J")
	b.WriteString(strings.Join(l.rows, "\r\n"))
	if up := len(l.rows) - 1 - l.row; up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", up)
	}
	b.WriteString("\r")
	if l.col > 0 {
		fmt.Fprintf(&b, "\x1b[%dC", l.col)
	}
	io.WriteString(s.w, b.String())
	s.above = s.above[:0]
	for _, r := range l.rows[:l.row] {
		s.above = append(s.above, cells(r))
	}
	s.col = l.col
}

// home moves to the first row. What was drawn when the terminal was wider takes
// more rows by now.
func (s *lineScreen) home(width int) string {
	rows := s.col / width
	for _, w := range s.above {
		rows += max(1, (w+width-1)/width)
	}
	if rows == 0 {
		return "\r"
	}
	return fmt.Sprintf("\r\x1b[%dA", rows)
}

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
