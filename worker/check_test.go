package worker

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

func TestRegistry(t *testing.T) {
	var one, two Registry
	b := newBed(t, "claude")
	w := b.worker()
	for _, name := range []string{"zeta", "alpha", "m-1_x"} {
		b.must(one.Register(name, w))
	}
	if diff := cmp.Diff([]string{"alpha", "m-1_x", "zeta"}, one.List()); diff != "" {
		t.Error(diff)
	}
	if got, err := one.Get("alpha"); err != nil || got != Worker(w) {
		t.Error(got, err)
	}
	_, err := one.Get("beta")
	if e, ok := err.(*tipstaff.Error); !ok || e.Code != "worker_unknown" || !strings.Contains(e.Hint, "alpha, m-1_x, zeta") {
		t.Error(err)
	}
	for _, name := range []string{"alpha", "", "Alpha", "1a", "a b", strings.Repeat("a", 65), "ä"} {
		if err := one.Register(name, w); err == nil {
			t.Errorf("%q is registered", name)
		}
	}
	if err := one.Register("nil", nil); err == nil {
		t.Error("nil is registered")
	}
	if len(two.List()) != 0 {
		t.Error("two registries share something")
	}
	if _, err := two.Get("alpha"); tipstaff.CodeOf(err) != tipstaff.WorkerNotFound {
		t.Error(err)
	}
}

// Each check has its code, the first one counts, and nothing was started or stored.
func TestChecksInTheirOrder(t *testing.T) {
	type fault struct {
		code tipstaff.Code
		make func(*bed, *CLI)
	}
	faults := []fault{
		{tipstaff.InvalidArgument, func(b *bed, _ *CLI) { b.options.Prompt = "" }},
		{tipstaff.ResumeUnsupported, func(_ *bed, w *CLI) { w.rows = slices.Clone(w.rows); w.rows[0].resume = nil }},
		{tipstaff.WorkerUnavailable, func(b *bed, _ *CLI) { b.options.Env = []string{"PATH=/nowhere"} }},
		{tipstaff.WorkerUnsupportedVersion, func(b *bed, _ *CLI) { b.script("1.17.9") }},
		{tipstaff.WorkerDirectory, func(b *bed, _ *CLI) { b.options.Dir = filepath.Join(b.options.Dir, "absent") }},
		{tipstaff.WorkerPolicyInexpressible, func(b *bed, _ *CLI) { b.options.Posture, b.options.Policy = Auto, ruled{} }},
		{tipstaff.WorkerContainment, func(b *bed, _ *CLI) { b.options.Limits.Containment = "cgroup" }},
	}
	for from := range faults {
		b := newBed(t, "opencode", happy()...)
		w := b.worker()
		for _, f := range faults[from:] {
			f.make(b, w)
		}
		r, err := w.Resume(t.Context(), b.options)
		if tipstaff.CodeOf(err) != faults[from].code {
			t.Errorf("%s, not %s: %v", tipstaff.CodeOf(err), faults[from].code, err)
		}
		if r.Outcome != "" || len(b.starter.runs()) > 0 || len(b.sink.starts)+len(b.sink.events)+len(b.sink.sessions) > 0 {
			t.Errorf("%v: something happened: %+v", err, r)
		}
		for _, folder := range []string{b.options.Folder, b.options.Logs} {
			if entries, err := os.ReadDir(folder); err != nil || len(entries) > 0 {
				t.Errorf("%v: %v is stored", faults[from].code, entries)
			}
		}
	}
}

func TestIncompleteOptions(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"prompt": func(o *Options) { o.Prompt = strings.Repeat("x", 1<<20+1) }, "run": func(o *Options) { o.Run = "" }, "channel": func(o *Options) { o.Channel = nil },
		"policy": func(o *Options) { o.Policy = nil }, "sink": func(o *Options) { o.Sink = nil }, "folder": func(o *Options) { o.Folder = "" }, "posture": func(o *Options) { o.Posture = "yolo" },
		"limit": func(o *Options) { o.Limits.Wall = -1 }, "id": func(o *Options) { o.Session.ID = "" }, "flag as id": func(o *Options) { o.Session.ID = "--yolo" },
		"space in id": func(o *Options) { o.Session.ID = "a b" }, "flag as model": func(o *Options) { o.Model = "--yolo" }, "invocation": func(o *Options) { o.Invocation = "" },
	} {
		b := newBed(t, "claude", happy()...)
		change(&b.options)
		if _, err := b.worker().Spawn(t.Context(), b.options); tipstaff.CodeOf(err) != tipstaff.InvalidArgument || len(b.starter.starts) > 0 {
			t.Errorf("%s: %v, %d starts", name, err, len(b.starter.starts))
		}
	}
	b := newBed(t, "codex")
	b.options.Session.ID = "not-a-uuid"
	if _, err := b.worker().Resume(t.Context(), b.options); tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
		t.Error(err)
	}
	b = newBed(t, "claude", happy()...)
	b.options.Prompt = strings.Repeat("x", 1<<20)
	if r := b.spawn(); r.Outcome != NoReport || len(b.seen()[0].Input) != 1<<20 {
		t.Error(r.Outcome)
	}
}

