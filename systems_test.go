package tipstaff_test

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOtherSystems holds the packages to the types that they would have on a Mac. To
// compile them would say no more, and take minutes: SQLite is among them. Of what is not
// ours only the declarations are looked at.
func TestOtherSystems(t *testing.T) {
	if os.Getenv("TIPSTAFF_MORE") == "" {
		t.Skip("TIPSTAFF_MORE is not set: make test-more runs this")
	}
	list := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,ImportMap,Module", "./...")
	list.Env = append(os.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := list.Start(); err != nil {
		t.Fatal(err)
	}
	checked := packages{"unsafe": types.Unsafe}
	fset, ours := token.NewFileSet(), 0
	for dec := json.NewDecoder(out); ; { // what is imported comes before who imports it
		var p struct {
			ImportPath, Dir string
			GoFiles         []string
			ImportMap       map[string]string
			Module          *struct{ Main bool }
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.ImportPath == "unsafe" {
			continue
		}
		own := p.Module != nil && p.Module.Main
		var files []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		conf := types.Config{Importer: mapped{checked, p.ImportMap}, IgnoreFuncBodies: !own, Sizes: types.SizesFor("gc", "arm64"),
			Error: func(err error) {
				if own {
					t.Error(err)
				}
			}}
		checked[p.ImportPath], _ = conf.Check(p.ImportPath, fset, files, nil)
		if own {
			ours++
		}
	}
	if err := list.Wait(); err != nil {
		t.Fatal(err)
	}
	if ours < 20 {
		t.Errorf("only %d packages of this module were looked at", ours)
	}
}

// Whoever builds it for Windows reads one sentence, before anything is compiled.
func TestWindowsIsToldInOneSentence(t *testing.T) {
	build := exec.Command("go", "build", "-n", "./cmd/tipstaff")
	build.Env = append(os.Environ(), "GOOS=windows", "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	if said := string(out); err == nil || strings.Count(said, "\n") != 1 || !strings.Contains(said, "windows.go:") || !strings.Contains(said, "does not run on Windows") || !strings.Contains(said, "WSL2") {
		t.Errorf("%v:\n%s", err, said)
	}
}

// go install …@latest refuses a module whose go.mod says more than what it needs.
func TestTheModuleCanBeInstalled(t *testing.T) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); word == "replace" || word == "exclude" {
			t.Errorf("go.mod has %q: with it `go install github.com/tipstaff/tipstaff/cmd/tipstaff@latest` fails", strings.TrimSpace(line))
		}
	}
}

// packages are those that were checked, by their paths.
type packages map[string]*types.Package

// mapped imports what was checked, by the names that one package has for it.
type mapped struct {
	packages
	names map[string]string
}

func (m mapped) Import(name string) (*types.Package, error) {
	if other, ok := m.names[name]; ok {
		name = other
	}
	if p := m.packages[name]; p != nil {
		return p, nil
	}
	return nil, errors.New(name + " was not listed")
}
