package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/tipstaff/tipstaff/document"
)

// reference names a value that is known only when the plan runs: an input, or
// the output of a leaf, or something inside one of them.
type reference struct {
	node string   // the leaf; "": an input
	name string   // the input; "" for a leaf
	path []string // into the value
}

func (r reference) String() string {
	head := inputScope + "." + r.name
	if r.node != "" {
		head = r.node + ".output"
	}
	return "${" + strings.Join(append([]string{head}, r.path...), ".") + "}"
}

// part of a text: literal, or a reference.
type part struct {
	literal string
	ref     *reference
}

var segmentGrammar = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// parseText takes a string apart. "$${" stands for a literal "${"; a "${" that
// begins no reference is an error.
func parseText(s string) ([]part, error) {
	var parts []part
	var literal strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			break
		}
		if i > 0 && s[i-1] == '$' {
			literal.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		literal.WriteString(s[:i])
		inner, rest, closed := strings.Cut(s[i+2:], "}")
		if !closed {
			return nil, fmt.Errorf("%q is never closed", document.Brief(s[i:]))
		}
		ref, err := parseReference(inner)
		if err != nil {
			return nil, err
		}
		if literal.Len() > 0 {
			parts = append(parts, part{literal: literal.String()})
			literal.Reset()
		}
		parts = append(parts, part{ref: &ref})
		s = rest
	}
	literal.WriteString(s)
	if literal.Len() > 0 {
		parts = append(parts, part{literal: literal.String()})
	}
	return parts, nil
}

// parseReference reads what stands between the braces.
func parseReference(inner string) (reference, error) {
	segments := strings.Split(inner, ".")
	for _, s := range segments {
		if !segmentGrammar.MatchString(s) {
			return reference{}, fmt.Errorf("${%s} is no reference; write ${input.name} or ${id.output.field}, and $${ for a literal ${", document.Brief(inner))
		}
	}
	switch {
	case segments[0] == inputScope && len(segments) > 1:
		return reference{name: segments[1], path: segments[2:]}, nil
	case segments[0] == inputScope:
		return reference{}, errors.New("${input} names no input; write ${input.name}")
	case len(segments) > 1 && segments[1] == "output":
		return reference{node: segments[0], path: segments[2:]}, nil
	}
	return reference{}, fmt.Errorf("${%s} names no output; write ${%s.output}", document.Brief(inner), document.Brief(segments[0]))
}

// eachText calls visit with every string in v that may hold references: values, and
// keys, which may not but are told apart by key.
func eachText(v *document.Value, visit func(s string, at document.Position, key bool)) {
	switch v.Kind {
	case document.Text:
		visit(v.Text, v.At, false)
	case document.List:
		for _, item := range v.Items {
			eachText(item, visit)
		}
	case document.Object:
		for _, m := range v.Members {
			visit(m.Key, m.At, true)
			eachText(m.Value, visit)
		}
	}
}

// isLiteral reports whether v means the same in every run: no reference in it.
func isLiteral(v *document.Value) bool {
	if v == nil {
		return true
	}
	found := false
	eachText(v, func(s string, _ document.Position, _ bool) {
		parts, _ := parseText(s)
		for _, p := range parts {
			found = found || p.ref != nil
		}
	})
	return !found
}

// lookup finds the value of a reference.
type lookup func(reference) (json.RawMessage, error)

// render is v with its references replaced: RFC 8785 form, unless a number that
// came through a reference has none. Then it is left as it came, for whoever
// would send it on to refuse.
func render(v *document.Value, find lookup) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := renderTo(&b, v, find); err != nil {
		return nil, err
	}
	out, err := document.Canonical(b.Bytes())
	if errors.Is(err, document.ErrUnsafe) {
		return b.Bytes(), nil
	}
	return out, err
}

func renderTo(b *bytes.Buffer, v *document.Value, find lookup) error {
	switch v.Kind {
	case document.Text:
		return renderText(b, v.Text, find)
	case document.List:
		b.WriteByte('[')
		for i, item := range v.Items {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := renderTo(b, item, find); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	case document.Object:
		b.WriteByte('{')
		for i, m := range v.Members {
			if i > 0 {
				b.WriteByte(',')
			}
			b.Write(document.Quote(strings.ReplaceAll(m.Key, "$${", "${")))
			b.WriteByte(':')
			if err := renderTo(b, m.Value, find); err != nil {
				return err
			}
		}
		b.WriteByte('}')
	default:
		v.AppendJSON(b)
	}
	return nil
}

// renderText writes a string. One that is a single reference keeps the type of
// what it names.
func renderText(b *bytes.Buffer, s string, find lookup) error {
	parts, err := parseText(s)
	if err != nil {
		return err
	}
	if len(parts) == 1 && parts[0].ref != nil {
		found, err := find(*parts[0].ref)
		if err != nil {
			return err
		}
		return json.Compact(b, found)
	}
	joined, err := joinParts(parts, find)
	if err != nil {
		return err
	}
	b.Write(document.Quote(joined))
	return nil
}

// joinParts makes one text: strings stand verbatim, other scalars as JSON
// literals, containers in RFC 8785 form.
func joinParts(parts []part, find lookup) (string, error) {
	var b strings.Builder
	for _, p := range parts {
		if p.ref == nil {
			b.WriteString(p.literal)
			continue
		}
		found, err := find(*p.ref)
		if err != nil {
			return "", err
		}
		s, err := asText(found)
		if err != nil {
			return "", fmt.Errorf("%v: %w", p.ref, err)
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

func asText(raw json.RawMessage) (string, error) {
	raw = bytes.TrimSpace(raw)
	switch raw[0] {
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	case '{', '[':
		c, err := document.Canonical(raw)
		return string(c), err
	}
	return string(raw), nil
}

var errUnresolved = errors.New("names nothing that is there")

// descend is what stands at path inside raw.
func descend(raw json.RawMessage, path []string) (json.RawMessage, error) {
	for _, segment := range path {
		raw = bytes.TrimSpace(raw)
		var found json.RawMessage
		switch {
		case len(raw) > 0 && raw[0] == '{':
			var members map[string]json.RawMessage
			if err := json.Unmarshal(raw, &members); err != nil {
				return nil, err
			}
			found = members[segment]
		case len(raw) > 0 && raw[0] == '[':
			var items []json.RawMessage
			if err := json.Unmarshal(raw, &items); err != nil {
				return nil, err
			}
			if i, err := strconv.Atoi(segment); err == nil && i < len(items) && strconv.Itoa(i) == segment && i >= 0 {
				found = items[i]
			}
		}
		if found == nil {
			return nil, errUnresolved
		}
		raw = found
	}
	return raw, nil
}
