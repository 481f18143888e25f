package tipstaff_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// scanners are the packages that look for the end of a quoted text or of brackets by
// themselves, and what they read. JSON is for package canon.
var scanners = map[string]string{
	"canon":             "JSON",
	"cli":               "lines that are continued by a backslash",
	"journal":           "envelopes of records, in the one form in which they are written",
	"pipeline":          "expressions in templates",
	"policy/sqlguard":   "SQL",
	"policy/shellguard": "words of a shell, of which the parser leaves the quotes where they were",
	"provider":          "strings of JSON whose escapes may be cut in two by the end of an event",
	"redact":            "credentials in texts, however they are escaped",
	"workspace":         "git's configuration",
}

// TestNoFurtherGrammarOfJSON: whoever compares characters with a quote, a backslash or
// a closing bracket reads a notation of its own. The first character of a JSON value may
// be looked at anywhere: it says of which type the value is.
func TestNoFurtherGrammarOfJSON(t *testing.T) {
	found := map[string]bool{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != "." || isTestPackage(name) || name == "test" || name == "python" || name == "node_modules") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".pb.go") {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(name))
		for _, at := range scans(file) {
			found[pkg] = true
			if scanners[pkg] == "" {
				t.Errorf("%v scans a text for its end: use package canon, or say in this test what it reads", fset.Position(at))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range scanners {
		if !found[pkg] {
			t.Errorf("package %s scans nothing any more: take it out of the list", pkg)
		}
	}
}

// scans are the places at which a file compares with a character that ends something.
func scans(file *ast.File) (places []token.Pos) {
	check := func(subject ast.Expr, with ...ast.Expr) {
		for _, e := range with {
			lit, ok := e.(*ast.BasicLit)
			if !ok || lit.Kind != token.CHAR || !slices.Contains([]string{`'"'`, `'\\'`, `'}'`, `']'`}, lit.Value) {
				continue
			}
			if lit.Value != `'"'` || !isFirst(subject) {
				places = append(places, lit.Pos())
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				check(n.X, n.Y)
			}
		case *ast.SwitchStmt:
			for _, c := range n.Body.List {
				if n.Tag != nil {
					check(n.Tag, c.(*ast.CaseClause).List...)
				}
			}
		}
		return true
	})
	return places
}

// isFirst reports whether an expression is the first element of something.
func isFirst(e ast.Expr) bool {
	index, ok := e.(*ast.IndexExpr)
	if !ok {
		return false
	}
	lit, ok := index.Index.(*ast.BasicLit)
	return ok && lit.Value == "0"
}

// The test finds what it is to find.
func TestScansAreFound(t *testing.T) {
	for text, want := range map[string]int{
		`func f(c byte) bool { return c == '"' }`:                                  1,
		`func f(s string) (n int) { for s[n] != '\\' { n++ }; return n }`:          1,
		`func f(c byte) { switch c { case '{', '[': f(1); case '}', ']': f(2) } }`: 2,
		`func f(raw []byte) bool { return raw[0] == '"' || raw[0] == '{' }`:        0,
		`func f(raw []byte) bool { return raw[len(raw)-1] == '"' }`:                1,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(scans(file)); got != want {
			t.Errorf("%s: %d places, want %d", text, got, want)
		}
	}
}