func TestBypassNeedsASandbox(t *testing.T) {
	b := newBed(t, "claude", happy()...)
	b.options.Posture = Bypass
	b.options.Env = append(b.options.Env, "TIPSTAFF_SANDBOX=no")
	b.must(os.WriteFile(filepath.Join(b.options.Dir, "tipstaff.yaml"), []byte("sandbox: yes"), 0o600))
	if _, err := b.worker().Spawn(t.Context(), b.options); tipstaff.CodeOf(err) != tipstaff.WorkerSandboxRequired || len(b.starter.runs()) > 0 {
		t.Error(err)
	}
	b.config.Sandbox = "a container without network"
	b.spawn()
	if got := b.sink.starts[0]; got.Sandbox != "a container without network" || got.Posture != "bypass" {
		t.Errorf("%+v", got)
	}
}

func TestDirectories(t *testing.T) {
	b := newBed(t, "cursor", happy()...)
	file := filepath.Join(b.options.Dir, "file")
	b.must(os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{"", "relative", file, filepath.Join(b.options.Dir, "absent")} {
		b.options.Dir = dir
		if _, err := b.worker().Spawn(t.Context(), b.options); tipstaff.CodeOf(err) != tipstaff.WorkerDirectory {
			t.Errorf("%q: %v", dir, err)
		}
	}
}

// Cursor has no flag that makes it leave the tree's configuration alone: it is refused where
// there is some, and the file is named.
func TestCursorInATreeThatConfiguresIt(t *testing.T) {
	for file, want := range map[string]tipstaff.Code{
		".cursor/mcp.json": tipstaff.WorkerSettings, ".cursor/hooks.json": tipstaff.WorkerSettings, ".cursor/cli.json": tipstaff.WorkerSettings, ".cursor/new-kind/x": tipstaff.WorkerSettings,
		".claude/settings.json": tipstaff.WorkerSettings, ".claude/settings.local.json": tipstaff.WorkerSettings, "../.cursor/cli.json": tipstaff.WorkerSettings,
		"../../.cursor/cli.json": "", ".cursor/rules/style.mdc": "", ".cursor": "", ".claude/agents/x.md": "", "sub/.cursor/mcp.json": "", "AGENTS.md": "",
	} {
		b := newBed(t, "cursor", happy()...)
		root := filepath.Join(b.options.Dir, "repo")
		b.options.Dir = filepath.Join(root, "part") // a workspace may be below the root of its repository
		b.must(os.MkdirAll(filepath.Join(root, ".git"), 0o700))
		file = filepath.Join(b.options.Dir, file)
		b.must(os.MkdirAll(filepath.Dir(file), 0o700))
		b.must(os.MkdirAll(b.options.Dir, 0o700))
		b.must(os.WriteFile(file, []byte("{}"), 0o600))
		_, err := b.worker().check(t.Context(), &b.options, false)
		if tipstaff.CodeOf(err) != want && (want != "" || err != nil) {
			t.Errorf("%s: %v", file, err)
		}
		if want != "" && (!strings.Contains(err.Error(), filepath.Base(file)) && !strings.Contains(err.Error(), "new-kind") || len(b.starter.runs()) > 0) {
			t.Errorf("%s: %v, and %d starts", file, err, len(b.starter.runs()))
		}
		b.config.Settings = "user" // it obeys them: but its channel must not replace a file
		_, err = b.worker().Spawn(t.Context(), b.options)
		if refused := tipstaff.CodeOf(err) == tipstaff.WorkerDirectory; refused != (strings.HasSuffix(file, "part/.cursor/mcp.json") || strings.HasSuffix(file, "/.cursor")) || !refused && err != nil {
			t.Errorf("%s, settings of the user: %v", file, err)
		}
	}
}

// Without a repository CLIs look in every folder above. What lies in the home of the user is
// no tree's.
func TestTreesWithoutARepository(t *testing.T) {
	for _, c := range []struct {
		typ, file string
		refused   bool
	}{
		{"opencode", "opencode.json", true}, {"opencode", "home/.opencode/plugin/x.js", false}, {"opencode", "home/a/opencode.json", true}, {"opencode", "home/a/b/opencode.json", true},
		{"cursor", ".cursor/hooks.json", true}, {"cursor", "home/.cursor/cli-config.json", false}, {"cursor", "home/a/.cursor/hooks.json", true},
	} {
		b := newBed(t, c.typ)
		top := t.TempDir()
		home := filepath.Join(top, "home")
		b.options.Dir, b.options.Env = filepath.Join(home, "a/b"), append(b.options.Env, "HOME="+home)
		file := filepath.Join(top, c.file)
		b.must(os.MkdirAll(b.options.Dir, 0o700))
		b.must(os.MkdirAll(filepath.Dir(file), 0o700))
		b.must(os.WriteFile(file, []byte("{}"), 0o600))
		err := b.worker().tree(&b.options)
		if refused := tipstaff.CodeOf(err) == tipstaff.WorkerSettings; refused != c.refused || refused && !strings.Contains(err.Error(), filepath.Join(top, strings.Split(c.file, "/plugin")[0])) {
			t.Errorf("%s with %s: %v", c.typ, c.file, err)
		}
		b.options.Dir = home // it is the tree itself then
		if err := b.worker().tree(&b.options); (err != nil) != (c.refused && !strings.HasPrefix(c.file, "home/") || strings.HasPrefix(c.file, "home/.")) {
			t.Errorf("%s with %s, in the home: %v", c.typ, c.file, err)
		}
	}
}

// The channel of a Cursor worker whose Tipstaff was killed lies in the tree when it goes on. It
// is replaced; that of another, which still works, is not.
func TestAChannelThatWasLeft(t *testing.T) {
	for settings, code := range map[string]tipstaff.Code{"none": tipstaff.WorkerSettings, "user": tipstaff.WorkerDirectory} {
		b := newBed(t, "cursor", happy()...)
		b.config.Settings, b.options.Session.ID = settings, "chat-1"
		file := filepath.Join(b.options.Dir, PrivateFile)
		left := func(content string) {
			b.must(os.MkdirAll(filepath.Dir(file), 0o700))
			b.must(os.WriteFile(file, []byte(content), 0o600))
		}
		left(string(cursorChannel("/opt/earlier/tipstaff")))
		if r := b.resume(); r.Outcome != NoReport {
			t.Errorf("settings: %s: %s, %s", settings, r.Outcome, r.StderrTail)
		}
		if _, err := os.Lstat(filepath.Dir(file)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("settings: %s: it lies there again: %v", settings, err)
		}
		left(strings.Replace(string(cursorChannel("/opt/tipstaff")), ServerName, "other", 1))
		if _, err := b.worker().Resume(t.Context(), b.options); tipstaff.CodeOf(err) != code {
			t.Errorf("settings: %s: a file of somebody else: %v", settings, err)
		}
		b.must(os.RemoveAll(filepath.Dir(file)))

		prepared(t, b, true) // and it still works
		if _, err := b.worker().Resume(t.Context(), b.options); tipstaff.CodeOf(err) != code {
			t.Errorf("settings: %s: the channel of another: %v", settings, err)
		}
	}
}

// info/exclude may be anything: the worker can write there.
func TestExcludeIsAPlainFile(t *testing.T) {
	for name, put := range map[string]func(file, elsewhere string) error{
		"a link": func(file, elsewhere string) error { return os.Symlink(elsewhere, file) },
		"a link to a FIFO": func(file, elsewhere string) error {
			return errors.Join(syscall.Mkfifo(elsewhere+".fifo", 0o600), os.Symlink(elsewhere+".fifo", file))
		},
		"a FIFO":   func(file, _ string) error { return syscall.Mkfifo(file, 0o600) },
		"a folder": func(file, _ string) error { return os.Mkdir(file, 0o700) },
		"too long": func(file, _ string) error { return os.WriteFile(file, make([]byte, mostPlain+1), 0o600) },
	} {
		dir, elsewhere := t.TempDir(), filepath.Join(t.TempDir(), "file")
		file := filepath.Join(dir, ".git/info/exclude")
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(elsewhere, []byte("theirs\n"), 0o600), put(file, elsewhere)); err != nil {
			t.Fatal(err)
		}
		if err := excludeFromGit(dir, PrivateFile); err == nil || !strings.Contains(err.Error(), "info/exclude") {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := os.ReadFile(elsewhere); err != nil || string(b) != "theirs\n" {
			t.Errorf("%s: elsewhere is %q, %v", name, b, err)
		}
	}
	for name, put := range map[string]func(file string) error{
		"a FIFO":   func(file string) error { return syscall.Mkfifo(file, 0o600) },
		"too long": func(file string) error { return os.WriteFile(file, make([]byte, mostPlain+1), 0o600) },
	} {
		dir := t.TempDir()
		if err := put(filepath.Join(dir, ".git")); err != nil {
			t.Fatal(err)
		}
		if err := excludeFromGit(dir, PrivateFile); err != nil {
			t.Errorf(".git is %s: %v", name, err)
		}
	}
}

// What opencode obeys whatever it is told, and Gemini where it signs in by an account.
func TestTreesThatConfigureACLI(t *testing.T) {
	const account, key = `{"security":{"auth":{"selectedType":"oauth-personal"}}}`, `{"security":{"auth":{"selectedType":"gemini-api-key"}}}`
	for _, c := range []struct {
		typ, file, home string
		refused         bool
	}{
		{"opencode", "opencode.json", "", true}, {"opencode", "opencode.jsonc", "", true}, {"opencode", ".opencode/plugin/x.js", "", true}, {"opencode", "../opencode.json", "", true},
		{"opencode", "../../opencode.json", "", false}, {"opencode", "AGENTS.md", "", false}, {"opencode", "sub/opencode.json", "", false},
		{"gemini", ".env", account, true}, {"gemini", ".gemini/.env", account, true}, {"gemini", ".gemini/settings.json", account, false},
		{"gemini", ".env", key, false}, {"gemini", ".gemini/.env", "", false},
		{"claude", ".claude/settings.json", "", false}, {"codex", ".codex/config.toml", "", false},
	} {
		b := newBed(t, c.typ)
		root := filepath.Join(b.options.Dir, "repo")
		b.options.Dir = filepath.Join(root, "part")
		file := filepath.Join(b.options.Dir, c.file)
		home := filepath.Join(lookup(b.options.Env, "HOME"), ".gemini")
		for _, dir := range []string{filepath.Join(root, ".git"), filepath.Dir(file), b.options.Dir, home} {
			b.must(os.MkdirAll(dir, 0o700))
		}
		b.must(os.WriteFile(file, []byte("{}"), 0o600))
		b.must(os.WriteFile(filepath.Join(home, "settings.json"), []byte(c.home), 0o600))
		err := b.worker().tree(&b.options)
		if refused := tipstaff.CodeOf(err) == tipstaff.WorkerSettings; refused != c.refused || !refused && err != nil {
			t.Errorf("%s with %s, %s: %v", c.typ, c.file, c.home, err)
		}
		b.config.Settings = "user"
		if err := b.worker().tree(&b.options); err != nil {
			t.Errorf("%s with %s, settings of the user: %v", c.typ, c.file, err)
		}
	}
}

// Without a policy, CLIs that cannot ask refuse auto and name the rule; an explicit
// posture runs, and says what does not hold.
func TestPolicyThatCannotBeTold(t *testing.T) {
	none := ruled{}
	for name := range allowAll {
		none[name] = Ruling{Effect: Ask, Rules: []string{"default"}}
	}
	for _, typ := range []string{"codex", "gemini", "opencode", "cursor"} {
		b := newBed(t, typ)
		b.options.Posture, b.options.Policy = Auto, none
		_, err := b.worker().Spawn(t.Context(), b.options)
		if tipstaff.CodeOf(err) != tipstaff.WorkerPolicyInexpressible || !strings.Contains(err.Error(), "default: ask ") {
			t.Errorf("%s: %v", typ, err)
		}
		if r := b.worker().Check(t.Context(), none); len(r.Inexpressible) == 0 || r.Hook {
			t.Errorf("%s: %+v", typ, r)
		}
	}
	unenforced := func(typ string, p Posture, policy Policy) []string {
		b := newBed(t, typ)
		b.config.Sandbox = "x"
		_, list, err := b.worker().take(p, policy)
		b.must(err)
		return list
	}
	for _, c := range []struct {
		typ  string
		p    Posture
		want []string
	}{
		{"claude", Auto, []string{}},
		{"claude", ReadOnly, []string{}},
		{"claude", Write, []string{"default: ask Edit", "default: ask MultiEdit", "default: ask NotebookEdit", "default: ask Write", "default: ask Bash"}},
		{"codex", ReadOnly, []string{"default: ask command_execution"}},
		{"codex", Write, []string{"default: ask file_change", "default: ask command_execution"}},
		{"codex", Bypass, []string{"default: ask file_change", "default: ask command_execution", "default: ask web_search"}},
		{"gemini", ReadOnly, []string{}},
		{"gemini", Write, []string{"default: ask replace", "default: ask write_file"}},
		{"opencode", Write, []string{"default: ask edit", "default: ask write"}},
		{"cursor", ReadOnly, []string{}},
		{"cursor", Write, []string{"default: ask delete", "default: ask edit", "default: ask write", "default: ask shell"}},
	} {
		if diff := cmp.Diff(c.want, unenforced(c.typ, c.p, none)); diff != "" {
			t.Errorf("%s, %s:\n%s", c.typ, c.p, diff)
		}
	}
	// A rule against reading does not hold in CLIs that read without asking.
	if got := unenforced("claude", Auto, ruled{"Read": {Effect: Deny, Rules: []string{"secret"}}}); !slices.Equal(got, []string{"secret: deny Read"}) {
		t.Errorf("%q", got)
	}
}

// What each CLI can be told.
func TestCompiledPolicies(t *testing.T) {
	rule := func(effects map[string]string) ruled {
		p := ruled{}
		for name, r := range allowAll {
			p[name] = r
		}
		for name, e := range effects {
			p[name] = Ruling{Effect: e, Rules: []string{"r-" + name}}
		}
		return p
	}
	for _, c := range []struct {
		typ     string
		effects map[string]string
		refused string // a rule that is named; "": none
		argv    string
	}{
		{"codex", nil, "", `-c sandbox_mode="workspace-write" -c sandbox_workspace_write.network_access=true`},
		{"codex", map[string]string{"web_search": Deny}, "", `-c sandbox_mode="workspace-write" -c sandbox_workspace_write.network_access=false -c web_search="disabled"`},
		{"codex", map[string]string{"file_change": Deny}, "", `-c sandbox_mode="read-only"`},
		{"codex", map[string]string{"command_execution": Deny}, "r-command_execution: deny command_execution", ""},
		{"codex", map[string]string{"command_execution": Depends}, "r-command_execution: depends command_execution", ""},
		{"gemini", map[string]string{"write_file": Deny}, "", ""},
		{"gemini", map[string]string{"web_fetch": Ask}, "r-web_fetch: ask web_fetch", ""},
		{"opencode", map[string]string{"bash": Deny}, "", ""},
		{"opencode", map[string]string{"edit": Deny}, "r-edit: deny edit", ""}, // one permission for edit and write
		{"opencode", map[string]string{"edit": Deny, "write": Deny}, "", ""},
		{"cursor", map[string]string{"shell": Deny}, "", ""},
		{"cursor", map[string]string{"write": Deny}, "r-write: deny write", ""},
	} {
		b := newBed(t, c.typ)
		b.options.Posture, b.options.Policy = Auto, rule(c.effects)
		_, _, err := b.worker().take(Auto, b.options.Policy)
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s, %v: %v", c.typ, c.effects, err)
		}
		if err == nil && !strings.Contains(strings.Join(argvOf(t, b, false), " "), c.argv) {
			t.Errorf("%s, %v: %q", c.typ, c.effects, argvOf(t, b, false))
		}
	}
}

