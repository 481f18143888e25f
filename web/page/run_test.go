package page

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/tipstaff/tipstaff"
)

// told is a service that knows one run, by the records that it was told.
type told struct {
	tipstaff.Service
	run    tipstaff.Run
	events []tipstaff.Event
	shape  tipstaff.Graph
	fold   tipstaff.Fold
	gates  []tipstaff.Gate // that are open
	now    time.Time
	asked  int // records that somebody has read
}

func (s *told) Get(_ context.Context, id tipstaff.ID) (tipstaff.Run, error) {
	if id != s.run.ID {
		return tipstaff.Run{}, tipstaff.Errorf(tipstaff.RunNotFound, "there is no such run")
	}
	return s.run, nil
}

func (s *told) Events(_ context.Context, req tipstaff.EventsRequest) iter.Seq2[tipstaff.Event, error] {
	return func(yield func(tipstaff.Event, error) bool) {
		n := 0
		for _, e := range s.events[min(req.After, int64(len(s.events))):] {
			if n++; req.Limit > 0 && n > req.Limit {
				return
			}
			if s.asked++; !yield(e, nil) {
				return
			}
		}
	}
}

func (s *told) List(context.Context, tipstaff.ListRequest) (tipstaff.RunPage, error) {
	return tipstaff.RunPage{Runs: []tipstaff.Run{s.run}}, nil
}

func (s *told) Inbox(context.Context, tipstaff.InboxRequest) (tipstaff.InboxPage, error) {
	return tipstaff.InboxPage{}, nil
}

func (s *told) Artifact(context.Context, tipstaff.ID, string) ([]byte, error) {
	return []byte("{}"), nil
}

func (s *told) Graph(context.Context, tipstaff.ID, string) ([]byte, error) {
	return json.Marshal(s.shape)
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newTold(t *testing.T, kind string) *told {
	t.Helper()
	id, err := tipstaff.ParseID("01JCQ8R4T5V6W7X8Y9Z0A1B2C3")
	if err != nil {
		t.Fatal(err)
	}
	s := &told{now: began}
	s.run = tipstaff.Run{ID: id, User: "alice", Program: tipstaff.Program{Kind: kind, Name: "toy", Digest: "sha256:toy"}}
	s.tell(tipstaff.KindIntentDraft, "", map[string]any{"program": map[string]any{"kind": kind, "digest": "sha256:toy"}})
	return s
}

// tell adds a record, a second after the last.
func (s *told) tell(kind tipstaff.Kind, path string, body any) {
	s.now = s.now.Add(time.Second)
	text, err := json.Marshal(body)
	must(err)
	e := tipstaff.Event{V: 1, Seq: int64(len(s.events) + 1), Kind: kind, At: s.now, Run: s.run.ID, Path: path, Epoch: 1, Body: text}
	e.Raw = e.Stored() // once: a search reads it
	s.events = append(s.events, e)
	s.fold.Apply(&e)
	program := s.run.Program
	s.run = tipstaff.Status(tipstaff.Facts{ID: s.run.ID, Name: "toy", Head: "sha256:head"}, &s.fold, s.gates, s.now)
	s.run.Program = program
}

// site is a page over the service, and the cookie of somebody who has signed in.
func (s *told) site(t *testing.T) (*Site, *http.Cookie) {
	t.Helper()
	tokens, err := tipstaff.NewTokens(tipstaff.Token{User: "alice", Secret: "the-token-of-alice"})
	if err != nil {
		t.Fatal(err)
	}
	site := New(tipstaff.Control{Runs: s, Now: func() time.Time { return s.now }}, Options{Tokens: tokens, Status: func(c tipstaff.Code) int {
		if c == tipstaff.InvalidArgument {
			return http.StatusBadRequest
		}
		return http.StatusNotFound
	}})
	r := httptest.NewRequest("POST", "http://page.test/ui/signin", strings.NewReader("token=the-token-of-alice"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "http://page.test")
	w := httptest.NewRecorder()
	site.ServeHTTP(w, r)
	cookies := w.Result().Cookies()
	if len(cookies) == 0 {
		t.Fatalf("nobody can sign in: %d %s", w.Code, w.Body)
	}
	return site, cookies[0]
}

// visitor looks at pages of the run.
type visitor struct {
	*testing.T
	site   *Site
	cookie *http.Cookie
	run    string
}

func (s *told) visitor(t *testing.T) *visitor {
	t.Helper()
	site, cookie := s.site(t)
	return &visitor{t, site, cookie, "/ui/runs/" + s.run.ID.String()}
}

func (v *visitor) get(w http.ResponseWriter, rest string) {
	r := httptest.NewRequest("GET", "http://page.test"+v.run+rest, nil)
	r.AddCookie(v.cookie)
	v.site.ServeHTTP(w, r)
}

// open is a page that is there, and its text.
func (v *visitor) open(rest string) (*html.Node, string) {
	v.Helper()
	w := httptest.NewRecorder()
	v.get(w, rest)
	if w.Code != http.StatusOK {
		v.Fatalf("%s is answered %d: %s", rest, w.Code, w.Body)
	}
	root, err := html.Parse(strings.NewReader(w.Body.String()))
	if err != nil {
		v.Fatal(err)
	}
	return root, w.Body.String()
}

// find are the elements of a page that are what is looked for.
func find(root *html.Node, is func(*html.Node) bool) (all []*html.Node) {
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && is(n) {
			all = append(all, n)
		}
	}
	return all
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// class is for elements that have all of these.
func class(names ...string) func(*html.Node) bool {
	return func(n *html.Node) bool {
		has := strings.Fields(attr(n, "class"))
		return !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(has, name) })
	}
}

