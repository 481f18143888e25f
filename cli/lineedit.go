package cli

import (
	"slices"
	"strings"
	"unicode"
)

// lineEditor is a text that is being typed. It is pure: what a key does follows
// from the keys before it, and it draws nothing. lineedit_key.go makes keys of
// bytes, lineedit_draw.go makes rows of the text.
type lineEditor struct {
	text []rune
	at   int // the cursor stands before text[at], never inside a character

	killed  []rune   // by the last Ctrl-K, U or W, for Ctrl-Y
	history []string // oldest first
	shown   int      // which of them the text is; len(history): the person's own
	own     []rune   // the own text while another is shown
	search  *lineSearch
	goal    int      // the column that moves up and down aim at; -1: the cursor's own
	words   []string // that Tab completes at the beginning of a text
}

// newLineEditor edits an empty text.
func newLineEditor(history, words []string) *lineEditor {
	return &lineEditor{history: history, shown: len(history), goal: -1, words: words}
}

// pressed is what a key did.
type pressed int

const (
	typing      pressed = iota
	entered             // the text is complete
	interrupted         // Ctrl-C
	leaving             // Ctrl-D where there is nothing to delete
	cleared             // Ctrl-L: the screen is wanted empty
)

func (e *lineEditor) String() string { return string(e.text) }

func (e *lineEditor) set(text []rune) { e.text, e.at, e.goal = text, len(text), -1 }

// press does what a key asks for.
func (e *lineEditor) press(k key) pressed {
	if e.search != nil && e.searching(k) {
		return typing
	}
	if k.name != "up" && k.name != "down" {
		e.goal = -1
	}
	switch k.name {
	case "text":
		e.insert([]rune(k.text))
	case "enter":
		return e.enter()
	case "interrupt":
		return interrupted
	case "clear":
		return cleared
	case "end of input":
		if len(e.text) == 0 {
			return leaving
		}
		e.cut(e.at, e.right(e.at), false)
	default:
		if edit := edits[k.name]; edit != nil {
			edit(e)
		}
	}
	return typing
}

// edits are the keys that only change the text or move in it.
var edits = map[string]func(e *lineEditor){
	"newline":         func(e *lineEditor) { e.insert([]rune{'\n'}) },
	"backspace":       func(e *lineEditor) { e.cut(e.left(e.at), e.at, false) },
	"delete":          func(e *lineEditor) { e.cut(e.at, e.right(e.at), false) },
	"kill end":        func(e *lineEditor) { e.cut(e.at, max(e.lineEnd(e.at), min(e.at+1, len(e.text))), true) }, // at the end of a line, the end itself
	"kill start":      func(e *lineEditor) { e.cut(e.lineStart(e.at), e.at, true) },
	"kill word":       func(e *lineEditor) { e.cut(e.wordLeft(), e.at, true) },
	"kill word right": func(e *lineEditor) { e.cut(e.at, e.wordRight(), true) },
	"yank":            func(e *lineEditor) { e.insert(e.killed) },
	"search": func(e *lineEditor) {
		e.search = &lineSearch{at: len(e.history), before: slices.Clone(e.text), cursor: e.at}
	},
	"tab":        (*lineEditor).complete,
	"left":       func(e *lineEditor) { e.at = e.left(e.at) },
	"right":      func(e *lineEditor) { e.at = e.right(e.at) },
	"word left":  func(e *lineEditor) { e.at = e.wordLeft() },
	"word right": func(e *lineEditor) { e.at = e.wordRight() },
	"home":       func(e *lineEditor) { e.at = e.lineStart(e.at) },
	"end":        func(e *lineEditor) { e.at = e.lineEnd(e.at) },
	"first":      func(e *lineEditor) { e.at = 0 },
	"last":       func(e *lineEditor) { e.at = len(e.text) },
	"up":         (*lineEditor).up,
	"down":       (*lineEditor).down,
}

// enter completes the text, unless it ends in a backslash: then it goes on in the
// next line.
func (e *lineEditor) enter() pressed {
	if n := len(e.text); n > 0 && e.text[n-1] == '\\' {
		e.set(append(e.text[:n-1:n-1], '\n'))
		return typing
	}
	e.at = len(e.text)
	return entered
}

func (e *lineEditor) insert(r []rune) {
	// A mark that stands alone joins what is put before it, and the rest comes after
	// both: however much of it is heard at once.
	for len(r) > 0 && e.at < len(e.text) && (joins(e.text[e.at]) || mayShape(e.text[e.at])) {
		e.put(r[:1])
		r = r[1:]
	}
	e.put(r)
}

func (e *lineEditor) put(r []rune) {
	e.text = slices.Insert(e.text, e.at, r...)
	e.at = e.boundary(e.at + len(r)) // a mark joins the character before it
}

func (e *lineEditor) cut(from, to int, keep bool) {
	if from >= to {
		return
	}
	if keep {
		e.killed = slices.Clone(e.text[from:to])
	}
	e.text = slices.Delete(e.text, from, to)
	e.at = e.boundary(from)
}

// joins reports whether the character before goes on with r: marks and the
// selector of emoji are moved over and deleted with what they stand on.
func joins(r rune) bool {
	return unicode.In(r, unicode.Mn, unicode.Me) || unicode.Is(unicode.Variation_Selector, r)
}

