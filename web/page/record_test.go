package page

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/tipstaff/tipstaff"
)

// shelf is a service with one run, whose records and documents are made up. It counts the
// records that are read of it.
type shelf struct {
	tipstaff.Service
	run    tipstaff.Run
	events []tipstaff.Event
	blobs  map[string]string
	read   int
}

func (s *shelf) Get(context.Context, tipstaff.ID) (tipstaff.Run, error) { return s.run, nil }

func (s *shelf) Inbox(context.Context, tipstaff.InboxRequest) (tipstaff.InboxPage, error) {
	return tipstaff.InboxPage{}, nil
}

func (s *shelf) Artifact(_ context.Context, _ tipstaff.ID, digest string) ([]byte, error) {
	if text, ok := s.blobs[digest]; ok {
		return []byte(text), nil
	}
	return nil, tipstaff.Errorf(tipstaff.ArtifactNotFound, "no")
}

func (s *shelf) Events(_ context.Context, req tipstaff.EventsRequest) iter.Seq2[tipstaff.Event, error] {
	return func(yield func(tipstaff.Event, error) bool) {
		given := 0
		for _, e := range s.events[min(int(req.After), len(s.events)):] {
			s.read++
			if given++; !yield(e, nil) || given == req.Limit {
				return
			}
		}
	}
}

// shelfReader asks a site about the run of a shelf.
type shelfReader struct {
	*testing.T
	site   *Site
	cookie string
	id     string
}

func visit(t *testing.T, s *shelf) *shelfReader {
	t.Helper()
	tokens, err := tipstaff.NewTokens(tipstaff.Token{User: "alice", Secret: "the-token-of-alice"})
	if err != nil {
		t.Fatal(err)
	}
	id, err := tipstaff.ParseID("01JABCDEFGHJKMNPQRSTVWXYZ0")
	if err != nil {
		t.Fatal(err)
	}
	s.run.ID, s.run.HeadSeq = id, int64(len(s.events))
	site := New(tipstaff.Control{Runs: s, Now: time.Now}, Options{Tokens: tokens, Status: func(tipstaff.Code) int { return http.StatusNotFound }})
	b, err := tokens.Bearer(surface, "the-token-of-alice")
	if err != nil {
		t.Fatal("alice is not known")
	}
	return &shelfReader{t, site, newSession(b, time.Now(), time.Now()).value(), id.String()}
}

func (v *shelfReader) get(path string) *http.Response {
	v.Helper()
	r := httptest.NewRequest("GET", "http://127.0.0.1:80/ui/runs/"+v.id+path, nil)
	r.AddCookie(&http.Cookie{Name: "tipstaff_80", Value: v.cookie})
	w := httptest.NewRecorder()
	v.site.ServeHTTP(w, r)
	return w.Result()
}

func (v *shelfReader) open(path string) *html.Node {
	v.Helper()
	res := v.get(path)
	if res.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(res.Body)
		v.Fatalf("%s is answered %d: %s", path, res.StatusCode, body)
	}
	doc, err := html.Parse(res.Body)
	if err != nil {
		v.Fatal(err)
	}
	return doc
}

// seqs are the records that a journal shows.
func seqs(doc *html.Node) (all []string) {
	for n := range doc.Descendants() {
		if n.Data == "tr" && len(n.Attr) > 0 && n.Attr[0].Key == "data-key" {
			all = append(all, n.Attr[0].Val)
		}
	}
	return all
}

func long(n int) *shelf {
	s := &shelf{}
	for i := 1; i <= n; i++ {
		e := tipstaff.Event{V: 1, Seq: int64(i), Kind: tipstaff.KindClockRead, Path: "a", Body: []byte(`{}`)}
		if i%1000 == 0 {
			e.Kind, e.Body, e.Path = tipstaff.KindAgentError, []byte(`{"code":"odd"}`), "b/"+fmt.Sprint(i)
		}
		s.events = append(s.events, e)
	}
	return s
}

