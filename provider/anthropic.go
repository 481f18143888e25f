package provider

import (
	"context"
	"net/http"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/provider/reply"
)

const (
	anthropicAddress = "https://api.anthropic.com"
	anthropicVersion = "2023-06-01" // of the format
)

// anthropicModel speaks the Messages format.
type anthropicModel struct {
	wire   *reply.Wire
	url    string
	header http.Header
	name   string
	caps   agent.Caps
	fixed  bool // refuses sampling parameters
	cache  string
}

func newAnthropic(c Config, dial reply.Dial) (agent.Model, error) {
	at, err := vendorConfig(c, anthropicAddress)
	if err != nil {
		return nil, err
	}
	switch c.Cache {
	case CacheOff, CacheShort, CacheLong:
	case "":
		c.Cache = CacheShort
	default:
		return nil, invalid("cache is %q", c.Cache).WithHint("use %s, %s or %s", CacheOff, CacheShort, CacheLong)
	}
	caps, fixed := capsOf(c)
	header := http.Header{"Anthropic-Version": {anthropicVersion}}
	if c.APIKey != "" {
		header.Set("X-Api-Key", c.APIKey)
	}
	return &anthropicModel{
		wire: reply.New(Anthropic, at.host, c.APIKey, dial), url: at.url + "v1/messages", header: header,
		name: c.Model, caps: caps, fixed: fixed, cache: c.Cache,
	}, nil
}

func (m *anthropicModel) Name() string     { return m.name }
func (m *anthropicModel) Caps() agent.Caps { return m.caps }

// Cancels: requests end with their context.
func (m *anthropicModel) Cancels(agent.Request) bool { return true }

// Stream makes one attempt to answer.
func (m *anthropicModel) Stream(ctx context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	return m.wire.Ask(ctx, m.url, m.header, m.request(r), reply.NewAnthropic(m.wire, m.name, m.caps.Price, emit))
}
