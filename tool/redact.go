package tool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff/canon"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/workspace"
)

// Redactor replaces credentials by their references, so that no record, message
// or log holds one. It knows a value as it is; with any of its characters escaped
// for URLs or as JSON, also inside a text that is JSON itself; and in base64, also
// as a part of what was encoded and broken into lines. What a server makes of a
// credential otherwise it cannot know.
//
// A nil Redactor replaces nothing.
type Redactor struct {
	by [256][]*spelling // by the first byte of what may be one
}

// spelling is one way in which a credential is written: character by character, each as
// it is or escaped in any of the ways that step knows.
type spelling struct {
	reference string
	units     []string // characters
	lines     bool     // there may be line breaks between them
}

// NewRedactor makes a redactor for values of variables, by their names. Values that are
// too short to be distinguished from other text are left out.
func NewRedactor(values map[string]string) *Redactor {
	r, known := new(Redactor), map[string]bool{}
	for _, name := range sortedKeys(values) {
		value := values[name]
		if len(value) < workspace.LeastSecret {
			continue
		}
		r.learn(value, workspace.ReferencePrefix+name, known)
		if p := workspace.Password(value); len(p) >= workspace.LeastSecret { // of a URL
			r.learn(p, workspace.ReferencePrefix+name, known)
		}
	}
	if len(known) == 0 {
		return nil
	}
	return r
}

func (r *Redactor) learn(value, reference string, known map[string]bool) {
	for i, text := range append([]string{value}, base64Forms(value)...) {
		if !known[text] {
			known[text] = true
			r.add(&spelling{reference, characters(text), i > 0})
		}
	}
}

func (r *Redactor) add(f *spelling) {
	first := []byte{f.units[0][0], '%', '\\'}
	if f.units[0] == " " {
		first = append(first, '+')
	}
	slices.Sort(first)
	for _, b := range slices.Compact(first) {
		r.by[b] = append(r.by[b], f)
	}
}

// characters takes a text apart. What is not UTF-8 is taken byte by byte.
func characters(text string) (list []string) {
	for text != "" {
		_, n := utf8.DecodeRuneInString(text)
		list, text = append(list, text[:n]), text[n:]
	}
	return list
}

// base64Forms are the characters that a value alone decides, wherever it begins
// among the three bytes that make four characters. The first and last may belong
// to its neighbours and stay.
func base64Forms(value string) []string {
	var forms []string
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			text := encoding.EncodeToString(append(make([]byte, before), value...))
			from := (before*8 + 5) / 6
			to := (before + len(value)) * 8 / 6
			forms = append(forms, text[from:to])
		}
	}
	return forms
}

// Text is a text without the credentials.
func (r *Redactor) Text(text string) string {
	clean, _ := r.scan(text, true)
	return clean
}

// in reports whether there is anything to replace.
func (r *Redactor) in(text string) bool { return r.Text(text) != text }

// scan replaces the credentials in a text. Unless the text is whole, held is its end
// from where one may begin.
func (r *Redactor) scan(text string, whole bool) (clean, held string) {
	if r == nil {
		return text, ""
	}
	var out strings.Builder
	done := 0
	for i := 0; i < len(text); i++ {
		end, reference, cut := 0, "", false
		for _, f := range r.by[text[i]] {
			n, open := match(text, i, f.units, f.lines)
			if n > end {
				end, reference = n, f.reference
			}
			cut = cut || open
		}
		if cut && !whole {
			out.WriteString(text[done:i])
			return out.String(), text[i:]
		}
		if end > 0 {
			out.WriteString(text[done:i])
			out.WriteString(reference)
			done, i = end, end-1
		}
	}
	if done == 0 {
		return text, ""
	}
	out.WriteString(text[done:])
	return out.String(), ""
}

// match returns where the characters of a credential that begins at i end; 0: there is
// none. open: the text ends before that is certain.
func match(text string, i int, units []string, lines bool) (end int, open bool) {
	for n, unit := range units {
		if lines && n > 0 {
			if i, open = lineBreaks(text, i); open {
				return 0, true
			}
		}
		var at ends
		at.step(text, i, unit)
		switch {
		case at.n == 0:
			return 0, at.open
		case at.n == 1 && !at.open:
			i = at.list[0]
			continue
		}
		open = at.open
		for _, next := range at.list[:at.n] {
			e, o := match(text, next, units[n+1:], lines && n+1 < len(units))
			end, open = max(end, e), open || o
		}
		return end, open
	}
	return i, false
}

// ends are the places at which one character may end, for there may be several ways
// to read it. open: the text ends in the middle of another.
type ends struct {
	list [4]int
	n    int
	open bool
}

func (a *ends) add(end int, ok, open bool) {
	if ok && a.n < len(a.list) {
		a.list[a.n] = end
		a.n++
	}
	a.open = a.open || open
}

// Escapes of escapes are followed this far.
const (
	mostBackslashes = 31
	mostPercents    = 4
	mostBreaks      = 8
)

