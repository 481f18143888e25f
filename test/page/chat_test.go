package page_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/test/webtest"
)

// chatting is a bed with an agent that asks before it writes.
func chatting(t *testing.T) *bed {
	return newBed(t, func(b *webtest.Bed) {
		b.Write("tipstaff.yaml", webtest.Manifest+`
agents:
  default: {model: toy}
  writer: {model: toy, tools: [mcp://builtin/write_file@1.0.0]}
policy:
  rules:
    - {id: writes, tool: "builtin/write_file", do: ask}
`)
		b.Answers = func(r agent.Request) agent.Response {
			if last := r.Messages[len(r.Messages)-1]; last.Role == agent.User && strings.Contains(last.Text, "write") {
				return agent.Response{Text: "I write.", Reason: agent.ReasonToolCalls, Calls: []agent.Call{{ID: "c1", Name: r.Tools[0].Name, Arguments: `{"path":"out.txt","content":"hedgehog"}`}}}
			}
			return agent.Response{Text: "Done.", Reason: agent.ReasonStop}
		}
	})
}

// turns are those of a session, newest first.
func (b *bed) turns(session string) []tipstaff.Run {
	b.Helper()
	got, err := b.Runner.List(b.as("alice"), tipstaff.ListRequest{Session: session})
	if err != nil {
		b.Fatal(err)
	}
	return got.Runs
}

// begun begins a conversation by the form, and gives its session.
func (w *browser) begun(form url.Values) string {
	w.Helper()
	in := w.open("/ui/sessions/new").formOf("/ui/sessions/new/messages")
	for name, values := range form {
		in[name] = values
	}
	p := w.send("/ui/sessions/new/messages", in)
	session, ok := strings.CutSuffix(strings.TrimPrefix(p.header.Get("Location"), "/ui/sessions/"), "#message")
	if p.status != http.StatusSeeOther || !ok {
		w.Fatalf("the message is answered %d, %s: %s", p.status, p.header.Get("Location"), p.text())
	}
	return session
}

func TestAConversationByForms(t *testing.T) {
	t.Parallel()
	b := chatting(t)
	w := b.browser("alice")
	if options := w.open("/ui/sessions/new").all("option"); len(options) != 2 || attr(options[1], "value") != "writer" || !strings.Contains(textOf(options[0]), "toy") {
		t.Errorf("%d agents are offered", len(options))
	}
	session := w.begun(url.Values{"message": {"hello\r\n<b>you</b>"}, "agent": {"writer"}, "bound.model_calls": {"4"}, "bound.wall_time": {"90s"}})
	at := "/ui/sessions/" + session
	b.Rest(b.turns(session)[0].ID.String())

	// The next turn goes on with the agent and the bounds; the same form twice is one message.
	in := w.open(at).formOf(at + "/messages")
	in.Set("message", "again")
	for range 2 {
		if p := w.send(at+"/messages", in); p.status != http.StatusSeeOther || p.header.Get("Location") != at+"#message" {
			t.Fatalf("%d %s", p.status, p.text())
		}
	}
	turns := b.turns(session)
	if len(turns) != 2 {
		t.Fatalf("%d turns", len(turns))
	}
	for _, r := range turns {
		b.Rest(r.ID.String())
		if r.Turn.Agent != "writer" || r.Bounds[tipstaff.BoundModelCalls].Limit != 4 || r.Bounds[tipstaff.BoundWallTime].Limit != 90_000 {
			t.Errorf("turn %d is of %s with %+v", r.Turn.Number, r.Turn.Agent, r.Bounds)
		}
	}
	for i, turn := range byClass(w.open(at).parse(), "turn") {
		c := b.talkOf("alice", turns[1-i], "turn")
		items := byClass(turn, "said")
		if len(items) != len(c.Items) || len(items) != 2 || !strings.Contains(textOf(items[1]), "Done.") {
			t.Errorf("turn %d shows %s", i+1, textOf(turn))
		}
	}
	if got := b.talkOf("alice", turns[1], "turn").Items[0].Text; got != "hello\n<b>you</b>" {
		t.Errorf("the message is %q", got)
	}
	var via string
	for _, e := range b.records("alice", turns[0].ID) {
		if e.Kind == tipstaff.KindIntentAccept {
			via = tipstaff.BodyOf[tipstaff.IntentAccept](&e).Via
		}
	}
	if via != "http" {
		t.Errorf("the turn was accepted via %q", via)
	}
}

