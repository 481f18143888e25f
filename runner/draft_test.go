package runner_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
)

const withModels = manifest + `
models:
  toy: {provider: scripted, script: script.yaml}
default_skill: skill://notes@1.0.0
`

// draftBed is a bed with a skill that a model drafts plans for. It answers what
// replies says, in order, and told keeps what it was told.
func draftBed(t *testing.T, replies ...string) (b *bed, told *[]string) {
	b = newBed(t)
	b.write("tipstaff.yaml", withModels)
	b.write("script.yaml", "version: 1\nanswers: [{text: unused}]\n")
	b.write("note.txt", "hello")
	dir := filepath.Join(b.dir, "skills", "notes")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	b.write("skills/notes/skill.yaml", `id: notes
version: 1.0.0
verbs: [deliver]
tools: [mcp://builtin/read_file@1.0.0, mcp://builtin/write_file@1.0.0]
sub_skills: none
`)
	b.write("skills/notes/SKILL.md", "---\nname: notes\ndescription: Copies notes.\n---\nCopy what is asked for, and nothing else.\n")
	told = new([]string)
	b.says = func(r agent.Request) agent.Response {
		*told = append(*told, r.Messages[len(r.Messages)-1].Text)
		if len(*told) > len(replies) {
			t.Errorf("the model was asked %d times", len(*told))
			return agent.Response{Text: "{}"}
		}
		return agent.Response{Text: replies[len(*told)-1]}
	}
	return b, told
}

// copyPlan copies a note as a model might write it.
func copyPlan(to string) string {
	return `{"kind": "plan", "version": 1, "skill": "skill://notes@1.0.0", "intent": {"verb": "deliver", "objects": [{"name": "note", "value": "a copy"}]},
 "root": {"kind": "sequential", "children": [
  {"id": "read", "kind": "tool_call", "tool": "mcp://builtin/read_file@1.0.0", "args": {"path": "note.txt"}},
  {"id": "write", "kind": "tool_call", "tool": "mcp://builtin/write_file@1.0.0", "args": {"path": "` + to + `", "content": "${read.output.text}"}}]}}`
}

func (b *bed) do(prose string, with ...func(*tipstaff.StartRequest)) (tipstaff.ID, tipstaff.Driven) {
	b.t.Helper()
	return b.drafted(tipstaff.DraftRequest{Prose: prose}, with...)
}

// drafted has a plan drafted; with says who is there, as for what is started.
func (b *bed) drafted(req tipstaff.DraftRequest, with ...func(*tipstaff.StartRequest)) (tipstaff.ID, tipstaff.Driven) {
	b.t.Helper()
	var start tipstaff.StartRequest
	for _, f := range with {
		f(&start)
	}
	req.Presence, req.Inputs, req.Bounds, req.AllowSubDispatch = start.Presence, start.Inputs, start.Bounds, start.AllowSubDispatch
	s, err := b.Draft(cli(), req)
	if err != nil {
		b.t.Fatalf("start: %v", err)
	}
	b.attend(s.Run)
	return s.Run, b.wait(s.Run)
}

// lifecycle is the way a run took.
func (b *bed) lifecycle(run tipstaff.ID) string {
	b.t.Helper()
	rep := b.verified(run)
	return rep.Lifecycle
}

func TestDraftIsShownAcceptedAndRun(t *testing.T) {
	b, told := draftBed(t, "```json\n"+copyPlan("copy.txt")+"\n```")
	run, driven := b.do("Copy my note to copy.txt")
	if driven.Outcome != "parked" || driven.State != tipstaff.Proposed {
		t.Fatalf("after drafting: %+v", driven)
	}
	for _, part := range []string{"Copy my note to copy.txt", "Copy what is asked for", "mcp://builtin/write_file@1.0.0", `"path"`} {
		if !strings.Contains((*told)[0], part) {
			t.Errorf("the model was not told of %q", part)
		}
	}
	got, err := b.Get(cli(), run)
	if err != nil || len(got.OpenGates) != 1 || got.OpenGates[0].Kind != tipstaff.Confirmation {
		t.Fatalf("gates: %+v %v", got.OpenGates, err)
	}
	if _, err := b.Decide(cli(), tipstaff.DecideRequest{Run: run, Gate: got.OpenGates[0].ID.String(), Action: "accept"}); err != nil {
		t.Fatal(err)
	}
	if driven := b.resume(run); driven.State != tipstaff.Completed {
		t.Fatalf("after acceptance: %+v", driven)
	}
	if b.read("copy.txt") != "hello" {
		t.Errorf("copy.txt has %q", b.read("copy.txt"))
	}
	want := "drafting --[intent.compiled]--> proposed --[intent.accept]--> accepted --[plan.proposed]--> executing --[intent.attest]--> completed"
	if got := b.lifecycle(run); got != want {
		t.Errorf("lifecycle %s", got)
	}
}

