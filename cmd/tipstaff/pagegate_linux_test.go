package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/tipstaff/tipstaff"
)

// browser is somebody who has signed in to the page of a daemon, without scripts.
type browser struct {
	*site
	testing.TB
	client *http.Client
}

// browse signs in with the token of the site.
func (s *site) browse(t testing.TB) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &browser{s, t, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	if p := b.post("/ui/signin", url.Values{"token": {s.token}}); p.status != http.StatusSeeOther {
		t.Fatalf("signing in is answered %d: %s", p.status, p.text())
	}
	return b
}

// webPage is what a page was answered with.
type webPage struct {
	status int
	to     string // where it sends the browser
	root   *html.Node
}

func (b *browser) get(path string) webPage {
	b.Helper()
	return b.ask(http.MethodGet, path, nil)
}

// post sends a form as browsers do: lines end with two characters.
func (b *browser) post(path string, form url.Values) webPage {
	b.Helper()
	sent := url.Values{}
	for name, values := range form {
		for _, v := range values {
			sent.Add(name, strings.ReplaceAll(v, "\n", "\r\n"))
		}
	}
	return b.ask(http.MethodPost, path, strings.NewReader(sent.Encode()))
}

func (b *browser) ask(method, path string, body io.Reader) webPage {
	b.Helper()
	r, err := http.NewRequest(method, "http://"+b.addr+path, body)
	if err != nil {
		b.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Origin", "http://"+b.addr)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := b.client.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	root, err := html.ParseWithOptions(res.Body, html.ParseOptionEnableScripting(false))
	if err != nil {
		b.Fatal(err)
	}
	return webPage{res.StatusCode, res.Header.Get("Location"), root}
}

// text is all that a page says, but for what is in fields.
func (p webPage) text() string {
	var all strings.Builder
	for n := range p.root.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "textarea" {
			all.WriteString(n.Data + " ")
		}
	}
	return all.String()
}

// says reports whether the words of a text stand in a page, in their order and together. Names
// may stand without the colon that follows them elsewhere.
func (p webPage) says(text string) bool {
	plain := func(s string) string {
		words := strings.Fields(s)
		for i, w := range words {
			words[i] = strings.TrimSuffix(w, ":")
		}
		return " " + strings.Join(words, " ") + " "
	}
	return strings.Contains(plain(p.text()), plain(text))
}

func attribute(n *html.Node, name string) (string, bool) {
	i := slices.IndexFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
	if i < 0 {
		return "", false
	}
	return n.Attr[i].Val, true
}

// webForm is a form of a page, as it would be sent.
type webForm struct {
	to      string
	fields  url.Values
	actions []string // that can be taken
	off     []string // and that cannot
	first   *html.Node
}

// form is the one that sends to an address with this end.
func (p webPage) form(t testing.TB, end string) webForm {
	t.Helper()
	for n := range p.root.Descendants() {
		if to, _ := attribute(n, "action"); n.Type == html.ElementNode && n.Data == "form" && strings.HasSuffix(to, end) {
			return readForm(n, to)
		}
	}
	t.Fatalf("no form sends to …%s: %s", end, p.text())
	return webForm{}
}

func readForm(form *html.Node, to string) webForm {
	f := webForm{to: to, fields: url.Values{}}
	for n := range form.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		name, _ := attribute(n, "name")
		value, _ := attribute(n, "value")
		kind, _ := attribute(n, "type")
		_, checked := attribute(n, "checked")
		_, disabled := attribute(n, "disabled")
		switch {
		case n.Data == "button":
			if f.first == nil {
				f.first = n
			}
			if name == "action" && disabled {
				f.off = append(f.off, value)
			} else if name == "action" {
				f.actions = append(f.actions, value)
			}
		case n.Data == "textarea" && n.FirstChild != nil:
			f.fields.Set(name, n.FirstChild.Data)
		case n.Data == "textarea":
			f.fields.Set(name, "")
		case n.Data == "input" && (checked || kind != "radio" && kind != "checkbox"):
			f.fields.Set(name, value)
		}
	}
	return f
}

// with is the form with fields set.
func (f webForm) with(pairs ...string) url.Values {
	all := url.Values{}
	for name, values := range f.fields {
		all[name] = values
	}
	for i := 0; i < len(pairs); i += 2 {
		all.Set(pairs[i], pairs[i+1])
	}
	return all
}

// typed is what a person types to take an action, and the flags of the command that does the
// same.
type typed struct{ fields, flags []string }

