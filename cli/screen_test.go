package cli

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// vterm is a terminal of unlimited size that knows what screen sends: text, CR,
// LF, cursor up and right, erase to the end of line and of screen, colours and
// modes.
type vterm struct {
	rows     [][]rune
	row, col int
}

func (v *vterm) Write(p []byte) (int, error) {
	runes := []rune(string(p))
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; r {
		case '\r':
			v.col = 0
		case '\n':
			v.row, v.col = v.row+1, 0
		case '\x1b':
			i += v.escape(runes[i+1:])
		default:
			v.put(r)
		}
	}
	return len(p), nil
}

func (v *vterm) escape(rest []rune) int {
	end := 1
	for end < len(rest) && (rest[end] < 'A' || rest[end] > 'z') {
		end++
	}
	n, _ := strconv.Atoi(string(rest[1:end]))
	v.grow()
	switch rest[end] {
	case 'A':
		v.row = max(0, v.row-n)
	case 'K':
		v.rows[v.row] = v.rows[v.row][:min(v.col, len(v.rows[v.row]))]
	case 'J':
		v.rows[v.row] = v.rows[v.row][:min(v.col, len(v.rows[v.row]))]
		v.rows = v.rows[:v.row+1]
	case 'C':
		v.col += n
	case 'm', 'h', 'l':
	default:
		panic(fmt.Sprintf("unknown escape %q", string(rest[:end+1])))
	}
	return end + 1
}

func (v *vterm) grow() {
	for len(v.rows) <= v.row {
		v.rows = append(v.rows, nil)
	}
}

func (v *vterm) put(r rune) {
	v.grow()
	for len(v.rows[v.row]) <= v.col {
		v.rows[v.row] = append(v.rows[v.row], ' ')
	}
	v.rows[v.row][v.col] = r
	v.col++
}

func (v *vterm) String() string {
	var b strings.Builder
	for _, r := range v.rows {
		b.WriteString(string(r) + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

func frame(texts ...string) func(int, int) []line {
	return func(int, int) []line {
		var lines []line
		for _, t := range texts {
			lines = append(lines, line{say(green, t)})
		}
		return lines
	}
}

func TestScreenPaintsInPlace(t *testing.T) {
	var vt vterm
	s := &screen{w: &vt, size: func() (int, int) { return 80, 24 }, colored: true}
	vt.Write([]byte("$ tipstaff run\n"))
	s.paint(frame("one", "two long", "three"))
	equal(t, "first frame", vt.String(), "$ tipstaff run\none\ntwo long\nthree")
	s.paint(frame("one", "2"))
	equal(t, "shorter frame", vt.String(), "$ tipstaff run\none\n2")
	s.suspend()
	s.paint(frame("never"))
	vt.Write([]byte("question? yes\n"))
	equal(t, "suspended", vt.String(), "$ tipstaff run\nquestion? yes")
	s.resume()
	s.paint(frame("after"))
	equal(t, "resumed", vt.String(), "$ tipstaff run\nquestion? yes\nafter")
}

// What stands above a question stays there, and the next frame comes below it.
func TestScreenStandsAboveAQuestion(t *testing.T) {
	var vt vterm
	s := &screen{w: &vt, size: func() (int, int) { return 80, 24 }}
	s.paint(frame("tree", "  ? ok"))
	s.leave()
	s.paint(frame("never"))
	vt.Write([]byte("question? yes\n"))
	s.resume()
	s.paint(frame("tree", "  ok"))
	s.paint(frame("tree", "  done"))
	equal(t, "terminal", vt.String(), "tree\n  ? ok\nquestion? yes\ntree\n  done")
}

func TestScreenStaysSuspendedWhileOneStillWrites(t *testing.T) {
	var vt vterm
	s := &screen{w: &vt, size: func() (int, int) { return 80, 24 }}
	s.suspend()
	s.suspend()
	s.resume()
	s.paint(frame("x"))
	equal(t, "terminal", vt.String(), "")
}

func TestScreenSendsNothingForTheSameFrame(t *testing.T) {
	var b lockedBuffer
	s := &screen{w: &b, size: func() (int, int) { return 80, 24 }}
	s.paint(frame("x"))
	before := b.String()
	s.paint(frame("x"))
	equal(t, "sent", b.String(), before)
}

func TestScreenCountsRowsOfANarrowedTerminal(t *testing.T) {
	var b lockedBuffer
	width := 80
	s := &screen{w: &b, size: func() (int, int) { return width, 24 }}
	s.paint(frame(strings.Repeat("x", 25), "", "y"))
	b.Reset()
	width = 10 // 25 cells are three rows now
	s.paint(frame("z"))
	contains(t, "frame", b.String(), "\r\x1b[5Az")
}

func TestScreenKeepsOffTheEdges(t *testing.T) {
	var b lockedBuffer
	s := &screen{w: &b, size: func() (int, int) { return 40, 10 }}
	s.paint(func(w, h int) []line {
		if w != 39 || h != 9 {
			t.Errorf("a frame of %d by %d on a terminal of 40 by 10", w, h)
		}
		return nil
	})
}

func TestColors(t *testing.T) {
	for _, c := range []struct {
		vars map[string]string
		tty  bool
		want bool
	}{
		{nil, true, true},
		{nil, false, false},
		{map[string]string{"NO_COLOR": "1"}, true, false},
		{map[string]string{"NO_COLOR": "1", "CLICOLOR_FORCE": "1"}, true, false},
		{map[string]string{"CLICOLOR_FORCE": "1"}, false, true},
		{map[string]string{"CLICOLOR_FORCE": "0"}, false, false},
		{map[string]string{"TERM": "dumb"}, true, false},
	} {
		env := &Env{Getenv: func(n string) string { return c.vars[n] }}
		if got := env.colored(c.tty); got != c.want {
			t.Errorf("%v, terminal %v: %v", c.vars, c.tty, got)
		}
	}
}
