package page

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/tipstaff/tipstaff"
)

// loop is a pipeline that goes back: draft, critic, end, with a limit on the way back.
func loop(s *told) {
	ways := func(kind string) []tipstaff.GraphWay { return []tipstaff.GraphWay{{Kind: kind}} }
	s.shape = tipstaff.Graph{Name: "review", MaxIterations: 9, Stages: []tipstaff.GraphStage{{Name: "draft", Kind: "model", Entry: true}, {Name: "critic", Kind: "model", MaxVisits: 5}},
		Edges: []tipstaff.GraphEdge{
			{From: tipstaff.GraphStart, To: "draft", Kind: tipstaff.EdgeEntry},
			{From: "draft", To: "critic", Kind: tipstaff.EdgeRoute, Ways: ways(tipstaff.WayDefault)},
			{From: "critic", To: "draft", Kind: tipstaff.EdgeRoute, Back: true, Limit: 2, Ways: []tipstaff.GraphWay{{Kind: tipstaff.WayRule, Rule: 1, Label: "verdict = rejected"}}},
			{From: "critic", To: tipstaff.GraphEnd, Kind: tipstaff.EdgeRoute, Ways: ways(tipstaff.WayDefault)},
			{From: "draft", To: tipstaff.GraphClarification, Kind: tipstaff.EdgeRoute, Ways: ways(tipstaff.WayRule)},
		}}
	s.tell(tipstaff.KindRunStarted, "", map[string]any{"kind": "cli", "epoch": 1, "pid": 1})
	s.move("start", "draft", "start", 0, 0)
}

func (s *told) move(from, to, reason string, iteration, count int) {
	s.tell(tipstaff.KindTransition, "", map[string]any{"from": from, "to": to, "reason": reason, "iteration": iteration, "edge_count": count, "rule": map[bool]int{true: 1}[reason == "reintent"]})
}

// round goes once through both stages, and back.
func (s *told) round(n int) {
	for _, stage := range []string{"draft", "critic"} {
		s.tell(tipstaff.KindStageStarted, fmt.Sprintf("%s#%d", stage, n), map[string]any{"stage": stage, "visit": n, "attempt": 1})
		s.tell(tipstaff.KindStageFinished, fmt.Sprintf("%s#%d", stage, n), map[string]any{"stage": stage, "visit": n, "outcome": "success", "attempts": 1, "duration_ms": 1500})
		if stage == "draft" {
			s.move("draft", "critic", "default", n-1, n)
		}
	}
	if n <= 2 {
		s.move("critic", "draft", "reintent", n, n)
	} else {
		s.move("critic", "draft", "edge_limit", n-1, 0)
	}
}

// graphOf is the drawing in a page, and what never moves in it.
func graphOf(t *testing.T, root *html.Node) (svg *html.Node, still []string) {
	t.Helper()
	all := find(root, class("graph"))
	if len(all) != 1 {
		t.Fatalf("there are %d graphs", len(all))
	}
	for _, n := range find(all[0], func(n *html.Node) bool {
		return n.Data == "rect" || n.Data == "path" || n.Data == "circle" || n.Data == "svg"
	}) {
		place := n.Data
		for _, name := range []string{"x", "y", "width", "height", "d", "cx", "cy", "viewbox", "viewBox"} {
			place += " " + attr(n, name)
		}
		if !class("pill")(n.Parent) { // whose width is that of its text
			still = append(still, place)
		}
	}
	return all[0], still
}