var (
	noted      = typed{[]string{"note", "read\n  it \"twice\""}, []string{"--note", "read\n  it \"twice\""}}
	withWords  = typed{[]string{"feedback", "mend\nthis"}, []string{"--feedback", "mend\nthis"}}
	answersOf  = map[string]typed{"answer": {[]string{"answer", "the <left> one"}, []string{"--answer", "the <left> one"}}, "modify": {[]string{"data", `{"a": [1]}`}, []string{"--answer", `{"a": [1]}`}}}
	amountOf   = typed{[]string{"amount", "2"}, []string{"--answer", "2"}}
	resultOf   = typed{[]string{"result", `{"exit_code": 0, "stdout": "", "stderr": "", "truncated": false}`}, []string{"--answer", `{"exit_code": 0, "stdout": "", "stderr": "", "truncated": false}`}}
	everyTyped = func(action string) typed {
		switch {
		case action == "extend":
			return amountOf
		case action == "use_result":
			return resultOf
		case tipstaff.NeedsFeedback(action):
			return withWords
		case answersOf[action].fields != nil:
			return answersOf[action]
		}
		return noted
	}
)

// A gate of each kind is shown on its page with all that it asks about, and decided there with
// each of its actions. What is stored is what the command would have stored: it takes the
// same decision for a repeat.
func TestEveryKindOfGateIsDecidedOnThePage(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, conditions, long)
	w.git()
	w.Env = append(w.Env, "XDG_STATE_HOME="+w.Path("state"))
	w.endLaunched()
	a := asker{w, w.overStdio(t, "2026-07-28")}
	b := w.serves().browse(t)
	for kind, make := range gatesOf {
		taken := map[string]bool{}
		for offered := 1; len(taken) < offered; {
			_ = os.Remove(w.Path("effects")) // which tells when a call is under way
			run := make(a)
			var g tipstaff.Gate
			id := w.show(run.String()).OpenGates[0].ID
			w.Check(json.Unmarshal([]byte(w.Must(0, "show", run.String(), "--gate", id, "--json").Out), &g))
			if g.Kind != kind {
				t.Fatalf("the gate of %s is a %s", kind, g.Kind)
			}
			page := b.get("/ui/runs/" + run.String() + "/gates/" + id + "?whole=1")
			for _, line := range append(g.Shown.Lines, g.Question, g.Digest) {
				if line = strings.TrimPrefix(strings.TrimSpace(line), "| "); !page.says(line) {
					t.Errorf("the page of a %s does not say %q: %s", kind, line, page.text())
				}
			}
			form := page.form(t, "/decision")
			if !slices.Equal(form.actions, g.Available()) || len(form.actions)+len(form.off) != len(g.Actions) {
				t.Fatalf("a %s offers %v, not %v; the gate has %v", kind, form.actions, form.off, g.Actions)
			}
			offered = len(form.actions)
			action := form.actions[len(taken)]
			taken[action] = true
			b.decided(w, run, g, form, action)
		}
	}
}

// decided takes an action on the page, and looks at what is stored.
func (b *browser) decided(w *workspace, run tipstaff.ID, g tipstaff.Gate, form webForm, action string) {
	b.Helper()
	form.fields.Del("resume")
	given := everyTyped(action)
	asked := b.post(form.to, form.with(append(given.fields, "action", action)...))
	if asked.status != http.StatusOK || !asked.says("You are about to decide "+strings.ReplaceAll(action, "_", " ")) {
		b.Fatalf("%s at a %s is not asked about once more: %d %s", action, g.Kind, asked.status, asked.text())
	}
	again := asked.form(b, "/decision")
	done := b.post(again.to, again.with("action", action))
	if done.status != http.StatusSeeOther {
		b.Fatalf("%s at a %s is answered %d: %s", action, g.Kind, done.status, done.text())
	}
	var got tipstaff.Decision
	stored := w.Must(0, append([]string{"decide", run.String(), g.ID.String(), action, "--json"}, given.flags...)...).Out
	w.Check(json.Unmarshal([]byte(stored), &got))
	want := tipstaff.Actor{Principal: "token:local", Via: "http", Client: "web"}
	if got.Actor != want || got.SubjectDigest != g.Digest || got.Kind != g.Kind {
		b.Errorf("%s at a %s is stored as %s", action, g.Kind, stored)
	}
	closed := b.get(done.to)
	for _, text := range []string{"Your decision is recorded", "Decided: " + strings.ReplaceAll(action, "_", " "), "By token:local", "Through http, web", "Waited"} {
		if !closed.says(text) && !strings.Contains(closed.text(), text) {
			b.Errorf("the page of a %s that is closed does not say %q: %s", g.Kind, text, closed.text())
		}
	}
	if p := b.post(again.to, again.with("action", action)); p.status != http.StatusSeeOther {
		b.Errorf("the same once more is answered %d: %s", p.status, p.text())
	}
	other := fmt.Sprint(action, " otherwise")
	p := b.post(again.to, again.with("action", action, "note", other))
	if p.status != http.StatusConflict || !p.says("It was decided otherwise before") || !p.says(other) || !p.says("Decided "+strings.ReplaceAll(action, "_", " ")) {
		b.Errorf("another decision at a %s is answered %d: %s", g.Kind, p.status, p.text())
	}
}