// What is not taken comes back as it was typed, and nothing is made of it.
func TestMessagesThatAreNotTaken(t *testing.T) {
	t.Parallel()
	b := chatting(t)
	w := b.browser("alice")
	refused := func(path string, form url.Values, status int, says string) {
		t.Helper()
		p := w.send(path+"/messages", form)
		if p.status != status || !strings.Contains(p.text(), says) {
			t.Errorf("%v is answered %d: %s", form, p.status, p.text())
		}
		in := p.formOf(path + "/messages")
		if strings.TrimPrefix(in.Get("message"), "\n") != form.Get("message") {
			t.Errorf("%q comes back as %q", form.Get("message"), in.Get("message"))
		}
		for name := range form {
			if strings.HasPrefix(name, "bound.") && in.Get(name) != form.Get(name) {
				t.Errorf("%s comes back as %q", name, in.Get(name))
			}
		}
	}
	refused("/ui/sessions/new", url.Values{"message": {" "}}, http.StatusBadRequest, "there is no message")
	refused("/ui/sessions/new", url.Values{"message": {"a\n b"}, "bound.tokens": {"many"}}, http.StatusBadRequest, "many")
	refused("/ui/sessions/new", url.Values{"message": {"a"}, "agent": {"nobody"}}, http.StatusUnprocessableEntity, "nobody")

	session := w.begun(url.Values{"message": {"write it"}, "agent": {"writer"}})
	at := "/ui/sessions/" + session
	b.Rest(b.turns(session)[0].ID.String())
	refused(at, url.Values{"message": {"and\nthen?"}}, http.StatusConflict, "session_busy")
	if n := len(b.turns(session)); n != 1 {
		t.Errorf("%d turns", n)
	}
	if all, err := b.Runner.List(b.as("alice"), tipstaff.ListRequest{}); err != nil || len(all.Runs) != 1 {
		t.Errorf("%d runs, %v", len(all.Runs), err)
	}

	// Who may not, and what is not there.
	bob, root, reader := b.browser("bob"), b.browser("root"), b.browser("reader")
	if p := bob.send(at+"/messages", url.Values{"message": {"x"}}); p.status != http.StatusForbidden {
		t.Errorf("bob is answered %d", p.status)
	}
	if p := root.open(at); !strings.Contains(p.text(), "another user's") || byClass(p.parse(), "message") != nil {
		t.Errorf("an administrator sees %s", p.text())
	}
	if p := root.send(at+"/messages", url.Values{"message": {"x"}}); p.status != http.StatusForbidden {
		t.Errorf("an administrator is answered %d", p.status)
	}
	if p := reader.send("/ui/sessions/new/messages", url.Values{"message": {"x"}}); p.status != http.StatusForbidden {
		t.Errorf("who only reads is answered %d", p.status)
	}
	if form := reader.open("/ui/sessions/new").formAt("/ui/sessions/new/messages"); !strings.Contains(textOf(form), "needs the scope run") || !disabled(form) {
		t.Errorf("who only reads is offered %s", textOf(form))
	}
	for path, status := range map[string]int{"/ui/sessions/01JCQ8R4T5V6W7X8Y9Z0A1B2C3": http.StatusNotFound, at + "?before=x": http.StatusBadRequest} {
		if p := w.get(path); p.status != status {
			t.Errorf("%s is answered %d", path, p.status)
		}
	}
}