func TestGraphOfALoop(t *testing.T) {
	s := newTold(t, tipstaff.ProgramPipeline)
	loop(s)
	visitor := s.visitor(t)
	root, _ := visitor.open("")
	_, before := graphOf(t, root)
	pill := func(root *html.Node) (texts []string) {
		for _, p := range find(root, class("pill")) {
			texts = append(texts, textOf(p)+strings.TrimPrefix(attr(p, "class"), "pill"))
		}
		return texts
	}
	for n, want := range []string{"0/2 ", "1/2 waiting", "2/2 ", "2/2 refused"} {
		if n > 0 {
			s.round(n)
		}
		root, _ := visitor.open("")
		_, body := visitor.open("?part=graph")
		svg, now := graphOf(t, root)
		if got := pill(svg); !slices.Equal(got, []string{want}) {
			t.Errorf("after %d rounds the way back says %q, want %q", n, got, want)
		}
		if !slices.Equal(before, now) {
			t.Errorf("after %d rounds something has moved:\n%v\n%v", n, before, now)
		}
		if _, again := visitor.open("?part=graph"); again != body || !strings.Contains(body, "<svg") {
			t.Errorf("after %d rounds two answers differ", n)
		}
	}
	root, _ = visitor.open("")
	svg, _ := graphOf(t, root)
	var titles []string
	for _, e := range find(svg, class("edge")) {
		titles = append(titles, textOf(find(e, func(n *html.Node) bool { return n.Data == "title" })[0]))
	}
	want := []string{"draft → critic: default, taken 3", "critic → draft: rule 1 verdict = rejected, taken 2 of 2, refused: edge limit", "critic → end: default, taken 0", "draft → clarification: rule, taken 0"}
	if !slices.Equal(titles, want) {
		t.Errorf("the edges are %q, want %q", titles, want)
	}
	var stages []string
	for _, n := range find(svg, class("stage")) {
		name, visits, note := find(n, class("name")), find(n, class("visits")), find(n, class("note"))
		stages = append(stages, tipstaff.Joined(" ", textOf(name[0]), textOf(visits[0]), textOf(note[0]), attr(n, "class")))
	}
	if want := []string{"draft #3 1.5 s stage done", "critic 3/5 1.5 s stage done"}; !slices.Equal(stages, want) {
		t.Errorf("the stages are %q, want %q", stages, want)
	}
	var table []string
	for _, tr := range find(find(root, class("edges"))[0], func(n *html.Node) bool { return n.Data == "tr" })[1:] {
		var cells []string
		for _, c := range find(tr, func(n *html.Node) bool { return n.Data == "td" || n.Data == "th" })[:6] {
			cells = append(cells, textOf(c))
		}
		table = append(table, strings.Join(cells, "|"))
	}
	rows := []string{"start|draft|entry|1||", "draft|critic|default|3||", "critic|draft|rule 1 verdict = rejected|2|2|edge limit", "critic|end|default|0||", "draft|clarification|rule|0||"}
	if !slices.Equal(table, rows) {
		t.Errorf("the table is %q, want %q", table, rows)
	}
	if root, _ := visitor.open("?at=3"); !slices.Equal(pill(root), []string{"0/2 "}) {
		t.Errorf("as of record 3 the way back says %q", pill(root))
	}
}

