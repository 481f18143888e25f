package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff/runner"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

const (
	toolServers  = 20
	toolsAll     = 1000
	toolsChecked = time.Second // to list, digest and compare all of them
)

// measureTools: what `tools verify` does with many servers, each connected to,
// listed over the protocol and compared with the lock. They live in this process,
// so that no start of theirs is measured.
func measureTools(ctx context.Context, b *bench) ([]row, error) {
	dir := filepath.Join(b.dir, "tools")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	servers := map[string]tool.Server{}
	for i := range toolServers {
		servers[fmt.Sprintf("s%d", i)] = newCatalogue(toolsAll / toolServers)
	}
	if err := os.WriteFile(filepath.Join(dir, "tipstaff.yaml"), catalogueManifest(servers), 0o644); err != nil {
		return nil, err
	}
	tools := runner.New(runner.Config{Workspace: dir, Servers: func(*workspace.Manifest, string, []string) map[string]tool.Server { return servers }}).Tools()
	pinned, err := tools.Compare(ctx, nil)
	if err == nil {
		err = tools.Pin(ctx, pinned)
	}
	if err != nil {
		return nil, err
	}
	if len(pinned.Changes) != toolsAll {
		return nil, fmt.Errorf("%d tools were locked, want %d: %v", len(pinned.Changes), toolsAll, pinned.Findings)
	}
	var took []float64
	for range b.rounds {
		start := time.Now()
		report, err := tools.Verify(ctx, false)
		if err != nil {
			return nil, err
		}
		took = append(took, float64(time.Since(start)))
		if !report.OK {
			return nil, fmt.Errorf("the tools do not verify: %v", report.Findings)
		}
	}
	m := time.Duration(median(took))
	return []row{{figure: fmt.Sprintf("%s tools of %d servers listed, digested and checked against the lock", count(toolsAll), toolServers),
		value: m.Seconds(), measured: milliseconds(m), bound: goal("< "+milliseconds(toolsChecked), m < toolsChecked)}}, nil
}

// catalogue is a server that lists many tools.
type catalogue struct{ server *mcp.Server }

func newCatalogue(n int) tool.Server {
	c := catalogue{mcp.NewServer(&mcp.Implementation{Name: "catalogue", Version: "1.0.0"}, &mcp.ServerOptions{Logger: slog.New(slog.DiscardHandler)})}
	for i := range n {
		c.server.AddTool(&mcp.Tool{Name: fmt.Sprintf("tool_%d", i), Description: strings.Repeat("It does what its name says. ", 12), InputSchema: json.RawMessage(strings.Replace(catalogueSchema, "1000", fmt.Sprint(1000+i), 1))},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{}, nil
			})
	}
	return tool.MCP(c.dial)
}

// catalogueSchema has the size of what real servers list.
const catalogueSchema = `{"type":"object","additionalProperties":false,"required":["owner","repo"],"properties":{
	"owner":{"type":"string","description":"The account that the repository belongs to."},
	"repo":{"type":"string","description":"The name of the repository."},
	"state":{"type":"string","enum":["open","closed","all"],"default":"open"},
	"labels":{"type":"array","items":{"type":"string"},"maxItems":50},
	"page":{"type":"integer","minimum":1,"maximum":1000},
	"filter":{"type":"object","properties":{"since":{"type":"string","format":"date-time"},"mine":{"type":"boolean"}}}}}`

func (c catalogue) dial(ctx context.Context) (mcp.Transport, error) {
	near, far := mcp.NewInMemoryTransports()
	_, err := c.server.Connect(ctx, far, nil)
	return near, err
}

// catalogueManifest declares every tool of the servers.
func catalogueManifest(servers map[string]tool.Server) []byte {
	declared := map[string]any{}
	for name := range servers {
		tools := map[string]any{}
		for i := range toolsAll / toolServers {
			tools[fmt.Sprintf("tool_%d", i)] = map[string]string{"effect": "read"}
		}
		declared[name] = map[string]any{"command": []string{"catalogue"}, "tools": tools}
	}
	doc, err := json.Marshal(map[string]any{"version": 1, "servers": declared})
	if err != nil {
		panic(err) // maps and strings can be encoded
	}
	return doc
}