func TestYesAcceptsADraftAndTheRecordSaysSo(t *testing.T) {
	b, _ := draftBed(t, copyPlan("copy.txt"))
	run, driven := b.do("Copy it", func(r *tipstaff.StartRequest) { r.Yes = true })
	if driven.State != tipstaff.Completed {
		t.Fatalf("%+v", driven)
	}
	via := ""
	for e, err := range b.Events(cli(), tipstaff.EventsRequest{Run: run}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == tipstaff.KindIntentAccept {
			var body struct{ Via string }
			_ = json.Unmarshal(e.Body, &body)
			via = body.Via
		}
	}
	if via != "--yes" {
		t.Errorf("accepted via %q", via)
	}
	b.verified(run)
}

func TestQuestionsAreAskedAndAnswered(t *testing.T) {
	questions := `{"questions": [{"id": "to", "prompt": "Where to?", "type": "choice", "options": ["a.txt", "b.txt"], "required": true}]}`
	b, told := draftBed(t, questions, copyPlan("b.txt"))
	run, driven := b.do("Copy it somewhere")
	if driven.Outcome != "parked" {
		t.Fatalf("%+v", driven)
	}
	got, err := b.Get(cli(), run)
	if err != nil || got.State != tipstaff.Clarifying || len(got.OpenGates) != 1 || got.OpenGates[0].Kind != tipstaff.Clarification {
		t.Fatalf("%s %+v %v", got.State, got.OpenGates, err)
	}
	gate := got.OpenGates[0]
	if !slices.Equal(gate.Actions, []string{"answer", "deny"}) || !strings.Contains(string(gate.Subject), "Where to?") {
		t.Errorf("the gate shows %v %s", gate.Actions, gate.Subject)
	}
	answer := func(text string) error {
		_, err := b.Decide(cli(), tipstaff.DecideRequest{Run: run, Gate: gate.ID.String(), Action: "answer", Answer: json.RawMessage(text)})
		return err
	}
	for _, wrong := range []string{`{}`, `{"to": "c.txt"}`, `{"to": 1}`, `{"to": "a.txt", "more": 1}`, `[]`} {
		if tipstaff.CodeOf(answer(wrong)) != tipstaff.InvalidArgument {
			t.Errorf("%s was taken for an answer", wrong)
		}
	}
	if err := answer(`{"to": "b.txt"}`); err != nil {
		t.Fatal(err)
	}
	if err := answer(`{"to": "b.txt"}`); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if driven := b.resume(run); driven.Outcome != "parked" || len(*told) != 2 {
		t.Fatalf("%+v, after %d requests", driven, len(*told))
	}
	if !strings.Contains((*told)[1], "Where to?") || !strings.Contains((*told)[1], `"b.txt"`) {
		t.Errorf("the second request does not hold the answer: %s", (*told)[1])
	}
	got, _ = b.Get(cli(), run)
	if _, err := b.Decide(cli(), tipstaff.DecideRequest{Run: run, Gate: got.OpenGates[0].ID.String(), Action: "accept"}); err != nil {
		t.Fatal(err)
	}
	if driven := b.resume(run); driven.State != tipstaff.Completed {
		t.Fatalf("%+v", driven)
	}
	want := "drafting --[intent.compiled]--> proposed --[intent.clarify]--> clarifying --[intent.answer]--> proposed --[intent.accept]--> accepted" +
		" --[plan.proposed]--> executing --[intent.attest]--> completed"
	if got := b.lifecycle(run); got != want {
		t.Errorf("lifecycle %s", got)
	}
}

