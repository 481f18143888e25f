package worker

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tipstaff/tipstaff"
)

// argvOf is the command line of a worker in a bed, without starting it.
func argvOf(t *testing.T, b *bed, resume bool) []string {
	t.Helper()
	l, i := prepared(t, b, resume)
	return i.program(l).Args[1:]
}

func prepared(t *testing.T, b *bed, resume bool) (*launch, *invocation) {
	t.Helper()
	w := b.worker()
	s, unenforced, err := w.take(b.options.Posture, b.options.Policy)
	b.must(err)
	l := &launch{of: w.of, o: &b.options, stance: s, user: w.settings() == "user", self: w.config.Self, script: w.config.Script, values: map[string][]string{}, env: slices.Concat(b.options.Env, w.of.always)}
	t.Cleanup(func() {
		for _, f := range l.cleanup {
			f()
		}
	})
	b.must(w.of.prepare(l))
	return l, &invocation{w: w, o: &b.options, resume: resume, plan: plan{info: Info{Path: "/bin/cli"}, row: w.rows[len(w.rows)-1], unenforced: unenforced}}
}

// The command lines, as they are written down for each CLI: @ stands for the private
// folder, P for what the posture adds.
func TestCommandLines(t *testing.T) {
	const (
		tools = "mcp__tipstaff__task_status,mcp__tipstaff__task_set_status,mcp__tipstaff__task_log,mcp__tipstaff__task_ask,mcp__tipstaff__task_output"
		hook  = " --permission-prompt-tool mcp__tipstaff__approve --allowedTools " + tools
		cx    = ` -c approval_policy="never" -c mcp_servers.tipstaff.command="/opt/tipstaff" -c mcp_servers.tipstaff.args=["worker-mcp"] -c mcp_servers.tipstaff.required=true` +
			` -c mcp_servers.tipstaff.default_tools_approval_mode="approve"` +
			` -c mcp_servers.tipstaff.env_vars=["TIPSTAFF_MCP_SOCKET","TIPSTAFF_RUN_ID","TIPSTAFF_LAUNCH","TIPSTAFF_SPAWN"]`
	)
	cases := map[string]struct {
		spawn, resume string
		model         string // how it is given
		postures      map[Posture]string
	}{
		"claude": {
			"-p --verbose --output-format stream-json P --setting-sources '' --mcp-config @/mcp.json --strict-mcp-config M --max-budget-usd 1.50 --session-id " + anID,
			"-p --verbose --output-format stream-json P --setting-sources '' --mcp-config @/mcp.json --strict-mcp-config M --max-budget-usd 1.50 --resume " + anID,
			"--model",
			map[Posture]string{
				Auto:     "--permission-mode default" + hook,
				ReadOnly: "--permission-mode dontAsk --disallowedTools Edit,Write,NotebookEdit --allowedTools " + tools,
				Write:    "--permission-mode acceptEdits" + hook,
				Bypass:   "--dangerously-skip-permissions",
			}},
		"codex": {
			"exec --json --skip-git-repo-check --ignore-user-config --ignore-rules P" + cx + " M -",
			"exec resume --json --skip-git-repo-check --ignore-user-config --ignore-rules P" + cx + " M " + anID + " -",
			"-m",
			map[Posture]string{
				Auto:     `-c sandbox_mode="workspace-write" -c sandbox_workspace_write.network_access=true`,
				ReadOnly: `-c sandbox_mode="read-only" -c web_search="disabled"`,
				Write:    `-c sandbox_mode="workspace-write" -c sandbox_workspace_write.network_access=false -c web_search="disabled"`,
				Bypass:   "--dangerously-bypass-approvals-and-sandbox",
			}},
		"gemini": {
			"-o stream-json --skip-trust P M --session-id " + anID,
			"-o stream-json --skip-trust P M --resume " + anID,
			"-m",
			map[Posture]string{
				Auto:     "--approval-mode default --policy @/policy.toml",
				ReadOnly: "--approval-mode default --policy @/policy.toml",
				Write:    "--approval-mode auto_edit --policy @/policy.toml",
				Bypass:   "--approval-mode yolo",
			}},
		"opencode": {
			"run --pure --format json M",
			"run --pure --format json M -s " + anID,
			"-m",
			map[Posture]string{Auto: "", ReadOnly: "", Write: "", Bypass: ""}},
		"cursor": {
			"-p --output-format stream-json --trust P --approve-mcps M --resume " + anID,
			"-p --output-format stream-json --trust P --approve-mcps M --resume " + anID,
			"--model",
			map[Posture]string{Auto: "", ReadOnly: "", Write: "--force --sandbox enabled", Bypass: "--force --sandbox disabled"}},
		"scripted": {
			"worker-agent --script /answers.yaml --session " + anID,
			"worker-agent --script /answers.yaml --resume " + anID,
			"",
			map[Posture]string{Auto: "", ReadOnly: "", Write: "", Bypass: ""}},
	}
	for typ, c := range cases {
		for posture, flags := range c.postures {
			for _, model := range []string{"", "big"} {
				for _, resume := range []bool{false, true} {
					b := newBed(t, typ)
					b.config.Sandbox = "a container"
					b.options.Posture, b.options.Model = posture, model
					b.options.Limits.CostUSD = 1_500_000_000
					want := c.spawn
					if resume {
						want = c.resume
					}
					m := ""
					if model != "" {
						m = c.model + " " + model
					}
					want = " " + want + " "
					want = strings.Replace(want, " P ", " "+flags+" ", 1)
					want = strings.Replace(want, " M ", " "+m+" ", 1)
					want = strings.ReplaceAll(want, "@", b.options.Folder)
					words := strings.Fields(want)
					for n := range words {
						if words[n] == "''" {
							words[n] = ""
						}
					}
					got := argvOf(t, b, resume)
					if diff := cmp.Diff(words, got); diff != "" {
						t.Errorf("%s, %s, model %q, resume %v:\n%s", typ, posture, model, resume, diff)
					}
				}
			}
		}
	}
}

