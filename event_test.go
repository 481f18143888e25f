package tipstaff

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// declaredKinds reads the constants of event.go: what people read is what counts.
func declaredKinds(t *testing.T, name string) map[Kind]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[Kind]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Names) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Kind") {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := declared[Kind(value)]; twice {
			t.Errorf("%s is declared twice", value)
		}
		declared[Kind(value)] = spec.Comment.Text()
		return true
	})
	return declared
}

func TestEveryDeclaredKindIsKnownAndSaysWhatItSays(t *testing.T) {
	declared := declaredKinds(t, "event.go")
	engine := declaredKinds(t, "flow/body.go")
	for kind := range engine {
		if _, ok := declared[kind]; !ok {
			t.Errorf("the engine has a kind %s, which is not on the list", kind)
		}
	}
	if len(declared) == 0 || len(engine) == 0 {
		t.Fatal("no kind was found")
	}
	for kind, comment := range declared {
		if KnownKind(kind) == kind.Transient() {
			t.Errorf("%s: known in journals %v, transient %v", kind, KnownKind(kind), kind.Transient())
		}
		if strings.TrimSpace(comment) == "" {
			t.Errorf("%s has no comment", kind)
		}
	}
	if len(kinds) != len(declared) {
		t.Errorf("%d kinds are known, %d declared", len(kinds), len(declared))
	}
	for _, k := range []Kind{"", "intent", "agent.text_delta", "agent.approval_requested", "Run.started"} {
		if KnownKind(k) || k.Envelope() || k.Driving() || k.Terminal() {
			t.Errorf("%q is known", k)
		}
	}
}

// A verifier that was written from journal/README.md knows the same plain kinds.
func TestReadmeListsPlainKinds(t *testing.T) {
	readme, err := os.ReadFile("journal/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(readme), "\n## Plain kinds\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed, plainKinds []string
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "    ") {
			listed = append(listed, strings.Fields(line)...)
		}
	}
	for kind, trait := range kinds {
		if trait == plain {
			plainKinds = append(plainKinds, string(kind))
		}
	}
	slices.Sort(listed)
	slices.Sort(plainKinds)
	if !slices.Equal(listed, plainKinds) {
		t.Errorf("README.md lists %v\nevent.go has    %v", listed, plainKinds)
	}
}

// The engine and the surfaces agree on which records open and close gates. That a run
// was cancelled closes one too, for whoever looks; the engine is told by a record of its own.
func TestGatesOpenAndCloseForAllAlike(t *testing.T) {
	for kind := range kinds {
		if kind.OpensGate() != flow.Opens(string(kind)) {
			t.Errorf("%s opens a gate for one of them", kind)
		}
		if kind.ClosesGate() != flow.Closes(string(kind)) && kind != KindIntentCancel {
			t.Errorf("%s closes a gate for one of them", kind)
		}
	}
}

func TestTraits(t *testing.T) {
	for _, c := range []struct {
		name  string
		has   func(Kind) bool
		kinds string
	}{
		{"envelopes", Kind.Envelope, "intent.draft intent.compiled intent.clarify intent.answer intent.accept plan.proposed intent.correct intent.dispatch intent.attest intent.fail intent.cancel policy.gate policy.gate.resolve"},
		{"driving", Kind.Driving, "intent.compiled intent.clarify intent.answer intent.accept plan.proposed intent.correct intent.attest intent.fail intent.cancel"},
		{"terminal", Kind.Terminal, "intent.attest intent.fail intent.cancel"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := map[Kind]bool{}
			for k := range strings.FieldsSeq(c.kinds) {
				want[Kind(k)] = true
			}
			for k := range kinds {
				if c.has(k) != want[k] {
					t.Errorf("%s: %v, want %v", k, c.has(k), want[k])
				}
			}
		})
	}
}

// Kinds are named by their constants: a literal would be found by nobody who looks for
// the writers and readers of a kind.
func TestKindsAreNotSpelledOut(t *testing.T) {
	checked := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && (d.Name() == "testdata" || name != "." && strings.HasPrefix(d.Name(), ".") || strings.HasSuffix(d.Name(), "test") || d.Name() == "bench" || d.Name() == "journal") {
				return filepath.SkipDir // the journal stands alone, and has the kinds of its own specification
			}
			return err
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || name == "event.go" || name == filepath.Join("flow", "body.go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, nil, 0)
		if err != nil {
			return err
		}
		checked++
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, err := strconv.Unquote(lit.Value)
				if kind := Kind(text); err == nil && strings.Contains(text, ".") && (KnownKind(kind) || kind.Transient()) {
					t.Errorf("%s: %q is spelled out", files.Position(lit.Pos()), text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || checked == 0 {
		t.Errorf("%d files were checked: %v", checked, err)
	}
}
