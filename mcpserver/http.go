package mcpserver

import (
	"context"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tipstaff/tipstaff"
)

const (
	sessionless = "2026-07-28" // the first revision of the protocol whose requests stand alone
	idleSession = 30 * time.Minute
)

// Handler serves clients over HTTP. Whoever mounts it has checked token, Host and Origin of a
// request, and has put the caller into its context.
//
// Requests of newer revisions stand alone. Older ones belong to a session, which is its
// opener's: nobody else can use it.
func (s *Server) Handler() http.Handler {
	server := func(*http.Request) *mcp.Server { return s.mcp }
	alone := mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{Stateless: true, Logger: s.o.Log, PropagateRequestCancellation: true})
	sessions := mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{SessionTimeout: idleSession, Logger: s.o.Log})
	// The library knows who makes a request by what its own check of tokens has found: that
	// travels with every request, and is compared with whose session it is.
	bound := auth.RequireBearerToken(func(_ context.Context, _ string, r *http.Request) (*auth.TokenInfo, error) {
		caller := tipstaff.CallerFrom(r.Context())
		caller.Surface = "mcp"
		return &auth.TokenInfo{UserID: caller.Principal + " " + caller.User, Scopes: caller.Scopes, Extra: map[string]any{callerKey: caller}}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	return bound(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("MCP-Protocol-Version") >= sessionless {
			alone.ServeHTTP(w, r)
			return
		}
		sessions.ServeHTTP(w, r)
	}))
}
