package tipstaff_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// linked names the test binaries that may link the product, that is the engine with a store
// for its runs, each with the reason. Linking one takes as long as many tests, with the race
// detector above all; whoever only starts the command, or asks a server, needs none of it.
var linked = map[string]string{
	"cmd/tipstaff": "the command is made of everything, and its scripts are run by its own test binary",
	"cmd/bench":    "it measures the parts of the product one by one",
	"runner":       "runs are driven over the store that people have",
	"test/page":    "the page and the HTTP API with the daemon in process",
	"test/rpc":     "gRPC with the daemon in process",
}

// engine and stores are what makes a test binary one that links the product.
const engine = "runner"

var stores = []string{"sqlite", "postgres"}

// linksProduct reports whether a test binary that imports these packages of ours, by way of
// what imports says, has the engine and a store.
func linksProduct(of []string, imports map[string][]string) bool {
	seen := map[string]bool{}
	for len(of) > 0 {
		pkg := of[len(of)-1]
		if of = of[:len(of)-1]; seen[pkg] {
			continue
		}
		seen[pkg] = true
		of = append(of, imports[pkg]...)
	}
	return seen[engine] && slices.ContainsFunc(stores, func(s string) bool { return seen[s] })
}

// oursBy reads the imports of ours of all packages: what they are made of, and what their
// tests import beside that. Files with a build tag that no test run sets are left out.
func oursBy(t *testing.T) (made, tests map[string][]string) {
	t.Helper()
	made, tests = map[string][]string{}, map[string][]string{}
	for pkg, imports := range packagesOfModule(t) {
		for _, imported := range imports {
			if ours, ok := within(imported); ok {
				made[pkg] = append(made[pkg], ours)
			}
		}
	}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "testdata" || name != "." && strings.HasPrefix(name, ".") || isModule(file) && file != "." {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		if len(parsed.Comments) > 0 && strings.HasPrefix(parsed.Comments[0].List[0].Text, "//go:build postgres") {
			return nil
		}
		pkg := filepath.ToSlash(filepath.Dir(file))
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if ours, ok := within(imported); ok && !slices.Contains(tests[pkg], ours) {
				tests[pkg] = append(tests[pkg], ours)
			}
		}
		if tests[pkg] == nil {
			tests[pkg] = []string{}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return made, tests
}

// isModule reports whether a folder is a module of its own.
func isModule(dir string) bool {
	found, _ := filepath.Glob(filepath.Join(dir, "go.mod"))
	return len(found) > 0
}

func TestFewTestBinariesLinkTheProduct(t *testing.T) {
	made, tests := oursBy(t)
	for _, pkg := range slices.Sorted(maps.Keys(tests)) {
		switch links, listed := linksProduct(append([]string{pkg}, tests[pkg]...), made), linked[pkg] != ""; {
		case links && !listed:
			t.Errorf("the tests of %s link the product: start the command (test/cmdtest), play the interface that is needed, or put the test into one of %q", pkg, slices.Sorted(maps.Keys(linked)))
		case listed && !links:
			t.Errorf("the tests of %s no longer link the product: strike them from the list", pkg)
		}
	}
	for pkg := range linked {
		if tests[pkg] == nil {
			t.Errorf("%s has no tests", pkg)
		}
	}
}

func TestWhatLinksTheProductIsFound(t *testing.T) {
	made := map[string][]string{"runner": {"flow"}, "sqlite": {"store"}, "bed": {"runner", "sqlite"}, "wire": {"bed"}, "store": {"flow"}}
	for name, c := range map[string]struct {
		of   []string
		want bool
	}{
		"both":             {[]string{"runner", "sqlite"}, true},
		"through others":   {[]string{"wire"}, true},
		"the engine alone": {[]string{"runner"}, false},
		"a store alone":    {[]string{"sqlite"}, false},
		"neither":          {[]string{"store"}, false},
	} {
		if got := linksProduct(c.of, made); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
