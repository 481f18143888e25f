package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/redact"
	"github.com/tipstaff/tipstaff/workspace"
)

const (
	dialLimit    = 10 * time.Second // to connect, and again for TLS
	maxRedirects = 5
	maxErrorBody = 64 << 10
)

// httpServer is reached over streamable HTTP. There is nothing to start: the
// connection is a session with it.
type httpServer struct {
	config workspace.Server
	launch Launch
}

func (s *httpServer) credentials() map[string]string {
	values, _ := s.config.Secrets(s.launch.Environ) // what is missing is refused when the server is connected to
	return values
}

func (s *httpServer) ready() *flow.Error {
	_, err := s.headers()
	return refusalOf(err)
}

// headers are those of every request, with references in place.
func (s *httpServer) headers() (http.Header, error) {
	values, refused := s.config.Secrets(s.launch.Environ)
	if refused != nil {
		return nil, refused
	}
	h := http.Header{}
	for name, text := range s.config.Headers {
		value := workspace.Substitute(text, values)
		if strings.ContainsAny(value, "\x00\r\n") {
			return nil, refusal(CodeEnvMissing, nil, "the header %s would have a line break: look at the variables it refers to", name)
		}
		h.Set(name, value)
	}
	return h, nil
}

func (s *httpServer) connect(ctx context.Context, _ string) (session, error) {
	return openMCP(ctx, s.dial, "", redact.New(s.credentials()))
}

// dial makes a transport of the SDK. It cannot be wrapped: its connection learns the
// negotiated version through an unexported method. So messages are watched in the
// round tripper.
func (s *httpServer) dial(_ context.Context, w *wire) (mcp.Transport, error) {
	headers, err := s.headers()
	if err != nil {
		return nil, err
	}
	trips := &roundTripper{headers: headers, clean: redact.New(s.credentials()), wire: w, base: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialLimit, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    dialLimit,
		ExpectContinueTimeout:  time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConnsPerHost:    workspace.MaxConcurrent,
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: 1 << 20,
	}}
	w.shown, w.release = true, trips.base.CloseIdleConnections
	return &mcp.StreamableClientTransport{
		Endpoint:     s.config.URL,
		HTTPClient:   &http.Client{Transport: trips, CheckRedirect: sameHost},
		MaxEventSize: -1, // bounded where they are watched
	}, nil
}

// sameHost follows a redirect only where the request stays the same request to
// the same server: credentials go nowhere else.
func sameHost(next *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case next.URL.Scheme != first.URL.Scheme || next.URL.Host != first.URL.Host:
		return fmt.Errorf("the server redirects to %s, and is not followed to another host", next.URL.Host)
	case next.Method != first.Method:
		return errors.New("the server redirects in a way that changes the request")
	case len(via) >= maxRedirects:
		return fmt.Errorf("the server redirects more than %d times", maxRedirects)
	}
	return nil
}

// roundTripper makes the requests of one connection. It adds the headers, shows
// every message to the wire, keeps one failed request from ending the connection,
// and bounds what is read.
type roundTripper struct {
	base    *http.Transport
	headers http.Header
	clean   *redact.Redactor
	wire    *wire
}

func (t *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	for name, values := range t.headers {
		req.Header[name] = values
	}
	x, ours := req.Context().Value(exchangeKey{}).(*exchange)
	switch {
	case req.Method == http.MethodGet && !ours:
		ctx, cancel := context.WithCancel(req.Context())
		return stream200(req, &listener{trips: t, req: req.WithContext(ctx), cancel: cancel, delay: firstDelay}), nil
	case req.Method == http.MethodGet:
		return t.resume(req, x)
	case req.Method == http.MethodPost:
		return t.post(req, x)
	}
	return t.base.RoundTrip(req)
}

// post sends one message.
func (t *roundTripper) post(req *http.Request, x *exchange) (*http.Response, error) {
	data, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	req.Body = io.NopCloser(bytes.NewReader(data))
	m := new(jsonrpc.Request) // a reply of ours is no call either
	if message, err := jsonrpc.DecodeMessage(data); err != nil {
		return nil, err
	} else if request, ok := message.(*jsonrpc.Request); ok {
		m = request
	}
	if x != nil && m.IsCall() {
		if x.trace != "" {
			req.Header.Set(traceparent, x.trace)
		}
		// The server can have received a part of it only once there is a connection.
		sent := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { t.wire.request(x, m.ID) }}
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), sent))
	}
	res, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	switch kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); {
	case res.StatusCode < 200 || res.StatusCode > 299:
		return t.failed(req, m, res)
	case m.IsCall() && kind == "application/json":
		return t.whole(m, res)
	case m.IsCall() && kind == "text/event-stream":
		res.Body = t.events(m.ID, res.Body)
	}
	return res, nil
}

