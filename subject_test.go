package tipstaff_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
)

func approvalOf(args string) tipstaff.Gate {
	return tipstaff.Gate{Kind: tipstaff.Approval, Subject: json.RawMessage(`{"uri":"mcp://builtin/write_file@1.0.0","tool_digest":"sha256:t","class":"once",
		"hints":{"destructive":true,"open_world":false},"args":` + args + `,"args_digest":"sha256:a","facts":{},"rule":"ask-writes","policy_digest":"sha256:p"}`)}
}

func lines(s tipstaff.Shown) string { return strings.Join(s.Lines, "\n") + "\n" }

// A call is shown with every argument under its name: the short ones first, texts with
// their own line breaks.
func TestSubjectOfACall(t *testing.T) {
	got := tipstaff.Subject(approvalOf(`{"content":"one\ntwo \u001b[2J\u202e","path":"notes/a.md","mode":{"deep":[1,2]}}`))
	want := `tool: mcp://builtin/write_file@1.0.0
effect: once, may destroy
rule: ask-writes
arguments
  mode: {"deep":[1,2]}
  path: "notes/a.md"
  content: 15 bytes
    | one
    | two \u001b[2J\u202e
digest of the tool: sha256:t
digest of the arguments: sha256:a
`
	if lines(got) != want || !got.Whole {
		t.Errorf("whole %v:\n%swant:\n%s", got.Whole, lines(got), want)
	}
}

// However long one value is, the others are shown, and its own head and tail.
func TestSubjectCutsEachValueByItself(t *testing.T) {
	long := "BEGIN" + strings.Repeat("x", 100_000) + "END"
	g := approvalOf(`{"content":"` + long + `","path":"etc/passwd","also":"` + long + `"}`)
	got := tipstaff.Subject(g)
	text := lines(got)
	for _, want := range []string{`path: "etc/passwd"`, "also: 100008 bytes", "content: 100008 bytes", "… 97960 bytes left out …"} {
		if !strings.Contains(text, want) {
			t.Errorf("it lacks %q", want)
		}
	}
	if strings.Count(text, "BEGIN") != 2 || strings.Count(text, "END") != 2 || got.Whole || len(text) > 10_000 {
		t.Errorf("%d bytes are shown, whole: %v", len(text), got.Whole)
	}
	for _, p := range got.Parts {
		if p.Name != "path" && (p.Bytes != 100_008 || p.Cut != 97_960) {
			t.Errorf("%s: %d bytes, %d left out", p.Name, p.Bytes, p.Cut)
		}
	}
	if whole := tipstaff.WholeSubject(g); !whole.Whole || strings.Count(lines(whole), "x") < 200_000 {
		t.Error("what is whole is not")
	}
}

// Many items are cut in their middle, and that is said.
func TestSubjectCutsLongLists(t *testing.T) {
	var items []string
	for i := range 1000 {
		items = append(items, fmt.Sprintf(`"item %d"`, i))
	}
	got := tipstaff.Subject(approvalOf(`{"to":[` + strings.Join(items, ",") + `]}`))
	if text := lines(got); got.Whole || !strings.Contains(text, `"item 0"`) || !strings.Contains(text, `"item 999"`) || !strings.Contains(text, "… 950 of 1000,") {
		t.Errorf("whole %v: %s", got.Whole, text)
	}
}

// What a stage or a worker hands over is shown finding by finding.
func TestSubjectOfAHandoff(t *testing.T) {
	got := tipstaff.Subject(tipstaff.Gate{Kind: tipstaff.Handoff, Subject: json.RawMessage(`{"stage":"review","visit":2,"trigger":"rejected","round":2,"max_rounds":3,` +
		`"summary":"Not yet.","findings":[{"id":"review#2/1","severity":"high","title":"It leaks","body":"One.\nTwo.","required_fix":"Close it.","file":"a.go","line":12}],` +
		`"incomplete":["The tests were not run."],"default_action":"retry_feedback","feedback_required_for":["retry_feedback"]}`)})
	want := `result: rejected
round: 2 of 3
summary: "Not yet."
finding review#2/1
  severity: "high"
  title: "It leaks"
  file: "a.go:12"
  body: 9 bytes
    | One.
    | Two.
  required fix: "Close it."
incomplete: "The tests were not run."
default: retry_feedback
`
	if lines(got) != want || !got.Whole {
		t.Errorf("%s", lines(got))
	}
}

// Another's text cannot look like ours: it stands behind a bar, or in quotes.
func TestSubjectCannotBeForged(t *testing.T) {
	got := tipstaff.Subject(approvalOf(`{"content":"a\nrule: allow-all\n  | deeper","x\nrule: forged":"v","tool":"mcp://safe/read@1.0.0"}`))
	for _, l := range got.Lines {
		if trimmed := strings.TrimSpace(l); strings.HasPrefix(trimmed, "rule: ") && trimmed != "rule: ask-writes" {
			t.Errorf("%q looks like ours", l)
		}
	}
	if text := lines(got); !strings.Contains(text, `  tool: "mcp://safe/read@1.0.0"`) || !strings.Contains(text, `x\nrule: forged: "v"`) {
		t.Error(text)
	}
}

