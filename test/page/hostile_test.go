package page_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/html"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/test/webtest"
)

// hostileTexts are those that no page may take for more than text.
func hostileTexts(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("../../web/page/testdata/hostile.json")
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil || len(all) < 20 {
		t.Fatalf("%d texts: %v", len(all), err)
	}
	return all
}

// hostileBed is a bed whose model says what it was told, and reads and writes files of that name.
func hostileBed(t *testing.T) *bed {
	b := newBed(t, func(b *webtest.Bed) {
		b.Write("tipstaff.yaml", webtest.Manifest+`
agents:
  default: {model: toy, tools: [mcp://builtin/read_file@1.0.0]}
policy:
  rules:
    - {id: reads, tool: "builtin/read_file", do: allow}
`)
	})
	b.Answers = func(r agent.Request) agent.Response {
		told := r.Messages[0].Text
		if len(r.Messages) == 1 {
			args, _ := json.Marshal(map[string]string{"path": told})
			return agent.Response{Text: told, Reason: agent.ReasonToolCalls, Calls: []agent.Call{{ID: "c1", Name: r.Tools[0].Name, Arguments: string(args)}}}
		}
		return agent.Response{Text: "> " + told + "\n\n- " + told + "\n\n`" + told + "`", Reason: agent.ReasonStop}
	}
	return b
}

// world is everything that a page shows, with one text wherever somebody else may write one: titles,
// labels, questions, arguments, notes, errors, results, messages and answers.
func (b *bed) world(w *browser, text string) (shown []page) {
	b.Helper()
	see := func(path string) {
		b.Helper()
		shown = append(shown, w.open(path))
	}
	program := flow.JSON(map[string]any{"kind": "plan", "version": 1, "name": "plan", "root": map[string]any{"id": "all", "kind": "sequential", "children": []any{
		map[string]any{"id": "ok", "kind": "gate", "question": "x " + text},
		map[string]any{"id": "write", "kind": "tool_call", "tool": "mcp://builtin/write_file@1.0.0", "args": map[string]any{"path": "a.txt", "content": text}},
		map[string]any{"id": "look", "kind": "tool_call", "tool": "mcp://builtin/read_file@1.0.0", "args": map[string]any{"path": "none/" + text}},
	}}})
	name := strings.Map(func(r rune) rune { return max(r, ' ') }, text[:min(len(text), 100)]) // a title is one line
	got, err := b.Control().Submit(b.as("alice"), tipstaff.Submission{Program: program, Title: name, Labels: map[string]string{"team": name}})
	if err != nil {
		b.Fatal(err)
	}
	id := got.Run.String()
	run := "/ui/runs/" + id
	gate := b.Rest(id).OpenGates[0]
	ask, asked := run+"/gates/"+gate.ID.String(), url.QueryEscape(name)
	for _, path := range []string{"/ui/", "/ui/runs", "/ui/runs?q=" + asked, "/ui/runs?label=" + url.QueryEscape("team="+name), run, ask} {
		see(path)
	}
	form := url.Values{"action": {"approve"}, "note": {text}, "subject_digest": {gate.Digest}, "key": {"k" + id}, "resume": {"1"}}
	shown = append(shown, w.send(ask+"/decision", form)) // which asks to confirm it
	form.Set("confirmed", "1")
	if p := w.send(ask+"/decision", form); p.status != http.StatusSeeOther {
		b.Fatalf("the decision is answered %d: %s", p.status, p.text())
	}
	ended := b.Rest(id)
	turn := b.said("alice", "", "x "+text)
	spoken := "/ui/runs/" + turn.ID.String()
	for _, path := range []string{run, run + "/node?path=root/look", run + "/node?path=root/write", run + "/timeline", run + "/journal?q=" + asked + "&path=" + asked, run + "/journal", run + "/cost", run + "/files", run + "/family", run + "/proof",
		ask, spoken, spoken + "/talk", spoken + "/journal", "/ui/sessions", "/ui/sessions/" + turn.Turn.Session, "/ui/compare?a=" + id + "&b=" + turn.ID.String()} {
		see(path)
	}
	for seq := range ended.HeadSeq {
		see(fmt.Sprintf("%s/journal/%d", run, seq+1))
	}
	return append(shown, w.get("/ui/runs/"+url.PathEscape(name)))
}

// made are the kinds of elements that pages are made of: names, attributes and classes. A bar
// stands for several attempts where they were quick, whatever their texts: that is left out.
func made(pages []page) map[string]bool {
	all := map[string]bool{}
	for _, p := range pages {
		for d := range p.parse().Descendants() {
			switch d.Type {
			case html.CommentNode:
				all["a comment"] = true
			case html.ElementNode:
				one := "<" + d.Data
				for _, a := range d.Attr {
					if one += " " + a.Key; a.Key == "class" || a.Key == "rel" || a.Key == "type" {
						one += "=" + strings.TrimSuffix(a.Val, " dense")
					}
				}
				all[one] = true
			}
		}
	}
	return all
}