// gates are those that a transcript shows.
func (p page) gates() []*html.Node {
	return elements(p.parse(), func(n *html.Node) bool { return n.Data == "section" && attr(n, "class") == "gate" })
}

// disabled reports whether a form cannot be sent.
func disabled(form *html.Node) bool {
	return !slices.ContainsFunc(elements(form, func(n *html.Node) bool { return n.Data == "button" }), func(n *html.Node) bool {
		return !slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "disabled" })
	})
}

// A gate of a turn is decided where it stands, and the conversation goes on.
func TestAGateInATranscript(t *testing.T) {
	t.Parallel()
	b := chatting(t)
	w := b.browser("alice")
	session := w.begun(url.Values{"message": {"write it"}, "agent": {"writer"}})
	at := "/ui/sessions/" + session
	run := b.Rest(b.turns(session)[0].ID.String())
	gate := run.OpenGates[0]
	decision := "/ui/runs/" + run.ID.String() + "/gates/" + gate.ID.String() + "/decision"
	for _, path := range []string{at, "/ui/runs/" + run.ID.String() + "/talk?path=turn"} {
		p := w.open(path)
		if got := p.gates(); len(got) != 1 || !strings.Contains(textOf(got[0]), "hedgehog") || !strings.Contains(textOf(got[0]), gate.Question) {
			t.Errorf("%s shows %d gates", path, len(got))
		}
		if in := p.formOf(decision); in.Get("back") != path || in.Get("subject_digest") != gate.Digest {
			t.Errorf("%s: %v", path, in)
		}
		ids := map[string]bool{}
		for _, n := range elements(p.parse(), func(n *html.Node) bool { return attr(n, "id") != "" }) {
			if ids[attr(n, "id")] {
				t.Errorf("%s: two elements are called %s", path, attr(n, "id"))
			}
			ids[attr(n, "id")] = true
		}
	}
	if p := w.open("/ui/runs/" + run.ID.String() + "/talk?path=turn&at=3"); p.gates() != nil {
		t.Error("something can be decided in the past")
	}
	in := w.open(at).formOf(decision)
	in.Set("action", "allow")
	in.Set("resume", "1")
	confirm := w.send(decision, in) // without scripts it is asked once more
	again := confirm.formOf(decision)
	if again.Set("action", "allow"); confirm.status != http.StatusOK || again.Get("back") != at {
		t.Fatalf("%d %s", confirm.status, confirm.text())
	}
	if p := w.send(decision, again); p.status != http.StatusSeeOther || p.header.Get("Location") != at {
		t.Fatalf("%d %s: %s", p.status, p.header.Get("Location"), p.text())
	}
	run = b.Rest(run.ID.String())
	if run.State != tipstaff.Completed {
		t.Fatalf("the turn is %s", run.Status)
	}
	p := w.open(at)
	if p.gates() != nil || !strings.Contains(p.text(), "Done.") || !strings.Contains(p.text(), "rule writes") {
		t.Errorf("afterwards it shows %s", p.text())
	}
	// A form leads nowhere else.
	again.Set("back", "https://elsewhere.example/ui/")
	if p := w.send(decision, again); p.status != http.StatusSeeOther || p.header.Get("Location") != "/ui/" {
		t.Errorf("%d %s", p.status, p.header.Get("Location"))
	}
}

// A turn that nobody drives is resumed from its conversation.
func TestATurnIsResumedFromItsConversation(t *testing.T) {
	t.Parallel()
	b := chatting(t)
	w := b.browser("alice")
	session := w.begun(url.Values{"message": {"write it"}, "agent": {"writer"}})
	at := "/ui/sessions/" + session
	run := b.Rest(b.turns(session)[0].ID.String())
	resume := "/ui/runs/" + run.ID.String() + "/resume"
	b.decide(run, "allow") // which starts nothing
	p := w.open(at)
	p.says("Nobody drives this turn")
	if sent := w.post(resume, p.formOf(resume)).answers(http.StatusSeeOther); sent.header.Get("Location") != at {
		t.Errorf("it leads to %s", sent.header.Get("Location"))
	}
	if run = b.Rest(run.ID.String()); run.State != tipstaff.Completed {
		t.Fatalf("the turn is %s", run.Status)
	}
	if p := w.open(at); !strings.Contains(p.text(), "Done.") || strings.Contains(p.text(), "Nobody drives this turn") {
		t.Errorf("afterwards it shows %s", p.text())
	}
}

