package tool

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// wire watches the messages of one connection. The SDK decodes replies into its
// own types, which drop unknown members and round numbers; definitions and
// results must be taken as the bytes that were received.
type wire struct {
	conn    mcp.Connection
	shown   bool                       // the transport reports its messages itself
	release func()                     // closes what is kept open between requests; nil: nothing is
	end     atomic.Pointer[endedError] // why nothing more can be read
	// changed: the server has announced that its list changed. It is set as soon as the
	// message is read, so that it is visible to whoever gets a later reply.
	changed atomic.Bool

	mu      sync.Mutex
	tokens  int
	byID    map[jsonrpc.ID]*exchange
	byToken map[string]*exchange
}

// exchange is one request and what came back for it.
type exchange struct {
	token string        // progress token
	trace string        // trace context; "": none
	told  chan struct{} // has something when the server was told that the call is given up

	// Guarded by wire.mu.
	id    jsonrpc.ID
	reply reply

	reporting sync.Mutex // held while progress is handed on
	progress  func(progress)
}

// progress is what a call reported while it ran.
type progress struct {
	Token    any     `json:"progressToken"`
	Progress float64 `json:"progress"`
	Total    float64 `json:"total"` // 0: not known
	Message  string  `json:"message"`
}

type exchangeKey struct{}

// tap is a transport, and then its connection, which reports to the wire.
type tap struct {
	mcp.Transport
	mcp.Connection
	wire *wire
}

func (t *tap) Connect(ctx context.Context) (conn mcp.Connection, err error) {
	if conn, err = t.Transport.Connect(ctx); err != nil {
		return nil, err
	}
	t.Connection, t.wire.conn = conn, conn
	if t.wire.shown {
		return conn, nil
	}
	return t, nil
}

func (t *tap) Write(ctx context.Context, m jsonrpc.Message) error {
	x, ours := ctx.Value(exchangeKey{}).(*exchange)
	request, ok := m.(*jsonrpc.Request)
	ours = ours && ok && request.IsCall()
	if ours {
		t.wire.request(x, request.ID)
	}
	err := t.Connection.Write(ctx, m)
	if ended := (*endedError)(nil); errors.As(err, &ended) {
		t.wire.broke(ended)
	}
	if ours && errors.Is(err, errNotWritten) { // not one byte of it
		t.wire.rejected(request.ID)
	}
	if x != nil && ok && request.Method == methodCancelled {
		select {
		case x.told <- struct{}{}:
		default:
		}
	}
	return err
}

// Read passes messages on, except for notifications that only the wire uses: a server
// may send any number of them.
func (t *tap) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := t.Connection.Read(ctx)
		if err != nil {
			t.wire.broke(err)
			return m, err
		}
		t.wire.saw(m)
		if r, ok := m.(*jsonrpc.Request); !ok || r.Method != methodProgress && r.Method != methodLog {
			return m, nil
		}
	}
}

const (
	methodProgress    = "notifications/progress"
	methodLog         = "notifications/message"
	methodListChanged = "notifications/tools/list_changed"
	methodCancelled   = "notifications/cancelled"
)

// notOffered are requests by which a server asks for something in the middle of a
// call. The SDK declines them; how the call ends is up to the server.
var notOffered = []string{"elicitation/create", "sampling/createMessage", "roots/list"}

// saw takes note of a message that came in.
func (w *wire) saw(m jsonrpc.Message) {
	switch m := m.(type) {
	case *jsonrpc.Response:
		w.response(m)
	case *jsonrpc.Request:
		switch {
		case m.Method == methodProgress:
			w.notify(m.Params)
		case m.Method == methodListChanged:
			w.changed.Store(true)
		case slices.Contains(notOffered, m.Method):
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, x := range w.byID {
				if len(w.byID) == 1 { // else it is unknown which of them it was for
					x.reply.asked = m.Method
				}
			}
		}
	}
}

// close ends the connection, if there is one, and with it what its server started. It
// does not wait for a peer that does not answer.
func (w *wire) close() {
	if w.conn != nil {
		within(closeLimit, func() { _ = w.conn.Close() }) // whatever it says, it is over
	}
	if w.release != nil {
		w.release()
	}
}

// within reports whether f returns in time. It runs to its end in any case.
func within(limit time.Duration, f func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// broke notes why the connection ended. The first reason counts.
func (w *wire) broke(err error) {
	var e *endedError
	if !errors.As(err, &e) {
		e = &endedError{err.Error(), err}
	}
	w.end.CompareAndSwap(nil, e)
}

// why is the reason for which a request failed: the end of the connection, if it
// has ended. The SDK's errors do not always keep it. A bare EOF is no reason: the SDK
// also causes it, by closing the connection because of what the server answered.
func (w *wire) why(err error) error {
	var status *statusError
	if errors.As(err, &status) {
		return status
	}
	if e := w.end.Load(); e != nil && e.text != io.EOF.Error() {
		return e
	}
	return err
}

// idle reports whether no request is open.
func (w *wire) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.byID) == 0
}

// begin announces an exchange and returns the context under which its request
// must be made.
func (w *wire) begin(ctx context.Context, onProgress func(progress)) (context.Context, *exchange) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tokens++
	x := &exchange{token: strconv.Itoa(w.tokens), progress: onProgress, told: make(chan struct{}, 1)}
	w.byToken[x.token] = x
	return context.WithValue(ctx, exchangeKey{}, x), x
}

// finish forgets an exchange and returns what came of it. Afterwards no progress of
// it is handed on.
func (w *wire) finish(x *exchange) reply {
	x.reporting.Lock()
	x.progress = nil
	x.reporting.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.byToken, x.token)
	delete(w.byID, x.id)
	return x.reply
}

// request notes that a request is about to be written: from here on it may have been
// sent.
func (w *wire) request(x *exchange, id jsonrpc.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.reply.sent, x.id = true, id
	w.byID[id] = x
}

// rejected notes that the server did not accept a request: it did nothing of it.
func (w *wire) rejected(id jsonrpc.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if x := w.byID[id]; x != nil {
		x.reply.sent = false
		delete(w.byID, id)
	}
}

// response notes the reply to an exchange. A second one counts for nothing.
func (w *wire) response(m *jsonrpc.Response) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := w.byID[m.ID]
	if x == nil || x.reply.result != nil || x.reply.failure != nil || x.reply.large != nil {
		return
	}
	switch err := m.Error.(type) {
	case nil:
		x.reply.result = m.Result
	case *oversized:
		x.reply.large = err
	case *jsonrpc.Error:
		x.reply.failure = err
	default:
		x.reply.failure = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
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
