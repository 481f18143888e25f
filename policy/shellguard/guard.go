// Package shellguard is the guard of policies that reads texts for a shell, so that a
// rule can name a command and mean that command, not a text that begins with it. It is
// separate from package policy because of its parser.
//
// Start at [Kind] for what is looked at, at reader.go for what counts as literal.
package shellguard

import (
	"encoding/json"
	"errors"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
)

// maxText is the longest text that is looked into. The parser descends recursively, so
// that length is what bounds its stack.
const maxText = 32 << 10

// Kind is for [policy.New]. It watches over the tools of which it is known that they run
// what a shell is given, wherever a rule names a command; for others a document declares it.
var Kind = policy.GuardKind{Name: policy.ShellGuard, New: newGuard, Words: Words, Known: []policy.GuardConfig{
	{Tool: "worker-claude/Bash", Arg: "/command"},
	{Tool: "worker-codex/command_execution", Arg: "/command"},
	{Tool: "worker-cursor/shell", Arg: "/command"},
	{Tool: "worker-gemini/run_shell_command", Arg: "/command"},
	{Tool: "worker-opencode/bash", Arg: "/command"},
	{Tool: "worker-scripted/exec", Arg: "/argv"},
	{Tool: "builtin/exec", Arg: "/argv"},
}}

// guard reads one argument: a text for a shell, or the words of a command.
type guard struct{ arg policy.Pointer }

func newGuard(c policy.GuardConfig) (policy.Guard, error) {
	if c.Dialect != "" || len(c.Functions) > 0 {
		return nil, errors.New("dialect and functions are for " + policy.SQLGuard)
	}
	arg, err := policy.ParsePointer(c.Arg)
	if err != nil {
		return nil, &policy.FieldError{Field: "arg", Message: err.Error()}
	}
	return guard{arg}, nil
}

// Find never refuses, and raises nothing: what a command does is not told by its text.
func (g guard) Find(args json.RawMessage) policy.Finding {
	s := g.look(args)
	return policy.Finding{Name: "shell", Facts: flow.JSON(told(s)), Seen: flow.JSON(s), Class: "exec"}
}

// told is what is shown of a text and recorded: what there is in it, and not what there is not.
func told(s policy.Shell) map[string]any {
	facts := map[string]any{"parsed": s.Parsed}
	add := func(name string, there bool, what any) {
		if there {
			facts[name] = what
		}
	}
	add("why", s.Why != "", s.Why)
	add("commands", len(s.Commands) > 0, s.Commands)
	add("pipes", s.Pipes > 0, s.Pipes)
	add("redirects", len(s.Redirects) > 0, s.Redirects)
	add("substitutions", s.Substitutions > 0, s.Substitutions)
	add("assignments", s.Assignments > 0, s.Assignments)
	add("functions", s.Functions > 0, s.Functions)
	add("background", s.Background, true)
	add("compound", s.Compound, true)
	add("ambiguous", s.Ambiguous, true)
	return facts
}

func (g guard) look(args json.RawMessage) policy.Shell {
	value, err := g.arg.Value(args)
	var text string
	var words []string
	switch {
	case err != nil:
		return unread(err)
	case json.Unmarshal(value, &text) == nil && len(value) > 0 && value[0] == '"':
		return read(text)
	case json.Unmarshal(value, &words) == nil && len(words) > 0:
		return policy.Shell{Parsed: true, Commands: []policy.ShellCommand{literal(words)}, Redirects: []policy.ShellRedirect{}}
	}
	return unread(errors.New("it is neither a text nor a list of words"))
}

func unread(why error) policy.Shell {
	return policy.Shell{Why: why.Error(), Commands: []policy.ShellCommand{}, Redirects: []policy.ShellRedirect{}}
}

func literal(words []string) policy.ShellCommand {
	return policy.ShellCommand{Name: words[0], Args: append([]string{}, words[1:]...), Literal: true, Known: len(words)}
}