func TestArgumentsOfTheConfigurationAreAppended(t *testing.T) {
	for typ, args := range map[string][]string{
		"claude":   {"--effort", "high", "--fallback-model=small"},
		"codex":    {"-c", `model_providers.x={name="x"}`, "--config=model_provider=x", "-cmodel_providers.y.name=1"},
		"gemini":   {"--debug"},
		"opencode": {"--variant", "high", "--thinking"},
	} {
		b := newBed(t, typ)
		b.config.Args = args
		for _, resume := range []bool{false, true} {
			if got := argvOf(t, b, resume); !strings.Contains(strings.Join(got, "\x00"), strings.Join(args, "\x00")) {
				t.Errorf("%s: %q", typ, got)
			}
		}
	}
}

func TestReservedArguments(t *testing.T) {
	for typ, list := range map[string][][]string{
		"claude": {{"--model", "x"}, {"--model=x"}, {"--mod", "x"}, {"--permission-mode=plan"}, {"--dangerously-skip-permissions"}, {"--danger"}, {"-p"}, {"-dp"}, {"-c"}, {"-rID"},
			{"--allowedTools", "Bash"}, {"--allowed-tools", "Bash"}, {"--settings", "f"}, {"--setting", "f"}, {"--resume"}, {"--mcp-config=f"}, {"--verbose"}, {"--ALLOWEDTOOLS", "x"},
			{"a prompt"}, {"--effort", "high", "a prompt"}, {"--effort=high", "a prompt"}, {"-"}, {"--"}, {"--output", "json"}, {"--add-dir", "/"}},
		"codex": {{"-s", "danger-full-access"}, {"-sdanger-full-access"}, {"--sandbox=x"}, {"-c", "sandbox_mode=x"}, {"-csandbox_mode=x"}, {"--config", "approval_policy=x"}, {"--config=mcp_servers.x=1"},
			{"--conf", "sandbox_mode=x"}, {"-c", " sandbox_mode=x"}, {"--full-auto"}, {"--full"}, {"-m", "x"}, {"--profile", "x"}, {"--json"}, {"-c", "profile=x"}, {"--add-dir", "x"}},
		"gemini":   {{"-y"}, {"--yolo"}, {"--approvalMode", "yolo"}, {"--approval-mode=yolo"}, {"--no-skip-trust"}, {"--policy", "f"}, {"-dy"}, {"--allowedTools", "x"}, {"-o=text"}, {"-r", "latest"}},
		"opencode": {{"-s", "x"}, {"--session=x"}, {"--continue"}, {"--no-pure"}, {"--format", "default"}, {"--share"}, {"--agent", "x"}, {"--attach", "x"}, {"hello"}},
		"cursor":   {{"--force"}, {"-f"}, {"--sandbox", "disabled"}, {"--yolo"}, {"--resume", "x"}},
		"scripted": {{"--script", "f"}, {"--session=x"}},
	} {
		for _, args := range list {
			if len(ArgFaults(typ, args)) == 0 {
				t.Errorf("%s takes %q", typ, args)
			}
			b := newBed(t, typ)
			b.config.Args = args
			if _, err := New(b.config); tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
				t.Errorf("New takes %q: %v", args, err)
			}
		}
	}
}

