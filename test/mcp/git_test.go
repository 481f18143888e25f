package mcp

import (
	"os/exec"
	"strings"
	"testing"
)

func TestGit(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t)
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	w.Write("repo/note.txt", "hello\n")
	w.Write(".gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.com\n")
	w.files(strings.ReplaceAll(`-- tipstaff.yaml --
allowed_effects: [read, once]
servers:
  git:
    command: `+w.command(git)+`
    tools: {git_init: {}, git_add: {}, git_commit: {}, git_status: {}, git_log: {}}
-- commit.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: made, kind: tool_call, tool: "mcp://git/git_init@2.15.3", args: {path: DIR}}
    - {id: before, kind: tool_call, tool: "mcp://git/git_status@2.15.3", args: {path: DIR}}
    - {id: added, kind: tool_call, tool: "mcp://git/git_add@2.15.3", args: {path: DIR, paths: [note.txt]}}
    - {id: done, kind: tool_call, tool: "mcp://git/git_commit@2.15.3", args: {path: DIR, message: "A note"}}
    - kind: parallel
      children:
        - {id: after, kind: tool_call, tool: "mcp://git/git_status@2.15.3", args: {path: DIR}}
        - {id: log, kind: tool_call, tool: "mcp://git/git_log@2.15.3", args: {path: DIR}}
outputs: {before: "${before.output.isClean}", after: "${after.output.isClean}"}
`, "DIR", w.Path("repo"))).pin()
	var out struct{ Before, After bool }
	if w.outputs("commit.yaml", &out); out.Before || !out.After {
		t.Errorf("clean before: %v, after: %v", out.Before, out.After)
	}
	log, err := exec.Command("git", "-C", w.Path("repo"), "log", "--format=%an %s").CombinedOutput()
	if err != nil || string(log) != "Ada A note\n" {
		t.Errorf("%v: %s", err, log)
	}
	w.noServers()
}