// textOf is what a person reads of an element, with single spaces.
func textOf(n *html.Node) string {
	var b strings.Builder
	for c := range n.Descendants() {
		if c.Type == html.TextNode {
			b.WriteString(c.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// work is a plan that does things: a call that is made twice, one that fails, and one that
// goes on.
func work(s *told) {
	s.tell(tipstaff.KindRunStarted, "", map[string]any{"kind": "cli", "epoch": 1, "pid": 1})
	for _, step := range []string{"root/a", "root/b", "root/c"} {
		s.tell(tipstaff.KindEffectIntended, step, map[string]any{"name": "tool.call", "class": "read", "attempt": 1, "input": map[string]any{"of": step}})
		switch step {
		case "root/a":
			s.tell(tipstaff.KindEffectFailed, step, map[string]any{"attempt": 1, "error": map[string]any{"code": "unavailable", "message": "busy"}})
			s.tell(tipstaff.KindEffectIntended, step, map[string]any{"name": "tool.call", "class": "read", "attempt": 2})
			s.tell(tipstaff.KindEffectFinished, step, map[string]any{"attempt": 2, "value": map[string]any{"text": "done"}, "ms": 1000})
		case "root/b":
			s.tell(tipstaff.KindEffectFinished, step, map[string]any{"attempt": 1, "error": map[string]any{"code": "tool_error", "message": "no such file"}, "ms": 1000})
		}
	}
}

// rowsShown are the rows of a tree as a page shows them: path, state and what stands beside.
func rowsShown(root *html.Node) (rows [][2]string) {
	for _, li := range find(root, func(n *html.Node) bool { return n.Data == "li" && attr(n, "data-key") != "" }) {
		mark := find(li, class("mark"))[0]
		rows = append(rows, [2]string{attr(li, "data-key"), textOf(mark)})
	}
	return rows
}

func TestTreeShowsTheRowsOfTheView(t *testing.T) {
	s := newTold(t, "plan")
	work(s)
	visitor := s.visitor(t)
	for _, at := range []int64{3, 4, 5, 6, 7, 8, 2, 9, 1} {
		root, body := visitor.open(fmt.Sprint("?at=", at))
		view := tipstaff.NewView("toy", nil)
		for i := range s.events[:at] {
			view.Apply(&s.events[i])
		}
		var want [][2]string
		for _, r := range view.Rows(view.At) {
			want = append(want, [2]string{r.Path, r.Shown.String()})
			if r.Note != "" && !strings.Contains(body, html.EscapeString(r.Note)) {
				t.Errorf("at %d the note %q of %s is not shown", at, r.Note, r.Path)
			}
		}
		if got := rowsShown(root); !slices.Equal(got, want) {
			t.Errorf("at %d: %v, want %v", at, got, want)
		}
	}
}

func TestMomentsStopWhereTheySay(t *testing.T) {
	s := newTold(t, "plan")
	work(s)
	visitor := s.visitor(t)
	root, _ := visitor.open("?at=4") // the first attempt of the first call has failed
	if bar := find(root, class("at")); len(bar) != 1 || !strings.Contains(textOf(bar[0]), "As of record 4 of 9") {
		t.Errorf("no bar says which moment it is: %v", bar)
	}
	if got := rowsShown(root); len(got) != 2 {
		t.Errorf("what came later is shown: %v", got)
	}
	links := map[string]string{}
	for _, a := range find(find(root, class("at"))[0], func(n *html.Node) bool { return n.Data == "a" }) {
		links[textOf(a)] = attr(a, "href")
	}
	want := map[string]string{"First": visitor.run + "?at=1", "Previous": visitor.run + "?at=3", "Next": visitor.run + "?at=5", "Now": visitor.run, "Fork from here…": visitor.run + "/fork?at=4"}
	if !maps.Equal(links, want) {
		t.Errorf("the bar leads to %v, want %v", links, want)
	}
	slider := find(root, func(n *html.Node) bool { return attr(n, "type") == "range" })
	if len(slider) != 1 || attr(slider[0], "min") != "1" || attr(slider[0], "max") != "9" || attr(slider[0], "value") != "4" || attr(slider[0].Parent, "method") != "get" {
		t.Error("there is no slider over the records in a form that changes nothing")
	}
	for _, at := range []string{"0", "10", "-1", "x", "99999999999999999999"} {
		w := httptest.NewRecorder()
		if visitor.get(w, "?at="+at); w.Code != http.StatusBadRequest {
			t.Errorf("record %s is answered %d", at, w.Code)
		}
	}
	if last, _ := visitor.open("?at=9"); len(find(last, func(n *html.Node) bool { return attr(n, "rel") == "next" })) != 0 {
		t.Error("something comes after the last record")
	}
}

// firstSent notes how many records were read before anything was sent.
type firstSent struct {
	*httptest.ResponseRecorder
	s      *told
	before int
	body   string
}

func (w *firstSent) Flush() {
	if w.before < 0 {
		w.before, w.body = w.s.asked, w.Body.String()
	}
}

func TestHeaderOfALongRunIsSentBeforeItIsFolded(t *testing.T) {
	s := newTold(t, "plan")
	s.tell(tipstaff.KindRunStarted, "", map[string]any{"kind": "cli", "epoch": 1, "pid": 1})
	e := s.events[1]
	e.Kind, e.Path, e.Body = tipstaff.KindEffectFinished, "root/a", json.RawMessage(`{"name":"tool.call","attempt":1,"value":1,"ms":1}`)
	for range 100_000 {
		e.Seq++
		s.events = append(s.events, e)
	}
	s.run.HeadSeq = e.Seq
	visitor := s.visitor(t)
	for _, rest := range []string{"", "/timeline"} {
		w := &firstSent{httptest.NewRecorder(), s, -1, ""}
		s.asked = 0
		visitor.get(w, rest)
		if w.before < 0 || w.before > 1 { // the diagnosis reads the last
			t.Errorf("%q: %d records were read before the header was sent", rest, w.before)
		}
		if !strings.Contains(w.body, "record 100,002") || strings.Contains(w.body, `class="tree"`) {
			t.Errorf("%q: the header is not what was sent first: %.200s", rest, w.body)
		}
		if rest == "" && s.asked < 100_000 {
			t.Errorf("only %d records were folded", s.asked)
		}
	}
}

func TestFoldsGoOnByNewRecordsAlone(t *testing.T) {
	s := newTold(t, "plan")
	work(s)
	visitor := s.visitor(t)
	visitor.open("/timeline")
	s.tell(tipstaff.KindEffectFinished, "root/c", map[string]any{"attempt": 1, "value": 1, "ms": 1})
	s.asked = 0
	root, _ := visitor.open("?part=tree")
	if rows := rowsShown(root); s.asked > 2 || rows[len(rows)-1] != [2]string{"root/c", "done"} {
		t.Errorf("%d records were read for one that is new, and the tree ends with %v", s.asked, rows)
	}
	k := newFolds(s)
	for i := range 2 * foldsMost / (foldBytes + 100_000*foldPerRecord) {
		f := &fold{view: tipstaff.NewView("", nil), at: int64(i)}
		f.view.Seq = 100_000
		k.keep(f)
	}
	if k.bytes > foldsMost || len(k.kept) < 2 || k.kept[len(k.kept)-1].at <= k.kept[0].at {
		t.Errorf("%d folds of %d bytes are kept", len(k.kept), k.bytes)
	}
}

func TestLargeBranches(t *testing.T) {
	s := newTold(t, "plan")
	s.tell(tipstaff.KindRunStarted, "", map[string]any{"kind": "cli", "epoch": 1, "pid": 1})
	for i := range 1900 {
		body := map[string]any{"name": "tool.call", "attempt": 1, "value": 1, "ms": 1}
		if i%100 == 99 {
			body["error"] = map[string]any{"code": "tool_error"}
		}
		s.tell(tipstaff.KindEffectFinished, fmt.Sprintf("root/n%d", i), body)
	}
	root, _ := s.visitor(t).open("")
	rows := rowsShown(root)
	if len(rows) != 1+treeFirst+19 || rows[treeFirst] != [2]string{"root/n49", "done"} || rows[treeFirst+1] != [2]string{"root/n99", "failed"} {
		t.Errorf("%d rows are shown: %v", len(rows), rows[treeFirst:])
	}
	if !strings.Contains(textOf(root), "1,831 more") {
		t.Error("nothing says how many more there are")
	}
	var deep []tipstaff.Row
	for i := range 30 {
		deep = append(deep, tipstaff.Row{Node: &tipstaff.Node{Path: fmt.Sprint(i)}})
		for j := range 30 {
			r := tipstaff.Row{Node: &tipstaff.Node{Path: fmt.Sprint(i, "/", j)}, Depth: 1}
			if i == 29 && j == 29 {
				r.Shown = tipstaff.NodeFailed
			}
			deep = append(deep, r)
		}
	}
	got := treeOf(deep, treeRows)
	last := got.Roots[29]
	if got.Rows != treeRows || len(got.Roots) != 30 || last.Children[len(last.Children)-1].Path != "29/29" || last.More != 30-len(last.Children) {
		t.Errorf("a tree of 930 rows is shown with %d, its failure %v", got.Rows, last.Children)
	}
}

func TestBoundsAsBars(t *testing.T) {
	r := tipstaff.Run{Bounds: tipstaff.BoundsStatus{
		"tokens":      {Limited: true, Limit: 1000, Used: 799, Reserved: 500},
		"tool_calls":  {Limited: true, Limit: 10, Used: 8},
		"model_calls": {Limited: true, Limit: 4, Used: 4},
		"cost_usd":    {Used: 5},
	}, Error: &tipstaff.Failure{Bound: "model_calls"}}
	got := map[string][4]string{}
	for _, b := range boundsOf(r) {
		got[b.Name] = [4]string{b.UsedPart(), b.HeldPart(), b.Class, b.Limit}
	}
	want := map[string][4]string{
		"tokens": {"79.9%", "20.1%", "", "1,000"}, "tool calls": {"80.0%", "0.0%", "waiting", "10"},
		"model calls": {"100.0%", "0.0%", "refused", "4"}, "cost": {"0.0%", "0.0%", "", ""},
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
