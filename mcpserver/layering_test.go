package mcpserver

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// files are the product's files of this package, parsed.
func files(t *testing.T) map[string]*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	must(t, err)
	all := map[string]*ast.File{}
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			all[name] = parsed(t, name, nil)
		}
	}
	return all
}

func parsed(t *testing.T, name string, src any) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.SkipObjectResolution)
	must(t, err)
	return f
}

// handlerFaults are the tools in a file whose handler does more than one call into the root
// package; handlers is how many there are.
func handlerFaults(f *ast.File) (faults []string, handlers int) {
	ast.Inspect(f, func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if fun, isName := ifIdent(c, ok); !isName || fun != "newTool" || len(c.Args) != 6 {
			return true
		}
		handlers++
		if !isMethod(c.Args[4]) && !isOneCall(c.Args[4]) {
			name, _ := c.Args[0].(*ast.BasicLit)
			faults = append(faults, name.Value)
		}
		return false
	})
	for _, d := range f.Decls {
		if fun, ok := d.(*ast.FuncDecl); ok && fun.Name.Name != "tools" {
			faults = append(faults, "func "+fun.Name.Name)
		}
	}
	return faults, handlers
}

func ifIdent(c *ast.CallExpr, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	id, isName := c.Fun.(*ast.Ident)
	if !isName {
		return "", false
	}
	return id.Name, true
}

// isMethod reports whether an expression is tipstaff.Control.Method.
func isMethod(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, ok := s.X.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := of.X.(*ast.Ident)
	return ok && pkg.Name == "tipstaff" && of.Sel.Name == "Control"
}

// isOneCall reports whether a function returns what one method of its first parameter does.
func isOneCall(e ast.Expr) bool {
	f, ok := e.(*ast.FuncLit)
	if !ok || len(f.Body.List) != 1 {
		return false
	}
	r, ok := f.Body.List[0].(*ast.ReturnStmt)
	if !ok || len(r.Results) != 1 {
		return false
	}
	c, ok := r.Results[0].(*ast.CallExpr)
	if !ok {
		return false
	}
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, ok := s.X.(*ast.Ident)
	return ok && of.Name == f.Type.Params.List[0].Names[0].Name
}

func TestAToolIsOneCall(t *testing.T) {
	faults, handlers := handlerFaults(files(t)["tools.go"])
	if len(faults) > 0 || handlers != len(hinted) {
		t.Errorf("%d handlers; more than one call: %v", handlers, faults)
	}
	for _, bad := range []string{
		`func tools() { newTool("a", "", h, "", func(c Control, ctx C, in In) (Out, error) { in.Limit = 1; return c.Start(ctx, in) }, nil) }`,
		`func tools() { newTool("a", "", h, "", func(c Control, ctx C, in In) (Out, error) { return other(ctx, in) }, nil) }`,
		`func tools() { newTool("a", "", h, "", helper, nil) }`,
		`func tools() {}; func helper() {}`,
	} {
		if faults, _ := handlerFaults(parsed(t, "bad.go", "package x; "+bad)); len(faults) != 1 {
			t.Errorf("%s: found %v", bad, faults)
		}
	}
}

// foreign are imports that are not for this package: what starts processes, opens files or
// databases, and what is neither the standard library, the root package, nor the SDK and its
// schemas.
func foreign(name string, f *ast.File) (found []string) {
	for _, spec := range f.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		first, _, _ := strings.Cut(path, "/")
		switch {
		case path == "os" || path == "syscall":
			if !strings.HasPrefix(name, "stdio") {
				found = append(found, path)
			}
		case slices.Contains([]string{"os/exec", "database/sql", "io/ioutil", "path/filepath", "io/fs"}, path):
			found = append(found, path)
		case !strings.Contains(first, "."), path == "github.com/tipstaff/tipstaff", path == "github.com/google/jsonschema-go/jsonschema",
			strings.HasPrefix(path, "github.com/modelcontextprotocol/go-sdk/"):
		default:
			found = append(found, path)
		}
	}
	return found
}

// prints are uses of standard output.
func prints(f *ast.File) (found []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			pkg, _ := n.X.(*ast.Ident)
			if pkg != nil && (pkg.Name == "fmt" && strings.HasPrefix(n.Sel.Name, "Print") || pkg.Name == "os" && n.Sel.Name == "Stdout") {
				found = append(found, pkg.Name+"."+n.Sel.Name)
			}
		case *ast.CallExpr:
			if name, ok := ifIdent(n, true); ok && (name == "print" || name == "println") {
				found = append(found, name)
			}
		}
		return true
	})
	return found
}

// mapsErrors are the literals of what a tool answers as an error.
func mapsErrors(f *ast.File) (found int) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if id, ok := n.Type.(*ast.Ident); ok && (id.Name == "toolError" || id.Name == "errorReply") {
				found++
			}
		case *ast.KeyValueExpr:
			if id, ok := n.Key.(*ast.Ident); ok && id.Name == "IsError" {
				found++
			}
		}
		return true
	})
	return found
}

func TestThePackageTranslates(t *testing.T) {
	all := files(t)
	for name, f := range all {
		if found := foreign(name, f); len(found) > 0 {
			t.Errorf("%s imports %v", name, found)
		}
		if found := prints(f); len(found) > 0 {
			t.Errorf("%s writes to standard output: %v", name, found)
		}
		if n := mapsErrors(f); (n > 0) != (name == "errors.go") {
			t.Errorf("%s makes %d replies of errors", name, n)
		}
	}
	bad := parsed(t, "bad.go", `package x
import ("os"; "os/exec"; "database/sql"; "github.com/tipstaff/tipstaff/runner")
func f() { fmt.Println(); println(); os.Stdout.Write(nil); return &R{IsError: true}, toolError{} }`)
	if len(foreign("bad.go", bad)) != 4 || len(prints(bad)) != 3 || mapsErrors(bad) != 2 {
		t.Errorf("found %v, %v, %d", foreign("bad.go", bad), prints(bad), mapsErrors(bad))
	}
}

// Nothing that is linked into `tipstaff mcp` and `tipstaff exec` writes to standard output,
// but the command line.
func TestNobodyPrints(t *testing.T) {
	looked := 0
	must(t, filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name == "testdata" || name != ".." && strings.HasPrefix(name, ".") || slices.Contains([]string{"test", "examples", "bench", "cli", "e2e", "python", "scripts", "bin"}, name) || strings.HasSuffix(name, "test") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		looked++
		// Two files are programs of their own, whose output is a protocol.
		own := slices.Contains([]string{"../mcpserver/stdio.go", "../cmd/tipstaff/worker_agent.go", "../cmd/tipstaff/worker_relay.go"}, path)
		if found := prints(parsed(t, path, nil)); len(found) > 0 && !own {
			t.Errorf("%s: %v", path, found)
		}
		return nil
	}))
	if looked < 100 {
		t.Errorf("only %d files were looked at", looked)
	}
}
