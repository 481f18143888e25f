package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// runtime is the file that is added to the mutated package. Package variables whose
// values depend on a mutant are initialized after these, as Go orders them.
const runtime = `package %s

import (
	"os"
	"strconv"
	"sync/atomic"
)

var (
	active__, _ = strconv.Atoi(os.Getenv("TIPSTAFF_MUTANT"))
	log__       = openLog__()
	seen__      [%d]atomic.Bool
)

func openLog__() *os.File {
	f, _ := os.OpenFile(os.Getenv("TIPSTAFF_MUTANTS_REACHED"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return f
}

func mutant__(id int) bool   { return log__ != nil && reach__(id) || active__ == id }
func original__(id int) bool { return !mutant__(id) }

func reach__(id int) bool {
	if !seen__[id].Swap(true) {
		log__.WriteString(strconv.Itoa(id) + "\n")
	}
	return false
}

type integer__ interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}
type number__ interface{ integer__ | ~float32 | ~float64 }

func add__[T number__](id int, a, b T) T  { if mutant__(id) { return a - b }; return a + b }
func sub__[T number__](id int, a, b T) T  { if mutant__(id) { return a + b }; return a - b }
func mul__[T number__](id int, a, b T) T  { if mutant__(id) { return a / b }; return a * b }
func quo__[T number__](id int, a, b T) T  { if mutant__(id) { return a * b }; return a / b }
func rem__[T integer__](id int, a, b T) T { if mutant__(id) { return a * b }; return a %% b }
func step__[T number__](id int, _, by T) T { if mutant__(id) { return -by }; return by }
`

// load mutates a package, and writes to a folder the overlay that builds it.
func load(ctx context.Context, t target, folder string) (mutants []*mutant, overlay string, err error) {
	fset := token.NewFileSet()
	files, exports, err := listPackage(ctx, t.dir)
	if err != nil {
		return nil, "", err
	}
	var parsed []*ast.File
	for _, file := range files {
		f, err := parser.ParseFile(fset, filepath.Join(t.dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, "", err
		}
		parsed = append(parsed, f)
	}
	m := &mutator{fset: fset, alike: map[string]int{}}
	if m.info, err = check(fset, parsed, exports); err != nil {
		return nil, "", err
	}
	replaced := map[string]string{}
	put := func(file string, content []byte) error {
		path, err := filepath.Abs(filepath.Join(t.dir, file))
		if err != nil {
			return err
		}
		replaced[path] = filepath.Join(folder, file)
		return os.WriteFile(replaced[path], content, 0o600)
	}
	for i, file := range files {
		if len(t.files) > 0 && !slices.Contains(t.files, file) {
			continue
		}
		source, err := os.ReadFile(filepath.Join(t.dir, file))
		if err != nil {
			return nil, "", err
		}
		if err := put(file, m.rewrite(t.dir+"/"+file, source, parsed[i])); err != nil {
			return nil, "", err
		}
	}
	if err := put("mutant__.go", fmt.Appendf(nil, runtime, parsed[0].Name.Name, len(m.mutants)+1)); err != nil {
		return nil, "", err
	}
	overlay = filepath.Join(folder, "overlay.json")
	content, err := json.Marshal(map[string]any{"Replace": replaced})
	if err == nil {
		err = os.WriteFile(overlay, content, 0o600)
	}
	return m.mutants, overlay, err
}

// listPackage gives the files of a package, and where the compiled form of whatever
// it imports lies.
func listPackage(ctx context.Context, dir string) (files []string, exports map[string]string, err error) {
	out, err := output(exec.CommandContext(ctx, "go", "list", "-export", "-deps", "-json=ImportPath,Export,GoFiles,DepOnly", "./"+dir))
	if err != nil {
		return nil, nil, err
	}
	exports = map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Export string
			GoFiles            []string
			DepOnly            bool
		}
		if err := decoder.Decode(&p); err == io.EOF {
			return files, exports, nil
		} else if err != nil {
			return nil, nil, err
		}
		exports[p.ImportPath] = p.Export
		if !p.DepOnly {
			files = p.GoFiles
		}
	}
}

func check(fset *token.FileSet, files []*ast.File, exports map[string]string) (*types.Info, error) {
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	_, err := config.Check(files[0].Name.Name, fset, files, info)
	return info, err
}

// rewrite gives the text of a file with all of its mutants in it. Lines stay where
// they are.
func (m *mutator) rewrite(file string, source []byte, parsed *ast.File) []byte {
	m.file, m.source, m.edits = file, source, nil
	for _, d := range parsed.Decls {
		m.function = "package"
		ast.Inspect(d, m.visit)
	}
	// Edits were made from the outside in. So where several begin, the first is the
	// outermost and goes first; where several end, it goes last.
	type piece struct {
		at, skip, rank int
		text           string
	}
	var pieces []piece
	for i, e := range m.edits {
		start, end := m.offset(e.start), m.offset(e.end)
		if e.replace {
			pieces = append(pieces, piece{start, end - start, i + 1, e.before})
			continue
		}
		pieces = append(pieces, piece{start, 0, i + 1, e.before}, piece{end, 0, -i - 1, e.after})
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.rank, b.rank)) })
	var out strings.Builder
	at := 0
	for _, p := range pieces {
		out.Write(source[at:p.at])
		out.WriteString(p.text)
		at = p.at + p.skip
	}
	out.Write(source[at:])
	return []byte(out.String())
}

// output runs a command; its error holds what the command said.
func output(c *exec.Cmd) ([]byte, error) {
	var complaint bytes.Buffer
	c.Stderr = &complaint
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s%s", strings.Join(c.Args, " "), err, out, complaint.String())
	}
	return out, nil
}