// whole reads a reply that is one message. A reply that cannot be read or
// understood fails its own call and no other.
func (t *roundTripper) whole(m *jsonrpc.Request, res *http.Response) (*http.Response, error) {
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxFrame+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the reply broke off: %w", err)
	case len(body) > maxFrame:
		body = t.tooLarge(m.ID, len(body))
	default:
		message, err := jsonrpc.DecodeMessage(body)
		if err != nil {
			return nil, notJSONRPC(body, t.clean)
		}
		t.wire.saw(message)
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return res, nil
}

// tooLarge notes a reply that was too long to be kept. The message that it returns ends
// the SDK's wait.
func (t *roundTripper) tooLarge(id jsonrpc.ID, size int) []byte {
	large := &oversized{size: size}
	t.wire.response(&jsonrpc.Response{ID: id, Error: large})
	return errorReply(id, large.Error())
}

// errorReply is a message that ends a call for the SDK. What the call comes to is
// not taken from it.
func errorReply(id jsonrpc.ID, text string) []byte {
	data, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: text}})
	if err != nil {
		panic(fmt.Sprintf("tool: an error reply cannot be encoded: %v", err))
	}
	return data
}

// eventBody is a stream that shows its messages to the wire as they pass.
type eventBody struct {
	io.Reader
	io.Closer
}

// events is the stream of the call with that id, or one that belongs to no call.
func (t *roundTripper) events(id jsonrpc.ID, body io.ReadCloser) io.ReadCloser {
	return eventBody{&eventReader{
		lines: newLineReader(body),
		show: func(data []byte) {
			if m, err := jsonrpc.DecodeMessage(data); err == nil {
				t.wire.saw(m)
			}
		},
		instead: func(size int) []byte {
			if !id.IsValid() {
				return nil
			}
			return t.tooLarge(id, size)
		},
	}, body}
}

// statusError is a reply of an HTTP server that is not the protocol's.
type statusError struct {
	code  int
	text  string // the beginning of what it said
	after time.Duration
}

func (e *statusError) Error() string {
	text := fmt.Sprintf("the server answered %d %s", e.code, http.StatusText(e.code))
	if e.text != "" {
		text += ": " + e.text
	}
	switch e.code {
	case http.StatusUnauthorized, http.StatusForbidden:
		text += " (look at the credentials in headers of the manifest)"
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		text += " (look at the url of the manifest)"
	}
	return text
}

// failure is the outcome of a call. A 4xx status means that the server did nothing; a
// 5xx status leaves that open.
func (e *statusError) failure(d *Definition) error {
	refused := e.code < 500
	return &flow.Error{
		Code: CodeUnavailable, Message: fmt.Sprintf("%s: %v", d.Server, e), NotSent: refused,
		Retry: !refused || e.code == http.StatusTooManyRequests || e.code == http.StatusRequestTimeout, After: e.after,
	}
}

var errSessionLost = errors.New("the server has forgotten the session")

const sessionHeader = "Mcp-Session-Id"

// aboutSession is what servers write when they reject a session with a status of 400. Other
// sessions may expire as well: those of a database, say, in the middle of a call.
var aboutSession = regexp.MustCompile(`(?i)session[ _-]?id|session (was )?not found|(valid|unknown|missing|no|mcp) session|not initiali[sz]ed`)

// rejectsSession reports whether a reply says that the server does not know the session
// of the request, and so has done nothing of it. The protocol's way to say so is a 404,
// whatever its body; servers that keep their sessions in a map often send a 400.
func rejectsSession(req *http.Request, status int, body []byte) bool {
	if req.Header.Get(sessionHeader) == "" {
		return false
	}
	switch status {
	case http.StatusBadRequest:
		return aboutSession.Match(body)
	case http.StatusNotFound:
		var unknown *jsonrpc.Error // since 2026-07-28 a method that does not exist is a 404, too
		m, err := jsonrpc.DecodeMessage(body)
		r, ok := m.(*jsonrpc.Response)
		return err != nil || !ok || !errors.As(r.Error, &unknown) || unknown.Code != jsonrpc.CodeMethodNotFound
	}
	return false
}

