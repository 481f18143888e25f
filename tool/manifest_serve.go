package tool

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// DefaultMaxDriving is how many runs a daemon drives at once.
const DefaultMaxDriving = 64

// ServeConfig is what the manifest says of the daemon.
type ServeConfig struct {
	Tokens     []TokenConfig // by user, sorted; none: the daemon makes one
	MaxDriving int           // runs that are driven at once; further ones queue
}

// TokenConfig lets the bearer of a token act for a user.
type TokenConfig struct {
	User   string
	Token  string   // a $env:NAME reference
	Scopes []string // nil: the default ones
}

// Serving is the configuration of the daemon; that of a nil manifest is the default.
func (m *Manifest) Serving() ServeConfig {
	if m == nil {
		return ServeConfig{MaxDriving: DefaultMaxDriving}
	}
	return m.Serve
}

// Open gives tokens their secrets, from our environment as NAME=value. A variable that
// is not set is env_missing.
func (c ServeConfig) Open(environ []string) ([]tipstaff.Token, error) {
	var tokens []tipstaff.Token
	for _, t := range c.Tokens {
		values, refused := secretsOf(referencesIn(t.Token), environ)
		if refused != nil {
			return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Err: refused,
				Message: fmt.Sprintf("serve.tokens.%s: %s", t.User, refused.Message), Hint: "set the variable before the daemon is started"}
		}
		tokens = append(tokens, tipstaff.Token{User: t.User, Secret: substitute(t.Token, values), Scopes: t.Scopes})
	}
	return tokens, nil
}

var userForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

const mostDriving = 10_000

func (p *manifestParser) serve(n at) {
	p.object(n, fields{
		"tokens":      p.tokens,
		"max_driving": func(v at) { p.m.Serve.MaxDriving = int(p.integer(v, 1, mostDriving)) },
	}, "hosts")
}

func (p *manifestParser) tokens(n at) {
	list, _ := p.entries(n)
	for _, e := range list {
		if !userForm.MatchString(e.name) {
			p.report(ProblemField, e.key, "%s cannot name a user: 1 to 64 of A-Z, a-z, 0-9, '.', '_', '@' and '-', a letter or digit first", tipstaff.Quote(e.name, 100))
			continue
		}
		p.m.Serve.Tokens = append(p.m.Serve.Tokens, p.token(e))
	}
	slices.SortFunc(p.m.Serve.Tokens, func(a, b TokenConfig) int { return strings.Compare(a.User, b.User) })
}

// token is a reference alone, or with scopes.
func (p *manifestParser) token(e entry) TokenConfig {
	t := TokenConfig{User: e.name}
	if !e.value.is(document.Object) {
		t.Token = p.key(e.value)
		return t
	}
	where := p.placed(e.value, fields{
		"token": func(v at) { t.Token = p.key(v) },
		"scopes": func(v at) {
			t.Scopes = p.each(v, func(s string) error {
				if slices.Contains(tipstaff.Scopes(), s) {
					return nil
				}
				return fmt.Errorf("%s is no scope: use %s", tipstaff.Quote(s, 100), strings.Join(tipstaff.Scopes(), ", "))
			})
		},
	})
	if _, given := where["token"]; !given {
		p.report(ProblemMissing, e.value, "%s needs token, as $env:NAME", e.value.path)
	}
	return t
}
