package tool

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/tipstaff/tipstaff"
)

// Codes of problems in a manifest.
const (
	ProblemSyntax     = "syntax"
	ProblemField      = "field_unknown"
	ProblemMissing    = "field_missing"
	ProblemDuplicate  = "field_duplicate"
	ProblemType       = "type"
	ProblemRange      = "range"
	ProblemRule       = "rule_invalid"
	ProblemTool       = "unknown_tool"
	ProblemCredential = "literal_credential"
	ProblemLimit      = "limit"
)

const (
	maxDocument = 1 << 20
	maxNesting  = 32
)

// reader turns a YAML tree into values and collects what is wrong, each with its
// place. It never stops at the first problem.
type reader struct {
	file     string
	problems []tipstaff.Problem
}

// at is a node together with its path in the document.
type at struct {
	node ast.Node
	path string
}

func (r *reader) report(code string, where at, format string, args ...any) {
	p := tipstaff.Problem{Code: code, Path: conceal(where.path), File: r.file, Message: conceal(fmt.Sprintf(format, args...))}
	if where.node != nil {
		p.Line, p.Column = place(firstToken(where.node))
	}
	r.problems = append(r.problems, p)
}

// firstToken is where a node begins. Of a mapping in block style the parser gives
// the first colon, which is not where a person looks.
func firstToken(n ast.Node) *token.Token {
	switch n := n.(type) {
	case *ast.MappingValueNode:
		return firstToken(n.Key)
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return firstToken(n.Values[0].Key)
		}
	}
	return n.GetToken()
}

func place(t *token.Token) (line, column int) {
	if t == nil || t.Position == nil {
		return 1, 1
	}
	return max(t.Position.Line, 1), max(t.Position.Column, 1)
}

// document parses src to its one root node; nil after a problem, or for an empty
// document.
func (r *reader) document(src []byte) (root at, ok bool) {
	if len(src) > maxDocument {
		r.report(ProblemLimit, at{}, "the document has %d bytes: %d are the most", len(src), maxDocument)
		return at{}, false
	}
	file, err := parseYAML(src)
	if err != nil {
		r.syntax(err)
		return at{}, false
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc != nil && doc.Body != nil {
			bodies = append(bodies, doc.Body)
		}
	}
	if len(bodies) > 1 {
		r.report(ProblemSyntax, at{node: bodies[1]}, "one file holds one document")
		return at{}, false
	}
	if len(bodies) == 0 {
		return at{}, true
	}
	root = at{node: bodies[0]}
	return root, r.plain(root, 0)
}

// parseYAML keeps a fault of the parser from ending the process: documents come
// from anywhere.
func parseYAML(src []byte) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the document cannot be parsed: %v", p)
		}
	}()
	return parser.ParseBytes(src, 0, parser.AllowDuplicateMapKey())
}

func (r *reader) syntax(err error) {
	p := tipstaff.Problem{Code: ProblemSyntax, File: r.file, Line: 1, Column: 1, Message: err.Error()}
	var known yaml.Error
	if errors.As(err, &known) {
		p.Message = known.GetMessage()
		p.Line, p.Column = place(known.GetToken())
	}
	r.problems = append(r.problems, p)
}

// plain refuses what makes a document mean something else than it says: anchors,
// aliases, merge keys and tags; and nesting without end.
func (r *reader) plain(n at, depth int) bool {
	if depth > maxNesting {
		r.report(ProblemLimit, n, "nested deeper than %d levels", maxNesting)
		return false
	}
	switch node := n.node.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		r.report(ProblemSyntax, n, "anchors, aliases and merge keys are not allowed: write the value out")
		return false
	case *ast.TagNode:
		r.report(ProblemSyntax, n, "tags are not allowed")
		return false
	case *ast.MappingNode:
		ok := true
		for _, v := range node.Values {
			ok = r.plainEntry(n, v, depth) && ok
		}
		return ok
	case *ast.MappingValueNode:
		return r.plainEntry(n, node, depth)
	case *ast.SequenceNode:
		ok := true
		for i, v := range node.Values {
			ok = r.plain(at{v, join(n.path, strconv.Itoa(i))}, depth+1) && ok
		}
		return ok
	}
	return true
}

