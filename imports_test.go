package tipstaff_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/tipstaff/tipstaff"

// levels order the packages; imports go downward only. Packages of one level do
// not know each other. "." is the root package.
var levels = map[string]int{
	"canon": -1, // which even the journal stands on
	".":     0, "flow": 0, "journal": 0, "document": 0, "docs/prompts": 0, "redact": 0, "filestamp": 0,
	"tool": 1, "tool/builtin": 1, "workspace": 1, "supervisor": 1, "worker": 1, "skill": 1, "policy": 1, "policy/sqlguard": 1, "policy/shellguard": 1, "cortex": 1, "delivery": 1, "pb": 1,
	"plan": 2, "pipeline": 2, "agent": 2, "store": 2, "store/files": 2, "store/bucket": 2, "process": 2,
	"trust": 3, "runner": 3, "telemetry": 3, "sqlite": 3, "temporal": 3, "postgres": 3, "provider": 3,
	"cli": 4, "rpc": 4, "web": 4, "web/page": 4, "mcpserver": 4, "e2e": 4, "test/cmdtest": 4,
	"cmd/tipstaff": 5, "cmd/bench": 5, "test/mcp": 5, "test/clis": 5, "test/grpc": 5, "test/control": 5, "test/scale": 5, "test/mutate": 5, "test/suite": 5, "test/licenses": 5, "test/webtest": 5, "test/pgtest": 5, "examples/fileserver": 5, "test/golden/client": 5, "test/plant": 5,
}

// only narrows what a package may import of ours, beyond what its level says.
var only = map[string][]string{
	// Deterministic code is handed a function that performs one step; it never
	// sees who performs it.
	"plan":     {".", "canon", "flow", "journal", "document", "policy"},
	"pipeline": {".", "canon", "flow", "journal", "document", "policy"},
	"agent":    {".", "canon", "flow", "journal", "policy", "tool", "workspace", "docs/prompts"}, // its calls pass the gate of package tool
	// Adapters translate the Service and hold no logic.
	"cli":       {"."},
	"web":       {".", "canon"},
	"web/page":  {"."},
	"mcpserver": {"."},
	"rpc":       {".", "canon", "pb"},
	// It tries the product through its interfaces, and computes what it expects itself.
	"e2e": {".", "canon", "journal"},
}

// also widens it: the few neighbours that know each other.
var also = map[string][]string{
	"workspace":         {"policy", "policy/sqlguard", "policy/shellguard", "tool/builtin", "worker"}, // which guards, servers, tools and roles are inside the binary
	"tool":              {"policy", "workspace", "tool/builtin", "supervisor"},
	"tool/builtin":      {"policy", "supervisor"}, // it starts programs
	"policy/sqlguard":   {"policy"},
	"policy/shellguard": {"policy"},
	"store/bucket":      {"store/files"},     // objects may be files, written whole
	"store/files":       {"store"},           // the keys that it reads are a ring of the store
	"document":          {"."},               // its problems are those that surfaces show
	".":                 {"flow", "journal"}, // types travel: one gate, one ledger, one type for each body
}

