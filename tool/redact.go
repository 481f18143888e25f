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

// spelling is one way in which a credential is written: byte by byte, each as it is or
// escaped in any of the ways that read knows.
type spelling struct {
	reference string
	text      string
	lines     bool // there may be line breaks in it
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
		if known[text] {
			continue
		}
		known[text] = true
		first := []byte{text[0], '%', '\\'}
		if text[0] == ' ' {
			first = append(first, '+')
		}
		slices.Sort(first)
		for _, b := range slices.Compact(first) {
			r.by[b] = append(r.by[b], &spelling{reference, text, i > 0})
		}
	}
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
			n, open := match(text, i, f.text, f.lines)
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

// match returns where a credential that begins at i ends; 0: there is none. open: the
// text ends before that is certain.
func match(text string, i int, want string, lines bool) (end int, open bool) {
	var r readings
	r.read(text, i, want)
	open = r.open
	for _, p := range r.list[:r.n] {
		rest := want[p.bytes:]
		if rest == "" {
			end = max(end, p.end)
			continue
		}
		next, cut := p.end, false
		if lines {
			next, cut = lineBreaks(text, next)
		}
		if cut {
			open = true
			continue
		}
		e, o := match(text, next, rest, lines)
		end, open = max(end, e), open || o
	}
	return end, open
}

// readings are the ways to read what stands at a place of a text as the next bytes of a
// credential. open: the text ends in the middle of another.
type readings struct {
	list [8]struct {
		bytes int // of the credential
		end   int // in the text
	}
	n    int
	open bool
}

func (r *readings) add(ok bool, bytes, end int) {
	if ok && r.n < len(r.list) {
		r.list[r.n].bytes, r.list[r.n].end = bytes, end
		r.n++
	}
}

// Escapes of escapes are followed this far.
const (
	mostBackslashes = 31
	mostPercents    = 4
	mostBreaks      = 8
)

// read finds the readings at i: as it is, escaped for URLs, or escaped as JSON.
func (r *readings) read(text string, i int, want string) {
	if i == len(text) {
		r.open = true
		return
	}
	r.add(text[i] == want[0], 1, i+1)
	switch text[i] {
	case '+':
		r.add(want[0] == ' ', 1, i+1)
	case '%': // which may be written so again
		for n, at := 0, i+1; n <= mostPercents; n, at = n+1, at+2 {
			code, short := hexCode(text, at, 2)
			r.open = r.open || short
			r.add(code == int(want[0]) || code == '+' && want[0] == ' ', 1, at+2)
			if code != '%' {
				break
			}
		}
	case '\\':
		r.backslash(text, i, want)
	}
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
func (r *readings) backslash(text string, i int, want string) {
	from := i
	for i < len(text) && text[i] == '\\' && i-from < mostBackslashes {
		i++
	}
	if i == len(text) {
		r.open = true
		return
	}
	r.add(text[i] == want[0], 1, i+1)
	if at := strings.IndexByte("bfnrt", text[i]); at >= 0 {
		r.add(want[0] == "\b\f\n\r\t"[at], 1, i+1)
	}
	if text[i] != 'u' {
		return
	}
	code, short := hexCode(text, i+1, 4)
	char, end := rune(code), i+5
	if utf16.IsSurrogate(char) { // the other half follows
		for end < len(text) && text[end] == '\\' {
			end++
		}
		if code, short = hexCode(text, end+1, 4); !short && text[end] != 'u' {
			code = -1
		}
		char, end = utf16.DecodeRune(char, rune(code)), end+5
	}
	r.open = r.open || short
	wanted, size := utf8.DecodeRuneInString(want)
	r.add(code >= 0 && char == wanted, size, end)
}

// lineBreaks is where the line breaks that begin at i end, however they are escaped.
func lineBreaks(text string, i int) (end int, open bool) {
	for range mostBreaks {
		if i < len(text) && strings.IndexByte(" \t\r\n", text[i]) >= 0 {
			i++
			continue
		}
		var r readings
		for _, c := range []string{"\n", "\r", "\t"} {
			r.read(text, i, c)
		}
		switch {
		case r.open && i < len(text):
			return i, true
		case r.n == 0:
			return i, false
		}
		i = r.list[0].end
	}
	return i, false
}

// Bytes is JSON, or else text, without the credentials. JSON stays JSON: what
// matters are the strings that it holds, however they are written.
func (r *Redactor) Bytes(data []byte) []byte {
	if r == nil || len(data) == 0 || bytes.IndexByte(data, '\\') < 0 && r.Text(string(data)) == string(data) {
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