func TestEnvironment(t *testing.T) {
	parent := []string{"PATH=/bin", "HOME=/h", "LC_ALL=C", "LANG=C", "SECRET=s", "AWS_SECRET_ACCESS_KEY=a", "ANTHROPIC_API_KEY=sk-1", "OPENAI_API_KEY=sk-2", "TERM=xterm", "TIPSTAFF_RUN_ID=outer",
		"TIPSTAFF_SANDBOX=x", "HTTPS_PROXY=p", "GEMINI_API_KEY=g", "CURSOR_API_KEY=c", "LD_PRELOAD=evil.so"}
	got := Environ("claude", parent, map[string]string{"EXTRA": "1"}, "TIPSTAFF_RUN_ID=r", "TIPSTAFF_LAUNCH=l")
	want := []string{"ANTHROPIC_API_KEY=sk-1", "EXTRA=1", "HOME=/h", "HTTPS_PROXY=p", "LANG=C", "LC_ALL=C", "PATH=/bin", "TERM=dumb", "TIPSTAFF_LAUNCH=l", "TIPSTAFF_RUN_ID=r"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for typ, name := range map[string]string{"codex": "OPENAI_API_KEY", "gemini": "GEMINI_API_KEY", "cursor": "CURSOR_API_KEY"} {
		if env := Environ(typ, parent, nil); lookup(env, name) == "" || lookup(env, "ANTHROPIC_API_KEY") != "" || Credentials(typ, env)[name] == "" {
			t.Errorf("%s: %q", typ, env)
		}
	}
	// The child's is that, the channel's and what its type needs: nothing of ours.
	t.Setenv("UNRELATED_SECRET", "do-not-tell")
	b := newBed(t, "claude", happy()...)
	b.options.Env = append(b.options.Env, "TERM=dumb")
	b.spawn()
	var names []string
	for _, v := range b.seen()[0].Env {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"DISABLE_AUTOUPDATER", "HOME", "PATH", "TERM", "TIPSTAFF_MCP_SOCKET", "TIPSTAFF_SPAWN"}, slices.DeleteFunc(names, func(n string) bool { return n == "PWD" })); diff != "" {
		t.Error(diff) // TIPSTAFF_SPAWN is the starter's; PWD too
	}
	if b.seen()[0].MCP == "" {
		t.Error("the channel's configuration was not there")
	}
}

