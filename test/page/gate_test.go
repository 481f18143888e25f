package page_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/process"
	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/test/webtest"
)

// asks has programs that rest at gates, by the kind of those.
var asks = map[tipstaff.GateKind]string{
	tipstaff.Question:      `{kind: plan, version: 1, root: {id: ok, kind: gate, question: "Go on?", show: {what: "a <b> & ü"}}}`,
	tipstaff.Approval:      `{kind: plan, version: 1, root: {id: look, kind: tool_call, tool: "mcp://builtin/list_dir@1.0.0", args: {path: .}}}`,
	tipstaff.Clarification: `{name: clarification, agents: [{name: ask, scripted: {answers: [{output: {}, control: {interrupt: {kind: clarification, question: "Which one?"}}}, {output: {}}]}}]}`,
	tipstaff.Confirmation:  `{name: confirmation, agents: [{name: ask, scripted: {answers: [{output: {}, control: {interrupt: {kind: confirmation, question: "Shall I?"}}}, {output: {}}]}}]}`,
	tipstaff.Bound: `{name: bound, max_iterations: 1, on_bound: ask, agents: [
  {name: work, stage_order: 1, default_next: judge, scripted: {answers: [{output: {}}]}},
  {name: judge, stage_order: 2, default_next: work, scripted: {answers: [{output: {}}]}}]}`,
	tipstaff.Handoff: `{name: handoff, agents: [
  {name: work, stage_order: 1, default_next: critic, scripted: {answers: [{output: {}}]}},
  {name: critic, stage_order: 2, handoff: on_reject, default_next: end, scripted: {answers: [{output: {verdict: rejected, findings: [{severity: P1, title: It leaks, body: Everywhere.}]}}, {output: {verdict: approved}}]}}]}`,
}

// gates is a bed whose programs come to rest at gates of every kind: its workspace is a
// repository, and calls of list_dir are asked about.
func gates(t *testing.T) *bed {
	t.Helper()
	state := t.TempDir()
	return newBed(t, func(b *webtest.Bed) {
		b.Write("tipstaff.yaml", strings.Replace(webtest.Manifest, "    tools:\n", "    tools:\n      list_dir: {effect: read}\n", 1)+`
policy: {rules: [{id: careful, tool: "builtin/list_*", do: ask}]}
`)
		b.Write(".gitignore", ".tipstaff/\n")
		for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "begun"}} {
			git := exec.Command("git", args...)
			git.Dir = b.Dir
			if out, err := git.CombinedOutput(); err != nil {
				b.Fatalf("git %q: %v\n%s", args, err, out)
			}
		}
		b.Config = func(c *runner.Config) {
			c.Git, c.Worktrees = process.Git(), filepath.Join(state, "worktrees")
			c.Grace = 10 * time.Millisecond // calls are to be broken off
		}
	})
}

// asked is a run of alice that rests at a gate of a kind.
func (b *bed) asked(kind tipstaff.GateKind) (tipstaff.Run, tipstaff.Gate) {
	b.Helper()
	var run tipstaff.Run
	switch kind {
	case tipstaff.InDoubt:
		run = b.doubted()
	case tipstaff.Delivery:
		run = b.changed()
	default:
		run = b.start("alice", asks[kind])
	}
	if len(run.OpenGates) != 1 || run.OpenGates[0].Kind != kind {
		b.Fatalf("for a gate of kind %s the run is %s with %+v, %+v", kind, run.Status, run.OpenGates, run.Error)
	}
	g, err := b.Runner.Gate(b.as("alice"), run.ID, run.OpenGates[0].ID.String())
	if err != nil {
		b.Fatal(err)
	}
	return run, g
}