// wantInert says what of a page could act, lead elsewhere or deceive.
func wantInert(t *testing.T, text string, p page) {
	t.Helper()
	seen := func(s string) {
		for _, r := range s {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) && r != '\u00ad') {
				t.Errorf("%.60q is shown with %U as it is: %.80q", text, r, s)
				return
			}
		}
	}
	for d := range p.parse().Descendants() {
		if d.Type == html.TextNode {
			seen(d.Data)
		}
		for _, a := range d.Attr {
			if d.Data != "input" { // which gives back what was typed
				seen(a.Val)
			}
			written := d.Data == "a" && attr(d, "rel") == "noopener noreferrer nofollow" && strings.HasPrefix(a.Val, "http://elsewhere.example")
			if address := a.Key == "href" || a.Key == "src" || a.Key == "action"; address && !strings.HasPrefix(a.Val, "/ui/") && !strings.HasPrefix(a.Val, "#") && !strings.HasPrefix(a.Val, "?") && !written {
				t.Errorf("%.60q makes <%s %s=%q>", text, d.Data, a.Key, a.Val)
			}
		}
	}
	if p.status == http.StatusInternalServerError {
		t.Errorf("%.60q makes a page fail", text)
	}
}

// Whatever others write, wherever they can, pages are made of what they are made of without it.
func TestHostileTextsInTheServer(t *testing.T) {
	b := hostileBed(t)
	w := b.browser("alice")
	var calm []page
	for _, text := range []string{"plain", "a first line\nand a second, " + strings.Repeat("long ", 60), "a [link](http://elsewhere.example) http://elsewhere.example ![an image](http://elsewhere.example/a.png) *b* `c`"} {
		calm = append(calm, b.world(w, text)...)
	}
	may := made(calm)
	for i, text := range hostileTexts(t) {
		if testing.Short() && i%4 != 1 {
			continue
		}
		pages := b.world(w, text)
		for one := range made(pages) {
			if !may[one] {
				t.Errorf("%.80q makes %s>", text, one)
			}
		}
		for _, p := range pages {
			wantInert(t, text, p)
		}
	}
}

// guardsOfThePage are escapes and guards, each with what takes it away, and the tests that must
// notice. Tests that do not are worth nothing.
var guardsOfThePage = []struct{ name, file, guard, without, folder, tests string }{
	{"foreign lines are escaped", "format.go", ` passage,`, ` func(s string) template.HTML { return template.HTML(s) },`, "../../web/page", "TestPassagesAreText"},
	{"of foreign lines, what does not print is marked", "format.go", "cells[j] = tipstaff.PrintableProse(cell)", "cells[j] = cell", "../../web/page", "TestPassagesAreText"},
	{"what does not print is marked", "format.go", "return cut(tipstaff.Printable(cut(s, most)), most)", "return cut(s, most)", "../../web/page", "TestHostileTextsAddNothing"},
	{"raw HTML in Markdown is text", "markdown.go", "util.EscapeHTML(n.(*ast.RawHTML).Segments.Value(source))", "n.(*ast.RawHTML).Segments.Value(source)", "../../web/page", "TestMarkdown.*"},
	{"stored content is downloaded", "files.go", `v.hand("application/octet-stream", "attachment", name, data)`, `v.hand("text/html", "inline", name, data)`, "../../web/page", "TestStoredContentIsInert"},
	{"images are known by their first bytes", "files.go", `[]string{"image/png",`, `[]string{"text/html; charset=utf-8", "image/png",`, "../../web/page", "TestStoredContentIsInert"},
	{"every answer has the policy", "guard.go", `h.Set("Content-Security-Policy", policy)`, ``, "../../web/page", "TestStoredContentIsInert"},
	{"forms carry a token", "guard.go", `!= 1 {`, `== 2 {`, ".", "TestFormsFromElsewhere"},
}

// A build of the page without one of its guards fails the tests of hostile texts and stored content.
func TestWithoutAGuardTheTestsFail(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the page several times")
	}
	for _, g := range guardsOfThePage {
		t.Run(g.name, func(t *testing.T) {
			source, err := filepath.Abs(filepath.Join("../../web/page", g.file))
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(source)
			if err != nil || strings.Count(string(text), g.guard) != 1 {
				t.Fatalf("%s has %q %d times: %v", g.file, g.guard, strings.Count(string(text), g.guard), err)
			}
			dir := t.TempDir()
			mutant, overlay := filepath.Join(dir, g.file), filepath.Join(dir, "overlay.json")
			list, err := json.Marshal(map[string]map[string]string{"Replace": {source: mutant}})
			if err != nil {
				t.Fatal(err)
			}
			for name, content := range map[string][]byte{mutant: []byte(strings.Replace(string(text), g.guard, g.without, 1)), overlay: list} {
				if err := os.WriteFile(name, content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			test := exec.Command("go", "test", "-short", "-vet=off", "-overlay", overlay, "-run", "^"+g.tests+"$", g.folder)
			test.Env = append(os.Environ(), "CGO_ENABLED=0")
			said, err := test.CombinedOutput()
			if err == nil || !strings.Contains(string(said), "--- FAIL") {
				t.Errorf("the tests do not fail without it: %v\n%s", err, said)
			}
		})
	}
}
