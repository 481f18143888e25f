package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// screen is a terminal that is drawn on as a whole, as far as the inbox draws: what a person
// would see there.
type screen struct {
	width, height int
	cells         [][]rune
	row, col      int
	first, last   int  // the rows that scroll
	other         bool // the screen of full-screen programs is shown
	hidden        bool // the cursor is
}

func newScreen(width, height int) *screen {
	s := &screen{width: width, height: height, last: height - 1, cells: make([][]rune, height)}
	for i := range s.cells {
		s.cells[i] = blank(width)
	}
	return s
}

func blank(n int) []rune { return []rune(strings.Repeat(" ", n)) }

// shows draws what was sent.
func (s *screen) shows(sent string) *screen {
	for in := []rune(sent); len(in) > 0; {
		n := 1
		switch r := in[0]; r {
		case '\r':
			s.col = 0
		case '\n':
			s.down()
		case '\b':
			s.col = max(0, s.col-1)
		case '\t':
			s.col = min(s.width-1, s.col/8*8+8)
		case 0x1b:
			n = s.escape(in)
		default:
			s.put(r)
		}
		in = in[n:]
	}
	return s
}

func (s *screen) put(r rune) {
	if s.col >= s.width {
		s.col = 0
		s.down()
	}
	s.cells[s.row][s.col] = r
	s.col++
}

func (s *screen) down() {
	if s.row == s.last {
		s.scroll(s.first, 1)
		return
	}
	s.row = min(s.row+1, s.height-1)
}

// scroll moves the rows from one on up by n, or down by -n.
func (s *screen) scroll(from, n int) {
	for ; n > 0; n-- {
		s.cells = slices.Insert(slices.Delete(s.cells, from, from+1), s.last, blank(s.width))
	}
	for ; n < 0; n++ {
		s.cells = slices.Insert(slices.Delete(s.cells, s.last, s.last+1), from, blank(s.width))
	}
}

// escape does a sequence, and tells how long it is.
func (s *screen) escape(in []rune) int {
	switch {
	case len(in) < 2:
		return 1
	case in[1] == ']':
		for i, r := range in {
			if r == '\a' || r == '\\' && in[i-1] == 0x1b {
				return i + 1
			}
		}
		return len(in)
	case in[1] == 'M':
		if s.row == s.first {
			s.scroll(s.first, -1)
		} else {
			s.row--
		}
		return 2
	case in[1] != '[':
		return 2
	}
	end := 2
	for end < len(in) && (in[end] < '@' || in[end] > '~') {
		end++
	}
	if end == len(in) { // the rest is yet to come
		return end
	}
	params := string(in[2:end])
	if strings.HasPrefix(params, "?") {
		on := in[end] == 'h'
		switch params {
		case "?1049":
			s.other = on
			s.cells = newScreen(s.width, s.height).cells
		case "?25":
			s.hidden = !on
		}
		return end + 1
	}
	var n [2]int
	for i, p := range strings.SplitN(params, ";", 2) {
		n[i], _ = strconv.Atoi(p)
	}
	s.control(in[end], n, max(1, n[0]))
	return end + 1
}

func (s *screen) control(c rune, n [2]int, times int) {
	row := s.cells[s.row]
	col := min(s.col, s.width-1)
	switch c {
	case 'A':
		s.row = max(0, s.row-times)
	case 'B', 'e':
		s.row = min(s.height-1, s.row+times)
	case 'C', 'a':
		s.col = min(s.width-1, s.col+times)
	case 'D':
		s.col = max(0, col-times)
	case 'G', '`':
		s.col = min(s.width, times) - 1
	case 'd':
		s.row = min(s.height, times) - 1
	case 'H', 'f':
		s.row, s.col = min(s.height, times)-1, min(s.width, max(1, n[1]))-1
	case 'I':
		s.col = min(s.width-1, (s.col/8+times)*8)
	case 'Z':
		s.col = max(0, ((s.col+7)/8-times)*8)
	case 'K':
		switch n[0] {
		case 0:
			copy(row[col:], blank(s.width-col))
		case 1:
			copy(row, blank(col+1))
		case 2:
			copy(row, blank(s.width))
		}
	case 'J':
		for i := range s.cells {
			if n[0] == 2 || n[0] == 0 && i > s.row || n[0] == 1 && i < s.row {
				s.cells[i] = blank(s.width)
			}
		}
		if n[0] == 0 {
			copy(row[col:], blank(s.width-col))
		}
	case 'X':
		copy(row[col:min(s.width, col+times)], blank(times))
	case 'P':
		s.cells[s.row] = append(slices.Delete(row, col, min(s.width, col+times)), blank(min(times, s.width-col))...)
	case '@':
		s.cells[s.row] = slices.Insert(row, col, blank(times)...)[:s.width]
	case 'b':
		for range times {
			s.put(row[max(0, s.col-1)])
		}
	case 'L':
		s.scroll(s.row, -times)
	case 'M':
		s.scroll(s.row, times)
	case 'S':
		s.scroll(s.first, times)
	case 'T':
		s.scroll(s.first, -times)
	case 'r':
		s.first, s.last, s.row, s.col = times-1, s.height-1, 0, 0
		if n[1] > 0 {
			s.last = n[1] - 1
		}
	}
}

func (s *screen) String() string {
	var b strings.Builder
	for _, row := range s.cells {
		b.WriteString(strings.TrimRight(string(row), " ") + "\n")
	}
	return b.String()
}

func TestScreen(t *testing.T) {
	for sent, want := range map[string]string{
		"ab\r\ncd":                       "ab\ncd\n\n",
		"\x1b[2;3Hx\x1b[Hy":              "y\n  x\n\n",
		"1\r\n2\r\n3\r\n4":               "2\n3\n4\n",
		"abcdefg":                        "abcde\nfg\n\n",
		"abcde\x1b[1;2H\x1b[K":           "a\n\n\n",
		"abcde\x1b[1;2H\x1b[2X":          "a  de\n\n\n",
		"abcde\x1b[1;2H\x1b[P":           "acde\n\n\n",
		"abcde\x1b[1;2H\x1b[@":           "a bcd\n\n\n",
		"a\x1b[3b":                       "aaaa\n\n\n",
		"1\r\n2\r\n3\x1b[1;1H\x1b[L":     "\n1\n2\n",
		"1\r\n2\r\n3\x1b[2;3r\x1b[S":     "1\n3\n\n",
		"\x1b]0;title\ax\x1b[31my\x1b[m": "xy\n\n\n",
		"x\x1b[?1049hy":                  " y\n\n\n",
	} {
		if got := newScreen(5, 3).shows(sent).String(); got != want {
			t.Errorf("%q: %q, want %q", sent, got, want)
		}
	}
}