// doubted is a run that asks what became of a call: the daemon was stopped meanwhile.
func (b *bed) doubted() tipstaff.Run {
	b.Helper()
	began := filepath.Join(b.Dir, "began")
	_ = os.Remove(began)
	run := b.begin("alice", `{kind: plan, version: 1, root: {id: slow, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "echo > began; exec sleep 60"]}}}`)
	for _, err := os.Stat(began); err != nil; _, err = os.Stat(began) {
		time.Sleep(time.Millisecond)
	}
	b.Close()
	b.Open()
	return b.Rest(run.String())
}

// changed is a run in whose worktree somebody has changed a file.
func (b *bed) changed() tipstaff.Run {
	b.Helper()
	run := b.start("alice", `{kind: plan, version: 1, name: say hello, files: worktree, deliver: {}, root: {id: ok, kind: gate, question: "Go on?"}}`)
	if err := os.WriteFile(filepath.Join(b.Runner.Worktrees, run.ID.String(), "out.txt"), []byte("hello\n"), 0o644); err != nil {
		b.Fatal(err)
	}
	b.decide(run, "approve")
	return b.resume(run.ID)
}

// gatePath is the page of the one gate of a run.
func gatePath(run tipstaff.Run) string {
	return "/ui/runs/" + run.ID.String() + "/gates/" + run.OpenGates[0].ID.String()
}

// words are those of a text, with single spaces. Names may stand without the colon that
// follows them elsewhere.
func words(text string) string {
	all := strings.Fields(text)
	for i, w := range all {
		all[i] = strings.TrimSuffix(w, ":")
	}
	return " " + strings.Join(all, " ") + " "
}

// shows reports whether the words of a text stand in a page, in their order and together.
func (p page) shows(text string) bool {
	p.t.Helper()
	return strings.Contains(words(p.text()), words(text))
}

// offered are the actions that a form lets take, and those that it names only.
func offered(form *html.Node) (on, off []string) {
	for _, n := range elements(form, func(n *html.Node) bool { return n.Data == "button" && attr(n, "name") == "action" }) {
		if slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "disabled" }) {
			off = append(off, attr(n, "value"))
		} else {
			on = append(on, attr(n, "value"))
		}
	}
	return on, off
}

// typed is what a person types to take an action, and what the same decision is as a request.
func typed(action string) (fields []string, same tipstaff.DecideRequest) {
	same.Action = action
	const result = `{"exit_code":0,"stderr":"","stdout":"","truncated":false}`
	switch {
	case action == "extend":
		fields, same.Answer = []string{"amount", "2"}, json.RawMessage("2")
	case action == "use_result":
		fields, same.Answer = []string{"result", result}, json.RawMessage(result)
	case action == "answer":
		fields, same.Answer = []string{"answer", "the <left> one"}, json.RawMessage(`"the <left> one"`)
	case action == "modify":
		fields, same.Answer = []string{"data", `{"a": [1]}`}, json.RawMessage(`{"a":[1]}`)
	case tipstaff.NeedsFeedback(action):
		fields, same.Feedback = []string{"feedback", "mend\nthis"}, "mend\nthis"
	default:
		fields, same.Note = []string{"note", "read\n  it \"twice\""}, "read\n  it \"twice\""
	}
	return fields, same
}

// A gate of each kind is shown on its page with all that it asks about, and decided there with
// each of its actions. What is stored is what a command would have stored: the same decision
// is taken for a repeat.
func TestEveryKindOfGateIsDecidedOnThePage(t *testing.T) {
	b := gates(t)
	for _, kind := range []tipstaff.GateKind{tipstaff.Question, tipstaff.Approval, tipstaff.Clarification, tipstaff.Confirmation, tipstaff.Bound, tipstaff.Handoff, tipstaff.Delivery, tipstaff.InDoubt} {
		t.Run(string(kind), func(t *testing.T) {
			for taken, most := 0, 1; taken < most; taken++ {
				run, g := b.asked(kind)
				w, at := b.browser("alice"), gatePath(run)
				if !slices.Contains(links(w.open("/ui/runs/"+run.ID.String()).parse()), at) {
					t.Errorf("the run does not lead to %s", at)
				}
				p := w.open(at + "?whole=1")
				for _, line := range append(g.Shown.Lines, g.Question, g.Digest) {
					if line = strings.TrimPrefix(strings.TrimSpace(line), "| "); !p.shows(line) {
						t.Errorf("the page does not say %q: %s", line, p.text())
					}
				}
				on, off := offered(p.formAt(at + "/decision"))
				if !slices.Equal(on, g.Available()) || len(on)+len(off) != len(g.Actions) || len(on) == 0 {
					t.Fatalf("it offers %v, not %v; the gate has %v", on, off, g.Actions)
				}
				most = len(on)
				w.decided(run, g, p, on[taken])
			}
		})
	}
}

