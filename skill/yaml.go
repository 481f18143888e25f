package skill

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxYAML are the bytes of skill.yaml, and of front matter. The parser takes
	// time that grows with the square of some texts; this many cost it little.
	maxYAML    = 32 << 10
	maxNesting = 32
)

// readYAML reads the part of YAML that has one meaning in JSON: one document
// without anchors, aliases, merge keys and tags. first is the line on which src
// begins in its file. nil: ps says why.
func readYAML(ps *problems, src []byte, first int) *value {
	r := &yamlReader{ps: ps, before: first - 1}
	if at, message := refuseText(src); message != "" {
		r.fail(codeSyntax, at, "%s", message)
		return nil
	}
	if len(src) > maxYAML {
		r.fail(codeLimit, position{1, 1}, "there are %d bytes of YAML; at most %d are read", len(src), maxYAML)
		return nil
	}
	root, err := parse(src)
	if err != nil {
		r.syntax(err)
		return nil
	}
	if root == nil {
		r.fail(codeSyntax, position{1, 1}, "there is nothing in it")
		return nil
	}
	v := r.value(root, 0)
	if r.failed {
		return nil
	}
	return v
}

// refuseText finds what is no text. The position counts from the beginning of
// src.
func refuseText(src []byte) (at position, message string) {
	if bytes.HasPrefix(src, []byte("\xef\xbb\xbf")) {
		return position{1, 1}, "it begins with a byte order mark; save it as UTF-8 without one"
	}
	for line, rest := 1, src; len(rest) > 0; line++ {
		text := rest
		if end := bytes.IndexByte(rest, '\n'); end >= 0 {
			text = rest[:end+1]
		}
		rest = rest[len(text):]
		for i := 0; i < len(text); {
			r, n := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && n == 1 {
				return position{line, utf8.RuneCount(text[:i]) + 1}, "it is not UTF-8 text"
			}
			if r == 0 {
				return position{line, utf8.RuneCount(text[:i]) + 1}, "a NUL byte has no place in text"
			}
			i += n
		}
	}
	return position{}, ""
}

var errDocuments = errors.New("one file holds one document")

// parse keeps a fault of the parser from ending the process: skills come from
// anywhere.
func parse(src []byte) (root ast.Node, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			root, err = nil, fmt.Errorf("it cannot be read as YAML: %v", fault)
		}
	}()
	if err := shallow(src); err != nil {
		return nil, err
	}
	file, err := parser.ParseBytes(src, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, err
	}
	for _, doc := range file.Docs {
		switch {
		case doc == nil || doc.Body == nil:
		case root != nil:
			return nil, errDocuments
		default:
			root = doc.Body
		}
	}
	return root, nil
}

// shallow refuses text that could be nested so deeply that the parser, which
// recurses, would spend its time and stack on it: more brackets open at once, or
// more dashes and question marks in one line, than any document has use for.
// Nesting by indentation is bounded by the size of the text.
func shallow(src []byte) error {
	const most = 8 * maxNesting
	open := 0
	for line := range bytes.Lines(src) {
		open += bytes.Count(line, []byte("[")) + bytes.Count(line, []byte("{"))
		open = max(open-bytes.Count(line, []byte("]"))-bytes.Count(line, []byte("}")), 0)
		if open > most || bytes.Count(line, []byte("- "))+bytes.Count(line, []byte("? ")) > most {
			return errTooDeep
		}
	}
	return nil
}

var errTooDeep = fmt.Errorf("values are nested deeper than %d levels", maxNesting)

type yamlReader struct {
	ps     *problems
	before int // lines of the file before the text
	failed bool
}

func (r *yamlReader) fail(code string, at position, format string, args ...any) *value {
	r.failed = true
	at.line += r.before
	r.ps.add(code, at, "", format, args...)
	return &value{at: at}
}

// syntax keeps what the parser says and where; its own text repeats the source.
func (r *yamlReader) syntax(err error) {
	var known yaml.Error
	switch {
	case errors.Is(err, errTooDeep):
		r.fail(codeLimit, position{1, 1}, "%v", err)
	case errors.As(err, &known):
		r.fail(codeSyntax, place(known.GetToken()), "%s", known.GetMessage())
	default:
		r.fail(codeSyntax, position{1, 1}, "%v", err)
	}
}

// at is where a token stands in the file.
func (r *yamlReader) at(t *token.Token) position {
	at := place(t)
	at.line += r.before
	return at
}

func place(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{max(t.Position.Line, 1), max(t.Position.Column, 1)}
}

