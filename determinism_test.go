package tipstaff_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/test/cmdtest"
)

// deterministic names the packages whose code must take the same way in every
// replay: all effects, time, waiting and concurrency come from a flow.Context.
var deterministic = []string{"plan", "pipeline", "agent", "delivery", "worker"}

// hosts are the files of those packages that belong to whoever runs such code: no
// replay comes by them.
var hosts = []string{"agent/run.go", "agent/approver.go", "agent/log.go"}

// replayed are the only files of their packages that a replay comes by: the rest are
// activities.
var replayed = map[string][]string{"delivery": {"deliver.go"}, "worker": {"drive.go", "review.go", "given.go", "brief.go", "gate.go"}}

// isHost reports whether no replay comes by a file.
func isHost(file string) bool {
	pkg, name := filepath.Split(filepath.ToSlash(file))
	only, mixed := replayed[strings.TrimSuffix(pkg, "/")]
	return slices.Contains(hosts, filepath.ToSlash(file)) || mixed && !slices.Contains(only, name)
}

// worldly imports bring in what a replay could not repeat.
var worldly = []string{"os", "net", "syscall", "math/rand", "crypto/rand"}

// harmless ones lie below a worldly path and touch nothing.
var harmless = []string{"net/url", "net/netip"}

// clocks are what package time has that reads a clock or waits.
var clocks = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// source is a package to check: parsed, and typed as far as its imports allow.
type source struct {
	fset  *token.FileSet
	files []*ast.File
	info  *types.Info
}

// faults finds what deterministic code may not do.
func (s *source) faults() (faults []string) {
	report := func(n ast.Node, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s: %s", s.fset.Position(n.Pos()), fmt.Sprintf(format, args...)))
	}
	for _, file := range s.files {
		if isHost(s.fset.Position(file.Package).Filename) {
			continue
		}
		for _, spec := range file.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if isWorldly(name) {
				report(spec, "imports %s", name)
			}
		}
		var function ast.Node // the innermost declaration around n
		sorted := map[ast.Node]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				function = n
			case *ast.GoStmt:
				report(n, "starts a goroutine")
			case *ast.SelectStmt:
				report(n, "selects")
			case *ast.Ident:
				if o := s.info.Uses[n]; isFrom(o, "time") && slices.Contains(clocks, o.Name()) {
					report(n, "asks the clock: time.%s", o.Name())
				}
			case *ast.CallExpr:
				if s.ordersItsArgument(n) {
					sorted[n.Args[0]] = true
				}
				if s.walksMap(n) && !sorted[n] {
					report(n, "walks a map in no order: sort its keys")
				}
			case *ast.RangeStmt:
				if !s.isMap(n.X) {
					break
				}
				if why := s.decidesOrder(n.Body, n, function); why != "" {
					report(n, "ranges over a map and %s: sort its keys first", why)
				}
			}
			return true
		})
	}
	return faults
}

func isWorldly(imported string) bool {
	return !slices.Contains(harmless, imported) &&
		slices.ContainsFunc(worldly, func(prefix string) bool { return below(imported, prefix) })
}

func isFrom(o types.Object, pkg string) bool {
	return o != nil && o.Pkg() != nil && o.Pkg().Path() == pkg && o.Parent() == o.Pkg().Scope()
}

func (s *source) isMap(x ast.Expr) bool {
	t := s.info.TypeOf(x)
	if t == nil {
		return false
	}
	_, ok := t.Underlying().(*types.Map)
	return ok
}

// callee is the package-level function or builtin that is called.
func (s *source) callee(call *ast.CallExpr) types.Object {
	fun := ast.Unparen(call.Fun)
	if index, ok := fun.(*ast.IndexExpr); ok {
		fun = index.X
	}
	switch f := fun.(type) {
	case *ast.Ident:
		return s.info.Uses[f]
	case *ast.SelectorExpr:
		return s.info.Uses[f.Sel]
	}
	return nil
}

// walksMap: an iterator over a map gives its entries in no order.
func (s *source) walksMap(call *ast.CallExpr) bool {
	o := s.callee(call)
	return isFrom(o, "maps") && slices.Contains([]string{"All", "Keys", "Values"}, o.Name())
}

