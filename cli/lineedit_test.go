package cli

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// Keys as terminals send them.
const (
	up, down, right, left     = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"
	home, end, del            = "\x1b[H", "\x1b[F", "\x1b[3~"
	wordRight, wordLeft       = "\x1b[1;5C", "\x1bb"
	enter, altEnter, bs       = "\r", "\x1b\r", "\x7f"
	ctrlA, ctrlC, ctrlD       = "\x01", "\x03", "\x04"
	ctrlE, ctrlK, ctrlL       = "\x05", "\x0b", "\x0c"
	ctrlR, ctrlU, ctrlW, yank = "\x12", "\x15", "\x17", "\x19"
)

func pasted(s string) string { return "\x1b[200~" + s + "\x1b[201~" }

// typedKeys types keys and shows the text with the cursor as |, and what the last key
// did.
func typedKeys(e *lineEditor, keys string) (string, pressed) {
	var d keyDecoder
	did := typing
	for _, k := range append(d.feed([]byte(keys)), d.pause()...) {
		did = e.press(k)
	}
	return string(e.text[:e.at]) + "|" + string(e.text[e.at:]), did
}

func TestLineEditor(t *testing.T) {
	history := []string{"first", "second one", "third\nin two lines"}
	for _, c := range []struct{ name, keys, want string }{
		{"letters", "abc", "abc|"},
		{"insert", "ac" + left + "b", "ab|c"},
		{"beyond the ends", left + "a" + right + right + "b", "ab|"},
		{"home and end", "abc" + ctrlA + "x" + ctrlE + "y" + home + "z" + end + "!", "zxabcy!|"},
		{"backspace and delete", "abcd" + left + left + bs + del, "a|d"},
		{"Ctrl-D deletes", "ab" + ctrlA + ctrlD, "|b"},
		{"words", "one two.three" + wordLeft + "X" + wordLeft + wordLeft + "Y" + wordRight + "Z", "one YtwoZ|.Xthree"},
		{"kill to the end, and back", "one two" + wordLeft + ctrlK + ctrlA + yank, "two|one "},
		{"kill to the start", "one two" + wordLeft + ctrlU, "|two"},
		{"kill a word", "one two" + ctrlW, "one |"},
		{"kill a word to the right", "one two" + home + "\x1bd", "| two"},
		{"kill joins lines", "a" + altEnter + "b" + up + end + ctrlK, "a|b"},
		{"two lines", "a" + altEnter + "b", "a\nb|"},
		{"Shift-Enter", "a\x1b[13;2ub", "a\nb|"},
		{"backslash at the end", "a\\" + enter + "b", "a\nb|"},
		{"backslash inside", "a\\b", "a\\b|"},
		{"pasted lines", "x" + pasted("a\r\nb\rc\x1b[31m\x00\ty") + "z", "xa\nb\nc[31m\tyz|"},
		{"up and down keep the column", "abcdef" + altEnter + "x" + altEnter + "abcdef" + left + up + up, "abcde|f\nx\nabcdef"},
		{"home is of the line", "ab" + altEnter + "cd" + ctrlA + "X", "ab\nX|cd"},
		{"up from the first line", "own" + up, "third\nin two lines|"},
		{"up again", up + up, "third|\nin two lines"},
		{"and again", up + up + up, "second one|"},
		{"down to one's own", "own" + up + up + up + down + down + down, "own|"},
		{"no further than the oldest", up + up + up + up + up + up, "first|"},
		{"combining marks go with their letter", "e\u0301x" + left + left + "a", "a|e\u0301x"},
		{"and are deleted with it", "ae\u0301" + bs, "a|"},
		{"a mark typed after its letter", "e" + left + right + "\u0301" + bs, "|"},
		{"wide characters", "日本語" + left + left + bs, "|本語"},
		{"emoji selector", "❤\ufe0fx" + left + left + "a", "a|❤\ufe0fx"},
		{"unknown keys do nothing", "a\x1b[5~\x1bOP\x1b[15;2~\x1b[?1;2c\x00b", "ab|"},
		{"search", ctrlR + "sec", "|second one"},
		{"search further back", ctrlR + "ir" + ctrlR, "f|irst"},
		{"search that fails keeps the match", ctrlR + "sec" + "zz", "|second one"},
		{"search taken back", "own" + ctrlR + "fir" + "\x1b", "own|"},
		{"search, then edit", ctrlR + "sec" + end + "!", "second one!|"},
		{"search corrected", ctrlR + "sex" + bs, "|second one"},
		{"completed", "/he\t", "/help |"},
		{"completed only if unique", "/\t", "/|"},
		{"completed only at the end", "/he" + left + "\t", "/h|e"},
	} {
		got, _ := typedKeys(newLineEditor(history, []string{"/help", "/new"}), c.keys)
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestLineEditorEndsWithTheRightKeys(t *testing.T) {
	for _, c := range []struct {
		keys string
		want pressed
	}{
		{"abc", typing}, {"abc" + enter, entered}, {"abc\n", entered}, {enter, entered}, {"a\\" + enter, typing},
		{ctrlC, interrupted}, {"abc" + ctrlC, interrupted}, {ctrlD, leaving}, {"a" + ctrlD, typing}, {"a" + ctrlA + ctrlD, typing},
		{ctrlL, cleared}, {pasted("a\nb\n"), typing}, {ctrlR + "x" + ctrlC, typing}, {ctrlR + "x" + enter, entered},
	} {
		if _, got := typedKeys(newLineEditor(nil, nil), c.keys); got != c.want {
			t.Errorf("%q: %d, want %d", c.keys, got, c.want)
		}
	}
}

// A terminal sends what it likes in pieces of any size: the text is the same.
func FuzzKeys(f *testing.F) {
	for _, s := range []string{"abc" + left + "x" + enter, "日本" + bs + "e\u0301", pasted("a\r\nb\x1b[20"), pasted("x") + pasted("y"), "\x1b[1;5C\x1b[", "\xff\xc3(\x1b\x1b[A", "\x1b[200~\x1b[201", "\u0488" + ctrlA + "000000", "\u0488" + ctrlA + pasted("\n00"), "\u061c0" + ctrlA + "ގ0"} {
		f.Add([]byte(s), uint8(1))
		f.Add([]byte(s), uint8(6))
	}
	f.Fuzz(func(t *testing.T, sent []byte, piece uint8) {
		var whole, parts keyDecoder
		a, b := newLineEditor(nil, nil), newLineEditor(nil, nil)
		for _, k := range whole.feed(sent) {
			a.press(k)
		}
		size := int(piece%7) + 1
		for rest := sent; len(rest) > 0; {
			n := min(size, len(rest))
			for _, k := range parts.feed(rest[:n]) {
				b.press(k)
			}
			rest = rest[n:]
		}
		if a.String() != b.String() || a.at != b.at {
			t.Errorf("at once %q at %d, in pieces of %d %q at %d", a, a.at, size, b, b.at)
		}
		if len(whole.left) > maxSequence+utf8.UTFMax && !whole.pasting {
			t.Errorf("%d bytes are held back", len(whole.left))
		}
		if strings.ContainsFunc(a.String(), func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }) {
			t.Errorf("a control character is in the text: %q", a)
		}
	})
}

// grid is a terminal of a fixed width. A character past its edge would wrap, which
// nothing that is drawn may count on.
type grid struct {
	t        *rapid.T
	width    int
	rows     []string
	row, col int
}

func (g *grid) Write(p []byte) (int, error) {
	for s := string(p); s != ""; {
		switch {
		case strings.HasPrefix(s, "\x1b["):
			i := strings.IndexAny(s[2:], "ABCJ") + 2
			n := 0
			fmt.Sscan(s[2:i], &n)
			g.control(s[i], n)
			s = s[i+1:]
		default:
			r, size := utf8.DecodeRuneInString(s)
			g.put(r)
			s = s[size:]
		}
	}
	return len(p), nil
}

func (g *grid) control(c byte, n int) {
	switch c {
	case 'A':
		if g.row -= n; g.row < 0 {
			g.t.Fatalf("the cursor goes %d rows above the terminal", -g.row)
		}
	case 'C':
		g.col += n
	case 'J':
		if g.col != 0 {
			g.t.Fatalf("erased from column %d", g.col)
		}
		g.rows = g.rows[:min(g.row, len(g.rows))]
	}
}

func (g *grid) put(r rune) {
	switch r {
	case '\r':
		g.col = 0
		return
	case '\n':
		g.row++
		return
	}
	for len(g.rows) <= g.row {
		g.rows = append(g.rows, "")
	}
	if cells(g.rows[g.row]) != g.col {
		g.t.Fatalf("%q is written at column %d of %q", r, g.col, g.rows[g.row])
	}
	g.rows[g.row] += string(r)
	if g.col += runeWidth(r); g.col >= g.width {
		g.t.Fatalf("row %d is full: %q", g.row, g.rows[g.row])
	}
}

// Whatever is typed, the cursor stands between characters, and the terminal shows
// exactly the text, with its cursor in the right place.
func TestLineEditorOnATerminal(t *testing.T) {
	keys := rapid.SampledFrom([]string{"a", "bc ", "日", "e\u0301", "\u0301", "\u200d", "❤\ufe0f", "\t", up, down, left, right, home, end, del, bs, wordLeft, wordRight,
		altEnter, ctrlA, ctrlE, ctrlK, ctrlR, ctrlU, ctrlW, yank, pasted("x\ny\tz"), pasted("long text without an end"), "\x1b"})
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(12, 40).Draw(t, "width")
		e := newLineEditor([]string{"earlier", "two\nlines"}, nil)
		g := &grid{t: t, width: width}
		s := &lineScreen{w: g, size: func() (int, int) { return width, 1000 }}
		for _, sent := range rapid.SliceOfN(keys, 1, 25).Draw(t, "keys") {
			typedKeys(e, sent)
			if e.at < 0 || e.at > len(e.text) || e.boundary(e.at) != e.at {
				t.Fatalf("after %q the cursor is inside a character: %q at %d", sent, e, e.at)
			}
			s.draw(e, "› ")
			want := e.rows("› ", width-1)
			whole := strings.TrimRight(strings.Join(want.rows, "\n"), "\n") // an empty row leaves no trace
			if got := strings.Join(g.rows, "\n"); got != whole {
				t.Fatalf("shown\n%s\nwant\n%s", got, whole)
			}
			if g.row != want.row || g.col != want.col {
				t.Fatalf("the cursor is at %d,%d, want %d,%d", g.row, g.col, want.row, want.col)
			}
			checkRows(t, e, want)
		}
	})
}

