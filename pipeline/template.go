package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/document"
)

// What surrounds an expression in a text, and how to write that down literally.
const (
	opening = "${"
	escaped = "$${"
)

// part is a piece of text, or an expression in its place.
type part struct {
	text string
	expr *expression
}

// Literal reports whether no expression stands in the template. Of nil it is true.
func (t *Template) Literal() bool { return t == nil || !t.filled }

// value fills the template in: a text that is a single expression becomes what that
// yields, in its own type. The value may share parts with the Envelope.
func (t *Template) value(s *scope) (any, error) { return t.fill(t.written, s) }

// text fills the template in as text: strings as they are, other values as JSON.
func (t *Template) text(s *scope) (string, error) {
	v, err := t.value(s)
	if err != nil {
		return "", err
	}
	return textOf(v), nil
}

func textOf(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(EncodeValue(v))
}

func (t *Template) fill(v *document.Value, s *scope) (_ any, err error) {
	switch v.Kind {
	case document.Text:
		return fill(t.texts[v], s)
	case document.List:
		list := make([]any, len(v.Items))
		for i, item := range v.Items {
			if list[i], err = t.fill(item, s); err != nil {
				return nil, err
			}
		}
		return list, nil
	case document.Object:
		object := make(map[string]any, len(v.Members))
		for _, m := range v.Members {
			if object[m.Key], err = t.fill(m.Value, s); err != nil {
				return nil, err
			}
		}
		return object, nil
	}
	return fixedValue(v)
}

func fill(parts []part, s *scope) (any, error) {
	if len(parts) == 1 {
		return parts[0].value(s)
	}
	var b strings.Builder
	for i := range parts {
		v, err := parts[i].value(s)
		if err != nil {
			return nil, err
		}
		b.WriteString(textOf(v))
	}
	return b.String(), nil
}

func (p *part) value(s *scope) (any, error) {
	if p.expr == nil {
		return p.text, nil
	}
	v, err := p.expr.eval(s)
	if err != nil {
		return nil, fmt.Errorf("${%s}: %w", p.expr.source, err)
	}
	value, err := valueOf(v)
	if err != nil {
		return nil, fmt.Errorf("${%s}: %w", p.expr.source, err)
	}
	return value, nil
}

// newTemplate compiles a value of a document. Faults are told one by one with the
// place of the string that has them.
func newTemplate(v *document.Value, fault func(document.Position, error)) *Template {
	t := &Template{written: v, texts: map[*document.Value][]part{}}
	t.compile(v, fault)
	return t
}

func (t *Template) compile(v *document.Value, fault func(document.Position, error)) {
	var err error
	switch v.Kind {
	case document.Text:
		t.texts[v], err = compileText(v.Text)
		t.filled = t.filled || slices.ContainsFunc(t.texts[v], func(p part) bool { return p.expr != nil })
	case document.List:
		for _, item := range v.Items {
			t.compile(item, fault)
		}
	case document.Object:
		for _, m := range v.Members {
			if strings.Contains(m.Key, opening) {
				fault(m.At, fmt.Errorf("%q stands in a key; only values are filled in", document.Brief(m.Key)))
			}
			t.compile(m.Value, fault)
		}
	default:
		_, err = fixedValue(v)
	}
	if err != nil {
		fault(v.At, err)
	}
}

// compileText splits a text at its expressions. There is always a part.
func compileText(s string) ([]part, error) {
	var parts []part
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			parts = append(parts, part{text: text.String()})
			text.Reset()
		}
	}
	for s != "" {
		i := strings.IndexByte(s, '$')
		if i < 0 {
			i = len(s)
		}
		text.WriteString(s[:i])
		s = s[i:]
		switch {
		case strings.HasPrefix(s, escaped):
			text.WriteString(opening)
			s = s[len(escaped):]
		case strings.HasPrefix(s, opening):
			source, rest, err := cutExpression(s[len(opening):])
			if err != nil {
				return nil, err
			}
			x, _, err := compileExpression(source)
			if err != nil {
				return nil, fmt.Errorf("${%s}: %w", document.Brief(source), err)
			}
			flush()
			parts = append(parts, part{expr: x})
			s = rest
		case s != "":
			text.WriteByte('$')
			s = s[1:]
		}
	}
	if flush(); parts == nil {
		parts = []part{{}}
	}
	return parts, nil
}

var errUnclosed = errors.New(`${ is never closed; write $${ for the characters themselves`)

// cutExpression ends an expression at the brace that closes it: not one in a
// string, nor one that closes an object of its own.
func cutExpression(s string) (source, rest string, err error) {
	depth := 0
	for i := 0; i < len(s); {
		switch c := s[i]; c {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return s[:i], s[i+1:], nil
			}
			depth--
		case '"', '\'':
			n := skipString(s[i:], i > 0 && (s[i-1]|0x20) == 'r')
			if n < 0 {
				return "", "", errUnclosed
			}
			i += n
			continue
		case '/':
			if strings.HasPrefix(s[i:], "//") {
				end := strings.IndexByte(s[i:], '\n')
				if end < 0 {
					return "", "", errUnclosed
				}
				i += end
			}
		}
		i++
	}
	return "", "", errUnclosed
}

// skipString is the length of the string literal that s begins with, quotes
// included, or -1 if it has no end.
func skipString(s string, raw bool) int {
	quote := s[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(s, triple) {
		quote = triple
	}
	for i := len(quote); i < len(s); i++ {
		if s[i] == '\\' && !raw {
			i++
			continue
		}
		if strings.HasPrefix(s[i:], quote) {
			return i + len(quote)
		}
	}
	return -1
}