func TestCheck(t *testing.T) {
	help := func(typ string, without ...string) string {
		flags := slices.DeleteFunc(slices.Clone(rowsOf(typ)[0].flags), func(f string) bool { return slices.Contains(without, f) })
		return "usage:\n  " + strings.Join(flags, " <x>\n  ")
	}
	check := func(typ, version, text string) CheckReport {
		b := newBed(t, typ)
		given := fixture{Version: version, Help: text}
		if typ == "opencode" { // which prints it on stderr
			given.Help, given.HelpErr = "", text
		}
		f, _ := json.Marshal(given)
		b.must(os.WriteFile(filepath.Join(b.bin, "fixture.json"), f, 0o600))
		b.config.Command = filepath.Join(b.bin, rowsOf(typ)[0].of.command)
		return b.worker().Check(t.Context(), nil)
	}
	good := check("claude", "2.1.325 (Claude Code)", help("claude"))
	if !good.Runs() || good.Info.Version != "2.1.325" || good.Info.Family != "claude-2.1" || !good.Hook || !good.Resumes || good.MakesID != "tipstaff" || good.Source != Tested || len(good.Warnings) > 0 || len(good.NotInTurn) > 0 || good.Containment != "subreaper" {
		t.Errorf("%+v", good)
	}
	if r := check("claude", "2.1.325", help("claude", "--strict-mcp-config", "--print")); r.Runs() || !slices.Equal(r.Missing, []string{"--print", "--strict-mcp-config"}) {
		t.Errorf("%+v", r)
	}
	if r := check("codex", "codex-cli 0.165.9", ""); r.Runs() || r.Problem == nil || r.Problem.Code != "worker_unsupported_version" {
		t.Errorf("%+v", r)
	}
	if r := check("codex", "codex-cli 1.2.3", help("codex")); !r.Runs() || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "1.2.3") || !slices.Equal(r.NotInTurn, []string{"tokens", "cost_usd"}) || r.MakesID != "cli" {
		t.Errorf("%+v", r)
	}
	if r := check("gemini", "hello", ""); r.Problem == nil || r.Problem.Code != "worker_unsupported_version" {
		t.Errorf("%+v", r)
	}
	if r := check("cursor", "2026.10.02-abc", help("cursor")); !r.Runs() || r.Source != Documented || len(r.Warnings) != 1 {
		t.Errorf("%+v", r)
	}
	if r := check("opencode", "1.18.33", help("opencode", "--pure")); !slices.Equal(r.Missing, []string{"--pure"}) {
		t.Errorf("%+v", r)
	}
	b := newBed(t, "opencode")
	b.config.Command = "/nowhere/opencode"
	if r := b.worker().Check(t.Context(), nil); r.Problem == nil || r.Problem.Code != "worker_unavailable" || !strings.Contains(r.Problem.Hint, "npm install") {
		t.Errorf("%+v", r)
	}
	if c := b.worker().Command(); c != "/nowhere/opencode" {
		t.Error(c)
	}
}

