package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Server answers on the loopback interface.
type Server struct {
	URL string // without a slash at its end

	mu       sync.Mutex
	serving  *http.Server // nil: nobody listens
	left     script
	requests []Request
	changed  chan struct{} // closed at the next request
}

// New starts a server that answers by a script.
func New(turns ...Turn) (*Server, error) {
	s := &Server{left: slices.Clone(turns), changed: make(chan struct{})}
	return s, s.listen("127.0.0.1:0")
}

// Start listens again, at the address that it had before Stop.
func (s *Server) Start() error { return s.listen(strings.TrimPrefix(s.URL, "http://")) }

func (s *Server) listen(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	serving := &http.Server{Handler: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.URL, s.serving = "http://"+l.Addr().String(), serving
	go serving.Serve(l)
	return nil
}

// Stop ends the server: connections are cut, and new ones refused.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.serving != nil {
		s.serving.Close()
		s.serving = nil
	}
}

// Replace forgets what is left of the script, and goes on with other turns.
func (s *Server) Replace(turns ...Turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = slices.Clone(turns)
}

// Requests is what was asked in conversations so far.
func (s *Server) Requests() []Request {
	return slices.DeleteFunc(s.All(), func(r Request) bool { return r.Side })
}

// All is every request so far, those that are no conversations too.
func (s *Server) All() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Next is closed when another request has come.
func (s *Server) Next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// dialect is one way of talking with a model.
type dialect interface {
	// read takes a request apart.
	read(r *Request) error
	// write answers with text and calls.
	write(w io.Writer, r *Request, t Turn)
	// fail is the body of an error.
	fail(status int, message string) any
}

// dialects by what their paths contain.
var dialects = []struct {
	name, path string
	dialect
}{
	{"count", "/v1/messages/count_tokens", nil},
	{"messages", "/v1/messages", messages{}},
	{"responses", "/responses", responses{}},
	{"chat", "/chat/completions", chat{}},
	{"gemini", "enerateContent", gemini{}},
}

func (s *Server) ServeHTTP(w http.ResponseWriter, h *http.Request) {
	body, err := io.ReadAll(h.Body)
	if err != nil {
		return
	}
	r := &Request{Method: h.Method, Path: h.URL.RequestURI(), Body: body, Side: true}
	for _, d := range dialects {
		if h.Method != http.MethodPost || !strings.Contains(h.URL.Path, d.path) {
			continue
		}
		r.Dialect = d.name
		if d.dialect == nil {
			s.keep(r)
			reply(w, http.StatusOK, map[string]int{"input_tokens": InputTokens})
			return
		}
		if err := d.read(r); err != nil {
			s.keep(r)
			reply(w, http.StatusBadRequest, d.fail(http.StatusBadRequest, err.Error()))
			return
		}
		s.answer(w, h, r, d.dialect)
		return
	}
	s.keep(r)
	reply(w, http.StatusNotFound, map[string]any{"error": map[string]string{"type": "not_found_error", "message": "there is no " + h.URL.Path}})
}

// answer gives the turn that is next.
func (s *Server) answer(w http.ResponseWriter, h *http.Request, r *Request, d dialect) {
	r.Side = len(r.Tools) == 0
	t := Turn{Text: "aside"}
	if !r.Side {
		t = s.take(r.last())
	}
	switch {
	case t.Hang:
		s.keep(r)
		<-h.Context().Done()
	case t.Close:
		s.keep(r)
		cut(w)
	case t.Status != 0:
		s.keep(r)
		if t.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(t.RetryAfter.Seconds())))
		}
		reply(w, t.Status, d.fail(t.Status, t.Text))
	default:
		for i, c := range t.Calls {
			t.Calls[i] = c.of(r)
		}
		s.keep(r)
		if r.Stream {
			w.Header().Set("Content-Type", "text/event-stream")
		} else {
			w.Header().Set("Content-Type", "application/json")
		}
		d.write(w, r, t)
	}
}

// take is the next turn. A conversation that goes on beyond its script is told so, and
// tests see it in the last message.
func (s *Server) take(last string) Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.left.next(last)
	if !ok {
		t = Turn{Text: BeyondScript}
	}
	t.Calls = slices.Clone(t.Calls)
	return t
}

// BeyondScript is what the model says when its script is over.
const BeyondScript = "The script has no answer to this."

func (s *Server) keep(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, *r)
	close(s.changed)
	s.changed = make(chan struct{})
}

// cut begins an answer, and closes the connection in its middle.
func cut(w http.ResponseWriter) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprint(buf, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 1000\r\n\r\n: cut\n\n")
	buf.Flush()
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0) // the client sees a reset, not an end
	}
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

// event writes one event of a stream.
func event(w io.Writer, name string, data any) {
	b, err := json.Marshal(data)
	if err != nil {
		panic(err) // scripts hold texts and maps
	}
	if name != "" {
		fmt.Fprintf(w, "event: %s\n", name)
	}
	fmt.Fprintf(w, "data: %s\n\n", b)
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

type object = map[string]any