func (r *reader) plainEntry(parent at, v *ast.MappingValueNode, depth int) bool {
	key := at{v.Key, parent.path}
	if _, ok := keyText(v.Key); !ok {
		r.report(ProblemSyntax, key, "a name must be plain text")
		return false
	}
	name, _ := keyText(v.Key)
	return r.plain(at{v.Value, join(parent.path, name)}, depth+1)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// keyText is a mapping key as text. Keys like 1 or true are taken as written.
func keyText(key ast.MapKeyNode) (string, bool) {
	switch k := key.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		if t := k.GetToken(); t != nil {
			return t.Value, true
		}
	}
	return "", false
}

// entry is one member of a mapping.
type entry struct {
	name       string
	key, value at
}

// entries are the members of a mapping in document order; a name that stands
// twice is a problem and counts once.
func (r *reader) entries(n at) ([]entry, bool) {
	var values []*ast.MappingValueNode
	switch node := n.node.(type) {
	case *ast.MappingNode:
		values = node.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{node}
	default:
		r.report(ProblemType, n, "%s must be a mapping, not %s", subject(n.path), describe(n.node))
		return nil, false
	}
	var list []entry
	seen := map[string]bool{}
	for _, v := range values {
		name, _ := keyText(v.Key)
		path := join(n.path, name)
		e := entry{name, at{v.Key, path}, at{v.Value, path}}
		if seen[name] {
			r.report(ProblemDuplicate, e.key, "%q stands twice", name)
			continue
		}
		seen[name] = true
		list = append(list, e)
	}
	return list, true
}

// fields says what may stand in a mapping: how each name is read.
type fields map[string]func(at)

// object reads a mapping whose names are known. later are names that other
// versions of Tipstaff know.
func (r *reader) object(n at, known fields, later ...string) {
	list, _ := r.entries(n)
	for _, e := range list {
		switch read, ok := known[e.name]; {
		case ok:
			read(e.value)
		case slices.Contains(later, e.name):
			r.report(ProblemField, e.key, "%s: this version of Tipstaff does not support the field %q yet: remove it", subject(n.path), e.name)
		default:
			r.report(ProblemField, e.key, "%s has no field %q%s", subject(n.path), e.name, suggest(e.name, names(known)))
		}
	}
}

func names(known fields) []string {
	list := make([]string, 0, len(known))
	for name := range known {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func (r *reader) list(n at, each func(int, at)) {
	seq, ok := n.node.(*ast.SequenceNode)
	if !ok {
		r.report(ProblemType, n, "%s must be a list, not %s", subject(n.path), describe(n.node))
		return
	}
	for i, v := range seq.Values {
		each(i, at{v, join(n.path, strconv.Itoa(i))})
	}
}

func (r *reader) text(n at) (string, bool) {
	switch node := n.node.(type) {
	case *ast.StringNode:
		return node.Value, true
	case *ast.LiteralNode:
		return node.Value.Value, true
	}
	r.report(ProblemType, n, "%s must be text, not %s: put it in quotes", subject(n.path), describe(n.node))
	return "", false
}

func (r *reader) boolean(n at) bool {
	if node, ok := n.node.(*ast.BoolNode); ok {
		return node.Value
	}
	r.report(ProblemType, n, "%s must be true or false, not %s", subject(n.path), describe(n.node))
	return false
}

// integer reads a whole number between least and most.
func (r *reader) integer(n at, least, most int64) int64 {
	node, ok := n.node.(*ast.IntegerNode)
	if !ok {
		r.report(ProblemType, n, "%s must be a whole number, not %s", subject(n.path), describe(n.node))
		return 0
	}
	v, err := strconv.ParseInt(node.Token.Value, 10, 64)
	if err != nil || v < least || v > most {
		r.report(ProblemRange, n, "%s is %s: %d to %d is possible", subject(n.path), node.Token.Value, least, most)
		return 0
	}
	return v
}

func subject(path string) string {
	if path == "" {
		return "the document"
	}
	return path
}

func describe(n ast.Node) string {
	switch n.(type) {
	case nil, *ast.NullNode:
		return "empty"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode, *ast.LiteralNode:
		return "text"
	case *ast.BoolNode:
		return "true or false"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	}
	return "something else"
}

// suggest is advice for a name that is unknown: the nearest known one, if it is
// near, else all of them if they are few.
func suggest(name string, known []string) string {
	best, distance := "", 3
	for _, k := range known {
		if d := editDistance(strings.ToLower(name), k); d < distance && d < max(len(k), 2) {
			best, distance = k, d
		}
	}
	switch {
	case best != "":
		return fmt.Sprintf(": did you mean %q?", best)
	case len(known) > 0 && len(known) <= 12:
		return ": it has " + strings.Join(known, ", ")
	}
	return ""
}

// editDistance counts the single-character changes between two short names.
func editDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
