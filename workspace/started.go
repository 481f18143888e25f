package workspace

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/filestamp"
	"github.com/tipstaff/tipstaff/tool/builtin"
)

// started is what commands run of a workspace, as far as their words tell.
type started struct {
	dir   string
	files []string // that words name, by their path in the workspace
	paths []string // these, and folders with all that is in them
	kept  []string // files that the program changes itself, so that they have no digest
	kinds bool     // all code in the workspace
	runs  bool     // a program runs the folder that it is started in, whichever that is
	build []string // names of files that a program reads in the folder it is started in
}

// started is what it runs.
func (c Command) started(dir string) started {
	s := started{dir: dir}
	s.command(c.Argv)
	s.environment(c.Env)
	s.runs = s.runs && c.Kind == KindProgram // all others are started in the workspace alone
	return s
}

// command adds what a command names: every word of its arguments that is a file of the
// workspace, with the folder that it stands in, also inside of a text for a shell.
func (s *started) command(argv []string) {
	if len(argv) == 0 {
		return
	}
	interprets := slices.ContainsFunc(argv, func(arg string) bool {
		return slices.ContainsFunc(wordsIn(arg), func(word string) bool { return interpreters[programName(word)] })
	})
	if path, err := builtin.LookProgram(s.dir, argv[0]); err == nil {
		s.word(path, interprets)
	}
	s.line(argv)
	for _, arg := range argv[1:] {
		for _, word := range wordsIn(arg) {
			s.word(word, interprets)
		}
		for _, line := range strings.FieldsFunc(arg, endsCommand) { // it may be a text for a shell
			if words := strings.Fields(line); line != arg || len(words) > 1 {
				s.line(words)
			}
		}
	}
}

// endsCommand reports whether a character ends a command in a text for a shell.
func endsCommand(r rune) bool { return strings.ContainsRune("\n;|&(){}`$", r) }

// programName is what a word calls a program: without folder, quotes, ending and version.
func programName(word string) string {
	name := strings.TrimSuffix(filepath.Base(unquoted(word)), ".exe")
	return strings.TrimRight(name, "0123456789.")
}

func unquoted(word string) string { return strings.Trim(word, `"'`) }

// line adds what one command reads where it is started. The words before a program may be
// assignments, or programs that start others.
func (s *started) line(words []string) {
	python, options := false, false // a Python stands before; and nothing but its options
	for i, word := range words {
		name, rest := programName(word), words[i+1:]
		if b, known := builders[name]; known {
			s.builder(b, rest)
		}
		switch {
		case strings.HasPrefix(name, "py") || name == "uv":
			python, options = true, true
		case python:
			options = options && strings.HasPrefix(word, "-")
			s.pythonOption(word, rest, options)
		}
	}
}

// pythonOptions are options that end with -m or -c, and what is written with that.
var pythonOptions = regexp.MustCompile(`^-[bBdEiIOPqsSuvx]*([mc])(.*)$`)

// pythonOption adds what an option of Python, or of uv, has it run. Options may be written
// together where nothing else can stand.
func (s *started) pythonOption(word string, rest []string, together bool) {
	if module, long := strings.CutPrefix(word, "--module"); long && (module == "" || module[0] == '=') {
		word, together = "-m"+strings.TrimPrefix(module, "="), true
	}
	parts := pythonOptions.FindStringSubmatch(word)
	switch {
	case parts == nil || !together && len(word) > 2:
	case parts[1] == "c": // it imports from the folder it is started in
		s.kinds = true
	case parts[2] != "":
		s.module(parts[2])
	case len(rest) > 0:
		s.module(rest[0])
	}
}

// builder adds what a program reads in the folder that it is started in.
func (s *started) builder(b builder, args []string) {
	s.build = append(s.build, b.build...)
	if b.runs && (b.word == "" || slices.ContainsFunc(args, func(arg string) bool { return unquoted(arg) == b.word })) {
		s.kinds, s.runs = true, true
	}
}

// module adds a module of Python, which is looked for where the program is started.
func (s *started) module(name string) {
	path := strings.ReplaceAll(unquoted(name), ".", "/")
	if first, _, _ := strings.Cut(path, "/"); first != "" {
		s.files = append(s.files, path+".py", path+"/__main__.py")
		s.paths = append(s.paths, first, first+".py")
	}
	s.build, s.kinds, s.runs = append(s.build, pythonBuild...), true, true
}

