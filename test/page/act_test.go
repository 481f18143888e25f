package page_test

import (
	"bytes"
	"context"
	"encoding/json"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/test/webtest"
)

// formAt is the form of a page that is sent to an address.
func (p page) formAt(to string) *html.Node {
	p.t.Helper()
	for _, form := range p.all("form") {
		if attr(form, "action") == to {
			return form
		}
	}
	p.t.Fatalf("no form sends to %s: %s", to, p.text())
	return nil
}

// formOf is a form of a page as a browser would send it, with fields set.
func (p page) formOf(to string, pairs ...string) url.Values {
	p.t.Helper()
	all := url.Values{}
	for _, n := range elements(p.formAt(to), func(n *html.Node) bool { return attr(n, "name") != "" && n.Data != "button" }) {
		kind, on := attr(n, "type"), slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "checked" })
		switch {
		case n.Data == "textarea" && n.FirstChild != nil:
			all.Set(attr(n, "name"), n.FirstChild.Data)
		case kind == "file" || n.Data != "input" || (kind == "radio" || kind == "checkbox") && !on:
		default:
			all.Set(attr(n, "name"), attr(n, "value"))
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		all.Set(pairs[i], pairs[i+1])
	}
	return all
}

func (p page) says(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.text(), text) {
			p.t.Errorf("the page, answered %d, does not say %q: %s", p.status, text, p.text())
		}
	}
}

func (p page) answers(status int) page {
	p.t.Helper()
	if p.status != status {
		p.t.Fatalf("it is answered %d, not %d: %s", p.status, status, p.text())
	}
	return p
}

const actAsking = `kind: plan
version: 1
name: asking
bounds: {tool_calls: 3}
inputs:
  word: {type: string}
  many: {type: integer, description: how many}
  sure: {type: boolean}
  size: {enum: [small, "very large"]}
  more: {type: object}
  rest: {type: string, default: none}
root:
  kind: sequential
  children:
    - {id: look, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: note.txt}}
    - {id: ok, kind: gate, question: "Go on?"}
`

// A document is checked before it is run, and its inputs are asked for by their types. All of
// it works by forms alone.
func TestAProgramIsCheckedAskedForAndStarted(t *testing.T) {
	b := newBed(t)
	w := b.browser("alice")
	fresh := w.open("/ui/new")
	fresh.says("Known pipelines", "Pipelines that were run stand here")

	wrong := w.post("/ui/new", fresh.formOf("/ui/new", "program", strings.Replace(actAsking, "kind: gate", "kind: gat", 1)))
	wrong.answers(http.StatusUnprocessableEntity).says("It cannot be run", "line 16, column 22", "gat")
	if kept := wrong.formOf("/ui/new").Get("program"); !strings.Contains(kept, "kind: gat,") {
		t.Errorf("of what was typed %q is kept", kept)
	}
	w.post("/ui/new", fresh.formOf("/ui/new", "program", " ")).answers(http.StatusBadRequest).says("a program is needed")

	checked := w.post("/ui/new", fresh.formOf("/ui/new", "program", actAsking)).answers(http.StatusOK)
	checked.says("plan asking can be run", "mcp://builtin/read_file@1.0.0 read", "tool calls 3", "how many", "left out: \"none\"", "Go on?")
	given := []string{"input.word.empty", "1", "input.many", "0", "input.sure", "false", "input.size", "very large", "input.more", `{"a": [1]}`, "title", "a <b>"}
	for field, c := range map[string]struct{ text, says string }{
		"input.many": {"lots", "is not a number"}, "input.more": {"{", "is not JSON"}, "input.sure": {"maybe", "neither yes nor no"}, "input.size": {"tiny", "none of the answers"},
	} {
		again := w.post("/ui/new", checked.formOf("/ui/new", append(given, "start", "1", field, c.text)...)).answers(http.StatusBadRequest)
		again.says(c.says)
		if kept := again.formOf("/ui/new"); kept.Get("input.word.empty") != "1" || kept.Get("title") != "a <b>" || kept.Get("input.many") == "" {
			t.Errorf("with a wrong %s, %v is kept", field, kept)
		}
	}
	w.post("/ui/new", checked.formOf("/ui/new", "start", "1")).answers(http.StatusUnprocessableEntity).says("the plan needs the input")
	if other := w.post("/ui/new", checked.formOf("/ui/new", append(given, "start", "1", "program", actAsking+"\n")...)); other.status != http.StatusOK {
		t.Errorf("a program that was not checked is answered %d", other.status)
	}
	form := checked.formOf("/ui/new", append(given, "start", "1")...)
	started := w.post("/ui/new", form).answers(http.StatusSeeOther)
	to := started.header.Get("Location")
	if again := w.post("/ui/new", form); again.header.Get("Location") != to {
		t.Errorf("the same form again leads to %q", again.header.Get("Location"))
	}
	run := b.Rest(strings.TrimPrefix(to, "/ui/runs/"))
	want := `{"many":0,"more":{"a":[1]},"rest":"none","size":"very large","sure":false,"word":""}`
	if got, _ := json.Marshal(run.Inputs); string(got) != want || run.Title != "a <b>" || run.Program.Name != "asking" {
		t.Errorf("the run has %s and the title %q", got, run.Title)
	}

	again := w.open("/ui/new?run=" + run.ID.String())
	again.says("plan asking can be run")
	second := w.post("/ui/new", again.formOf("/ui/new", "start", "1")).answers(http.StatusSeeOther)
	repeat := b.Rest(strings.TrimPrefix(second.header.Get("Location"), "/ui/runs/"))
	if got, _ := json.Marshal(repeat.Inputs); string(got) != want || repeat.Program.Digest != run.Program.Digest || repeat.ID == run.ID {
		t.Errorf("run again it has %s and is %+v", got, repeat.Program)
	}
	if p := b.browser("bob").get("/ui/new?run=" + run.ID.String()); p.status != http.StatusForbidden {
		t.Errorf("somebody else's program is answered %d", p.status)
	}
}

