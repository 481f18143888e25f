package page

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"net/http/httptest"
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
	name   string
	events []tipstaff.Event
	shape  tipstaff.Graph
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
		for _, e := range s.events {
			if e.Seq <= req.After {
				continue
			}
			if n++; req.Limit > 0 && n > req.Limit {
				return
			}
			if s.asked++; !yield(e, nil) {
				return
			}
		}
	}
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
	s.events = append(s.events, e)
	var f tipstaff.Fold
	for i := range s.events {
		f.Apply(&s.events[i])
	}
	program := s.run.Program
	s.run = tipstaff.Status(tipstaff.Facts{ID: s.run.ID, Name: "toy", Head: "sha256:head"}, &f, s.run.OpenGates, s.now)
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

// find are the elements of a page that have a class, or an attribute data-key where that is
// what is asked for.
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

func class(name string) func(*html.Node) bool {
	return func(n *html.Node) bool {
		for _, c := range strings.Fields(attr(n, "class")) {
			if c == name {
				return true
			}
		}
		return false
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
		root, body := visitor.open("?at=" + string(rune('0'+at)))
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
		if got := rowsShown(root); len(got) != len(want) {
			t.Errorf("at %d: %v, want %v", at, got, want)
		} else {
			for i := range got {
				if got[i] != want[i] {
					t.Errorf("at %d row %d is %v, want %v", at, i, got[i], want[i])
				}
			}
		}
	}
}
