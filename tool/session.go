package tool

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/redact"
	"github.com/tipstaff/tipstaff/workspace"
)

const (
	listLimit   = 30 * time.Second // to list
	cancelLimit = time.Second
	closeLimit  = 5 * time.Second
	maxPages    = 1000
	maxTools    = 10_000
)

// connection is a session and what its server has listed.
type connection struct {
	session
	server string

	listing chan struct{} // held while the two below are used
	catalog *catalog
	expires time.Time // of the catalog; zero: not by time
}

// tools is the server's list, asked for once and again when the server says that
// it changed or its lifetime has ended.
func (c *connection) tools(ctx context.Context, m *workspace.Manifest) (*catalog, error) {
	select {
	case c.listing <- struct{}{}:
		defer func() { <-c.listing }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if c.changed() {
		c.catalog = nil
	}
	if c.catalog != nil && (c.expires.IsZero() || time.Now().Before(c.expires)) {
		return c.catalog, nil
	}
	limited, cancel := context.WithTimeoutCause(ctx, listLimit, errSlowList)
	defer cancel()
	l, err := c.list(limited)
	if errors.Is(err, errSlowList) {
		go c.close() // a server that does not say what it has is not kept
	}
	if err != nil {
		return nil, err
	}
	c.catalog, c.expires = newCatalog(m, c.server, l.version, l.tools), time.Time{}
	if l.lifetime > 0 {
		c.expires = time.Now().Add(l.lifetime)
	}
	return c.catalog, nil
}

var errSlowList = fmt.Errorf("it did not finish tools/list within %s", listLimit)

// mcpSession is a session of the SDK.
type mcpSession struct {
	sdk      *mcp.ClientSession
	wire     *wire
	redactor *redact.Redactor
	done     chan struct{} // closed when the session has ended
}

// openMCP opens a session. version is the revision of the protocol that is requested;
// "": the latest, which is negotiated. Sampling, roots and elicitation are not offered,
// and the SDK does not repeat calls: this package decides what is sent.
func openMCP(ctx context.Context, dial func(context.Context, *wire) (mcp.Transport, error), version string, r *redact.Redactor) (*mcpSession, error) {
	c := &mcpSession{redactor: r, done: make(chan struct{}),
		wire: &wire{byID: map[jsonrpc.ID]*exchange{}, byToken: map[string]*exchange{}}}
	t, err := dial(ctx, c.wire)
	if err != nil {
		return nil, r.Error(err)
	}
	client := mcp.NewClient(ourselves, &mcp.ClientOptions{
		Logger:                 slog.New(slog.DiscardHandler),
		Capabilities:           nothingOffered,
		MultiRoundTrip:         &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { c.wire.changed.Store(true) },
	})
	g := &greeting{ctx: ctx}
	client.AddSendingMiddleware(g.send)
	if c.sdk, err = client.Connect(ctx, &tap{Transport: t, wire: c.wire}, &mcp.ClientSessionOptions{ProtocolVersion: version}); err != nil {
		c.wire.close()
		err = c.wire.why(err)
		if own := (*jsonrpc.Error)(nil); !errors.As(err, &own) && errors.As(g.refused, &own) {
			err = own
		}
		return nil, r.Error(unreached(err))
	}
	go func() {
		_ = c.sdk.Wait() // why it ended does not matter: what is in flight fails by itself
		close(c.done)
	}()
	go c.watchHealth()
	return c, nil
}

// unreached says plainly that a server was not reached: an error of HTTP names each layer that
// it came through.
func unreached(err error) error {
	var request *url.Error
	if !errors.As(err, &request) {
		return err
	}
	reason := request.Err
	var dial *net.OpError
	if errors.As(reason, &dial) {
		reason = dial.Err
	}
	var call *os.SyscallError
	if errors.As(reason, &call) {
		reason = call.Err
	}
	return fmt.Errorf("%s does not answer: %w", request.URL, reason)
}

func (c *mcpSession) ended() error {
	if e := c.wire.end.Load(); e != nil {
		return e
	}
	select {
	case <-c.done:
		return errClosed
	default:
		return nil
	}
}

// close ends the session, and the server if it is ours. It does not wait for a
// peer that does not answer.
func (c *mcpSession) close() {
	within(cancelLimit, func() { _ = c.sdk.Close() })
	c.wire.close()
}

func (c *mcpSession) changed() bool { return c.wire.changed.Swap(false) }

// list reads all pages of tools/list as they came over the wire. Definitions are kept,
// in the lock and in runs: credentials are taken out.
func (c *mcpSession) list(ctx context.Context) (l listed, err error) {
	page := toolsPage{}
	for n := range maxPages {
		page, err = c.page(ctx, page.Next)
		switch slow := errors.Is(context.Cause(ctx), errSlowList); {
		case err != nil && slow && n > 0:
			return l, fmt.Errorf("%w: %d tools on %d pages came", errSlowList, len(l.tools), n)
		case err != nil && slow:
			return l, errSlowList
		case err != nil:
			return l, c.redactor.Error(c.wire.why(err))
		case len(l.tools)+len(page.Tools) > maxTools:
			return l, fmt.Errorf("it lists more than %d tools", maxTools)
		}
		for _, raw := range page.Tools {
			l.tools = append(l.tools, c.redactor.Bytes(raw))
		}
		if ttl := time.Duration(page.TTL) * time.Millisecond; ttl > 0 && (l.lifetime == 0 || ttl < l.lifetime) {
			l.lifetime = ttl
		}
		if page.Next == "" {
			if r := c.sdk.InitializeResult(); r != nil && r.ServerInfo != nil {
				l.version = c.redactor.Text(r.ServerInfo.Version)
			}
			return l, nil
		}
	}
	return l, fmt.Errorf("its list of tools does not end after %d pages", maxPages)
}

type toolsPage struct {
	Tools []json.RawMessage `json:"tools"`
	Next  string            `json:"nextCursor"`
	TTL   int64             `json:"ttlMs"`
}

func (c *mcpSession) page(ctx context.Context, cursor string) (toolsPage, error) {
	ctx, x := c.wire.begin(ctx, nil)
	_, err := c.sdk.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
	got := c.wire.finish(x)
	var page toolsPage
	switch {
	case got.large != nil:
		return page, got.large
	case got.failure != nil:
		return page, got.failure
	case got.result != nil:
		return page, document.Readable(json.Unmarshal(got.result, &page))
	case err == nil:
		err = errors.New("no reply was seen")
	}
	return page, err
}

// call sends one request and returns what came back.
func (c *mcpSession) call(ctx context.Context, r request) (reply, error) {
	ctx, x := c.wire.begin(ctx, r.onProgress)
	x.trace = r.trace
	p := &mcp.CallToolParams{Meta: mcp.Meta{idempotencyKey: r.key, traceparent: r.trace}, Name: r.tool, Arguments: r.args}
	p.SetProgressToken(x.token)
	_, err := c.sdk.CallTool(ctx, p)
	got := c.wire.finish(x)
	if err != nil {
		c.giveUp(ctx, x, got)
		err = c.wire.why(err)
	}
	return got, err
}

// giveUp sees to it that the server is told of a call that was given up before whoever gave
// it up goes on, and perhaps closes the session: the SDK tells it on the side. A server that
// reads nothing is not waited for. Over HTTP the request itself ends.
func (c *mcpSession) giveUp(ctx context.Context, x *exchange, got reply) {
	if ctx.Err() == nil || !got.sent || c.wire.shown {
		return
	}
	select {
	case <-x.told:
	case <-c.done:
	case <-time.After(cancelLimit):
	}
}

const (
	healthInterval = 30 * time.Second
	healthLimit    = 5 * time.Second
	healthMisses   = 2
	// stateless is the revision of the protocol since which there is no ping: a
	// server need not be there between two requests.
	stateless = "2026-07-28"
)

var errUnresponsive = errors.New("the server no longer answers")

// watchHealth pings an idle server at intervals. A server that fails to answer twice is
// given up, so that the next call starts another instead of waiting for this one.
func (c *mcpSession) watchHealth() {
	if r := c.sdk.InitializeResult(); r == nil || r.ProtocolVersion >= stateless {
		return
	}
	tick := time.NewTicker(healthInterval)
	defer tick.Stop()
	for missed := 0; missed < healthMisses; {
		select {
		case <-c.done:
			return
		case <-tick.C:
		}
		switch {
		case !c.wire.idle(): // a call in progress has its own limit
		case c.answers():
			missed = 0
		default:
			missed++
		}
	}
	c.wire.broke(errUnresponsive)
	c.close()
}

func (c *mcpSession) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), healthLimit)
	defer cancel()
	err := c.sdk.Ping(ctx, nil)
	var refused *jsonrpc.Error
	return err == nil || errors.As(err, &refused) // an error is an answer too
}

