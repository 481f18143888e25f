package tool

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// wire watches the messages of one connection. The SDK decodes replies into its
// own types, which drop unknown members and round numbers; definitions and
// results must be taken as the bytes that were received.
type wire struct {
	conn mcp.Connection

	mu      sync.Mutex
	tokens  int
	byID    map[jsonrpc.ID]*exchange
	byToken map[string]*exchange
}

// exchange is one request and what came back for it.
type exchange struct {
	token string // progress token

	// Guarded by wire.mu.
	id        jsonrpc.ID
	cancelled string // why it is to be cancelled; "": it is not
	reply     reply

	reporting sync.Mutex // held while progress is handed on
	progress  func(progress)
}

// reply is what is known of an exchange that has ended.
type reply struct {
	sent    bool            // the request was handed to the connection
	result  json.RawMessage // as received; nil: no reply came
	failure *jsonrpc.Error  // the protocol's own error reply
}

// progress is what a call reported while it ran.
type progress struct {
	Token   any             `json:"progressToken"`
	Message string          `json:"message"`
	Meta    json.RawMessage `json:"_meta"`
}

type exchangeKey struct{}

// tap makes t report to w.
func (w *wire) tap(t mcp.Transport) mcp.Transport { return tappedTransport{t, w} }

type tappedTransport struct {
	mcp.Transport
	wire *wire
}

func (t tappedTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	t.wire.conn = conn
	return tappedConn{conn, t.wire}, nil
}

type tappedConn struct {
	mcp.Connection
	wire *wire
}

func (c tappedConn) Write(ctx context.Context, m jsonrpc.Message) error {
	x, ours := ctx.Value(exchangeKey{}).(*exchange)
	request, ok := m.(*jsonrpc.Request)
	if !ours || !ok || !request.IsCall() {
		return c.Connection.Write(ctx, m)
	}
	c.wire.request(x, request.ID)
	err := c.Connection.Write(ctx, m)
	c.wire.requested(x)
	return err
}

func (c tappedConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	switch m := m.(type) {
	case *jsonrpc.Response:
		c.wire.response(m)
	case *jsonrpc.Request:
		if m.Method == "notifications/progress" {
			c.wire.notify(m.Params)
		}
	}
	return m, err
}

// begin announces an exchange and returns the context under which its request
// must be made.
func (w *wire) begin(ctx context.Context, onProgress func(progress)) (context.Context, *exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byID == nil {
		w.byID, w.byToken = map[jsonrpc.ID]*exchange{}, map[string]*exchange{}
	}
	w.tokens++
	x := &exchange{token: strconv.Itoa(w.tokens), progress: onProgress}
	w.byToken[x.token] = x
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// end forgets an exchange and returns what came of it. Afterwards no progress of
// it is handed on.
func (w *wire) end(x *exchange) reply {
	x.reporting.Lock()
	x.progress = nil
	x.reporting.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byToken, x.token)
	delete(w.byID, x.id)
	return x.reply
}

// request notes that a request is about to be written: from here on nobody can
// say that it was not sent.
func (w *wire) request(x *exchange, id jsonrpc.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.reply.sent, x.id = true, id
	w.byID[id] = x
}

// requested sends the cancellation of a request that was cancelled while it was
// being written.
func (w *wire) requested(x *exchange) {
	w.mu.Lock()
	reason := x.cancelled
	w.mu.Unlock()
	if reason != "" {
		w.cancel(x, reason)
	}
}

func (w *wire) response(m *jsonrpc.Response) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.byID[m.ID]
	if x == nil {
		return
	}
	x.reply.result = m.Result
	if m.Error != nil {
		x.reply.failure = asWireError(m.Error)
	}
}

// notify hands on progress before any later message is read, so that all of it
// arrives before the reply does.
func (w *wire) notify(params json.RawMessage) {
	var p progress
	if json.Unmarshal(params, &p) != nil {
		return
	}
	token, ok := p.Token.(string)
	if !ok {
		return
	}
	w.mu.Lock()
	x := w.byToken[token]
	w.mu.Unlock()
	if x == nil {
		return
	}
	x.reporting.Lock()
	defer x.reporting.Unlock()
	if x.progress != nil {
		x.progress(p)
	}
}

// cancel asks the server to end an exchange whose reply is still awaited. The
// SDK can only cancel and forget.
func (w *wire) cancel(x *exchange, reason string) {
	w.mu.Lock()
	x.cancelled = reason
	sent, id := x.reply.sent, x.id
	w.mu.Unlock()
	if !sent {
		return
	}
	params, err := json.Marshal(map[string]any{"requestId": id.Raw(), "reason": reason})
	if err != nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), cancelLimit)
	defer stop()
	// A connection that cannot be written to has ended, and the call with it.
	_ = w.conn.Write(ctx, &jsonrpc.Request{Method: "notifications/cancelled", Params: params})
}

func asWireError(err error) *jsonrpc.Error {
	if e, ok := err.(*jsonrpc.Error); ok {
		return e
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
}