const actLoop = `name: looping
agents:
  - {name: work, scripted: {answers: [{output: {text: done}}]}}
`

// A program may come as a file, and one that was run before is known.
func TestAProgramComesFromAFileOrFromBefore(t *testing.T) {
	b := newBed(t)
	w := b.browser("alice")
	var body bytes.Buffer
	m := multipart.NewWriter(&body)
	for name, value := range map[string]string{"form": w.form(), "program": "not this"} {
		if err := m.WriteField(name, value); err != nil {
			t.Fatal(err)
		}
	}
	f, err := m.CreateFormFile("file", "../my loop.yaml")
	if err == nil {
		_, err = f.Write([]byte(actLoop))
	}
	if err == nil {
		err = m.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	checked := w.do("POST", "/ui/new", &body, header("Content-Type", m.FormDataContentType()), header("Origin", "http://"+w.Addr)).answers(http.StatusOK)
	checked.says("pipeline looping can be run", "tipstaff run my_loop.yaml")
	shown := w.post("/ui/new", checked.formOf("/ui/new", "input.raw_input", "first\nsecond", "input.goals", "tests\ndocs", "input.metadata", `{"n": 3, "s": "3"}`))
	shown.says(`--text 'first second' --goal tests --goal docs --input n=3 --input 's="3"'`)
	started := w.post("/ui/new", shown.formOf("/ui/new", "start", "1")).answers(http.StatusSeeOther)
	run := b.Rest(strings.TrimPrefix(started.header.Get("Location"), "/ui/runs/"))
	if run.State != tipstaff.Completed || string(run.Inputs["raw_input"]) != `"first\nsecond"` || string(run.Inputs["goals"]) != `["tests","docs"]` {
		t.Errorf("the run is %s with %s", run.State, run.Inputs)
	}
	w.open("/ui/new").says("looping run last")
	again := w.open("/ui/new?run=" + run.ID.String()).formOf("/ui/new")
	if again.Get("input.raw_input") != "first\nsecond" || again.Get("input.goals") != "tests\ndocs" {
		t.Errorf("run again it begins with %v", again)
	}
}

// Who may not do something is shown what it is and what is missing; a form that was made up is
// refused.
func TestActionsNeedTheirScope(t *testing.T) {
	b := newBed(t)
	run := b.start("reader", webtest.Gated("x.txt"))
	reader, driver := b.browser("reader"), b.browser("driver")
	at := "/ui/runs/" + run.ID.String()
	form := reader.open(gatePath(run))
	form.says("needs the scope decide")
	if on, off := offered(form.formAt(gatePath(run) + "/decision")); len(on) > 0 || len(off) == 0 {
		t.Errorf("who may only read is offered %v, and not %v", on, off)
	}
	for _, confirmed := range []string{"", "1"} {
		reader.send(gatePath(run)+"/decision", url.Values{"action": {"approve"}, "subject_digest": {run.OpenGates[0].Digest}, "confirmed": {confirmed}}).answers(http.StatusForbidden)
	}
	for _, path := range []string{at + "/resume", at + "/cancel", at + "/fork", at + "/correct", "/ui/new?run=" + run.ID.String()} {
		p := reader.open(path)
		scope := "run"
		if strings.HasPrefix(path, "/ui/new") {
			scope = "submit"
		}
		p.says("needs the scope " + scope)
		for _, n := range p.all("button") {
			off := slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == "disabled" })
			if attr(n, "type") != "button" && !off && n.Parent != nil && attr(n.Parent, "class") == "actions" {
				t.Errorf("%s offers %s", path, textOf(n))
			}
		}
		path, _, _ = strings.Cut(path, "?")
		for _, form := range []url.Values{{"mode": {"hard"}, "start": {"1"}, "program": {actLoop}}, {"command": {"1"}}} {
			if p := reader.send(path, form); p.status != http.StatusForbidden {
				t.Errorf("%s is answered %d: %s", path, p.status, p.text())
			}
		}
		if p := driver.send(path, url.Values{"mode": {"hard"}}); path != "/ui/new" && p.status != http.StatusForbidden {
			t.Errorf("%s of somebody else is answered %d: %s", path, p.status, p.text())
		}
	}
	local := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "cli"})
	if now, err := b.Runner.Get(local, run.ID); err != nil || now.HeadSeq != run.HeadSeq {
		t.Errorf("something was written: record %d after %d, %v", now.HeadSeq, run.HeadSeq, err)
	}
}

