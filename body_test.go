package tipstaff_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A reader of a record's body uses the body's type, so that every reader sees the same
// members: no struct of a function, and none that is private to a package.
func TestReadersOfBodiesUseTheirTypes(t *testing.T) {
	eachProductFile(t, func(path string, file *ast.File) {
		for _, fault := range privateBodies(file) {
			t.Errorf("%s: %s", path, fault)
		}
	})
}

// A writer uses it as well.
func TestWritersOfBodiesUseTheirTypes(t *testing.T) {
	eachProductFile(t, func(path string, file *ast.File) {
		for _, fault := range mapBodies(file) {
			t.Errorf("%s: %s", path, fault)
		}
	})
}

// mapBodies finds where a file gives a record a map, or an anonymous struct, for its body.
func mapBodies(file *ast.File) (faults []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		pair, ok := n.(*ast.KeyValueExpr)
		if !ok || lastName(pair.Key) != "Body" {
			return true
		}
		value := pair.Value
		if call, ok := value.(*ast.CallExpr); ok && lastName(call.Fun) == "JSON" && len(call.Args) == 1 {
			value = call.Args[0]
		}
		if literal, ok := value.(*ast.CompositeLit); ok {
			switch literal.Type.(type) {
			case *ast.MapType:
				faults = append(faults, "a body is written as a map")
			case *ast.StructType:
				faults = append(faults, "a body is written as an anonymous struct")
			}
		}
		return true
	})
	return faults
}

// eachProductFile parses the files that are no tests.
func eachProductFile(t *testing.T, f func(path string, file *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || name == "node_modules" || name == "examples" || strings.HasPrefix(name, ".") && name != "." || isTestPackage(name)):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		f(path, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// privateBodies finds where a file decodes the Body of something into a variable whose
// type is an anonymous struct, or one that is not exported.
func privateBodies(file *ast.File) (faults []string) {
	for _, decl := range file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		private := map[string]string{} // variables of the function
		note := func(names []*ast.Ident, typ ast.Expr) {
			for _, n := range names {
				private[n.Name] = privateType(typ)
			}
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				note(n.Names, n.Type)
			case *ast.Field:
				note(n.Names, n.Type)
			case *ast.CallExpr:
				faults = append(faults, privateTarget(n, private)...)
			}
			return true
		})
	}
	return faults
}

// privateTarget is what is wrong with a call that decodes a body.
func privateTarget(call *ast.CallExpr, private map[string]string) []string {
	if index, ok := call.Fun.(*ast.IndexExpr); ok && slices.Contains([]string{"BodyOf", "bodyOf"}, lastName(index.X)) {
		if typ := privateType(index.Index); typ != "" {
			return []string{"BodyOf reads a body as " + typ}
		}
	}
	if len(call.Args) != 2 || !slices.Contains([]string{"Unmarshal", "decode"}, lastName(call.Fun)) || !slices.Contains([]string{"Body", "body"}, lastName(call.Args[0])) {
		return nil
	}
	target := call.Args[1]
	if address, ok := target.(*ast.UnaryExpr); ok {
		target = address.X
	}
	if name, ok := target.(*ast.Ident); ok && private[name.Name] != "" {
		return []string{fmt.Sprintf("a body is decoded into %s, which is %s", name.Name, private[name.Name])}
	}
	return nil
}

func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// extended are the body types of intent.draft and run.correction_requested, with what
// only the runner knows of them.
var extended = []string{"draftBody", "correctionBody"}

// privateType names a struct of a function or of a package; "": it is neither.
func privateType(typ ast.Expr) string {
	switch typ := typ.(type) {
	case *ast.StructType:
		return "an anonymous struct"
	case *ast.StarExpr:
		return privateType(typ.X)
	case *ast.Ident:
		if !ast.IsExported(typ.Name) && typ.Name != "any" && !slices.Contains(extended, typ.Name) {
			return "a private " + typ.Name
		}
	}
	return ""
}

func TestPrivateBodiesAreFound(t *testing.T) {
	for code, faults := range map[string]int{
		`var b tipstaff.PlanStep; json.Unmarshal(e.Body, &b)`:        0,
		`b := tipstaff.BodyOf[tipstaff.PlanStep](e)`:                 0,
		`var b struct{ N int }; json.Unmarshal(subject, &b)`:         0,
		`var b struct{ N int }; json.Unmarshal(e.Body, &b)`:          1,
		`var b struct{ N int }; if decode(e.Body, &b) { return }`:    1,
		`var b stepBody; _ = json.Unmarshal(records[i].Body, &b)`:    1,
		`var b *stepBody; func() { json.Unmarshal(e.Body, b) }()`:    1,
		`b := tipstaff.BodyOf[stepBody](e)`:                          1,
		`use(tipstaff.BodyOf[struct{ Gate string }](&e).Gate)`:       1,
		`var b struct{ N int }; json.Unmarshal(body, &b)`:            1,
		`var b map[string]json.RawMessage; decode(e.Body, &b)`:       0,
		`var b []string; var c struct{}; json.Unmarshal(e.Body, &b)`: 0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() {\n"+code+"\n}", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := privateBodies(file); len(got) != faults {
			t.Errorf("%s: %v", code, got)
		}
	}
	for code, faults := range map[string]int{
		`flow.Draft{Kind: k, Body: flow.JSON(tipstaff.PlanStep{})}`:              0,
		`flow.Draft{Kind: k, Body: flow.JSON(b)}`:                                0,
		`flow.Draft{Kind: k, Body: flow.JSON(map[string]any{"n": 1})}`:           1,
		`fc.Emit(flow.Event{Kind: k, Body: map[string]any{"n": 1}})`:             1,
		`fc.Emit(flow.Event{Kind: k, Body: struct{ N int }{1}})`:                 1,
		`use(flow.Event{Kind: k, Body: JSON(struct{ N int ` + "`x`" + ` }{1})})`: 1,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nvar v = "+code, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := mapBodies(file); len(got) != faults {
			t.Errorf("%s: %v", code, got)
		}
	}
}
