//go:build linux

package clis

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// channelCommand is the argument that makes the test's binary the stand-in for the channel:
// an MCP server with the tools that Tipstaff offers a worker. It writes each call to the
// file that TIPSTAFF_MCP_SOCKET names. Approvals go by what the arguments contain.
const channelCommand = "worker-mcp"

// approver is the token with which the channel has the tool approve.
const approver = "approver"

// The words that decide an approval; without one it is allowed.
const (
	denied      = "DENIED"
	interrupted = "INTERRUPTED"
)

// said is one line of the channel's file.
type said struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args,omitempty"`
	Env  []string        `json:"env,omitempty"` // of the server itself, once
}

func serveChannel() int {
	file, err := os.OpenFile(os.Getenv("TIPSTAFF_MCP_SOCKET"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer file.Close()
	var mu sync.Mutex
	write := func(s said) {
		mu.Lock()
		defer mu.Unlock()
		b, _ := json.Marshal(s)
		fmt.Fprintf(file, "%s\n", b)
	}
	var names []string
	for _, e := range os.Environ() {
		name, _, _ := strings.Cut(e, "=")
		names = append(names, name)
	}
	write(said{Tool: "start", Env: names})
	s := mcp.NewServer(&mcp.Implementation{Name: "tipstaff", Version: "1"}, nil)
	answers := map[string]string{
		"task_status":     "task 010, in_progress, iteration 1",
		"task_set_status": "the status is set",
		"task_log":        "logged",
		"task_ask":        "The question is stored: end your turn now.",
		"task_output":     "stored",
	}
	schemas := map[string]string{
		"task_status":     `{"type":"object","properties":{}}`,
		"task_set_status": `{"type":"object","required":["status","reason"],"properties":{"status":{"type":"string"},"reason":{"type":"string"}}}`,
		"task_log":        `{"type":"object","required":["text"],"properties":{"text":{"type":"string"},"level":{"type":"string"}}}`,
		"task_ask":        `{"type":"object","required":["question"],"properties":{"question":{"type":"string"},"options":{"type":"array","items":{"type":"string"}}}}`,
		"task_output":     `{"type":"object","required":["kind"],"properties":{"kind":{"type":"string"},"path":{"type":"string"},"note":{"type":"string"}}}`,
		"approve":         `{"type":"object","additionalProperties":true}`,
	}
	if os.Getenv("TIPSTAFF_MCP_TOKEN") != approver {
		delete(schemas, "approve") // only where the CLI asks it, and hides it from the model
	}
	for name, schema := range schemas {
		s.AddTool(&mcp.Tool{Name: name, Description: "The tool " + name + " of the channel.", InputSchema: json.RawMessage(schema)},
			func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				write(said{Tool: name, Args: r.Params.Arguments})
				text := answers[name]
				if name == "approve" {
					text = approval(r.Params.Arguments)
				}
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil
			})
	}
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		return 1
	}
	return 0
}

// approval answers a request of Claude Code.
func approval(request json.RawMessage) string {
	var r struct {
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(request, &r); err != nil {
		return err.Error()
	}
	answer := map[string]any{"behavior": "allow", "updatedInput": r.Input}
	switch {
	case strings.Contains(string(r.Input), denied):
		answer = map[string]any{"behavior": "deny", "message": "no-writes: the policy denies it"}
	case strings.Contains(string(r.Input), interrupted):
		answer = map[string]any{"behavior": "deny", "message": "a person is asked", "interrupt": true}
	}
	b, _ := json.Marshal(answer)
	return string(b)
}