// A form that cannot be carried out comes back as it was sent, and says which field is wrong.
func TestActionsKeepWhatWasTyped(t *testing.T) {
	b := newBed(t)
	w := b.browser("alice")
	run := b.start("alice", webtest.Gated("x.txt"))
	at := "/ui/runs/" + run.ID.String()
	for _, c := range []struct {
		action string
		typed  []string
		status int
		says   string
	}{
		{"fork", []string{"at", "nowhere"}, http.StatusBadRequest, "is not a record, checkpoint or stage"},
		{"fork", []string{"at", "9999"}, http.StatusConflict, "it cannot be forked at 9999"},
		{"fork", []string{"raise.max_tool_calls", "many"}, http.StatusBadRequest, "a whole number"},
		{"correct", []string{"reason", "x", "program", "kind: plan\nversion: 1\nroot: {kind: nothing}\n"}, http.StatusUnprocessableEntity, "line 3, column"},
		{"correct", []string{"program", webtest.Gated("y.txt")}, http.StatusBadRequest, "a correction needs a reason"},
		{"cancel", []string{"mode", "softly"}, http.StatusBadRequest, "gracefully or hard"},
	} {
		form := w.open(at + "/" + c.action)
		p := w.post(at+"/"+c.action, form.formOf(at+"/"+c.action, append(c.typed, "command", "")...))
		if p.says(c.says); p.status < 400 || p.status > 499 {
			t.Errorf("%s with %q is answered %d", c.action, c.typed, p.status)
		}
		if c.action == "cancel" {
			continue // radio buttons hold no other value
		}
		kept := p.formOf(at + "/" + c.action)
		for i := 0; i < len(c.typed); i += 2 {
			if strings.TrimSpace(kept.Get(c.typed[i])) != strings.TrimSpace(c.typed[i+1]) {
				t.Errorf("%s keeps %q of %q", c.action, kept.Get(c.typed[i]), c.typed[i+1])
			}
		}
	}
	form := w.open(at + "/correct").formOf(at + "/correct")
	seen := w.post(at+"/correct", withValues(form, "reason", "better", "program", webtest.Gated("y.txt"))).answers(http.StatusOK)
	seen.says("write is changed", "x.txt", "y.txt", "revision 2")
	if p := w.post(at+"/correct", withValues(seen.formOf(at+"/correct"), "program", webtest.Gated("z.txt"))); p.status != http.StatusOK || !strings.Contains(p.text(), "z.txt") {
		t.Errorf("a program that was not shown is answered %d: %s", p.status, p.text())
	}
	if now := b.Rest(run.ID.String()); now.HeadSeq != run.HeadSeq {
		t.Errorf("something was written: record %d after %d", now.HeadSeq, run.HeadSeq)
	}
}

func withValues(form url.Values, pairs ...string) url.Values {
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return form
}

