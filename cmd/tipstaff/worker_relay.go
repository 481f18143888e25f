package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/tipstaff/tipstaff/supervisor"
	"github.com/tipstaff/tipstaff/worker"
)

// relay is `tipstaff worker-mcp`: the MCP server that a CLI starts, which is a pipe to the
// channel of its invocation. Standard output belongs to the protocol.
func relay() int {
	supervisor.Conceal() // the token is in its memory
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := worker.Relay(ctx, os.Stdin, os.Stdout, os.Environ()); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "tipstaff worker-mcp:", err)
		return 1
	}
	return 0
}
