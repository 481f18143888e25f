package tipstaff

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"slices"
)

// Caller is on whose behalf a Service method is called.
type Caller struct {
	Surface   string // cli, http, grpc, mcp, stdio (MCP by a person on this machine), parent
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

// Scopes of a token: what its bearer may do with the objects of its user.
const (
	ScopeRead   = "read"
	ScopeRun    = "run"    // start, resume, cancel, fork
	ScopeDecide = "decide" // close gates
	ScopeSubmit = "submit" // send documents
	ScopeHost   = "host"   // serve agents
	ScopeActAs  = "act_as" // make objects for other users; both are recorded
	ScopeAdmin  = "admin"  // see and do everything, whoever it belongs to
)

// Scopes are all of them.
func Scopes() []string {
	return []string{ScopeRead, ScopeRun, ScopeDecide, ScopeSubmit, ScopeHost, ScopeActAs, ScopeAdmin}
}

// DefaultScopes are those of a token for which nothing is said.
func DefaultScopes() []string {
	return []string{ScopeRead, ScopeRun, ScopeDecide, ScopeSubmit, ScopeHost}
}

// May reports whether the caller has a scope. On the command line, and in what runs
// do for each other, there are none: whoever can start the process may do all.
func (c Caller) May(scope string) bool {
	return c.Trusted() || slices.Contains(c.Scopes, scope) || slices.Contains(c.Scopes, ScopeAdmin)
}

// SeesAll reports whether the caller may have to do with what is anybody's. Others
// have to do with what is their user's.
func (c Caller) SeesAll() bool { return c.May(ScopeAdmin) }

// Controlled reports whether the caller may drive only runs that nobody drives in a process
// of their own: it is a model more often than a person.
func (c Caller) Controlled() bool { return c.Surface == "mcp" || c.Surface == "stdio" }

// Trusted callers are on this machine, and asked by the operating system.
func (c Caller) Trusted() bool {
	return c.Surface == "cli" || c.Surface == "stdio" || c.Surface == "parent"
}

// Token lets its bearer act for a user.
type Token struct {
	User   string
	Secret string
	Scopes []string // nil: DefaultScopes
}

// minSecret is shorter than any secret that somebody has made, and longer than any
// that somebody has thought up in a hurry.
const minSecret = 16

// Tokens tells callers by the secrets they bear.
type Tokens struct{ known []knownToken }

type knownToken struct {
	sum    [sha256.Size]byte
	caller Caller
}

// NewTokens takes in tokens. Two users with one secret could not be told apart.
func NewTokens(tokens ...Token) (*Tokens, error) {
	t := new(Tokens)
	for _, token := range tokens {
		if len(token.Secret) < minSecret {
			return nil, Errorf(InvalidArgument, "the token of %s has %d characters: at least %d are needed", token.User, len(token.Secret), minSecret)
		}
		k := knownToken{sum: sha256.Sum256([]byte(token.Secret)), caller: Caller{User: token.User, Principal: "token:" + token.User, Scopes: token.Scopes}}
		if token.Scopes == nil {
			k.caller.Scopes = DefaultScopes()
		}
		for _, other := range t.known {
			if other.sum == k.sum {
				return nil, Errorf(InvalidArgument, "%s and %s have the same token", other.caller.User, token.User)
			}
		}
		t.known = append(t.known, k)
	}
	return t, nil
}

// Caller is who bears a secret, on a surface. It looks at every token in the same
// time, whether one fits or not.
func (t *Tokens) Caller(surface, secret string) (Caller, bool) {
	sum := sha256.Sum256([]byte(secret))
	found := -1
	for i := range t.known {
		if subtle.ConstantTimeCompare(sum[:], t.known[i].sum[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return Caller{}, false
	}
	c := t.known[found].caller
	c.Surface, c.Scopes = surface, slices.Clone(c.Scopes)
	return c, true
}

// ActingAs is the caller on behalf of another user, whom it must be allowed to name.
// The principal stays: both are recorded.
func (c Caller) ActingAs(user string) (Caller, error) {
	if user == "" || user == c.User {
		return c, nil
	}
	if !slices.Contains(c.Scopes, ScopeActAs) {
		return c, Errorf(Forbidden, "%s may not act as %s", c.Principal, user).WithHint("the token needs the scope %s", ScopeActAs)
	}
	c.User = user
	return c, nil
}
