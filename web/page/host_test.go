package page

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

// A cookie that other servers of this machine are sent, too, is nobody's; who shows a token at an
// address that is not the page's alone is told its own name, and nobody else is.
func TestSessionsAreUnderTheNameOfThePage(t *testing.T) {
	tokens, err := tipstaff.NewTokens(tipstaff.Token{User: "alice", Secret: "the-token-of-alice"})
	if err != nil {
		t.Fatal(err)
	}
	site := New(tipstaff.Control{Now: time.Now}, Options{Tokens: tokens, Host: "0123456789.localhost"})
	ask := func(method, host, path string, form url.Values, cookie string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://"+host+path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://"+host)
		if cookie != "" {
			r.AddCookie(&http.Cookie{Name: "tipstaff_8080", Value: cookie})
		}
		w := httptest.NewRecorder()
		site.ServeHTTP(w, r)
		return w
	}
	holds := func(host, cookie string) bool {
		r := httptest.NewRequest("GET", "http://"+host+"/ui/", nil)
		r.AddCookie(&http.Cookie{Name: "tipstaff_8080", Value: cookie})
		return site.session(r) != nil
	}
	good := newSession(tokens.BearersOf(surface, "alice")[0], time.Now(), time.Now()).value()
	for _, host := range []string{"127.0.0.1:8080", "localhost:8080", "[::1]:8080", "LOCALHOST:8080"} {
		w := ask("POST", host, "/ui/signin", url.Values{"token": {"the-token-of-alice"}, "next": {"/ui/runs"}}, "")
		if w.Code != http.StatusOK || w.Header().Get("Set-Cookie") != "" || !strings.Contains(w.Body.String(), "http://0123456789.localhost:8080/ui/signin?code=") {
			t.Errorf("a token at %s is answered %d, %q: %s", host, w.Code, w.Header().Get("Set-Cookie"), w.Body)
		}
		for what, w := range map[string]*httptest.ResponseRecorder{
			"nobody":        ask("GET", host, "/ui/signin", nil, ""),
			"a wrong token": ask("POST", host, "/ui/signin", url.Values{"token": {"the-token-of-alicia"}}, ""),
			"a cookie":      ask("GET", host, "/ui/runs", nil, good),
		} {
			if text := w.Body.String() + w.Header().Get("Location"); strings.Contains(text, "0123456789") || strings.Contains(text, "alice") {
				t.Errorf("%s at %s is told %s", what, host, text)
			}
		}
	}
	w := ask("POST", "0123456789.localhost:8080", "/ui/signin", url.Values{"token": {"the-token-of-alice"}}, "")
	if w.Code != http.StatusSeeOther || !strings.Contains(w.Header().Get("Set-Cookie"), "tipstaff_8080=") {
		t.Errorf("a token under its name is answered %d, %q", w.Code, w.Header().Get("Set-Cookie"))
	}
	for host, want := range map[string]bool{"127.0.0.1:8080": false, "localhost:8080": false, "[::1]:8080": false, "0123456789.localhost:8080": true, "tipstaff.example.com:8080": true} {
		if holds(host, good) != want {
			t.Errorf("a cookie holds at %s: %v", host, !want)
		}
	}
}
