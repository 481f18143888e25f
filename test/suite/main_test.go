package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// told reads a stream and returns what is printed of it.
func told(t *testing.T, text string) (string, *stream) {
	t.Helper()
	var out strings.Builder
	s := newStream(&out, 0)
	if err := s.read(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	printSkips(&out, s.skipped)
	return out.String(), s
}

func TestSkippedTestsAreToldWithTheirReason(t *testing.T) {
	got, s := told(t, `{"Action":"output","Package":"m/a","Test":"TestX","Output":"    x_test.go:3: no npm here\n"}
{"Action":"output","Package":"m/a","Test":"TestX","Output":"--- SKIP: TestX (0.00s)\n"}
{"Action":"skip","Package":"m/a","Test":"TestX"}
{"Action":"output","Package":"m/a","Test":"TestY","Output":"    x_test.go:9: chatter\n"}
{"Action":"pass","Package":"m/a","Test":"TestY/one"}
{"Action":"pass","Package":"m/a","Test":"TestY"}
{"Action":"output","Package":"m/a","Output":"PASS\n"}
{"Action":"output","Package":"m/a","Output":"ok  \tm/a\t0.1s\n"}
{"Action":"pass","Package":"m/a"}
{"Action":"skip","Package":"m/b"}
`)
	if want := "ok  \tm/a\t0.1s\nskipped: m/a.TestX: no npm here\n"; got != want {
		t.Errorf("it says\n%swant\n%s", got, want)
	}
	if s.broken || s.failed != 0 || s.packages != 1 || s.tests != 1 || s.skips != 1 {
		t.Errorf("broken %v, %d failed, %d packages, %d passed, %d skipped; want one package with one test passed and one skipped", s.broken, s.failed, s.packages, s.tests, s.skips)
	}
}

func TestFailuresAreToldInFull(t *testing.T) {
	for name, c := range map[string]struct {
		stream, want string
		fault        string
		broken       bool
	}{
		"a test": {`{"Action":"output","Package":"m/a","Test":"TestX","Output":"wrong\n"}
{"Action":"fail","Package":"m/a","Test":"TestX"}
{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t0.1s\n"}
{"Action":"fail","Package":"m/a"}`, "wrong\nFAIL\tm/a\t0.1s\n", "m/a.TestX", false},
		"a test that never ended": {`{"Action":"output","Package":"m/a","Test":"TestX","Output":"panic: no\n"}
{"Action":"output","Package":"m/a","Output":"FAIL\tm/a\t0.1s\n"}
{"Action":"fail","Package":"m/a"}`, "panic: no\nFAIL\tm/a\t0.1s\n", "m/a", true},
		"the build": {`{"ImportPath":"m/a","Action":"build-output","Output":"undefined: x\n"}
{"ImportPath":"m/a","Action":"build-fail"}`, "undefined: x\n", "", true},
	} {
		got, s := told(t, c.stream)
		if got != c.want || s.broken != c.broken || strings.Join(s.faults, " ") != c.fault {
			t.Errorf("%s: broken %v, faults %q, and it says\n%swant\n%s", name, s.broken, s.faults, got, c.want)
		}
	}
}

// The table and the last line count what the parts have counted, and a part that failed is named.
func TestTheTableAddsUp(t *testing.T) {
	var out strings.Builder
	s := &suite{out: &out, results: []result{
		{part: part{name: "race"}, packages: 2, tests: 10, skips: 1, took: 2 * time.Minute, processor: 3 * time.Minute, skipped: map[string][]string{"no npm": {"a.TestX"}}},
		{part: part{name: "plain"}, packages: 3, tests: 20, fails: 1, took: time.Minute, faults: []string{"b.TestY"}},
	}}
	s.table()
	for _, want := range []string{"all    5         30     1        1       3m0s  3m0s", "skipped: a.TestX: no npm\n", "failed: plain: b.TestY\n", "\ntests: 30 passed, 1 failed, 1 skipped\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in\n%s", want, out.String())
		}
	}
}

