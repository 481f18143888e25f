package worker

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// drainTime is how long calls may take that are under way when a connection ends.
const drainTime = 10 * time.Second

// draining is a transport whose connection ends when every call that has arrived was
// answered. Without it the server drops calls that it has read and not begun, and a worker
// that reports and exits would have said nothing.
type draining struct{ mcp.Transport }

func (t draining) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	return &drainingConn{Connection: conn, calls: map[jsonrpc.ID]bool{}, idle: make(chan struct{}, 1)}, err
}

type drainingConn struct {
	mcp.Connection

	mu    sync.Mutex
	calls map[jsonrpc.ID]bool // that were not answered
	idle  chan struct{}       // has a value when one was
}

func (c *drainingConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() && r.Method == "tools/call" {
		c.mu.Lock()
		c.calls[r.ID] = true
		c.mu.Unlock()
	}
	if err != nil {
		c.drain()
	}
	return m, err
}

func (c *drainingConn) drain() {
	late := time.NewTimer(drainTime)
	defer late.Stop()
	for {
		c.mu.Lock()
		left := len(c.calls)
		c.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-c.idle:
		case <-late.C:
			return
		}
	}
}

func (c *drainingConn) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if r, ok := m.(*jsonrpc.Response); ok || err != nil {
		c.mu.Lock()
		if err != nil {
			clear(c.calls) // nobody reads answers any more, and none will be written
		} else {
			delete(c.calls, r.ID)
		}
		c.mu.Unlock()
		select {
		case c.idle <- struct{}{}:
		default:
		}
	}
	return err
}
