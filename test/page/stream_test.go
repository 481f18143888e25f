package page_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/test/webtest"
)

// frame is one event of a stream.
type frame struct{ event, id, data string }

// following is a stream that a browser holds.
type following struct {
	*browser
	status int
	body   io.ReadCloser
	lines  *bufio.Scanner
}

// follow opens the stream of a page.
func (w *browser) follow(page string, parts ...string) *following {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	w.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+w.Addr+"/ui/stream?"+url.Values{"page": {page}, "parts": {strings.Join(parts, ",")}}.Encode(), nil)
	if err != nil {
		w.Fatal(err)
	}
	return w.read(r)
}

// read begins to read what a request for a stream is answered.
func (w *browser) read(r *http.Request) *following {
	w.Helper()
	res, err := w.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { res.Body.Close() })
	f := &following{w, res.StatusCode, res.Body, bufio.NewScanner(res.Body)}
	f.lines.Buffer(nil, 1<<22)
	return f
}

// next is the next event; false: the stream has ended.
func (f *following) next() (e frame, ok bool) {
	for f.lines.Scan() {
		name, value, _ := strings.Cut(f.lines.Text(), ": ")
		switch name {
		case "event":
			e.event = value
		case "id":
			e.id = value
		case "data":
			e.data += value + "\n"
		case "":
			if e.event != "" {
				return e, true
			}
		}
	}
	return e, false
}

// until reads until a part, with its text, is as wanted.
func (f *following) until(what string, want func(html string) bool) string {
	f.Helper()
	for {
		e, ok := f.next()
		if !ok {
			f.Fatalf("the stream ends without %s: %v", what, f.lines.Err())
		}
		if e.event == "part" && want(e.data) {
			return e.data
		}
	}
}

// inside is the markup of a part that a stream has sent.
func inside(data string) string {
	_, rest, _ := strings.Cut(data, ">\n")
	return strings.TrimSuffix(rest, "</div>\n")
}

// A list follows what happens, with the same bytes that a fresh page shows.
func TestTheInboxIsLive(t *testing.T) {
	b := newBed(t)
	w := b.browser("alice")
	f := w.follow("/ui/", "inbox")
	if e, ok := f.next(); !ok || e.event != "part" || !strings.Contains(e.data, "Nothing waits for you.") {
		t.Fatalf("it begins with %+v", e)
	}
	if e, ok := f.next(); !ok || e.event != "beat" || !strings.Contains(e.data, `"assets"`) || !strings.Contains(e.data, `"waiting":0`) {
		t.Fatalf("it goes on with %+v", e)
	}
	run := b.start("alice", webtest.Gated("a.txt"))
	b.start("bob", strings.Replace(webtest.Gated("b.txt"), "Go on?", "Of bob?", 1))
	got := f.until("a gate", func(html string) bool {
		return strings.Contains(html, run.OpenGates[0].ID.String())
	})
	fresh := w.open("/ui/?part=inbox").body
	if inner := inside(got); strings.TrimSpace(inner) != strings.TrimSpace(fresh) {
		t.Errorf("it is sent\n%s\nand a fresh page is\n%s", got, fresh)
	}
	if strings.Contains(got, "Of bob?") {
		t.Error("what is bob's is sent to alice")
	}
}

// The parts of a run follow it to its end, and then the stream ends.
func TestARunIsFollowedToItsEnd(t *testing.T) {
	b := newBed(t)
	w := b.browser("alice")
	run := b.begin("alice", webtest.Slow("go"))
	f := w.follow("/ui/runs/"+run.String(), "header", "tree", "nothing")
	f.until("the tree", func(html string) bool {
		return strings.Contains(html, `id="part-tree" `) && strings.Contains(html, "wait")
	})
	b.Write("go", "")
	f.until("the end in the header", func(html string) bool {
		return strings.Contains(html, `id="part-header" `) && strings.Contains(html, "completed")
	})
	last := frame{}
	for {
		e, ok := f.next()
		if !ok {
			break
		}
		last = e
	}
	if last.event != "end" || f.lines.Err() != nil {
		t.Errorf("the last is %+v, %v", last, f.lines.Err())
	}
	for _, page := range []string{"/ui/runs/" + run.String(), "/ui/runs/" + b.start("alice", webtest.Gated("a.txt")).ID.String() + "?at=2"} {
		if again := w.follow(page, "header"); again.status != http.StatusNoContent {
			t.Errorf("%s is followed: %d", page, again.status)
		}
	}
}

