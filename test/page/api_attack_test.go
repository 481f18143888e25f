package page_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/test/webtest"
)

// place is a route with the names that it takes filled in.
type place struct{ method, path, pattern string }

// places are all routes that are described, about a run of somebody.
func places(run, gate string) (all []place) {
	for path, methods := range describedRoutes().Paths {
		for method := range methods {
			at := strings.NewReplacer("{run}", run, "{gate}", gate, "{seq}", "1", "{name}", "x").Replace(path)
			all = append(all, place{strings.ToUpper(method), at, path})
		}
	}
	return all
}

// Whoever has no token, or comes by another name or from another page, is refused on every
// route; whoever has one has to do with what is its own.
func TestStrangersAreRefusedOnEveryRoute(t *testing.T) {
	b := newAPI(t)
	run := b.start("alice", webtest.Gated("a.txt"))
	gate := b.Rest(run).OpenGates[0].ID.String()
	head := b.Rest(run).HeadSeq
	all := places(run, gate)
	if len(all) < 24 {
		t.Fatalf("there are %d routes", len(all))
	}
	public := map[string]bool{"/healthz": true, "/readyz": true, "/version": true}
	for _, p := range all {
		body := any(nil)
		if p.method == "POST" {
			body = object{}
		}
		check := func(what string, want int, code, user string, with ...func(*http.Request)) {
			t.Helper()
			if public[p.path] && want == 401 {
				want, code = 200, ""
			}
			a := b.do(user, p.method, p.path, body, with...)
			if a.status != want || code != "" && a.code(t) != code {
				t.Errorf("%s: %s %s is answered %d: %s", what, p.method, p.path, a.status, a.body)
			}
		}
		check("no token", 401, "unauthenticated", "")
		check("a wrong token", 401, "unauthenticated", "", header("Authorization", "Bearer the-token-of-nobody"))
		check("two tokens", 401, "unauthenticated", "alice", func(r *http.Request) { r.Header.Add("Authorization", "Bearer the-token-of-bob") })
		check("another scheme", 401, "unauthenticated", "", header("Authorization", "Basic the-token-of-alice"))
		check("a user by header", 401, "unauthenticated", "", header("X-User", "alice"), header("X-Forwarded-User", "alice"), header("Remote-User", "root"))
		check("a foreign host", 403, "forbidden", "alice", func(r *http.Request) { r.Host = "evil.example:80" })
		check("our address at another port", 403, "forbidden", "alice", func(r *http.Request) { r.Host = "127.0.0.1:1" })
		check("a foreign origin", 403, "forbidden", "alice", header("Origin", "http://evil.example"))
		check("no origin at all", 403, "forbidden", "alice", header("Origin", "null"))
		if strings.Contains(p.pattern, "{run}") {
			if strings.HasSuffix(p.pattern, "/decision") {
				body = object{"action": "approve"}
			}
			check("another user's", 403, "forbidden", "bob")
			check("another user's, by header", 403, "forbidden", "bob", header("X-User", "alice"))
			if p.method == "POST" {
				check("without the scope", 403, "forbidden", "reader")
			}
			body = nil
			if p.method == "POST" {
				body = object{}
			}
			for _, id := range []string{"..%2Fx", "..", strings.ToLower(run), run[1:], run + "0", "%00", "01J%20"} {
				bad := strings.Replace(p.path, run, id, 1)
				if a := b.do("alice", p.method, bad, body); a.status != 400 || a.code(t) != "invalid_argument" {
					t.Errorf("%s %s is answered %d: %s", p.method, bad, a.status, a.body)
				}
			}
			unknown := strings.Replace(p.path, run, "01ARZ3NDEKTSV4RRFFQ69G5FAV", 1)
			if strings.HasSuffix(unknown, "/decision") {
				body = object{"action": "approve"}
			}
			if a := b.do("alice", p.method, unknown, body); a.status != 404 || a.code(t) != "run_not_found" {
				t.Errorf("%s %s is answered %d: %s", p.method, unknown, a.status, a.body)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(b.Dir, "x")); err == nil {
		t.Error("a path has made a file")
	}
	// Nothing of all that has changed the run; an admin sees it, others do not even list it.
	if got := b.get("root", "/runs/"+run); got.status != 200 || got.member(t, "user") != "alice" || got.member(t, "head_seq") != float64(head) {
		t.Errorf("the admin sees %s", got.body)
	}
	for _, path := range []string{"/runs", "/pending", "/threads"} {
		if a := b.get("bob", path); strings.Contains(string(a.body), run) {
			t.Errorf("bob is told %s of what is alice's", path)
		}
		if a := b.get("root", path); path != "/threads" && !strings.Contains(string(a.body), run) {
			t.Errorf("the admin is not told %s", path)
		}
	}
	// The other names of the server are let in, and our own page.
	for what, with := range map[string]func(*http.Request){
		"a name": func(r *http.Request) { r.Host = "box.example" }, "with a port": func(r *http.Request) { r.Host = "box.example:443" },
		"localhost": func(r *http.Request) { r.Host = strings.Replace(b.Addr, "127.0.0.1", "localhost", 1) }, "our page": header("Origin", "http://"+b.Addr),
	} {
		if a := b.do("alice", "GET", "/runs", nil, with); a.status != 200 {
			t.Errorf("%s is answered %d: %s", what, a.status, a.body)
		}
	}
	for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS"} {
		if a := b.do("alice", method, "/runs", nil); a.status != 405 || a.header.Get("Allow") != "POST, GET" {
			t.Errorf("%s is answered %d, Allow: %s", method, a.status, a.header.Get("Allow"))
		}
	}
	for _, path := range []string{"/nothing", "/runs/" + run + "/nothing", "/runs/" + run + "/", "//runs", "/runs/" + run + "/gates/"} {
		if a := b.get("alice", path); a.status != 404 {
			t.Errorf("%s is answered %d", path, a.status)
		}
	}
}

// Bodies are JSON, small and flat, with the members that are known; what is said about
// others is short.
func TestBodies(t *testing.T) {
	b := newAPI(t)
	run := b.start("alice", webtest.Gated("a.txt"))
	gate := b.Rest(run).OpenGates[0].ID.String()
	long := strings.Repeat("k", 1<<20)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(bytes.Repeat([]byte(" "), 8<<20))
	_ = z.Close()
	plan := func(n int) string {
		var lines strings.Builder
		lines.WriteString("kind: plan\nversion: 1\n")
		for i := range n {
			lines.WriteString("wrong" + strings.Repeat("g", i%7) + string(rune('a'+i%26)) + strings.Repeat("x", i/26%100) + ": " + strings.Repeat("y", i/2600) + "\n")
		}
		return lines.String()
	}
	chunked := func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(r.Body), -1 }
	decision := "/runs/" + run + "/gates/" + gate + "/decision"
	for name, tc := range map[string]struct {
		path   string
		body   any
		with   func(*http.Request)
		status int
		code   tipstaff.Code
	}{
		"not JSON":            {"/runs", "kind: plan", nil, 400, tipstaff.InvalidArgument},
		"another type":        {"/runs", "{}", func(r *http.Request) { r.Header.Set("Content-Type", "text/yaml") }, 415, tipstaff.InvalidArgument},
		"a form":              {"/runs", "a=b", func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, 415, tipstaff.InvalidArgument},
		"compressed":          {"/runs", packed.String(), header("Content-Encoding", "gzip"), 415, tipstaff.InvalidArgument},
		"too long":            {"/runs", `{"prose": "` + strings.Repeat("a", 5<<20) + `"}`, nil, 413, tipstaff.InvalidArgument},
		"too long in chunks":  {"/runs", `{"prose": "` + strings.Repeat("a", 5<<20) + `"}`, chunked, 413, tipstaff.InvalidArgument},
		"too deep":            {"/runs", `{"inputs": {"a": ` + strings.Repeat("[", 1<<20) + `}}`, nil, 400, tipstaff.InvalidArgument},
		"deep and whole":      {"/runs", `{"prose":"a", "inputs": {"a": ` + strings.Repeat("[", 101) + strings.Repeat("]", 101) + `}}`, nil, 400, tipstaff.InvalidArgument},
		"twice":               {"/runs", `{"prose": "a", "prose": "b"}`, nil, 400, tipstaff.InvalidArgument},
		"not UTF-8":           {"/runs", "{\"prose\": \"\xff\"}", nil, 400, tipstaff.InvalidArgument},
		"two values":          {"/runs", `{} {}`, nil, 400, tipstaff.InvalidArgument},
		"a list":              {"/runs", `[]`, nil, 400, tipstaff.InvalidArgument},
		"empty":               {"/runs", ``, nil, 400, tipstaff.InvalidArgument},
		"a member unknown":    {"/runs", object{long: 1}, nil, 400, tipstaff.InvalidArgument},
		"a user":              {"/runs", object{"prose": "a", "user": "bob"}, nil, 400, tipstaff.InvalidArgument},
		"neither":             {"/runs", object{}, nil, 400, tipstaff.InvalidArgument},
		"both":                {"/runs", object{"prose": "a", "program": "b"}, nil, 400, tipstaff.InvalidArgument},
		"a number for prose":  {"/runs", object{"prose": 5}, nil, 400, tipstaff.InvalidArgument},
		"a bound unknown":     {"/runs", object{"prose": "a", "bounds": object{"luck": 1}}, nil, 400, tipstaff.InvalidArgument},
		"accepted by nobody":  {"/runs", object{"prose": "a", "accept": long}, nil, 400, tipstaff.InvalidArgument},
		"accepted in advance": {"/runs", object{"prose": "a", "accept": "auto"}, nil, 403, tipstaff.Forbidden},
		"a bad program":       {"/runs", object{"program": plan(10_000)}, nil, 422, tipstaff.InvalidProgram},
		"a file":              {"/runs", object{"program": "kind: plan\nversion: 1\nfiles: checkout\nroot: {id: a, kind: gate, question: '?'}"}, nil, 409, tipstaff.Refused},
		"two keys":            {"/runs", object{"prose": "a"}, func(r *http.Request) { r.Header["Idempotency-Key"] = []string{"a", "b"} }, 400, tipstaff.InvalidArgument},
		"a wait":              {"/messages", object{"prose": "a", "wait": 601}, nil, 400, tipstaff.InvalidArgument},
		"a negative wait":     {"/messages", object{"prose": "a", "wait": -1}, nil, 400, tipstaff.InvalidArgument},
		"an action unknown":   {decision, object{"action": long}, nil, 422, tipstaff.ActionNotOffered},
		"a long note":         {decision, object{"action": "approve", "note": long}, nil, 400, tipstaff.InvalidArgument},
		"another subject":     {decision, object{"action": "approve", "subject_digest": "sha256:" + strings.Repeat("0", 64)}, nil, 409, tipstaff.SubjectChanged},
		"a mode unknown":      {"/runs/" + run + "/cancel", object{"mode": long}, nil, 400, tipstaff.InvalidArgument},
		"a place unknown":     {"/runs/" + run + "/fork", object{"at": 1 << 40}, nil, 400, tipstaff.CursorBeyondHead},
		"a correction":        {"/runs/" + run + "/resume", object{"correction": object{"program": 5, "reason": "why"}}, nil, 400, tipstaff.InvalidArgument},
		"a bad correction":    {"/runs/" + run + "/resume", object{"correction": object{"program": plan(3), "reason": "why"}}, nil, 422, tipstaff.CorrectionInvalid},
		"an unsafe number":    {"/messages", `{"prose": "a", "inputs": {"a": 1e999999999}}`, nil, 400, tipstaff.InvalidArgument},
	} {
		with := tc.with
		if with == nil {
			with = func(*http.Request) {}
		}
		a := b.do("alice", "POST", tc.path, tc.body, with)
		if a.status != tc.status || a.code(t) != string(tc.code) {
			t.Errorf("%s: it is answered %d: %.300s", name, a.status, a.body)
		}
		if strings.Contains(string(a.body), strings.Repeat("k", 101)) || strings.Contains(string(a.body), b.Dir) || strings.Contains(string(a.body), "Go ") {
			t.Errorf("%s: it is told %.500s", name, a.body)
		}
	}
	for _, query := range []string{"limit=0", "limit=201", "limit=-1", "limit=x", "limit=1&limit=2", "after=x", "after=" + strings.ToLower(run), "status=a%ff&nothing=1"} {
		if a := b.get("alice", "/runs?"+query); a.status != 400 {
			t.Errorf("?%s is answered %d: %s", query, a.status, a.body)
		}
	}
	if got := b.get("alice", "/runs"); got.member(t, "total") != 1.0 {
		t.Errorf("what was refused has made %s", got.body)
	}
	// The body may be missing where nothing in it must be there.
	if a := b.do("alice", "POST", "/runs/"+run+"/cancel", nil); a.status != 202 || a.member(t, "state") != "cancelled" {
		t.Errorf("it is answered %d: %s", a.status, a.body)
	}
}
