package mcpserver

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type progressKey struct{}

// withProgress lets a tool tell how it gets on, if the client wants to know.
func withProgress(ctx context.Context, req *mcp.CallToolRequest) context.Context {
	token := req.Params.GetProgressToken()
	if token == nil {
		return ctx
	}
	return context.WithValue(ctx, progressKey{}, func(seq int64, message string) {
		// A client that has gone is no reason to end the watch: its context does that.
		_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(seq), Message: message})
	})
}

// progressOf is whom a tool tells how it gets on; nil: nobody.
func progressOf(ctx context.Context) func(seq int64, message string) {
	tell, _ := ctx.Value(progressKey{}).(func(int64, string))
	return tell
}