// A CLI that is newer than all that are known runs, with a warning.
func TestNewerVersionsAreWarnedOf(t *testing.T) {
	b := newBed(t, "claude", happy()...)
	b.script("3.0.0 (Claude Code)", happy()...)
	if r := b.spawn(); r.Outcome != NoReport || r.CLIVersion != "3.0.0" || !slices.Contains(b.sink.notes(), "warning") {
		t.Errorf("%s, %v", r.Outcome, b.sink.notes())
	}
}

func TestAvailable(t *testing.T) {
	b := newBed(t, "gemini")
	t.Setenv("PATH", b.bin)
	info, err := b.worker().Available(t.Context())
	if err != nil || info != (Info{Path: filepath.Join(b.bin, "gemini"), Version: "0.61.0", Family: "gemini-0"}) {
		t.Errorf("%+v, %v", info, err)
	}
	b.config.Command = filepath.Join(b.bin, "fixture.json")
	if _, err := b.worker().Available(t.Context()); tipstaff.CodeOf(err) != tipstaff.WorkerUnavailable {
		t.Error(err)
	}
}

// A CLI whose code nobody has accepted is started for nothing: neither for its version and its help, nor
// to work.
func TestNothingIsAskedOfCodeThatIsNotAccepted(t *testing.T) {
	b := newBed(t, "claude", happy()...)
	t.Setenv("PATH", b.bin)
	b.config.Accepts = func() error { return &flow.Error{Code: "package_changed", Message: "another"} }
	b.config.Starter = unused{t}
	w := b.worker()
	if _, err := w.Available(t.Context()); err == nil || err.Error() != "package_changed: another" {
		t.Error(err)
	}
	if r := w.Check(t.Context(), nil); r.Runs() || r.Problem.Code != tipstaff.Refused || r.Problem.Message != "package_changed: another" {
		t.Errorf("%+v", r.Problem)
	}
	o := b.options
	o.Starter = unused{t}
	var refused *flow.Error
	if _, err := w.Spawn(t.Context(), o); !errors.As(err, &refused) {
		t.Error(err)
	}
}