// What a window costs does not grow with the journal; a search looks at 20,000 records and
// goes on where it stopped.
func TestJournalOfManyRecords(t *testing.T) {
	s := long(100_000)
	v := visit(t, s)
	for path, want := range map[string][2]string{"": {"99901", "100000"}, "?after=0": {"1", "100"}, "?after=50000": {"50001", "50100"}, "?before=50001": {"49901", "50000"}, "?after=99990": {"99991", "100000"}, "?limit=9999": {"99701", "100000"}} {
		s.read = 0
		got := seqs(v.open("/journal" + path))
		if len(got) == 0 || got[0] != want[0] || got[len(got)-1] != want[1] {
			t.Errorf("%q shows %v, want %v", path, got, want)
		}
		if s.read > 300+8 { // the header reads the last one
			t.Errorf("%q reads %d records", path, s.read)
		}
	}
	s.read = 0
	v.open("/journal/60000")
	if s.read > 2*nearMost+10 {
		t.Errorf("a record reads %d others", s.read)
	}
	var found []string
	for path, pages := "/journal?failed=1", 0; path != "" && pages < 10; pages++ {
		s.read = 0
		doc := v.open(path)
		if s.read > lookMost+8 {
			t.Errorf("%s reads %d records", path, s.read)
		}
		text := wordsOf(doc)
		if !strings.Contains(text, "20 found ; 20,000 of 100,000 looked at") && !strings.Contains(text, "20 found; 20,000 of 100,000 looked at") {
			t.Errorf("%s says %.400s", path, text)
		}
		page := seqs(doc)
		found = append(page, found...)
		path = ""
		for n := range doc.Descendants() {
			if n.Data == "a" && slices.Contains(n.Attr, html.Attribute{Key: "rel", Val: "prev"}) {
				path = strings.TrimPrefix(n.Attr[0].Val, "/ui/runs/"+v.id)
			}
		}
	}
	if len(found) != 100 || found[0] != "1000" || found[99] != "100000" || !slices.IsSortedFunc(found, func(a, b string) int { return len(a) - len(b) }) {
		t.Errorf("the search found %v", found)
	}
	if got := seqs(v.open("/journal?failed=1&after=0&limit=5")); !slices.Equal(got, []string{"1000", "2000", "3000", "4000", "5000"}) {
		t.Errorf("from the beginning the search found %v", got)
	}
	if got := seqs(v.open("/journal?path=b/7&before=80000")); !slices.Equal(got, []string{"70000", "71000", "72000", "73000", "74000", "75000", "76000", "77000", "78000", "79000"}) {
		t.Errorf("by path: %v", got)
	}
}

func wordsOf(doc *html.Node) string {
	var b strings.Builder
	for n := range doc.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// shape is the elements and attributes of a page, without what they say.
func shape(doc *html.Node) string {
	var b strings.Builder
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		b.WriteString("<" + n.Data)
		for _, a := range n.Attr {
			b.WriteString(" " + a.Key)
			if a.Key == "class" || a.Key == "rel" || a.Key == "id" {
				b.WriteString("=" + a.Val)
			}
		}
		b.WriteString(">\n")
	}
	return b.String()
}

// hostileWord is what would act if it were not escaped: in text, attributes and addresses.
const hostileWord = "\"'><script>alert(1)</script><img src=x onerror=alert(1)>{{.}}</pre></td></textarea>\u202e\x00\x1b[2J javascript:alert(1)"

// Foreign text in every field of every kind of record adds no element and no attribute.
func TestHostileRecords(t *testing.T) {
	shown := map[tipstaff.Kind][]string{} // members that the sentence of a kind shows
	all := memberNames(t)
	for _, k := range storedKinds(t) {
		for _, name := range all {
			if strings.Contains(sentence(&tipstaff.Event{Kind: k, Body: bodyOf(t, []string{name}, "a word")}).Text, "a word") {
				shown[k] = append(shown[k], name)
			}
		}
	}
	if len(shown) < 40 {
		t.Fatalf("only the sentences of %d kinds show texts", len(shown))
	}
	make := func(word string) *shelf {
		s := &shelf{run: tipstaff.Run{Title: word, Program: tipstaff.Program{Kind: "plan", Name: word}}}
		for i, k := range storedKinds(t) {
			e := tipstaff.Event{V: 1, Seq: int64(i + 1), Kind: k, Path: word, Body: bodyOf(t, shown[k], word)}
			if k.Envelope() {
				e.From, e.Key, e.Sig = word, word, word
			}
			s.events = append(s.events, e)
		}
		return s
	}
	good, bad := visit(t, make("word")), visit(t, make(hostileWord))
	paths := []string{"/journal", "/journal?after=0", "/files", "/proof"}
	for i := range storedKinds(t) {
		paths = append(paths, fmt.Sprintf("/journal/%d", i+1))
	}
	long := func(s string) string { // texts of some length stand in a block
		return strings.ReplaceAll(strings.ReplaceAll(s, "<pre>\n", ""), "<span class=value>\n", "")
	}
	for _, path := range paths {
		doc := bad.open(path)
		if want, got := long(shape(good.open(path))), long(shape(doc)); got != want {
			t.Fatalf("%s has another shape:\n%s\nwant\n%s", path, got, want)
		}
		if text := wordsOf(doc); strings.ContainsAny(text, "\u202e\x00\x1b") || !strings.Contains(text, "alert(1)") {
			t.Errorf("%s shows %q", path, text)
		}
	}
	doc := bad.open("/journal?q=" + "%22%3E%3Cscript%3E&path=%22%3E%3Cb%3E")
	for n := range doc.Descendants() {
		if n.Data == "b" || n.Data == "script" && len(n.Attr) < 2 {
			t.Errorf("what is searched for became an element: %v", n)
		}
	}
}

