package workspace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/delivery"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/worker"
	"github.com/tipstaff/tipstaff/workspace"
)

const guarded = `
allowed_effects: [read, idempotent, once]
servers:
  builtin:
    roots: ["."]
    programs: [make, "true"]
    tools: {write_file: {}, exec: {}}
  py: {command: [python3, -u, srv/main.py]}
  sh: {command: [sh, -c, "cd . && exec ./bin/run.sh --quiet"]}
  cfg: {command: [cat, --config=conf/js.json]}
  mod: {command: [cat], env: {PYTHONPATH: "lib:/elsewhere"}}
  tree: {command: [node, app]}
  task: {command: [make, serve]}
workers: {own: {type: claude, command: ./cli/claude}}
policy: {file: rules/policy.yaml}
models_file: tables/models.yaml
prompts: words
anchor: {file: anchors.log}
serve: {programs: [served]}
worktree: {link: [deps, "vendor/*/out"]}
`

// guardedPaths are what no run writes. No program is started in the folder of one, unless the
// file alone is protected: what a program writes there is for a box to refuse.
var guardedPaths = []struct {
	path  string
	alone bool
	why   string
}{
	// what is Tipstaff's and git's own
	{".tipstaff/keys/user.key", false, "belongs to Tipstaff"}, {".tipstaff/new/x", false, "belongs to Tipstaff"}, {"sub/.tipstaff/tipstaff.db", false, "belongs to Tipstaff"},
	{".git/config", false, "git"}, {".git/hooks/post-commit", false, "git"}, {"sub/.git/config", false, "git"}, {"sub/deep/.git/info/attributes", false, "git"}, {".GIT/config", false, "git"},
	{".git./hooks/x", false, "git"}, {".g\u200cit/config", false, "git"}, {"hooks.d/pre-commit", false, "git is told to obey hooks.d"}, {"gitinc/extra", true, "git is told to obey gitinc/extra"},
	{"attrs/attributes", true, "git is told to obey attrs/attributes"}, {"bare.git/config", false, "git"}, {"half.git/HEAD", true, "git"}, {"half.git/head", true, "git"},
	// what decides
	{"tipstaff.yaml", true, "what runs may do"}, {"tipstaff.lock", true, "what runs may do"}, {"Tipstaff.YAML", true, "what runs may do"}, {"sub/tipstaff.yaml", true, "what runs may do"},
	{"tip\u017ftaff.yaml", true, "what runs may do"}, {"rules/policy.yaml", true, "rules/policy.yaml"}, {"tables/models.yaml", true, "tables/models.yaml"},
	{"words/system.md", false, "words"}, {"words/new/x.md", false, "words"}, {"skills/a/skill.yaml", false, "skills"}, {"skills/a/scripts/run.sh", false, "skills"},
	{"served/plan.yaml", false, "served"}, {"served/sub/new.yaml", false, "served"}, {"pipelines/p.yaml", false, "pipelines"}, {"anchors.log", true, "anchors.log"},
	{"nested/rules/p.yaml", true, "rules/p.yaml"}, {"nested/run/helper.py", false, "run"},
	// code that is started
	{"srv/main.py", false, "srv"}, {"srv/helpers.py", false, "srv"}, {"srv/lib/deep/util.py", false, "srv"}, {"srv/data.json", false, "srv"}, {"SRV/new.py", false, "srv"},
	{"bin/run.sh", false, "bin"}, {"bin/common.sh", false, "bin"}, {"conf/js.json", false, "conf"}, {"conf/plugin.js", false, "conf"}, {"lib/os.py", false, "lib"},
	{"app/helper.js", false, "app"}, {"app/lib/util.js", false, "app"}, {"cli/claude", false, "cli"}, {"cli/lib.js", false, "cli"}, {"Makefile", true, "server task"}, {"sub/GNUmakefile", true, "server task"},
	{"link/helpers.py", false, "srv"},
	// what worktrees have a link to
	{"deps/x/index.css", false, "worktrees have a link"}, {"Deps/new/x", false, "worktrees have a link"}, {"store/x/a", false, "worktrees have a link"}, {"deps", true, "worktrees have a link"},
	{"vendor/a/out/lib/x", false, "worktrees have a link"},
	// what others obey
	{".claude/settings.json", false, "agents, editors or CI"}, {"sub/.claude/hooks/x", false, "agents"}, {".codex/config.toml", false, "agents"}, {".gemini/settings.json", false, "agents"},
	{".cursor/mcp.json", false, "agents"}, {".opencode/plugin/x.md", false, "agents"}, {".vscode/tasks.json", false, "agents"}, {".idea/workspace.xml", false, "agents"},
	{".github/workflows/ci.yml", false, "agents"}, {"sub/.github/workflows/ci.yml", false, "agents"}, {".husky/pre-commit", false, "agents"}, {".devcontainer/devcontainer.json", false, "agents"},
	{".mcp.json", true, "agents"}, {"opencode.json", true, "agents"}, {".envrc", true, "agents"}, {".npmrc", true, "agents"}, {".pre-commit-config.yaml", true, "agents"},
	{"x.sublime-project", true, "agents"}, {"sub/My.Code-Workspace", true, "agents"}, {"lefthook-local.yml", true, "agents"}, {".lefthook-local.yml", true, "agents"}, {"lefthook.toml", true, "agents"},
	{"mise.local.toml", true, "agents"}, {".mise.local.toml", true, "agents"}, {".config/mise/config.toml", false, "agents"}, {".woodpecker.yaml", true, "agents"}, {".simple-git-hooks.json", true, "agents"},
	{".hg/hgrc", true, "agents"}, {".gdbinit", true, "agents"}, {".lfsconfig", true, "agents"}, {".worktreeinclude", true, "later runs"}, {"sub/.worktreeinclude", true, "later runs"},
	{"CLAUDE.md", true, "agents"}, {"sub/AGENTS.md", true, "agents"}, {"GEMINI.md", true, "agents"}, {"claude.MD", true, "agents"},
}

