package page_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/test/webtest"
)

// policy is what the specification of the page says of every response.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types tipstaff"

// What other sites have a browser send changes nothing: neither those on another host nor
// those on another port, nor forms without the token of the session.
func TestFormsFromElsewhere(t *testing.T) {
	b := newBed(t)
	w, bob := b.browser("alice"), b.browser("bob")
	form, choice := w.form(), url.Values{"theme": {"dark"}}
	dark := func() bool {
		return strings.Contains(w.open("/ui/settings").body, `data-theme="dark"`)
	}
	own := func() url.Values { return url.Values{"form": {form}, "theme": {"dark"}} }
	for name, try := range map[string]func() page{
		"another host": func() page {
			return w.post("/ui/settings", own(), header("Origin", "http://elsewhere.example"), header("Sec-Fetch-Site", "cross-site"))
		},
		"another host, old browser": func() page {
			return w.post("/ui/settings", own(), header("Origin", "http://elsewhere.example"), without("Sec-Fetch-Site"))
		},
		"another port": func() page {
			return w.post("/ui/settings", own(), header("Origin", "http://127.0.0.1:1"), without("Sec-Fetch-Site"))
		},
		"another port, same site": func() page {
			return w.post("/ui/settings", own(), header("Sec-Fetch-Site", "same-site"), without("Origin"))
		},
		"an origin that is hidden":    func() page { return w.post("/ui/settings", own(), header("Origin", "null"), without("Sec-Fetch-Site")) },
		"nothing that tells":          func() page { return w.post("/ui/settings", own(), without("Origin", "Sec-Fetch-Site")) },
		"another Host":                func() page { return w.post("/ui/settings", own(), header("Host", "elsewhere.example")) },
		"no token":                    func() page { return w.post("/ui/settings", choice) },
		"the token of another person": func() page { return w.post("/ui/settings", url.Values{"form": {bob.form()}, "theme": {"dark"}}) },
		"the token in the address":    func() page { return w.post("/ui/settings?form="+form, choice) },
	} {
		if p := try(); p.status != http.StatusForbidden && !(name == "another Host" && p.status == http.StatusMisdirectedRequest) || dark() {
			t.Errorf("%s: %d, dark: %v", name, p.status, dark())
		}
	}
	if p := b.stranger().post("/ui/signin", url.Values{"token": {b.secret("alice")}}, header("Origin", "http://elsewhere.example"), without("Sec-Fetch-Site")); p.status != http.StatusForbidden {
		t.Errorf("signing somebody in from elsewhere is answered %d", p.status)
	}
	if p := w.get("/ui/", header("Host", "elsewhere.example")); p.status < 400 {
		t.Errorf("under another name the inbox is answered %d", p.status)
	}
	for _, path := range []string{"/ui/?part=inbox", "/ui/runs?part=runs"} {
		if p := w.get(path, header("Sec-Fetch-Site", "same-site")); p.status != http.StatusForbidden {
			t.Errorf("%s for a page elsewhere is answered %d", path, p.status)
		}
		if p := w.get(path, header("Sec-Fetch-Site", "same-origin")); p.status != http.StatusOK {
			t.Errorf("%s is answered %d", path, p.status)
		}
	}
	if p := w.post("/ui/settings", own()); p.status != http.StatusSeeOther || !dark() {
		t.Errorf("what is sent from here is answered %d", p.status)
	}
}

// routes are the patterns that the sources of the page name.
func routes(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	sources, err := filepath.Glob("../../web/page/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && (strings.HasPrefix(text, "GET /ui/") || strings.HasPrefix(text, "POST /ui/")) {
					found[text] = true
				}
			}
			return true
		})
	}
	if len(found) < 8 {
		t.Fatalf("the routes are %v", found)
	}
	return slices.Sorted(maps.Keys(found))
}

var placeholder = regexp.MustCompile(`\{[a-z]+(\.\.\.)?\}`)