// decided takes an action on the page of a gate, and looks at what is stored.
func (w *browser) decided(run tipstaff.Run, g tipstaff.Gate, p page, action string) {
	w.Helper()
	at := gatePath(run) + "/decision"
	fields, same := typed(action)
	form := p.formOf(at, append(fields, "action", action)...)
	form.Del("resume")
	confirm := w.post(at, form).answers(http.StatusOK)
	if !confirm.shows("You are about to decide " + strings.ReplaceAll(action, "_", " ")) {
		w.Fatalf("%s at a %s is not asked about once more: %s", action, g.Kind, confirm.text())
	}
	again := confirm.formOf(at, "action", action)
	done := w.post(at, again).answers(http.StatusSeeOther)

	same.Run, same.Gate = run.ID, g.ID.String()
	got, err := w.Runner.Decide(tipstaff.WithCaller(w.Context(), tipstaff.Caller{Surface: "cli", User: "alice", Principal: "local:cli"}), same)
	want := tipstaff.Actor{Principal: "token:alice", Via: "http", Client: "web"}
	if err != nil || !got.Replayed || got.Decision.Actor != want || got.Decision.SubjectDigest != g.Digest || got.Decision.Kind != g.Kind {
		w.Errorf("%s at a %s is stored as %s, repeated: %v, %v", action, g.Kind, got.Raw, got.Replayed, err)
	}
	closed := w.open(done.header.Get("Location"))
	for _, text := range []string{"Your decision is recorded.", "Decided: " + strings.ReplaceAll(action, "_", " "), "By token:alice", "Through http, web", "Waited"} {
		if !closed.shows(text) {
			w.Errorf("the page of a %s that is closed does not say %q: %s", g.Kind, text, closed.text())
		}
	}
	w.post(at, again).answers(http.StatusSeeOther) // the same once more
	other := fmt.Sprint(action, " otherwise")
	late := w.post(at, withValues(again, "note", other)).answers(http.StatusConflict)
	for _, text := range []string{"It was decided otherwise before", other, "Decided " + strings.ReplaceAll(action, "_", " ")} {
		if !late.shows(text) {
			w.Errorf("another decision at a %s is not told %q: %s", g.Kind, text, late.text())
		}
	}
}

