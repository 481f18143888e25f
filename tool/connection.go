package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff/workspace"
)

const (
	connectLimit = 30 * time.Second // to start, initialize and list
	cancelLimit  = time.Second
	closeLimit   = 5 * time.Second
	stopGrace    = 5 * time.Second // for the reply of a call that ends itself
	maxPages     = 1000
)

// connection is a session with one server.
type connection struct {
	server   string
	session  *mcp.ClientSession
	wire     *wire
	release  func() // lets go of what is kept open between requests; nil: nothing is
	redactor *Redactor
	done     chan struct{} // closed when the session has ended

	listing chan struct{} // held while the two below are used
	catalog *catalog
	expires time.Time // of the catalog; zero: not by time
}

// connect opens a session. Its errors hold no credentials.
//
// Servers are asked first what they understand, as the latest protocol has it.
// One that ends itself at so strange a question is started again and greeted in
// the old way.
func connect(ctx context.Context, name string, s Server) (*connection, error) {
	var redactor *Redactor
	if e, ok := s.(external); ok {
		redactor = NewRedactor(e.credentials())
	}
	c, err := open(ctx, name, s, redactor)
	var ended *endedError
	if p, ok := s.(*stdioServer); ok && errors.As(err, &ended) && p.greetOld() {
		c, err = open(ctx, name, s, redactor)
	}
	if err != nil {
		return nil, redactor.Error(err)
	}
	go func() {
		_ = c.session.Wait() // why it ended does not matter: what is in flight fails by itself
		close(c.done)
	}()
	go c.watchHealth()
	return c, nil
}

// open makes one attempt. Sampling, roots and elicitation are not offered, and
// the SDK's own repetition of calls is off: what is sent is decided here.
func open(ctx context.Context, name string, s Server, r *Redactor) (*connection, error) {
	t, err := s.Transport(ctx)
	if err != nil {
		return nil, err
	}
	c := &connection{server: name, wire: new(wire), redactor: r, done: make(chan struct{}), listing: make(chan struct{}, 1)}
	client := mcp.NewClient(&mcp.Implementation{Name: "tipstaff", Version: "1"}, &mcp.ClientOptions{
		Logger:                 slog.New(slog.DiscardHandler),
		Capabilities:           &mcp.ClientCapabilities{},
		MultiRoundTrip:         &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { c.wire.changed.Store(true) },
	})
	if h, ok := t.(*httpTransport); ok {
		c.release = h.trips.base.CloseIdleConnections
	}
	options := new(mcp.ClientSessionOptions)
	if v, ok := s.(Versioned); ok {
		options.ProtocolVersion = v.ProtocolVersion()
	}
	if c.session, err = client.Connect(ctx, c.wire.tap(t), options); err != nil {
		c.wire.close()
		c.letGo()
		return nil, c.wire.why(err)
	}
	return c, nil
}

func (c *connection) alive() bool {
	select {
	case <-c.done:
		return false
	default:
		return c.wire.end.Load() == nil
	}
}

// close ends the session, and the server if it is ours. It does not wait for a
// peer that does not answer.
func (c *connection) close() {
	defer c.letGo()
	closed := make(chan struct{})
	go func() {
		_ = c.session.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(cancelLimit):
		c.wire.close()
	}
}

func (c *connection) letGo() {
	if c.release != nil {
		c.release()
	}
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
	if c.wire.changed.Swap(false) {
		c.catalog = nil
	}
	if c.catalog != nil && (c.expires.IsZero() || time.Now().Before(c.expires)) {
		return c.catalog, nil
	}
	listed, lifetime, err := c.list(ctx)
	if err != nil {
		return nil, c.redactor.Error(c.wire.why(err))
	}
	for i := range listed { // definitions are kept: in the lock, and in runs
		listed[i] = c.redactor.Bytes(listed[i])
	}
	version := ""
	if r := c.session.InitializeResult(); r != nil && r.ServerInfo != nil {
		version = c.redactor.Text(r.ServerInfo.Version)
	}
	c.catalog, c.expires = newCatalog(m, c.server, version, listed), time.Time{}
	if lifetime > 0 {
		c.expires = time.Now().Add(lifetime)
	}
	return c.catalog, nil
}

// list reads all pages of tools/list as they came over the wire.
func (c *connection) list(ctx context.Context) (tools []json.RawMessage, lifetime time.Duration, err error) {
	cursor := ""
	for range maxPages {
		page, err := c.page(ctx, cursor)
		if err != nil {
			return nil, 0, err
		}
		tools = append(tools, page.Tools...)
		if ttl := time.Duration(page.TTL) * time.Millisecond; ttl > 0 && (lifetime == 0 || ttl < lifetime) {
			lifetime = ttl
		}
		if page.Next == "" {
			return tools, lifetime, nil
		}
		cursor = page.Next
	}
	return nil, 0, fmt.Errorf("its list of tools does not end after %d pages", maxPages)
}

type toolsPage struct {
	Tools []json.RawMessage `json:"tools"`
	Next  string            `json:"nextCursor"`
	TTL   int64             `json:"ttlMs"`
}

func (c *connection) page(ctx context.Context, cursor string) (toolsPage, error) {
	ctx, x := c.wire.begin(ctx, nil)
	_, err := c.session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
	got := c.wire.finish(x)
	var page toolsPage
	switch {
	case got.large != nil:
		return page, got.large
	case got.failure != nil:
		return page, got.failure
	case got.result != nil:
		return page, json.Unmarshal(got.result, &page)
	case err == nil:
		err = errors.New("no reply was seen")
	}
	return page, err
}

// call sends one request and returns what came back. With stops, the end of ctx
// cancels the call, but its reply is awaited a while longer.
func (c *connection) call(ctx context.Context, p *mcp.CallToolParams, stops bool, onProgress func(progress)) (reply, error) {
	sending := ctx
	abandon := func() {}
	if stops {
		sending, abandon = context.WithCancel(context.WithoutCancel(ctx))
	}
	defer abandon()
	sending, x := c.wire.begin(sending, onProgress)
	x.trace, _ = p.Meta[traceparent].(string)
	x.bytes = true
	p.SetProgressToken(x.token)
	if stops {
		defer context.AfterFunc(ctx, func() {
			time.AfterFunc(stopGrace, abandon)
			c.wire.cancel(x, context.Cause(ctx).Error())
		})()
	}
	_, err := c.session.CallTool(sending, p)
	got := c.wire.finish(x)
	switch {
	case errors.Is(err, errTaken):
		return got, nil
	case err != nil:
		return got, c.wire.why(err)
	}
	return got, nil
}
