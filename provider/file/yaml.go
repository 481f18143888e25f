package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/tipstaff/tipstaff"
)

// Codes of problems in tables and scripts.
const (
	problemSyntax = "syntax"
	problemLimit  = "limit"
	problemRange  = "range"
	problemRule   = "rule_invalid"
)

const maxDocument = 1 << 20

// document is a YAML document that was read, with what is wrong with it.
type document struct {
	name     string
	what     string // for the message
	file     *ast.File
	problems []tipstaff.Problem
}

// decode reads src into v. Unknown and repeated names are problems.
func (d *document) decode(src []byte, v any) {
	if len(src) > maxDocument {
		d.problems = append(d.problems, tipstaff.Problem{Code: problemLimit, File: d.name, Line: 1, Column: 1,
			Message: fmt.Sprintf("the document has %d bytes: %d are the most", len(src), maxDocument)})
		return
	}
	if err := d.read(src, v); err != nil {
		d.syntax(err)
	}
}

var errPlain = errors.New("anchors and aliases are not allowed: write the value out")

// read keeps a fault of the parser from ending the process: documents come from
// anywhere.
func (d *document) read(src []byte, v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the document cannot be read: %v", p)
		}
	}()
	if d.file, err = parser.ParseBytes(src, 0); err != nil {
		return err
	}
	if len(d.file.Docs) > 1 {
		return errors.New("one file holds one document")
	}
	for _, doc := range d.file.Docs {
		if found := (aliases{}); doc.Body != nil {
			if ast.Walk(&found, doc.Body); found.any {
				return errPlain
			}
		}
	}
	err = yaml.NewDecoder(bytes.NewReader(src), yaml.Strict()).Decode(v)
	if errors.Is(err, io.EOF) {
		return errors.New("the document is empty")
	}
	return err
}

// aliases looks for what makes a short document a long one.
type aliases struct{ any bool }

func (a *aliases) Visit(n ast.Node) ast.Visitor {
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.MergeKeyNode:
		a.any = true
	}
	return a
}

func (d *document) syntax(err error) {
	p := tipstaff.Problem{Code: problemSyntax, File: d.name, Line: 1, Column: 1, Message: err.Error()}
	var known yaml.Error
	if errors.As(err, &known) {
		p.Message = known.GetMessage()
		p.Line, p.Column = place(known.GetToken())
	}
	d.problems = append(d.problems, p)
}

func place(t *token.Token) (line, column int) {
	if t == nil || t.Position == nil {
		return 1, 1
	}
	return max(t.Position.Line, 1), max(t.Position.Column, 1)
}

// report adds a problem at a path like $.answers[1].when.user. What is missing is
// reported where it should be.
func (d *document) report(code, path, format string, args ...any) {
	p := tipstaff.Problem{Code: code, Path: path, File: d.name, Line: 1, Column: 1, Message: fmt.Sprintf(format, args...)}
	for cut := len(path); cut > 1; cut = strings.LastIndexAny(path[:cut], ".[") {
		if node := d.find(path[:cut]); node != nil {
			p.Line, p.Column = place(node.GetToken())
			break
		}
	}
	d.problems = append(d.problems, p)
}

func (d *document) find(path string) ast.Node {
	at, err := yaml.PathString(path)
	if err != nil {
		return nil
	}
	node, err := at.FilterFile(d.file)
	if err != nil {
		return nil
	}
	return node
}

// err is all problems at once; nil if there are none.
func (d *document) err() error {
	if len(d.problems) == 0 {
		return nil
	}
	first := d.problems[0]
	e := tipstaff.Errorf(tipstaff.InvalidArgument, "%s:%d:%d: %s", d.name, first.Line, first.Column, first.Message)
	if more := len(d.problems) - 1; more > 0 {
		e.Message += fmt.Sprintf(" (and %d more)", more)
	}
	e.Problems = d.problems
	return e.WithHint("correct %s", d.what)
}