// shapes reports whether r is a joiner or a mark of direction that the character before
// needs: one that stands elsewhere is shown as its escape, and is a character of its own.
func shapes(before, r rune) bool {
	return mayShape(r) && clean(string(before)+string(r)) == string(before)+string(r)
}

func mayShape(r rune) bool { return unicode.In(r, unicode.Join_Control, unicode.Bidi_Control) }

// inside reports whether i stands inside a character.
func (e *lineEditor) inside(i int) bool {
	return i > 0 && i < len(e.text) && e.text[i-1] != '\n' && (joins(e.text[i]) || shapes(e.text[i-1], e.text[i]))
}

// boundary is i, or where the character that i stands in ends.
func (e *lineEditor) boundary(i int) int {
	for e.inside(i) {
		i++
	}
	return i
}

func (e *lineEditor) right(i int) int { return e.boundary(min(i+1, len(e.text))) }

func (e *lineEditor) left(i int) int {
	i = max(0, i-1)
	for e.inside(i) {
		i--
	}
	return i
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || joins(r) }

func notInWord(r rune) bool { return !inWord(r) }

func inLine(r rune) bool { return r != '\n' }

// back and forth are how far from i every character is as asked for.
func (e *lineEditor) back(i int, is func(rune) bool) int {
	for i > 0 && is(e.text[i-1]) {
		i--
	}
	return i
}

func (e *lineEditor) forth(i int, is func(rune) bool) int {
	for i < len(e.text) && is(e.text[i]) {
		i++
	}
	return i
}

func (e *lineEditor) wordLeft() int { return e.boundary(e.back(e.back(e.at, notInWord), inWord)) }

func (e *lineEditor) wordRight() int { return e.forth(e.forth(e.at, notInWord), inWord) }

func (e *lineEditor) lineStart(i int) int { return e.back(i, inLine) }

func (e *lineEditor) lineEnd(i int) int { return e.forth(i, inLine) }

// up goes to the line above or, from the first, to what was entered before.
func (e *lineEditor) up() {
	if start := e.lineStart(e.at); start > 0 {
		e.aim(start, e.lineStart(start-1))
	} else {
		e.show(e.shown - 1)
	}
}

func (e *lineEditor) down() {
	if end := e.lineEnd(e.at); end < len(e.text) {
		e.aim(e.lineStart(e.at), end+1)
	} else {
		e.show(e.shown + 1)
	}
}

// aim moves from the line that begins at from to the same column, counted in
// characters, of the line that begins at to.
func (e *lineEditor) aim(from, to int) {
	if e.goal < 0 {
		e.goal = 0
		for i := from; i < e.at; i = e.right(i) {
			e.goal++
		}
	}
	e.at = to
	for end, n := e.lineEnd(to), 0; n < e.goal && e.at < end; n++ {
		e.at = e.right(e.at)
	}
}

// show puts an entry of the history in place of the text. What the person was
// typing is kept for the way back.
func (e *lineEditor) show(n int) {
	if n < 0 || n > len(e.history) {
		return
	}
	if e.shown == len(e.history) {
		e.own = e.text
	}
	e.shown = n
	if n == len(e.history) {
		e.set(e.own)
		return
	}
	e.set([]rune(e.history[n]))
}

// complete finishes the first word where only one fits.
func (e *lineEditor) complete() {
	typed := string(e.text)
	if e.at != len(e.text) || typed == "" {
		return
	}
	fits := slices.DeleteFunc(slices.Clone(e.words), func(w string) bool { return !strings.HasPrefix(w, typed) })
	if len(fits) == 1 {
		e.set([]rune(fits[0] + " "))
	}
}

// lineSearch looks for an earlier text that holds what is typed.
type lineSearch struct {
	query  string
	at     int    // of the match in the history; its length: there is none yet
	failed bool   // nothing earlier holds the query
	before []rune // the text, and the place in it, to go back to
	cursor int
}

// searching does a key while a search is under way. It reports whether the key
// belonged to the search: any other takes what was found, and then does its work.
func (e *lineEditor) searching(k key) bool {
	s := e.search
	switch k.name {
	case "text":
		for _, r := range k.text {
			s.query += string(max(r, ' ')) // it has one line
			e.find(min(s.at, len(e.history)-1))
		}
	case "backspace":
		if r := []rune(s.query); len(r) > 0 {
			s.query = string(r[:len(r)-1])
		}
		e.find(len(e.history) - 1)
	case "search":
		e.find(s.at - 1)
	case "escape", "interrupt":
		e.text, e.at, e.search = s.before, s.cursor, nil
	default:
		e.search = nil
		return false
	}
	return true
}

// find shows the newest entry up to the n-th that holds the query.
func (e *lineEditor) find(n int) {
	s := e.search
	for ; s.query != "" && n >= 0; n-- {
		before, _, found := strings.Cut(e.history[n], s.query)
		if !found {
			continue
		}
		if e.shown == len(e.history) {
			e.own = s.before
		}
		s.at, s.failed, e.shown = n, false, n
		e.text = []rune(e.history[n])
		e.at = e.boundary(len([]rune(before)))
		return
	}
	s.failed = s.query != ""
}
