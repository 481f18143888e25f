package provider

import (
	_ "embed"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/provider/file"
)

// Kinds of provider.
const (
	Anthropic  = "anthropic"
	OpenAI     = "openai"      // its Responses API
	OpenAIChat = "openai-chat" // chat completions, which many servers speak
	Gemini     = "gemini"
	Scripted   = "scripted"
)

// How long a vendor keeps the beginning of a conversation for the next request.
const (
	CacheOff   = "off"
	CacheShort = "5m"
	CacheLong  = "1h"
)

// Config says which model is meant and how it is reached.
type Config struct {
	Provider string // anthropic, openai, openai-chat, gemini or scripted
	Model    string // as the vendor calls it; of a script "" is scripted
	APIKey   string // "": none is sent, which only addresses other than the vendor's accept
	BaseURL  string // "": the vendor's own address
	// AllowHTTP permits plain http to hosts other than this one.
	AllowHTTP     bool
	ContextWindow int    // in tokens; 0: as the table says
	Cache         string // off, 5m or 1h, of Anthropic alone; "" is 5m: a turn sends its beginning again with every step
	Thinking      string // off, low, medium, high or a number of tokens; "": as the vendor has it
	Script        []byte // of scripted: the YAML document
	ScriptName    string // and its name, for messages
	Prices        *Table // nil: DefaultTable
}

// Open makes the model that c describes. It connects to nothing.
func Open(c Config) (agent.Model, error) {
	return open(c, (&net.Dialer{}).DialContext)
}

func open(c Config, dial dialFunc) (agent.Model, error) {
	if c.ContextWindow < 0 {
		return nil, invalid("context_window is %d: it cannot be negative", c.ContextWindow)
	}
	switch c.Provider {
	case Anthropic:
		return newAnthropic(c, dial)
	case OpenAI:
		return newOpenAI(c, dial)
	case OpenAIChat:
		return newChat(c, dial)
	case Gemini:
		return newGemini(c, dial)
	case Scripted:
		return newScripted(c)
	}
	return nil, invalid("there is no provider %q", c.Provider).
		WithHint("use %s, %s, %s, %s or %s", Anthropic, OpenAI, OpenAIChat, Gemini, Scripted)
}

func invalid(format string, args ...any) *tipstaff.Error {
	return tipstaff.Errorf(tipstaff.InvalidArgument, format, args...)
}

// Table says what models can do and what they cost.
type Table = file.Table

// ParseTable reads a table. Its error lists every problem with its place.
func ParseTable(name string, src []byte) (*Table, error) { return file.ParseTable(name, src) }

//go:embed models.yaml
var modelsYAML []byte

// DefaultTable is the table that comes with Tipstaff.
var DefaultTable = sync.OnceValue(func() *Table {
	t, err := ParseTable("models.yaml", modelsYAML)
	if err != nil {
		panic(fmt.Sprintf("provider: the embedded table: %v", err))
	}
	return t
})

// address is where a vendor's API is reached.
type address struct {
	url  string
	host string
	own  bool // the vendor's, not one that speaks its format
}

// parseAddress accepts https, and plain http where no key can be read on the way:
// to this host, or where somebody has allowed it.
func parseAddress(given, own string, allowHTTP bool) (address, error) {
	if given == "" {
		given = own
	}
	u, err := url.Parse(given)
	if err != nil || u.Host == "" {
		return address{}, invalid("base_url is not an address").WithHint("write it like %s", own)
	}
	switch {
	case u.User != nil:
		return address{}, invalid("base_url holds a user name or password").WithHint("credentials belong in api_key, as $env:NAME")
	case u.RawQuery != "" || u.Fragment != "":
		return address{}, invalid("base_url %s has a query or fragment", u.Redacted())
	case u.Scheme == "http" && !allowHTTP && !tipstaff.Loopback(u.Hostname()):
		return address{}, invalid("base_url %s is plain http: the key could be read on the way", given).
			WithHint("use https, or set allow_http: true if the way to that host is safe")
	case u.Scheme != "https" && u.Scheme != "http":
		return address{}, invalid("base_url %s is neither https nor http", given)
	}
	return address{url: strings.TrimSuffix(u.String(), "/") + "/", host: u.Host, own: sameVendor(u.Hostname(), own)}, nil
}

// sameVendor holds for the vendor's host and the regional ones below it.
func sameVendor(host, own string) bool {
	u, err := url.Parse(own)
	return err == nil && (host == u.Hostname() || strings.HasSuffix(host, "."+u.Hostname()))
}
