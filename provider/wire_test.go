package provider

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

const key = "key-0123456789abcdef"

// do sends a request to a server that answers so.
func do(t *testing.T, answer http.HandlerFunc) (*http.Response, *flow.Error) {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	w := newWire("vendor", s.Listener.Addr().String(), key, (&net.Dialer{}).DialContext)
	r, err := http.NewRequest(http.MethodPost, s.URL, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := w.do(r)
	if err == nil {
		t.Cleanup(func() { res.Body.Close() })
		return res, nil
	}
	var e *flow.Error
	if !errors.As(err, &e) {
		t.Fatalf("%T %v", err, err)
	}
	return nil, e
}

func answers(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestStreamsComeThrough(t *testing.T) {
	for _, kind := range []string{"text/event-stream", "text/plain", "application/octet-stream", "///"} {
		res, e := do(t, answers(200, kind, "data: x\n\n"))
		if e != nil {
			t.Fatalf("%s: %v", kind, e)
		}
		if body, err := io.ReadAll(res.Body); err != nil || string(body) != "data: x\n\n" {
			t.Errorf("%s: %q, %v", kind, body, err)
		}
	}
}

func TestWhatIsNoStream(t *testing.T) {
	for _, c := range []struct {
		status     int
		kind, body string
		code       string
		retry      bool
	}{
		{200, "text/html", "<html>", CodeProtocol, false},
		{200, "application/json", `{"id":1}`, CodeProtocol, false},
		{200, "application/json", `{"error":{"type":"overloaded_error"}}`, CodeUnavailable, true},
		{204, "text/plain", "", CodeRejected, false},
		{304, "text/plain", "", CodeRejected, false},
		{307, "text/plain", "", CodeRejected, false}, // without saying where to
		{400, "application/json", `{"error":"words"}`, CodeRejected, false},
		{400, "application/json", `{"error":[1]}`, CodeRejected, false},
		{400, "application/json", `{"error":{}}`, CodeRejected, false},
		{401, "application/json", `{"error":{"message":"` + key + ` is wrong"}}`, CodeAuth, false},
		{429, "application/json", `{"error":null}`, CodeRateLimited, true},
		{529, "text/plain", "busy", CodeUnavailable, true},
		{599, "text/plain", "odd", CodeUnavailable, false},
	} {
		_, e := do(t, answers(c.status, c.kind, c.body))
		if e == nil || e.Code != c.code || e.Retry != c.retry || strings.Contains(e.Error(), key) {
			t.Errorf("%d %s %s: %+v", c.status, c.kind, c.body, e)
		}
	}
}

func TestRedirectNamesItsTarget(t *testing.T) {
	_, e := do(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://elsewhere.example/x?token=1", http.StatusTemporaryRedirect)
	})
	if e == nil || e.Code != CodeRejected || !strings.Contains(e.Message, "elsewhere.example:") || strings.Contains(e.Message, "token") {
		t.Errorf("%+v", e)
	}
}

func TestRetryAfter(t *testing.T) {
	w := newWire("vendor", "host", key, nil)
	for value, want := range map[string]time.Duration{"3": 3 * time.Second, "0.25": 250 * time.Millisecond, "NaN": 0, "-1": 0, "": 0, "soon": 0} {
		e := w.failure(fault{Status: 429, Header: http.Header{"Retry-After": {value}}})
		if e.After != want || !e.Retry || !e.Answered {
			t.Errorf("%q: %+v", value, e)
		}
	}
	for _, value := range []string{"120.5", "Inf", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)} {
		e := w.failure(fault{Status: 503, Header: http.Header{"Retry-After": {value}}})
		if e.Retry || e.Code != CodeRateLimited || !strings.Contains(string(e.Detail), "retry_at") {
			t.Errorf("%q: %+v", value, e)
		}
	}
}

func TestOverflowIsRecognised(t *testing.T) {
	for _, body := range []string{
		`{"error":{"type":"invalid_request_error","message":"input length and ` + "`max_tokens`" + ` exceed context limit: 199000 + 8192 > 200000"}}`,
		`{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`,
		`{"error":"Input is too long for requested model."}`,
	} {
		f := parseFault([]byte(body))
		f.Status = 400
		if !f.overflow() {
			t.Errorf("not recognised: %s", body)
		}
		if f.Status = 500; f.overflow() {
			t.Errorf("recognised in a fault of the server: %s", body)
		}
	}
}

func TestPartsOfKeysAreNotShown(t *testing.T) {
	w := newWire("vendor", "host", key, nil)
	for _, message := range []string{"bad key " + key, "bad key 'key-01*****cdef'.", "bad key: key-0******"} {
		if e := w.failure(fault{Status: 401, Message: message}); strings.Contains(e.Message, "key-0") || !strings.Contains(e.Message, "[key]") {
			t.Errorf("%q became %q", message, e.Message)
		}
	}
}

func TestDialsThatFailWereNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, dial := range map[string]dialFunc{
			"refused": func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") },
			"no connection within 10s": func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		} {
			r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1:1/", nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = newWire("vendor", "host", key, dial).do(r)
			var e *flow.Error
			if !errors.As(err, &e) || e.Code != CodeUnavailable || !e.NotSent || !e.Retry || !strings.Contains(e.Message, name) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// silent is a body that says one thing and then nothing, until its request ends.
type silent struct {
	ctx  context.Context
	said bool
}

func (s *silent) Read(p []byte) (int, error) {
	if !s.said {
		s.said = true
		return copy(p, "x"), nil
	}
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

func (*silent) Close() error { return nil }

func TestSilenceEndsABody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithCancelCause(context.Background())
		body := watch(ctx, cancel, &silent{ctx: ctx})
		defer body.Close()
		if read, err := io.ReadAll(body); !errors.Is(err, errIdle) || string(read) != "x" || time.Since(began) != idleTimeout {
			t.Errorf("%q, %v after %v", read, err, time.Since(began))
		}
	})
}

func TestHowStreamsBreakOff(t *testing.T) {
	w := newWire("vendor", "host", key, nil)
	ended, cancel := context.WithCancelCause(context.Background())
	stop := errors.New("stop")
	cancel(stop)
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error // that ends the stream; nil: it just ends
		want error
	}{
		{"by silence", context.Background(), errIdle, &flow.Error{Code: CodeUnavailable}},
		{"by the connection", context.Background(), io.ErrUnexpectedEOF, &flow.Error{Code: CodeTruncated}},
		{"without a word", context.Background(), nil, &flow.Error{Code: CodeTruncated}},
		{"by its caller", ended, context.Canceled, stop},
		{"by its caller, quietly", ended, nil, stop},
	} {
		events := func(yield func([]byte, error) bool) {
			if yield([]byte(`{"choices":[{"delta":{"content":"Hel"}}]}`), nil) && c.err != nil {
				yield(nil, c.err)
			}
		}
		r, err := w.follow(c.ctx, events, newChatAnswer(w, func(agent.Delta) {}))
		var got, want *flow.Error
		if errors.As(c.want, &want) {
			if !errors.As(err, &got) || got.Code != want.Code || !got.Retry {
				t.Errorf("%s: %v", c.name, err)
			}
		} else if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if r.Text != "Hel" {
			t.Errorf("%s: what was said is %q", c.name, r.Text)
		}
	}
}

func TestWhatCannotBeSent(t *testing.T) {
	w := newWire("vendor", "host", key, nil)
	err := w.unsent(context.Background(), errors.New("odd "+key))
	var e *flow.Error
	if !errors.As(err, &e) || e.Code != CodeRejected || e.Retry || strings.Contains(e.Message, key) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.unsent(ctx, e); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