// step finds the ends of a character that begins at i: as it is, escaped for URLs,
// or escaped as JSON.
func (a *ends) step(text string, i int, unit string) {
	rest := text[i:]
	a.add(i+len(unit), strings.HasPrefix(rest, unit), len(rest) < len(unit) && strings.HasPrefix(unit, rest))
	switch {
	case rest == "":
	case rest[0] == '+' && unit == " ":
		a.add(i+1, true, false)
	case rest[0] == '%':
		end, ok, open := percent(text, i, unit)
		a.add(end, ok, open)
	case rest[0] == '\\':
		a.backslash(text, i, unit)
	}
}

// percent reads a character as it is written in URLs, its % possibly written so again.
func percent(text string, i int, unit string) (end int, ok, open bool) {
	for j := range len(unit) {
		if i == len(text) {
			return 0, false, true
		}
		if text[i] != '%' {
			return 0, false, false
		}
		i++
		for n := 0; n < mostPercents && strings.HasPrefix(text[i:], "25") && unit[j] != '%'; n++ {
			i += 2
		}
		code, short := hexCode(text, i, 2)
		if short {
			return 0, false, true
		}
		if code != int(unit[j]) && (unit != " " || code != '+') {
			return 0, false, false
		}
		i += 2
	}
	return i, true, false
}

// hexCode is the number that digits spell; -1: they do not. short: there are fewer.
func hexCode(text string, i, digits int) (code int, short bool) {
	for j := i; j < i+digits; j++ {
		if j >= len(text) {
			return -1, true
		}
		d := strings.IndexByte("0123456789abcdef", text[j]|0x20)
		if d < 0 || text[j] < '0' {
			return -1, false
		}
		code = code<<4 | d
	}
	return code, false
}

// backslash reads a character as it is escaped in JSON, however often that was
// escaped again.
func (a *ends) backslash(text string, i int, unit string) {
	from := i
	for i < len(text) && text[i] == '\\' && i-from < mostBackslashes {
		i++
	}
	rest := text[i:]
	if rest == "" {
		a.open = true
		return
	}
	a.add(i+len(unit), strings.HasPrefix(rest, unit), len(rest) < len(unit) && strings.HasPrefix(unit, rest))
	if at := strings.Index("\b\f\n\r\t", unit); len(unit) == 1 && at >= 0 && rest[0] == "bfnrt"[at] {
		a.add(i+1, true, false)
	}
	if rest[0] != 'u' {
		return
	}
	code, short := hexCode(text, i+1, 4)
	want, _ := utf8.DecodeRuneInString(unit)
	high, low := utf16.EncodeRune(want)
	switch end := i + 5; {
	case short:
		a.open = true
	case rune(code) == want:
		a.add(end, true, false)
	case high == utf8.RuneError || rune(code) != high:
	default:
		var second ends
		for end < len(text) && text[end] == '\\' {
			end++
		}
		if code, short = hexCode(text, end+1, 4); short {
			second.open = true
		}
		a.add(end+5, !short && text[end] == 'u' && rune(code) == low, second.open)
	}
}

// lineBreaks is where the line breaks that begin at i end, however they are escaped.
func lineBreaks(text string, i int) (end int, open bool) {
	for range mostBreaks {
		if i < len(text) && strings.IndexByte(" \t\r\n", text[i]) >= 0 {
			i++
			continue
		}
		found := false
		for _, c := range []string{"\n", "\r", "\t"} {
			var at ends
			at.step(text, i, c)
			if at.open && i < len(text) {
				return i, true
			}
			if at.n > 0 {
				i, found = at.list[0], true
				break
			}
		}
		if !found {
			break
		}
	}
	return i, false
}

// Bytes is JSON, or else text, without the credentials. JSON stays JSON: what
// matters are the strings that it holds, however they are written.
func (r *Redactor) Bytes(data []byte) []byte {
	if r == nil || len(data) == 0 || bytes.IndexByte(data, '\\') < 0 && !r.in(string(data)) {
		return data
	}
	if !json.Valid(data) {
		return []byte(r.Text(string(data)))
	}
	var out bytes.Buffer
	done := 0
	for start, end := range canon.Scalars(data) {
		out.Write(data[done:start])
		out.Write(r.scalar(data[start:end]))
		done = end
	}
	out.Write(data[done:])
	return out.Bytes()
}

// scalar is a string or a number without the credentials.
func (r *Redactor) scalar(raw []byte) []byte {
	text := string(raw)
	if raw[0] == '"' {
		text = canon.Unquote(raw)
	}
	clean := r.Text(text)
	if clean == text {
		return raw
	}
	return flow.JSON(clean) // a number that is a credential becomes a text
}

// Error is an error whose text has no credentials. One that had some is replaced
// by its text: what it wraps would still have them.
func (r *Redactor) Error(err error) error {
	if r == nil || err == nil {
		return err
	}
	if text := r.Text(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}

// stream redacts a text that comes in pieces: a credential may be cut in two.
type stream struct {
	redactor *Redactor
	held     string // may be the beginning of one
}

// next takes another piece and returns the text that is certain.
func (s *stream) next(piece string) string {
	var clean string
	clean, s.held = s.redactor.scan(s.held+piece, false)
	return clean
}

// rest is what was held back.
func (s *stream) rest() string {
	text := s.redactor.Text(s.held)
	s.held = ""
	return text
}
