package page_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/test/webtest"
)

// api is a server over a workspace, whose API is asked.
type api struct{ *webtest.Bed }

func newAPI(t *testing.T, with ...func(*webtest.Bed)) *api {
	t.Helper()
	return &api{webtest.New(t, with...)}
}

// answer is what a server has said.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// member is one of the answer, by the names on the way to it.
func (a answer) member(t testing.TB, names ...string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	for _, name := range names {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

func (a answer) code(t testing.TB) string {
	t.Helper()
	code, _ := a.member(t, "error", "code").(string)
	return code
}

// request makes one, as a user whose token it bears; "": of nobody.
func (b *api) request(user, method, path string, body any, with ...func(*http.Request)) *http.Request {
	b.Helper()
	var reader io.Reader
	switch body := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(body)
	default:
		text, err := json.Marshal(body)
		if err != nil {
			b.Fatal(err)
		}
		reader = bytes.NewReader(text)
	}
	r, err := http.NewRequest(method, "http://"+b.Addr+path, reader)
	if err != nil {
		b.Fatal(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, c := range webtest.Callers {
		if c.User == user {
			r.Header.Set("Authorization", "Bearer "+c.Secret)
		}
	}
	for _, f := range with {
		f(r)
	}
	return r
}

// do makes a request and looks whether the answer is one that the description knows.
func (b *api) do(user, method, path string, body any, with ...func(*http.Request)) answer {
	b.Helper()
	res, err := http.DefaultClient.Do(b.request(user, method, path, body, with...))
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.Fatal(err)
	}
	if res.Header.Get("X-Content-Type-Options") != "nosniff" || res.Header.Get("Access-Control-Allow-Origin") != "" {
		b.Errorf("%s %s is answered with the headers %v", method, path, res.Header)
	}
	a := answer{res.StatusCode, res.Header, text}
	if a.status >= 400 && path != "/healthz" && path != "/readyz" && (a.code(b) == "" || len(text) > tipstaff.MaxReply+100) {
		b.Errorf("%s %s is answered %d in the shape %.200s", method, path, a.status, text)
	}
	described(b, method, path, a)
	return a
}

func (b *api) get(user, path string) answer { b.Helper(); return b.do(user, "GET", path, nil) }

// want makes a request that is answered with a status.
func (b *api) want(status int, user, method, path string, body any, with ...func(*http.Request)) answer {
	b.Helper()
	a := b.do(user, method, path, body, with...)
	if a.status != status {
		b.Fatalf("%s %s is answered %d, want %d: %.500s", method, path, a.status, status, a.body)
	}
	return a
}

type object = map[string]any

// start submits a program and gives the run.
func (b *api) start(user, program string, more ...object) string {
	b.Helper()
	body := object{"program": program}
	for _, m := range more {
		for k, v := range m {
			body[k] = v
		}
	}
	return b.want(202, user, "POST", "/runs", body).member(b, "run").(string)
}

// sse is one event of a stream.
type sse struct{ id, event, data string }

// stream opens a stream of a run.
func (b *api) stream(user, run, last string) *http.Response {
	b.Helper()
	r := b.request(user, "GET", "/runs/"+run+"/events", nil, func(r *http.Request) {
		r.Header.Set("Accept", "text/event-stream")
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	b.Cleanup(cancel)
	res, err := http.DefaultClient.Do(r.WithContext(ctx))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { res.Body.Close() })
	return res
}

// events reads a stream until it ends, or until enough says so.
func events(t testing.TB, from io.Reader, enough func(sse) bool) (all []sse) {
	t.Helper()
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<22)
	var e sse
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.event = value
		case "data":
			e.data = value
		case "":
			if e.event != "" {
				if all = append(all, e); enough != nil && enough(e) {
					return all
				}
			}
			e = sse{}
		}
	}
	return all
}
