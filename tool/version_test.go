package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/tool/tooltest"
)

// revisions of the protocol that a server may speak, each of them alone.
var revisions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"}

func TestEveryRevisionIsSpokenOverStdio(t *testing.T) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			o := newOutside(t, map[string]string{"one": command(t, tooltest.Protocol+revision)})
			o.lock()
			o.says("hello", "one", tooltest.Echo, object{"text": "hello"})
			value, err := o.call("one", tooltest.Meta, nil)
			var meta struct {
				Revision string `json:"io.modelcontextprotocol/protocolVersion"`
			}
			if err != nil || json.Unmarshal(value, &meta) != nil {
				t.Fatalf("got %s, %v", value, err)
			}
			want := "" // a session knows its own
			if revision >= "2026-07-28" {
				want = revision
			}
			if meta.Revision != want {
				t.Errorf("a call says it is of revision %q, want %q", meta.Revision, want)
			}
		})
	}
}

func TestEveryRevisionIsSpokenOverHTTP(t *testing.T) {
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			s := mcp.NewServer(&mcp.Implementation{Name: "web", Version: "1.0.0"}, &mcp.ServerOptions{SupportedProtocolVersions: []string{revision}})
			var mu sync.Mutex
			var spoken []string
			s.AddTool(&mcp.Tool{Name: tooltest.Echo, InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
				func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					mu.Lock()
					defer mu.Unlock()
					spoken = append(spoken, r.Extra.Header.Get("Mcp-Protocol-Version"))
					return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil
				})
			handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: revision >= "2026-07-28"})
			o := newOutside(t, map[string]string{"web": "url: " + serve(t, handler)})
			o.says("hello", "web", tooltest.Echo, nil)
			mu.Lock()
			defer mu.Unlock()
			if len(spoken) != 1 || spoken[0] != revision {
				t.Errorf("the calls were of revisions %q, want one of %s", spoken, revision)
			}
		})
	}
}

// A revision that nobody here knows is refused, and said to be why.
func TestUnknownRevisionIsRefused(t *testing.T) {
	t.Parallel()
	web := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if json.NewDecoder(r.Body).Decode(&m) != nil || m.Method != "initialize" {
			http.Error(w, "no such method", http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"1999-12-31","capabilities":{"tools":{}},"serverInfo":{"name":"web","version":"1.0.0"}}}`, m.ID)
	})
	o := newOutside(t, map[string]string{
		"old":    command(t, tooltest.Protocol+"1999-12-31"),
		"future": command(t, tooltest.Protocol+"2999-12-31"),
		"web":    "url: " + serve(t, web),
		"fine":   command(t),
	})
	for server, says := range map[string]string{
		"old":    `unsupported protocol version: "1999-12-31"`,
		"web":    `unsupported protocol version: "1999-12-31"`,
		"future": "only the protocol 2999-12-31 is spoken here",
	} {
		e := o.fails(tool.CodeUnavailable, server, tooltest.Write, nil)
		contains(t, e.Message, says)
		if !e.NotSent {
			t.Errorf("%s: %+v", server, e)
		}
	}
	o.says("unharmed", "fine", tooltest.Echo, object{"text": "unharmed"})
	if n := o.starts.Load(); n != 3 {
		t.Errorf("three programs were started %d times", n)
	}
}