func TestBadDraftsGoBackAndEndTheRun(t *testing.T) {
	outside := strings.Replace(copyPlan("x"), "builtin/write_file", "builtin/exec", 1)
	b, told := draftBed(t, outside, "nonsense", `{"kind": "plan"}`)
	run, driven := b.do("Copy it")
	if driven.State != tipstaff.Failed || driven.Reason != "plan_invalid" {
		t.Fatalf("%+v", driven)
	}
	if !strings.Contains((*told)[1], "undeclared_tool") || !strings.Contains((*told)[1], "builtin/exec") {
		t.Errorf("the second request does not say what was wrong: %s", (*told)[1])
	}
	if !strings.Contains((*told)[2], "nonsense") {
		t.Error("the third request does not show the reply")
	}
	b.verified(run)
}

func TestThreeRoundsOfQuestionsAreEnough(t *testing.T) {
	ask := `{"questions": [{"id": "q", "prompt": "Why?", "type": "text", "required": false}]}`
	b, _ := draftBed(t, ask, ask, ask, ask)
	run, driven := b.do("Copy it", b.attended(answering(`{"q": "because"}`)))
	if driven.State != tipstaff.Failed || driven.Reason != "ambiguous_after_clarify" {
		t.Fatalf("%+v", driven)
	}
	b.verified(run)
}

func TestRejectedDraftIsCancelled(t *testing.T) {
	b, _ := draftBed(t, copyPlan("x"))
	run, driven := b.do("Copy it", b.attended(choosing("reject")))
	if driven.State != tipstaff.Cancelled {
		t.Fatalf("%+v", driven)
	}
	if b.read("x") != "" {
		t.Error("the plan was run")
	}
	b.verified(run)
}

func TestConstraintThatCannotBeKeptBlocks(t *testing.T) {
	late := strings.Replace(copyPlan("x"), `"objects"`, `"constraints": [{"type": "deadline", "by": "2001-01-01T00:00:00Z", "hard": true}], "objects"`, 1)
	b, _ := draftBed(t, late, late, late)
	run, driven := b.do("Copy it")
	if driven.State != tipstaff.Failed || driven.Reason != "blocked_by_constraint" {
		t.Fatalf("%+v", driven)
	}
	b.verified(run)
}

// A skill that brings no plan has one drafted when it is dispatched: a person is
// asked about it, unless its node says that the parent accepts it. Then its calls
// are asked about.
func TestDispatchedSkillIsDrafted(t *testing.T) {
	parent := func(accept string) string {
		return `
root: {id: child, kind: sub_dispatch, skill: "skill://notes@1.0.0"` + accept + `}
`
	}
	t.Run("asked", func(t *testing.T) {
		b, told := draftBed(t, copyPlan("child.txt"))
		var shown []tipstaff.GateKind
		run, driven := b.run(parent(""), func(r *tipstaff.StartRequest) { r.AllowSubDispatch = true },
			b.attended(func(_ context.Context, g tipstaff.Gate) (tipstaff.Choice, bool) {
				shown = append(shown, g.Kind)
				return tipstaff.Choice{Action: g.Actions[0]}, true
			}))
		if driven.State != tipstaff.Completed || b.read("child.txt") != "hello" || len(*told) != 1 {
			t.Fatalf("%+v, %q, asked %d times", driven, b.read("child.txt"), len(*told))
		}
		if len(shown) != 1 || shown[0] != tipstaff.Confirmation {
			t.Errorf("gates %v were shown", shown)
		}
		b.verified(run)
		got, _ := b.Get(cli(), run)
		b.verified(got.Lineage.Children[0])
	})
	t.Run("auto", func(t *testing.T) {
		b, _ := draftBed(t, copyPlan("child.txt"))
		run, driven := b.run(parent(`, accept: auto`), func(r *tipstaff.StartRequest) { r.AllowSubDispatch = true })
		if driven.Outcome != "parked" {
			t.Fatalf("%+v", driven)
		}
		got, _ := b.Get(cli(), run)
		child := got.Lineage.Children[0]
		waits, _ := b.Get(cli(), child)
		if len(waits.OpenGates) != 1 || waits.OpenGates[0].Kind != tipstaff.Approval {
			t.Fatalf("the child waits for %+v", waits.OpenGates)
		}
		for range 2 { // its two calls
			waits, _ = b.Get(cli(), child)
			if _, err := b.decide(child, waits.OpenGates[0].ID.String(), "allow"); err != nil {
				t.Fatal(err)
			}
			driven = b.resume(run)
		}
		if driven.State != tipstaff.Completed || b.read("child.txt") != "hello" {
			t.Fatalf("%+v, %q", driven, b.read("child.txt"))
		}
		if !strings.Contains(b.accepted(child), `"via":"parent"`) || !strings.Contains(b.accepted(child), "run:"+run.String()) {
			t.Errorf("accepted by %s", b.accepted(child))
		}
		b.verified(run)
		b.verified(child)
	})
}