func (r *yamlReader) value(n ast.Node, depth int) *value {
	t := n.GetToken()
	if depth > maxNesting {
		return r.fail(codeLimit, place(t), "%v", errTooDeep)
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return r.mapping(n.Values, place(n.Start), n.IsFlowStyle, depth)
	case *ast.MappingValueNode:
		return r.mapping([]*ast.MappingValueNode{n}, place(t), false, depth)
	case *ast.SequenceNode:
		v := &value{kind: list, at: r.at(n.Start)}
		for _, item := range n.Values {
			v.items = append(v.items, r.value(item, depth+1))
		}
		return v
	case *ast.LiteralNode:
		return &value{kind: text, text: n.Value.Value, at: r.at(n.Start)}
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode, *ast.TagNode:
		return r.fail(codeSyntax, place(t), "anchors, aliases, merge keys and tags have no place here; write the value out")
	case ast.ScalarNode:
		return r.scalar(n)
	}
	return r.fail(codeSyntax, place(t), "this part of YAML has no place here")
}

func (r *yamlReader) mapping(values []*ast.MappingValueNode, start position, flow bool, depth int) *value {
	v := &value{kind: object}
	if !flow && len(values) > 0 {
		start = place(values[0].Key.GetToken())
	}
	v.at = position{start.line + r.before, start.column}
	seen := map[string]position{}
	for _, m := range values {
		key, ok := r.key(m.Key)
		if !ok {
			continue
		}
		if first, twice := seen[key.text]; twice {
			r.fail(codeSyntax, place(m.Key.GetToken()), "%s stands twice, first in line %d", quoted(key.text), first.line)
			continue
		}
		seen[key.text] = key.at
		v.members = append(v.members, member{key.text, key.at, r.value(m.Value, depth+1)})
	}
	return v
}

func (r *yamlReader) key(n ast.MapKeyNode) (*value, bool) {
	scalar, ok := n.(ast.ScalarNode)
	if !ok {
		r.fail(codeSyntax, place(n.GetToken()), "a name must be text")
		return nil, false
	}
	key := r.scalar(scalar)
	if key.kind != text {
		r.fail(codeSyntax, place(n.GetToken()), "a name must be text; put it in quotes")
		return nil, false
	}
	return key, true
}

func (r *yamlReader) scalar(n ast.ScalarNode) *value {
	t := n.GetToken()
	at := r.at(t)
	switch t.Type {
	case token.SingleQuoteType, token.DoubleQuoteType:
		return &value{kind: text, text: t.Value, at: at}
	case token.ImplicitNullType:
		return &value{kind: null, at: at}
	}
	v := plain(t.Value)
	if v.kind == number && !safeNumber(v.text) {
		return r.fail(codeNumberUnsafe, place(t), "%s cannot be kept exactly as a number; write it as text", quoted(t.Value))
	}
	v.at = at
	return v
}

// The scalars of the YAML 1.2 core schema. What matches none is text: yes, on,
// 12:30 and 2026-01-02 are.
var (
	yamlNull    = regexp.MustCompile(`^(null|Null|NULL|~|)$`)
	yamlBoolean = regexp.MustCompile(`^(true|True|TRUE|false|False|FALSE)$`)
	yamlNumber  = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	yamlParts   = regexp.MustCompile(`^([-+]?)0*([0-9]*)\.?([0-9]*)([eE].*)?$`)
	yamlBased   = regexp.MustCompile(`^0(o[0-7]{1,400}|x[0-9a-fA-F]{1,400})$`)
	yamlSpecial = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

// plain is the value of a scalar without quotes. A number that JSON does not
// have keeps its text, which is then no safe number.
func plain(s string) *value {
	switch {
	case yamlNull.MatchString(s):
		return &value{kind: null}
	case yamlBoolean.MatchString(s):
		return &value{kind: boolean, text: strings.ToLower(s)}
	case yamlBased.MatchString(s):
		n, _ := new(big.Int).SetString(s, 0)
		return &value{kind: number, text: n.String()}
	case yamlSpecial.MatchString(s):
		return &value{kind: number, text: s}
	case yamlNumber.MatchString(s):
		return &value{kind: number, text: jsonNumber(s)}
	}
	return &value{kind: text, text: s}
}

// jsonNumber is a decimal number of YAML as JSON writes it: no plus sign, no
// leading zeros, digits on both sides of the point.
func jsonNumber(s string) string {
	m := yamlParts.FindStringSubmatch(s)
	sign, whole, fraction, exponent := strings.TrimPrefix(m[1], "+"), m[2], m[3], m[4]
	if whole == "" {
		whole = "0"
	}
	if fraction != "" {
		fraction = "." + fraction
	}
	return sign + whole + fraction + exponent
}
