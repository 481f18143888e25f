// Package redact takes credentials out of texts, so that no record, message or log holds
// one.
//
// Start at [New]. The package performs no I/O.
package redact

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/tipstaff/tipstaff/canon"
)

// Prefix begins a reference to a variable of our environment, which stands in place of its
// value.
const Prefix = "$env:"

// Least is the length from which a value can be found again in a text. A shorter one would
// be replaced where it stands by chance.
const Least = 8

// leastLine is the length from which a line of a value is looked for by itself.
const leastLine = 16

// Redactor replaces credentials by their references. It knows a value as it is; with any
// of its characters escaped for URLs, as HTML or as JSON, also inside a text that is JSON
// itself; and in base64, once or twice, also as a part of what was encoded and broken into
// lines. Of a value of several lines, like a key in PEM, it knows each line. What a program
// makes of a credential otherwise it cannot know.
//
// A nil Redactor replaces nothing.
type Redactor struct {
	by [256][]spelling // by their first bytes
}

// spelling is one way in which a credential is written: byte by byte, each as it is or
// escaped in any of the ways that read knows.
type spelling struct {
	second    byte
	reference string
	text      string
	lines     bool // there may be line breaks in it
}

// New makes a redactor for values of variables, by their names. Values that are too short
// to be distinguished from other text are left out.
func New(values map[string]string) *Redactor {
	r, known := new(Redactor), map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value := values[name]
		if len(value) < Least {
			continue
		}
		r.learn(value, Prefix+name, known)
		if p := Password(value); len(p) >= Least {
			r.learn(p, Prefix+name, known)
		}
		for _, line := range lines(value) {
			r.learn(line, Prefix+name, known)
		}
	}
	if len(known) == 0 {
		return nil
	}
	return r
}

// Password is the password in a URL; "" if text is not a URL or has no password.
func Password(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return ""
	}
	p, _ := u.User.Password()
	return p
}

// lines are those of a value that has several, its line breaks written out or escaped. The
// first and last of a key in PEM say what it is and are no secret.
func lines(value string) (all []string) {
	split := strings.FieldsFunc(strings.NewReplacer(`\r`, "\r", `\n`, "\n").Replace(value), func(r rune) bool { return r == '\r' || r == '\n' })
	for _, line := range split {
		if line = strings.TrimSpace(line); len(line) >= leastLine && !strings.HasPrefix(line, "-----") && line != value {
			all = append(all, line)
		}
	}
	return all
}

