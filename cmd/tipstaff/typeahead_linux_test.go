package main

import (
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

const typeahead = manifest + `-- gates.yaml --
kind: plan
version: 1
root:
  kind: sequential
  children:
    - {id: slow, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 1s}}
    - {id: first, kind: gate, question: "First?"}
    - {id: second, kind: gate, question: "Second?"}
    - {id: act, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo acted >> effects"]}}
-- waits.yaml --
kind: plan
version: 1
root: {kind: sequential, children: [{id: first, kind: gate, question: "First?"}]}
-- desk.yaml --
kind: plan
version: 1
root: {id: say, kind: tool_call, tool: "mcp://desk/echo@1.0.0"}
-- desk.json --
{"version": "1.0.0", "tools": [{"name": "echo", "description": "Says it.", "inputSchema": {"type": "object"}}]}
-- skills/notes/skill.yaml --
id: notes
version: 1.0.0
verbs: [find]
tools: [mcp://builtin/read_file@1.0.0]
sub_skills: none
-- skills/notes/SKILL.md --
---
name: notes
description: Looks after notes.
---
Read before you write.
-- script.yaml --
version: 1
answers:
  - {when: {user: "^act", step: 1}, calls: [{tool: builtin/exec, args: {argv: [sh, -c, "echo acted >> effects"]}}]}
  - {when: {user: "^act"}, text: Then not.}
  - text: '{"kind":"plan","version":1,"skill":"skill://notes@1.0.0","intent":{"verb":"find","objects":[{"name":"notes","value":"all"}]},"root":{"kind":"sequential","children":[{"id":"read","kind":"tool_call","tool":"mcp://builtin/read_file@1.0.0","args":{"path":"gates.yaml"}}]}}'
`

const minded = `  desk: {command: [toolserver, desk.json], tools: {echo: {}}}
models:
  first: {provider: scripted, script: script.yaml}
agents:
  default: {model: first, tools: [mcp://builtin/exec@1.0.0]}
`

// decisions are what was decided in the last run.
func (w *workspace) decisions() (actions []string) {
	for _, rec := range w.journal("@") {
		switch rec.Kind {
		case "policy.gate.resolve":
			actions = append(actions, rec.field("action"))
		case "intent.accept":
			if rec.field("gate") != "" {
				actions = append(actions, "accept")
			}
		}
	}
	return actions
}

// Whatever was typed before a question was on the screen does not answer it: complete
// lines, one that was begun and is entered later, one behind the answer to another
// question. A question that was answered so would take the first line, not the last.
func TestNothingTypedAheadAnswers(t *testing.T) {
	t.Parallel()
	type keys struct{ when, types string } // what is typed when a text is shown
	for name, c := range map[string]struct {
		args    []string
		env     string
		before  []string // a command before
		keys    []keys
		code    int
		actions string
	}{
		"run, lines": {args: []string{"run", "gates.yaml"}, code: 1, actions: "deny",
			keys: []keys{{"slow", "approve\napprove\nallow\n"}, {"approve, deny? ", "deny\n"}}},
		"run, a line that was begun": {args: []string{"run", "gates.yaml"}, code: 1, actions: "deny",
			keys: []keys{{"slow", "approve"}, {"approve, deny? ", "\n"}, {"please type one", ""}, {"approve, deny? ", "deny\n"}}},
		"run, a beginning that was sent": {args: []string{"run", "gates.yaml"}, code: 1, actions: "deny",
			keys: []keys{{"slow", "approve\x04"}, {"approve, deny? ", "\n"}, {"please type one", ""}, {"approve, deny? ", "deny\n"}}},
		"run, the end of input": {args: []string{"run", "gates.yaml"}, code: 1, actions: "deny",
			keys: []keys{{"slow", "\x04\x04"}, {"approve, deny? ", "deny\n"}}},
		"run, while another question is open": {args: []string{"run", "gates.yaml"}, code: 1, actions: "approve deny",
			keys: []keys{{"approve, deny? ", "approve\napprove\nappr"}, {"Second?", ""}, {"approve, deny? ", "deny\n"}}},
		"run, behind nonsense": {args: []string{"run", "gates.yaml"}, code: 1, actions: "deny",
			keys: []keys{{"approve, deny? ", "what\napprove\n"}, {"none of the actions", ""}, {"approve, deny? ", "deny\n"}}},
		"run without a live view": {args: []string{"run", "gates.yaml"}, env: "TERM=dumb", code: 1, actions: "deny",
			keys: []keys{{"started", "approve\napprove\nappr"}, {"approve, deny? ", "deny\n"}}},
		"resume": {before: []string{"run", "waits.yaml", "--unattended"}, args: []string{"resume", "@"}, code: 1, actions: "deny",
			keys: []keys{{"", "approve\napprove\n"}, {"approve, deny? ", "deny\n"}}},
		"do": {args: []string{"do", "Read", "--skill", "skill://notes@1.0.0"}, code: 8, actions: "reject",
			keys: []keys{{"", "accept\naccept\n"}, {"accept, re", "reject\n"}}},
		"chat with a message": {args: []string{"chat", "act"}, code: 0, actions: "deny",
			keys: []keys{{"", "y\na\ny"}, {"allow? y", "n\n"}}},
		"chat at a dumb terminal": {args: []string{"chat"}, env: "TERM=dumb", code: 0, actions: "deny",
			keys: []keys{{"› ", "act\ny\n"}, {"allow? y", "n\n"}, {"Then not", ""}, {"› ", "/quit\n"}}},
		"tools pin": {args: []string{"tools", "pin"}, code: 3,
			keys: []keys{{"", "allow\nallow"}, {"allow, deny? ", "deny\n"}}},
		"tools call": {args: []string{"tools", "call", "mcp://desk/echo@1.0.0"}, code: 3,
			keys: []keys{{"", "allow\nallow\n"}, {"allow, deny? ", "deny\n"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, typeahead)
			w.Write("tipstaff.yaml", w.Read("tipstaff.yaml")+minded)
			w.Env = append(w.Env, "NO_COLOR=1")
			if c.env != "" {
				w.Env = append(w.Env, c.env)
			}
			if c.before != nil {
				w.Run(c.before...)
			}
			term := w.atTerminal(c.args...)
			seen := map[string]int{}
			for _, k := range c.keys {
				if k.when != "" {
					seen[k.when]++
					term.asked(k.when, seen[k.when])
				}
				if k.types != "" {
					term.types(k.types)
				}
			}
			term.ended(c.code)
			if strings.HasPrefix(name, "tools") {
				if strings.Contains(w.Read("tipstaff.lock"), "sha256:") {
					t.Errorf("it was locked\n%s", term.shown())
				}
				return
			}
			if got := strings.Join(w.decisions(), " "); got != c.actions || w.Read("effects") != "" {
				t.Errorf("decided %q, want %q; effects %q\n%s", got, c.actions, w.Read("effects"), term.shown())
			}
		})
	}
}

// echoes reports whether the terminal shows what is typed.
func (term *terminal) echoes() bool {
	t, err := unix.IoctlGetTermios(int(term.keys.Fd()), unix.TCGETS)
	term.Folder.Check(err)
	return t.Lflag&unix.ECHO != 0
}

// While a live view is shown nothing that is typed gets into it; a question, a stop and
// the end, whichever way it comes, give the echo back.
func TestALiveViewHasNoEcho(t *testing.T) {
	t.Parallel()
	long := strings.Replace(typeahead, "duration: 1s", "duration: 5m", 1)
	until := func(term *terminal, what string, echo bool) {
		term.Folder.Helper()
		term.Folder.Until(what, func() bool { return term.echoes() == echo })
	}
	t.Run("questions", func(t *testing.T) {
		t.Parallel()
		w := newWorkspace(t, typeahead)
		term := w.atTerminal("run", "gates.yaml")
		until(term, "silence", false)
		term.types("unseen")
		term.asked("approve, deny? ", 1)
		if !term.echoes() {
			t.Error("nobody sees the answer that they type")
		}
		term.types("deny\n")
		if shown := term.ended(1); strings.Contains(shown, "unseen") {
			t.Errorf("it was shown:\n%s", shown)
		}
	})
	for name, c := range map[string]struct {
		signals []syscall.Signal
		code    int
	}{
		"stopped, interrupted": {[]syscall.Signal{syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGINT}, 130},
		"terminated":           {[]syscall.Signal{syscall.SIGTERM}, 143},
		"quit":                 {[]syscall.Signal{syscall.SIGQUIT}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorkspace(t, long)
			term := w.atTerminal("run", "gates.yaml")
			until(term, "silence", false)
			for _, sig := range c.signals {
				w.Check(term.Cmd.Process.Signal(sig))
				if sig != syscall.SIGCONT {
					until(term, "an answer to "+sig.String(), true)
					continue
				}
				w.Until("silence after "+sig.String(), func() bool {
					w.Check(term.Cmd.Process.Signal(sig)) // one that comes before the process has stopped is lost with the stop
					return !term.echoes()
				})
			}
			term.ended(c.code)
		})
	}
}
