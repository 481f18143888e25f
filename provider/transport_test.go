package provider

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipstaff/tipstaff/agent"
)

// pipeServer is an HTTP server within the process, so that its time can be the
// test's.
type pipeServer struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func servePipes(t *testing.T, handler http.HandlerFunc) *pipeServer {
	t.Helper()
	s := &pipeServer{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that a client leaves
		handler(w, r)
	})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(s)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return s
}

func (s *pipeServer) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

func (s *pipeServer) Close() error   { s.once.Do(func() { close(s.done) }); return nil }
func (s *pipeServer) Addr() net.Addr { return &net.TCPAddr{} }

func (s *pipeServer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case s.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (v vendor) openAt(t *testing.T, dial dialFunc) agent.Model {
	t.Helper()
	m, err := open(Config{Provider: v.provider, Model: v.model, APIKey: testKey, BaseURL: "http://127.0.0.1:1"}, dial)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// says writes a part of a stream at once.
func says(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, body)
	w.(http.Flusher).Flush()
}

// inBubble runs a test of each vendor with a clock of its own.
func inBubble(t *testing.T, run func(t *testing.T, v vendor)) {
	eachVendor(t, func(t *testing.T, v vendor) {
		synctest.Test(t, func(t *testing.T) { run(t, v) })
	})
}

func TestSilentStreamEndsAtTheIdleTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, v vendor) {
		gone := make(chan struct{})
		s := servePipes(t, func(w http.ResponseWriter, r *http.Request) {
			says(w, v.broken)
			<-r.Context().Done()
			close(gone)
		})
		began := time.Now()
		h := ask(t, v.openAt(t, s.dial), hello)
		e := failed(t, h, CodeUnavailable)
		if took := time.Since(began); took != 90*time.Second || !e.Retry || !strings.Contains(e.Message, "no byte") || h.Text != "Hel" {
			t.Errorf("after %v: %+v, said %q", took, e, h.Text)
		}
		<-gone
	})
}

func TestEveryByteProlongsAStream(t *testing.T) {
	inBubble(t, func(t *testing.T, v vendor) {
		s := servePipes(t, func(w http.ResponseWriter, r *http.Request) {
			for range 3 {
				says(w, ": still here\n\n")
				select {
				case <-time.After(90*time.Second - time.Second):
				case <-r.Context().Done():
				}
			}
			says(w, v.text(`"Hello"`))
		})
		if h := ask(t, v.openAt(t, s.dial), hello); h.err != nil || h.Text != "Hello" {
			t.Errorf("%+v, %v", h.Response, h.err)
		}
	})
}

func TestResponseHeadersAreWaitedForSixtySeconds(t *testing.T) {
	inBubble(t, func(t *testing.T, v vendor) {
		s := servePipes(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		began := time.Now()
		e := failed(t, ask(t, v.openAt(t, s.dial), hello), CodeUnavailable)
		if took := time.Since(began); took != 60*time.Second || !e.Retry || e.NotSent {
			t.Errorf("after %v: %+v", took, e)
		}
	})
}

func TestConnectionIsWaitedForTenSeconds(t *testing.T) {
	inBubble(t, func(t *testing.T, v vendor) {
		began := time.Now()
		m := v.openAt(t, func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		e := failed(t, ask(t, m, hello), CodeUnavailable)
		if took := time.Since(began); took != 10*time.Second || !e.Retry || !e.NotSent || !strings.Contains(e.Message, "no connection within 10s") {
			t.Errorf("after %v: %+v", took, e)
		}
	})
}

func TestRefusedConnectionWasNotSent(t *testing.T) {
	eachVendor(t, func(t *testing.T, v vendor) {
		m := v.openAt(t, func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("connection refused") })
		e := failed(t, ask(t, m, hello), CodeUnavailable)
		if !e.Retry || !e.NotSent || !strings.Contains(e.Message, "127.0.0.1:1: ") || !strings.HasSuffix(e.Message, "connection refused") {
			t.Errorf("%+v", e)
		}
	})
}

func TestSilentRefusalEndsAtTheIdleTimeout(t *testing.T) {
	inBubble(t, func(t *testing.T, v vendor) {
		s := servePipes(t, func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		began := time.Now()
		e := failed(t, ask(t, v.openAt(t, s.dial), hello), CodeUnavailable)
		if took := time.Since(began); took != 90*time.Second || !e.Retry {
			t.Errorf("after %v: %+v", took, e)
		}
	})
}

func TestCancellationFreesTheConnection(t *testing.T) {
	stop := errors.New("that is enough")
	for _, when := range []string{"before the headers", "within the stream"} {
		t.Run(when, func(t *testing.T) {
			inBubble(t, func(t *testing.T, v vendor) {
				ctx, cancel := context.WithCancelCause(context.Background())
				gone := make(chan time.Time, 1)
				s := servePipes(t, func(w http.ResponseWriter, r *http.Request) {
					if when == "within the stream" {
						says(w, v.broken)
					}
					time.AfterFunc(5*time.Second, func() { cancel(stop) })
					<-r.Context().Done()
					gone <- time.Now()
				})
				began := time.Now()
				m := v.openAt(t, s.dial)
				h := askIn(ctx, t, m, hello)
				if took := time.Since(began); !errors.Is(h.err, stop) || took != 5*time.Second {
					t.Errorf("after %v: %v", took, h.err)
				}
				if took := (<-gone).Sub(began); took > 6*time.Second {
					t.Errorf("the connection was freed after %v", took)
				}
			})
		})
	}
}

func TestEndedContextSendsNothing(t *testing.T) {
	eachVendor(t, func(t *testing.T, v vendor) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s := serve(t, events(v.text(`"a"`)))
		h := askIn(ctx, t, v.open(t, s), hello)
		if !errors.Is(h.err, context.Canceled) || s.requests() != 0 {
			t.Errorf("%v after %d requests", h.err, s.requests())
		}
	})
}