// unguarded are what runs write.
var unguarded = []string{".gitattributes", "sub/.gitattributes", ".gitmodules", ".config/other", ".hg/x", "sublime-project", "out.txt", "docs/a.md", "src/app.txt", ".github/ISSUE_TEMPLATE.md", "gitignore", ".gitignore", "rules/other.txt", "vendor/a/x", "deps2/x", "tables/other.yaml", "serve", "srv2/x.txt", "nested/text", "sub/x"}

// guardedPlace is a workspace with what guarded names.
func guardedPlace(t testing.TB) (dir string, m *workspace.Manifest, around workspace.Around) {
	t.Helper()
	dir = realDir(t)
	home := realDir(t)
	put := func(name, text string) {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"tipstaff.yaml": guarded, "rules/policy.yaml": "version: 1\nrules: []\n", "tables/models.yaml": "{}", "words/README.md": "",
		"srv/main.py": "", "bin/run.sh": "", "conf/js.json": "{}", "lib/x.py": "", "app/index.js": "", "cli/claude": "", "gitinc/extra": "[core]\n\tattributesFile = attrs/attributes\n",
		"served/a.yaml": "", "nested/tipstaff.yaml": "servers: {s: {command: [python3, run/it.py], tools: {x: {}}}}\npolicy: {file: rules/p.yaml}\n", "nested/run/it.py": "",
		"nested/rules/p.yaml": "version: 1\nrules: []\n", "bare.git/HEAD": "ref: refs/heads/main\n", "bare.git/objects/x": "", "bare.git/refs/x": "", "half.git/objects/x": "", "half.git/refs/x": "", "sub/.git/HEAD": "", "pipelines/x": ""} {
		put(name, text)
	}
	git(t, dir, "", "init", "-q", "-b", "main")
	git(t, dir, "", "commit", "-q", "--allow-empty", "-m", "first")
	git(t, dir, "", "config", "core.hooksPath", "hooks.d")
	git(t, dir, "", "config", "include.path", "../gitinc/extra")
	if err := errors.Join(os.Symlink("srv", filepath.Join(dir, "link")), os.Mkdir(filepath.Join(dir, "store"), 0o755), os.Symlink("store", filepath.Join(dir, "deps")), os.MkdirAll(filepath.Join(dir, ".tipstaff"), 0o700),
		workspace.NoteServed(filepath.Join(dir, ".tipstaff"), filepath.Join(dir, "pipelines"))); err != nil {
		t.Fatal(err)
	}
	m, problems := workspace.ParseIn(workspace.Beside(dir), "tipstaff.yaml", []byte(guarded))
	if problems != nil {
		t.Fatal(problems)
	}
	return dir, m, workspace.Around{Dir: dir, Env: func(name string) string { return map[string]string{"HOME": home}[name] }}
}

func realDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func git(t testing.TB, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir + "/nohome", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// A writer tries to write a path. What is refused says why.
type writer struct {
	refused func(path string) (why string, refused bool)
	alone   bool // it is refused files of the workspace's own folder, too
}

// writersOf are all ways in which a run writes in the workspace.
func writersOf(t *testing.T, dir string, m *workspace.Manifest, around workspace.Around) map[string]writer {
	t.Helper()
	p := workspace.Protect(m, around)
	c := m.Servers[builtin.Name]
	tools := builtin.New(builtin.Options{Workspace: dir, Roots: c.Roots, Programs: c.Programs, Protection: p})
	call := func(tool string, args map[string]any) (string, bool) {
		r, err := tools.Call(t.Context(), builtin.Call{Tool: tool, Args: flow.JSON(args)})
		if err != nil {
			t.Fatal(err)
		}
		return r.Text, r.Failed
	}
	writers := map[string]writer{
		"builtin/write_file": {alone: true, refused: func(path string) (string, bool) {
			return call("write_file", map[string]any{"path": path, "content": "mine"})
		}},
		"builtin/exec": {refused: func(path string) (string, bool) {
			cwd := filepath.Dir(path)
			if err := os.MkdirAll(filepath.Join(dir, cwd), 0o755); err != nil {
				t.Fatal(err)
			}
			return call("exec", map[string]any{"argv": []string{"true"}, "cwd": cwd})
		}},
		"delivery/apply": {alone: true, refused: func(path string) (string, bool) { return applied(t, dir, p, path) }},
	}
	hook := func(typ, tool, argument string) {
		writers["worker-"+typ+"/"+tool] = writer{alone: true, refused: func(path string) (string, bool) {
			rules := worker.NewPolicy(worker.PolicyOptions{Frozen: allowAll{}, Type: typ, Dir: dir, Protected: p.Protected})
			r := rules.Decide(t.Context(), worker.Request{Tool: "worker-" + typ + "/" + tool, Class: "once", Args: flow.JSON(map[string]string{argument: path})})
			return r.Why, r.Effect == worker.Deny && slices.Equal(r.Rules, []string{"builtin/outside"})
		}}
	}
	for _, tool := range []string{"Edit", "Write", "MultiEdit"} {
		hook("claude", tool, "file_path")
	}
	hook("claude", "NotebookEdit", "notebook_path")
	hook("scripted", "write_file", "path")
	return writers
}

type allowAll struct{}

func (allowAll) Static(string, string, string) worker.Ruling {
	return worker.Ruling{Effect: worker.Allow}
}
func (allowAll) Decide(string, string, string, json.RawMessage) worker.Ruling {
	return worker.Ruling{Effect: worker.Allow}
}

// applied tries to apply a commit that changes a path, whatever git itself would let stand there.
func applied(t *testing.T, dir string, p *workspace.Protection, path string) (string, bool) {
	t.Helper()
	base := commitOf(t, dir)
	return appliedFrom(t, dir, p, base, commitOf(t, dir, path))
}

// commitOf is a commit with these files, each with two words in it.
func commitOf(t *testing.T, dir string, paths ...string) string {
	t.Helper()
	var tree func(paths []string) string
	tree = func(paths []string) string {
		at, folders := "", map[string][]string{}
		for _, path := range paths {
			if folder, rest, deeper := strings.Cut(path, "/"); deeper {
				folders[folder] = append(folders[folder], rest)
			} else {
				at += "100644 blob " + git(t, dir, "of "+path, "hash-object", "-w", "--stdin") + "\t" + path + "\n"
			}
		}
		for folder, below := range folders {
			at += "040000 tree " + tree(below) + "\t" + folder + "\n"
		}
		return git(t, dir, at, "mktree")
	}
	return git(t, dir, "", "commit-tree", "-m", "some files", tree(paths))
}

// appliedFrom tries to apply the change from one commit to another.
func appliedFrom(t *testing.T, dir string, p *workspace.Protection, base, commit string) (string, bool) {
	t.Helper()
	g := &delivery.Git{Temp: t.TempDir(), Env: func(name string) string { return map[string]string{"HOME": dir, "PATH": os.Getenv("PATH")}[name] },
		Run: func(ctx context.Context, dir string, env []string, stdin []byte, args ...string) ([]byte, error) {
			cmd := exec.CommandContext(ctx, "git", args...)
			cmd.Dir, cmd.Env, cmd.Stdin = dir, env, bytes.NewReader(stdin)
			var out, said bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &said
			err := cmd.Run()
			if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
				err = &delivery.ExitError{Code: exit.ExitCode(), Stderr: said.String()}
			}
			return out.Bytes(), err
		}}
	r, err := delivery.Open(t.Context(), g, dir)
	if err != nil {
		t.Fatal(err)
	}
	why := map[string]string{}
	r.Protection = func(there []string) func(path string) (delivery.Protected, bool) {
		making := p.Reviewed().Making(there)
		return func(path string) (delivery.Protected, bool) {
			f, opened, found := making.Change(path)
			if why[path] = f.Why; opened {
				return delivery.Protected{}, false
			}
			return delivery.Protected{Apply: tipstaff.ApplyNever}, found
		}
	}
	fit, names, err := r.Fit(t.Context(), base, commit)
	if err != nil {
		t.Fatal(err)
	}
	if fit == delivery.Fits { // what is looked at is done
		fit, err = r.Apply(t.Context(), base, commit)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		names[i] += ": " + why[filepath.Join(dir, name)]
	}
	return strings.Join(names, "; "), fit == delivery.Refused
}

