package page_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/test/webtest"
)

// talking is a bed with an agent that reads a note when it is told to.
func talking(t *testing.T) *bed {
	b := newBed(t, func(b *webtest.Bed) {
		b.Write("tipstaff.yaml", webtest.Manifest+`
agents:
  default:
    model: toy
    tools: [mcp://builtin/read_file@1.0.0]
  helper: {model: toy}
policy:
  rules:
    - {id: reads, tool: "builtin/*", effect: read, do: allow}
`)
		b.Write("note.txt", strings.Repeat("x", 10_000))
	})
	b.Answers = func(r agent.Request) agent.Response {
		used := &agent.Usage{InputTokens: 1234, OutputTokens: 56, TotalTokens: 1290}
		if last := r.Messages[len(r.Messages)-1]; last.Role == agent.User && strings.Contains(last.Text, "note") {
			return agent.Response{Text: "I **look**.", Reason: agent.ReasonToolCalls, Usage: used, Calls: []agent.Call{{ID: "c1", Name: r.Tools[0].Name, Arguments: `{"path":"note.txt"}`}}}
		}
		return agent.Response{Text: `{"done": true}`, Reason: agent.ReasonStop, Usage: used}
	}
	return b
}

// said takes a turn as a user.
func (b *bed) said(user, session, message string) tipstaff.Run {
	b.Helper()
	doc := map[string]any{"kind": "turn", "message": message}
	if session != "" {
		doc["session"] = session
	}
	s, err := b.Runner.Start(b.as(user), tipstaff.StartRequest{Name: "turn", Program: flow.JSON(doc)})
	if err != nil {
		b.Fatal(err)
	}
	return b.Rest(s.Run.String())
}

// pipe drives a pipeline of a user to where it rests.
func (b *bed) pipe(user, program string) tipstaff.Run {
	b.Helper()
	s, err := b.Runner.Start(b.as(user), tipstaff.StartRequest{Name: "pipeline.yaml", Program: []byte("kind: pipeline\nversion: 1\n" + program), Inputs: map[string]json.RawMessage{"raw_input": json.RawMessage(`"do it"`)}})
	if err != nil {
		b.Fatalf("%v %+v", err, err)
	}
	return b.Rest(s.Run.String())
}

// byClass are the elements with a class.
func byClass(n *html.Node, class string) []*html.Node {
	return elements(n, func(n *html.Node) bool { return slices.Contains(strings.Fields(attr(n, "class")), class) })
}

// links are the addresses below a node.
func links(n *html.Node) (all []string) {
	for _, a := range elements(n, func(n *html.Node) bool { return n.Data == "a" }) {
		all = append(all, attr(a, "href"))
	}
	return all
}

// wantTranscript says where a page shows something else than a conversation.
func wantTranscript(t *testing.T, shown *html.Node, r tipstaff.Run, c *tipstaff.Conversation) {
	t.Helper()
	items := byClass(shown, "said")
	if len(items) != len(c.Items) || len(items) == 0 {
		t.Fatalf("%d items are shown of %d", len(items), len(c.Items))
	}
	for i, it := range c.Items {
		text := textOf(items[i])
		var wants []string
		switch {
		case it.Call != nil:
			wants = []string{it.Call.Name, it.Call.Rule, it.Call.Decision}
			var args map[string]string
			if err := json.Unmarshal(it.Call.Arguments, &args); err != nil {
				t.Fatal(err)
			}
			for name, value := range args {
				wants = append(wants, name+" "+value)
			}
			pres := elements(items[i], func(n *html.Node) bool { return n.Data == "pre" })
			if it.Call.Result != "" && pres[len(pres)-1].FirstChild.Data != it.Call.Result {
				t.Errorf("item %d: another result than %q", i, it.Call.Result)
			}
			if it.Call.Cut > 0 && !slices.Contains(links(items[i]), fmt.Sprintf("/ui/runs/%s/journal/%d", it.Call.RecordRun, it.Call.Record)) {
				t.Errorf("item %d: no link to record %d in %q", i, it.Call.Record, links(items[i]))
			}
			if it.Call.Gate != "" && !slices.Contains(links(items[i]), "/ui/runs/"+r.ID.String()+"/gates/"+url.PathEscape(it.Call.Gate)) {
				t.Errorf("item %d: no link to its gate in %q", i, links(items[i]))
			}
		case it.Role == tipstaff.RoleAssistant:
			wants = []string{strings.ReplaceAll(it.Text, "**", " "), it.Step.Model, fmt.Sprintf("step %d", it.Step.Number), "1,234 tokens in, 56 out", "cost unknown"}
		default:
			wants = []string{it.Text}
		}
		for _, want := range wants {
			if want = strings.Join(strings.Fields(want), " "); !strings.Contains(text, want) {
				t.Errorf("item %d does not say %q: %s", i, want, text)
			}
		}
	}
}