// reserved names the packages that may import something from outside. Nobody
// else may.
var reserved = map[string][]string{
	"database/sql":                           {"sqlite", "postgres", "cmd/bench"}, // the bench measures the bare thing beside ours
	"modernc.org/sqlite":                     {"sqlite", "cmd/bench"},
	"github.com/jackc/pgx":                   {"postgres"},
	"github.com/minio":                       {"store/bucket"},
	"go.temporal.io":                         {"temporal"},
	"os/exec":                                {"supervisor", "cmd/tipstaff", "tool/builtin", "tool/tooltest", "cmd/bench", "test/cmdtest", "test/clis/cursor", "test/mutate", "test/suite", "test/licenses", "test/plant"}, // the built-in tools and the command look programs up, and start none (see below)
	"net/http":                               {"tool/builtin", "tool", "provider", "telemetry", "store/bucket", "web", "web/page", "mcpserver", "e2e", "cmd/tipstaff", "cmd/bench", "test/clis/api", "test/webtest"},       // the bench also plays the vendor of a model
	"google.golang.org/grpc":                 {"rpc", "pb", "temporal", "cmd/bench", "test/golden/client"},                                                                                                                 // whose SDK is configured with it
	"go.opentelemetry.io/otel":               {"telemetry", "tool", "cmd/tipstaff"},
	"go.opentelemetry.io/otel/sdk":           {"telemetry"},
	"go.opentelemetry.io/otel/exporters":     {"telemetry"},
	"github.com/prometheus/client_golang":    {"telemetry"},
	"github.com/modelcontextprotocol/go-sdk": {"tool", "worker", "mcpserver", "e2e", "cmd/tipstaff", "cmd/bench", "test/clis/cursor", "examples/fileserver"},
	"github.com/spf13/cobra":                 {"cli", "cmd/tipstaff"},
	"charm.land":                             {"cli"},
	"github.com/charmbracelet":               {"cli"},
	"github.com/go-json-experiment/json":     {"canon", "pb"},
	"github.com/sqlc-dev":                    {"policy/sqlguard"},
	"mvdan.cc/sh":                            {"policy/shellguard"},
	"github.com/yuin/goldmark":               {"web/page"}, // Markdown of models becomes HTML there, and nowhere else
	"github.com/anthropics":                  {},           // the vendors' SDKs are for test/referee, a module of its own:
	"github.com/openai":                      {},           // they take minutes to compile
	"google.golang.org/genai":                {},
	"math/rand":                              {"flow", "store/storetest"}, // the jitter of retries; histories at random
	"unsafe":                                 {"pb"},                      // what is generated reads its descriptor from a text
	"C":                                      {},
}

// pure names the packages that perform no I/O, whatever they import.
var pure = []string{".", "canon", "flow", "document", "redact", "policy", "policy/sqlguard", "policy/shellguard", "cortex"}

var impure = []string{"os", "net", "os/exec", "os/signal", "net/http", "syscall", "log", "log/slog"}

// importFaults says what is wrong with the imports of one package, given by its
// path within the module.
func importFaults(pkg string, imports []string) (faults []string) {
	home, ok := listed(pkg)
	if !ok {
		return []string{pkg + " is in no list: give it a level"}
	}
	fault := func(format string, args ...any) {
		faults = append(faults, pkg+" "+fmt.Sprintf(format, args...))
	}
	for _, imported := range imports {
		if ours, ok := within(imported); ok {
			if why := refused(pkg, home, ours); why != "" {
				fault("imports %s: %s", ours, why)
			}
			continue
		}
		for prefix, allowed := range reserved {
			if below(imported, prefix) && !slices.Contains(allowed, home) && !slices.Contains(allowed, pkg) {
				fault("imports %s, which is for %v alone", imported, allowed)
			}
		}
		if slices.Contains(pure, home) && slices.Contains(impure, imported) && !isTestPackage(pkg) {
			fault("imports %s and is to perform no I/O", imported)
		}
		if imported == "testing" && !isTestPackage(pkg) {
			fault("imports testing outside of tests")
		}
	}
	return faults
}

// refused says why a package may not import another of ours; "" is that it may.
func refused(pkg, home, imported string) string {
	target, ok := listed(imported)
	switch {
	case !ok:
		return "it is in no list"
	case isTestPackage(imported) && !isTestPackage(pkg):
		return "it is for tests"
	case target == home, slices.Contains(also[home], target):
		return ""
	case levels[target] >= levels[home]:
		return fmt.Sprintf("level %d must not know level %d", levels[home], levels[target])
	case only[home] != nil && !slices.Contains(only[home], target):
		return fmt.Sprintf("it may see %v alone", only[home])
	}
	return ""
}

// listed is the package of the list that pkg is, or lies below.
func listed(pkg string) (home string, ok bool) {
	for home = pkg; home != "."; home = path.Dir(home) {
		if _, ok := levels[home]; ok {
			return home, true
		}
	}
	return ".", pkg == "."
}

// isTestPackage goes by the name, as in flow/flowtest.
func isTestPackage(pkg string) bool { return strings.HasSuffix(pkg, "test") }

