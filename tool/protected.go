package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/workspace"
)

// protected is what a manifest runs or obeys: files and folders of the workspace,
// and patterns of their names. No built-in tool writes them, for a run that could
// would decide what later calls and runs do.
func protected(m *workspace.Manifest, dir string) []string {
	list := append(m.Obeys(), workspace.ServedBy(filepath.Join(dir, ".tipstaff"))...)
	for _, name := range sortedKeys(m.Servers) {
		c := m.Servers[name]
		if c.Package != "" && filepath.Clean(c.Package) != "." {
			list = append(list, c.Package)
		}
		list = append(list, names(c, dir).protected...)
		for _, program := range c.Programs {
			if path, err := builtin.LookProgram(dir, program); err == nil || strings.ContainsRune(program, filepath.Separator) {
				list = append(list, path)
			}
		}
	}
	return list
}

// protectedIn is what the manifest of another workspace runs or obeys, as far as it
// can be read.
func protectedIn(dir string) []string {
	src, err := os.ReadFile(filepath.Join(dir, "tipstaff.yaml"))
	if err != nil {
		return []string{skillsFolder}
	}
	return append(protected(workspace.Salvage(workspace.Beside(dir), src), dir), skillsFolder)
}

// skillsFolder is where a workspace has its skills.
const skillsFolder = "skills"

// named is what a server's command names in the workspace.
type named struct {
	files     []string // that are there, by their path in the workspace
	protected []string // these and more: see Manifest.protected
}

// loaders are the variables by which programs find what they run.
var loaders = []string{"PATH", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "NODE_PATH", "NODE_OPTIONS", "BASH_ENV", "ENV", "LD_PRELOAD", "LD_LIBRARY_PATH",
	"RUBYLIB", "RUBYOPT", "PERL5LIB", "PERL5OPT", "CLASSPATH", "JAVA_TOOL_OPTIONS", "GIT_CONFIG_GLOBAL", "GIT_EXEC_PATH"}

// projects are the files by which programs that start others are told what to
// start, in the folder they are started in.
var projects = map[string][]string{
	"npm": {"package.json", ".npmrc", "node_modules"}, "pnpm": {"package.json", ".npmrc", "node_modules"}, "yarn": {"package.json", ".yarnrc.yml", "node_modules"},
	"bun": {"package.json", "bunfig.toml", "node_modules"}, "npx": {".npmrc", "node_modules"}, "bunx": {"bunfig.toml", "node_modules"},
	"uv": {"pyproject.toml", "uv.toml", ".venv"}, "uvx": {"uv.toml"}, "poetry": {"pyproject.toml", ".venv"}, "make": {"Makefile", "makefile", "GNUmakefile"},
	"just": {"justfile", "Justfile", ".justfile"}, "cargo": {"Cargo.toml", ".cargo"}, "go": {"go.mod"}, "deno": {"deno.json", "deno.jsonc"},
}

// entries are the files that make a folder something to run.
var entries = []string{"__main__.py", "__init__.py", "index.js", "index.mjs", "index.cjs", "index.ts", "package.json", "main.go", "go.mod", "Cargo.toml", "pyproject.toml"}

// names looks for what a command names in the workspace. An argument that is a
// path, or is given to an option as --name=path, counts.
func names(c workspace.Server, dir string) named {
	n := named{}
	if len(c.Command) == 0 {
		return n
	}
	if program, err := builtin.LookProgram(dir, c.Command[0]); err == nil {
		n.add(dir, program)
	}
	n.protected = append(n.protected, projects[filepath.Base(c.Command[0])]...)
	for i, arg := range c.Command[1:] {
		if c.Command[i] == "-m" { // a module of Python, looked for where the server starts
			module := strings.ReplaceAll(arg, ".", "/")
			first, _, _ := strings.Cut(module, "/")
			if first == "" {
				continue
			}
			n.protected = append(n.protected, first, first+".py")
			for _, file := range []string{module + ".py", module + "/__main__.py"} {
				n.addFile(dir, file)
			}
			continue
		}
		if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
			arg = value
		}
		if !strings.HasPrefix(arg, "-") {
			n.add(dir, strings.TrimPrefix(arg, "@"))
		}
	}
	for _, name := range loaders {
		for _, part := range strings.FieldsFunc(c.Env[name], func(r rune) bool { return r == filepath.ListSeparator || r == ' ' || r == '=' }) {
			if path, ok := inWorkspace(dir, part); ok && !strings.HasPrefix(part, "-") {
				n.protected = append(n.protected, path)
			}
		}
	}
	slices.Sort(n.files)
	n.files = slices.Compact(n.files)
	return n
}