// unused is a starter that starts nothing.
type unused struct{ t *testing.T }

func (u unused) Start(p Program) (Process, error) {
	u.t.Errorf("%v was started", p.Args)
	return nil, errors.New("nothing is to be started")
}

func (u unused) Containment() string { return "group" }

func TestWrongConfigurations(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"name": func(c *Config) { c.Name = "A" }, "type": func(c *Config) { c.Type = "copilot" }, "settings": func(c *Config) { c.Settings = "project" },
		"self": func(c *Config) { c.Self = "" }, "starter": func(c *Config) { c.Starter = nil },
	} {
		b := newBed(t, "claude")
		change(&b.config)
		if _, err := New(b.config); tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOutcomeTable(t *testing.T) {
	review, paused := tipstaff.TaskNeedsReview, tipstaff.TaskPaused
	well, bad := &ending{}, &ending{isError: true}
	exit1, killed := tipstaff.WorkerExit{Code: 1}, tipstaff.WorkerExit{Signal: "terminated"}
	for n, c := range []struct {
		f    facts
		want Outcome
	}{
		{facts{notStarted: true, cancelled: true}, StartFailed},
		{facts{noChannel: true, survivors: 1}, ChannelFailed},
		{facts{fault: ChannelFailed, exit: exit1}, ChannelFailed},
		{facts{events: 3, end: well}, ChannelFailed}, // it never connected
		{facts{survivors: 1, cancelled: true}, Orphan},
		{facts{cancelled: true, limit: "wall", pending: 1, report: review}, Cancelled},
		{facts{limit: "wall", exit: killed}, Limit},
		{facts{limit: "wall", exit: killed, pending: 1}, Approval},
		{facts{limit: "wall", exit: killed, report: paused}, Paused},
		{facts{limit: "wall", exit: killed, report: review, events: 1}, Reported},
		{facts{pending: 1, report: paused, end: bad, exit: exit1}, Approval}, // is_error is our own interruption
		{facts{lingered: true, pending: 1, exit: killed}, Approval},
		{facts{report: paused, end: bad, exit: exit1}, Paused},
		{facts{lingered: true, report: review, exit: killed}, Reported},
		{facts{fault: SessionConflict, exit: exit1}, SessionConflict},
		{facts{fault: SessionLost, events: 1, end: bad, exit: exit1}, SessionLost},
		{facts{}, Empty},
		{facts{exit: exit1}, Empty},
		{facts{events: 2, end: bad}, Failed}, // whatever the exit is
		{facts{events: 2, end: bad, exit: exit1, report: review}, Failed},
		{facts{events: 2, end: well, exit: exit1}, Exited},
		{facts{events: 2, exit: killed}, Exited},
		{facts{events: 2}, Truncated},
		{facts{events: 2, report: review}, Truncated},
		{facts{events: 2, end: well, connected: true, denials: 1}, Denied},
		{facts{events: 2, end: well, connected: true}, NoReport},
		{facts{events: 2, end: well, connected: true, report: review, denials: 1}, Reported},
	} {
		if got := c.f.outcome(); got != c.want {
			t.Errorf("%d: %s, not %s", n, got, c.want)
		}
	}
}

// The signs of each CLI, with what it prints.
func TestSignsOfLostAndUsedSessions(t *testing.T) {
	for _, c := range []struct {
		of      *cliType
		resumed bool
		code    int
		text    string
		want    Outcome
	}{
		{&claude, false, 1, "Error: Session ID 3b9b7a4e is already in use.", SessionConflict},
		{&claude, true, 1, "No conversation found with session ID: 3b9b7a4e", SessionLost},
		{&claude, true, 0, "No conversation found with session ID: 3b9b7a4e", ""},
		{&codex, true, 1, "Error: thread/resume: thread/resume failed: no rollout found for thread id 3b9b7a4e (code -32600)", SessionLost},
		{&codex, true, 1, "Error: thread/resume: thread/resume failed: thread ID already has an active writer (code -32600)", SessionConflict},
		{&gemini, false, 42, `Error starting session: Session ID "3b9b7a4e" already exists. Use --resume to resume it, or provide a different ID.`, SessionConflict},
		{&gemini, true, 42, "Error resuming session: No previous sessions found for this project.", SessionLost},
		{&gemini, true, 41, "Error resuming session", ""},
		{&opencode, true, 1, "\x1b[91m\x1b[1mError: \x1b[0mSession not found", SessionLost},
		{&opencode, false, 1, "Session not found", ""},
	} {
		if got := c.of.fault(c.resumed, tipstaff.WorkerExit{Code: c.code}, c.text); got != c.want {
			t.Errorf("%s, %q: %q, not %q", c.of.name, c.text, got, c.want)
		}
	}
}

func TestSpend(t *testing.T) {
	u := func(n int64) tipstaff.ModelUsage { return summed(tipstaff.ModelUsage{InputTokens: n, OutputTokens: 1}) }
	usd := func(n tipstaff.USD) *tipstaff.USD { return &n }
	price := func(model string, u tipstaff.ModelUsage) (tipstaff.USD, bool) {
		return tipstaff.USD(u.InputTokens), model == "priced"
	}
	used := u(7)
	for name, c := range map[string]struct {
		counts      counted
		before      tipstaff.SessionTotals
		end         *ending
		model       string
		tokens      int64
		known       bool
		cost        tipstaff.USD
		costKnown   bool
		totalTokens int64
		totalCost   tipstaff.USD
		warnings    int
	}{
		"reported":        {counted{}, tipstaff.SessionTotals{Usage: u(1), CostUSD: 5}, &ending{usage: &used, cost: usd(3)}, "", 8, true, 3, true, 10, 8, 0},
		"priced":          {counted{}, tipstaff.SessionTotals{}, &ending{usage: &used}, "priced", 8, true, 7, true, 8, 7, 0},
		"unknown price":   {counted{}, tipstaff.SessionTotals{}, &ending{usage: &used}, "other", 8, true, 0, false, 8, 0, 0},
		"no end":          {counted{cost: true}, tipstaff.SessionTotals{CostUSD: 5}, nil, "priced", 3, false, 0, false, 3, 5, 0},
		"session's cost":  {counted{cost: true}, tipstaff.SessionTotals{CostUSD: 5}, &ending{usage: &used, cost: usd(9)}, "", 8, true, 4, true, 8, 9, 0},
		"lower cost":      {counted{cost: true}, tipstaff.SessionTotals{CostUSD: 5}, &ending{usage: &used, cost: usd(2)}, "", 8, true, 2, true, 8, 2, 1},
		"session's usage": {counted{usage: true}, tipstaff.SessionTotals{Usage: tipstaff.ModelUsage{InputTokens: 3, OutputTokens: 1, TotalTokens: 4}}, &ending{usage: &used}, "priced", 4, true, 4, true, 8, 4, 0},
		"lower usage":     {counted{usage: true}, tipstaff.SessionTotals{Usage: u(100)}, &ending{usage: &used}, "", 8, true, 0, false, 8, 0, 1},
	} {
		s := spend(c.counts, c.before, u(2), c.end, c.model, price)
		if s.usage.TotalTokens != c.tokens || s.usageKnown != c.known || s.cost != c.cost || s.costKnown != c.costKnown || s.totals.Usage.TotalTokens != c.totalTokens || s.totals.CostUSD != c.totalCost || len(s.warnings) != c.warnings {
			t.Errorf("%s: %+v", name, s)
		}
	}
	for text, want := range map[string]tipstaff.USD{"0.00018399999999999997": 184_000, "0": 0, "1.5": 1_500_000_000, "1e-9": 1} {
		if got, ok := dollars(json.Number(text)); got != want || !ok {
			t.Errorf("%s: %v", text, got)
		}
	}
	for _, text := range []string{"", "-1", "NaN", "1e300", "x"} {
		if got, ok := dollars(json.Number(text)); ok {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestContainmentLevels(t *testing.T) {
	for _, c := range []struct {
		least, level string
		ok           bool
	}{{"", "group", true}, {"group", "group", true}, {"subreaper", "group", false}, {"subreaper", "cgroup", true}, {"cgroup", "subreaper", false}, {"jail", "cgroup", false}} {
		if err := contained(c.least, c.level); (err == nil) != c.ok || err != nil && tipstaff.CodeOf(err) != tipstaff.WorkerContainment {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Each invocation has logs of its own; one that exists is not written over.
func TestLogsAreNotWrittenOver(t *testing.T) {
	dir := t.TempDir()
	l, err := openLogs(dir, "i")
	if err != nil || l.close() != nil {
		t.Fatal(err)
	}
	if _, err := openLogs(dir, "i"); err == nil {
		t.Error("the logs are opened twice")
	}
	for _, name := range []string{"i.jsonl", "i.stderr", "i.log"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Error(name, err)
		}
	}
	if _, err := openLogs(filepath.Join(dir, "absent"), "i"); !errors.Is(err, os.ErrNotExist) && err == nil {
		t.Error("logs without a folder")
	}
}

func TestReadableLog(t *testing.T) {
	dir := t.TempDir()
	l, err := openLogs(dir, "i")
	if err != nil {
		t.Fatal(err)
	}
	l.write(readable{mark: "»", title: "w", text: strings.Repeat("ä", 2_001)})
	l.write(readable{mark: "←", title: "t", text: "one\r\ntwo\n\x1b[2J\tthree\n", most: outputShown})
	l.write(readable{mark: "=", title: "reported"})
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	got, _ := os.ReadFile(filepath.Join(dir, "i.log"))
	want := "» w: " + strings.Repeat("ä", 2_000) + " … (1 more characters)\n← t\n  one\n  two\n  \\u001b[2J    three\n= reported\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestPulse(t *testing.T) {
	var p pulse
	p.begin()
	first := p.last()
	time.Sleep(time.Millisecond)
	p.partial()
	if !p.last().After(first) {
		t.Error("bytes of a line that has not ended count")
	}
	p.ended(false)
	if p.last() != first {
		t.Error("a notice of a retry counts")
	}
	p.ended(true)
	if !p.last().After(first) {
		t.Error("a line counts")
	}
}
