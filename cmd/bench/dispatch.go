package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/workspace"
)

const dispatchOfBare = 0.5 // of the rate of the SDK's own calls

// measureDispatch: a call with our gate, the engine and a journal in memory, beside a
// call of the same function over the protocol's SDK, in the same process.
func measureDispatch(ctx context.Context, b *bench) (rows []row, err error) {
	dir := filepath.Join(b.dir, "dispatch")
	if err := newWorkspace(dir); err != nil {
		return nil, err
	}
	options := builtin.Options{Workspace: dir, Roots: []string{"."}, Protection: workspace.Protect(nil, workspace.Around{Dir: dir})}
	bare, err := newBareClient(ctx, builtin.New(options))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bare.Close()) }()
	ours, err := newDispatcher(options)
	if err != nil {
		return nil, err
	}
	defer ours.close()
	var s sides
	slice := b.round / perRound
	for n := range turns(b.rounds * perRound) {
		err := s.round(n,
			func() (float64, error) { return ours.rate(ctx, slice) },
			func() (float64, error) { return repeat(slice, func() error { return bare.call(ctx) }) })
		if err != nil {
			return nil, err
		}
	}
	r := median(s.ratios)
	return []row{{figure: "a `builtin` call over gate and memory log", value: median(s.ours), measured: count(median(s.ours)) + " calls/s",
		beside: fmt.Sprintf("the bare SDK %s/s: %s", count(median(s.peer)), times(r)),
		bound:  limit(fmt.Sprintf("≥ %g × the bare SDK", dispatchOfBare), r >= dispatchOfBare)}}, nil
}

// What is called, on both sides.
const (
	dispatched    = "read_file"
	dispatchedURI = "mcp://" + builtin.Name + "/" + dispatched + "@1.0.0"
)

var dispatchedArgs = json.RawMessage(`{"path":"note.txt"}`)

// bareClient is the SDK alone.
type bareClient struct{ *mcp.ClientSession }

func newBareClient(ctx context.Context, s *builtin.Server) (bareClient, error) {
	server := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: dispatched, InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			got, err := s.Call(ctx, builtin.Call{Tool: dispatched, Args: r.Params.Arguments})
			return &mcp.CallToolResult{StructuredContent: got.Value, Content: []mcp.Content{&mcp.TextContent{Text: got.Text}}, IsError: got.Failed}, err
		})
	near, far := mcp.NewInMemoryTransports()
	if _, err := server.Connect(ctx, far, nil); err != nil {
		return bareClient{}, err
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx, near,
		&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	return bareClient{session}, err
}

func (c bareClient) call(ctx context.Context) error {
	r, err := c.CallTool(ctx, &mcp.CallToolParams{Name: dispatched, Arguments: dispatchedArgs})
	if err == nil && r.IsError {
		err = fmt.Errorf("%s reports an error", dispatched)
	}
	return err
}

// dispatcher is the way of a plan's call, without the plan and without a disk.
type dispatcher struct {
	manager *tool.Manager
	gate    *tool.Gate
	input   json.RawMessage
}

func newDispatcher(o builtin.Options) (*dispatcher, error) {
	m, problems := workspace.Parse("tipstaff.yaml", []byte(`{servers: {builtin: {roots: ["."], tools: {read_file: {}}}}}`))
	if len(problems) > 0 {
		return nil, fmt.Errorf("%v", problems)
	}
	servers := map[string]tool.Server{builtin.Name: tool.Builtin(o)}
	tools, err := tool.NewRegistry(m, servers)
	if err != nil {
		return nil, err
	}
	return &dispatcher{tool.NewManager(m, servers), tool.NewGate([]string{dispatchedURI}, m, tools),
		flow.JSON(tool.Input{URI: dispatchedURI, Args: dispatchedArgs, By: tool.ByAcceptance})}, nil
}

func (d *dispatcher) close() { d.manager.Close() }

// rate is of calls one after the other, in runs of a segment's length.
func (d *dispatcher) rate(ctx context.Context, least time.Duration) (float64, error) {
	calls := 0
	start := time.Now()
	for time.Since(start) < least {
		out, err := flow.New(flow.NewMem(), nil).Drive(ctx, flow.Job{Run: "bench", Root: "root", Flow: d.calls,
			Acts: map[string]flow.Activity{tool.ActivityName: d.manager.Activity(d.gate)}})
		if err == nil && out.Status != flow.Completed {
			err = fmt.Errorf("the run is %s: %w", out.Status, out.Err)
		}
		if err != nil {
			return 0, err
		}
		calls += dispatches
	}
	return float64(calls) / time.Since(start).Seconds(), nil
}

// dispatches is how many calls a run has: enough that beginning and ending it
// does not count.
const dispatches = 200

func (d *dispatcher) calls(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
	for n := range dispatches {
		call := flow.Call{Key: "s" + strconv.Itoa(n), Name: tool.ActivityName, Class: flow.Read, Input: d.input, Reserve: flow.Use{"tool_calls": 1}}
		if _, err := fc.Do(call); err != nil {
			return nil, err
		}
	}
	return empty, nil
}