// A second family of versions needs one row.
func TestFamilies(t *testing.T) {
	old := row{of: &claude, family: "old", from: "1.0", below: "2.0", spawn: []string{"--old", "{id}"}, resume: []string{"--old"}}
	both := append([]row{old}, rowsOf("claude")...)
	for version, want := range map[string]string{
		"0.9": "-", "1.0.0": "old", "1.99": "old", "2.1.196": "old, unknown", "2.1.197": "claude-2.1", "2.1.325": "claude-2.1", "2.2.0": "claude-2.1, unknown", "3.0": "claude-2.1, unknown",
	} {
		r, known, ok := rowFor(both, version)
		got := r.family
		if !ok {
			got = "-"
		} else if !known {
			got += ", unknown"
		}
		if got != want {
			t.Errorf("%s: %s, not %s", version, got, want)
		}
	}
	b := newBed(t, "claude", happy()...)
	b.script("1.5.0 (Claude Code)", happy()...)
	w := b.worker()
	w.rows = both
	if _, err := w.Spawn(t.Context(), b.options); err != nil {
		t.Fatal(err)
	}
	if got := b.seen()[0].Args; !slices.Equal(got, []string{"--old", anID}) || b.sink.starts[0].Family != "old" {
		t.Errorf("%q", got)
	}
}

func TestForkOfASession(t *testing.T) {
	b := newBed(t, "claude")
	b.options.Session.ForkOf = "the-source"
	if got := argvOf(t, b, false); !slices.Equal(got[len(got)-5:], []string{"--resume", "the-source", "--fork-session", "--session-id", anID}) {
		t.Errorf("%q", got)
	}
	c := newBed(t, "gemini", happy()...)
	c.options.Session.ForkOf = "x"
	if _, err := c.worker().Spawn(t.Context(), c.options); tipstaff.CodeOf(err) != tipstaff.InvalidArgument {
		t.Error(err)
	}
}