func (r *Redactor) learn(value, reference string, known map[string]bool) {
	once := base64Forms(value)
	forms := append([]string{value}, once...)
	for _, form := range once {
		forms = append(forms, base64Forms(form)...)
	}
	for i, text := range forms {
		if known[text] {
			continue
		}
		known[text] = true
		r.by[text[0]] = append(r.by[text[0]], spelling{text[1], reference, text, i > 0})
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

// Bytes that may begin an escape of another, and those that may stand between two.
var escapes, between [256]bool

func init() {
	for _, c := range "%\\&+" {
		escapes[c], between[c] = true, true
	}
	for _, c := range " \t\r\n" {
		between[c] = true
	}
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
		end, reference, cut := r.at(text, i)
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

// at is the longest credential that begins at i: where it ends and what stands in its
// place; 0: none does. cut: the text ends before that is certain.
func (r *Redactor) at(text string, i int) (end int, reference string, cut bool) {
	try := func(f *spelling) {
		n, open := match(text, i, f.text, f.lines)
		if n > end {
			end, reference = n, f.reference
		}
		cut = cut || open
	}
	if !escapes[text[i]] {
		for k := range r.by[text[i]] {
			f := &r.by[text[i]][k]
			if i+1 == len(text) || text[i+1] == f.second || between[text[i+1]] {
				try(f)
			}
		}
		return end, reference, cut
	}
	var first readings
	first.read(text, i)
	for _, p := range first.list[:first.n] {
		for k := range r.by[p.is[0]] {
			try(&r.by[p.is[0]][k])
		}
	}
	return end, reference, cut || first.open
}

// match returns where a credential that begins at i ends; 0: there is none. open: the
// text ends before that is certain.
func match(text string, i int, want string, lines bool) (end int, open bool) {
	if i < len(text) && !escapes[text[i]] { // as nearly always
		if text[i] != want[0] {
			return 0, false
		}
		return follow(text, i+1, want[1:], lines)
	}
	var r readings
	r.read(text, i)
	open = r.open
	for _, p := range r.list[:r.n] {
		if rest, ok := strings.CutPrefix(want, p.is); ok {
			e, o := follow(text, p.end, rest, lines)
			end, open = max(end, e), open || o
		}
	}
	return end, open
}

// follow matches the rest of a credential.
func follow(text string, i int, rest string, lines bool) (end int, open bool) {
	if rest == "" {
		return i, false
	}
	if lines {
		if i, open = lineBreaks(text, i); open {
			return 0, true
		}
	}
	return match(text, i, rest, lines)
}

// reading is one character of a text.
type reading struct {
	is  string
	end int // where it ends
}

// readings are the ways to read what stands at a place of a text. open: the text ends in
// the middle of another.
type readings struct {
	list [8]reading
	n    int
	open bool
}

func (r *readings) add(is string, end int) {
	if r.n < len(r.list) {
		r.list[r.n].is, r.list[r.n].end = is, end
		r.n++
	}
}

// addByte adds a byte by its number; below 0: it is none.
func (r *readings) addByte(code, end int) {
	if code >= 0 {
		r.add(string([]byte{byte(code)}), end)
	}
}

// Escapes of escapes are followed this far.
const (
	mostBackslashes = 31
	mostPercents    = 4
	mostAmpersands  = 4
	mostBreaks      = 8
)

// read finds the readings at i: as it is, escaped for URLs, as HTML, or as JSON.
func (r *readings) read(text string, i int) {
	if i == len(text) {
		r.open = true
		return
	}
	r.add(text[i:i+1], i+1)
	switch text[i] {
	case '+':
		r.add(" ", i+1)
	case '%': // which may be written so again
		for n, at := 0, i+1; n <= mostPercents; n, at = n+1, at+2 {
			code, short := hexCode(text, at, 2)
			r.open = r.open || short
			if code == '+' {
				r.add(" ", at+2)
			}
			if r.addByte(code, at+2); code != '%' {
				break
			}
		}
	case '&':
		r.entity(text, i)
	case '\\':
		r.backslash(text, i)
	}
}

// entities are the characters that have names in every document of HTML or XML.
var entities = map[string]rune{"amp": '&', "lt": '<', "gt": '>', "quot": '"', "apos": '\'', "nbsp": ' '}

// longestEntity is that of a number, as in &#0001114111;
const longestEntity = 12

// entity reads a character as it is escaped in HTML, which may be escaped so again.
func (r *readings) entity(text string, i int) {
	at := i + 1
	for range mostAmpersands {
		end := strings.IndexByte(text[at:min(at+longestEntity, len(text))], ';')
		if end < 0 {
			r.open = r.open || len(text)-at < longestEntity && plausible(text[at:])
			return
		}
		char, ok := entityOf(text[at : at+end])
		if !ok {
			return
		}
		if r.add(string(char), at+end+1); char != '&' {
			return
		}
		at += end + 1
	}
}

// plausible reports whether a text may be the beginning of an entity.
func plausible(text string) bool {
	return strings.Trim(text, "#abcdefghijklmnopqrstuvwxyzABCDEFX0123456789") == ""
}

func entityOf(name string) (rune, bool) {
	if char, ok := entities[name]; ok {
		return char, true
	}
	digits, numeric := strings.CutPrefix(name, "#")
	base := 10
	if hex, ok := strings.CutPrefix(strings.ToLower(digits), "x"); ok {
		digits, base = hex, 16
	}
	n, err := strconv.ParseUint(digits, base, 21)
	return rune(n), numeric && err == nil
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
func (r *readings) backslash(text string, i int) {
	from := i
	for i < len(text) && text[i] == '\\' && i-from < mostBackslashes {
		i++
	}
	if i == len(text) {
		r.open = true
		return
	}
	r.add(text[i:i+1], i+1)
	if at := strings.IndexByte("bfnrt", text[i]); at >= 0 {
		r.add("\b\f\n\r\t"[at:at+1], i+1)
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
	if r.open = r.open || short; code >= 0 {
		r.add(string(char), end)
	}
}

// lineBreaks is where the line breaks that begin at i end, however they are escaped.
func lineBreaks(text string, i int) (end int, open bool) {
	for range mostBreaks {
		if i < len(text) && strings.IndexByte(" \t\r\n", text[i]) >= 0 {
			i++
			continue
		}
		if i == len(text) || !escapes[text[i]] {
			return i, false
		}
		var r readings
		r.read(text, i)
		if r.open {
			return i, true
		}
		at := slices.IndexFunc(r.list[:r.n], func(p reading) bool { return strings.Contains("\n\r\t", p.is) })
		if at < 0 {
			return i, false
		}
		i = r.list[at].end
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
	return canon.AppendText(nil, clean) // a number that is a credential becomes a text
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

// Stream redacts a text that comes in pieces: a credential may be cut in two.
type Stream struct {
	Redactor *Redactor
	held     string // may be the beginning of one
}

// Next takes another piece and returns the text that is certain.
func (s *Stream) Next(piece string) string {
	var clean string
	clean, s.held = s.Redactor.scan(s.held+piece, false)
	return clean
}

// Rest is what was held back.
func (s *Stream) Rest() string {
	text := s.Redactor.Text(s.held)
	s.held = ""
	return text
}