// traceparent is the name of the W3C trace context, in a header and in _meta.
const traceparent = "traceparent"

// TraceID is the id of the trace of a run that is part of no other trace: the first 16
// bytes of the SHA-256 of the run's id, so that all processes of the run derive the same.
func TraceID(run string) trace.TraceID {
	sum := sha256.Sum256([]byte(run))
	return trace.TraceID(sum[:16])
}

// traceOf is the trace context that is sent to a server: the span that ctx carries.
// Without one it is the trace of the run, with a span derived from the attempt: the
// first 8 bytes of the SHA-256 of run, path and number, line by line.
func traceOf(ctx context.Context, t flow.Attempt) string {
	if s := Traceparent(ctx); s != "" {
		return s
	}
	sum := sha256.Sum256([]byte(t.Run + "\n" + t.Path + "\n" + strconv.Itoa(t.N)))
	return Traceparent(trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: TraceID(t.Run), SpanID: trace.SpanID(sum[:8]), TraceFlags: trace.FlagsSampled})))
}

// Traceparent is the W3C form of the span that ctx carries; "": it carries none.
func Traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[traceparent]
}

// ParseTraceparent is the span that the W3C form names; one that is not valid is
// none.
func ParseTraceparent(s string) trace.SpanContext {
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{traceparent: s}))
}