// accepted is the body of a run's acceptance.
func (b *bed) accepted(run tipstaff.ID) string {
	for _, e := range b.events(run) {
		if e.Kind == tipstaff.KindIntentAccept {
			return string(e.Body)
		}
	}
	return ""
}

// A person who does not like a draft says what should be different, and is asked again.
func TestADraftIsWrittenAgain(t *testing.T) {
	b, told := draftBed(t, copyPlan("copy.txt"), copyPlan("other.txt"))
	run, _ := b.do("Copy my note")
	g := b.get(run).OpenGates[0]
	if !slices.Equal(g.Actions, []string{"accept", "revise", "reject"}) {
		t.Fatalf("it offers %v", g.Actions)
	}
	if _, err := b.decide(run, "confirm", "revise"); tipstaff.CodeOf(err) != tipstaff.FeedbackRequired {
		t.Errorf("without a word: %v", err)
	}
	if _, err := b.Decide(cli(), tipstaff.DecideRequest{Run: run, Gate: "confirm", Action: "revise", Feedback: "Call it other.txt."}); err != nil {
		t.Fatal(err)
	}
	if out := b.resume(run); out.Outcome != "parked" {
		t.Fatalf("%+v", out)
	}
	if len(*told) != 2 || !strings.Contains((*told)[1], "Call it other.txt.") || !strings.Contains((*told)[1], `"path": "copy.txt"`) {
		t.Errorf("the model was told %q", (*told)[len(*told)-1])
	}
	g = b.get(run).OpenGates[0]
	if shown := strings.Join(g.Shown.Lines, "\n"); g.Key != "confirm@2" || !strings.Contains(shown, `"other.txt"`) {
		t.Errorf("%s shows %s", g.Key, shown)
	}
	b.verified(run)
	if _, err := b.decide(run, "confirm@2", "accept"); err != nil {
		t.Fatal(err)
	}
	if out := b.resume(run); out.State != tipstaff.Completed || b.read("other.txt") != "hello" {
		t.Fatalf("%+v", out)
	}
	b.verified(run)
}

// An acceptance covers what was shown. A call with a value that was cut asks when its
// turn comes, with the others it does not.
func TestAnAcceptanceCoversWhatWasShown(t *testing.T) {
	long := strings.Repeat("x", 5000)
	plan := func(content string) string {
		return `{"kind": "plan", "version": 1, "skill": "skill://notes@1.0.0", "intent": {"verb": "deliver", "objects": [{"name": "note", "value": "a note"}]},
 "root": {"kind": "sequential", "children": [
  {"id": "note", "kind": "tool_call", "tool": "mcp://builtin/exec@1.0.0", "args": {"argv": ["sh", "-c", "cat >> effects"], "stdin": "` + content + `"}}]}}`
	}
	for _, c := range []struct {
		content string
		asks    bool
	}{{"short", false}, {long, true}} {
		b, _ := draftBed(t, plan(c.content))
		b.write("skills/notes/skill.yaml", "id: notes\nversion: 1.0.0\nverbs: [deliver]\ntools: [mcp://builtin/exec@1.0.0]\nsub_skills: none\n")
		run, _ := b.do("Write a note")
		g := b.get(run).OpenGates[0]
		var subject struct{ Cut []string }
		if err := json.Unmarshal(g.Subject, &subject); err != nil || slices.Contains(subject.Cut, "note") != c.asks || g.Shown.Whole == c.asks {
			t.Errorf("cut: %v, whole: %v, %v", subject.Cut, g.Shown.Whole, err)
		}
		if _, err := b.decide(run, "confirm", "accept"); err != nil {
			t.Fatal(err)
		}
		out := b.resume(run)
		if asked := out.Outcome == "parked"; asked != c.asks {
			t.Fatalf("%d bytes: %+v", len(c.content), out)
		}
		if c.asks {
			if _, err := b.decide(run, "root/note/approval", "allow"); err != nil {
				t.Fatal(err)
			}
			out = b.resume(run)
		}
		if out.State != tipstaff.Completed || b.read("effects") != c.content {
			t.Errorf("%+v", out)
		}
		b.verified(run)
	}
}