// Files none of which git obeys may together be a repository, whose configuration git obeys for
// whoever asks it there: `apply` brings none of them, whatever is there already.
func TestApplyMakesNoRepository(t *testing.T) {
	bare := func(at string) []string {
		return []string{at + "HEAD", at + "config", at + "objects/.keep", at + "refs/.keep"}
	}
	for _, c := range []struct {
		name               string
		there, base, after []string // files of the checkout that git does not know, of the base, and after the change
		refused            string
	}{
		{"a new repository", nil, nil, bare("foo/"), "foo/HEAD foo/config foo/objects/.keep foo/refs/.keep"},
		{"deep below", nil, nil, append(bare("a/b/c/d/"), "a/b/x"), "a/b/c/d/HEAD a/b/c/d/config a/b/c/d/objects/.keep a/b/c/d/refs/.keep"},
		{"half of it in the base", nil, []string{"foo/objects/x", "foo/refs/x"}, []string{"foo/HEAD", "foo/objects/x", "foo/refs/x"}, "foo/HEAD"},
		{"half of it ignored in the checkout", []string{"foo/objects/x", "foo/HEAD"}, nil, []string{"foo/refs/heads/x", "foo/config"}, "foo/config foo/refs/heads/x"},
		{"spelled as other file systems read it", nil, nil, []string{"Foo/Head", "foo/objects/x", "FOO/refs/x", "foo/config"}, "FOO/refs/x Foo/Head foo/config foo/objects/x"},
		{"half of it spelled otherwise", nil, []string{"foo/OBJECTS/x", "foo/refs/x"}, []string{"Foo/HEAD", "foo/OBJECTS/x", "foo/refs/x"}, "Foo/HEAD"},
		{"that of a worktree", nil, nil, []string{"w/HEAD", "w/commondir", "w/gitdir"}, "w/HEAD w/commondir w/gitdir"},
		{"moved into its place", nil, []string{"HEAD.txt", "foo/objects/x", "foo/refs/x"}, []string{"foo/HEAD", "foo/objects/x", "foo/refs/x"}, "foo/HEAD"},
		{"a file that names one", nil, nil, []string{"foo/.git"}, "foo/.git"},
		{"two of three", nil, nil, []string{"foo/objects/x", "foo/refs/x", "HEAD", "foo/x/HEAD", "foo/config"}, ""},
		{"in two folders", nil, []string{"foo/HEAD"}, []string{"foo/HEAD", "bar/objects/x", "bar/refs/x"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := realDir(t)
			git(t, dir, "", "init", "-q", "-b", "main")
			base := commitOf(t, dir, c.base...)
			git(t, dir, "", "reset", "-q", "--hard", base)
			for _, name := range c.there {
				at := filepath.Join(dir, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, nil, 0o644), os.WriteFile(filepath.Join(dir, ".git/info/exclude"), []byte("foo\n"), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			names, refused := appliedFrom(t, dir, workspace.Protect(nil, workspace.Around{Dir: dir, Env: func(string) string { return "" }}), base, commitOf(t, dir, c.after...))
			var got []string
			for _, name := range strings.Split(names, "; ") {
				name, why, _ := strings.Cut(name, ": ")
				if got = append(got, name); refused && !strings.Contains(why, "git repository") {
					t.Errorf("%s: %s", name, why)
				}
			}
			if strings.Join(got, " ") != c.refused || refused != (c.refused != "") {
				t.Errorf("refused %v: %q, not %q", refused, got, c.refused)
			}
			if status := git(t, dir, "", "status", "--porcelain", "-uall"); refused && status != "" {
				t.Errorf("the checkout has changed:\n%s", status)
			}
		})
	}
}

// Whoever writes for a run refuses the same, and says why.
func TestNoWriterWritesWhatIsProtected(t *testing.T) {
	dir, m, around := guardedPlace(t)
	if n := len(slices.DeleteFunc(slices.Clone(guardedPaths), func(g struct {
		path  string
		alone bool
		why   string
	}) bool {
		return g.alone
	})); n < 40 {
		t.Fatalf("%d paths are for all writers", n)
	}
	for name, w := range writersOf(t, dir, m, around) {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			for _, g := range guardedPaths {
				if g.alone && !w.alone {
					continue
				}
				if why, refused := w.refused(g.path); !refused || !strings.Contains(why, g.why) {
					t.Errorf("%s: refused %v: %s", g.path, refused, why)
				}
			}
			for _, path := range unguarded {
				if why, refused := w.refused(path); refused {
					t.Errorf("%s is refused: %s", path, why)
				}
			}
		})
	}
}

// A new way to write needs a row in writersOf, or a reason here why it writes nothing there.
func TestEveryWriterHasARow(t *testing.T) {
	dir, m, around := guardedPlace(t)
	writers := writersOf(t, dir, m, around)
	elsewhere := map[string]string{
		"delivery/approve": "makes a branch", "delivery/fix": "starts another run", "delivery/skip": "does nothing", "delivery/halt": "does nothing",
	}
	var names []string
	for _, raw := range builtin.Definitions() {
		var d struct {
			Name        string
			Annotations struct{ ReadOnlyHint bool }
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
		if !d.Annotations.ReadOnlyHint {
			names = append(names, "builtin/"+d.Name)
		}
	}
	for _, action := range tipstaff.DeliveryActions {
		names = append(names, "delivery/"+action)
	}
	for _, typ := range worker.Types() {
		for tool := range worker.Edits(typ) {
			names = append(names, "worker-"+typ+"/"+tool)
		}
	}
	for _, name := range names {
		if _, ok := writers[name]; !ok && elsewhere[name] == "" {
			t.Errorf("%s writes, and no row tries it", name)
		}
	}
	if len(names) < 11 {
		t.Errorf("only %s are known", fmt.Sprint(names))
	}
}
