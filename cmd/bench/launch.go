package main

import (
	"context"
	"errors"
	"fmt"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
)

const launchLimit = 300 * time.Millisecond

// measureLaunch: a run that an MCP client starts over stdio, until it is told that a process
// drives it.
func measureLaunch(ctx context.Context, b *bench) (rows []row, err error) {
	binary, err := b.command(ctx)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.dir, "launch")
	if err := newWorkspace(dir); err != nil {
		return nil, err
	}
	server := osexec.CommandContext(ctx, binary, "mcp", "--workspace", dir, "--max-runs", "64")
	server.Stderr = &strings.Builder{}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx, &mcp.CommandTransport{Command: server}, nil)
	if err != nil {
		return nil, explain(server, err)
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	var all []float64
	for range b.effort.starts {
		began := time.Now()
		res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tipstaff.ToolRunStart, Arguments: object{"program": string(readCalls(1))}})
		if err != nil {
			return nil, err
		}
		all = append(all, time.Since(began).Seconds())
		started, _ := res.StructuredContent.(map[string]any)
		run, _ := started["run_id"].(string)
		if res.IsError || run == "" {
			return nil, fmt.Errorf("run_start answers %v", res.StructuredContent)
		}
		if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tipstaff.ToolRunWatch, Arguments: object{"run_id": run, "until": "end"}}); err != nil {
			return nil, err
		}
	}
	mid := median(all)
	return []row{{figure: "`run_start` over stdio, until it returns", value: mid, measured: milliseconds(time.Duration(mid * float64(time.Second))),
		beside: fmt.Sprintf("median of %d; slowest %s", len(all), milliseconds(time.Duration(all[len(all)-1]*float64(time.Second)))),
		bound:  goal("< "+milliseconds(launchLimit), mid < launchLimit.Seconds())}}, nil
}
