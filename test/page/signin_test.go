package page_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/test/webtest"
)

// code asks for a link as a program of a user does, and gives its code.
func (b *bed) code(user string) string {
	b.Helper()
	p := b.stranger().do("POST", "/signin-codes", nil, header("Authorization", "Bearer "+b.secret(user)))
	var link struct {
		URL       string
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal([]byte(p.body), &link); err != nil || p.status != http.StatusCreated {
		b.Fatalf("a link is answered %d: %s", p.status, p.body)
	}
	code, ok := strings.CutPrefix(link.URL, "http://"+b.Addr+"/ui/signin?code=")
	if left := time.Until(link.ExpiresAt); !ok || left <= 0 || left > 5*time.Minute {
		b.Fatalf("the link is %s", p.body)
	}
	return code
}

// ahead moves the clock of the page.
func (b *bed) ahead(d time.Duration) { b.Ahead.Add(int64(d)) }

// signed reports whether a browser has a session.
func (w *browser) signed() bool {
	w.Helper()
	p := w.get("/ui/whoami")
	if p.status == http.StatusOK {
		return true
	}
	if p.status != http.StatusSeeOther {
		w.Fatalf("whoami is answered %d", p.status)
	}
	return false
}

// cookie is that of the session of a browser.
func (w *browser) cookie() *http.Cookie {
	w.Helper()
	at, err := url.Parse("http://" + w.Addr + "/ui/")
	if err != nil {
		w.Fatal(err)
	}
	for _, c := range w.Jar.Cookies(at) {
		if strings.HasPrefix(c.Name, "tipstaff_") && c.Name != "tipstaff_look" {
			return c
		}
	}
	w.Fatal("there is no session")
	return nil
}

// with is a browser that has a session's cookie, under the name that this daemon gives it.
func (b *bed) with(value string) *browser {
	_, port, _ := strings.Cut(b.Addr, ":")
	w := b.stranger()
	w.Jar.SetCookies(&url.URL{Scheme: "http", Host: b.Addr, Path: "/ui"}, []*http.Cookie{{Name: "tipstaff_" + port, Value: value, Path: "/ui"}})
	return w
}

// A link shows whom it signs in as often as it is opened, and does so once.
func TestALinkSignsInOnce(t *testing.T) {
	b := newBed(t)
	code := b.code("alice")
	for range 3 {
		if p := b.stranger().open("/ui/signin?" + url.Values{"code": {code}}.Encode()); !strings.Contains(p.text(), "Sign in as alice") || p.header.Get("Set-Cookie") != "" {
			t.Errorf("the link shows %s and sets %q", p.text(), p.header.Get("Set-Cookie"))
		}
	}
	w := b.stranger()
	if p := w.post("/ui/signin", url.Values{"code": {code}, "next": {"/ui/runs?status=failed"}}); p.status != http.StatusSeeOther || p.header.Get("Location") != "/ui/runs?status=failed" {
		t.Errorf("the button is answered %d, to %s", p.status, p.header.Get("Location"))
	}
	if who := w.open("/ui/whoami").body; !strings.Contains(who, `"user":"alice"`) {
		t.Errorf("it has signed in %q", who)
	}
	again := b.stranger()
	if p := again.post("/ui/signin", url.Values{"code": {code}}); p.status != http.StatusForbidden || again.signed() {
		t.Errorf("used again it is answered %d", p.status)
	}
	if p := again.open("/ui/signin?" + url.Values{"code": {code}}.Encode()); strings.Contains(p.text(), "alice") {
		t.Errorf("what was used shows %s", p.text())
	}

	late := b.code("bob")
	b.ahead(5*time.Minute + time.Second)
	if p := again.post("/ui/signin", url.Values{"code": {late}}); p.status != http.StatusForbidden || again.signed() {
		t.Errorf("after five minutes it is answered %d", p.status)
	}
}

// Nobody is sent elsewhere after signing in.
func TestSigningInLeadsNowhereElse(t *testing.T) {
	b := newBed(t)
	for _, next := range []string{"https://elsewhere.example/", "//elsewhere.example/", "/\\elsewhere.example", "/ui/..//elsewhere.example", "/runs", "javascript:alert(1)", "/ui/\r\nSet-Cookie: a=b", ""} {
		if p := b.stranger().post("/ui/signin", url.Values{"token": {b.secret("alice")}, "next": {next}}); p.header.Get("Location") != "/ui/" {
			t.Errorf("%q leads to %s", next, p.header.Get("Location"))
		}
	}
}

// Of wrong tokens and codes an address has ten in a minute; then even a right one is refused.
func TestGuessing(t *testing.T) {
	b := newBed(t)
	w := b.stranger()
	for i := range 10 {
		form := url.Values{"token": {"wrong"}}
		if i%2 == 1 {
			form = url.Values{"code": {"WRONG"}}
		}
		if p := w.post("/ui/signin", form); p.status != http.StatusForbidden {
			t.Fatalf("guess %d is answered %d", i, p.status)
		}
	}
	if p := w.post("/ui/signin", url.Values{"token": {b.secret("alice")}}); p.status != http.StatusTooManyRequests || w.signed() {
		t.Errorf("after ten guesses a right token is answered %d", p.status)
	}
	if p := w.get("/ui/signin?code=GUESS"); p.status != http.StatusTooManyRequests {
		t.Errorf("after ten guesses a link is answered %d", p.status)
	}
	b.ahead(time.Minute + time.Second)
	if !b.browser("alice").signed() {
		t.Error("after a minute nobody can sign in")
	}
}

// A session is what its token has signed, as long as it is meant to last, until it is ended.
func TestWhatIsNoSession(t *testing.T) {
	b, other := newBed(t), newBed(t, func(b *webtest.Bed) { b.Tokens = []tipstaff.Token{{User: "alice", Secret: "another token of alice"}} })
	w := b.browser("alice")
	good := w.cookie().Value
	if !b.with(good).signed() {
		t.Fatal("a session is none")
	}
	for i := range good {
		changed := []byte(good)
		if changed[i] = 'A'; good[i] == 'A' {
			changed[i] = 'B'
		}
		if i < len(good)-1 && b.with(string(changed)).signed() { // the last character has bits that mean nothing
			t.Errorf("with another character %d it is a session", i)
		}
	}
	for name, value := range map[string]string{"cut": good[:len(good)-4], "longer": good + "AAAA", "nothing": "", "of another daemon": other.browser("alice").cookie().Value} {
		if b.with(value).signed() {
			t.Errorf("%s is a session", name)
		}
	}

	if p := w.send("/ui/signout", nil); p.status != http.StatusSeeOther || w.signed() {
		t.Errorf("signing out is answered %d", p.status)
	}
	if b.with(good).signed() {
		t.Error("the copy of a session that was signed out is one")
	}

	kept := b.browser("bob").cookie().Value
	b.ahead(24*time.Hour + time.Second)
	if b.with(kept).signed() {
		t.Error("a session lasts longer than a day unused")
	}
}

// A session that is used lasts, but no longer than a week; its copies end with it.
func TestASessionIsRenewed(t *testing.T) {
	b := newBed(t)
	w := b.browser("alice")
	first, form := w.cookie().Value, w.form()
	b.ahead(11 * time.Hour)
	if w.open("/ui/"); w.cookie().Value != first {
		t.Error("it is renewed in the first half of its life")
	}
	b.ahead(2 * time.Hour)
	copied := b.with(first)
	if copied.open("/ui/"); copied.cookie().Value == first {
		t.Error("it is not renewed in the second half")
	}
	if p := w.post("/ui/signout", url.Values{"form": {form}}); p.status != http.StatusSeeOther {
		t.Fatalf("signing out is answered %d", p.status)
	}
	b.ahead(12 * time.Hour)
	if b.browser("bob").send("/ui/signout", nil); copied.signed() { // which forgets who has expired
		t.Error("a renewed copy outlives signing out")
	}

	w = b.browser("alice")
	for day := range 13 {
		if b.ahead(13 * time.Hour); w.signed() != (time.Duration(day+1)*13*time.Hour < 7*24*time.Hour) {
			t.Fatalf("after %d half days its session is %v", day+1, w.signed())
		}
	}
}

// A token that is changed or removed ends its sessions; a restart alone ends none.
func TestTokensEndSessions(t *testing.T) {
	b := newBed(t)
	alice, bob := b.browser("alice"), b.browser("bob")
	b.Close()
	b.Tokens = []tipstaff.Token{{User: "alice", Secret: b.secret("alice")}, {User: "bob", Secret: "a changed token of bob"}}
	b.Open()
	if !alice.signed() {
		t.Error("a restart has ended a session")
	}
	if bob.signed() {
		t.Error("a session outlives its token")
	}
	b.Close()
	b.Tokens = b.Tokens[1:]
	b.Open()
	if alice.signed() {
		t.Error("a session outlives a token that was removed")
	}
}

// The cookie is for the page alone, and the page for the cookie alone.
func TestTheCookieAndTheToken(t *testing.T) {
	b := newBed(t)
	run := b.start("alice", webtest.Gated("a.txt"))
	w := b.browser("alice")
	set := b.stranger().post("/ui/signin", url.Values{"token": {b.secret("alice")}}).header.Get("Set-Cookie")
	for _, want := range []string{"Path=/ui", "HttpOnly", "SameSite=Lax"} {
		if !strings.Contains(set, want) {
			t.Errorf("the cookie %s is not %s", set, want)
		}
	}
	sent := header("Cookie", w.cookie().String()) // as no browser does
	for _, path := range []string{"/runs", "/gates", "/runs/" + run.ID.String(), "/metrics", "/threads", "/mcp", "/openapi.json"} {
		if p := b.stranger().get(path, sent); p.status != http.StatusUnauthorized {
			t.Errorf("the cookie opens %s: %d %s", path, p.status, p.body)
		}
	}
	bearer := header("Authorization", "Bearer "+b.secret("alice"))
	for _, path := range []string{"/ui/", "/ui/runs", "/ui/runs/" + run.ID.String(), "/ui/settings", "/ui/whoami"} {
		if p := b.stranger().get(path, bearer); p.status != http.StatusSeeOther {
			t.Errorf("a bearer token opens %s: %d", path, p.status)
		}
	}
	if p := b.stranger().get("/ui/whoami", header("Sec-Fetch-Mode", "cors")); p.status != http.StatusUnauthorized {
		t.Errorf("a script that has no session is answered %d", p.status)
	}
}
