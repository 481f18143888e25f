package rpc

import (
	"context"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tipstaff/tipstaff"
)

// surface is how records name the way a caller came.
const surface = "grpc"

// public is what anybody may ask: whether the server is there.
func public(method string) bool { return strings.HasPrefix(method, "/grpc.health.v1.Health/") }

// authenticate finds the caller by the bearer token, and by nothing else.
func (s *Server) authenticate(header metadata.MD) (tipstaff.Caller, error) {
	given := header.Get("authorization")
	if len(given) != 1 {
		return tipstaff.Caller{}, status.Error(codes.Unauthenticated, "the call needs one bearer token: authorization: Bearer …")
	}
	scheme, secret, _ := strings.Cut(given[0], " ")
	caller, known := s.o.Tokens.Caller(surface, strings.TrimSpace(secret))
	if !strings.EqualFold(scheme, "Bearer") || !known {
		return tipstaff.Caller{}, status.Error(codes.Unauthenticated, "the token is not known here")
	}
	caller.Client = strings.Join(header.Get("user-agent"), " ")
	return caller, nil
}

// acting is the context in which a caller acts for the user that a request names, if
// its token lets it name one. To others the name is a label inside their own objects.
func acting(ctx context.Context, user string) context.Context {
	caller, err := tipstaff.CallerFrom(ctx).ActingAs(user)
	if err != nil {
		return ctx
	}
	return tipstaff.WithCaller(ctx, caller)
}

// streamCount counts the open streams of each principal.
type streamCount struct {
	mu   sync.Mutex
	open map[string]int
}

// add counts one more, unless there are as many as may be.
func (c *streamCount) add(principal string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[string]int{}
	}
	if c.open[principal] >= maxStreams {
		return false
	}
	c.open[principal]++
	return true
}

func (c *streamCount) done(principal string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[principal]--; c.open[principal] == 0 {
		delete(c.open, principal)
	}
}