// Places of a run lead to the form that forks it there.
func TestForksBeginWhereOneLooks(t *testing.T) {
	b := newBed(t)
	w := b.browser("alice")
	run := b.start("alice", `{kind: plan, version: 1, root: {kind: sequential, children: [
  {id: look, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: note.txt}},
  {id: gone, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: gone.txt}}]}}`)
	at := "/ui/runs/" + run.ID.String()
	local := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "cli"})
	var began string
	for e, err := range b.Runner.Events(local, tipstaff.EventsRequest{Run: run.ID}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Path == "root/gone" && e.Kind == tipstaff.KindEffectIntended {
			began = strings.TrimSpace(string(mustJSON(t, e.Seq-1)))
		}
	}
	for path, place := range map[string]string{"/node?path=root%2Fgone": began, "?at=5": "5", "/timeline?at=5": "5", "/journal/5": "5"} {
		found := false
		for _, a := range w.open(at + path).all("a") {
			found = found || attr(a, "href") == at+"/fork?at="+place
		}
		if !found {
			t.Errorf("%s%s does not lead to a fork at %s", at, path, place)
		}
	}
	form := w.open(at + "/fork?at=" + began)
	if got := form.formOf(at + "/fork").Get("at"); got != began {
		t.Errorf("the form begins with %q", got)
	}
	done := w.post(at+"/fork", form.formOf(at+"/fork")).answers(http.StatusSeeOther)
	fork, err := tipstaff.ParseID(strings.TrimPrefix(done.header.Get("Location"), "/ui/runs/"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Runner.Get(local, fork)
	if err != nil || got.Lineage == nil || string(mustJSON(t, got.Lineage.Seq)) != began {
		t.Errorf("the fork is %+v, %v", got.Lineage, err)
	}
	dialog := w.get(at+"/fork?at=5&part=act", header("Sec-Fetch-Site", "same-origin")).answers(http.StatusOK)
	if strings.Contains(dialog.body, "<html") || !strings.Contains(dialog.body, `id="act-title"`) {
		t.Errorf("a dialog is given %s", dialog.body)
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// What became of a gate while its form was open is said, and nothing of what was typed is lost
// or written.
func TestLateDecisionsAreAnsweredPlainly(t *testing.T) {
	b := newBed(t)
	one, two := b.browser("alice"), b.browser("alice")
	gate := func(expires string) (tipstaff.Run, string) {
		run := b.start("alice", `{kind: plan, version: 1, root: {id: ok, kind: gate, question: "Go on?"`+expires+`}}`)
		return run, "/ui/runs/" + run.ID.String() + "/gates/" + run.OpenGates[0].ID.String()
	}
	run, at := gate("")
	form := func(w *browser, at, action string) url.Values {
		return w.open(at).formOf(at+"/decision", "action", action, "note", "why <"+action+">", "confirmed", "1", "resume", "")
	}
	yes, no := form(one, at, "approve"), form(two, at, "deny")
	one.post(at+"/decision", yes).answers(http.StatusSeeOther)
	two.post(at+"/decision", no).answers(http.StatusConflict).says("It was decided otherwise before", "decision_conflict", "why <deny>", "Decided: approve", "why <approve>")
	again := two.post(at+"/decision", form2(yes, two)).answers(http.StatusSeeOther)
	two.open(again.header.Get("Location")).says("It was decided so before")
	if n := b.resolved(run.ID); n != 1 {
		t.Errorf("%d decisions are written", n)
	}

	run, at = gate("")
	late := form(one, at, "approve")
	if _, err := b.Runner.Cancel(b.as("alice"), tipstaff.CancelRequest{Run: run.ID, Reason: "no more"}); err != nil {
		t.Fatal(err)
	}
	before := b.Rest(run.ID.String()).HeadSeq
	one.post(at+"/decision", late).answers(http.StatusConflict).says("The gate was closed before", "why <approve>", "Closed: run ended")

	run2, at2 := gate("")
	changed := withValues(form(one, at2, "approve"), "subject_digest", "sha256:0")
	p := one.post(at2+"/decision", changed)
	p.says("This is not what you were shown", "subject_changed")
	if kept := p.formOf(at2 + "/decision"); kept.Get("note") != "why <approve>" || kept.Get("subject_digest") == "sha256:0" {
		t.Errorf("the form is shown again with %v", kept)
	}
	if now := b.Rest(run.ID.String()); now.HeadSeq != before || b.resolved(run2.ID) != 0 {
		t.Errorf("something was written")
	}

	run3, at3 := gate(", expires: 1s")
	typed := form(one, at3, "approve")
	time.Sleep(time.Until(run3.OpenGates[0].ExpiresAt) + 20*time.Millisecond) // that time itself is what is tried
	one.post(at3+"/decision", typed).answers(http.StatusConflict).says("The gate has expired", "gate_expired", "why <approve>")
}

// form2 is a form as another session sends it.
func form2(form url.Values, w *browser) url.Values {
	return withValues(form, "form", w.form(), "key", "another")
}

// resolved counts the decisions of a run.
func (b *bed) resolved(run tipstaff.ID) (n int) {
	b.Helper()
	for e, err := range b.Runner.Events(tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "cli"}), tipstaff.EventsRequest{Run: run}) {
		if err != nil {
			b.Fatal(err)
		}
		if e.Kind == tipstaff.KindPolicyGateResolve {
			n++
		}
	}
	return n
}
