package cli

import "strings"

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
	switch k.code {
	case keyText:
		for _, r := range k.text {
			s.query += string(oneLine(r))
			e.find(min(s.at, len(e.history)-1))
		}
	case keyBackspace:
		if r := []rune(s.query); len(r) > 0 {
			s.query = string(r[:len(r)-1])
		}
		e.find(len(e.history) - 1)
	case keySearch:
		e.find(s.at - 1)
	case keyEscape, keyInterrupt:
		e.text, e.at, e.search = s.before, s.cursor, nil
	default:
		e.search = nil
		return false
	}
	return true
}

func oneLine(r rune) rune {
	if r < ' ' {
		return ' '
	}
	return r
}

// find shows the newest entry up to the n-th that holds the query.
func (e *lineEditor) find(n int) {
	s := e.search
	for ; s.query != "" && n >= 0; n-- {
		if i := strings.Index(e.history[n], s.query); i >= 0 {
			s.at, s.failed = n, false
			if e.shown == len(e.history) {
				e.own = s.before
			}
			e.shown = n
			e.text = []rune(e.history[n])
			e.at = e.boundary(len([]rune(e.history[n][:i])))
			return
		}
	}
	s.failed = s.query != ""
}

// title stands in place of the prompt.
func (s *lineSearch) title() string {
	if s.failed {
		return "(not found: " + clean(s.query) + ") "
	}
	return "(search: " + clean(s.query) + ") "
}