// Stored content is shown as text or image, or downloaded; it is never opened as it is.
func TestStoredContentIsInert(t *testing.T) {
	png := "\x89PNG\r\n\x1a\n" + strings.Repeat("x", 20) + "<script>alert(1)</script>"
	blobs := map[string]string{
		"html":     "<!doctype html><script>alert(1)</script>",
		"svg":      `<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`,
		"pdf":      "%PDF-1.4\x00<script>",
		"polyglot": "GIF" + "<script>alert(1)</script>",
		"png":      png,
		"large":    "\x89PNG\r\n\x1a\n" + strings.Repeat("\x00", imageMost),
	}
	v := visit(t, &shelf{blobs: blobs})
	for name, content := range blobs {
		for _, way := range []string{"?raw=1", "?image=1", ""} {
			res := v.get("/files/" + name + way)
			body, _ := io.ReadAll(res.Body)
			kind, disposed, csp := res.Header.Get("Content-Type"), res.Header.Get("Content-Disposition"), res.Header.Get("Content-Security-Policy")
			switch {
			case name == "png" && way == "?image=1":
				if kind != "image/png" || csp != "sandbox; default-src 'none'" || string(body) != content {
					t.Errorf("the image is %s, %s", kind, csp)
				}
			case way == "?raw=1":
				if kind != "application/octet-stream" || !strings.HasPrefix(disposed, "attachment;") || csp != "sandbox; default-src 'none'" || string(body) != content {
					t.Errorf("%s is downloaded as %s, %s, %s", name, kind, disposed, csp)
				}
			default:
				if kind != "text/html; charset=utf-8" || csp != policy || strings.Contains(string(body), "<script>alert") || strings.Contains(string(body), "<svg xmlns=") {
					t.Errorf("%s%s is shown as %s, %s: %s", name, way, kind, csp, body)
				}
			}
			if res.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s%s may be sniffed", name, way)
			}
		}
	}
	for name, want := range map[string]string{"../../etc/passwd": "passwd", "a\r\nb\".html": "a__b_.html", "": "file", "...": "file", `c:\x\é.txt`: "_.txt"} {
		if got := safeName(name); got != want {
			t.Errorf("%q is called %q, want %q", name, got, want)
		}
	}
}

// Long text is shown in parts that split no character and leave nothing out.
func TestTextInParts(t *testing.T) {
	whole := strings.Repeat("äöü€\n", shownBytes/5)
	v := visit(t, &shelf{blobs: map[string]string{"text": whole}})
	var got strings.Builder
	for path, parts := "/files/text", 0; path != "" && parts < 10; parts++ {
		doc := v.open(path)
		path = ""
		for n := range doc.Descendants() {
			if n.Data == "pre" {
				got.WriteString(n.FirstChild.Data)
			}
			if n.Data == "a" && n.FirstChild != nil && n.FirstChild.Data == "Next part" {
				path = strings.TrimPrefix(n.Attr[0].Val, "/ui/runs/"+v.id)
			}
		}
	}
	if got.String() != whole {
		t.Errorf("%d bytes are shown of %d", got.Len(), len(whole))
	}
}

func TestPatch(t *testing.T) {
	p := readPatch("diff --git a/x.txt b/x.txt\n--- a/x.txt\n+++ b/x.txt\n@@ -3,3 +3,4 @@ f\n a\n--- b\n+++ c\n+d\n e\ndiff --git a/y b/y\nnew file mode 100644\n@@ -0,0 +1 @@\n+z\n", patchLines)
	if len(p.Files) != 2 || p.Added != 3 || p.Removed != 1 || p.Files[0].Name != "x.txt" || p.Files[1].Name != "y" {
		t.Fatalf("%+v", p)
	}
	want := []patchLine{{"note", 0, 0, "--- a/x.txt"}, {"note", 0, 0, "+++ b/x.txt"}, {"place", 0, 0, "@@ -3,3 +3,4 @@ f"}, {"", 3, 3, " a"}, {"removed", 4, 0, "--- b"}, {"added", 0, 4, "+++ c"}, {"added", 0, 5, "+d"}, {"", 5, 6, " e"}}
	if !slices.Equal(p.Files[0].Lines, want) {
		t.Errorf("%+v", p.Files[0].Lines)
	}
}

func TestCostText(t *testing.T) {
	for _, c := range []struct {
		cost       tipstaff.USD
		exact, sum bool
		want       string
	}{
		{1_500_000_000, true, false, "$1.50"}, {0, true, true, "$0.00"}, {0, false, false, "unknown"}, {0, false, true, "≥ $0.00"}, {1_500_000_000, false, false, "≥ $1.50"}, {1_500_000_000, false, true, "≥ $1.50"},
	} {
		if got := costText(tipstaff.Metric{CostUSD: c.cost, Exact: c.exact}, c.sum); got != c.want {
			t.Errorf("%+v is shown as %s", c, got)
		}
	}
}
