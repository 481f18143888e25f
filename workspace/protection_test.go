package workspace_test

import (
	"errors"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/workspace"
)

// place is a folder with files; a name that ends with a slash is a folder.
func place(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := realDir(t)
	for name, text := range files {
		put(t, dir, name, text)
	}
	return dir
}

func put(t testing.TB, dir, name, text string) {
	t.Helper()
	at := filepath.Join(dir, name)
	err := os.MkdirAll(filepath.Dir(at), 0o755)
	if !strings.HasSuffix(name, "/") {
		err = errors.Join(err, os.WriteFile(at, []byte(text), 0o644))
	} else {
		err = errors.Join(err, os.MkdirAll(at, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// protectionOf is that of a manifest in a folder.
func protectionOf(t testing.TB, dir, manifest string) *workspace.Protection {
	t.Helper()
	m, problems := workspace.ParseIn(workspace.Beside(dir), workspace.FileName, []byte(manifest))
	if problems != nil {
		t.Fatal(problems)
	}
	return workspace.Protect(m, workspace.Around{Dir: dir, Env: func(string) string { return "" }})
}

// wants compares what is protected: names that begin with ! are not.
func wants(t *testing.T, what string, ask func(string) (string, bool), paths ...string) {
	t.Helper()
	for _, path := range paths {
		name, free := strings.CutPrefix(path, "!")
		if why, is := ask(name); is == free {
			t.Errorf("%s: %s: protected %v: %s", what, name, is, why)
		}
	}
}

// Every way in which a command line names what it runs.
func TestCommandsNameWhatTheyRun(t *testing.T) {
	files := map[string]string{"srv.py": "", "srv/a.py": "", "bin/run.sh": "", "tool": "", "app/package.json": "{}", "data/x": "", "pkg/__init__.py": "", "cmd/srv/main.go": "", "conf/c.json": "", "named.js": "", "srv/plain.mjs": ""}
	for command, paths := range map[string][]string{
		"[python3, ./srv.py]":                         {"srv.py", "lib/helpers.py", "common.sh", "lib/util.js", "json.py", "!docs/a.md", "!package.json"},
		"[python3, srv/a.py]":                         {"srv/a.py", "srv/b.txt", "srv/deep/c", "!lib/helpers.py", "!srv2/a.py"},
		"[python3, -u, srv/missing.py]":               {"srv/missing.py", "srv/b"},
		`[sh, -c, "exec ./bin/run.sh --quiet"]`:       {"bin/run.sh", "bin/common.sh", "!x.sh"},
		`[bash, -lc, 'FOO=1 "./bin/run.sh"|tee log']`: {"bin/run.sh", "bin/lib", "!log"},
		`[sh, -c, "cd srv; make serve"]`:              {"Makefile", "sub/makefile", "x.sh", "!x.txt"},
		`[sh, -c, "python3 -m pkg.srv"]`:              {"pkg/srv.py", "pkg/x", "other.py", "!x.txt"},
		"[env, X=srv/a.py, sh]":                       {"srv/a.py", "srv/b", "!bin/x"},
		"[node, --import=./srv/a, app]":               {"srv/a.py", "app/lib/x.js", "!data/x"},
		"[ruby, -Isrv, -r./bin/run, bin/run.sh]":      {"bin/x", "bin/run.sh"},
		"[files-server, ., data]":                     {"!data/y", "data/package.json", "data/index.js", "!x.py"},
		"[cat, --config=conf/c.json]":                 {"conf/c.json", "conf/plugin.js", "!x.js"},
		"[cat, \"@conf/c.json\"]":                     {"conf/c.json", "conf/plugin.js"},
		"[./tool]":                                    {"tool", "x.py", "!x.txt"},
		"[python3, -m, pkg]":                          {"pkg/a", "pkg.py", "other.py", "pyproject.toml", "!data/y"},
		`[python3, -c, "import helpers"]`:             {"helpers.py", "!x.txt"},
		"[go, run, ./cmd/srv]":                        {"cmd/srv/x.go", "internal/a.go", "go.mod", "!README.md"},
		"[go, version]":                               {"go.mod", "!internal/a.go"},
		"[npm, start]":                                {"package.json", "node_modules/x/y", "src/a.js", ".npmrc", "!README.md"},
		"[make, serve]":                               {"Makefile", "GNUmakefile", "rules.mk", "src/a.c", "!README.md"},
		"[python3, -u, -m, pkg]":                      {"pkg/a", "pkg.py", "other.py", "pyproject.toml", "!data/y"},
		"[python3.11, -ubmpkg]":                       {"pkg/a", "other.py", "!data/y"},
		"[env, A=b, python3, -m, pkg]":                {"pkg/a", "other.py", "!data/y"},
		"[uv, run, -m, pkg]":                          {"pkg/a", "other.py", "uv.lock", "!data/y"},
		"[uv, run, --module, pkg]":                    {"pkg/a", "other.py", "!data/y"},
		"[uv, run, --module=pkg]":                     {"pkg/a", "other.py", "!data/y"},
		"[uv, run, --modules=pkg, srv/a.py]":          {"srv/b", "uv.toml", "!other.py"},
		"[python3, srv/a.py, -umbrella]":              {"srv/a.py", "!other.py", "!umbrella.py"},
		`[sh, -c, "python3 -u -m 'pkg.srv'"]`:         {"pkg/srv.py", "pkg/x", "other.py", "!x.txt"},
		`[sh, -c, "$(make)"]`:                         {"Makefile", "x.c", "!x.txt"},
		"[env, make]":                                 {"Makefile", "x.c", "!x.txt"},
		"[nice, -n5, go, -C, ., run, .]":              {"go.mod", "internal/a.go", "!README.md"},
		"[node, named]":                               {"named.js", "other.js", "!x.txt"},
		"[env, node, srv/plain]":                      {"srv/plain.mjs", "srv/x", "!other.js"},
		"[server, named]":                             {"!named.js", "!other.js"},
		"[server, data/app.sqlite]":                   {"data/app.sqlite", "!data/y", "!x.py"},
		"[server, \"https://example.com/srv/a.py\"]":  {"!srv/b", "!x.py"},
	} {
		dir := place(t, files)
		p := protectionOf(t, dir, "servers: {s: {command: "+command+", tools: {x: {}}}}")
		wants(t, command, p.Protected, paths...)
	}
}

// What a command runs of a workspace has a digest: build files by whatever case they are
// written in, and no folder of what is installed. Older locks have those of modules alone.
func TestWhatHasADigest(t *testing.T) {
	dir := place(t, map[string]string{"Makefile": "", "sub/Makefile": "", "x.c": "", "x.txt": "", "Cargo.toml": "", ".cargo/config.toml": "", "pyproject.toml": "", "pkg/srv.py": "", "pkg/data": "", "mod/__main__.py": "",
		"node_modules/a/index.css": "", ".npmrc": "", ".venv/bin/tool": ""})
	for _, c := range []struct {
		command []string
		older   bool
		want    string
	}{
		{[]string{"make"}, false, "Makefile mod/__main__.py pkg/srv.py sub/Makefile x.c"},
		{[]string{"env", "cargo", "run"}, false, ".cargo/config.toml Cargo.toml mod/__main__.py pkg/srv.py x.c"},
		{[]string{"npx", "server"}, false, ".npmrc"},
		{[]string{"uv", "run", "server"}, false, "pyproject.toml"},
		{[]string{"python3", "-m", "pkg.srv"}, false, "mod/__main__.py pkg/data pkg/srv.py pyproject.toml x.c"},
		{[]string{"python3", "-m", "pkg.srv"}, true, "pkg/srv.py"},
		{[]string{"python3", "-m", "mod"}, true, "mod/__main__.py"},
		{[]string{"make"}, true, ""},
	} {
		files, err := workspace.Command{Argv: c.command}.Code(dir, !c.older, func(string, string) bool { return false })
		if got := strings.Join(slices.Sorted(maps.Keys(files)), " "); got != c.want || err != nil {
			t.Errorf("%v: %s: %v", c.command, got, err)
		}
	}
}

// A program that runs its folder whatever it is told has all code there protected, wherever exec
// may start it. One that does so at a word alone has not: its agents write code and try it.
func TestProgramsThatRunTheirFolder(t *testing.T) {
	of := func(program string) *workspace.Protection {
		return protectionOf(t, place(t, map[string]string{"sub/x": ""}), `servers: {builtin: {roots: ["."], programs: [`+program+`], tools: {write_file: {}}}}`)
	}
	p := of("make")
	wants(t, "make", p.Protected, "a.go", "sub/a.py", "Makefile", "sub/Makefile", "!x.txt")
	wants(t, "make, reviewed", p.Reviewed().Protected, "!a.go", "!sub/a.py", "!Makefile")
	wants(t, "go", of("go").Protected, "!a.go", "!sub/a.go", "go.mod", "sub/go.mod")
	wants(t, "others", of("python3, pytest, node").Protected, "!a.py", "!a.js", "!pyproject.toml")
}

// What a server or a worker has started is told by the same files, in a worktree, too, and nothing
// opens them. Those of a program that is listed by its name alone are opened by theirs.
func TestBuildFiles(t *testing.T) {
	for _, c := range []struct{ name, manifest, workspace, copied string }{
		{"a program", `{builtin: {roots: ["."], programs: [npm, go], tools: {write_file: {}}}}`, "package.json sub/package.json node_modules/x/y go.mod sub/go.sum", "!package.json !sub/package.json !node_modules/x/y !go.mod .npmrc"},
		{"opened", `{builtin: {roots: ["."], programs: [npm, go], tools: {write_file: {}}, writable: ["**/package.json", "sub/go.*", "**/*.json", "**/*.js"]}}`,
			"!package.json !sub/package.json package-lock.json node_modules/a.js go.mod sub/go.mod", "!package-lock.json"},
		{"a server", `{builtin: {roots: ["."], programs: [npm], tools: {write_file: {}}, writable: ["**/package.json"]}, s: {command: [npm, start], tools: {x: {}}}}`, "package.json", "package.json node_modules/x/y"},
	} {
		dir, tree := place(t, map[string]string{"x": ""}), place(t, map[string]string{"x": ""})
		p := protectionOf(t, dir, "servers: "+c.manifest)
		wants(t, c.name, p.Protected, strings.Fields(c.workspace)...)
		wants(t, c.name+", in a worktree", p.Copy(tree).Protected, strings.Fields(c.copied)...)
	}
	worker := protectionOf(t, place(t, map[string]string{"tools/make": ""}), "{servers: {builtin: {programs: [make], tools: {exec: {}}}}, workers: {w: {type: claude, command: tools/make}}}")
	wants(t, "a worker", worker.Reviewed().Protected, "Makefile", "sub/Makefile")
}

// A build file that runs may write has no digest, where it is that of a program.
func TestOpenedBuildFilesHaveNoDigest(t *testing.T) {
	dir := place(t, map[string]string{"package.json": "{}", "package-lock.json": "{}", "sub/package.json": "{}", "go.mod": "", "go.sum": ""})
	m, problems := workspace.Parse("", []byte(`servers: {builtin: {writable: ["**/package.json", go.mod], tools: {write_file: {}}}}`))
	if problems != nil {
		t.Fatal(problems)
	}
	for _, c := range []struct {
		kind, want string
		argv       []string
	}{
		{workspace.KindProgram, "package-lock.json", []string{"npm"}},
		{workspace.KindServer, "package-lock.json package.json sub/package.json", []string{"npm", "start"}},
		{workspace.KindProgram, "go.sum", []string{"go"}},
	} {
		files, err := workspace.Command{Kind: c.kind, Argv: c.argv}.Code(dir, true, m.Opened)
		if got := strings.Join(slices.Sorted(maps.Keys(files)), " "); got != c.want || err != nil {
			t.Errorf("%s %v: %s: %v", c.kind, c.argv, got, err)
		}
	}
}

// What is opened is named: a wildcard names nothing, and some things cannot be opened.
func TestWritableOpensWhatItNames(t *testing.T) {
	dir := place(t, map[string]string{"srv.py": "", "lib/x.py": "", "link/": ""})
	if err := os.Symlink("../.github/workflows", filepath.Join(dir, "link/to")); err != nil {
		t.Fatal(err)
	}
	manifest := `
servers:
  builtin: {roots: ["."], programs: [make], tools: {write_file: {}}, writable: ["docs/**", ".github/workflows/*.yml", "**/CLAUDE.md", ".vscode/**", "src/**/*.py", "**", ".git/hooks/*", "srv.py", "*.yaml"]}
  py: {command: [python3, ./srv.py], tools: {x: {}}}
`
	p := protectionOf(t, dir, manifest)
	wants(t, "opened", p.Protected, "!.github/workflows/ci.yml", "!CLAUDE.md", "!deep/CLAUDE.md", "!.vscode/a/b", "!src/a/b.py", "!docs/a.md",
		".github/workflows/ci.sh", ".github/workflows/sub/ci.yml", "AGENTS.md", ".idea/x", "lib/x.py", "src/a.js", "Makefile", "srv.py", ".git/hooks/x", "tipstaff.yaml", "docs/CLAUDE.md/../../AGENTS.md",
		"!link/to/ci.yml", "link/to/ci.sh", "docs/.git/x", "docs/a.py")
	idle := p.Idle()
	wants(t, "opened by its kind", protectionOf(t, dir, `servers: {builtin: {roots: ["."], tools: {write_file: {}}, writable: ["*.code-workspace", "**", .worktreeinclude, "*.sublime-*"]}}`).Protected,
		"!x.code-workspace", "x.sublime-project", ".worktreeinclude", "!.gitattributes")
	for i, want := range []string{".git/hooks/*", "srv.py"} {
		if len(idle) != 2 || !strings.HasPrefix(idle[i], want+": ") {
			t.Errorf("idle: %q", idle)
		}
	}
	m, _ := workspace.ParseIn(workspace.Beside(dir), workspace.FileName, []byte(manifest)) // as it was parsed above
	if !m.Opened("src/a/b.py", "") || m.Opened("lib/x.py", "") || m.Opened("docs/x.py", "") {
		t.Error("what is opened has a digest, or what is not has none")
	}
}

func TestWritableNarrows(t *testing.T) {
	dir := place(t, map[string]string{"docs/a.md": "", "secret/": ""})
	if err := errors.Join(os.Symlink("../docs", filepath.Join(dir, "secret/door")), os.Symlink("../secret", filepath.Join(dir, "docs/out"))); err != nil {
		t.Fatal(err)
	}
	p := protectionOf(t, dir, `servers: {builtin: {roots: ["."], tools: {write_file: {}}, writable: ["docs/**", "*.txt"]}}`)
	wants(t, "write_file", p.Unwritable, "!docs/a.md", "!docs/new/b", "!x.txt", "sub/x.txt", "src/a", "Docs/a", "docs/out/x", "!secret/door/x", "docs/../src/a", "docs/.git/config")
	wants(t, "others", p.Protected, "!src/a", "!sub/x.txt", "docs/.git/config")
}

// A worktree has the files of the workspace under other paths. What make and such find there is
// what a person is shown; what they are told by is not.
func TestACopyIsProtectedAsTheWorkspace(t *testing.T) {
	dir, tree := place(t, map[string]string{"srv/main.py": "", "prompts/x": ""}), place(t, map[string]string{"tipstaff.yaml": "", "srv/main.py": "", ".git": "gitdir: elsewhere"})
	p := protectionOf(t, dir, `
prompts: prompts
servers:
  builtin: {roots: ["."], programs: [npm], tools: {write_file: {}}}
  py: {command: [python3, srv/main.py], tools: {x: {}}}
`)
	wants(t, "workspace", p.Protected, filepath.Join(dir, "src/a.js"), "src/a.js", "srv/x", "package.json")
	wants(t, "reviewed", p.Reviewed().Protected, "!src/a.js", "srv/x", "!package.json", "prompts/new.md", "CLAUDE.md", ".npmrc")
	in := func(name string) string { return filepath.Join(tree, name) }
	wants(t, "copy", p.Copy(tree).Protected, "!"+in("src/a.js"), in("srv/x"), in("srv/main.py"), "!"+in("package.json"), "!"+in("node_modules/x/index.js"), in("prompts/new.md"), in("tipstaff.yaml"), in(".git"), in(".git/x"), in(".mcp.json"),
		"!"+in("src/b.txt"), "srv/y", "!z.txt", filepath.Join(dir, "srv/main.py"))
	other := strings.ToUpper(tree) // as some file systems know it, too
	wants(t, "copy, spelled otherwise", p.Copy(tree).Protected, other+"/srv/x", other+"/prompts/new.md", "!"+other+"/docs/x")
}

// A workspace in a worktree, or around one, is protected as in the checkout: what make finds there
// is what a person is shown.
func TestOtherWorkspacesOfACopy(t *testing.T) {
	outer := place(t, map[string]string{"tipstaff.yaml": "prompts: in/words", "in/tipstaff.yaml": "{}"})
	dir, tree := filepath.Join(outer, "in"), place(t, map[string]string{"nested/tipstaff.yaml": "{servers: {builtin: {programs: [make]}}, prompts: words}", "tipstaff.yaml": "{}"})
	p := protectionOf(t, dir, "{}")
	wants(t, "workspace", p.Protected, "words/x", "!x")
	in := func(name string) string { return filepath.Join(tree, name) }
	wants(t, "copy", p.Copy(tree).Protected, in("words/x"), "!"+in("nested/Makefile"), in("nested/words/x"), "!"+in("nested/a.c"), "!"+in("a.c"))
	wants(t, "itself", protectionOf(t, tree, "{}").Protected, in("nested/Makefile"), in("nested/words/x"), in("nested/a.c"), "!"+in("a.c"))
}

// What is to be protected may be a link to what does not exist yet.
func TestTheTargetOfALinkIsProtectedBeforeItIsThere(t *testing.T) {
	dir := place(t, map[string]string{"x": ""})
	if err := os.Symlink("later/skills", filepath.Join(dir, "skills")); err != nil {
		t.Fatal(err)
	}
	wants(t, "skills", protectionOf(t, dir, "{}").Protected, "skills/a", "skills", "later/skills/a", "later/skills", "later", "!later/x")
}

// What a worktree has a link to is not written through it, nor where it lies, and nothing opens it.
func TestWhatIsLinkedIsProtected(t *testing.T) {
	dir, tree := place(t, map[string]string{"deps/x.js": "", "sub/cache/x": ""}), place(t, map[string]string{"src/a": ""})
	if err := os.Symlink(filepath.Join(dir, "deps"), filepath.Join(tree, "deps")); err != nil {
		t.Fatal(err)
	}
	m, problems := workspace.ParseIn(workspace.Beside(dir), workspace.FileName, []byte(`
servers: {builtin: {roots: ["."], tools: {write_file: {}}, writable: ["deps/**/*.js", "**"]}}
worktree: {link: [deps]}
`))
	if problems != nil {
		t.Fatal(problems)
	}
	p := workspace.Protect(m.Linking([]string{"**/cache"}), workspace.Around{Dir: dir, Env: func(string) string { return "" }})
	wants(t, "workspace", p.Protected, "deps", "deps/x.js", "deps/new/y", "sub/cache", "sub/cache/x", "cache/new", "!sub/caches", "!dep", "!x")
	wants(t, "write_file", p.Unwritable, "deps/x.js", "sub/cache/x", "!x")
	wants(t, "worktree", p.Copy(tree).Protected, filepath.Join(tree, "deps/x.js"), filepath.Join(tree, "deps"), filepath.Join(tree, "src/cache/x"), filepath.Join(dir, "deps/x.js"), "!"+filepath.Join(tree, "src/a"))
	wants(t, "without the program", workspace.Protect(m, workspace.Around{Dir: dir}).Protected, "deps/x.js", "!sub/cache/x")
	if f, _, _ := p.Change("deps/new"); f.Rule != workspace.RuleLinked {
		t.Errorf("it is found by rule %d", f.Rule)
	}
}

// What a folder has become since it was looked at counts.
func TestFoldersAreLookedAtAgain(t *testing.T) {
	dir := place(t, map[string]string{"a/objects/x": "", "a/refs/x": "", "b/x": ""})
	p := protectionOf(t, dir, "{}")
	wants(t, "before", p.Protected, "!a/x", "!b/run/x", "!b/x", "a/HEAD")
	time.Sleep(150 * time.Millisecond) // until what is known is kept
	wants(t, "kept", p.Protected, "!a/x", "!b/run/x")
	put(t, dir, "a/HEAD", "ref: x")
	put(t, dir, "b/tipstaff.yaml", "servers: {s: {command: [python3, run/it.py], tools: {x: {}}}}")
	wants(t, "after", p.Protected, "a/x", "b/run/x", "b/skills/x", "!b/x")
	time.Sleep(150 * time.Millisecond)
	wants(t, "kept", p.Protected, "b/run/x")
	put(t, dir, "b/tipstaff.yaml", "servers: {s: {command: [python3, other/it.py], tools: {x: {}}}}")
	wants(t, "edited", p.Protected, "b/other/x", "!b/run/x")
	if err := os.RemoveAll(filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".git", filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	wants(t, "link", p.Protected, "b/x", "b/run/x")
}

// What git is told is read without git, and without waiting for what is no file.
func TestWhatGitIsToldToObey(t *testing.T) {
	home := place(t, map[string]string{".gitconfig": "[core]\n\tattributesfile = ~/attrs\n[include]\n path = in/home.inc\n[include]\n\tpath = ~root/of-root\n", "in/home.inc": "[Core]\nHooksPath=\"home hooks\" # theirs\n"})
	dir := place(t, map[string]string{
		".git/config": "# c\n[core]\n\trepositoryformatversion = 0\n\thooksPath = \"ho\\\"oks\"\n[include] path = ../inc/a\n[includeIf \"gitdir:/no]where/\"]\n\tpath = ../inc/\\\nb ; comment\n[include]\npath = ../fifo\n[Include]\npath=../inc/a\n",
		"inc/a":       "[core]\n\texcludesFile = deep/ignore\n[include]\n\tpath = a\n", "inc/b": "[core \"sub\"]\n\tattributesFile = attrs-b\n", "linked/sub/": "",
	})
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, _ := workspace.Parse("", []byte("{}"))
	root, err := user.Lookup("root")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p := workspace.Protect(m, workspace.Around{Dir: dir, Env: func(name string) string { return map[string]string{"HOME": home}[name] }})
		wants(t, "git", p.Protected, "ho\"oks/pre-commit", "inc/a", "inc/b", "fifo", "deep/ignore", "attrs-b", "home hooks/x", filepath.Join(home, "attrs"), filepath.Join(home, "in/home.inc"),
			filepath.Join(home, ".gitconfig"), filepath.Join(home, ".config/git/config"), filepath.Join(home, ".config/git/attributes"), filepath.Join(root.HomeDir, "of-root"), "!"+filepath.Join(home, ".config/other"),
			"!inc/c", "!deep/x", "!hooks/x", "!"+filepath.Join(home, "x"))
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for the pipe")
	}
	worktree := place(t, map[string]string{".git": "gitdir: " + filepath.Join(dir, ".git/worktrees/w"), "x": ""})
	put(t, dir, ".git/worktrees/w/commondir", "../..\n")
	p := workspace.Protect(m, workspace.Around{Dir: worktree, Env: func(string) string { return "" }})
	wants(t, "worktree", p.Protected, "ho\"oks/pre-commit", filepath.Join(dir, ".git/worktrees/w/x"), filepath.Join(dir, ".git/y"), "!z")
}

// Names are compared as the least particular file system would.
func TestNamesAreFolded(t *testing.T) {
	dir := place(t, map[string]string{"Skripte/é.py": ""})
	p := protectionOf(t, dir, "servers: {s: {command: [python3, Skripte/é.py], tools: {x: {}}}}")
	wants(t, "folded", p.Protected, "skripte/x", "SKRIPTE/x", "s\u212aripte/x", "Skripte/e\u0301.py", "tipstaff.yaml.", "tipstaff.yaml ", "TIPSTAFF.YAML::$DATA", "git~1/config", ".git\u200d/x", ".Git/x", "claude.md. .",
		"!skript/x", "!tipstaff.yam", "!git/x", "!...")
	if why, protected := p.Protected("Skripte"); !protected {
		t.Error("the folder itself may be replaced", why)
	}
}

// Where a path cannot be followed nothing is written.
func TestWhatCannotBeFollowedIsProtected(t *testing.T) {
	dir := place(t, map[string]string{"x": ""})
	if err := errors.Join(os.Symlink("loop", filepath.Join(dir, "loop")), os.Symlink(".git/hooks", filepath.Join(dir, "dangling")), os.Symlink("gone/../.tipstaff", filepath.Join(dir, "far"))); err != nil {
		t.Fatal(err)
	}
	p := protectionOf(t, dir, "{}")
	wants(t, "links", p.Protected, "loop/x", "loop", "dangling", "dangling/x", "x/../dangling/x", "far/keys", "!gone/new/x", strings.Repeat("n", 300))
	wants(t, "replaced", p.Unwritable, "!dangling", "dangling/x")
	if rules := slices.Collect(func(yield func(workspace.Rule) bool) {
		for _, path := range []string{".git/x", "tipstaff.yaml", ".envrc"} {
			f, _, _ := p.Change(path)
			yield(f.Rule)
		}
	}); !slices.Equal(rules, []workspace.Rule{workspace.RuleOwn, workspace.RuleObeyed, workspace.RuleSetting}) {
		t.Errorf("rules %v", rules)
	}
}
