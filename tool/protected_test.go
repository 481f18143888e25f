package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/tool/tooltest"
	"github.com/tipstaff/tipstaff/workspace"
)

const obeying = `
allowed_effects: [read, idempotent, once]
servers:
  builtin:
    roots: ["."]
    programs: [sh, cat, ./deploy.sh, bin/new]
    tools: {read_file: {}, write_file: {}, list_dir: {}, exec: {}}
  py: {command: [python3, -u, ./srv.py], tools: {x: {}}}
  js: {command: [node, build/index.js, --config=conf/js.json], tools: {x: {}}}
  module: {command: [python3, -m, tools.served], tools: {x: {}}}
  folder: {command: [python3, app], tools: {x: {}}}
  files: {command: [files-server, ".", data], tools: {x: {}}}
  packed: {command: [cat], package: vendor/packed, package_digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000", tools: {x: {}}}
  loaded: {command: [cat], env: {PYTHONPATH: "lib:/elsewhere"}, tools: {x: {}}}
models_file: tables/models.yaml
prompts: words
anchor: {file: anchors.log}
policy: {file: rules/policy.yaml}
`

const oneRule = "version: 1\nrules: [{id: all, tool: '*/*', do: allow}]\n"

// obeyingBench is a workspace whose manifest names much of what is in it.
func obeyingBench(t *testing.T) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{TB: t, dir: dir}
	for name, text := range map[string]string{"tipstaff.yaml": obeying, "rules/policy.yaml": oneRule, "tables/models.yaml": "{}", "words/README.md": "",
		"srv.py": "real", "deploy.sh": "real", "app/__main__.py": "real", "conf/js.json": "{}", "data/a": "a", "lib/x.py": "real"} {
		b.write(name, text)
	}
	m, problems := workspace.ParseIn(workspace.Beside(dir), "tipstaff.yaml", []byte(obeying))
	if problems != nil {
		t.Fatal(problems)
	}
	servers := tool.Servers(m, tool.Launch{Workspace: dir})
	alone := *m
	alone.Servers = map[string]workspace.Server{"builtin": m.Servers["builtin"]}
	return benchWith(t, dir, &alone, servers)
}