// A run that was killed, parked and resumed, and what its timeline says of that.
func TestTimelineMarks(t *testing.T) {
	s := newTold(t, "plan")
	drive := func(kind tipstaff.Kind, epoch int) {
		s.tell(kind, "", map[string]any{"kind": "cli", "epoch": epoch, "pid": 1})
	}
	drive(tipstaff.KindRunStarted, 1)
	s.tell(tipstaff.KindEffectIntended, "root/a", map[string]any{"name": "tool.call", "class": "once", "attempt": 1})
	killed := s.now
	s.now = s.now.Add(3 * time.Minute)
	drive(tipstaff.KindRunResumed, 2)
	s.tell(tipstaff.KindPolicyGate, "root/ok", map[string]any{"gate": "01JCQ8R4T5V6W7X8Y9Z0A1B2C4", "kind": "question", "question": "Go on?", "actions": []string{"yes"}})
	s.tell(tipstaff.KindRunParked, "", map[string]any{})
	s.now = s.now.Add(48 * time.Hour)
	s.tell(tipstaff.KindPolicyGateResolve, "root/ok", map[string]any{"gate": "01JCQ8R4T5V6W7X8Y9Z0A1B2C4", "action": "yes", "via": "command"})
	drive(tipstaff.KindRunResumed, 3)
	s.tell(tipstaff.KindIntentCorrect, "", map[string]any{"reason": "better", "revision": 2})
	s.tell(tipstaff.KindIntentAttest, "", map[string]any{"outcome": "success"})
	visitor := s.visitor(t)
	root, _ := visitor.open("/timeline")
	var marks []string
	for _, m := range find(root, class("moment")) {
		marks = append(marks, strings.TrimPrefix(attr(m, "class"), "moment "))
	}
	if want := []string{"start", "kill", "resume", "park", "resume", "correction", "end"}; !slices.Equal(marks, want) {
		t.Errorf("the marks are %v, want %v", marks, want)
	}
	var breaks []string
	for _, b := range find(root, class("break")) {
		breaks = append(breaks, textOf(b))
		if rect := find(b, func(n *html.Node) bool { return n.Data == "rect" })[0]; attr(rect, "width") != "14.0" {
			t.Errorf("%s is %s wide", textOf(b), attr(rect, "width"))
		}
	}
	if want := []string{"not started, 1.0 s", "⚡ killed, 3 min 1 s", "‖ waited 2 d 0 h for ok"}; !slices.Equal(breaks, want) {
		t.Errorf("the breaks are %q, want %q", breaks, want)
	}
	if len(find(root, class("jagged"))) == 0 {
		t.Error("nothing shows that nobody saw the end of the call")
	}
	kill := find(root, class("moment", "kill"))[0]
	if d := attr(find(kill, func(n *html.Node) bool { return n.Data == "path" })[0], "d"); strings.Count(d, "L") < 3 {
		t.Errorf("the line of the kill is not jagged: %s", d)
	}
	var at string
	for _, li := range find(find(root, class("moments"))[0], func(n *html.Node) bool { return n.Data == "li" }) {
		if strings.HasPrefix(textOf(li), "kill") {
			at = attr(find(li, func(n *html.Node) bool { return n.Data == "time" })[0], "datetime")
		}
	}
	if at != killed.Format(time.RFC3339Nano) {
		t.Errorf("it was killed at %s, want %s", at, killed.Format(time.RFC3339Nano))
	}

	clock, _ := visitor.open("/timeline?scale=real")
	widest := find(find(clock, class("break", "park"))[0], func(n *html.Node) bool { return n.Data == "rect" })
	if len(widest) != 1 || len(attr(widest[0], "width")) < len("700.0") {
		t.Error("by the clock a wait of two days is not most of the axis")
	}
	for _, a := range find(find(clock, class("filters"))[0], func(n *html.Node) bool { return n.Data == "a" }) {
		if real := strings.Contains(attr(a, "href"), "scale=real"); real == (textOf(a) == "Time driven") {
			t.Errorf("by the clock %s leads to %s", textOf(a), attr(a, "href"))
		}
	}
	early, _ := visitor.open("/timeline?at=3")
	if len(find(early, class("moment", "kill"))) != 0 || len(find(early, class("moment"))) != 1 {
		t.Error("as of record 3 the kill is known")
	}
	for _, a := range find(root, func(n *html.Node) bool { return n.Data == "a" && strings.Contains(attr(n, "href"), "/timeline?") }) {
		to, err := url.Parse(attr(a, "href"))
		if err != nil {
			t.Fatal(err)
		}
		visitor.open("/timeline?" + to.RawQuery) // every zoom is an address that is there
	}
}

// hostileTexts are texts that would be more than text to a careless page. Tests of the whole server
// and those in a browser read them, too.
func hostileTexts(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("testdata/hostile.json")
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return append(all, strings.Repeat("W", 1<<20))
}

// skeleton is the elements of a page with the names of their attributes.
func skeleton(root *html.Node) string {
	var b strings.Builder
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		b.WriteString("<" + n.Data)
		for _, a := range n.Attr {
			b.WriteString(" " + a.Key)
		}
		b.WriteString(">\n")
	}
	return b.String()
}

