package page_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/test/webtest"
)

// filtersOf are the filters of a list by their names: how many there are, and where they lead.
func filtersOf(p page, label string) map[string][2]string {
	all := map[string][2]string{}
	for _, ul := range p.all("ul") {
		for _, a := range elements(ul, func(n *html.Node) bool { return n.Data == "a" && attr(ul, "aria-label") == label }) {
			i := strings.LastIndexByte(textOf(a), ' ')
			all[textOf(a)[:i]] = [2]string{textOf(a)[i+1:], attr(a, "href")}
		}
	}
	return all
}

// cards are the gates of an inbox, as they read.
func cards(p page) (all []string) {
	for _, n := range elements(p.parse(), func(n *html.Node) bool { return n.Data == "li" && strings.HasPrefix(attr(n, "class"), "card") }) {
		all = append(all, textOf(n))
	}
	return all
}

func TestInbox(t *testing.T) {
	b := newBed(t, func(b *webtest.Bed) {
		b.Write("tipstaff.yaml", webtest.Manifest+"policy: {rules: [{id: runs, tool: builtin/exec, do: ask}, {id: all, tool: \"*/*\", do: allow}]}\n")
	})
	w := b.browser("alice")
	named := func(name, text string) string {
		return strings.Replace(text, "{kind: plan,", "{kind: plan, name: "+name+",", 1)
	}
	first := b.start("alice", named("tidy", webtest.Gated("a.txt")))
	late := b.start("alice", named("build", strings.Replace(webtest.Gated("b.txt"), `"Go on?"`, `"Soon?", expires: 30m`, 1)))
	b.start("alice", `{kind: plan, version: 1, name: build, root: {id: run, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "true"]}}}`)
	b.start("bob", named("secret", webtest.Gated("c.txt")))
	at := func(run tipstaff.Run) string {
		return "/ui/?gate=" + run.OpenGates[0].ID.String() + "&run=" + run.ID.String()
	}

	t.Run("what expires soon comes first, then the oldest", func(t *testing.T) {
		got := cards(w.open("/ui/"))
		if len(got) != 3 || !strings.Contains(got[0], "Soon?") || !strings.Contains(got[1], "Go on?") {
			t.Fatalf("%q", got)
		}
		for _, say := range []string{"question", "tidy", "root/ok", "asked", "the run has cost $0.00"} {
			if !strings.Contains(got[1], say) {
				t.Errorf("a card does not say %q: %s", say, got[1])
			}
		}
		if !strings.Contains(got[2], "approval") || !strings.Contains(got[2], "builtin/exec once") {
			t.Errorf("of a call: %s", got[2])
		}
		if !strings.Contains(got[0], "expires") || strings.Contains(strings.Join(got, ""), "secret") {
			t.Errorf("%q", got)
		}
	})
	t.Run("it is narrowed by links with true counts", func(t *testing.T) {
		p := w.open("/ui/")
		programs := filtersOf(p, "Programs")
		if programs["build"][0] != "2" || programs["All"][0] != "3" || programs["tidy"] != [2]string{"1", "/ui/?program=tidy"} || len(cards(p)) != 3 {
			t.Errorf("%v, %d cards", programs, len(cards(p)))
		}
		if got := cards(w.open("/ui/?program=tidy&kind=question")); len(got) != 1 || !strings.Contains(got[0], "tidy") {
			t.Errorf("%q", got)
		}
		kinds := filtersOf(w.open("/ui/?program=tidy&kind=question"), "Kinds")
		if kinds["question"][0] != "1" || kinds["All"] != [2]string{"1", "/ui/?program=tidy"} {
			t.Errorf("%v", kinds)
		}
		if got := w.open("/ui/?kind=delivery"); len(cards(got)) != 0 || !strings.Contains(got.text(), "See everything that waits") {
			t.Errorf("%s", got.text())
		}
	})
	t.Run("a gate stands beside the list, and its decision comes back there", func(t *testing.T) {
		p := w.open(at(late))
		chosen := elements(p.parse(), func(n *html.Node) bool {
			return n.Data == "a" && attr(n, "aria-current") == "true" && strings.Contains(attr(n, "href"), late.ID.String())
		})
		if len(chosen) != 1 || len(p.all("h1")) != 1 || p.id("question") == nil {
			t.Fatalf("%d are chosen", len(chosen))
		}
		to := "/ui/runs/" + late.ID.String() + "/gates/" + late.OpenGates[0].ID.String() + "/decision"
		form := p.formOf(to, "action", "approve", "confirmed", "1")
		got := w.post(to, form)
		if got.status != http.StatusSeeOther || got.header.Get("Location") != at(late) {
			t.Fatalf("%d %s", got.status, got.header.Get("Location"))
		}
		if after := w.open(at(late)); !strings.Contains(after.text(), "Decided: approve") || strings.Contains(strings.Join(cards(after), ""), "Soon?") {
			t.Errorf("%s", after.text())
		}
	})
	t.Run("what was not taken keeps its way back", func(t *testing.T) {
		to := "/ui/runs/" + first.ID.String() + "/gates/" + first.OpenGates[0].ID.String() + "/decision"
		form := w.open(at(first)).formOf(to, "action", "fly", "confirmed", "1")
		if again := w.post(to, form).formOf(to); again.Get("back") != at(first) {
			t.Errorf("it leads to %q", again.Get("back"))
		}
	})
	t.Run("what has left says who decided what", func(t *testing.T) {
		card := "/ui/runs/" + first.ID.String() + "/gates/" + first.OpenGates[0].ID.String() + "?part=card"
		if got := w.open(card); strings.TrimSpace(got.body) != "" {
			t.Errorf("before it is decided: %s", got.body)
		}
		b.decide(first, "approve")
		if got := w.open(card); !strings.Contains(got.text(), "Decided: approve by local:cli") || !strings.Contains(got.body, `data-gone=""`) {
			t.Errorf("%s", got.body)
		}
	})
	if got := b.browser("bob").get(at(first)); got.status != http.StatusForbidden {
		t.Errorf("bob is shown the gate of alice: %d", got.status)
	}
	if got := w.get("/ui/?run=nothing&gate=x"); got.status != http.StatusBadRequest {
		t.Errorf("no run: %d", got.status)
	}
}

