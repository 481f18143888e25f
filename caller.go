package tipstaff

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Caller is on whose behalf a Service method is called.
type Caller struct {
	Surface   string   `json:"surface,omitempty"` // cli, http, grpc, mcp, stdio (MCP over standard input and output), parent
	User      string   `json:"user,omitempty"`
	Scopes    []string `json:"scopes,omitempty"`
	Principal string   `json:"principal,omitempty"` // local:cli, token:NAME …
	Client    string   `json:"client,omitempty"`
	// Within tells of which runs of the store the caller is a process, "" for one that cannot
	// be told. Such a caller decides nothing, whatever its scopes. nil: of none.
	Within func() []string `json:"-"`
}

// SurfaceStdio is MCP over standard input and output: a model on this machine.
const SurfaceStdio = "stdio"

type (
	callerKey struct{}
	withinKey struct{}
)

// Within returns a context of a process, or of a connection whose other end it holds: all
// callers that are taken from it are within the runs that f tells of.
func Within(ctx context.Context, f func() []string) context.Context {
	return context.WithValue(ctx, withinKey{}, f)
}

// WithCaller returns a context that carries c.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns the caller of ctx. Without one it is surface mcp without
// scopes, the least trusted.
func CallerFrom(ctx context.Context) Caller {
	c, ok := ctx.Value(callerKey{}).(Caller)
	if !ok {
		c = Caller{Surface: "mcp"}
	}
	if within, ok := ctx.Value(withinKey{}).(func() []string); ok {
		c.Within = within
	}
	return c
}

