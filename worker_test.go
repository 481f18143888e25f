package tipstaff_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

func requestOf(tool, args, claim string) tipstaff.Gate {
	r := tipstaff.WorkerRequest{Worker: "careful", Type: "claude", CLIVersion: "2.1.325", Tool: "worker-claude/" + tool, Class: "once", Rule: "shell", Dir: "/w/tree",
		Args: json.RawMessage(args), ArgsDigest: "sha256:a", Facts: json.RawMessage(`{}`), Claim: claim}
	return tipstaff.Gate{Kind: tipstaff.Approval, Subject: r.Subject()}
}

func TestSubjectOfAWorkersRequest(t *testing.T) {
	got := tipstaff.Subject(requestOf("Bash", `{"command":"go test ./...","timeout":60000,"description":"Runs the tests"}`, "Runs the tests"))
	want := `worker: careful (claude 2.1.325)
tool: worker-claude/Bash
effect: once
rule: shell
directory: /w/tree
arguments
  description: "Runs the tests"
  timeout: 60000
  command: 13 bytes
    | go test ./...
digest of the arguments: sha256:a
the CLI says of it, which nobody has checked: 14 bytes
  | Runs the tests
`
	if lines(got) != want || !got.Whole {
		t.Errorf("whole %v:\n%swant:\n%s", got.Whole, lines(got), want)
	}
}

func TestSubjectOfALongCommand(t *testing.T) {
	command := "echo BEGIN\n" + strings.Repeat("# padding\n", 1024) + "rm -rf END\n"
	g := requestOf("Bash", string(flow.JSON(map[string]any{"command": command, "run_in_background": true})), "")
	got := tipstaff.Subject(g)
	text := lines(got)
	for _, want := range []string{"run_in_background: true", "| echo BEGIN", "| rm -rf END", "bytes left out"} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%s", want, text)
		}
	}
	if got.Whole || len(text) > 4096 {
		t.Errorf("whole %v, %d bytes", got.Whole, len(text))
	}
	if whole := tipstaff.WholeSubject(g); !whole.Whole || strings.Count(lines(whole), "| # padding") != 1024 {
		t.Error("what is whole is not")
	}
}

func TestSubjectOfALongEdit(t *testing.T) {
	long := "HEAD" + strings.Repeat("y", 50<<10) + "TAIL"
	got := tipstaff.Subject(requestOf("Edit", string(flow.JSON(map[string]any{
		"file_path": "/w/tree/a.go", "old_string": long, "new_string": strings.ToUpper(long), "replace_all": true,
		"edits": []any{map[string]any{"old_string": "a", "new_string": long}}})), ""))
	text := lines(got)
	for _, want := range []string{`file_path: "/w/tree/a.go"`, "replace_all: true", "old_string: 51208 bytes", "new_string: 51208 bytes", "      old_string: 1 bytes", "| HEADyyy", "yyyTAIL", "| HEADYYY", "YYYTAIL"} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q", want)
		}
	}
	if strings.Count(text, "HEAD") != 3 || strings.Count(text, "TAIL") != 3 || got.Whole || len(text) > 10_000 {
		t.Errorf("%d bytes, whole %v", len(text), got.Whole)
	}
	cut := 0
	for _, p := range got.Parts {
		if p.Cut > 0 {
			cut++
		}
	}
	if cut != 3 {
		t.Errorf("%d values are said to be cut", cut)
	}
}

// No argument takes another out of sight, by its length, its number or its name.
func TestArgumentsCannotHideOthers(t *testing.T) {
	args := map[string]any{"command": "rm -rf /", strings.Repeat("n", 100<<10): 1, "command\u200b": "ls", "x\nrule: allowed": "v"}
	got := tipstaff.Subject(requestOf("Bash", string(flow.JSON(args)), ""))
	text := lines(got)
	for _, want := range []string{"| rm -rf /", `command\u200b: "ls"`, `x\nrule: allowed: "v"`, "(102400 bytes): 1"} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q:\n%.2000s", want, text)
		}
	}
	if got.Whole || len(text) > 2000 {
		t.Errorf("%d bytes, whole %v", len(text), got.Whole)
	}
	for _, l := range got.Lines {
		if strings.HasPrefix(strings.TrimSpace(l), "rule: ") && l != "rule: shell" {
			t.Errorf("%q looks like ours", l)
		}
	}
}

func TestWorkersWordsAreNeutralised(t *testing.T) {
	evil := "\x1b[2J\x1b]0;title\a\r\u202eevil\u2066\u200b\u009b"
	q := tipstaff.WorkerQuestion{Worker: "careful", Task: "010", Question: "Which?\nworker: tipstaff\n" + evil, Options: []string{"a" + evil, "b\nrule: c"},
		Text: "I " + evil, StderrTail: "E " + evil, Changed: []string{"a" + evil + ".go"}}
	for name, g := range map[string]tipstaff.Gate{
		"a question": {Kind: tipstaff.Question, Subject: q.Subject()},
		"a request":  requestOf("Bash", string(flow.JSON(map[string]string{"command": "ls " + evil, evil: "x"})), evil),
	} {
		got := tipstaff.Subject(g)
		for _, l := range got.Lines {
			if strings.ContainsAny(l, "\x1b\a\r\u202e\u2066\u200b\u009b\n") {
				t.Errorf("%s: %q", name, l)
			}
		}
		if text := lines(got); !strings.Contains(text, `\u001b[2J`) || !strings.Contains(text, `\u202eevil`) {
			t.Errorf("%s does not show what was there:\n%s", name, text)
		}
	}
}

func TestSubjectOfAWorkersQuestion(t *testing.T) {
	q := tipstaff.WorkerQuestion{Worker: "careful", Task: "010", Question: "Which one?\nworker: tipstaff", Options: []string{"the first", "two\nlines"}, Text: "I am not sure.",
		StderrTail: "warning: x\n", Changed: []string{"a.go", "b.go"}}
	want := `worker: careful
task: 010
the worker asks: 27 bytes
  | Which one?
  | worker: tipstaff
it offers these answers
  1: "the first"
  2: 9 bytes
    | two
    | lines
the worker said last: 14 bytes
  | I am not sure.
its program wrote last: 11 bytes
  | warning: x
changed files: ["a.go","b.go"]
`
	if got := tipstaff.Subject(tipstaff.Gate{Kind: tipstaff.Question, Subject: q.Subject()}); lines(got) != want || !got.Whole {
		t.Errorf("%swant:\n%s", lines(got), want)
	}
	failed := tipstaff.WorkerQuestion{Worker: "careful", Task: "010", Outcome: "exit", StderrTail: "boom"}
	want = "worker: careful\ntask: 010\noutcome: exit\nits program wrote last: 4 bytes\n  | boom\n"
	if got := lines(tipstaff.Subject(tipstaff.Gate{Kind: tipstaff.Question, Subject: failed.Subject()})); got != want {
		t.Errorf("%swant:\n%s", got, want)
	}
}

// A subject of somebody else that looks like a worker's is shown with all of its members.
func TestSubjectsThatOnlyLookLikeAWorkers(t *testing.T) {
	for _, g := range []tipstaff.Gate{
		{Kind: tipstaff.Question, Subject: json.RawMessage(`{"worker":"bob","task":"010","amount":"1000000"}`)},
		{Kind: tipstaff.Approval, Subject: json.RawMessage(`{"worker":"bob","tool":"x","amount":"1000000"}`)},
	} {
		if text := lines(tipstaff.Subject(g)); !strings.Contains(text, "1000000") {
			t.Errorf("%s: %s", g.Subject, text)
		}
	}
}