// failed turns a status into an error of this one request. The SDK handles three cases
// itself: a session that has ended, error replies of the protocol, and requests by which
// it finds out what the server supports.
func (t *roundTripper) failed(req *http.Request, m *jsonrpc.Request, res *http.Response) (*http.Response, error) {
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // what was read will do
	res.Body.Close()
	if rejectsSession(req, res.StatusCode, body) {
		t.wire.rejected(m.ID)
		t.wire.broke(errSessionLost)
		res.StatusCode, res.Body = http.StatusNotFound, http.NoBody // which ends the SDK's session
		return res, nil
	}
	res.Body = io.NopCloser(bytes.NewReader(body))
	if reply, err := jsonrpc.DecodeMessage(body); err == nil && m.IsCall() {
		if r, ok := reply.(*jsonrpc.Response); ok && r.Error != nil {
			t.wire.response(&jsonrpc.Response{ID: m.ID, Error: r.Error})
			return res, nil
		}
	}
	if m.Method == methodDiscover || m.Method == "subscriptions/listen" || res.StatusCode < 400 {
		return res, nil
	}
	e := &statusError{code: res.StatusCode, text: excerpt(body, t.clean)}
	if seconds, err := time.ParseDuration(res.Header.Get("Retry-After") + "s"); err == nil {
		e.after = min(max(seconds, 0), time.Minute)
	}
	return nil, e
}

// resume reopens the stream of a call that broke off. If that fails, the call fails; the
// SDK would end the connection and all other calls with it.
func (t *roundTripper) resume(req *http.Request, x *exchange) (*http.Response, error) {
	t.wire.mu.Lock()
	id := x.id
	t.wire.mu.Unlock()
	res, err := t.base.RoundTrip(req)
	if err == nil && res.StatusCode == http.StatusOK {
		res.Body = t.events(id, res.Body)
		return res, nil
	}
	if err == nil {
		t.refused(req, res)
		err = &statusError{code: res.StatusCode}
	}
	if req.Context().Err() != nil {
		return nil, err
	}
	reply := errorReply(id, fmt.Sprintf("the reply broke off: %v", err))
	return stream200(req, io.NopCloser(strings.NewReader("data: "+string(reply)+"\n\n"))), nil
}

// refused ends a reply to a request for a stream. One that rejects the session ends that:
// the next call opens another.
func (t *roundTripper) refused(req *http.Request, res *http.Response) {
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // what was read will do
	res.Body.Close()
	if rejectsSession(req, res.StatusCode, body) {
		t.wire.broke(errSessionLost)
	}
}

func stream200(req *http.Request, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: body, ContentLength: -1, Request: req,
	}
}

// listener is the stream on which a server announces changes. It is optional: servers
// and proxies end it at any time, and some never answer the request. In the SDK each of
// these would block or end the connection. So the SDK gets a stream that lasts as long
// as the connection, and the listener reopens the server's stream behind it.
type listener struct {
	trips  *roundTripper
	req    *http.Request // whose context ends when the listener is closed
	cancel context.CancelFunc
	body   io.ReadCloser // of the server's stream; nil: none is open
	opened time.Time
	heard  bool          // the server has had such a stream in this session
	delay  time.Duration // before another is opened
}

func (l *listener) Read(p []byte) (int, error) {
	ctx := l.req.Context()
	for {
		if l.body == nil && !l.open() { // a server that says no is not asked again
			<-ctx.Done()
		}
		if l.body != nil {
			if n, err := l.body.Read(p); err == nil {
				return n, nil
			}
			l.body.Close()
			l.body = nil
		}
		if time.Since(l.opened) > time.Minute {
			l.delay = firstDelay
		}
		select {
		case <-time.After(l.delay):
		case <-ctx.Done():
			return 0, io.EOF
		}
		l.delay = min(2*l.delay, maxDelay)
	}
}

// open opens the server's stream. It reports whether that may be tried again.
func (l *listener) open() bool {
	l.opened = time.Now()
	res, err := l.trips.base.RoundTrip(l.req)
	if err != nil {
		return true
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if res.StatusCode == http.StatusOK && kind == "text/event-stream" {
		l.body, l.heard = l.trips.events(jsonrpc.ID{}, res.Body), true
		return true
	}
	if l.heard {
		l.trips.refused(l.req, res)
	} else { // a server without such a stream may say so by any status
		res.Body.Close()
	}
	return res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests
}

func (l *listener) Close() error {
	l.cancel()
	return nil
}