// What is written for each CLI names the channel's variable and holds neither token nor
// socket.
func TestConfigurations(t *testing.T) {
	check := func(t *testing.T, got string, want any) {
		t.Helper()
		var g any
		if err := json.Unmarshal([]byte(got), &g); err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		w, _ := json.Marshal(want)
		var v any
		_ = json.Unmarshal(w, &v)
		if diff := cmp.Diff(v, g); diff != "" {
			t.Error(diff)
		}
	}
	env := func(form string) map[string]string {
		m := map[string]string{}
		for _, n := range []string{"TIPSTAFF_MCP_SOCKET", "TIPSTAFF_RUN_ID", "TIPSTAFF_LAUNCH", "TIPSTAFF_SPAWN"} {
			m[n] = strings.ReplaceAll(form, "X", n)
		}
		return m
	}
	t.Run("claude", func(t *testing.T) {
		b := newBed(t, "claude")
		l, _ := prepared(t, b, false)
		check(t, b.read(filepath.Join(b.options.Folder, "mcp.json")), object{"mcpServers": object{"tipstaff": object{"type": "stdio", "command": "/opt/tipstaff", "args": []string{"worker-mcp"}, "env": env("${X:-}")}}})
		if l.getenv("DISABLE_AUTOUPDATER") != "1" || l.getenv("IS_SANDBOX") != "" {
			t.Errorf("%q", l.env)
		}
		b.config.Settings = "user"
		if got := argvOf(t, b, true); got[slices.Index(got, "--setting-sources")+1] != "user" {
			t.Errorf("%q", got)
		}
		b.options.Posture, b.config.Sandbox = Bypass, "a container"
		if l, _ := prepared(t, b, false); (l.getenv("IS_SANDBOX") == "1") != (os.Geteuid() == 0) {
			t.Errorf("%q", l.env)
		}
	})
	t.Run("gemini beside a comma", func(t *testing.T) {
		b := newBed(t, "gemini")
		b.options.Posture, b.options.Folder = ReadOnly, filepath.Join(t.TempDir(), "a,b")
		w := b.worker()
		s, _, err := w.take(b.options.Posture, b.options.Policy)
		b.must(err)
		var e *tipstaff.Error
		if err := w.of.prepare(&launch{of: w.of, o: &b.options, stance: s, values: map[string][]string{}}); !errors.As(err, &e) || e.Code != tipstaff.WorkerDirectory {
			t.Errorf("%v", err)
		}
	})
	t.Run("gemini", func(t *testing.T) {
		b := newBed(t, "gemini")
		home := filepath.Join(lookup(b.options.Env, "HOME"), ".gemini")
		b.must(os.Mkdir(home, 0o700))
		b.must(os.WriteFile(filepath.Join(home, "settings.json"), []byte(`{"security":{"auth":{"selectedType":"oauth"},"other":1},"tools":{"allowed":["all"]}}`), 0o600))
		b.must(os.WriteFile(filepath.Join(home, "oauth_creds.json"), []byte(`{}`), 0o600))
		b.options.Posture = Auto
		b.options.Policy = ruled{"write_file": {Effect: Allow}, "replace": {Effect: Allow}, "run_shell_command": {Effect: Deny}, "web_fetch": {Effect: Deny}, "google_web_search": {Effect: Allow}}
		l, _ := prepared(t, b, false)
		folder := b.options.Folder
		if l.getenv("GEMINI_CLI_HOME") != folder || l.getenv("GEMINI_CLI_NO_RELAUNCH") != "true" {
			t.Errorf("%q", l.env)
		}
		server := object{"command": "/opt/tipstaff", "args": []string{"worker-mcp"}, "trust": true, "env": env("$X")}
		check(t, b.read(filepath.Join(folder, ".gemini/settings.json")), object{"security": object{"auth": object{"selectedType": "oauth"}}, "mcpServers": object{"tipstaff": server},
			"experimental": object{"enableAgents": false}, "general": object{"disableAutoUpdate": true, "enableAutoUpdate": false}})
		if to, err := os.Readlink(filepath.Join(folder, ".gemini/oauth_creds.json")); err != nil || to != filepath.Join(home, "oauth_creds.json") {
			t.Error(to, err)
		}
		rules := map[string]string{}
		for rule := range strings.SplitSeq(b.read(filepath.Join(b.options.Folder, "policy.toml")), "[[rule]]\n") {
			fields := strings.Split(rule, "\n")
			if len(fields) > 2 {
				rules[fields[0]] = fields[1]
			}
		}
		want := map[string]string{`toolName = "write_file"`: `decision = "allow"`, `toolName = "replace"`: `decision = "allow"`, `toolName = "run_shell_command"`: `decision = "deny"`,
			`toolName = "web_fetch"`: `decision = "deny"`, `toolName = "google_web_search"`: `decision = "allow"`}
		if diff := cmp.Diff(want, rules); diff != "" {
			t.Error(diff)
		}
		b.options.Policy = allowAll
		prepared(t, b, false)
		if got := b.read(filepath.Join(b.options.Folder, "policy.toml")); strings.Count(got, "allowRedirection = true") != 1 {
			t.Error(got)
		}
		b.must(os.WriteFile(filepath.Join(home, "settings.json"), []byte(`{"security":{"auth":{"selectedType":"gemini-api-key"},"other":1},"tools":{"allowed":["all"]}}`), 0o600))
		prepared(t, b, false)
		if got := b.read(filepath.Join(folder, ".gemini/settings.json")); !strings.Contains(got, `"useExternal":true`) {
			t.Error(got) // without it the CLI reads .env of the tree
		}
		b.config.Settings = "user"
		prepared(t, b, true) // the link is there already
		if got := b.read(filepath.Join(folder, ".gemini/settings.json")); !strings.Contains(got, `"allowed":["all"]`) || !strings.Contains(got, `"other":1`) || strings.Contains(got, "useExternal") {
			t.Error(got) // nor does it stand in the way of what the user obeys
		}
	})
	t.Run("opencode", func(t *testing.T) {
		for posture, want := range map[Posture]string{
			ReadOnly: `{"*":"deny","read":"allow","glob":"allow","grep":"allow","list":"allow","tipstaff_*":"allow","edit":"deny","bash":"deny","webfetch":"deny","websearch":"deny","codesearch":"deny"}`,
			Write:    `{"*":"deny","read":"allow","glob":"allow","grep":"allow","list":"allow","tipstaff_*":"allow","edit":"allow","bash":"deny","webfetch":"allow","websearch":"deny","codesearch":"deny"}`,
			Bypass:   `{"*":"allow"}`,
		} {
			b := newBed(t, "opencode")
			b.config.Sandbox = "a container"
			b.options.Posture = posture
			b.options.Policy = ruled{"webfetch": {Effect: Allow}}
			l, _ := prepared(t, b, false)
			content := l.getenv("OPENCODE_CONFIG_CONTENT")
			if !strings.Contains(content, `"permission":`+want) { // its order counts
				t.Errorf("%s: %s", posture, content)
			}
			var config struct{ MCP map[string]any }
			b.must(json.Unmarshal([]byte(content), &config))
			mcp, _ := json.Marshal(config.MCP)
			check(t, string(mcp), object{"tipstaff": object{"type": "local", "command": []string{"/opt/tipstaff", "worker-mcp"}, "environment": env("{env:X}"), "enabled": true}})
			if l.getenv("XDG_CONFIG_HOME") != filepath.Join(b.options.Folder, "config") || l.getenv("OPENCODE_DISABLE_AUTOUPDATE") != "1" || l.getenv("OPENCODE_DISABLE_PROJECT_CONFIG") != "1" {
				t.Errorf("%q", l.env)
			}
		}
	})
	t.Run("cursor", func(t *testing.T) {
		b := newBed(t, "cursor")
		b.must(os.MkdirAll(filepath.Join(b.options.Dir, ".git/info"), 0o700))
		b.must(os.WriteFile(filepath.Join(b.options.Dir, ".git/info/exclude"), []byte("# mine"), 0o600))
		l, _ := prepared(t, b, false)
		check(t, b.read(filepath.Join(b.options.Folder, "cursor/cli-config.json")), object{"version": 1, "editor": object{"vimMode": false},
			"permissions": object{"allow": []string{"Mcp(tipstaff:*)", "Read(**)"}, "deny": []string{"Write(**)", "Shell(**)"}}})
		check(t, b.read(filepath.Join(b.options.Dir, ".cursor/mcp.json")), object{"mcpServers": object{"tipstaff": object{"command": "/opt/tipstaff", "args": []string{"worker-mcp"}, "env": env("${env:X}")}}})
		if got := b.read(filepath.Join(b.options.Dir, ".git/info/exclude")); got != "# mine\n/.cursor/mcp.json\n" || l.getenv("CURSOR_CONFIG_DIR") != filepath.Join(b.options.Folder, "cursor") {
			t.Errorf("%q, %q", got, l.env)
		}
		if err := excludeFromGit(b.options.Dir, "/.cursor/mcp.json"); err != nil || strings.Count(b.read(filepath.Join(b.options.Dir, ".git/info/exclude")), "mcp.json") != 1 {
			t.Error("the path is listed twice", err)
		}
	})
	t.Run("worktree", func(t *testing.T) {
		dir := t.TempDir()
		common, own, tree := filepath.Join(dir, "repo/.git"), filepath.Join(dir, "repo/.git/worktrees/w"), filepath.Join(dir, "w")
		for _, d := range []string{common, own, tree} {
			if err := os.MkdirAll(d, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for file, text := range map[string]string{filepath.Join(tree, ".git"): "gitdir: " + own + "\n", filepath.Join(own, "commondir"): "../..\n"} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := excludeFromGit(tree, "/x"); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(common, "info/exclude")); err != nil || string(got) != "/x\n" {
			t.Errorf("%q, %v", got, err)
		}
	})
}