// What cannot be taken as it was typed is shown again with all that was typed, and nothing is
// written. Values that look like nothing arrive as what they are.
func TestAnswersOnThePageAreTakenAsTyped(t *testing.T) {
	b := gates(t)
	w := b.browser("alice")
	for _, c := range []struct {
		kind                       tipstaff.GateKind
		action, field, value, note string
	}{
		{tipstaff.Clarification, "answer", "answer", "  ", "an answer is needed"},
		{tipstaff.Confirmation, "modify", "data", "[1]", "is not a JSON object"},
		{tipstaff.Bound, "extend", "amount", "plenty", "is not by how much"},
		{tipstaff.Handoff, "retry_feedback", "note", "<b>", "needs feedback"},
		{tipstaff.Handoff, "continue", "feedback", "not for this", "takes no feedback"},
	} {
		run, _ := b.asked(c.kind)
		at := gatePath(run)
		p := w.open(at)
		form := p.formAt(at + "/decision")
		first := elements(form, func(n *html.Node) bool { return n.Data == "button" })[0]
		if attr(first, "name") != "" || !slices.ContainsFunc(first.Attr, func(a html.Attribute) bool { return a.Key == "disabled" }) {
			t.Errorf("Enter in a field of a %s takes a button", c.kind)
		}
		sent := p.formOf(at+"/decision", "action", c.action, "note", "kept\n"+string(c.kind), c.field, c.value, "confirmed", "1", "resume", "")
		refused := w.post(at+"/decision", sent)
		if refused.says(c.note); refused.status < 400 || refused.status > 499 {
			t.Errorf("%s with %s %q is answered %d", c.action, c.field, c.value, refused.status)
		}
		kept := refused.formOf(at + "/decision")
		for _, name := range []string{"note", c.field} {
			if kept.Get(name) != sent.Get(name) || kept.Has("resume") {
				t.Errorf("of what was typed in %s %q is kept: %v", name, kept.Get(name), kept)
			}
		}
		if now := b.Rest(run.ID.String()); now.HeadSeq != run.HeadSeq {
			t.Errorf("%s with %s %q has written record %d", c.action, c.field, c.value, now.HeadSeq)
		}
	}
	for text, want := range map[string]string{"false": "false", "0": "0", `""`: `""`, "a\nb": `"a\nb"`, `{"a": [1, {}]}`: `{"a":[1,{}]}`} {
		run, _ := b.asked(tipstaff.Clarification)
		to := gatePath(run) + "/decision"
		done := w.post(to, w.open(gatePath(run)).formOf(to, "action", "answer", "answer", text, "confirmed", "1", "resume", "")).answers(http.StatusSeeOther)
		w.open(done.header.Get("Location")).says(want)
	}
}

// Runs are resumed, forked and cancelled by forms, each once however often it is sent.
func TestRunsAreDrivenByForms(t *testing.T) {
	b := newBed(t)
	w := b.browser("alice")
	first, second := b.start("alice", webtest.Gated("a.txt")), b.start("alice", webtest.Gated("b.txt"))
	b.decide(first, "approve")
	form := func(run tipstaff.Run, action string) (to string, in url.Values) {
		to = "/ui/runs/" + run.ID.String() + "/" + action
		return to, w.open(to).formOf(to)
	}
	to, in := form(first, "resume")
	for range 2 {
		if p := w.post(to, in).answers(http.StatusSeeOther); p.header.Get("Location") != "/ui/runs/"+first.ID.String() {
			t.Errorf("resuming leads to %s", p.header.Get("Location"))
		}
		if now := b.Rest(first.ID.String()); now.State != tipstaff.Completed {
			t.Fatalf("the run is %s", now.Status)
		}
	}
	w.post(to, withValues(in, "key", "another")).answers(http.StatusConflict)

	to, in = form(second, "fork")
	forked := w.post(to, withValues(in, "at", "4")).answers(http.StatusSeeOther).header.Get("Location")
	if again := w.post(to, in).header.Get("Location"); again != forked {
		t.Errorf("the same form makes %s beside %s", again, forked)
	}
	made := b.Rest(strings.TrimPrefix(forked, "/ui/runs/"))
	if made.Lineage == nil || made.Lineage.Parent != second.ID {
		t.Errorf("the fork is %+v", made.Lineage)
	}

	to, in = form(second, "cancel")
	if in.Get("mode") != "graceful" {
		t.Errorf("cancelling is prepared as %v", in)
	}
	for range 2 {
		w.post(to, withValues(in, "reason", "wrong branch")).answers(http.StatusSeeOther)
	}
	reasons := 0
	for _, e := range b.records("alice", second.ID) {
		reasons += strings.Count(string(e.Body), "wrong branch")
	}
	if now := b.Rest(second.ID.String()); now.Status != "cancelled" || reasons == 0 {
		t.Errorf("the run is %s, with the reason in %d places", now.Status, reasons)
	}
}