func TestPartsAreChosen(t *testing.T) {
	for words, want := range map[string]string{
		"test":       "race plain engine large",
		"large":      "large",
		"race kills": "race kills",
	} {
		chosen, err := choose(strings.Fields(words))
		var names []string
		for _, p := range chosen {
			names = append(names, p.name)
		}
		if got := strings.Join(names, " "); got != want || err != nil {
			t.Errorf("%s: %s, %v; want %s", words, got, err, want)
		}
	}
	for _, words := range []string{"", "tests", "race tests"} {
		if chosen, err := choose(strings.Fields(words)); err == nil {
			t.Errorf("%q chose %v", words, chosen)
		}
	}
}

// Whatever starts goroutines is tested under the race detector before a merge, or has a reason
// why it is not; and no package stands in either list for nothing.
func TestPackagesThatStartGoroutinesAreRaced(t *testing.T) {
	starts := map[string]bool{}
	err := filepath.WalkDir("../..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if base := d.Name(); base != "../.." && (strings.HasPrefix(base, ".") && base != ".." || base == "testdata" || base == "test" || base == "examples" || base == "bench") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		pkg, err := filepath.Rel("../..", filepath.Dir(name))
		pkg = filepath.ToSlash(pkg)
		if err != nil || strings.HasPrefix(pkg, "flow/") || strings.HasSuffix(pkg, "test") || pkg == "supervisor/reap" { // for tests; a program of its own, started by those of supervisor
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				starts[pkg] = true
			case *ast.SelectorExpr:
				if n.Sel.Name == "Go" {
					if of, ok := n.X.(*ast.SelectorExpr); ok && (of.Sel.Name == "wg" || of.Sel.Name == "group") {
						starts[pkg] = true
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range starts {
		if !slices.Contains(raced, "./"+pkg) && racedLater[pkg] == "" {
			t.Errorf("%s starts goroutines: test it under the race detector (raced in part.go), or say why that can wait (racedLater)", pkg)
		}
	}
	for pkg := range racedLater {
		if _, err := os.Stat(filepath.Join("../..", pkg)); err == nil && !starts[pkg] {
			t.Errorf("%s stands in racedLater and starts no goroutine", pkg)
		}
	}
}

// The files of runner whose tests start goroutines are raced before a merge.
func TestFilesThatStartGoroutinesAreRaced(t *testing.T) {
	files, err := filepath.Glob("../../runner/*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("runner has no tests: %v", err)
	}
	starts := regexp.MustCompile(`(?m)^\s+go func|WaitGroup|errgroup|\.Go\(func`)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), "_test.go")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if starts.Match(text) && !slices.Contains(racedFiles, name) {
			t.Errorf("runner/%s_test.go starts goroutines: add it to racedFiles in part.go", name)
		}
	}
	for _, name := range racedFiles {
		if !slices.Contains(files, "../../runner/"+name+"_test.go") {
			t.Errorf("racedFiles names %s, and runner has no such tests", name)
		}
	}
}

// Where the suite gives tests a folder in memory, the folders that testing makes are below it,
// for tests that hand them to another user look for them there.
func TestFoldersOfTestsAreWhereTheSuiteWantsThem(t *testing.T) {
	if !strings.HasPrefix(os.TempDir(), "/dev/shm/") {
		t.Skip("temporary files are not kept in memory")
	}
	if dir := t.TempDir(); !strings.HasPrefix(dir, os.TempDir()) {
		t.Errorf("testing makes folders in %s, although temporary files belong in %s", filepath.Dir(filepath.Dir(dir)), os.TempDir())
	}
}

// What is left out of runner under the race detector is left out of no other package.
func TestOnlyTestsOfRunnerAreLeftOut(t *testing.T) {
	names, err := unselected("../..", racedFiles)
	if err != nil || len(names) == 0 {
		t.Fatalf("%v: %v", names, err)
	}
	for _, pkg := range raced {
		if pkg == "./runner" {
			continue
		}
		files, _ := filepath.Glob(filepath.Join("../..", pkg, "*_test.go"))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range declared.FindAllSubmatch(text, -1) {
				if slices.Contains(names, string(m[1])) {
					t.Errorf("%s is also in %s, and would not be run: give one another name", m[1], file)
				}
			}
		}
	}
}
