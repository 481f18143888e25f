// Package page_test tries what a daemon serves over HTTP: the web page as browsers see it and,
// in the files that begin with api, the API as its clients do. Connections, runner and store
// are real; the model of all agents is the test.
package page_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/test/webtest"
)

// bed is a daemon with a page.
type bed struct{ *webtest.Bed }

func newBed(t *testing.T, with ...func(*webtest.Bed)) *bed {
	t.Helper()
	return &bed{webtest.New(t, append(with, func(b *webtest.Bed) { b.Page = true })...)}
}

// secret is the token of a user.
func (b *bed) secret(user string) string {
	b.Helper()
	for _, c := range b.Tokens {
		if c.User == user {
			return c.Secret
		}
	}
	b.Fatalf("nobody is %s", user)
	return ""
}

// start begins a run of a user, and waits until nobody drives it.
func (b *bed) start(user, program string) tipstaff.Run {
	b.Helper()
	return b.Rest(b.begin(user, program).String())
}

// begin begins a run of a user.
func (b *bed) begin(user, program string) tipstaff.ID {
	b.Helper()
	text, err := json.Marshal(program)
	if err != nil {
		b.Fatal(err)
	}
	got, err := b.Control().Submit(b.as(user), tipstaff.Submission{Program: text})
	if err != nil {
		b.Fatal(err)
	}
	return got.Run
}

// as is a context in which a user asks the runner.
func (b *bed) as(user string) context.Context {
	return tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "http", User: user, Principal: "token:" + user, Scopes: tipstaff.DefaultScopes()})
}

// browser is a person's: it keeps cookies, and follows no redirect by itself.
type browser struct {
	*bed
	http.Client
}

// stranger has not signed in.
func (b *bed) stranger() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	return &browser{b, http.Client{Jar: jar, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// browser is that of a user who has signed in by a token.
func (b *bed) browser(user string) *browser {
	b.Helper()
	w := b.stranger()
	if p := w.post("/ui/signin", url.Values{"token": {b.secret(user)}}); p.status != http.StatusSeeOther {
		b.Fatalf("%s cannot sign in: %d %s", user, p.status, p.text())
	}
	return w
}

// page is an answer.
type page struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

// do makes a request.
func (w *browser) do(method, path string, body io.Reader, with ...func(*http.Request)) page {
	w.Helper()
	r, err := http.NewRequest(method, "http://"+w.Addr+path, body)
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range with {
		f(r)
	}
	res, err := w.Do(r)
	if err != nil {
		w.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.Fatal(err)
	}
	return page{w.T, res.StatusCode, res.Header, string(text)}
}

func (w *browser) get(path string, with ...func(*http.Request)) page {
	w.Helper()
	return w.do("GET", path, nil, with...)
}

// open is a page that is there.
func (w *browser) open(path string) page {
	w.Helper()
	p := w.get(path)
	if p.status != http.StatusOK {
		w.Fatalf("%s is answered %d: %s", path, p.status, p.text())
	}
	return p
}

// post sends a form as a page of this origin does, without the token that forms carry.
func (w *browser) post(path string, form url.Values, with ...func(*http.Request)) page {
	w.Helper()
	own := func(r *http.Request) {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", "http://"+w.Addr)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	return w.do("POST", path, strings.NewReader(form.Encode()), append([]func(*http.Request){own}, with...)...)
}

// send sends a form with the token that this session's forms carry.
func (w *browser) send(path string, form url.Values, with ...func(*http.Request)) page {
	w.Helper()
	if form == nil {
		form = url.Values{}
	}
	form.Set("form", w.form())
	return w.post(path, form, with...)
}

// form is what forms of this session carry.
func (w *browser) form() string {
	w.Helper()
	for _, n := range w.open("/ui/settings").all("input") {
		if attr(n, "name") == "form" {
			return attr(n, "value")
		}
	}
	w.Fatal("the settings have no form")
	return ""
}

// header sets one of a request.
func header(name, value string) func(*http.Request) {
	return func(r *http.Request) {
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
}

// without takes a header of a request away.
func without(names ...string) func(*http.Request) {
	return func(r *http.Request) {
		for _, name := range names {
			r.Header.Del(name)
		}
	}
}

// parse is the document of a page, as a browser without scripts has it.
func (p page) parse() *html.Node {
	p.t.Helper()
	doc, err := html.ParseWithOptions(strings.NewReader(p.body), html.ParseOptionEnableScripting(false))
	if err != nil {
		p.t.Fatal(err)
	}
	return doc
}

// all are the elements of a name.
func (p page) all(name string) []*html.Node {
	p.t.Helper()
	return elements(p.parse(), func(n *html.Node) bool { return n.Data == name })
}

// id is the element with an id; nil: there is none.
func (p page) id(id string) *html.Node {
	p.t.Helper()
	for _, n := range elements(p.parse(), func(n *html.Node) bool { return attr(n, "id") == id }) {
		return n
	}
	return nil
}

// text is what a page says.
func (p page) text() string {
	p.t.Helper()
	return textOf(p.parse())
}

// elements are those below a node that are wanted, in order.
func elements(n *html.Node, want func(*html.Node) bool) (all []*html.Node) {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && want(d) {
			all = append(all, d)
		}
	}
	return all
}

// textOf is the text below a node, with its spaces made one.
func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
			b.WriteByte(' ')
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