// inWorkspace is a path as it is seen from the workspace that it lies in, by its name
// or by where links lead.
func inWorkspace(dir, path string) (string, bool) {
	if path == "" || strings.ContainsRune(path, 0) || strings.Contains(path, "://") {
		return "", false
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
		return rel, rel != "."
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
	return rel, err == nil && filepath.IsLocal(rel) && rel != "."
}

// addFile adds a file, if it is there.
func (n *named) addFile(dir, path string) {
	info, err := os.Stat(filepath.Join(dir, path))
	if err == nil && info.Mode().IsRegular() && !slices.Contains(databases, filepath.Ext(path)) {
		n.files = append(n.files, filepath.ToSlash(path))
	}
}

// databases are files that servers change themselves.
var databases = []string{".db", ".sqlite", ".sqlite3", ".duckdb", ".log"}

// add adds what an argument names. A script finds what it loads beside it, so that
// its folder counts with it; in the workspace itself that are the files of its kind.
func (n *named) add(dir, arg string) {
	path, ok := inWorkspace(dir, arg)
	if !ok {
		return
	}
	info, err := os.Stat(filepath.Join(dir, path))
	ext := filepath.Ext(path)
	switch {
	case err != nil && ext == "" && !strings.ContainsRune(arg, filepath.Separator):
		return // a word
	case err == nil && info.IsDir():
		n.addFolder(dir, path)
		return
	}
	n.protected = append(n.protected, path)
	switch {
	case !slices.Contains(scripts, ext) && (err != nil || info.Mode()&0o111 == 0): // data
	case filepath.Dir(path) != ".":
		n.protected = append(n.protected, filepath.Dir(path))
	case ext == ".py":
		n.protected = append(n.protected, "*.py", "*.so", "*/__init__.py")
	case strings.HasSuffix(ext, "js") || strings.HasSuffix(ext, "ts"):
		n.protected = append(n.protected, "*"+ext, "node_modules")
	}
	n.addFile(dir, path)
}

var scripts = []string{".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".pl", ".php", ".sh", ".lua", ".jar", ".wasm"}

// addFolder adds a folder: as a whole if it is something to run, else what would
// make it so.
func (n *named) addFolder(dir, path string) {
	for _, entry := range entries {
		n.protected = append(n.protected, filepath.Join(path, entry))
		if _, err := os.Lstat(filepath.Join(dir, path, entry)); err == nil {
			n.protected = append(n.protected, path)
		}
	}
}

// digests are those of the files that a command names in the workspace, by path;
// nil: it names none.
func digests(c workspace.Server, dir string) (map[string]string, error) {
	var digests map[string]string
	for _, path := range names(c, dir).files {
		digest, err := builtin.FileDigest(filepath.Join(dir, path))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if digests == nil {
			digests = map[string]string{}
		}
		digests[path] = digest
	}
	return digests, nil
}

// options are those of builtin in a workspace.
func options(m *workspace.Manifest, l Launch) builtin.Options {
	c := m.Servers[builtin.Name]
	return builtin.Options{Workspace: l.Workspace, Roots: c.Roots, Hosts: c.Hosts, Programs: c.Programs, Markers: l.Markers, State: l.State,
		Protected: func() []string { return slices.Concat(protected(m, l.Workspace), []string{skillsFolder}, l.Protected) },
		Nested:    protectedIn}
}

// checkFiles refuses a server whose command names files that are not those that
// were accepted. Of a lock that was made before there were digests, held is nil.
func checkFiles(c workspace.Server, dir, server string, held map[string]string) *flow.Error {
	if held == nil {
		return nil
	}
	now, err := digests(c, dir)
	if err != nil {
		return refusal(CodePackageChanged, nil, "a file that the command of server %q names cannot be digested: %v", server, err)
	}
	for _, path := range sortedKeys(now) {
		accepted, ok := held[path]
		switch {
		case !ok:
			return refusal(CodePackageChanged, detail{"file": path, "digest": now[path]},
				"the command of server %q names %s, which nobody has accepted yet: look at the file, then `tipstaff tools pin %s`", server, path, server)
		case now[path] != accepted:
			return refusal(CodePackageChanged, detail{"file": path, "accepted": accepted, "digest": now[path]},
				"the file %s, which the command of server %q names, has changed since it was accepted: look at it, then `tipstaff tools pin %s`", path, server, server)
		}
	}
	return nil
}

// PackageDigest is the digest of a file, or of a folder and everything in it:
// that of its lines, sorted, each the path of a file with slashes, NUL, x if the
// file may be executed and else -, NUL, the file's SHA-256 in hex, and a line
// feed. Symbolic links are refused: they would lead out of what is digested. The
// path itself may be one.
func PackageDigest(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return builtin.FileDigest(path)
	}
	lines, err := folderLines(path)
	if err != nil {
		return "", err
	}
	slices.Sort(lines)
	return flow.Digest([]byte(strings.Join(lines, ""))), nil
}

func folderLines(root string) (lines []string, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is a link or no plain file: a package holds plain files alone", name)
		}
		digest, err := builtin.FileDigest(path)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		mode := "-"
		if info.Mode()&0o111 != 0 {
			mode = "x"
		}
		lines = append(lines, filepath.ToSlash(name)+"\x00"+mode+"\x00"+strings.TrimPrefix(digest, "sha256:")+"\n")
		return nil
	})
	return lines, err
}

