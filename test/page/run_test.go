package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/test/webtest"
)

// looping is a pipeline whose critic sends the draft back until its limit.
const looping = `
name: review
max_iterations: 5
edge_limits: [{from: critic, to: draft, max_count: 2}]
agents:
  - name: draft
    stage_order: 1
    model: {name: toy, prompt: "Write."}
    default_next: critic
  - name: critic
    stage_order: 2
    model: {name: toy, prompt: "Review. Answer with JSON."}
    routing_rules:
      - {condition: verdict, value: rejected, target: draft}
    default_next: end
`

// records are those of a run.
func (b *bed) records(user string, run tipstaff.ID) (all []tipstaff.Event) {
	b.Helper()
	for e, err := range b.Runner.Events(b.as(user), tipstaff.EventsRequest{Run: run}) {
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// shownRows are the rows of the tree of a page: path and state.
func shownRows(p page) (rows []string) {
	for _, li := range elements(p.parse(), func(n *html.Node) bool { return n.Data == "li" && attr(n, "data-key") != "" }) {
		mark := elements(li, func(n *html.Node) bool { return strings.HasPrefix(attr(n, "class"), "mark ") })
		rows = append(rows, attr(li, "data-key")+" "+textOf(mark[0]))
	}
	return rows
}

// rowsOf are those of a view of the first records.
func rowsOf(v *tipstaff.View, records []tipstaff.Event) (rows []string) {
	for i := range records {
		v.Apply(&records[i])
	}
	for _, r := range v.Rows(v.At) {
		if r.Path != "" { // that of the pipeline itself
			rows = append(rows, r.Path+" "+r.Shown.String())
		}
	}
	return rows
}

// A beginning of an id and @ lead to the run, in addresses and in the search; not to runs of
// others.
func TestRunsByTheBeginningOfTheirID(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	his, hers := b.pipe("bob", review), b.pipe("alice", review)
	w := b.browser("alice")
	id := hers.ID.String()
	for path, to := range map[string]string{
		"/ui/runs/@": "/ui/runs/" + id, "/ui/runs/@/node?path=x%26y": "/ui/runs/" + id + "/node?path=x%26y", "/ui/runs/" + id[:25]: "/ui/runs/" + id, "/ui/runs/" + strings.ToLower(id[:25]) + "/cost": "/ui/runs/" + id + "/cost",
		"/ui/runs?q=" + id: "/ui/runs/" + id, "/ui/runs?q=@": "/ui/runs/" + id,
	} {
		if p := w.get(path); p.status != http.StatusSeeOther || p.header.Get("Location") != to {
			t.Errorf("%s is answered %d, %s", path, p.status, p.header.Get("Location"))
		}
	}
	for _, name := range []string{"@", id[:25], id} {
		if p := w.get("/ui/new?run=" + name); p.status != http.StatusOK || !strings.Contains(p.text(), "can be run") {
			t.Errorf("to run %s again is answered %d: %s", name, p.status, p.text())
		}
	}
	for path, status := range map[string]int{"/ui/new?run=x": http.StatusNotFound, "/ui/new?run=" + his.ID.String(): http.StatusForbidden, "/ui/runs/" + his.ID.String()[:25]: http.StatusNotFound, "/ui/runs/0Z": http.StatusNotFound, "/ui/runs/x": http.StatusNotFound, "/ui/runs?q=" + his.ID.String(): http.StatusOK, "/ui/runs?q=review": http.StatusOK} {
		if p := w.get(path); p.status != status {
			t.Errorf("%s is answered %d: %s", path, p.status, p.text())
		}
	}
}

func TestGraphOfALoopIsThatOfItsRecords(t *testing.T) {
	b := newBed(t, func(b *webtest.Bed) {
		b.Says = func(_ context.Context, r agent.Request) (string, error) { return `{"verdict": "rejected"}`, nil }
	})
	run := b.start("alice", looping)
	records := b.records("alice", run.ID)
	w := b.browser("alice")
	var shape tipstaff.Graph
	text, err := b.Runner.Graph(b.as("alice"), run.ID, tipstaff.GraphJSON)
	if err == nil {
		err = json.Unmarshal(text, &shape)
	}
	if err != nil {
		t.Fatal(err)
	}
	stages := &tipstaff.Outline{Kind: tipstaff.ProgramPipeline, ID: shape.Name}
	for _, s := range shape.Stages {
		stages.Children = append(stages.Children, &tipstaff.Outline{Path: s.Name, ID: s.Name, Kind: s.Kind, Label: s.Label})
	}
	refused, places := false, map[string]bool{}
	for n, e := range records {
		at := n + 1
		if e.Kind != tipstaff.KindTransition && at != len(records) {
			continue
		}
		f, err := tipstaff.GraphOf(b.as("alice"), b.Runner, run.ID, int64(at))
		if err != nil {
			t.Fatal(err)
		}
		g, p := f.Graph(), w.open(fmt.Sprintf("/ui/runs/%s?at=%d", run.ID, at))
		svg := elements(p.parse(), func(n *html.Node) bool { return attr(n, "class") == "graph" })
		if len(svg) != 1 {
			t.Fatalf("as of record %d there are %d graphs", at, len(svg))
		}
		var want, place []string
		for _, edge := range g.Edges {
			if edge.Back {
				want = append(want, fmt.Sprintf("%d/%d", edge.Count, edge.Limit))
				refused = refused || edge.Refused != ""
			}
		}
		var got []string
		for _, n := range elements(svg[0], func(n *html.Node) bool { return strings.HasPrefix(attr(n, "class"), "pill") }) {
			got = append(got, textOf(n))
		}
		if !slices.Equal(got, want) {
			t.Errorf("as of record %d the ways back say %q, want %q", at, got, want)
		}
		for _, n := range elements(svg[0], func(n *html.Node) bool { return attr(n, "class") == "box" || attr(n, "class") == "line" }) {
			place = append(place, attr(n, "x"), attr(n, "y"), attr(n, "d"))
		}
		places[strings.Join(place, " ")] = true
		if got, want := shownRows(p), rowsOf(tipstaff.NewView(shape.Name, stages), records[:at]); !slices.Equal(got, want) {
			t.Errorf("as of record %d the tree is %q, want %q", at, got, want)
		}
	}
	if len(places) != 1 || !refused {
		t.Errorf("the graph stood at %d places; refused: %v", len(places), refused)
	}
	now := w.open("/ui/runs/" + run.ID.String() + "?part=graph")
	if again := w.open("/ui/runs/" + run.ID.String() + "?part=graph"); again.body != now.body || !strings.Contains(now.body, `class="pill refused"`) {
		t.Error("the same graph is drawn differently, or without what was refused")
	}
}