// OwnRuns are the runs of the store of which the caller is a process; "" stands for one that
// cannot be told.
func (c Caller) OwnRuns() []string {
	if c.Within == nil {
		return nil
	}
	return c.Within()
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
// do for each other, there are none: whoever can start the process may do all. No process of
// a run decides: it could start a run of its own, and decide that.
func (c Caller) May(scope string) bool {
	if scope == ScopeDecide && len(c.OwnRuns()) > 0 {
		return false
	}
	return c.Trusted() || slices.Contains(c.Scopes, scope) || slices.Contains(c.Scopes, ScopeAdmin)
}

// Obtaining says how a caller comes by a scope that it lacks. Of MCP over standard input and
// output there is no token: whoever configures the client says what it may do.
func (c Caller) Obtaining(scope string) string {
	switch {
	case c.Surface != SurfaceStdio:
		return "the token needs the scope " + scope
	case scope == ScopeDecide:
		return "the scope decide is missing: a person decides, at a terminal with `tipstaff decide` or on the page of `tipstaff serve`; whoever configures this client can add --decide to `tipstaff mcp`"
	}
	return "the scope " + scope + " is missing: the server was started with --read-only"
}

// SeesAll reports whether the caller may have to do with what is anybody's. Others
// have to do with what is their user's.
func (c Caller) SeesAll() bool { return c.May(ScopeAdmin) }

// Controlled reports whether the caller may drive only runs that nobody drives in a process
// of their own: it is a model more often than a person.
func (c Caller) Controlled() bool { return c.Surface == "mcp" || c.Surface == SurfaceStdio }

// Trusted callers are people at this machine, asked by the operating system, and runs that
// start others.
func (c Caller) Trusted() bool { return c.Surface == "cli" || c.Surface == "parent" }

// Token lets its bearer act for a user.
type Token struct {
	User    string
	Secret  string
	Scopes  []string  // nil: DefaultScopes
	Expires time.Time // from then on it is refused; zero: never
}

// minSecret is shorter than any secret that somebody has made, and longer than any
// that somebody has thought up in a hurry.
const minSecret = 16

// Tokens tells callers by the secrets they bear.
type Tokens struct {
	// Now notes when tokens are used. nil: nobody does, and what expires at all has expired.
	Now func() time.Time
	// Refresh is called before anybody is looked for. It may [Tokens.Replace] them. nil: they stay.
	Refresh func()

	mu       sync.Mutex
	known    []knownToken
	replaced [][sha256.Size]byte // of those that were known before
}

type knownToken struct {
	sum     [sha256.Size]byte
	expires time.Time
	bearer  Bearer
}

// holds reports whether a token has not expired.
func (t *Tokens) holds(k knownToken) bool {
	return k.expires.IsZero() || t.Now != nil && t.Now().Before(k.expires)
}

// all are the tokens that are known now.
func (t *Tokens) all() (known []knownToken, replaced [][sha256.Size]byte) {
	if t.Refresh != nil {
		t.Refresh()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known, t.replaced
}

// Bearer is who bears a token, and can sign in its name.
type Bearer struct {
	Caller
	key  []byte
	used *atomic.Int64 // when the token was used last, in Unix nanoseconds; shared by all its bearers
}

// Used notes that somebody has come with the token.
func (b Bearer) Used(now time.Time) { b.used.Store(now.UnixNano()) }

// TokenUse is what can be told of a token without its secret.
type TokenUse struct {
	User    string
	Scopes  []string
	Last    time.Time // zero: not since this process has started
	Expires time.Time // zero: never
}

// Uses are all tokens, in their order.
func (t *Tokens) Uses() (all []TokenUse) {
	known, _ := t.all()
	for _, k := range known {
		one := TokenUse{User: k.bearer.User, Scopes: slices.Clone(k.bearer.Scopes), Expires: k.expires}
		if at := k.bearer.used.Load(); at != 0 {
			one.Last = time.Unix(0, at)
		}
		all = append(all, one)
	}
	return all
}

// MAC authenticates a message in the name of the token: whoever has it not, or another of
// the same user, makes another. Messages of two purposes never have one MAC.
func (b Bearer) MAC(purpose string, message []byte) []byte {
	m := hmac.New(sha256.New, b.key)
	m.Write([]byte(purpose + "\x00"))
	m.Write(message)
	return m.Sum(nil)
}

// SameToken reports whether another bears the same token.
func (b Bearer) SameToken(other Bearer) bool { return hmac.Equal(b.key, other.key) }

// NewTokens takes in tokens. Two users with one secret could not be told apart.
func NewTokens(tokens ...Token) (*Tokens, error) {
	t := new(Tokens)
	return t, t.Replace(tokens...)
}

// Replace has these tokens hold, and those that held before no more.
func (t *Tokens) Replace(tokens ...Token) error {
	var known []knownToken
	for _, token := range tokens {
		if len(token.Secret) < minSecret {
			return Errorf(InvalidArgument, "the token of %s has %d characters: at least %d are needed", token.User, len(token.Secret), minSecret)
		}
		key, err := hkdf.Key(sha256.New, []byte(token.Secret), nil, "tipstaff bearer", sha256.Size)
		if err != nil {
			return err
		}
		k := knownToken{sum: sha256.Sum256([]byte(token.Secret)), expires: token.Expires,
			bearer: Bearer{key: key, used: new(atomic.Int64), Caller: Caller{User: token.User, Principal: "token:" + token.User, Scopes: token.Scopes}}}
		if token.Scopes == nil {
			k.bearer.Scopes = DefaultScopes()
		}
		for _, other := range known {
			if other.sum == k.sum {
				return Errorf(InvalidArgument, "%s and %s have the same token", other.bearer.User, token.User)
			}
		}
		known = append(known, k)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.known {
		t.replaced = append(t.replaced, k.sum)
	}
	t.known = known
	return nil
}

// Bearer is who bears a secret, on a surface. It looks at every token in the same
// time, whether one fits or not.
func (t *Tokens) Bearer(surface, secret string) (Bearer, error) {
	sum := sha256.Sum256([]byte(secret))
	known, replaced := t.all()
	var found *knownToken
	for i := range known {
		if subtle.ConstantTimeCompare(sum[:], known[i].sum[:]) == 1 {
			found = &known[i]
		}
	}
	switch {
	case found == nil && slices.Contains(replaced, sum):
		return Bearer{}, Errorf(Unauthenticated, "the token was replaced by another, and is not good any more").WithHint(tokenHint)
	case found == nil && len(secret) < minSecret:
		return Bearer{}, Errorf(Unauthenticated, "the token has %d characters, and none is shorter than %d: was it cut off?", len(secret), minSecret).WithHint(tokenHint)
	case found == nil:
		return Bearer{}, Errorf(Unauthenticated, "the token is not known here: it may be of another daemon or workspace, or be cut off").WithHint(tokenHint)
	case !t.holds(*found):
		return Bearer{}, Errorf(Unauthenticated, "the token of %s has expired, at %s", found.bearer.User, found.expires.UTC().Format(time.RFC3339)).
			WithHint("whoever runs the daemon gives you another, or a later serve.tokens.%s.expires in tipstaff.yaml", found.bearer.User)
	}
	b := found.bearer.on(surface)
	if t.Now != nil {
		b.Used(t.Now())
	}
	return b, nil
}

// tokenHint is where a token of a workspace is found.
const tokenHint = "on the machine of the daemon, `tipstaff serve --token` prints that of a workspace, unless tipstaff.yaml names some"

// BearersOf are the bearers of a user's tokens, on a surface.
func (t *Tokens) BearersOf(surface, user string) (all []Bearer) {
	known, _ := t.all()
	for _, k := range known {
		if k.bearer.User == user && t.holds(k) {
			all = append(all, k.bearer.on(surface))
		}
	}
	return all
}

// on is the bearer as it comes by a surface.
func (b Bearer) on(surface string) Bearer {
	b.Surface, b.Scopes = surface, slices.Clone(b.Scopes)
	return b
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
