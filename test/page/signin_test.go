package page_test

import (
	"net/http"
	"testing"
)

// Somebody who has signed in sees the inbox; nobody else does.
func TestSigningIn(t *testing.T) {
	b := newBed(t)
	if p := b.stranger().get("/ui/"); p.status != http.StatusSeeOther || p.header.Get("Location") != "/ui/signin?next=%2Fui%2F" {
		t.Errorf("a stranger is answered %d, sent to %s", p.status, p.header.Get("Location"))
	}
	if p := b.browser("alice").open("/ui/"); p.all("h1") == nil {
		t.Errorf("the inbox is %s", p.text())
	}
}