// ordersItsArgument: what is sorted, or becomes a map again, may come in any order.
func (s *source) ordersItsArgument(call *ast.CallExpr) bool {
	o := s.callee(call)
	return len(call.Args) > 0 && (isFrom(o, "slices") && strings.HasPrefix(o.Name(), "Sorted") ||
		isFrom(o, "maps") && o.Name() == "Collect")
}

// decidesOrder says what in the body of a loop over a map depends on the order in
// which it is walked; "" is nothing. It knows the few things that never do: filling
// a map, adding up whole numbers, collecting what is sorted afterwards, and
// returning the same constant whichever entry is met.
func (s *source) decidesOrder(n ast.Stmt, loop *ast.RangeStmt, function ast.Node) string {
	switch n := n.(type) {
	case *ast.BlockStmt:
		for _, stmt := range n.List {
			if why := s.decidesOrder(stmt, loop, function); why != "" {
				return why
			}
		}
		return ""
	case *ast.IfStmt:
		if n.Init != nil {
			if why := s.decidesOrder(n.Init, loop, function); why != "" {
				return why
			}
		}
		if n.Else != nil {
			if why := s.decidesOrder(n.Else, loop, function); why != "" {
				return why
			}
		}
		return s.decidesOrder(n.Body, loop, function)
	case *ast.BranchStmt:
		if n.Tok == token.CONTINUE {
			return ""
		}
	case *ast.IncDecStmt:
		if s.isWhole(n.X) {
			return ""
		}
	case *ast.ExprStmt:
		if call, ok := n.X.(*ast.CallExpr); ok && s.isBuiltin(call, "delete") {
			return ""
		}
	case *ast.ReturnStmt:
		if s.returnsConstants(n) {
			return ""
		}
		return "returns what it met first"
	case *ast.AssignStmt:
		return s.assignmentDecides(n, loop, function)
	}
	return fmt.Sprintf("does something at line %d that may depend on the order", s.fset.Position(n.Pos()).Line)
}

func (s *source) assignmentDecides(n *ast.AssignStmt, loop *ast.RangeStmt, function ast.Node) string {
	if n.Tok == token.DEFINE {
		return "" // of the loop's own
	}
	for i, left := range n.Lhs {
		switch {
		case isBlank(left), s.storesInMap(left), s.isWithin(left, loop):
		case (n.Tok == token.ADD_ASSIGN || n.Tok == token.OR_ASSIGN) && s.isWhole(left):
		case i < len(n.Rhs) && s.appendsTo(left, n.Rhs[i]):
			if !s.sortedAfter(left, loop, function) {
				return fmt.Sprintf("collects %s, which is not sorted afterwards", types.ExprString(left))
			}
		default:
			return "assigns to " + types.ExprString(left)
		}
	}
	return ""
}

func isBlank(x ast.Expr) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == "_"
}

func (s *source) storesInMap(x ast.Expr) bool {
	index, ok := x.(*ast.IndexExpr)
	return ok && s.isMap(index.X)
}

// isWithin reports whether x is a variable that the loop itself declares.
func (s *source) isWithin(x ast.Expr, loop *ast.RangeStmt) bool {
	id, ok := x.(*ast.Ident)
	if !ok {
		return false
	}
	o := s.info.Uses[id]
	return o != nil && loop.Pos() <= o.Pos() && o.Pos() < loop.End()
}

func (s *source) isWhole(x ast.Expr) bool {
	t := s.info.TypeOf(x)
	if t == nil {
		return false
	}
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsInteger != 0
}

func (s *source) isBuiltin(call *ast.CallExpr, name string) bool {
	b, ok := s.callee(call).(*types.Builtin)
	return ok && b.Name() == name
}

func (s *source) appendsTo(left, right ast.Expr) bool {
	call, ok := right.(*ast.CallExpr)
	return ok && s.isBuiltin(call, "append") && types.ExprString(call.Args[0]) == types.ExprString(left)
}

// sortedAfter reports whether the function sorts x once the loop is over.
func (s *source) sortedAfter(x ast.Expr, loop *ast.RangeStmt, function ast.Node) bool {
	found := false
	ast.Inspect(function, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || call.Pos() < loop.End() || len(call.Args) == 0 {
			return true
		}
		o := s.callee(call)
		sorts := isFrom(o, "sort") || isFrom(o, "slices") && strings.HasPrefix(o.Name(), "Sort")
		found = found || sorts && types.ExprString(call.Args[0]) == types.ExprString(x)
		return true
	})
	return found
}