// checkRows: the rows hold the text, and before the cursor what stands before it.
func checkRows(t *rapid.T, e *lineEditor, l lineRows) {
	if e.search != nil {
		return
	}
	squeezed := func(s string) string { return strings.NewReplacer(" ", "", "\n", "").Replace(s) }
	var all, before strings.Builder
	for i := 0; i < len(e.text); i = e.right(i) {
		shown := shownCharacter(string(e.text[i:e.right(i)]))
		if e.text[i] == '\n' {
			shown = ""
		}
		all.WriteString(shown)
		if i < e.at {
			before.WriteString(shown)
		}
	}
	if got, want := squeezed(strings.TrimPrefix(strings.Join(l.rows, ""), "›")), squeezed(all.String()); got != want {
		t.Fatalf("the rows hold %q, the text is %q", got, want)
	}
	left := strings.Join(l.rows[:l.row], "") + fitted(l.rows[l.row], l.col)
	if got, want := squeezed(strings.TrimPrefix(left, "›")), squeezed(before.String()); got != want {
		t.Fatalf("before the cursor stands %q, want %q", got, want)
	}
}

// fitted is the beginning of a row up to a column, with the marks of its last
// character.
func fitted(row string, col int) string {
	used := 0
	for i, r := range row {
		if used >= col && runeWidth(r) > 0 {
			return row[:i]
		}
		used += runeWidth(r)
	}
	return row
}