// everyFile is what a folder holds, to see that nothing of it has changed.
func everyFile(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		all[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// No run changes what decides about runs, by whatever name it calls it.
func TestNoToolWritesWhatTheManifestRunsOrObeys(t *testing.T) {
	b := obeyingBench(t)
	for link, target := range map[string]string{"ruleslink": "rules", "here": ".", "srv-link.py": "srv.py"} {
		if err := os.Symlink(target, filepath.Join(b.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(b.dir, "deploy.sh"), filepath.Join(b.dir, "data", "innocent")); err != nil {
		t.Fatal(err)
	}
	before := everyFile(t, b.dir)
	for _, path := range []string{
		"tipstaff.yaml", "tipstaff.lock", "Tipstaff.yaml", "rules/policy.yaml", "ruleslink/policy.yaml", "here/here/rules/policy.yaml", "rules", "tables/models.yaml",
		"tables", "words/system.md", "words/new.md", "skills/new/skill.yaml", "skills", "anchors.log", "deploy.sh", "deploy.sh/x", "bin/new", "bin", "srv.py", "SRV.py",
		"json.py", "json/__init__.py", "build/index.js", "build/util.js", "conf/js.json", "conf/other.json", "sub/new.py", "sub/deep/util.js", "tools/served.py", "tools/__init__.py", "tools.py", "app/helper.py",
		"vendor/packed/index.js", "lib/os.py", "data/innocent", "data/__main__.py",
		".git/config", ".git/hooks/post-commit", ".git", "sub/.git/config", ".GIT/config", ".tipstaff/x", "sub/.tipstaff/keys/user.key", "sub/tipstaff.yaml",
	} {
		b.fails(tool.CodeToolError, "write_file", object{"path": path, "content": "mine"})
	}
	for path, text := range everyFile(t, b.dir) {
		if before[path] != text {
			t.Errorf("%s is now %q", path, text)
		}
	}
	for _, path := range []string{"out.txt", "data/b", "sub/new.txt", "rules/other.txt", "tables/other.yaml", "serve"} {
		must[object](b, "write_file", object{"path": path, "content": "mine"})
	}
}

// What is served is the operator's word: neither what the manifest names is written, nor what
// a daemon was told on its command line, while it runs and after.
func TestNoToolWritesWhatIsServed(t *testing.T) {
	b := &bench{TB: t, dir: t.TempDir()}
	b.write("pipelines/p.yaml", "kind: pipeline\n")
	b.write("programs/p.yaml", "kind: plan\n")
	store := filepath.Join(b.dir, ".tipstaff")
	if err := errors.Join(os.Mkdir(store, 0o700), workspace.NoteServed(store, filepath.Join(b.dir, "pipelines")), workspace.NoteServed(store, "/elsewhere")); err != nil {
		t.Fatal(err)
	}
	m := parse(t, everything)
	m.Serve.Programs = []string{"programs"}
	b = benchWith(t, b.dir, m, tool.Servers(m, tool.Launch{Workspace: b.dir}))
	for _, path := range []string{"pipelines/p.yaml", "pipelines/new.yaml", "programs/p.yaml", "programs/sub/new.yaml"} {
		b.fails(tool.CodeToolError, "write_file", object{"path": path, "content": "mine"})
	}
	must[object](b, "write_file", object{"path": "elsewhere.yaml", "content": "mine"})
}

// A command may name what it runs by another way to the workspace, or by a link.
func TestCommandIsFollowed(t *testing.T) {
	b := &bench{TB: t, dir: t.TempDir()}
	other := filepath.Join(t.TempDir(), "door")
	if err := errors.Join(os.Symlink(b.dir, other), os.Symlink("real/srv.py", filepath.Join(b.dir, "srv.py"))); err != nil {
		t.Fatal(err)
	}
	b.write("real/srv.py", "real")
	b.write("far/it.rb", "real")
	m := parse(t, everything)
	m.Servers["a"] = workspace.Server{Command: []string{"python3", "./srv.py", "-m", "."}}
	m.Servers["b"] = workspace.Server{Command: []string{"ruby", filepath.Join(other, "far/it.rb")}}
	servers := tool.Servers(m, tool.Launch{Workspace: b.dir})
	alone := *m
	alone.Servers = map[string]workspace.Server{"builtin": m.Servers["builtin"]}
	b = benchWith(t, b.dir, &alone, servers)
	for _, path := range []string{"srv.py", "real/srv.py", "far/it.rb"} {
		b.fails(tool.CodeToolError, "write_file", object{"path": path, "content": "mine"})
	}
	must[object](b, "write_file", object{"path": "far.txt", "content": "mine"})
}

// A workspace inside this one is as safe as this one.
func TestNestedWorkspaceIsProtected(t *testing.T) {
	b := newBench(t, everything)
	b.write("in/other/tipstaff.yaml", "servers: {s: {command: [python3, run/it.py], tools: {x: {}}}}\npolicy: {file: p.yaml}\nnonsense: here\n")
	b.write("in/other/p.yaml", oneRule)
	b.write("in/other/.tipstaff/keys/user.key", "private")
	b.write("in/other/text", "public")
	for _, path := range []string{"in/other/p.yaml", "in/other/run/it.py", "in/other/run/json.py", "in/other/skills/a/skill.yaml", "in/other/tipstaff.lock"} {
		b.fails(tool.CodeToolError, "write_file", object{"path": path, "content": "mine"})
	}
	must[object](b, "write_file", object{"path": "in/other/text", "content": "mine"})
	b.fails(tool.CodeToolError, "read_file", object{"path": "in/other/.tipstaff/keys/user.key"})
	b.fails(tool.CodeToolError, "list_dir", object{"path": "in/other/.tipstaff"})
	if err := os.Symlink("in/other/.tipstaff", filepath.Join(b.dir, "door")); err != nil {
		t.Fatal(err)
	}
	b.fails(tool.CodeToolError, "list_dir", object{"path": "door"})
	b.fails(tool.CodeToolError, "read_file", object{"path": "door/keys/user.key"})
	if listed := string(flow.JSON(must[object](b, "list_dir", object{"path": ".", "depth": 9}))); strings.Contains(listed, ".tipstaff") || strings.Contains(listed, "user.key") {
		t.Errorf("listed %s", listed)
	}
}

func TestKeyUnderAnotherNameIsNotRead(t *testing.T) {
	b := newBench(t, everything)
	b.write(".tipstaff/keys/user.key", "private")
	b.write("mine", "mine")
	for old, name := range map[string]string{".tipstaff/keys/user.key": "innocent", "mine": "twice"} {
		if err := os.Link(filepath.Join(b.dir, old), filepath.Join(b.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	b.fails(tool.CodeToolError, "read_file", object{"path": "innocent"})
	must[object](b, "read_file", object{"path": "twice"})
}

// git takes a folder for a repository by what is in it, whatever it is called, and
// runs what its config says.
func TestNoToolMakesARepository(t *testing.T) {
	b := newBench(t, everything)
	for _, path := range []string{"bare/config", "bare/objects/x", "bare/refs/x", "tree/HEAD"} {
		must[object](b, "write_file", object{"path": path, "content": "x"})
	}
	contains(t, b.fails(tool.CodeToolError, "write_file", object{"path": "bare/HEAD", "content": "ref: refs/heads/main"}).Message, "git")
	contains(t, b.fails(tool.CodeToolError, "write_file", object{"path": "tree/commondir", "content": "../bare"}).Message, "git")
}

// A path has one spelling, so that no rule about it is evaded by another.
func TestPathsAreClean(t *testing.T) {
	b := newBench(t, strings.Replace(everything, `{id: all, tool: "*/*", do: allow}`,
		`{id: secrets, tool: "builtin/*", when: 'has(args.path) && args.path.startsWith("secrets")', do: deny}, {id: public, tool: "builtin/*", do: allow}`, 1))
	b.write("secrets/s.txt", "secret")
	b.write("public/p.txt", "public")
	for _, path := range []string{"public/../secrets/s.txt", "./secrets/s.txt", "secrets//s.txt", "secrets/./s.txt", "//secrets/s.txt", filepath.Join(b.dir, "secrets/s.txt"),
		"../" + filepath.Base(b.dir) + "/secrets/s.txt", "secrets/s.txt/", "secrets/s.txt/."} {
		e := b.fails(tool.CodeUncleanPath, "read_file", object{"path": path})
		if !e.NotSent || !strings.Contains(string(e.Detail), `"/path"`) {
			t.Errorf("%s: %+v", path, e)
		}
		b.fails(tool.CodeUncleanPath, "write_file", object{"path": path, "content": "x"})
		b.fails(tool.CodeUncleanPath, "list_dir", object{"path": path})
		b.fails(tool.CodeUncleanPath, "exec", object{"argv": []string{"cat"}, "cwd": path})
	}
	b.fails(tool.CodePolicyDenied, "read_file", object{"path": "secrets/s.txt"})
	must[object](b, "read_file", object{"path": "public/p.txt"})
	must[object](b, "list_dir", object{"path": "."})
	must[object](b, "exec", object{"argv": []string{"env"}, "cwd": "public"})
}

// An absolute path leads to another root, never into the first one.
func TestAbsolutePathsLeadToOtherRoots(t *testing.T) {
	b := newBench(t, strings.Replace(everything, `roots: ["."]`, `roots: [one, two, .]`, 1))
	b.write("one/a", "1")
	b.write("two/b", "2")
	if err := os.Symlink("../one", filepath.Join(b.dir, "two", "link")); err != nil {
		t.Fatal(err)
	}
	must[object](b, "read_file", object{"path": filepath.Join(b.dir, "two/b")})
	for _, path := range []string{"one/a", "two/link/a"} {
		e := b.fails(tool.CodeUncleanPath, "read_file", object{"path": filepath.Join(b.dir, path)})
		if !e.NotSent {
			t.Errorf("%s: %+v", path, e)
		}
	}
	b.fails(tool.CodeUncleanPath, "read_file", object{"path": filepath.Join(b.dir, "two") + "/../one/a"})
}

// A run that was made before paths had to be clean goes on as it began.
func TestOlderRunsKeepTheirPaths(t *testing.T) {
	b := oldBench(t, everything)
	b.write("a", "1")
	must[object](b, "read_file", object{"path": "./a"})
	must[object](b, "read_file", object{"path": filepath.Join(b.dir, "a")})
	back, err := workspace.ParseFrozen(b.manifest.Frozen())
	if err != nil || back.CleanPaths || strings.Contains(string(b.manifest.Frozen()), "clean_paths") {
		t.Errorf("%s: %v", b.manifest.Frozen(), err)
	}
	now, err := workspace.ParseFrozen(parse(t, everything).Frozen())
	if err != nil || !now.CleanPaths {
		t.Errorf("a new one: %+v, %v", now, err)
	}
}

// programBench is a bench with a program of the workspace's own, over what a run
// that begins now would freeze.
func programBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, strings.Replace(strings.Replace(everything, "programs: [sh,", "programs: [./deploy.sh, ./later.sh, sh,", 1), "do: allow", "do: ask", 1))
	b.write("deploy.sh", "#!/bin/sh\necho old\n")
	if err := os.Chmod(filepath.Join(b.dir, "deploy.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	data, err := b.gate.Tools.WithPrograms(b.manifest, b.dir).Freeze()
	if err != nil {
		t.Fatal(err)
	}
	if b.gate.Tools, err = tool.LoadFrozen(data); err != nil {
		t.Fatal(err)
	}
	return b
}

// approvedCall is an exec as it is made when a person has allowed it.
func (b *bench) approvedCall(argv ...string) (json.RawMessage, error) {
	a := b.attempt("exec", nil)
	a.Input = flow.JSON(tool.Input{URI: uriOf("exec"), Args: flow.JSON(object{"argv": argv}), By: tipstaff.NewID(time.Now()).String()})
	return b.try(context.Background(), a)
}

func TestApprovalIsOfOneProgram(t *testing.T) {
	b := programBench(t)
	v := b.gate.Ask(tool.Request{URI: uriOf("exec"), Args: flow.JSON(object{"argv": []string{"./deploy.sh", "now"}})})
	var subject struct{ Program struct{ Name, Digest string } }
	if err := json.Unmarshal(v.Subject, &subject); err != nil || v.Do != policy.Ask {
		t.Fatal(v, err)
	}
	if subject.Program.Name != "./deploy.sh" || subject.Program.Digest != flow.Digest([]byte("#!/bin/sh\necho old\n")) {
		t.Errorf("the subject has %+v", subject.Program)
	}
	if value, err := b.approvedCall("./deploy.sh"); err != nil || !strings.Contains(string(value), "old") {
		t.Errorf("got %s, %v", value, err)
	}
	b.write("deploy.sh", "#!/bin/sh\necho new; touch ran\n")
	value, err := b.approvedCall("./deploy.sh")
	e := wantCode(t, tool.CodeProgramChanged, value, err)
	if !e.NotSent || !strings.Contains(e.Message, "deploy.sh") || !strings.Contains(e.Message, "new run") {
		t.Errorf("got %+v", e)
	}
	if _, err := os.Stat(filepath.Join(b.dir, "ran")); err == nil {
		t.Error("the changed program has run")
	}
	b.write("later.sh", "#!/bin/sh\n")
	value, err = b.approvedCall("./later.sh")
	contains(t, wantCode(t, tool.CodeProgramChanged, value, err).Message, "was not there")
}

// What a run has frozen is the program itself, for that run alone: what lies beside it, and what it has
// become before the next run, is what the lock is for.
func TestProgramsAreHeldToTheLock(t *testing.T) {
	b := programBench(t)
	s, _ := b.manifest.Server("builtin")
	l, _, err := new(tool.Lock).WithCode(tool.NewCode(b.manifest, b.dir, ""), s.Program("./deploy.sh"))
	if err != nil {
		t.Fatal(err)
	}
	nextRun := func() {
		b.gate.Tools = b.gate.Tools.WithPrograms(b.manifest, b.dir)
	}
	runs := func(want string) {
		t.Helper()
		if value, err := b.approvedCall("./deploy.sh"); err != nil || !strings.Contains(string(value), want) {
			t.Errorf("got %s, %v", value, err)
		}
	}
	nextRun()
	b.write("lib.sh", "new")
	runs("old") // no lock holds it
	if err := os.Remove(filepath.Join(b.dir, "lib.sh")); err != nil {
		t.Fatal(err)
	}
	b.manager.Hold(l)
	runs("old")
	b.write("lib.sh", "new")
	value, err := b.approvedCall("./deploy.sh")
	e := wantCode(t, tool.CodePackageChanged, value, err)
	contains(t, e.Message, `the file lib.sh, which the program "./deploy.sh" may load, is new`)
	contains(t, string(e.Detail), `"file":"lib.sh"`)
	if value, err := b.approvedCall("sh", "-c", "echo other"); err != nil || !strings.Contains(string(value), "other") {
		t.Errorf("another program: %s, %v", value, err)
	}
	if err := os.Remove(filepath.Join(b.dir, "lib.sh")); err != nil {
		t.Fatal(err)
	}

	b.write("deploy.sh", "#!/bin/sh\ntouch ran\n")
	value, err = b.approvedCall("./deploy.sh")
	wantCode(t, tool.CodeProgramChanged, value, err)
	nextRun()
	value, err = b.approvedCall("./deploy.sh")
	contains(t, wantCode(t, tool.CodePackageChanged, value, err).Message, "tipstaff tools pin program/./deploy.sh")
	if _, err := os.Stat(filepath.Join(b.dir, "ran")); err == nil {
		t.Error("what nobody has accepted has run")
	}
}

// A run that froze no digests starts what is there, as it did.
func TestOlderRunsStartWhatIsThere(t *testing.T) {
	b := programBench(t)
	r, err := tool.NewRegistry(b.manifest, b.servers)
	if err != nil {
		t.Fatal(err)
	}
	b.gate.Tools = r
	b.write("deploy.sh", "#!/bin/sh\necho new\n")
	if value, err := b.approvedCall("./deploy.sh"); err != nil || !strings.Contains(string(value), "new") {
		t.Errorf("got %s, %v", value, err)
	}
	if v := b.gate.Ask(tool.Request{URI: uriOf("exec"), Args: flow.JSON(object{"argv": []string{"./deploy.sh"}})}); strings.Contains(string(v.Subject), `"program"`) {
		t.Errorf("the subject is %s", v.Subject)
	}
}

// scripted is a server that a script of the workspace starts.
func scripted(t *testing.T) *outside {
	t.Helper()
	o := newOutside(t, map[string]string{"srv": "command: [sh, ./srv.sh, state.db]\n"})
	o.scripts("srv.sh")
	o.write("state.db", "1")
	return o
}

// scriptedIn is such a server in a folder of its own.
func scriptedIn(t *testing.T, dir string) *outside {
	t.Helper()
	o := newOutside(t, map[string]string{"srv": "command: [sh, -c, 'exec sh ./" + dir + "/srv.sh']\n"})
	o.scripts(dir + "/srv.sh")
	return o
}

// scripts writes a script that is a server.
func (o *outside) scripts(name string) {
	o.Helper()
	self, err := os.Executable()
	o.check(err)
	argv := tooltest.Command(self)
	for i, word := range argv {
		argv[i] = "'" + word + "'"
	}
	o.write(name, "exec "+strings.Join(argv, " ")+"\n")
}

// unheld are the files of the server that have no digest in a lock.
func (o *outside) unheld(l *tool.Lock) []string {
	o.Helper()
	s, _ := o.manifest.Server("srv")
	files, err := l.Unheld(tool.NewCode(o.manifest, o.dir, ""), s.Starts("srv"))
	o.check(err)
	return files
}

func (o *outside) listing() *tool.Listing {
	o.Helper()
	m := tool.NewManager(o.manifest, o.servers)
	defer m.Close()
	x, err := m.List(context.Background(), "srv")
	if err != nil {
		o.Fatal(err)
	}
	return x
}

func TestFilesThatACommandNamesAreLocked(t *testing.T) {
	o := scripted(t)
	l := new(tool.Lock).With("srv", o.listing().Locked())
	if files := l.Servers["srv"].Files; len(files) != 1 || files["srv.sh"] == "" {
		t.Fatalf("locked %v: a database changes by itself", files)
	}
	l, err := tool.ParseLock([]byte(lockText(t, l)))
	if err != nil {
		t.Fatal(err)
	}
	o.write("state.db", "2")
	if refused := l.Ready("srv", o.servers["srv"]); refused != nil {
		t.Fatal(refused)
	}
	o.manager.Hold(l)
	o.lock()
	o.says("hello", "srv", tooltest.Echo, object{"text": "hello"})

	started := o.starts.Load()
	o.write("srv.sh", "touch ran\n")
	next := tool.NewManager(o.manifest, o.servers)
	defer next.Close()
	next.Hold(l)
	_, err = next.Activity(o.gate).Run(context.Background(), o.attempt("srv", tooltest.Echo, object{"text": "x"}))
	for _, e := range []*flow.Error{wantCode(t, tool.CodePackageChanged, nil, err), l.Ready("srv", o.servers["srv"])} {
		if e == nil || !strings.Contains(e.Message, "srv.sh") || !strings.Contains(e.Message, "tipstaff tools pin srv") {
			t.Errorf("got %v", e)
		}
	}
	if o.starts.Load() != started {
		t.Error("the changed server was started")
	}
}

func TestOlderLockHoldsNoFiles(t *testing.T) {
	o := scripted(t)
	x := o.listing()
	held := x.Locked()
	held.Files, held.Beside = nil, false
	l := new(tool.Lock).With("srv", held)
	o.write("srv.sh", "changed\n")
	if refused := l.Ready("srv", o.servers["srv"]); refused != nil {
		t.Error(refused)
	}
	if files := o.unheld(l); !slices.Equal(files, []string{"srv.sh"}) {
		t.Errorf("not held: %v", files)
	}
	changes := x.Changes(o.manifest, l)
	if len(changes) != 1 || changes[0].Member != tool.MemberFile+"srv.sh" {
		t.Errorf("pinning would change %v", changes)
	}
	if now := new(tool.Lock).With("srv", x.Locked()); o.unheld(now) != nil || x.Changes(o.manifest, now) != nil {
		t.Error("a lock that holds the files is said not to")
	}
}

// What is obeyed stands beside the manifest, where it is reviewed.
func TestObeyedFilesDoNotLeadOutOfTheFolder(t *testing.T) {
	outside := t.TempDir()
	for _, c := range []struct{ link, target, manifest string }{
		{"p.yaml", "file", "policy: {file: p.yaml}"},
		{"m.yaml", "file", "models_file: m.yaml"},
		{"words", "folder", "prompts: words"},
		{"in/p.yaml", "file", "policy: {file: in/p.yaml}"},
	} {
		b := &bench{TB: t, dir: t.TempDir()}
		if err := os.WriteFile(filepath.Join(outside, "file"), []byte(oneRule), 0o600); err != nil {
			t.Fatal(err)
		}
		b.write("in/x", "")
		_ = os.Mkdir(filepath.Join(outside, "folder"), 0o755)
		if err := os.Symlink(filepath.Join(outside, c.target), filepath.Join(b.dir, c.link)); err != nil {
			t.Fatal(err)
		}
		m, problems := workspace.ParseIn(workspace.Beside(b.dir), "tipstaff.yaml", []byte(c.manifest))
		if m != nil || len(problems) == 0 || !strings.Contains(problems[0].Message, "leads out of the folder") {
			t.Errorf("%s: %v", c.manifest, problems)
		}
	}
	b := &bench{TB: t, dir: t.TempDir()}
	b.write("real.yaml", oneRule)
	if err := os.Symlink("real.yaml", filepath.Join(b.dir, "p.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, problems := workspace.ParseIn(workspace.Beside(b.dir), "tipstaff.yaml", []byte("policy: {file: p.yaml}")); problems != nil {
		t.Errorf("a link that stays: %v", problems)
	}
}

// A pipe where a folder is expected is neither waited for nor left open.
func TestListDirOfAPipe(t *testing.T) {
	b := newBench(t, everything)
	if err := syscall.Mkfifo(filepath.Join(b.dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := b.call("list_dir", object{"path": "fifo"})
		ended <- err
	}()
	select {
	case err := <-ended:
		contains(t, wantCode(t, tool.CodeToolError, nil, err).Message, "not a directory")
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for the pipe")
	}
}

func TestComparedFileIsBounded(t *testing.T) {
	b := newBench(t, everything)
	b.write("large", "")
	if err := os.Truncate(filepath.Join(b.dir, "large"), 65<<20); err != nil {
		t.Fatal(err)
	}
	digest := flow.Digest([]byte("x"))
	contains(t, b.fails(tool.CodeToolError, "write_file", object{"path": "large", "content": "y", "if_sha256": digest}).Message, "64 MiB")
	b.write("small", "x")
	must[object](b, "write_file", object{"path": "small", "content": "y", "if_sha256": digest})
}

// A server is not started once anything that it may load has changed, come or gone, whatever
// is named on its command line.
func TestCodeBesideAServerIsLocked(t *testing.T) {
	for name, change := range map[string]func(o *outside){
		"srv/lib.sh":   func(o *outside) { o.write("srv/lib.sh", "other") },
		"srv/sub/data": func(o *outside) { o.write("srv/sub/data", "other") },
		"srv/new.sh":   func(o *outside) { o.write("srv/new.sh", "new") },
		"srv/gone":     func(o *outside) { o.check(os.Remove(filepath.Join(o.dir, "srv/gone"))) },
		"srv/link":     func(o *outside) { o.relink("lib.sh", "srv/link") },
		"srv/really.sh": func(o *outside) {
			o.check(os.Remove(filepath.Join(o.dir, "srv/really.sh")))
			o.relink("lib.sh", "srv/really.sh")
		},
		"srv/same-size": func(o *outside) { o.sameSize("srv/same-size") },
	} {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			o := scriptedIn(t, "srv")
			for file, text := range map[string]string{"srv/lib.sh": "lib", "srv/sub/data": "data", "srv/gone": "gone", "srv/really.sh": "lib", "srv/same-size": "one", "srv/__pycache__/x.pyc": "c",
				"srv/state.db": "1", "elsewhere.sh": "1"} {
				o.write(file, text)
			}
			o.relink("gone", "srv/link")
			time.Sleep(150 * time.Millisecond) // so that digests are kept
			l := new(tool.Lock).With("srv", o.listing().Locked())
			l, err := tool.ParseLock([]byte(lockText(t, l)))
			o.check(err)
			for _, unheeded := range []string{"srv/__pycache__/x.pyc", "srv/state.db", "elsewhere.sh"} {
				o.write(unheeded, "2")
			}
			if refused := l.Ready("srv", o.servers["srv"]); refused != nil {
				t.Fatal(refused)
			}
			change(o)
			started := o.starts.Load()
			next := tool.NewManager(o.manifest, o.servers)
			defer next.Close()
			next.Hold(l)
			o.manager.Hold(l)
			_, err = next.Activity(o.gate).Run(context.Background(), o.attempt("srv", tooltest.Echo, object{"text": "x"}))
			for _, e := range []*flow.Error{wantCode(t, tool.CodePackageChanged, nil, err), l.Ready("srv", o.servers["srv"])} {
				if e == nil || !strings.Contains(e.Message, name) || !strings.Contains(e.Message, "tipstaff tools pin srv") {
					t.Errorf("got %v", e)
				}
			}
			if o.starts.Load() != started {
				t.Error("the changed server was started")
			}
		})
	}
}

func (o *outside) check(err error) {
	o.Helper()
	if err != nil {
		o.Fatal(err)
	}
}

func (o *outside) relink(target, name string) {
	o.Helper()
	at := filepath.Join(o.dir, name)
	_ = os.Remove(at) // it need not be there
	o.check(os.Symlink(target, at))
}

// sameSize changes a file in place, and puts its time back.
func (o *outside) sameSize(name string) {
	o.Helper()
	at := filepath.Join(o.dir, name)
	info, err := os.Stat(at)
	o.check(err)
	o.check(os.WriteFile(at, []byte("two"), 0o644))
	o.check(os.Chtimes(at, info.ModTime(), info.ModTime()))
}

// A server that had no code when it was accepted is not started with some.
func TestTheFirstFileOfAServerIsNew(t *testing.T) {
	self, err := os.Executable()
	o := newOutside(t, map[string]string{"srv": "command: [sh, -c, '[ ! -e ./srv.sh ] || . ./srv.sh; exec \"$@\"', sh, " + strings.Join(tooltest.Command(self), ", ") + "]\n"})
	o.check(err)
	x := o.listing()
	l, err := tool.ParseLock([]byte(lockText(t, new(tool.Lock).With("srv", x.Locked()))))
	o.check(err)
	if held := l.Servers["srv"]; len(held.Files) != 0 || !held.Beside {
		t.Fatalf("locked %+v", held)
	}
	if refused := l.Ready("srv", o.servers["srv"]); refused != nil || x.Changes(o.manifest, l) != nil {
		t.Fatal(refused, x.Changes(o.manifest, l))
	}
	o.write("srv.sh", "touch ran\n")
	if refused := l.Ready("srv", o.servers["srv"]); refused == nil || refused.Code != tool.CodePackageChanged || !strings.Contains(refused.Message, "srv.sh") {
		t.Errorf("got %v", refused)
	}
	if files := o.unheld(l); files != nil {
		t.Errorf("not held: %v", files)
	}
	older := x.Locked()
	older.Beside = false
	l = new(tool.Lock).With("srv", older)
	if refused := l.Ready("srv", o.servers["srv"]); refused != nil {
		t.Errorf("an older lock: %v", refused)
	}
	if changes := x.Changes(o.manifest, l); len(changes) != 1 || changes[0].Member != tool.MemberBeside {
		t.Errorf("pinning would change %v", changes)
	}
}

// An older lock holds what the command names, and is held to that.
func TestAnOlderLockHoldsWhatTheCommandNames(t *testing.T) {
	o := scriptedIn(t, "srv")
	o.write("srv/lib.sh", "lib")
	held := o.listing().Locked()
	held.Beside = false
	delete(held.Files, "srv/lib.sh")
	l := new(tool.Lock).With("srv", held)
	o.write("srv/lib.sh", "changed")
	if refused := l.Ready("srv", o.servers["srv"]); refused != nil {
		t.Error(refused)
	}
	if files := o.unheld(l); !slices.Equal(files, []string{"srv/lib.sh"}) {
		t.Errorf("not held: %v", files)
	}
	o.write("srv/srv.sh", "changed")
	if refused := l.Ready("srv", o.servers["srv"]); refused == nil || refused.Code != tool.CodePackageChanged {
		t.Errorf("the script has changed: %v", refused)
	}
}

// What has too many files, or too much in them, is not digested: the manifest says what counts.
func TestTooMuchCodeIsNotDigested(t *testing.T) {
	o := scriptedIn(t, "srv")
	for i := range workspace.MostFiles {
		o.write("srv/many/"+strconv.Itoa(i), "")
	}
	locks := func(s workspace.Server) (*tool.Lock, error) {
		s.Command, s.Tools = o.manifest.Servers["srv"].Command, o.manifest.Servers["srv"].Tools
		m := *o.manifest
		m.Servers = map[string]workspace.Server{"srv": s}
		manager := tool.NewManager(&m, tool.Servers(&m, tool.Launch{Workspace: o.dir, Environ: o.environ, Spawn: o.spawn}))
		defer manager.Close()
		x, err := manager.List(context.Background(), "srv")
		if err != nil {
			return nil, err
		}
		return new(tool.Lock).With("srv", x.Locked()), nil
	}
	if _, err := locks(workspace.Server{}); err == nil || !strings.Contains(err.Error(), "package:") || !strings.Contains(err.Error(), "ignore:") {
		t.Errorf("got %v", err)
	}
	o.write("srv/core/a.sh", "a")
	for want, s := range map[string]workspace.Server{"srv/core/a.sh srv/srv.sh": {Ignore: []string{"**/many"}}, "srv/core/a.sh  srv/srv.sh": {Package: "srv/core"}} {
		l, err := locks(s)
		if err != nil {
			t.Errorf("%+v: %v", s, err)
			continue
		}
		if got := strings.Join(slices.Sorted(maps.Keys(l.Servers["srv"].Files)), " "); got != strings.Join(strings.Fields(want), " ") {
			t.Errorf("%+v: locked %s", s, got)
		}
	}
}

// What Python has compiled is kept outside of the workspace, and of nobody who can be written by
// a run.
func TestPythonKeepsWhatItCompilesElsewhere(t *testing.T) {
	o := scriptedIn(t, "srv")
	o.write("srv/srv.sh", "echo \"$PYTHONPYCACHEPREFIX\" > said; "+o.text("srv/srv.sh"))
	state := t.TempDir()
	for want, l := range map[string]tool.Launch{filepath.Join(state, "pycache"): {State: state}, os.DevNull: {}} {
		l.Workspace, l.Environ, l.Spawn = o.dir, o.environ, o.spawn
		manager := tool.NewManager(o.manifest, tool.Servers(o.manifest, l))
		_, err := manager.List(context.Background(), "srv")
		manager.Close()
		o.check(err)
		if got := strings.TrimSpace(o.text("said")); got != want {
			t.Errorf("told %q, not %q", got, want)
		}
	}
}

func (o *outside) text(name string) string {
	o.Helper()
	data, err := os.ReadFile(filepath.Join(o.dir, name))
	o.check(err)
	return string(data)
}