func (s *source) returnsConstants(n *ast.ReturnStmt) bool {
	return !slices.ContainsFunc(n.Results, func(x ast.Expr) bool {
		tv := s.info.Types[x]
		return tv.Value == nil && !tv.IsNil()
	})
}

// check types the files.
func check(t *testing.T, fset *token.FileSet, files []*ast.File, imports types.Importer) *source {
	t.Helper()
	s := &source{fset, files, &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
	}}
	conf := types.Config{Importer: imports}
	if _, err := conf.Check("checked", fset, files, s.info); err != nil {
		t.Fatal(err)
	}
	return s
}

func importsOf(files []*ast.File) (imports []string) {
	for _, file := range files {
		for _, spec := range file.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			imports = append(imports, name)
		}
	}
	return imports
}

// compiled imports packages from the build cache.
func compiled(t *testing.T, imports ...string) types.Importer {
	t.Helper()
	var out, complaint bytes.Buffer
	flags, env := cmdtest.BuildFlags()
	args := append([]string{"list", "-export", "-deps", "-json=ImportPath,Export"}, flags...)
	list := exec.Command("go", append(append(args, "--"), imports...)...)
	list.Env = env
	list.Stdout, list.Stderr = &out, &complaint
	if err := list.Run(); err != nil {
		t.Fatalf("go list: %v\n%s", err, &complaint)
	}
	exports := map[string]string{}
	for dec := json.NewDecoder(&out); ; {
		var p struct{ ImportPath, Export string }
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) {
		if exports[name] == "" {
			return nil, fmt.Errorf("%s was not compiled", name)
		}
		return os.Open(exports[name])
	})
}

