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
	if e.search != nil {
		if done := e.searching(k); done {
			return typing
		}
	}
	if k.code != keyUp && k.code != keyDown {
		e.goal = -1
	}
	switch k.code {
	case keyEnter:
		return e.enter()
	case keyInterrupt:
		return interrupted
	case keyDelete, keyCtrlD:
		if k.code == keyCtrlD && len(e.text) == 0 {
			return leaving
		}
		e.cut(e.at, e.right(e.at), false)
	case keyClear:
		return cleared
	default:
		e.edit(k)
	}
	return typing
}

// edit does the keys that only change the text or move in it.
func (e *lineEditor) edit(k key) {
	switch k.code {
	case keyText:
		e.insert([]rune(k.text))
	case keyNewline:
		e.insert([]rune{'\n'})
	case keyBackspace:
		e.cut(e.left(e.at), e.at, false)
	case keyKillEnd:
		e.cut(e.at, e.killEnd(), true)
	case keyKillStart:
		e.cut(e.lineStart(e.at), e.at, true)
	case keyKillWord:
		e.cut(e.wordLeft(), e.at, true)
	case keyKillWordRight:
		e.cut(e.at, e.wordRight(), true)
	case keyYank:
		e.insert(e.killed)
	case keySearch:
		e.search = &lineSearch{at: len(e.history), before: slices.Clone(e.text), cursor: e.at}
	case keyTab:
		e.complete()
	default:
		e.move(k)
	}
}

func (e *lineEditor) move(k key) {
	switch k.code {
	case keyLeft:
		e.at = e.left(e.at)
	case keyRight:
		e.at = e.right(e.at)
	case keyWordLeft:
		e.at = e.wordLeft()
	case keyWordRight:
		e.at = e.wordRight()
	case keyHome:
		e.at = e.lineStart(e.at)
	case keyEnd:
		e.at = e.lineEnd(e.at)
	case keyFirst:
		e.at = 0
	case keyLast:
		e.at = len(e.text)
	case keyUp:
		e.up()
	case keyDown:
		e.down()
	}
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
	for len(r) > 0 && e.at < len(e.text) && joins(e.text[e.at]) {
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

// boundary is i, or where the character that i stands in ends.
func (e *lineEditor) boundary(i int) int {
	for i > 0 && i < len(e.text) && e.text[i-1] != '\n' && joins(e.text[i]) {
		i++
	}
	return i
}

func (e *lineEditor) right(i int) int {
	if i >= len(e.text) {
		return i
	}
	return e.boundary(i + 1)
}

func (e *lineEditor) left(i int) int {
	if i == 0 {
		return 0
	}
	i--
	for i > 0 && e.text[i-1] != '\n' && joins(e.text[i]) {
		i--
	}
	return i
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' || joins(r) }

func (e *lineEditor) wordLeft() int {
	i := e.at
	for i > 0 && !inWord(e.text[i-1]) {
		i--
	}
	for i > 0 && inWord(e.text[i-1]) {
		i--
	}
	return e.boundary(i)
}

func (e *lineEditor) wordRight() int {
	i := e.at
	for i < len(e.text) && !inWord(e.text[i]) {
		i++
	}
	for i < len(e.text) && inWord(e.text[i]) {
		i++
	}
	return i
}

func (e *lineEditor) lineStart(i int) int {
	for i > 0 && e.text[i-1] != '\n' {
		i--
	}
	return i
}

func (e *lineEditor) lineEnd(i int) int {
	for i < len(e.text) && e.text[i] != '\n' {
		i++
	}
	return i
}

// killEnd is the end of the line, or past its end if the cursor stands there.
func (e *lineEditor) killEnd() int {
	end := e.lineEnd(e.at)
	if end == e.at {
		return min(end+1, len(e.text))
	}
	return end
}

// up goes to the line above or, from the first, to what was entered before.
func (e *lineEditor) up() {
	start := e.lineStart(e.at)
	if start == 0 {
		e.show(e.shown - 1)
		return
	}
	e.aim(start, e.lineStart(start-1))
}

func (e *lineEditor) down() {
	end := e.lineEnd(e.at)
	if end == len(e.text) {
		e.show(e.shown + 1)
		return
	}
	e.aim(e.lineStart(e.at), end+1)
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
	for range e.goal {
		if e.at == len(e.text) || e.text[e.at] == '\n' {
			break
		}
		e.at = e.right(e.at)
	}
}

// show puts an entry of the history in place of the text. What the person was
// typing is kept for the way back.
func (e *lineEditor) show(n int) {
	if n < 0 || n > len(e.history) || n == e.shown {
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
	var fits []string
	for _, w := range e.words {
		if strings.HasPrefix(w, typed) {
			fits = append(fits, w)
		}
	}
	if len(fits) == 1 {
		e.set([]rune(fits[0] + " "))
	}
}
