package tipstaff

import "context"

// Caller is on whose behalf a Service method is called.
type Caller struct {
	Surface   string // cli, http, grpc, mcp
	User      string
	Scopes    []string
	Principal string // local:cli, token:NAME …
	Client    string
}

type callerKey struct{}

// WithCaller returns a context that carries c.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns the caller of ctx. Without one it is surface mcp without
// scopes, the least trusted.
func CallerFrom(ctx context.Context) Caller {
	if c, ok := ctx.Value(callerKey{}).(Caller); ok {
		return c
	}
	return Caller{Surface: "mcp"}
}