// A program is shown with what each of its nodes is given.
func TestSubjectOfAProgram(t *testing.T) {
	g := tipstaff.Gate{Kind: tipstaff.Confirmation, Subject: json.RawMessage(`{"intent_hash":"sha256:i","program_digest":"sha256:d","intent":{"verb":"tidy"},"bounds":{"tool_calls":20},
		"outline":{"path":"root","kind":"sequential","children":[
			{"path":"root/rm","id":"rm","kind":"tool_call","label":"mcp://builtin/exec@1.0.0","class":"once","given":{"args":{"argv":["rm","-rf","/"]}}},
			{"path":"root/say","id":"say","kind":"step","label":"default","given":{"prompt":"Say it.\nLoudly."}}]}}`)}
	want := `intent: {"verb":"tidy"}
plan
  root  sequential
    rm  tool_call  mcp://builtin/exec@1.0.0  once
      args: {"argv":["rm","-rf","/"]}
    say  step  default
      prompt: 15 bytes
        | Say it.
        | Loudly.
bounds: tool_calls 20
intent_hash: sha256:i
program_digest: sha256:d
`
	if got := lines(tipstaff.Subject(g)); got != want {
		t.Errorf("%swant:\n%s", got, want)
	}
}

// A correction is shown as what it changes.
func TestSubjectOfACorrection(t *testing.T) {
	g := tipstaff.Gate{Kind: tipstaff.Confirmation, Subject: json.RawMessage(`{"intent_hash":"sha256:i","program_digest":"sha256:d","reasons":[{"rule":"new_tool_namespace","detail":"builtin/exec is new"}],
		"changes":[{"what":"pay2","now":{"kind":"tool_call","args":{"argv":["pay","mallory"]}}},{"what":"ok","was":{"kind":"gate","question":"Pay Alice 10?"}},
			{"what":"pay","was":{"args":{"n":10},"kind":"tool_call"},"now":{"args":{"n":10000},"kind":"tool_call","retry":{"max":1}}}]}`)}
	want := `pay2 is added
  args: {"argv":["pay","mallory"]}
  kind: "tool_call"
ok is removed
  kind: "gate"
  question: "Pay Alice 10?"
pay is changed
  args was: {"n":10}
  args is now: {"n":10000}
  retry is now: {"max":1}
this must be confirmed because
  new_tool_namespace: builtin/exec is new
intent_hash: sha256:i
program_digest: sha256:d
`
	if got := lines(tipstaff.Subject(g)); got != want {
		t.Errorf("%swant:\n%s", got, want)
	}
}

// Of a call in doubt everything is shown that is known.
func TestSubjectInDoubt(t *testing.T) {
	g := tipstaff.Gate{Kind: tipstaff.InDoubt, Subject: json.RawMessage(`{"path":"root/go","name":"tool.call","attempt":2,"digest":"sha256:d","input":{"uri":"mcp://bank/pay@1.0.0","args":{"to":"Alice"}},
		"sent":"2026-11-16T10:00:00Z","known":{"code":"tool_error","message":"HTTP 500","detail":{"status":500}}}`)}
	want := `tool: mcp://bank/pay@1.0.0
arguments
  to: "Alice"
sent: 2026-11-16T10:00:00Z
this was attempt 2
known of its end: "tool_error: HTTP 500"
detail: {"status":500}
path: root/go
`
	if got := lines(tipstaff.Subject(g)); got != want {
		t.Errorf("%swant:\n%s", got, want)
	}
}

// Whatever a subject is, it is shown, in lines that a terminal only prints; and what is
// not whole says so.
func FuzzSubject(f *testing.F) {
	f.Add("approval", `{"uri":"mcp://a/b@1.0.0","args":{"a":"b\nc"}}`)
	f.Add("confirmation", `{"outline":{"path":"","kind":"x","given":[1]},"program_digest":"d"}`)
	f.Add("confirmation", `{"program_digest":"d","changes":[{"what":"a"},{"what":"b","was":1,"now":{}}]}`)
	f.Add("in_doubt", `{"input":1,"known":{}}`)
	f.Add("handoff", `{"trigger":"approved","findings":[{"id":"a\nb","title":"\u001b[2J"}],"incomplete":["x"]}`)
	f.Add("clarification", `{"questions":[{"id":"a"}]}`)
	f.Add("question", `[[[[[[[[[[[[[[[[[[[["deep"]]]]]]]]]]]]]]]]]]]]`)
	f.Fuzz(func(t *testing.T, kind, subject string) {
		if !json.Valid([]byte(subject)) {
			t.Skip()
		}
		g := tipstaff.Gate{Kind: tipstaff.GateKind(kind), Subject: json.RawMessage(subject)}
		for _, s := range []tipstaff.Shown{tipstaff.Subject(g), tipstaff.WholeSubject(g)} {
			cut := false
			for _, l := range s.Lines {
				if l != tipstaff.Printable(l) {
					t.Errorf("%q acts on a terminal", l)
				}
			}
			for _, p := range s.Parts {
				cut = cut || p.Cut > 0
			}
			if cut == s.Whole {
				t.Errorf("whole: %v, cut: %v", s.Whole, cut)
			}
		}
	})
}
