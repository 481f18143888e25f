package page

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

// sink is a browser that takes what it is sent, or nothing at all until its time is over.
type sink struct {
	header   http.Header
	deaf     bool
	mu       sync.Mutex
	got      strings.Builder
	status   int
	deadline time.Time
	over     chan struct{} // closed: the time is over
	blocked  chan struct{} // closed once somebody waits for it
	once     sync.Once
}

func newSink(deaf bool) *sink {
	return &sink{header: http.Header{}, deaf: deaf, over: make(chan struct{}), blocked: make(chan struct{})}
}

func (s *sink) Header() http.Header    { return s.header }
func (s *sink) WriteHeader(status int) { s.status = status }
func (s *sink) Flush()                 {}

func (s *sink) SetWriteDeadline(at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = at
	return nil
}

func (s *sink) Write(b []byte) (int, error) {
	if s.deaf {
		s.once.Do(func() { close(s.blocked) })
		<-s.over
		return 0, os.ErrDeadlineExceeded
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.Write(b)
}

func (s *sink) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.String()
}

// until waits for a condition.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// watched is a site with an interrupted run, whose header has a form that resumes it.
func watched(t *testing.T, tokens ...tipstaff.Token) (*Site, *told, *tipstaff.Tokens) {
	t.Helper()
	s := newTold(t, "plan")
	s.tell(tipstaff.KindRunStarted, "", map[string]any{"kind": "cli", "epoch": 1, "pid": 1})
	s.tell(tipstaff.KindRunInterrupted, "", map[string]any{"reason": "killed"})
	all, err := tipstaff.NewTokens(tokens...)
	if err != nil {
		t.Fatal(err)
	}
	return New(tipstaff.Control{Runs: s, Now: time.Now}, Options{Tokens: all}), s, all
}

// follow has a session follow the run, until the sink is over or the test ends.
func (s *Site) follow(t *testing.T, tokens *tipstaff.Tokens, user string, run tipstaff.ID, to *sink) *session {
	t.Helper()
	signed := newSession(tokens.BearersOf(surface, user)[0], time.Now(), time.Now())
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/ui/stream?"+url.Values{"page": {"/ui/runs/" + run.String()}, "parts": {"header,tree"}}.Encode(), nil)
	r.AddCookie(&http.Cookie{Name: cookieName(r), Value: signed.value()})
	go s.ServeHTTP(to, r)
	return signed
}

// feedsOf tells how many pages are drawn, and for how many.
func (s *Site) feedsOf() (feeds, readers int) {
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	for _, f := range s.feeds.all {
		readers += f.readers
	}
	return len(s.feeds.all), readers
}

// A page is drawn once for all who may see the same, and each is sent the token of its own
// session in the forms.
func TestAPageIsDrawnOnceForAll(t *testing.T) {
	s, told, tokens := watched(t, tipstaff.Token{User: "alice", Secret: "the-token-of-alice"}, tipstaff.Token{User: "root", Secret: "the-token-of-root", Scopes: []string{tipstaff.ScopeAdmin}})
	var sinks []*sink
	var signed []*session
	for range 5 {
		sinks = append(sinks, newSink(false))
		signed = append(signed, s.follow(t, tokens, "alice", told.run.ID, sinks[len(sinks)-1]))
	}
	until(t, "the header", func() bool {
		for _, k := range sinks {
			if !strings.Contains(k.text(), "/resume") {
				return false
			}
		}
		return true
	})
	if feeds, readers := s.feedsOf(); feeds != 1 || readers != 5 {
		t.Errorf("%d pages are drawn for %d", feeds, readers)
	}
	for i, k := range sinks {
		if text := k.text(); strings.Contains(text, formMark) || !strings.Contains(text, `value="`+signed[i].form()+`"`) {
			t.Errorf("reader %d is sent %s", i, text)
		}
	}
	s.follow(t, tokens, "root", told.run.ID, newSink(false))
	until(t, "a page of other rights", func() bool { feeds, readers := s.feedsOf(); return feeds == 2 && readers == 6 })
}

// Who takes nothing keeps nobody waiting, has thirty seconds for a frame, and then loses its
// place.
func TestWhoTakesNothing(t *testing.T) {
	s, told, tokens := watched(t, tipstaff.Token{User: "alice", Secret: "the-token-of-alice"})
	deaf, other := newSink(true), newSink(false)
	s.follow(t, tokens, "alice", told.run.ID, deaf)
	<-deaf.blocked
	if left := time.Until(deaf.deadline); left < 25*time.Second || left > 30*time.Second {
		t.Errorf("a frame has %v to be taken", left)
	}
	s.follow(t, tokens, "alice", told.run.ID, other)
	until(t, "another reader to be sent the tree", func() bool { return strings.Contains(other.text(), `id="part-tree"`) })
	close(deaf.over)
	until(t, "its place to be free", func() bool {
		s.streams.mu.Lock()
		defer s.streams.mu.Unlock()
		_, readers := s.feedsOf()
		return s.streams.all == 1 && readers == 1
	})
}