func TestRunsAreCountedAndCompared(t *testing.T) {
	b := newBed(t)
	w := b.browser("alice")
	if got := w.open("/ui/runs"); !strings.Contains(got.text(), "0 in all") || strings.Contains(got.text(), "Compare two") {
		t.Errorf("of no runs: %s", got.text())
	}
	asks := b.start("alice", webtest.Gated("a.txt"))
	done := b.start("alice", `{kind: plan, version: 1, name: tidy, root: {kind: sequential, children: [
  {id: one, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: note.txt}}, {id: two, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: note.txt}}]}}`)
	b.start("bob", webtest.Gated("c.txt"))
	p := w.open("/ui/runs")
	for name, want := range map[string][2]string{"All": {"2", "/ui/runs"}, "Completed": {"1", "/ui/runs?status=completed"}, "Failed": {"0", "/ui/runs?status=failed"}, "Running": {"0", "/ui/runs?status=running"}} {
		if got := filtersOf(p, "Status")[name]; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if got := filtersOf(p, "Status")["Waiting for a decision"][0]; got != "1" {
		t.Errorf("%s wait", got)
	}
	narrowed := w.open("/ui/runs?program=tidy&status=failed")
	if got := filtersOf(narrowed, "Status"); got["Completed"][0] != "1" || got["Waiting for a decision"][0] != "0" || !strings.Contains(narrowed.text(), "program: tidy") || !strings.Contains(narrowed.text(), "0 in all") {
		t.Errorf("%v %s", got, narrowed.text())
	}
	for run, want := range map[tipstaff.ID]string{asks.ID: "0/2", done.ID: "2/2"} {
		for _, row := range elements(p.parse(), func(n *html.Node) bool { return attr(n, "data-key") == run.String() }) {
			if got := textOf(row); !strings.Contains(got, " "+want+" ") || !strings.HasSuffix(got, "alice") {
				t.Errorf("%s: %s", want, got)
			}
		}
	}

	chosen := func(runs ...tipstaff.ID) page {
		q := url.Values{}
		for _, run := range runs {
			q.Add("run", run.String())
		}
		return w.get("/ui/compare?" + q.Encode())
	}
	if got := chosen(asks.ID, done.ID); got.status != http.StatusSeeOther || got.header.Get("Location") != "/ui/compare?a="+asks.ID.String()+"&b="+done.ID.String() {
		t.Errorf("%d %s", got.status, got.header.Get("Location"))
	}
	if got := chosen(asks.ID).text(); !strings.Contains(got, "You have chosen 1 run: choose two") {
		t.Error(got)
	}
	if got := chosen(asks.ID, done.ID, asks.ID).text(); !strings.Contains(got, "You have chosen 3 runs: choose two") {
		t.Error(got)
	}
}