func (b *bed) talkOf(user string, r tipstaff.Run, path string) *tipstaff.Conversation {
	b.Helper()
	c, err := tipstaff.ConversationOf(b.as(user), b.Runner, r, path, 0)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func TestTalkOfATurn(t *testing.T) {
	t.Parallel()
	b := talking(t)
	w := b.browser("alice")
	run := b.said("alice", "", "the note, <b>please</b>")
	c := b.talkOf("alice", run, "turn")
	if len(c.Items) != 4 || c.Items[2].Call == nil || c.Items[2].Call.Cut == 0 {
		t.Fatalf("message, step, long call, step: %+v", c.Items)
	}
	p := w.open("/ui/runs/" + run.ID.String() + "/talk")
	wantTranscript(t, p.parse(), run, c)
	if strong := elements(byClass(p.parse(), "markdown")[0], func(n *html.Node) bool { return n.Data == "strong" }); len(strong) != 1 || textOf(strong[0]) != "look" {
		t.Errorf("what the assistant says is not drawn as Markdown: %v", strong)
	}
	if got := byClass(p.parse(), "untrusted"); len(got) != 0 {
		t.Errorf("a file of the workspace is untrusted: %d", len(got))
	}
	// As of a record the rest has not been said.
	at := c.Items[1].Seq
	early := w.open(fmt.Sprintf("/ui/runs/%s/talk?path=turn&at=%d", run.ID, at))
	if got := byClass(early.parse(), "said"); len(got) != 2 {
		t.Errorf("as of record %d %d things were said", at, len(got))
	}
	// A fork begins with what was said before, in the records of the other run.
	forked, err := b.Runner.Fork(b.as("alice"), tipstaff.ForkRequest{Run: run.ID, Place: tipstaff.Place{At: c.Items[3].Seq}})
	if err != nil {
		t.Fatal(err)
	}
	fork := b.Rest(forked.ID.String())
	inherited := b.talkOf("alice", fork, "turn")
	if len(inherited.Items) < 3 || inherited.Items[2].Call.RecordRun != run.ID {
		t.Fatalf("the fork: %+v", inherited.Items)
	}
	wantTranscript(t, w.open("/ui/runs/"+fork.ID.String()+"/talk").parse(), fork, inherited)
	// The tab leads here, and is there for runs in which somebody speaks.
	if got := links(w.open("/ui/runs/" + run.ID.String()).parse()); !slices.Contains(got, "/ui/runs/"+run.ID.String()+"/talk") {
		t.Errorf("the run does not lead to what was said: %q", got)
	}
	silent := b.start("alice", `{kind: plan, version: 1, root: {id: r, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: note.txt}}}`)
	if got := links(w.open("/ui/runs/" + silent.ID.String()).parse()); slices.Contains(got, "/ui/runs/"+silent.ID.String()+"/talk") {
		t.Error("a run in which nobody speaks leads to what was said")
	}
	if got := w.open("/ui/runs/" + silent.ID.String() + "/talk").text(); !strings.Contains(got, "Nobody has said anything here.") {
		t.Errorf("of a silent run: %s", got)
	}
}

func TestTalkOfAStage(t *testing.T) {
	t.Parallel()
	b := talking(t)
	w := b.browser("alice")
	b.Write("tipstaff.yaml", webtest.Manifest+"agents:\n  helper: {model: toy}\n") // nothing is allowed without asking
	run := b.pipe("alice", `
name: two
agents:
  - {name: a, default_next: m, model: {agent: helper, prompt: "Say something"}}
  - {name: m, model: {agent: helper, prompt: "Look at the note", tools: ["mcp://builtin/read_file@1.0.0"]}}
`)
	if len(run.OpenGates) != 1 {
		t.Fatalf("%s %+v %+v", run.Status, run.Error, run.OpenGates)
	}
	p := w.open("/ui/runs/" + run.ID.String() + "/talk?path=m%231")
	c := b.talkOf("alice", run, "m#1")
	if len(c.Items) != 2 || c.Items[1].Call.Outcome != tipstaff.CallAsked {
		t.Fatalf("step, question: %+v", c.Items)
	}
	wantTranscript(t, p.parse(), run, c)
	if !slices.Contains(links(p.parse()), "/ui/runs/"+run.ID.String()+"/talk?path=a%231") {
		t.Errorf("it does not lead to the other stage: %q", links(p.parse()))
	}
	if _, err := b.Runner.Decide(b.as("alice"), tipstaff.DecideRequest{Run: run.ID, Gate: run.OpenGates[0].ID.String(), Action: "allow"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Runner.Resume(b.as("alice"), tipstaff.ResumeRequest{Run: run.ID}); err != nil {
		t.Fatal(err)
	}
	run = b.Rest(run.ID.String())
	c = b.talkOf("alice", run, "m#1")
	if len(c.Items) != 3 || c.Items[1].Call.Decision != "allow" {
		t.Fatalf("when it was answered: %+v", c.Items)
	}
	wantTranscript(t, w.open("/ui/runs/"+run.ID.String()+"/talk?path=m%231").parse(), run, c)
	// Without a path it is the first place where somebody spoke.
	wantTranscript(t, w.open("/ui/runs/"+run.ID.String()+"/talk").parse(), run, b.talkOf("alice", run, "a#1"))
}

func TestSessions(t *testing.T) {
	t.Parallel()
	b := talking(t)
	w := b.browser("alice")
	if got := w.open("/ui/sessions").text(); !strings.Contains(got, "No conversation yet.") {
		t.Errorf("before there is any: %s", got)
	}
	first := b.said("alice", "", "hello <i>you</i>")
	second := b.said("alice", first.Turn.Session, "the note")
	address := "/ui/sessions/" + first.Turn.Session
	list := w.open("/ui/sessions")
	if cards := byClass(list.parse(), "card"); len(cards) != 1 || !slices.Equal(links(cards[0]), []string{address}) || !strings.Contains(textOf(cards[0]), "hello <i>you</i>") || !strings.Contains(textOf(cards[0]), "2 turns") {
		t.Errorf("%s", list.text())
	}
	if !slices.Contains(links(w.open("/ui/").parse()), "/ui/sessions") {
		t.Error("the rail does not lead to the sessions")
	}
	turns := byClass(w.open(address).parse(), "turn")
	if len(turns) != 2 {
		t.Fatalf("%d turns", len(turns))
	}
	wantTranscript(t, turns[0], first, b.talkOf("alice", first, "turn"))
	wantTranscript(t, turns[1], second, b.talkOf("alice", second, "turn"))
	// It is hers.
	bob := b.browser("bob")
	if p := bob.get(address); p.status != http.StatusForbidden || strings.Contains(p.body, "hello") {
		t.Errorf("bob: %d %s", p.status, p.text())
	}
	if got := b.browser("root").open(address).text(); !strings.Contains(got, "hello") {
		t.Errorf("root sees %s", got)
	}
	if got := bob.open("/ui/sessions").text(); strings.Contains(got, "hello") {
		t.Errorf("bob sees %s", got)
	}
	if p := bob.get("/ui/runs/" + first.ID.String() + "/talk"); p.status != http.StatusForbidden || strings.Contains(p.body, "hello") {
		t.Errorf("bob: %d %s", p.status, p.text())
	}
	if p := w.get("/ui/sessions/" + first.Turn.Session[:20]); p.status != http.StatusNotFound {
		t.Errorf("a part of its name: %d", p.status)
	}
}

// review goes round twice, and then asks.
const review = `name: review
max_iterations: 3
agents:
  - {name: work, stage_order: 1, default_next: critic, scripted: {answers: [{output: {n: 1}}], repeat: last}}
  - name: critic
    stage_order: 2
    scripted: {answers: [{output: {verdict: again}}, {output: {verdict: ask}}, {output: {verdict: ok}}], repeat: last}
    routing_rules:
      - {condition: verdict, value: again, target: work}
      - {condition: verdict, value: ask, target: confirmation, then: end}
`

func TestARunBesideItsFork(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	w := b.browser("alice")
	old := b.pipe("alice", review)
	points, err := b.Runner.Checkpoints(b.as("alice"), old.ID)
	if err != nil || len(points) == 0 {
		t.Fatalf("%v %+v", err, points)
	}
	forked, err := b.Runner.Fork(b.as("alice"), tipstaff.ForkRequest{Run: old.ID, Place: tipstaff.Place{Checkpoint: points[0].ID},
		Changes: tipstaff.Changes{Outputs: map[string]json.RawMessage{"critic": json.RawMessage(`{"verdict": "ok"}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Runner.Resume(b.as("alice"), tipstaff.ResumeRequest{Run: forked.ID}); err != nil {
		t.Fatal(err)
	}
	fork := b.Rest(forked.ID.String())

	address := "/ui/compare?" + url.Values{"a": {old.ID.String()}, "b": {fork.ID.String()}}.Encode()
	p := w.open(address)
	if got := textOf(byClass(p.parse(), "first-difference")[0]); !strings.Contains(got, "work#2 stage : only in A") {
		t.Errorf("the first difference: %s", got)
	}
	if got, want := textOf(byClass(p.parse(), "shared")[0]), fmt.Sprintf("The first %d records are the same", fork.Lineage.Seq); !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	want, err := tipstaff.CompareRuns(b.as("alice"), b.Runner, tipstaff.CompareRequest{A: old.ID, B: fork.ID})
	if err != nil {
		t.Fatal(err)
	}
	var rows, paths []string
	for _, tr := range elements(byClass(p.parse(), "compare")[0], func(n *html.Node) bool { return n.Data == "tr" && attr(n, "data-key") != "" }) {
		rows = append(rows, attr(tr, "data-key"))
	}
	for _, r := range want.Rows {
		paths = append(paths, r.Path)
	}
	if !slices.Equal(rows, paths) || len(rows) < 2 {
		t.Errorf("rows %q, want %q", rows, paths)
	}
	// Records that only one inherits stand in the journal of the run that has them.
	early := w.open("/ui/compare?a=" + old.ID.String() + "@10&b=" + fork.ID.String())
	for _, tr := range byClass(early.parse(), "differs") {
		for _, to := range links(tr) {
			var seq int64
			if _, err := fmt.Sscanf(to, "/ui/runs/"+old.ID.String()+"/journal/%d", &seq); err == nil && seq > 10 && seq <= fork.Lineage.Seq {
				continue
			}
			if _, err := fmt.Sscanf(to, "/ui/runs/"+fork.ID.String()+"/journal/%d", &seq); err != nil || seq > fork.HeadSeq {
				t.Errorf("a record that is not there: %s", to)
			}
		}
	}
	if len(byClass(early.parse(), "differs")) == 0 {
		t.Error("as of record 10 the source has as much as its fork")
	}
	same := w.open("/ui/compare?a=" + old.ID.String() + "&b=" + old.ID.String())
	if got := textOf(byClass(same.parse(), "first-difference")[0]); !strings.Contains(got, "None: what happened is the same in both.") {
		t.Errorf("with itself: %s", got)
	}

	// With one that has nothing to do with it, places that both have stand side by side.
	other := b.pipe("alice", strings.Replace(review, "max_iterations: 3", "max_iterations: 2", 1))
	beside := w.open("/ui/compare?" + url.Values{"a": {old.ID.String()}, "b": {other.ID.String()}}.Encode())
	if len(byClass(beside.parse(), "shared")) != 0 {
		t.Error("runs that have nothing to do with each other share records")
	}
	for _, tr := range elements(beside.parse(), func(n *html.Node) bool { return n.Data == "tr" && attr(n, "data-key") == "work#1" }) {
		if got := cells(tr); slices.ContainsFunc(got, func(c string) bool { return strings.Contains(c, "not here") }) || got[2] != "equal" {
			t.Errorf("the first visit is not aligned: %q", got)
		}
	}
	if len(elements(beside.parse(), func(n *html.Node) bool { return attr(n, "data-key") == "work#1" })) != 1 {
		t.Errorf("the first visit is missing: %s", beside.text())
	}

	// Each is in the family of the other.
	above := w.open("/ui/runs/" + fork.ID.String() + "/family")
	self := byClass(above.parse(), "self")
	if len(self) != 1 {
		t.Fatalf("the fork is not among its own: %s", above.text())
	}
	if !strings.Contains(textOf(self[0]), fmt.Sprintf("fork at %d", fork.Lineage.Seq)) {
		t.Errorf("the fork among its own: %s", above.text())
	}
	if outer := self[0].Parent.Parent.Parent; outer.Data != "li" || !slices.Contains(links(outer), "/ui/runs/"+old.ID.String()) {
		t.Errorf("it does not stand below what it comes from: %s", above.text())
	}
	below := byClass(byClass(w.open("/ui/runs/"+old.ID.String()+"/family").parse(), "kin")[0], "kin")
	if len(below) != 1 || !slices.Contains(links(below[0]), "/ui/runs/"+fork.ID.String()) || !strings.Contains(textOf(below[0]), "fork at") {
		t.Errorf("the fork does not stand below: %d", len(below))
	}

	// To others they are nothing.
	bob := b.browser("bob")
	his := b.pipe("bob", review)
	for _, path := range []string{address, "/ui/compare?a=" + his.ID.String() + "&b=" + fork.ID.String(), "/ui/compare?a=" + old.ID.String() + "&b=" + his.ID.String(), "/ui/runs/" + fork.ID.String() + "/family", "/ui/runs/" + old.ID.String() + "/talk"} {
		if got := bob.get(path); got.status != http.StatusForbidden {
			t.Errorf("bob opens %s: %d %s", path, got.status, got.text())
		}
	}
	for path, status := range map[string]int{"/ui/compare": 200, "/ui/compare?a=x&b=y": 400, "/ui/compare?a=" + old.ID.String() + "@99999&b=" + old.ID.String(): 0, "/ui/compare?a=" + old.ID.String() + "@-1&b=" + old.ID.String(): 400} {
		if got := w.get(path); got.status != status && (status != 0 || got.status < 400 || got.status >= 500) {
			t.Errorf("%s: %d, want %d", path, got.status, status)
		}
	}
}

// What was given to two runs and differs is shown beside each other.
func TestCompareWhatWasGiven(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	w := b.browser("alice")
	plan := func(calls int) tipstaff.Run {
		return b.start("alice", fmt.Sprintf(`{kind: plan, version: 1, name: p, bounds: {tool_calls: %d}, root: {id: r, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: note.txt}}}`, calls))
	}
	one, two := plan(5), plan(7)
	p := w.open("/ui/compare?a=" + one.ID.String() + "&b=" + two.ID.String())
	given := textOf(byClass(p.parse(), "given")[0])
	if !strings.Contains(given, "bound/tool_calls 5 7") || !strings.Contains(given, "program") {
		t.Errorf("what was given: %s", given)
	}
	if got := textOf(byClass(p.parse(), "first-difference")[0]); !strings.Contains(got, "What happened is the same in both; what they were given is not.") {
		t.Errorf("the first difference: %s", got)
	}
}