// wordsIn are the texts in an argument that may name a file: the argument, what an option
// is given, and every word of a text for a shell.
func wordsIn(arg string) []string {
	list := []string{arg}
	pieces := strings.FieldsFunc(arg, func(r rune) bool { return strings.ContainsRune(" \t\r\n;|&<>()`$\"'{}=,:[]", r) })
	if len(pieces) > 1 || len(pieces) == 1 && pieces[0] != arg {
		list = append(list, pieces...)
	}
	for _, word := range slices.Clone(list) {
		if strings.HasPrefix(word, "-") {
			if len(word) > 2 {
				list = append(list, word[2:]) // -Ilib
			}
			continue
		}
		list = append(list, strings.TrimPrefix(word, "@"))
	}
	return slices.DeleteFunc(list, func(word string) bool { return strings.HasPrefix(word, "-") })
}

// word adds what one word names, if it does. A program finds what it loads beside what it
// is given, so that its folder counts with it.
func (s *started) word(word string, interprets bool) {
	path, ok := inWorkspace(s.dir, word)
	if !ok {
		return
	}
	info, err := os.Stat(filepath.Join(s.dir, path))
	if err != nil && interprets { // a module without its extension
		for _, ext := range []string{".js", ".mjs", ".cjs", ".ts", ".py", ".rb", ".lua"} {
			if found, e := os.Stat(filepath.Join(s.dir, path+ext)); e == nil {
				path, info, err = path+ext, found, nil
				break
			}
		}
	}
	ext := strings.ToLower(filepath.Ext(path))
	switch {
	case err != nil && !kinds[ext] && !strings.ContainsRune(word, filepath.Separator):
		return // a word
	case err == nil && info.IsDir():
		s.folder(path, interprets)
		return
	case path == ".":
		return
	case written[ext]:
		s.kept = append(s.kept, path)
		return
	}
	s.file(path)
	if real, ok := s.real(path); ok && real != path {
		s.file(real)
	}
}

// file adds a file, and the folder that it stands in; in the workspace itself all code there.
func (s *started) file(path string) {
	s.files, s.paths = append(s.files, path), append(s.paths, path)
	if dir := filepath.Dir(path); dir != "." {
		s.paths = append(s.paths, dir)
		return
	}
	s.kinds = true
}

// real is where links lead, if that is in the workspace.
func (s *started) real(path string) (string, bool) {
	home, err := filepath.EvalSymlinks(s.dir)
	if err != nil {
		return "", false
	}
	real := leads(filepath.Join(s.dir, path)).real
	rel, err := filepath.Rel(home, real)
	return rel, err == nil && filepath.IsLocal(rel) && rel != "."
}

// folder adds a folder: as a whole if it is something to run, else what would make it so.
func (s *started) folder(path string, interprets bool) {
	there := slices.ContainsFunc(entries, func(entry string) bool {
		_, err := os.Lstat(filepath.Join(s.dir, path, entry))
		return err == nil
	})
	switch {
	case path == ".":
		s.kinds = s.kinds || there && interprets
		return
	case there:
		s.paths = append(s.paths, path)
		return
	}
	for _, entry := range entries {
		s.paths = append(s.paths, filepath.Join(path, entry))
	}
}

// environment adds what variables have programs load.
func (s *started) environment(env map[string]string) {
	for _, name := range loaders {
		for _, part := range strings.FieldsFunc(env[name], func(r rune) bool { return r == filepath.ListSeparator || r == ' ' || r == '=' }) {
			path, ok := inWorkspace(s.dir, part)
			switch {
			case !ok || strings.HasPrefix(part, "-"):
			case path == ".":
				s.kinds = true
			default:
				s.paths = append(s.paths, path)
			}
		}
	}
}

// inWorkspace is a path as it is seen from the workspace that it lies in, by its name or by
// where links lead; "." is the workspace itself.
func inWorkspace(dir, path string) (string, bool) {
	if path == "" || strings.ContainsRune(path, 0) || strings.Contains(path, "://") || strings.HasPrefix(path, "//") {
		return "", false
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
		return rel, true
	}
	home, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", false
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", false
	}
	rel, err := filepath.Rel(home, real)
	return rel, err == nil && filepath.IsLocal(rel)
}

// RunsCode reports whether it names code of the workspace.
func (c Command) RunsCode(dir string) bool {
	s := c.started(dir)
	return s.kinds || len(s.paths) > 0
}

// SharesFolder reports whether all code of the workspace counts as its own, because it is started
// in the workspace itself.
func (c Command) SharesFolder(dir string) bool {
	return c.Package == "" && c.started(dir).kinds
}

