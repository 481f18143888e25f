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

// product calls look with every product file of the repository, but for those in folders that
// are left out.
func product(t *testing.T, look func(path string, f *ast.File), without ...string) {
	t.Helper()
	looked := 0
	must(t, filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if name == "testdata" || name != ".." && strings.HasPrefix(name, ".") || slices.Contains(without, name) || slices.Contains([]string{"test", "examples", "bench", "e2e", "python", "scripts", "bin"}, name) || strings.HasSuffix(name, "test") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		looked++
		look(path, parsed(t, path, nil))
		return nil
	}))
	if looked < 100 {
		t.Errorf("only %d files were looked at", looked)
	}
}

// Nothing that is linked into `tipstaff mcp` and `tipstaff exec` writes to standard output,
// but the command line.
func TestNobodyPrints(t *testing.T) {
	product(t, func(path string, f *ast.File) {
		// Three files are programs of their own, whose output is a protocol.
		own := slices.Contains([]string{"../mcpserver/stdio.go", "../cmd/tipstaff/worker_agent.go", "../cmd/tipstaff/worker_relay.go"}, path)
		if found := prints(f); len(found) > 0 && !own {
			t.Errorf("%s: %v", path, found)
		}
	}, "cli")
}

// handoffs are the places in a file that say what a handoff holds or offers: its actions by
// name, the members of its subject, and what follows from its trigger.
func handoffs(f *ast.File) (found []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if slices.Contains([]string{`"retry_feedback"`, `"continue_with_waiver"`}, n.Value) || strings.Contains(n.Value, `json:"max_rounds`) {
				found = append(found, n.Value)
			}
		case *ast.CompositeLit:
			if !named(n.Type, "HandoffSubject") {
				return true
			}
			for _, e := range n.Elts {
				kv, ok := e.(*ast.KeyValueExpr)
				if !ok {
					found = append(found, "members without names")
				} else if named(kv.Key, "DefaultAction") || named(kv.Key, "FeedbackRequired") {
					found = append(found, kv.Key.(*ast.Ident).Name)
				}
			}
		}
		return true
	})
	return found
}

// named reports whether an expression is a name, also of another package.
func named(e ast.Expr, name string) bool {
	if s, ok := e.(*ast.SelectorExpr); ok {
		e = s.Sel
	}
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// What a handoff holds and offers is said in one file.
func TestHandoffsAreOneFile(t *testing.T) {
	said := 0
	product(t, func(path string, f *ast.File) {
		found := handoffs(f)
		if path == "../handoff.go" {
			said = len(found)
		} else if len(found) > 0 {
			t.Errorf("%s says what a handoff holds: %v", path, found)
		}
	})
	if said == 0 {
		t.Error("handoff.go does not say it either")
	}
	for _, bad := range []string{
		`var with = []string{"retry_feedback"}`, `func f(a string) bool { return a == "continue_with_waiver" }`,
		"type s struct { Most int `json:\"max_rounds\"` }", `var s = tipstaff.HandoffSubject{Stage: "x", DefaultAction: "halt"}`,
		`var s = HandoffSubject{FeedbackRequired: nil}`, `var s = HandoffSubject{"x"}`,
	} {
		if found := handoffs(parsed(t, "bad.go", "package x; "+bad)); len(found) != 1 {
			t.Errorf("%s: found %v", bad, found)
		}
	}
	if found := handoffs(parsed(t, "good.go", `package x; var s = tipstaff.HandoffSubject{Stage: "x", Trigger: tipstaff.TriggerApproved}`)); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

// refCommands change refs. Some have other uses, and count where git is called alone.
var (
	plumbing    = []string{"update-ref", "symbolic-ref"}
	refCommands = []string{"branch", "tag", "commit", "push", "fetch", "pull", "reset", "checkout", "switch", "merge", "rebase", "-b", "-B"}
)

// refUpdates are the arguments in a file by which git changes a ref. callsGit says that the
// file's package calls it.
func refUpdates(f *ast.File, callsGit bool) (found []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		var given []ast.Expr
		switch n := n.(type) {
		case *ast.CallExpr:
			given = n.Args
		case *ast.CompositeLit:
			given = n.Elts
		}
		for _, e := range given {
			lit, ok := e.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				continue
			}
			if text, _ := strconv.Unquote(lit.Value); slices.Contains(plumbing, text) || callsGit && slices.Contains(refCommands, text) {
				found = append(found, text)
			}
		}
		return true
	})
	return found
}

// Refs are changed in one place, which knows which of them are ours.
func TestRefsChangeInOnePlace(t *testing.T) {
	var places []string
	product(t, func(path string, f *ast.File) {
		callsGit := slices.Contains([]string{"../delivery", "../process"}, filepath.Dir(path))
		for _, command := range refUpdates(f, callsGit) {
			places = append(places, path+" "+command)
		}
	})
	// Two are names of settings.
	if !slices.Equal(places, []string{"../delivery/guard.go merge", "../delivery/refs.go update-ref", "../delivery/repo.go fetch"}) {
		t.Errorf("refs change in %q", places)
	}
	for bad, callsGit := range map[string]bool{
		`func f() { r.own(ctx, nil, "update-ref", "refs/heads/main", id) }`: false,
		`var argv = []string{"git", "symbolic-ref", "HEAD"}`:                false,
		`func f() { r.own(ctx, nil, "branch", "x") }`:                       true,
		`func f() { r.own(ctx, nil, "worktree", "add", "-b", name, path) }`: true,
		"func f() { r.git(ctx, `commit`) }":                                 true,
	} {
		if found := refUpdates(parsed(t, "bad.go", "package x; "+bad), callsGit); len(found) != 1 {
			t.Errorf("%s: found %v", bad, found)
		}
	}
	if found := refUpdates(parsed(t, "good.go", `package x; func f() { s.field("branch", name) }`), false); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}
