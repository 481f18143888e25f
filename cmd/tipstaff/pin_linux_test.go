package main

import (
	"strings"
	"testing"
)

// A person at the terminal who starts a plan with tools that nobody has accepted
// yet is shown their definitions and asked. Only a clear answer locks anything, and
// only then the run exists.
func TestToolsAreLockedAtATerminal(t *testing.T) {
	t.Parallel()
	const files = `-- tipstaff.yaml --
servers:
  desk: {command: [toolserver, desk], tools: {echo: {}}}
-- desk.json --
{"version": "1.0.0", "tools": [{"name": "echo", "description": "Says it again. \u001b[2J\u202e", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}}]}
-- plan.yaml --
kind: plan
version: 1
root: {id: say, kind: tool_call, tool: "mcp://desk/echo@1.0.0"}
`
	for name, c := range map[string]struct {
		args []string
		keys string
		code int
	}{
		"run, allowed":      {[]string{"run", "plan.yaml"}, "allow\n", 0},
		"run, denied":       {[]string{"run", "plan.yaml"}, "deny\n", 3},
		"run, no answer":    {[]string{"run", "plan.yaml"}, "\x04", 3},
		"run, interrupted":  {[]string{"run", "plan.yaml"}, "\x03", 130},
		"run, unattended":   {[]string{"run", "plan.yaml", "--unattended"}, "", 3},
		"call, allowed":     {[]string{"tools", "call", "mcp://desk/echo@1.0.0"}, "a\n", 0},
		"pin, allowed":      {[]string{"tools", "pin"}, "allow\n", 0},
		"pin, denied":       {[]string{"tools", "pin"}, "d\n", 3},
		"pin, only checked": {[]string{"tools", "pin", "--check"}, "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, files)
			term := w.atTerminal(c.args...)
			if c.keys != "" {
				term.asked("allow, deny? ", 1)
				term.types(c.keys)
			}
			r := term.Wait()
			<-term.dark
			if r.Code != c.code {
				t.Errorf("want exit code %d, got %d\n%s", c.code, r.Code, term.shown())
			}
			if locked := strings.Contains(w.Read("tipstaff.lock"), "sha256:"); locked != (c.code == 0) {
				t.Errorf("locked: %v\n%s", locked, term.shown())
			}
			called := c.code == 0 && c.args[1] != "pin"
			if got := w.Read("calls") != ""; got != called {
				t.Errorf("called: %v\n%s", got, term.shown())
			}
			if c.keys != "" && !strings.Contains(term.shown(), `Says it again. \u001b[2J\u202e`) {
				t.Errorf("the definition was not shown as it is before the answer was asked for:\n%s", term.shown())
			}
			if runs := w.Must(0, "ls").Out; (runs != "") != called {
				t.Errorf("there are runs: %s", runs)
			}
		})
	}
}