// PackageHere is its package by the path in the workspace, if it lies there and has no digest in
// the manifest.
func (c Command) PackageHere(dir string) (string, bool) {
	if c.Package == "" || c.PackageDigest != "" {
		return "", false
	}
	return inWorkspace(dir, c.Package)
}

// isCode reports whether a file is code by its name.
func isCode(path string) bool { return kinds[strings.ToLower(filepath.Ext(path))] }

// What the digest of a server's code may cover.
const (
	MostFiles = 5000
	mostBytes = 256 << 20
)

// Code are the files of the workspace in dir whose digests say whether its code has changed, by
// their path there, with slashes: those that it names, and what lies beside them, in whose place
// its package stands if it has one. Links are not followed. opened are files that runs may
// write although they are code, or have the name of a build file: these have no digest. beside is false for older locks, which
// have digests of what the command names alone.
func (c Command) Code(dir string, beside bool, opened func(path, build string) bool) (map[string]filestamp.Stamp, error) {
	s := c.started(dir)
	if !beside {
		s = started{dir: dir, paths: s.files}
	} else if c.Package != "" {
		s = started{dir: dir, paths: s.files}
		if path, ok := c.PackageHere(dir); ok {
			s.paths = append(s.paths, path)
		}
	}
	w := codeWalk{dir: filepath.Clean(dir), ignore: c.Ignore, files: map[string]filestamp.Stamp{}}
	every := func(string) bool { return true }
	for _, path := range outermost(s.paths) {
		if err := w.walk(path, every); err != nil {
			return nil, err
		}
	}
	build := set(s.build...)
	maps.DeleteFunc(build, func(name string, _ bool) bool { return installed[name] })
	builds := func(path, name string) bool { // by a file that is not opened, as that of a server never is
		return build[fold(name)] && !(c.Kind == KindProgram && opened(path, fold(name)))
	}
	if s.kinds {
		return w.files, w.walk(".", func(path string) bool {
			return isCode(path) && !opened(path, "") || slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { return builds(path, name) })
		})
	}
	if len(build) == 0 {
		return w.files, nil
	}
	here, err := os.ReadDir(w.dir)
	for _, e := range here {
		if err == nil && build[fold(e.Name())] {
			err = w.walk(e.Name(), func(path string) bool { return builds(path, e.Name()) })
		}
	}
	return w.files, err
}

// outermost are paths without those that lie in another of them.
func outermost(paths []string) (list []string) {
	paths = slices.Clone(paths)
	for i, path := range paths {
		paths[i] = filepath.Clean(path)
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		if !slices.ContainsFunc(list, func(dir string) bool { return inside(dir, path) }) {
			list = append(list, path)
		}
	}
	return list
}

// codeWalk collects files.
type codeWalk struct {
	dir    string
	ignore []string
	files  map[string]filestamp.Stamp
	bytes  int64
}

func (w *codeWalk) walk(root string, counts func(path string) bool) error {
	return filepath.WalkDir(filepath.Join(w.dir, root), func(path string, d fs.DirEntry, err error) error {
		rel := below(w.dir, path)
		switch {
		case err != nil && os.IsNotExist(err):
			return nil // it is not there, or has gone
		case w.ignored(rel):
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case err != nil:
			return err
		case !d.Type().IsRegular() && d.Type()&fs.ModeSymlink == 0 || !counts(rel):
			return nil
		}
		info, err := d.Info()
		if err != nil && os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return w.add(rel, info)
	})
}

// ignored are, besides what the manifest says, folders that no program loads code from, and
// what programs write themselves.
func (w *codeWalk) ignored(path string) bool {
	name := filepath.Base(path)
	if name == ownFolder || name == gitFolder || name == "__pycache__" || written[strings.ToLower(filepath.Ext(name))] {
		return true
	}
	return slices.ContainsFunc(w.ignore, func(glob string) bool { return document.MatchPath(glob, path) })
}

func (w *codeWalk) add(path string, info fs.FileInfo) error {
	if _, again := w.files[path]; again {
		return nil
	}
	w.files[path] = filestamp.Of(info)
	w.bytes += info.Size()
	if len(w.files) > MostFiles || w.bytes > mostBytes {
		return fmt.Errorf("what its command names and what lies beside it, which it may load, are more than %d files or %d MB (at %s): "+
			"give it a folder of its own, or say in tipstaff.yaml what counts (package: PATH) or what does not (ignore: [GLOB])", MostFiles, mostBytes>>20, path)
	}
	return nil
}
