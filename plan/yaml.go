package plan

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
func readYAML(src string) (v *value, p *problem) {
	defer func() {
		if fault := recover(); fault != nil {
			v, p = nil, syntaxAt(position{1, 1}, "the document cannot be read as YAML: %v", fault)
		}
	}()
	if p := guardText(src); p != nil {
		return nil, p
	}
	tokens, p := scan(src)
	if p != nil {
		return nil, p
	}
	file, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, yamlProblem(err)
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, syntaxAt(position{1, 1}, "the document is empty")
	}
	c := &yamlConverter{}
	v = c.value(file.Docs[0].Body, 0)
	return v, c.problem
}

// Guards of the text: what the scanner would spend quadratic time on.
const (
	maxBlankLines = 100     // in a row
	maxTabCost    = 5 << 20 // tabs × length, summed over lines with a double quote
)

func guardText(src string) *problem {
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
			return syntaxAt(position{line, 1}, "a tab cannot indent; use spaces")
		case i >= 0:
			return syntaxAt(position{line, utf8.RuneCountInString(text[:i]) + 1}, "a carriage return does not end a line; use line feeds")
		case blank > maxBlankLines, tabCost > maxTabCost:
			return &problem{code: codeLimit, at: position{line, 1},
				message: "too many blank lines or tabs here to read as YAML; write the document as JSON"}
		}
	}
	return nil
}

// scan is the scanner's tokens, as long as the guard has nothing against them.
func scan(src string) (token.Tokens, *problem) {
	var s scanner.Scanner
	s.Init(src)
	var tokens token.Tokens
	g := &tokenGuard{}
	for {
		found, err := s.Scan()
		if err == io.EOF {
			return tokens, g.end()
		}
		for _, t := range found {
			if p := g.check(t); p != nil {
				return nil, p
			}
		}
		if err != nil {
			return nil, syntaxAt(position{1, 1}, "%v", err)
		}
		tokens.Add(found...)
	}
}

func at(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{max(t.Position.Line, 1), max(t.Position.Column, 1)}
}

func tooDeep(at position) *problem {
	return &problem{code: codeLimit, at: at, message: "values are nested too deeply here"}
}

// yamlProblem keeps what the parser says and where; its own text repeats the
// source.
func yamlProblem(err error) *problem {
	var e yaml.Error
	if errors.As(err, &e) {
		return syntaxAt(at(e.GetToken()), "%s", e.GetMessage())
	}
	return syntaxAt(position{1, 1}, "%v", err)
}

// yamlConverter makes values of syntax. It stops at the first problem.
type yamlConverter struct{ problem *problem }

func (c *yamlConverter) fail(p *problem) *value {
	if c.problem == nil {
		c.problem = p
	}
	return &value{at: p.at}
}

func (c *yamlConverter) value(n ast.Node, depth int) *value {
	if c.problem != nil {
		return &value{}
	}
	if depth > maxNesting {
		return c.fail(tooDeep(at(n.GetToken())))
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return c.mapping(n.Values, at(n.Start), n.IsFlowStyle, depth)
	case *ast.MappingValueNode:
		return c.mapping([]*ast.MappingValueNode{n}, at(n.Key.GetToken()), false, depth)
	case *ast.SequenceNode:
		v := &value{kind: list, at: at(n.Start)}
		for _, item := range n.Values {
			v.items = append(v.items, c.value(item, depth+1))
		}
		return v
	case *ast.LiteralNode:
		return &value{kind: text, text: n.Value.Value, at: at(n.Start)}
	case ast.ScalarNode:
		return c.scalar(n)
	}
	return c.fail(syntaxAt(at(n.GetToken()), "this part of YAML has no place in a plan"))
}

func (c *yamlConverter) mapping(values []*ast.MappingValueNode, start position, flow bool, depth int) *value {
	v := &value{kind: object, at: start}
	if !flow && len(values) > 0 {
		v.at = at(values[0].Key.GetToken())
	}
	seen := map[string]position{}
	for _, m := range values {
		key := c.key(m.Key)
		if c.problem != nil {
			return v
		}
		if first, ok := seen[key.text]; ok {
			return c.fail(duplicate(key.text, key.at, first))
		}
		seen[key.text] = key.at
		v.members = append(v.members, member{key.text, key.at, c.value(m.Value, depth+1)})
	}
	return v
}

// key is a mapping key. JSON knows strings alone, so that 1: and true: must be
// quoted.
func (c *yamlConverter) key(n ast.MapKeyNode) *value {
	scalar, ok := n.(ast.ScalarNode)
	if !ok {
		return c.fail(syntaxAt(at(n.GetToken()), "a key must be a string"))
	}
	key := c.scalar(scalar)
	if key.kind != text {
		return c.fail(syntaxAt(key.at, "a key must be a string; put it in quotes"))
	}
	return key
}

func (c *yamlConverter) scalar(n ast.ScalarNode) *value {
	t := n.GetToken()
	switch t.Type {
	case token.SingleQuoteType, token.DoubleQuoteType:
		return &value{kind: text, text: t.Value, at: at(t)}
	case token.ImplicitNullType:
		return &value{kind: null, at: at(t)}
	}
	v, ok := plainScalar(t.Value, at(t))
	if !ok {
		return c.fail(&problem{code: codeNumberUnsafe, at: at(t), message: brief(t.Value) + " is no number in JSON"})
	}
	return v
}
