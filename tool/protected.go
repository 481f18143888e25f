package tool

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool/builtin"
)

// protected is what a manifest runs or obeys: files and folders of the workspace,
// and patterns of their names. No built-in tool writes them, for a run that could
// would decide what later calls and runs do.
func (m *Manifest) protected(workspace string) []string {
	list := slices.Clone(m.obeys)
	if m.Anchor != "" {
		list = append(list, m.Anchor)
	}
	for _, name := range sortedKeys(m.Servers) {
		c := m.Servers[name]
		if c.Package != "" && filepath.Clean(c.Package) != "." {
			list = append(list, c.Package)
		}
		list = append(list, c.names(workspace).protected...)
		for _, program := range c.Programs {
			if path, err := builtin.LookProgram(workspace, program); err == nil || strings.ContainsRune(program, filepath.Separator) {
				list = append(list, path)
			}
		}
	}
	return list
}

// protectedIn is what the manifest of another workspace runs or obeys, as far as it
// can be read.
func protectedIn(workspace string) []string {
	p := newManifestParser("tipstaff.yaml")
	p.dir = Beside(workspace)
	if src, err := os.ReadFile(filepath.Join(workspace, "tipstaff.yaml")); err == nil {
		if root, ok := p.document(src); ok && root.value != nil {
			p.manifest(root)
		}
	}
	return append(p.m.protected(workspace), skillsFolder)
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
func (c ServerConfig) names(workspace string) named {
	n := named{}
	if len(c.Command) == 0 {
		return n
	}
	if program, err := builtin.LookProgram(workspace, c.Command[0]); err == nil {
		n.add(workspace, program)
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
				n.addFile(workspace, file)
			}
			continue
		}
		if _, value, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(arg, "-") {
			arg = value
		}
		if !strings.HasPrefix(arg, "-") {
			n.add(workspace, strings.TrimPrefix(arg, "@"))
		}
	}
	for _, name := range loaders {
		for _, part := range strings.FieldsFunc(c.Env[name], func(r rune) bool { return r == filepath.ListSeparator || r == ' ' || r == '=' }) {
			if path, ok := inWorkspace(workspace, part); ok && !strings.HasPrefix(part, "-") {
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
func inWorkspace(workspace, path string) (string, bool) {
	if path == "" || strings.ContainsRune(path, 0) || strings.Contains(path, "://") {
		return "", false
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(workspace, path)
	}
	if rel, err := filepath.Rel(workspace, path); err == nil && filepath.IsLocal(rel) {
		return rel, rel != "."
	}
	home, err := filepath.EvalSymlinks(workspace)
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
func (n *named) addFile(workspace, path string) {
	info, err := os.Stat(filepath.Join(workspace, path))
	if err == nil && info.Mode().IsRegular() && !slices.Contains(databases, filepath.Ext(path)) {
		n.files = append(n.files, filepath.ToSlash(path))
	}
}

// databases are files that servers change themselves.
var databases = []string{".db", ".sqlite", ".sqlite3", ".duckdb", ".log"}

// add adds what an argument names. A script finds what it loads beside it, so that
// its folder counts with it; in the workspace itself that are the files of its kind.
func (n *named) add(workspace, arg string) {
	path, ok := inWorkspace(workspace, arg)
	if !ok {
		return
	}
	info, err := os.Stat(filepath.Join(workspace, path))
	ext := filepath.Ext(path)
	switch {
	case err != nil && ext == "" && !strings.ContainsRune(arg, filepath.Separator):
		return // a word
	case err == nil && info.IsDir():
		n.addFolder(workspace, path)
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
	n.addFile(workspace, path)
}

var scripts = []string{".py", ".js", ".mjs", ".cjs", ".ts", ".mts", ".rb", ".pl", ".php", ".sh", ".lua", ".jar", ".wasm"}

// addFolder adds a folder: as a whole if it is something to run, else what would
// make it so.
func (n *named) addFolder(workspace, path string) {
	for _, entry := range entries {
		n.protected = append(n.protected, filepath.Join(path, entry))
		if _, err := os.Lstat(filepath.Join(workspace, path, entry)); err == nil {
			n.protected = append(n.protected, path)
		}
	}
}

// digests are those of the files that a command names in the workspace, by path;
// nil: it names none.
func (c ServerConfig) digests(workspace string) (map[string]string, error) {
	var digests map[string]string
	for _, path := range c.names(workspace).files {
		sum, err := fileDigest(filepath.Join(workspace, path))
		if err != nil {
			return nil, err
		}
		if digests == nil {
			digests = map[string]string{}
		}
		digests[path] = "sha256:" + sum
	}
	return digests, nil
}

// options are those of builtin in a workspace.
func (m *Manifest) options(l Launch) builtin.Options {
	c := m.Servers[builtin.Name]
	return builtin.Options{Workspace: l.Workspace, Roots: c.Roots, Hosts: c.Hosts, Programs: c.Programs, Markers: l.Markers,
		Protected: func() []string { return slices.Concat(m.protected(l.Workspace), []string{skillsFolder}, l.Protected) },
		Nested:    protectedIn}
}

// checkFiles refuses a server whose command names files that are not those that
// were accepted. Of a lock that was made before there were digests, held is nil.
func (c ServerConfig) checkFiles(workspace, server string, held map[string]string) *flow.Error {
	if held == nil {
		return nil
	}
	now, err := c.digests(workspace)
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
