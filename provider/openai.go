package provider

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/provider/reply"
)

const openAIAddress = "https://api.openai.com/v1"

// openAIModel speaks the chat completions format, which many servers imitate.
type openAIModel struct {
	wire   *reply.Wire
	url    string
	header http.Header
	name   string
	own    bool // at the vendor's own address
	caps   agent.Caps
	fixed  bool // refuses sampling parameters
	// silent: the server does not know how to be asked for its usage.
	silent atomic.Bool
}

func newOpenAI(c Config, dial reply.Dial) (agent.Model, error) {
	at, err := vendorConfig(c, openAIAddress)
	if err != nil {
		return nil, err
	}
	if c.Cache != "" {
		return nil, invalid("provider %s has no setting for its cache", OpenAI).WithHint("remove cache: it is always on there")
	}
	caps, fixed := capsOf(c)
	header := http.Header{}
	if c.APIKey != "" {
		header.Set("Authorization", "Bearer "+c.APIKey)
	}
	return &openAIModel{
		wire: reply.New(OpenAI, at.host, c.APIKey, dial), url: at.url + "chat/completions", header: header,
		name: c.Model, own: at.own, caps: caps, fixed: fixed,
	}, nil
}

func (m *openAIModel) Name() string     { return m.name }
func (m *openAIModel) Caps() agent.Caps { return m.caps }

// Cancels: requests end with their context.
func (m *openAIModel) Cancels(agent.Request) bool { return true }

// Stream makes one attempt to answer. A server that refuses to be asked for its
// usage is asked again at once without: that was no attempt.
func (m *openAIModel) Stream(ctx context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	silent := m.silent.Load()
	response, err := m.attempt(ctx, r, emit, !silent)
	if !silent && refusesUsage(err) {
		m.silent.Store(true)
		return m.attempt(ctx, r, emit, false)
	}
	return response, err
}

func (m *openAIModel) attempt(ctx context.Context, r agent.Request, emit func(agent.Delta), usage bool) (agent.Response, error) {
	return m.wire.Ask(ctx, m.url, m.header, m.request(r, usage), reply.NewOpenAI(m.wire, m.caps.Price, emit))
}

// refusesUsage recognises servers that know no stream_options. They say so in their
// own words, but they do name it.
func refusesUsage(err error) bool {
	var e *flow.Error
	return errors.As(err, &e) && e.Code == reply.CodeRejected &&
		(strings.Contains(e.Message, "stream_options") || strings.Contains(e.Message, "include_usage"))
}
