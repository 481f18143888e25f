package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/worker"
	ws "github.com/tipstaff/tipstaff/workspace"
)

func TestPolicyOfWorkers(t *testing.T) {
	p, problems := ws.ParsePolicy("policy.yaml", []byte(`
version: 1
guards: [{id: sql, use: sql_guard, tool: worker-claude/Query, arg: /sql, dialect: postgres}]
rules:
  - {id: reads, tool: "worker-claude/*", effect: read, do: allow}
  - {id: danger, tool: worker-claude/Bash, when: 'args.command.contains("rm")', do: deny, why: nothing is removed}
  - {id: shell, tool: worker-claude/Bash, do: ask}
`))
	if problems != nil {
		t.Fatal(problems)
	}
	rules := workerRules{policy: p}
	for _, c := range []struct{ tool, class, args, static, by, decided, rule string }{
		{"Read", "read", `{}`, "allow", "reads", "allow", "reads"},
		{"Bash", "once", `{"command":"ls"}`, "depends", "danger", "ask", "shell"},
		{"Bash", "once", `{"command":"rm x"}`, "depends", "danger", "deny", "danger"},
		{"Write", "once", `{}`, "ask", "builtin/no-match", "ask", "builtin/no-match"},
		{"Query", "read", `{"sql":"select 1"}`, "depends", "sql", "allow", "reads"},
		{"Query", "read", `{"sql":"delete from t"}`, "depends", "sql", "ask", "builtin/no-match"},
		{"Query", "read", `{"sql":"select 1; select 2"}`, "depends", "sql", "deny", "sql"},
	} {
		s := rules.Static("worker-claude", c.tool, c.class)
		if s.Effect != c.static || strings.Join(s.Rules, " ") != c.by || s.Digest != p.Digest() {
			t.Errorf("%s: %+v", c.tool, s)
		}
		d := rules.Decide("worker-claude", c.tool, c.class, json.RawMessage(c.args))
		if d.Effect != c.decided || strings.Join(d.Rules, " ") != c.rule || d.Digest != p.Digest() {
			t.Errorf("%s %s: %+v", c.tool, c.args, d)
		}
		if raised := c.args == `{"sql":"delete from t"}`; raised != (d.Class != c.class) || raised && (d.Guards[0] != "sql:write" || len(d.Facts) == 0) {
			t.Errorf("%s: class %s, guards %v, facts %s", c.args, d.Class, d.Guards, d.Facts)
		}
	}
	if got := (workerRules{}).Decide("worker-claude", "Read", "read", nil); got.Effect != worker.Deny {
		t.Errorf("without a policy: %+v", got)
	}
}

// A command that a rule allows may write to what the worker may write, and to nothing else.
func TestRedirectsOfWorkers(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".git", filepath.Join(dir, "door")); err != nil {
		t.Fatal(err)
	}
	p, problems := ws.ParsePolicy("policy.yaml", []byte(`{version: 1, rules: [{id: tests, tool: worker-claude/Bash, command: "npm test", do: allow}]}`))
	if problems != nil {
		t.Fatal(problems)
	}
	protected := ws.Protect(nil, ws.Around{Dir: dir}).Protected
	rules := policyIn(dir, protected, policy.Run{}, worker.PolicyOptions{Type: "claude"}, p, func() (*policy.Policy, error) { return p, nil })
	for text, allowed := range map[string]bool{
		"npm test > out.txt": true, "npm test >> sub/out.txt 2>&1": true, "npm test > 'a b'": true, "npm test > " + dir + "/x": true, "npm test >/dev/null": true, "npm test < in.txt": true,
		"npm test > .git/hooks/pre-commit": false, "npm test >> CLAUDE.md": false, "npm test > tipstaff.yaml": false, "npm test 2> ../x": false, "npm test > /etc/x": false, "npm test > ~/.profile": false,
		"npm test > $X": false, "npm test > out*": false, "npm test > door/config": false, "npm test >| .envrc": false, "npm test > a > .mcp.json": false, "npm test <> .tipstaff/x": false, "npm run x > out.txt": false,
	} {
		got := rules.Decide(t.Context(), worker.Request{Tool: "worker-claude/Bash", Class: "once", Args: flow.JSON(map[string]string{"command": text})})
		if (got.Effect == worker.Allow) != allowed {
			t.Errorf("%s: %+v", text, got)
		}
	}
}
