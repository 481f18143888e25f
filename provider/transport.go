package provider

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"time"

	"github.com/tipstaff/tipstaff/agent"
)

// How long a vendor may take. The whole call is limited by the caller's context.
const (
	connectTimeout = 10 * time.Second
	headerTimeout  = 60 * time.Second
	idleTimeout    = 90 * time.Second // between two bytes of an answer
)

// maxFault is how much of the body of a refusal is read.
const maxFault = 64 << 10

var (
	errIdle     = fmt.Errorf("no byte came for %v", idleTimeout)
	errRedirect = errors.New("a redirect was refused")
)

// wire sends requests to a vendor, and turns all that is no answer into a failure.
// It knows the key only to keep it out of messages.
type wire struct {
	vendor string
	host   string
	key    string
	client http.Client
	// unknownPath is the advice where a server does not know what it is asked for.
	unknownPath string
}

// newWire makes a wire to a vendor. dial makes its connections; nil for one that makes
// none.
func newWire(vendor, host, key string, dial dialFunc) *wire {
	return &wire{vendor: vendor, host: host, key: key, client: http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           connectWithin(connectTimeout, dial),
			TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:   connectTimeout,
			ResponseHeaderTimeout: headerTimeout,
			ForceAttemptHTTP2:     true,
			IdleConnTimeout:       idleTimeout,
			// A connection that died in silence must not swallow one attempt after the
			// other.
			HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		},
		// A redirect would carry the key to whoever the answer names.
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}}
}

// dialFunc makes connections. Tests have one that stays within the process.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

func connectWithin(limit time.Duration, dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no connection within %v", limit))
		defer cancel()
		conn, err := dial(ctx, network, address)
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, &dialError{err}
	}
}

// dialError tells that nothing was sent.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// ask posts a request as JSON, with the headers that the vendor wants beside it, and
// reads the answer.
func (w *wire) ask(ctx context.Context, url string, header http.Header, request any, a assembly) (agent.Response, error) {
	res, err := w.post(ctx, url, header, request)
	if err != nil {
		return agent.Response{}, w.unsent(ctx, err)
	}
	defer res.Body.Close()
	return w.follow(ctx, serverSentEvents(res.Body), a)
}

func (w *wire) post(ctx context.Context, url string, header http.Header, request any) (*http.Response, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, header)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json") // as the vendors' own clients do, also for streams
	r.Header.Set("User-Agent", "tipstaff")
	return w.do(r)
}

// do makes the one attempt. It returns a response that is an event stream, or a
// *flow.Error.
func (w *wire) do(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	res, err := w.client.Do(r.WithContext(ctx))
	if err != nil {
		cancel(nil)
		if errors.Is(err, errRedirect) {
			return nil, w.redirected(res)
		}
		return nil, w.unreachable(err)
	}
	res.Body = watch(ctx, cancel, res.Body)
	// Servers that imitate a vendor are not all exact about the type of a stream; these
	// two are surely something else.
	kind := mediaType(res.Header)
	if res.StatusCode != http.StatusOK || kind == "application/json" || kind == "text/html" {
		defer res.Body.Close()
		return nil, w.refused(res)
	}
	return res, nil
}

// watched is a body whose request ends when no byte comes for too long.
type watched struct {
	io.ReadCloser
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func watch(ctx context.Context, cancel context.CancelCauseFunc, body io.ReadCloser) *watched {
	return &watched{body, ctx, cancel, time.AfterFunc(idleTimeout, func() { cancel(errIdle) })}
}

func (b *watched) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.timer.Reset(idleTimeout)
	}
	if err != nil && err != io.EOF && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}

func (b *watched) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}