// Every route is closed to who has not signed in, to other users and to who lacks the right,
// and every answer has the headers that keep foreign content out.
func TestEveryRoute(t *testing.T) {
	reading := tipstaff.Token{User: "alice", Secret: "a token that reads alone", Scopes: []string{tipstaff.ScopeRead}}
	b := newBed(t, func(b *webtest.Bed) { b.Tokens = append(slices.Clone(b.Tokens), reading) })
	run := b.start("alice", webtest.Gated("a.txt"))
	gate := run.OpenGates[0]
	alice, bob, root, stranger := b.browser("alice"), b.browser("bob"), b.browser("root"), b.stranger()
	reader := b.stranger()
	if p := reader.post("/ui/signin", url.Values{"token": {reading.Secret}}); p.status != http.StatusSeeOther {
		t.Fatal(p.status)
	}
	fill := map[string]string{"{run}": run.ID.String(), "{gate}": gate.ID.String(), "{seq}": "2", "{digest}": run.Head, "{$}": ""}
	unchanged := func(who, what string) {
		t.Helper()
		if now := b.Rest(run.ID.String()); now.HeadSeq != run.HeadSeq || len(now.OpenGates) != 1 {
			t.Fatalf("%s has changed the run by %s", who, what)
		}
	}
	for _, pattern := range routes(t) {
		method, path, _ := strings.Cut(pattern, " ")
		if strings.HasPrefix(path, "/ui/signin") || strings.HasPrefix(path, "/ui/assets/") {
			continue // open to all
		}
		path = strings.ReplaceAll(path, "{$}", "")
		path = placeholder.ReplaceAllStringFunc(path, func(name string) string {
			if value, known := fill[name]; known {
				return value
			}
			return "x"
		})
		ofRun := strings.Contains(pattern, "{run}")
		ask := func(w *browser) page {
			t.Helper()
			if method == http.MethodGet {
				return w.get(path)
			}
			return w.send(path, url.Values{})
		}
		if method == http.MethodPost {
			if p := stranger.post(path, url.Values{"form": {alice.form()}}); p.status != http.StatusUnauthorized && p.status != http.StatusForbidden {
				t.Errorf("%s without a session is answered %d", pattern, p.status)
			}
			if p := alice.post(path, url.Values{}); p.status != http.StatusForbidden {
				t.Errorf("%s without the token of forms is answered %d", pattern, p.status)
			}
		} else if p := stranger.get(path); p.status != http.StatusSeeOther && p.status != http.StatusUnauthorized || p.status == http.StatusSeeOther && !strings.HasPrefix(p.header.Get("Location"), "/ui/signin?") {
			t.Errorf("%s without a session is answered %d", pattern, p.status)
		} else if got := p.header.Values("Content-Security-Policy"); len(got) != 1 || got[0] != policy {
			t.Errorf("%s without a session has the policy %q", pattern, got)
		}
		unchanged("nobody", pattern)
		if path == "/ui/signout" || path == "/ui/stream" {
			continue
		}
		if ofRun {
			if p := ask(bob); p.status != http.StatusForbidden {
				t.Errorf("%s of another user is answered %d", pattern, p.status)
			}
			unchanged("bob", pattern)
			if p := ask(root); method == http.MethodGet && p.status == http.StatusForbidden {
				t.Errorf("%s is closed to an administrator", pattern)
			}
			if method == http.MethodPost {
				run = b.Rest(run.ID.String())
				if p := ask(reader); p.status < 400 && !strings.HasSuffix(path, "/proof") { // which only reads
					t.Errorf("%s with the right to read is answered %d", pattern, p.status)
				}
				unchanged("a reader", pattern)
			}
		}
		if method == http.MethodPost {
			continue
		}
		p := ask(alice)
		if p.status == http.StatusInternalServerError {
			t.Errorf("%s is answered %d", pattern, p.status)
		}
		if disposed := p.header.Get("Content-Disposition"); disposed != "" {
			continue // stored content has a stricter policy
		}
		if got := p.header.Values("Content-Security-Policy"); len(got) != 1 || got[0] != policy {
			t.Errorf("%s has the policy %q", pattern, got)
		}
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store"} {
			if got := p.header.Get(name); got != want {
				t.Errorf("%s has %s: %q", pattern, name, got)
			}
		}
	}
	for _, path := range []string{"/ui/signin", "/ui/nothing", "/ui/assets/x/y", "/ui/runs/x", "/ui"} {
		if got := alice.get(path).header.Values("Content-Security-Policy"); len(got) != 1 || got[0] != policy {
			t.Errorf("%s has the policy %q", path, got)
		}
	}
}

// What belongs to another user is in no list, count or title; an administrator sees it.
func TestWhatBelongsToOthers(t *testing.T) {
	b := newBed(t)
	run := b.start("alice", strings.Replace(webtest.Gated("a.txt"), "Go on?", "Shall the hedgehog go on?", 1))
	id := run.ID.String()
	for user, sees := range map[string]bool{"alice": true, "bob": false, "root": true} {
		w := b.browser(user)
		for _, path := range []string{"/ui/", "/ui/runs", "/ui/runs?status=awaiting_decision,awaiting_phase_handoff,awaiting_delivery", "/ui/runs?part=runs&q=" + id[:10], "/ui/?part=inbox", "/ui/runs?part=runs"} {
			p := w.open(path)
			if strings.Contains(p.body, id) != sees {
				t.Errorf("%s in %s: %v", user, path, !sees)
			}
			if !sees && (strings.Contains(p.body, "hedgehog") || strings.Contains(p.body, run.OpenGates[0].ID.String())) {
				t.Errorf("%s learns of the gate in %s", user, path)
			}
		}
		if p := w.get("/ui/runs?q=" + id[:10]); (p.header.Get("Location") == "/ui/runs/"+id) != sees || strings.Contains(p.body, id) != sees {
			t.Errorf("a search of %s is answered %d, %s", user, p.status, p.header.Get("Location"))
		}
		if title := textOf(w.open("/ui/").all("title")[0]); strings.Contains(title, "(1)") != sees {
			t.Errorf("%s has the title %q", user, title)
		}
		counted := textOf(w.open("/ui/runs").all("dl")[0])
		if strings.Contains(counted, "Waiting 1") != sees {
			t.Errorf("%s is told %q", user, counted)
		}
		want := http.StatusOK
		if !sees {
			want = http.StatusForbidden
		}
		if p := w.get("/ui/runs/" + id); p.status != want || !sees && strings.Contains(p.body, "hedgehog") {
			t.Errorf("%s is answered %d", user, p.status)
		}
		if p := w.get(fmt.Sprintf("/ui/compare?a=%s&b=%s", id, id)); !sees && p.status < 400 {
			t.Errorf("%s compares it: %d", user, p.status)
		}
	}
}