// opened is the page of the one gate of a run.
func (b *browser) opened(w *workspace, run string) (path string, page webPage) {
	b.Helper()
	path = "/ui/runs/" + run + "/gates/" + w.show(run).OpenGates[0].ID
	return path, b.get(path)
}

// What cannot be taken as it was typed is shown again with all that was typed, and nothing is
// written. Values that look like nothing arrive as what they are.
func TestAnswersOnThePageAreTakenAsTyped(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, conditions)
	w.endLaunched()
	a := asker{w, w.overStdio(t, "2026-07-28")}
	b := w.serves().browse(t)
	for _, c := range []struct{ program, action, field, value, note string }{
		{"clarification.yaml", "answer", "answer", "  ", "an answer is needed"},
		{"confirmation.yaml", "modify", "data", "[1]", "is not a JSON object"},
		{"bound.yaml", "extend", "amount", "plenty", "is not by how much"},
		{"handoff.yaml", "retry_feedback", "note", "<b>", "needs feedback"},
		{"handoff.yaml", "continue", "feedback", "not for this", "takes no feedback"},
	} {
		run := a.parked(c.program).String()
		path, page := b.opened(w, run)
		form := page.form(t, "/decision")
		if _, off := attribute(form.first, "disabled"); !off || attributeOf(form.first, "name") != "" {
			t.Errorf("Enter in a field of %s takes a button", c.program)
		}
		p := b.post(form.to, form.with("action", c.action, c.field, c.value, "note", "kept\n"+c.program, c.field, c.value, "confirmed", "1", "resume", ""))
		again := p.form(t, "/decision")
		if p.status < 400 || p.status > 499 || !strings.Contains(p.text(), c.note) || again.fields.Get(c.field) != c.value || again.fields.Has("resume") {
			t.Errorf("%s with %s %q is answered %d with %v: %s", c.action, c.field, c.value, p.status, again.fields, p.text())
		}
		if c.field != "note" && again.fields.Get("note") != "kept\n"+c.program {
			t.Errorf("of what was typed %q is kept", again.fields.Get("note"))
		}
		if _, page := b.opened(w, run); len(page.form(t, "/decision").actions) != len(form.actions) {
			t.Errorf("%s is not open any more", path)
		}
	}
	for text, want := range map[string]string{"false": "false", "0": "0", `""`: `""`, "a\nb": `"a\nb"`, `{"a": [1, {}]}`: `{"a":[1,{}]}`} {
		_, page := b.opened(w, a.parked("clarification.yaml").String())
		form := page.form(t, "/decision")
		p := b.post(form.to, form.with("action", "answer", "answer", text, "confirmed", "1", "resume", ""))
		if p.status != http.StatusSeeOther || !strings.Contains(b.get(p.to).text(), want) {
			t.Errorf("the answer %q is answered %d: %s", text, p.status, p.text())
		}
	}
}

func attributeOf(n *html.Node, name string) string { value, _ := attribute(n, name); return value }