func TestDeterministicPackagesAskTheFlowForEverything(t *testing.T) {
	checked := 0
	for _, pkg := range deterministic {
		names, err := filepath.Glob(filepath.Join(pkg, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		fset := token.NewFileSet()
		var files []*ast.File
		for _, name := range names {
			here, err := build.Default.MatchFile(filepath.Split(name))
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "_test.go") || !here {
				continue
			}
			file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		if len(files) == 0 {
			continue // not written yet
		}
		checked++
		for _, fault := range check(t, fset, files, compiled(t, importsOf(files)...)).faults() {
			t.Error(fault)
		}
	}
	if checked == 0 {
		t.Errorf("none of %v was found", deterministic)
	}
}

func TestNondeterminismIsFound(t *testing.T) {
	const head = "package x\n\nimport (\n\t\"maps\"\n\t\"slices\"\n\t\"sort\"\n\tclock \"time\"\n)\n\n" +
		"var _, _, _, _ = maps.Keys[map[int]int], slices.Sort[[]int], sort.Ints, clock.Second\n\n" +
		"var m = map[string]int{}\n\nfunc f(ch chan int) any {\n"
	imports := compiled(t, "maps", "slices", "sort", "time")
	for _, c := range []struct {
		name, body, want string // "": nothing is wrong
	}{
		{"the clock", "return clock.Now()", "time.Now"},
		{"the clock as a value", "g := clock.Since; return g", "time.Since"},
		{"a sleep", "clock.Sleep(1); return nil", "time.Sleep"},
		{"a duration", "return clock.Second", ""},
		{"a parsed time", "t, _ := clock.Parse(clock.RFC3339, \"\"); return t.After(t)", ""},
		{"a goroutine", "go func() {}(); return nil", "goroutine"},
		{"a select", "select { case <-ch: default: }; return nil", "selects"},
		{"the first key", "for k := range m { return k }; return nil", "met first"},
		{"a search", "for k, v := range m { if k == \"a\" && v > 1 { return true } }; return false", ""},
		{"the last key", "var last string; for k := range m { last = k }; return last", "assigns to last"},
		{"a break", "n := 0; for range m { n++; break }; return n", "may depend"},
		{"a count", "n := 0; for _, v := range m { n += v }; return n", ""},
		{"a sum of floats", "n := 0.0; for _, v := range m { n += float64(v) }; return n", "assigns to n"},
		{"a text", "s := \"\"; for k := range m { s += k }; return s", "assigns to s"},
		{"a copy", "c := map[string]int{}; for k, v := range m { c[k] = v }; return c", ""},
		{"a deletion", "for k := range m { delete(m, k) }; return nil", ""},
		{"a call", "for k := range m { println(k) }; return nil", "may depend"},
		{"a list", "var l []string; for k := range m { l = append(l, k) }; return l", "not sorted"},
		{"a sorted list", "var l []string; for k := range m { l = append(l, k) }; sort.Strings(l); return l", ""},
		{"a list sorted before", "var l []string; sort.Strings(l); for k := range m { l = append(l, k) }; return l", "not sorted"},
		{"another list sorted", "var l, o []string; for k := range m { l = append(l, k) }; slices.Sort(o); return l", "not sorted"},
		{"a variable of the loop", "n := 0; for _, v := range m { w := v; w = w * 2; n += w }; return n", ""},
		{"a nested call", "for range m { if true { for range 3 { println() } } }; return nil", "may depend"},
		{"a slice in order", "for _, k := range []string{\"a\"} { println(k) }; return nil", ""},
		{"keys", "for k := range maps.Keys(m) { println(k) }; return nil", "no order"},
		{"collected keys", "return slices.Collect(maps.Keys(m))", "no order"},
		{"sorted keys", "for _, k := range slices.Sorted(maps.Keys(m)) { println(k) }; return nil", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, "x.go", head+c.body+"\n}\n", parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			faults := check(t, fset, []*ast.File{file}, imports).faults()
			if (c.want == "") != (len(faults) == 0) || !strings.Contains(strings.Join(faults, "\n"), c.want) {
				t.Errorf("faults %q, want %q", faults, c.want)
			}
		})
	}
	for imported, want := range map[string]bool{
		"os": true, "os/exec": true, "net": true, "net/http": true, "math/rand": true, "math/rand/v2": true,
		"crypto/rand": true, "net/url": false, "math": false, "osmosis": false, "crypto/sha256": false,
	} {
		if isWorldly(imported) != want {
			t.Errorf("%s is worldly: %v", imported, !want)
		}
	}
}

// What a call came to is decoded by flow.Do or flow.Decode alone: a value that cannot be read
// then interrupts the run, which goes on once the program is mended; an error of json.Unmarshal
// would end it for good, after the call was paid.
func TestResultsAreDecodedInOneWay(t *testing.T) {
	for _, dir := range append([]string{"runner"}, deterministic...) {
		for _, file := range sources(t, dir) {
			fset := token.NewFileSet()
			parsed, err := parser.ParseFile(fset, file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range decodesResults(parsed) {
				t.Errorf("%s decodes the result of a call: use flow.Do or flow.Decode", fset.Position(at))
			}
		}
	}
	const wrong = "package p; func f(fc C) { r, err := fc.Do(c); _ = json.Unmarshal(r.Value, &v) }"
	parsed, err := parser.ParseFile(token.NewFileSet(), "p.go", wrong, 0)
	if err != nil || len(decodesResults(parsed)) != 1 {
		t.Errorf("not found where it stands, %v", err)
	}
}

// sources are the files of a package but for its tests.
func sources(t *testing.T, dir string) (files []string) {
	all, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(all) == 0 {
		t.Fatalf("%s: %d files, %v", dir, len(all), err)
	}
	return slices.DeleteFunc(all, func(file string) bool { return strings.HasSuffix(file, "_test.go") })
}

// decodesResults finds, in each function, json.Unmarshal of the Value of what a Do has returned.
func decodesResults(file *ast.File) (at []token.Pos) {
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		results := map[string]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				if call, ok := n.Rhs[0].(*ast.CallExpr); ok && selected(call.Fun) == "Do" {
					if r, ok := n.Lhs[0].(*ast.Ident); ok {
						results[r.Name] = true
					}
				}
			case *ast.CallExpr:
				if selected(n.Fun) != "Unmarshal" || len(n.Args) == 0 || selected(n.Args[0]) != "Value" {
					break
				}
				if r, ok := n.Args[0].(*ast.SelectorExpr).X.(*ast.Ident); ok && results[r.Name] {
					at = append(at, n.Pos())
				}
			}
			return true
		})
	}
	return at
}

// selected is the last name of a.b.c; "": it is none.
func selected(x ast.Expr) string {
	if s, ok := x.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return ""
}
