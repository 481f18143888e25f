package tool

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff/redact"
)

// slowly is a transport that takes its time to tell a server that a call is given up.
type slowly struct {
	mcp.Transport
	mcp.Connection
	told *atomic.Bool
}

func (s slowly) Connect(ctx context.Context) (_ mcp.Connection, err error) {
	s.Connection, err = s.Transport.Connect(ctx)
	return s, err
}

func (s slowly) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Request); ok && r.Method == methodCancelled {
		time.Sleep(100 * time.Millisecond)
		defer s.told.Store(true)
	}
	return s.Connection.Write(ctx, m)
}

// Whoever gives a call up may end the server at once: by then it has been told.
func TestGivenUpCallsAreToldFirst(t *testing.T) {
	t.Parallel()
	here, there := mcp.NewInMemoryTransports()
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "never", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if _, err := server.Connect(t.Context(), there, nil); err != nil {
		t.Fatal(err)
	}
	var told atomic.Bool
	dial := func(context.Context, *wire) (mcp.Transport, error) { return slowly{Transport: here, told: &told}, nil }
	c, err := openMCP(t.Context(), dial, "", redact.New(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.call(ctx, request{tool: "never", args: []byte(`{}`)}); err == nil || !told.Load() {
		t.Errorf("the server was told: %v; the call ended with %v", told.Load(), err)
	}
}