// Streams are for who may see the page, and for so many of them.
func TestWhoMayFollow(t *testing.T) {
	b := newBed(t)
	run := b.start("alice", webtest.Gated("a.txt")).ID.String()
	if f := b.stranger().follow("/ui/", "inbox"); f.status != http.StatusUnauthorized {
		t.Errorf("a stranger is answered %d", f.status)
	}
	if f := b.browser("bob").follow("/ui/runs/"+run, "header"); f.status != http.StatusForbidden {
		t.Errorf("another user is answered %d", f.status)
	}
	w := b.browser("alice")
	for _, page := range []string{"", "https://elsewhere.example/ui/", "//elsewhere.example/ui/", "/runs", "/ui/stream?page=/ui/", "/ui/signin"} {
		if f := w.follow(page, "inbox"); f.status != http.StatusBadRequest {
			t.Errorf("%q is answered %d", page, f.status)
		}
	}
	if f := w.follow("/ui/", "../x"); f.status != http.StatusBadRequest {
		t.Errorf("a part that is none is answered %d", f.status)
	}
	if p := w.get("/ui/stream?page=/ui/&parts=inbox", header("Sec-Fetch-Site", "same-site")); p.status != http.StatusForbidden {
		t.Errorf("a page elsewhere is answered %d", p.status)
	}
	var held []*following
	for i := range 8 {
		f := w.follow("/ui/", "inbox")
		if held = append(held, f); f.status != http.StatusOK {
			t.Fatalf("stream %d is answered %d", i, f.status)
		}
	}
	if f := w.follow("/ui/", "inbox"); f.status != http.StatusTooManyRequests {
		t.Errorf("a ninth stream is answered %d", f.status)
	}
	if f := b.browser("alice").follow("/ui/", "inbox"); f.status != http.StatusOK {
		t.Errorf("another session is answered %d", f.status)
	}
	held[0].body.Close()
	deadline := time.Now().Add(20 * time.Second)
	for w.follow("/ui/", "inbox").status != http.StatusOK {
		if time.Now().After(deadline) {
			t.Fatal("who has gone keeps its place")
		}
	}
}

// Who signs out, or whose server goes down, is sent nothing more.
func TestAStreamEnds(t *testing.T) {
	b := newBed(t)
	w := b.browser("alice")
	f := w.follow("/ui/", "inbox")
	f.until("the inbox", func(string) bool { return true })
	w.send("/ui/signout", nil)
	b.start("alice", webtest.Gated("a.txt"))
	for {
		e, ok := f.next()
		if !ok {
			break
		}
		if e.event == "part" {
			t.Fatalf("after signing out it is sent %s", e.data)
		}
	}
	f = b.browser("alice").follow("/ui/", "inbox")
	f.until("the inbox", func(string) bool { return true })
	began := time.Now()
	b.Server.Quiesce()
	for ok := true; ok; _, ok = f.next() {
	}
	if time.Since(began) > 10*time.Second {
		t.Errorf("the server waits %v for a stream", time.Since(began))
	}
}

// Who reads nothing slows no run, and is shown the last state when it reads again.
func TestASlowReader(t *testing.T) {
	b := newBed(t)
	w := b.browser("alice")
	f := w.follow("/ui/runs", "runs")
	for range 30 {
		b.start("alice", `{kind: plan, version: 1, root: {kind: sequential, children: [{id: a, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: note.txt}}]}}`)
	}
	f.until("all of them", func(html string) bool { return strings.Contains(html, "30 in all.") })
}

// A page that is open does not hold up a server that stops; what comes then is sent away.
func TestAPageThatIsOpenDoesNotHoldUpTheEnd(t *testing.T) {
	b := newBed(t)
	w := b.browser("alice")
	f := w.follow("/ui/runs", "runs")
	if e, ok := f.next(); !ok {
		t.Fatalf("the stream begins with %+v, %d", e, f.status)
	}
	b.Server.Quiesce()
	for more := true; more; {
		_, more = f.next()
	}
	if err := f.lines.Err(); err != nil {
		t.Errorf("the stream breaks off: %v", err)
	}
	if p := w.post("/ui/signout", nil); p.status != http.StatusServiceUnavailable {
		t.Errorf("a form is answered %d by a server that stops", p.status)
	}
}

// Who comes without a token is sent to the page, and told nothing else.
func TestTheFirstAddressLeadsToThePage(t *testing.T) {
	p := newBed(t).stranger().get("/")
	if p.status != http.StatusSeeOther || p.header.Get("Location") != "/ui/" || strings.Contains(p.body, "not found") {
		t.Errorf("/ is answered %d: %s", p.status, p.body)
	}
}