// Forms are taken from pages of the session alone, and from who may do what they ask.
func TestFormsOfThePageNeedTheirRights(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, strings.Replace(conditions, "allowed_effects:", `serve:
  tokens: {local: {token: $env:LOCAL, scopes: [read]}, root: {token: $env:ROOT, scopes: [admin]}}
allowed_effects:`, 1))
	w.Env = append(w.Env, "LOCAL=the-secret-of-local", "ROOT=the-secret-of-root")
	w.endLaunched()
	a := asker{w, w.overStdio(t, "2026-07-28")}
	run := a.parked("question.yaml").String()
	daemon := w.serves()
	reader, root := daemon.as("the-secret-of-local").browse(t), daemon.as("the-secret-of-root").browse(t)
	_, page := reader.opened(w, run)
	form := page.form(t, "/decision")
	if len(form.actions) > 0 || len(form.off) == 0 || !page.says("needs the scope decide") || form.fields.Has("resume") {
		t.Errorf("who may only read is offered %v with %v: %s", form.actions, form.fields, page.text())
	}
	_, seen := root.opened(w, run)
	good := seen.form(t, "/decision")
	for name, forged := range map[string]struct {
		by     *browser
		to     string
		fields url.Values
	}{
		"a decision without its scope": {reader, form.to, form.with("action", "approve", "confirmed", "1")},
		"one that is not confirmed":    {reader, form.to, form.with("action", "approve")},
		"resuming without its scope":   {reader, "/ui/runs/" + run + "/resume", form.with()},
		"cancelling without its scope": {reader, "/ui/runs/" + run + "/cancel", form.with("mode", "hard")},
		"a form without its token":     {root, good.to, good.with("action", "approve", "confirmed", "1", "form", "")},
		"a form of another session":    {root, good.to, good.with("action", "approve", "confirmed", "1", "form", form.fields.Get("form"))},
		"cancelling without a token":   {root, "/ui/runs/" + run + "/cancel", good.with("mode", "hard", "form", "")},
	} {
		if p := forged.by.post(forged.to, forged.fields); p.status != http.StatusForbidden {
			t.Errorf("%s is answered %d: %s", name, p.status, p.text())
		}
	}
	if p := root.post(good.to, good.with("action", "approve", "confirmed", "1", "subject_digest", "sha256:0")); p.status != http.StatusConflict && p.status != http.StatusUnprocessableEntity || !p.says("This is not what you were shown") {
		t.Errorf("a decision about something else is answered %d: %s", p.status, p.text())
	}
	if got := w.show(run); len(got.OpenGates) != 1 || got.Status != "awaiting_decision" {
		t.Errorf("the run is %+v", got)
	}
}

// Runs are resumed, forked and cancelled on the page, each form once.
func TestRunsAreDrivenOnThePage(t *testing.T) {
	t.Parallel()
	w := newWorkspace(t, conditions)
	w.endLaunched()
	a := asker{w, w.overStdio(t, "2026-07-28")}
	b := w.serves().browse(t)
	first, second := a.parked("question.yaml").String(), a.parked("question.yaml").String()
	w.Must(0, "decide", first, "root/ok", "approve")
	resume := b.get("/ui/runs/"+first+"/resume").form(t, "/resume")
	if p := b.post(resume.to, resume.with()); p.status != http.StatusSeeOther || p.to != "/ui/runs/"+first {
		t.Fatalf("resuming %s is answered %d, %s: %s", first, p.status, p.to, p.text())
	}
	w.Until("its end", func() bool { return w.show(first).Status == "completed" })
	if p := b.post(resume.to, resume.with()); p.status != http.StatusSeeOther {
		t.Errorf("the same form again is answered %d: %s", p.status, p.text())
	}
	if p := b.post(resume.to, resume.with("key", "another")); p.status != http.StatusConflict {
		t.Errorf("another form is answered %d: %s", p.status, p.text())
	}
	path, page := b.opened(w, second)
	fork := b.get("/ui/runs/"+second+"/fork").form(t, "/fork")
	if p := b.post(fork.to, fork.with("at", "nowhere")); p.status != http.StatusBadRequest {
		t.Errorf("a fork from nowhere is answered %d: %s", p.status, p.text())
	}
	forked := b.post(fork.to, fork.with("at", "4"))
	next := strings.TrimPrefix(forked.to, "/ui/runs/")
	var got tipstaff.Run
	w.Check(json.Unmarshal([]byte(w.Must(0, "show", next, "--json").Out), &got))
	if forked.status != http.StatusSeeOther || got.Lineage == nil || got.Lineage.Parent.String() != second {
		t.Errorf("the fork is answered %d, and is %+v: %s", forked.status, got, forked.text())
	}
	if p := b.post(fork.to, fork.with("at", "4")); p.to != forked.to {
		t.Errorf("the same form again makes %s beside %s", p.to, forked.to)
	}
	open, cancel := page.form(t, "/decision"), b.get("/ui/runs/"+second+"/cancel").form(t, "/cancel")
	if cancel.fields.Get("mode") != "graceful" {
		t.Errorf("cancelling is prepared as %v", cancel.fields)
	}
	for range 2 {
		if p := b.post(cancel.to, cancel.with("reason", "wrong branch")); p.status != http.StatusSeeOther {
			t.Errorf("cancelling is answered %d: %s", p.status, p.text())
		}
	}
	if now := w.show(second); now.Status != "cancelled" || !strings.Contains(w.Must(0, "events", second, "--json").Out, "wrong branch") {
		t.Errorf("the run is %+v", now)
	}
	late := b.post(open.to, open.with("action", "approve", "note", "too late", "confirmed", "1"))
	if late.status != http.StatusConflict || !late.says("The gate was closed before") || !late.says("too late") {
		t.Errorf("a decision after the end is answered %d: %s", late.status, late.text())
	}
	if closed := b.get(path); !closed.says("Closed run ended") {
		t.Errorf("the gate is shown as %s", closed.text())
	}
}
