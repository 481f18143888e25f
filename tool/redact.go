package tool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tipstaff/tipstaff/flow"
)

// Redactor replaces credentials by their references, so that no record, message
// or log holds one. It knows a value as it is, escaped as JSON (also inside a text
// that is JSON itself), escaped for URLs, and in base64, also as a part of what
// was encoded. What a server makes of a credential otherwise it cannot know.
//
// A nil Redactor replaces nothing.
type Redactor struct {
	replacer *strings.Replacer
	longest  int      // of the forms
	forms    []string // longest first
}

// NewRedactor makes a redactor for values of variables, by their names. Values
// too short to be told from other text are left out.
func NewRedactor(values map[string]string) *Redactor {
	by := map[string]string{}
	for _, name := range sortedKeys(values) {
		if len(values[name]) < leastSecret {
			continue
		}
		for _, form := range formsOf(values[name]) {
			if _, taken := by[form]; !taken {
				by[form] = referencePrefix + name
			}
		}
	}
	if len(by) == 0 {
		return nil
	}
	forms := sortedKeys(by)
	slices.SortStableFunc(forms, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, form := range forms {
		pairs = append(pairs, form, by[form])
	}
	return &Redactor{strings.NewReplacer(pairs...), len(forms[0]), forms}
}

// formsOf are the texts in which a value may come back.
func formsOf(value string) []string {
	forms := []string{value, url.QueryEscape(value), url.PathEscape(value), lowerEscapes(url.QueryEscape(value)), lowerEscapes(url.PathEscape(value))}
	forms = append(forms, base64Forms(value)...)
	for _, form := range slices.Clone(forms) {
		forms = append(forms, jsonForms(form)...)
	}
	forms = append(forms, everyRune(value, "%04x"), everyRune(value, "%04X"))
	for _, form := range slices.Clone(forms) { // a text that is JSON, inside a text that is JSON
		forms = append(forms, quoted(form))
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// jsonForms are the escapes that encoders use: none that is not needed, those of
// HTML, and the slash.
func jsonForms(text string) []string {
	plain := quoted(text)
	html, _ := json.Marshal(text) // text is a string
	return []string{plain, string(html[1 : len(html)-1]), strings.ReplaceAll(plain, "/", `\/`)}
}

// quoted is a text as a JSON string, without the quotes.
func quoted(text string) string {
	q := flow.JSON(text)
	return string(q[1 : len(q)-1])
}

func everyRune(text, format string) string {
	var b strings.Builder
	for _, r := range text {
		if r > 0xffff {
			return text // needs two escapes, in which no encoder writes the rest
		}
		fmt.Fprintf(&b, `\u`+format, r)
	}
	return b.String()
}

func lowerEscapes(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			b.WriteString(strings.ToLower(text[i : i+3]))
			i += 2
			continue
		}
		b.WriteByte(text[i])
	}
	return b.String()
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
	if r == nil || !r.in(text) {
		return text
	}
	return r.replacer.Replace(text)
}

// in reports whether there is anything to replace, which is much quicker than
// replacing nothing.
func (r *Redactor) in(text string) bool {
	return slices.ContainsFunc(r.forms, func(form string) bool { return strings.Contains(text, form) })
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
	for len(data) > 0 {
		n := lexeme(data)
		out.Write(r.lexeme(data[:n]))
		data = data[n:]
	}
	return out.Bytes()
}

// lexeme is the length of the first string, number or other byte of valid JSON.
func lexeme(data []byte) int {
	switch c := data[0]; {
	case c == '"':
		for i := 1; i < len(data); i++ {
			switch data[i] {
			case '\\':
				i++
			case '"':
				return i + 1
			}
		}
	case c == '-' || c >= '0' && c <= '9':
		if n := bytes.IndexFunc(data, func(r rune) bool { return !strings.ContainsRune("+-.0123456789eE", r) }); n > 0 {
			return n
		}
		return len(data)
	}
	return 1
}

func (r *Redactor) lexeme(raw []byte) []byte {
	if len(raw) < leastSecret {
		return raw
	}
	text := string(raw)
	if raw[0] == '"' && bytes.IndexByte(raw, '\\') >= 0 {
		if json.Unmarshal(raw, &text) != nil {
			return raw
		}
	} else if raw[0] == '"' {
		text = text[1 : len(text)-1]
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

// next is what can be told after another piece.
func (s *stream) next(piece string) string {
	if s.redactor == nil {
		return piece
	}
	text := s.redactor.Text(s.held + piece)
	s.held = text[len(text)-s.redactor.begun(text):]
	return text[:len(text)-len(s.held)]
}

// rest is what was held back.
func (s *stream) rest() string {
	text := s.held
	s.held = ""
	return text
}

// begun is the length of the longest end of a text that begins a credential. It
// does not cut characters.
func (r *Redactor) begun(text string) int {
	for n := min(len(text), r.longest-1); n > 0; n-- {
		end := text[len(text)-n:]
		if !utf8.RuneStart(end[0]) {
			continue
		}
		if slices.ContainsFunc(r.forms, func(form string) bool { return len(form) > n && strings.HasPrefix(form, end) }) {
			return n
		}
	}
	return 0
}
