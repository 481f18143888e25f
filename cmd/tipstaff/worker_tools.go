package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/provider/file"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/worker"
)

// scriptedServer is what the own tools of a scripted worker are called by.
const scriptedServer = "worker-scripted"

// workerTools are the tools of a scripted worker: its own, and those of the channel. It is
// also who is asked for leave: the channel.
type workerTools struct {
	own       *builtin.Server
	channel   *mcp.ClientSession
	catalog   agent.Catalog
	hook      bool               // the channel has approve
	interrupt context.CancelFunc // ends the turn

	stderr func(string)
}

func (w scriptedWorker) tools(ctx context.Context, answers *file.Script) (*workerTools, error) {
	own, err := w.builtins(answers)
	if err != nil {
		return nil, err
	}
	conn, err := worker.DialChannel(ctx, w.environ)
	if err != nil {
		return nil, err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "tipstaff-worker-agent", Version: build.Version}, nil)
	session, err := client.Connect(ctx, &mcp.IOTransport{Reader: conn, Writer: conn}, nil)
	if err != nil {
		return nil, fmt.Errorf("the channel does not speak MCP: %w", err)
	}
	t := &workerTools{own: own, channel: session, stderr: func(s string) { fmt.Fprintln(w.stderr, s) }}
	if err := t.list(ctx); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *workerTools) close() { _ = t.channel.Close() }

// list makes the catalog. What asks for leave is not offered to the model.
func (t *workerTools) list(ctx context.Context) error {
	listed, err := t.channel.ListTools(ctx, nil)
	if err != nil {
		return fmt.Errorf("the channel does not list its tools: %w", err)
	}
	for _, l := range listed.Tools {
		if l.Name == worker.ApproveTool {
			t.hook = true
			continue
		}
		t.offer(worker.ServerName, l.Name, "1.0.0", flow.JSON(l))
	}
	for _, raw := range builtin.Definitions() {
		var d struct{ Name string }
		if err := json.Unmarshal(raw, &d); err != nil {
			return err
		}
		if slices.Contains(offeredBuiltins, d.Name) {
			t.offer(scriptedServer, d.Name, builtin.Version, raw)
		}
	}
	return nil
}

func (t *workerTools) offer(server, name, version string, raw json.RawMessage) {
	t.catalog.Tools = append(t.catalog.Tools, agent.Tool{URI: "mcp://" + server + "/" + name + "@" + version, Server: server, Name: name, Version: version, Raw: raw})
}

func (t *workerTools) Catalog(context.Context) (*agent.Catalog, error) { return &t.catalog, nil }

func (t *workerTools) Call(ctx context.Context, c agent.ToolCall) (agent.ToolResult, error) {
	if c.Server == worker.ServerName {
		text, failed, err := t.ask(ctx, c.Tool, c.Arguments)
		return agent.ToolResult{Content: []agent.Content{{Type: agent.ContentText, Text: text}}, IsError: failed}, err
	}
	r, err := t.own.Call(ctx, builtin.Call{Tool: c.Tool, Args: c.Arguments})
	return agent.ToolResult{Content: []agent.Content{{Type: agent.ContentText, Text: r.Text}}, Structured: r.Value, IsError: r.Failed}, err
}

// ask calls a tool of the channel.
func (t *workerTools) ask(ctx context.Context, tool string, args json.RawMessage) (text string, failed bool, err error) {
	r, err := t.channel.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", false, err
	}
	var all []string
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			all = append(all, t.Text)
		}
	}
	return strings.Join(all, "\n"), r.IsError, nil
}

// Approve asks the channel, as the hooks of other CLIs do. Without a hook nothing is done
// that changes anything.
func (t *workerTools) Approve(ctx context.Context, r agent.ToolCallRequest) (agent.Decision, error) {
	if !t.hook {
		t.stderr("nobody gives leave here: " + r.Title() + " is denied")
		return agent.Deny, nil
	}
	text, failed, err := t.ask(ctx, worker.ApproveTool, flow.JSON(map[string]any{"tool_name": r.Tool, "input": r.Arguments, "tool_use_id": r.ID}))
	if err != nil {
		return agent.Deny, err
	}
	var said struct {
		Behavior  string `json:"behavior"`
		Message   string `json:"message"`
		Interrupt bool   `json:"interrupt"`
	}
	if failed || json.Unmarshal([]byte(text), &said) != nil {
		return agent.Deny, fmt.Errorf("the channel did not decide: %s", text)
	}
	if said.Behavior == "allow" {
		return agent.Allow, nil
	}
	t.stderr(said.Message)
	if said.Interrupt {
		t.interrupt()
		<-ctx.Done() // the turn ends here: nothing is decided any more
		return agent.Deny, context.Cause(ctx)
	}
	return agent.Deny, nil
}

// argvOf are the program and the arguments that a call of exec starts, if it is one.
func argvOf(args string) []string {
	var a struct{ Argv []string }
	if json.Unmarshal([]byte(args), &a) != nil {
		return nil
	}
	return a.Argv
}
