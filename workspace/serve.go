package workspace

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// DefaultMaxDriving is how many runs a daemon drives at once.
const DefaultMaxDriving = 64

// Serve is what the manifest says of the daemon.
type Serve struct {
	Tokens     []Token // by user, sorted; none: the daemon makes one
	MaxDriving int     `doc:"max_driving,min=1,max=10000"` // runs that are driven at once; further ones queue
	// Hosts are names that the HTTP server is called by besides the address it listens at,
	// with or without a port.
	Hosts []string `doc:"hosts"`
	// Programs are folders of documents that are the operator's word: whoever may start
	// runs starts them as they stand there.
	Programs []string `doc:"programs"`
}

// Token lets the bearer of a token act for a user.
type Token struct {
	User   string
	Token  string   `doc:"token"`  // a $env:NAME reference
	Scopes []string `doc:"scopes"` // nil: the default ones
	// Expires is when it is refused: a date, which is the last day in UTC, or a time of RFC 3339.
	// "": never.
	Expires string `doc:"expires"`
}

// Expiry is when a token is refused; zero: never.
func (t Token) Expiry() (time.Time, error) {
	if t.Expires == "" {
		return time.Time{}, nil
	}
	if day, err := time.Parse(time.DateOnly, t.Expires); err == nil {
		return day.AddDate(0, 0, 1), nil
	}
	at, err := time.Parse(time.RFC3339, t.Expires)
	if err != nil {
		err = fmt.Errorf("%s is neither a date like 2027-03-31 nor a time like 2027-03-31T18:00:00Z", tipstaff.Quote(t.Expires, 100))
	}
	return at, err
}

// Serving is the configuration of the daemon; that of a nil manifest is the default.
func (m *Manifest) Serving() Serve { return m.orNone().Serve }

// Open gives tokens their secrets, from our environment as NAME=value. A variable that
// is not set is env_missing.
func (s Serve) Open(environ []string) ([]tipstaff.Token, error) {
	var tokens []tipstaff.Token
	for _, t := range s.Tokens {
		values, refused := secretsOf(referencesIn(t.Token), environ)
		if refused != nil {
			return nil, &tipstaff.Error{Code: tipstaff.InvalidArgument, Err: refused,
				Message: fmt.Sprintf("serve.tokens.%s: %s", t.User, refused.Message), Hint: "set the variable before the daemon is started"}
		}
		expires, err := t.Expiry()
		if err != nil {
			return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "serve.tokens.%s.expires: %v", t.User, err)
		}
		tokens = append(tokens, tipstaff.Token{User: t.User, Secret: Substitute(t.Token, values), Scopes: t.Scopes, Expires: expires})
	}
	return tokens, nil
}

// CheckDocument reads the tokens, which stand by user.
func (s *Serve) CheckDocument(f *document.Fields) {
	var file struct {
		Tokens map[string]Token `doc:"tokens"`
	}
	f.Decode(&file)
	checkEach(f, "hosts", checkHost)
	checkEach(f, "programs", checkServed)
	for _, user := range sortedKeys(file.Tokens) {
		t := file.Tokens[user]
		t.User = user
		s.Tokens = append(s.Tokens, t)
	}
}

// checkServed refuses a folder that has more in it than documents to be served.
func checkServed(name string) error {
	if clean := filepath.Clean(name); name == "" || clean == "." || !filepath.IsAbs(name) && !filepath.IsLocal(name) || clean == string(filepath.Separator) {
		return fmt.Errorf("%s cannot be served: name a folder inside of the workspace, and not all of it, or one elsewhere by its absolute path", tipstaff.Quote(name, 100))
	}
	return nil
}

var userForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$`)

// CheckKey checks the name of a user.
func (t *Token) CheckKey(user string) error {
	if !userForm.MatchString(user) {
		return fmt.Errorf("%s cannot name a user: 1 to 64 of A-Z, a-z, 0-9, '.', '_', '@' and '-', a letter or digit first", tipstaff.Quote(user, 100))
	}
	return nil
}

// ReadDocument reads a reference alone, or with scopes.
func (t *Token) ReadDocument(f *document.Fields, name string, v *document.Value) {
	if v.Kind != document.Object {
		t.Token = f.Text(name)
		secretText(f, name)
		return
	}
	f.Object(name, func(f *document.Fields) { f.Decode(t) })
}

// CheckDocument checks what stands beside scopes.
func (t *Token) CheckDocument(f *document.Fields) {
	needs(f, "token", ", as $env:NAME")
	secretText(f, "token")
	if _, err := t.Expiry(); err != nil {
		f.Report(document.CodeRange, f.Get("expires").At, "expires", "%v", err)
	}
	checkEach(f, "scopes", func(s string) error {
		if slices.Contains(tipstaff.Scopes(), s) {
			return nil
		}
		return fmt.Errorf("%s is not a scope: use %s", tipstaff.Quote(s, 100), strings.Join(tipstaff.Scopes(), ", "))
	})
}

// Telemetry is what the manifest says of traces. Its zero value sends none.
type Telemetry struct {
	Content  bool              `json:"content,omitempty" doc:""` // spans hold what was said
	Endpoint string            `json:"endpoint,omitempty"`       // of an OTLP collector over HTTP; "": none
	Headers  map[string]string `json:"headers,omitempty"`        // may hold $env:NAME references
}

// IsZero reports whether nothing is sent, and nothing is frozen.
func (c Telemetry) IsZero() bool { return !c.Content && c.Endpoint == "" }

// CheckDocument reads where traces are sent.
func (c *Telemetry) CheckDocument(f *document.Fields) {
	f.Object("otlp", func(f *document.Fields) {
		c.Headers = values(f, "headers", checkHeader)
		allowHTTP := f.Boolean("allow_http", false)
		needs(f, "endpoint", ", the address of a collector")
		if v := f.Typed("endpoint", document.Text); v != nil {
			c.Endpoint = v.Text
			checkAddress(f, "endpoint", v, allowHTTP)
		}
	})
}

// Resolve is the configuration with the values of our environment, as NAME=value,
// in the place of its references. One that is not set is env_missing.
func (c Telemetry) Resolve(environ []string) (Telemetry, *flow.Error) {
	headers := map[string]string{}
	for _, name := range sortedKeys(c.Headers) {
		values, refused := secretsOf(referencesIn(c.Headers[name]), environ)
		if refused != nil {
			return Telemetry{}, refused
		}
		headers[name] = Substitute(c.Headers[name], values)
	}
	c.Headers = headers
	return c, nil
}