// dressed is a failed run, every text of which is given.
func dressed(t *testing.T, kind, text string) *told {
	s := newTold(t, kind)
	s.run.Program.Name = text
	loop(s)
	id := s.run.ID
	for i := range s.shape.Stages {
		s.shape.Stages[i].Label = text
	}
	s.shape.Edges[2].Ways[0].Label = text
	s.shape.Stages = append(s.shape.Stages, tipstaff.GraphStage{Name: text, Kind: "model"})
	step := "root/" + strings.ReplaceAll(text, "/", "")
	s.tell(tipstaff.KindEffectIntended, step, map[string]any{"name": text, "class": "once", "attempt": 1, "input": map[string]any{"x": text}})
	s.tell(tipstaff.KindEffectFailed, step, map[string]any{"attempt": 1, "error": map[string]any{"code": text, "message": text}})
	s.tell(tipstaff.KindEffectIntended, step, map[string]any{"name": text, "class": "once", "attempt": 2})
	s.tell(tipstaff.KindEffectFinished, step, map[string]any{"attempt": 2, "value": text, "error": map[string]any{"code": text, "message": text}})
	s.tell(tipstaff.KindPolicyGate, "root/ok", map[string]any{"gate": id.String(), "kind": "question", "question": text, "actions": []string{text}})
	s.tell(tipstaff.KindRunParked, "", map[string]any{})
	s.tell(tipstaff.KindRunResumed, "", map[string]any{"kind": text, "epoch": 1, "pid": 1})
	s.tell(tipstaff.KindIntentFail, "", map[string]any{"reason": text, "code": text, "message": text})
	s.run.Title, s.run.User, s.run.Outcome, s.run.Head = text, text, text, text
	s.run.OpenGates = []tipstaff.Gate{{ID: id, Kind: tipstaff.Question, Path: text, Question: text}}
	s.run.Owner = &tipstaff.Owner{Kind: text}
	s.run.Lineage = &tipstaff.Lineage{Parent: id, Relation: text}
	s.run.Error = &tipstaff.Failure{Reason: text, Code: text, Message: text, Path: text, Bound: text}
	return s
}

func TestHostileTextsAddNothing(t *testing.T) {
	pages := func(text string) []string {
		step := url.QueryEscape(keyOf("root/" + strings.ReplaceAll(text, "/", "")))
		return []string{"", "?at=10", "/timeline", "/timeline?at=10", "/node?path=" + step, "/node?at=8&path=" + step}
	}
	hidden := regexp.MustCompile("[\u202a-\u202e\u2066-\u2069\x00\x1b]")
	for _, kind := range []string{"plan", tipstaff.ProgramPipeline} {
		const plain = "plain"
		calm := dressed(t, kind, plain).visitor(t)
		want := map[string]string{}
		for i, rest := range pages(plain) {
			root, body := calm.open(rest)
			if want[fmt.Sprint(i)] = skeleton(root); !strings.Contains(body, plain) {
				t.Errorf("%s%s shows no text at all", kind, rest)
			}
		}
		for i, text := range hostileTexts(t) {
			if testing.Short() && (i%2 == 0) != (kind == "plan") {
				continue
			}
			if len(text) > 1000 && kind != "plan" { // it takes long
				continue
			}
			visitor := dressed(t, kind, text).visitor(t)
			for i, rest := range pages(text) {
				root, body := visitor.open(rest)
				if got := skeleton(root); got != want[fmt.Sprint(i)] {
					t.Errorf("%s%.40s: %.40q adds something: %s", kind, rest, text, firstDifference(got, want[fmt.Sprint(i)]))
				}
				if hidden.MatchString(body) {
					t.Errorf("%s%.40s: %.40q is shown with what does not print", kind, rest, text)
				}
				if len(body) > 300_000 {
					t.Errorf("%s%.40s: %.40q makes %d bytes", kind, rest, text, len(body))
				}
				for _, n := range find(root, func(n *html.Node) bool { return n.Data == "a" || n.Data == "form" }) {
					if to := attr(n, "href") + attr(n, "action"); !strings.HasPrefix(to, "/ui/") && !strings.HasPrefix(to, "#") && !strings.HasPrefix(to, "?") {
						t.Errorf("%.40q makes a link to %.60q", text, to)
					}
				}
			}
		}
	}
}

func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return a[i] + " for " + b[i]
		}
	}
	return fmt.Sprint(len(a), " elements for ", len(b))
}
