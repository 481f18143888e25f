package builtin

import (
	"context"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// memory joins a client and a server in one process. Messages are handed over as
// they are: their parameters and results are JSON already, and nothing would be
// gained by writing the frames around them and reading those again.
type memory struct {
	in, out chan jsonrpc.Message
	closing *closing
}

// closing is shared by both ends: when one closes, both are.
type closing struct {
	once sync.Once
	done chan struct{}
}

func newMemory() (client, server memory) {
	a, b := make(chan jsonrpc.Message, 8), make(chan jsonrpc.Message, 8)
	e := &closing{done: make(chan struct{})}
	return memory{in: a, out: b, closing: e}, memory{in: b, out: a, closing: e}
}

var (
	_ mcp.Transport  = memory{}
	_ mcp.Connection = memory{}
)

func (m memory) Connect(context.Context) (mcp.Connection, error) { return m, nil }

func (m memory) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case msg := <-m.in:
		return msg, nil
	case <-m.closing.done:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m memory) Write(ctx context.Context, msg jsonrpc.Message) error {
	select {
	case <-m.closing.done:
		return io.ErrClosedPipe
	default:
	}
	select {
	case m.out <- msg:
		return nil
	case <-m.closing.done:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m memory) Close() error {
	m.closing.once.Do(func() { close(m.closing.done) })
	return nil
}

func (m memory) SessionID() string { return "" }
