package document

import (
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"
)

// readYAML reads the part of YAML 1.2 that has one meaning in JSON: no anchors,
// aliases, tags, merge or complex keys, one document.
//
// The parser behind it trusts its input: it recurses over nesting and over the
// keys of a mapping, and some of its loops are quadratic. So the text and then
// its tokens pass through guards of our own first.
//
// A panic of the parser is a document it cannot read, not an end of the process.
func readYAML(src string) (v *Value, ps Problems) {
	defer func() {
		if fault := recover(); fault != nil {
			v, ps = nil, Problems{*syntaxAt(start, "the document cannot be read as YAML: %v", fault)}
		}
	}()
	root, p := parseYAML(src)
	if p != nil {
		return nil, Problems{*p}
	}
	c := &yamlConverter{}
	return c.outcome(c.value(root, 0))
}

// parseYAML is the syntax of the one document in src.
func parseYAML(src string) (ast.Node, *Problem) {
	if p := guardText(src); p != nil {
		return nil, p
	}
	tokens, p := scan(src)
	if p != nil {
		return nil, p
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey()) // the converter reports them all
	var fault yaml.Error
	if errors.As(err, &fault) { // whose own text repeats the source
		return nil, syntaxAt(at(fault.GetToken()), "%s", fault.GetMessage())
	} else if err != nil {
		return nil, syntaxAt(start, "%v", err)
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, empty(tokens)
	}
	return file.Docs[0].Body, nil
}

// empty is the problem of a text with nothing but blanks and comments. A document
// that has a header begins after it.
func empty(tokens token.Tokens) *Problem {
	begin := start
	if len(tokens) > 0 && tokens[0].Type == token.DocumentHeaderType {
		begin = Position{at(tokens[0]).Line + 1, 1}
	}
	return &Problem{Code: CodeSyntax, At: begin, Message: ErrEmpty.Error(), Cause: ErrEmpty}
}

// Guards of the text: what the scanner would spend quadratic time on.
const (
	maxBlankLines = 100     // in a row
	maxTabCost    = 5 << 20 // tabs × length, summed over lines with a double quote
)

func guardText(src string) *Problem {
	blank, tabCost, line := 0, 0, 0
	for text := range strings.Lines(src) {
		line++
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
		if blank++; strings.TrimSpace(text) != "" {
			blank = 0
		}
		if strings.Contains(text, `"`) {
			tabCost += strings.Count(text, "\t") * len(text)
		}
		switch i := strings.IndexByte(text, '\r'); {
		case blank == 0 && text[0] == '\t':
			return syntaxAt(Position{line, 1}, "a tab cannot indent; use spaces")
		case i >= 0:
			return syntaxAt(Position{line, utf8.RuneCountInString(text[:i]) + 1}, "a carriage return does not end a line; use line feeds")
		case blank > maxBlankLines, tabCost > maxTabCost:
			return limitAt(Position{line, 1}, "too many blank lines or tabs here to read as YAML; write the document as JSON")
		}
	}
	return nil
}

// firstPart is how much of a text is scanned first.
const firstPart = 4 << 10

// scan is the scanner's tokens, as long as the guard has nothing against them. The
// scanner makes all tokens of a text before it gives any, and they are a hundred times
// as large as the text. So it is given a small part first, then larger ones: what is
// refused is found while it is small.
func scan(src string) (token.Tokens, *Problem) {
	for size := firstPart; size < len(src); size *= 4 {
		end := size
		for !utf8.RuneStart(src[end]) {
			end--
		}
		if _, p := scanPart(src[:end], true); p != nil {
			return nil, p
		}
	}
	return scanPart(src, false)
}

// scanPart is scan of a text that may have been cut off. What it ends with, and what is
// no token at all, may come of the cut and is left to a larger part.
func scanPart(src string, cut bool) (token.Tokens, *Problem) {
	var s scanner.Scanner
	s.Init(src)
	var tokens token.Tokens
	g := &tokenGuard{}
	for {
		found, err := s.Scan()
		if err == io.EOF {
			return tokens, g.end()
		}
		for i, t := range found {
			if cut && (t.Type == token.InvalidType || i >= len(found)-2) {
				return nil, nil
			}
			if p := g.check(t); p != nil {
				return nil, p
			}
		}
		if err != nil {
			return nil, syntaxAt(start, "%v", err)
		}
		tokens.Add(found...)
	}
}

// at is where a token begins.
func at(t *token.Token) Position {
	if t == nil || t.Position == nil {
		return start
	}
	return Position{max(t.Position.Line, 1), max(t.Position.Column, 1)}
}

// yamlConverter makes values of syntax.
type yamlConverter struct{ faults }

func (c *yamlConverter) fail(p *Problem) *Value {
	c.faults.fail(p)
	return &Value{At: p.At}
}

func (c *yamlConverter) value(n ast.Node, depth int) *Value {
	if c.fatal != nil {
		return &Value{}
	}
	if depth > MaxNesting {
		return c.fail(tooDeep(at(n.GetToken())))
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return c.mapping(n.Values, at(n.Start), n.IsFlowStyle, depth)
	case *ast.MappingValueNode:
		return c.mapping([]*ast.MappingValueNode{n}, at(n.Key.GetToken()), false, depth)
	case *ast.SequenceNode:
		v := &Value{Kind: List, At: at(n.Start)}
		for _, item := range n.Values {
			c.item(v, func() *Value { return c.value(item, depth+1) })
		}
		return v
	case *ast.LiteralNode:
		return &Value{Kind: Text, Text: n.Value.Value, At: at(n.Start)}
	case ast.ScalarNode:
		return c.scalar(n)
	}
	return c.fail(syntaxAt(at(n.GetToken()), "this part of YAML has no place in a document"))
}

func (c *yamlConverter) mapping(values []*ast.MappingValueNode, begin Position, flow bool, depth int) *Value {
	if !flow && len(values) > 0 {
		begin = at(values[0].Key.GetToken())
	}
	o := newObject(begin)
	for _, n := range values {
		key := c.key(n.Key)
		if c.fatal != nil {
			break
		}
		o.add(&c.faults, key.Text, key.At, func() *Value { return c.value(n.Value, depth+1) })
	}
	return o.Value
}

// key is a mapping key. JSON knows strings alone, so that 1: and true: must be
// quoted.
func (c *yamlConverter) key(n ast.MapKeyNode) *Value {
	scalar, ok := n.(ast.ScalarNode)
	if !ok {
		return c.fail(syntaxAt(at(n.GetToken()), "a key must be a string"))
	}
	key := c.scalar(scalar)
	if key.Kind != Text {
		return c.fail(syntaxAt(key.At, "a key must be a string; put it in quotes"))
	}
	return key
}

func (c *yamlConverter) scalar(n ast.ScalarNode) *Value {
	t := n.GetToken()
	switch t.Type {
	case token.SingleQuoteType, token.DoubleQuoteType:
		return &Value{Kind: Text, Text: t.Value, At: at(t)}
	case token.ImplicitNullType:
		return &Value{Kind: Null, At: at(t)}
	}
	v, ok := plainScalar(t.Value, at(t))
	if !ok {
		return c.fail(&Problem{Code: CodeNumberUnsafe, At: at(t), Path: strings.Join(c.path, "."), Message: Brief(t.Value) + " is not a number in JSON"})
	}
	return v
}