// What a model says reaches the page while it says it, as text, in the place that waits for it;
// Stop ends the turn.
func TestWhatIsToldReachesThePage(t *testing.T) {
	t.Parallel()
	b := chatting(t)
	more := make(chan struct{})
	b.Speaks = func(ctx context.Context, _ agent.Request, emit func(agent.Delta)) (agent.Response, error) {
		emit(agent.Delta{Channel: agent.ChannelReasoning, Text: "let me think"})
		emit(agent.Delta{Channel: agent.ChannelAnswer, Text: "<b>é\u202e"})
		<-more
		emit(agent.Delta{Channel: agent.ChannelAnswer, Text: "\nmore"})
		<-ctx.Done()
		return agent.Response{}, context.Cause(ctx)
	}
	w := b.browser("alice")
	session := w.begun(url.Values{"message": {"hello"}})
	at := "/ui/sessions/" + session
	run := b.turns(session)[0].ID.String()
	close(more)
	for page, part := range map[string]string{at: "session", "/ui/runs/" + run + "/talk": "talk"} {
		f := w.follow(page, part)
		var told []struct {
			Path, Text  string
			Offset, End int64
		}
		waits := ""
		for len(told) < 2 || waits == "" {
			e, ok := f.next()
			if !ok {
				t.Fatalf("the stream of %s ends after %v", page, told)
			}
			switch e.event {
			case "told":
				told = append(told, struct {
					Path, Text  string
					Offset, End int64
				}{})
				if err := json.Unmarshal([]byte(e.data), &told[len(told)-1]); err != nil {
					t.Fatal(err)
				}
			case "part":
				doc, err := html.Parse(strings.NewReader(e.data))
				if err != nil {
					t.Fatal(err)
				}
				for _, n := range byClass(doc, "told") {
					waits = attr(n, "data-told")
				}
			}
		}
		f.body.Close()
		if told[0].Path != waits || told[1].Path != waits || !strings.HasPrefix(waits, run) {
			t.Errorf("%s: told to %q and %q, and %q waits", page, told[0].Path, told[1].Path, waits)
		}
		if a, b := told[0], told[1]; a.Offset != 0 || a.End != 8 || b.Offset != 8 || b.End != 13 || b.Text != "\nmore" || !strings.HasPrefix(a.Text, "<b>é") || strings.Contains(a.Text, "\u202e") {
			t.Errorf("%s: told %+v", page, told)
		}
	}
	// A page that shows no transcript is told nothing.
	f := w.follow("/ui/runs/"+run, "header")
	stop := w.open(at).formOf("/ui/runs/" + run + "/cancel")
	if p := w.send("/ui/runs/"+run+"/cancel", stop); p.status != http.StatusSeeOther || p.header.Get("Location") != at {
		t.Fatalf("Stop is answered %d: %s", p.status, p.text())
	}
	for e, ok := f.next(); ok; e, ok = f.next() {
		if e.event == "told" {
			t.Errorf("the overview is told %s", e.data)
		}
	}
	if got := b.Rest(run); got.State != tipstaff.Cancelled {
		t.Errorf("after Stop the turn is %s", got.Status)
	}
	if p := w.open(at); byClass(p.parse(), "told") != nil || byClass(p.parse(), "stop") != nil || !strings.Contains(p.text(), "Did not answer.") {
		t.Errorf("after Stop: %s", p.text())
	}
}