// within is the path of an import inside the module.
func within(imported string) (pkg string, ok bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

func below(imported, prefix string) bool {
	return imported == prefix || strings.HasPrefix(imported, prefix+"/")
}

// packagesOfModule gives, by package, what its files other than tests import, on
// any system.
func packagesOfModule(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "testdata" || name != "." && strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		pkg := filepath.ToSlash(filepath.Dir(file))
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		if found[pkg] == nil {
			found[pkg] = []string{}
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if !slices.Contains(found[pkg], imported) {
				found[pkg] = append(found[pkg], imported)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestImportsGoDownward(t *testing.T) {
	found := packagesOfModule(t)
	ours := 0
	for _, pkg := range slices.Sorted(maps.Keys(found)) {
		for _, fault := range importFaults(pkg, found[pkg]) {
			t.Error(fault)
		}
		for _, imported := range found[pkg] {
			if _, ok := within(imported); ok {
				ours++
			}
		}
	}
	if ours == 0 {
		t.Errorf("no import among %d packages was checked", len(found))
	}
}

func TestImportFaultsAreFound(t *testing.T) {
	for _, c := range []struct {
		pkg, imported string
		bad           bool
	}{
		{".", module + "/flow", false},
		{".", module + "/document", true},
		{"flow", module, true},
		{"journal", module, true},
		{"document", module, false},
		{"document", module + "/flow", true},
		{"document", "os", true},
		{"flow", module + "/document", true},
		{"plan", module + "/document", false},
		{"flow", "os", true},
		{"flow", "math/rand/v2", false},
		{".", "net", true},
		{"policy", module + "/flow", false},
		{"policy", module + "/tool", true},
		{"cortex", module + "/journal", false},
		{"cortex", module + "/policy", true},
		{"cortex", "os", true},
		{"pb", module + "/flow", false},
		{"pb", module + "/pipeline", true},
		{"pb", "google.golang.org/grpc/codes", false},
		{"runner", "google.golang.org/grpc", true},
		{"tool", module + "/policy", false},
		{"tool", module + "/supervisor", false},
		{"supervisor", module + "/tool", true},
		{"tool", module + "/tool/builtin", false},
		{"tool", module + "/workspace", false},
		{"workspace", module + "/tool", true},
		{"workspace", module + "/tool/builtin", false},
		{"workspace", "os/exec", true},
		{"tool/builtin", module + "/workspace", true},
		{"tool/builtin", module + "/policy", false},
		{"tool/builtin", module + "/plan", true},
		{"tool/builtin", "os/exec", false},
		{"tool", "os/exec", true},
		{"tool/builtin", "github.com/modelcontextprotocol/go-sdk/mcp", true},
		{"plan", module + "/policy", false},
		{"plan", module + "/tool", true},
		{"plan", module + "/agent", true},
		{"plan", "math/rand/v2", true},
		{"runner", module + "/plan", false},
		{"runner", module + "/sqlite", true},
		{"runner", "os/exec", true},
		{"runner", "database/sql", true},
		{"runner", module + "/flow/flowtest", true},
		{"runner", "testing", true},
		{"flow/flowtest", "testing", false},
		{"flow/flowtest", module + "/flow", false},
		{"sqlite", module + "/journal", false},
		{"sqlite", module + "/runner", true},
		{"sqlite", "database/sql/driver", false},
		{"supervisor", module + "/flow", false},
		{"cli", module, false},
		{"cli", module + "/runner", true},
		{"web/page", module, false},
		{"web/page", module + "/web", true},
		{"web", module + "/web/page", true},
		{"cli", module + "/flow", true},
		{"cli", "github.com/spf13/cobra", false},
		{"cli", "charm.land/bubbletea/v2", false},
		{"cmd/tipstaff", "charm.land/bubbletea/v2", true},
		{"web", "github.com/charmbracelet/colorprofile", true},
		{"runner", "github.com/spf13/cobra/doc", true},
		{"cmd/tipstaff", module + "/sqlite", false},
		{"cmd/tipstaff", module + "/cli", false},
		{"cmd/tipstaff", "unsafe", true},
		{"provider", "github.com/openai/openai-go/v3/option", true},
		{"telemetry", "go.opentelemetry.io/otel/trace", false},
		{"tool", "go.opentelemetry.io/otel/sdk/trace", true},
		{"runner", "go.opentelemetry.io/otel/trace", true},
		{"sqlite", module + "/cmd/tipstaff", true},
		{"util", "fmt", true},
		{"runner", module + "/util", true},
	} {
		if faults := importFaults(c.pkg, []string{c.imported}); (len(faults) > 0) != c.bad {
			t.Errorf("%s imports %s: faults %q, want some: %v", c.pkg, c.imported, faults, c.bad)
		}
	}
}

// Programs are started and signalled by the supervisor alone, which can find and end them.
func TestOnlyTheSupervisorRunsProcesses(t *testing.T) {
	used := 0
	eachProductFile(t, func(path string, file *ast.File) {
		switch pkg := filepath.ToSlash(filepath.Dir(path)); {
		case below(pkg, "supervisor"):
			used += len(processCalls(file))
		case strings.HasPrefix(pkg, "test/") || pkg == "cmd/bench":
		default:
			for _, call := range processCalls(file) {
				t.Errorf("%s uses %s", path, call)
			}
		}
	})
	if used == 0 {
		t.Error("not even the supervisor starts a program: nothing was looked at")
	}
}

// processCalls are the uses in a file of what starts processes or signals them by pid.
func processCalls(file *ast.File) (calls []string) {
	packages := map[string]string{} // by the names that the file has for them
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		packages[name] = imported
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if of, ok := s.X.(*ast.Ident); ok && slices.Contains(processFunctions[packages[of.Name]], s.Sel.Name) {
				calls = append(calls, packages[of.Name]+"."+s.Sel.Name)
			}
		}
		return true
	})
	return calls
}

var processFunctions = map[string][]string{
	"os":                    {"StartProcess"},
	"os/exec":               {"Command", "CommandContext", "Cmd"},
	"syscall":               {"ForkExec", "StartProcess", "Exec", "Kill"},
	"golang.org/x/sys/unix": {"Exec", "Kill", "PidfdSendSignal", "Tgkill"},
}

func TestProcessCallsAreFound(t *testing.T) {
	for text, want := range map[string]int{
		`import "os/exec"; var _ = exec.Command("true")`:                   1,
		`import other "os/exec"; var _ = &other.Cmd{}`:                     1,
		`import "os"; func f() { os.StartProcess("", nil, nil) }`:          1,
		`import "syscall"; func f() { syscall.Kill(1, 9) }`:                1,
		`import "golang.org/x/sys/unix"; func f() { _ = unix.Kill(1, 9) }`: 1,
		`import "os/exec"; var _ = exec.LookPath`:                          0,
		`import "example.com/exec"; var _ = exec.Command`:                  0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+text, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := processCalls(file); len(got) != want {
			t.Errorf("%s: found %q", text, got)
		}
	}
}

// The module needs what the product imports, and says so: no vendor's SDK, and nothing
// that looks as if only others needed it.
func TestModuleNamesWhatIsImported(t *testing.T) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	direct := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "require ")
		if name, version, ok := strings.Cut(line, " "); ok && strings.HasPrefix(version, "v") {
			direct[name] = !strings.Contains(version, "// indirect")
			if strings.HasPrefix(name, "github.com/anthropics/") || strings.HasPrefix(name, "github.com/openai/") || name == "google.golang.org/genai" {
				t.Errorf("go.mod names %s: the SDKs of vendors are for the module of test/referee", name)
			}
		}
	}
	for pkg, imports := range packagesOfModule(t) {
		for _, imported := range imports {
			of := "" // the module that it belongs to
			for name := range direct {
				if below(imported, name) && len(name) > len(of) {
					of = name
				}
			}
			if of != "" && !direct[of] {
				t.Errorf("%s imports %s, and go.mod takes %s for indirect", pkg, imported, of)
			}
		}
	}
}

// Views of a run tell the same of the same records: they read no clock.
func TestRootReadsNoClock(t *testing.T) {
	eachProductFile(t, func(path string, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && filepath.Dir(path) == "." && lastName(s.X) == "time" && slices.Contains([]string{"Now", "Since", "Until"}, s.Sel.Name) {
				t.Errorf("%s uses time.%s", path, s.Sel.Name)
			}
			return true
		})
	})
}