// checkPackage compares what is about to be started with the manifest's digest.
func checkPackage(c workspace.Server, dir, program string) *flow.Error {
	if c.PackageDigest == "" {
		return nil
	}
	path := packagePath(c, dir, program)
	found, err := PackageDigest(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refusal(CodePackageChanged, nil, "the package %s does not exist", path)
	case err != nil:
		return refusal(CodePackageChanged, nil, "the package %s cannot be digested: %v", path, err)
	case found != c.PackageDigest:
		return refusal(CodePackageChanged, detail{"accepted": c.PackageDigest, "digest": found},
			"the package %s is not the one that was accepted: its digest is %s", path, found)
	}
	return nil
}

// packagePath is the file or folder that a server's package is: the one that is
// named, else the program.
func packagePath(c workspace.Server, dir, program string) string {
	switch {
	case c.Package == "":
		return program
	case filepath.IsAbs(c.Package):
		return c.Package
	}
	return filepath.Join(dir, c.Package)
}

// fetchers are programs that get what they run from elsewhere, some of them only
// when their first argument says so.
var fetchers = map[string][]string{
	"npx": nil, "bunx": nil, "pnpx": nil, "uvx": nil, "pipx": nil,
	"npm": {"exec", "x"}, "pnpm": {"dlx"}, "yarn": {"dlx"}, "bun": {"x"}, "uv": {"tool"},
	"docker": {"run"}, "podman": {"run"},
}

// Unpinned are the servers, sorted, of which nothing says what will be started the
// next time: their program fetches it, and no package is named whose digest could
// be compared. What they list is still held to the lock.
func Unpinned(m *workspace.Manifest) []string {
	var list []string
	if m == nil {
		return nil
	}
	for _, name := range sortedKeys(m.Servers) {
		if c := m.Servers[name]; c.Package == "" && fetches(c.Command) {
			list = append(list, name)
		}
	}
	return list
}

func fetches(argv []string) bool {
	if len(argv) == 0 {
		return false
	}
	words, ok := fetchers[filepath.Base(argv[0])]
	return ok && (words == nil || len(argv) > 1 && slices.Contains(words, argv[1]))
}
