package shellguard

import (
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
)

// What a rule that names a command comes to before a call is made, for whoever must be told
// beforehand what a tool may do: never to more than to a question.
func TestACommandBeforeThereIsACall(t *testing.T) {
	rule := func(do policy.Action, command string) policy.Rule {
		id := do.String()
		if command == "" {
			id += "-all"
		}
		return policy.Rule{ID: id, Tool: "*/*", Command: command, Do: do}
	}
	for name, c := range map[string]struct {
		rules   []policy.Rule
		want    policy.Action
		depends string // the rules, and the guard, that it depends on
	}{
		"allowed":                       {[]policy.Rule{rule(policy.Allow, "npm test")}, policy.Ask, "allow"},
		"asked":                         {[]policy.Rule{rule(policy.Ask, "npm test")}, policy.Ask, ""},
		"denied":                        {[]policy.Rule{rule(policy.Deny, "npm test")}, policy.Ask, "deny"},
		"allowed, and all else is":      {[]policy.Rule{rule(policy.Allow, ""), rule(policy.Allow, "npm test")}, policy.Allow, ""},
		"denied, and all else allowed":  {[]policy.Rule{rule(policy.Allow, ""), rule(policy.Deny, "git push *")}, policy.Allow, "deny"},
		"asked, and all else allowed":   {[]policy.Rule{rule(policy.Allow, ""), rule(policy.Ask, "git push *")}, policy.Allow, "ask"},
		"allowed, and all else denied":  {[]policy.Rule{rule(policy.Deny, ""), rule(policy.Allow, "npm test")}, policy.Deny, "-"},
		"allowed, and another's denied": {[]policy.Rule{rule(policy.Allow, "npm test"), rule(policy.Deny, "git push *")}, policy.Ask, "allow deny"},
	} {
		p := policyWith(t, c.rules...)
		for tool := range map[string]bool{"worker-claude/Bash": true, "worker-codex/command_execution": true, "worker-gemini/run_shell_command": true, "worker-opencode/bash": true, "worker-cursor/shell": true} {
			server, of, _ := strings.Cut(tool, "/")
			v, depends := p.Static(server, of, flow.Once)
			if v.Do != c.want || depends != (c.depends != "-") || depends && !strings.HasPrefix(strings.Join(v.Rules, " "), c.depends) {
				t.Errorf("%s, %s: %v, depends %v on %v", name, tool, v.Do, depends, v.Rules)
			}
		}
	}
}