func TestLineScreenAfterTheTerminalBecameNarrower(t *testing.T) {
	width := 40
	var vt vterm
	s := &lineScreen{w: &vt, size: func() (int, int) { return width, 24 }}
	e := newLineEditor(nil, nil)
	typedKeys(e, strings.Repeat("x", 60))
	s.draw(e, "› ")
	// The terminal breaks the full first row of 39 cells into two, and keeps the
	// cursor in its text: it is on the third row from the top.
	width = 30
	if got, want := s.home(width), "\r\x1b[2A"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLineScreenShowsTheRowsAroundTheCursor(t *testing.T) {
	e := newLineEditor(nil, nil)
	typedKeys(e, pasted("1\n2\n3\n4\n5"))
	for _, c := range []struct{ keys, want string }{
		{"", "  4|  5"}, {up + up, "  2|  3"}, {up + up, "› 1|  2"}, {down, "› 1|  2"}, {down, "  2|  3"},
	} {
		typedKeys(e, c.keys)
		if got := strings.Join(e.rows("› ", 20).window(2).rows, "|"); got != c.want {
			t.Errorf("after %q: %q, want %q", c.keys, got, c.want)
		}
	}
}

func TestLongPromptsAreShownWhole(t *testing.T) {
	e := newLineEditor(nil, nil)
	typedKeys(e, "yes")
	l := e.rows("allow? y: yes, n: no: ", 10)
	equal(t, "rows", strings.Join(l.rows, "|"), "allow? y: |yes, n: no|: yes")
	if l.row != 2 || l.col != 5 {
		t.Errorf("the cursor is at %d,%d", l.row, l.col)
	}
}
