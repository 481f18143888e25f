package provider

import (
	"context"
	"iter"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/provider/reply"
)

const anthropicAddress = "https://api.anthropic.com"

// anthropicModel speaks the Messages format.
type anthropicModel struct {
	wire     *reply.Wire
	name     string
	caps     agent.Caps
	fixed    bool // refuses sampling parameters
	cache    string
	messages anthropic.MessageService
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
	w := reply.New(Anthropic, at.host, c.APIKey, dial)
	options := []option.RequestOption{
		option.WithBaseURL(at.url),
		option.WithHTTPClient(w),
		option.WithMaxRetries(0),
		option.WithoutOpenTelemetry(), // spans are the host's
	}
	if c.APIKey != "" {
		options = append(options, option.WithAPIKey(c.APIKey))
	}
	return &anthropicModel{
		wire: w, name: c.Model, caps: caps, fixed: fixed, cache: c.Cache,
		// The service, not the client: a client would look for keys in the environment.
		messages: anthropic.NewMessageService(options...),
	}, nil
}

func (m *anthropicModel) Name() string     { return m.name }
func (m *anthropicModel) Caps() agent.Caps { return m.caps }

// Cancels: requests end with their context.
func (m *anthropicModel) Cancels(agent.Request) bool { return true }

// Stream makes one attempt to answer.
func (m *anthropicModel) Stream(ctx context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	var res *http.Response
	stream := m.messages.NewStreaming(ctx, m.request(r), option.WithResponseInto(&res))
	if err := stream.Err(); err != nil {
		return agent.Response{}, m.wire.Sent(ctx, err)
	}
	defer res.Body.Close()
	// The SDK's stream would decode each event, and with it lose characters that are
	// split over two of them; its decoder of frames does not.
	return m.wire.Follow(ctx, anthropicEvents(ssestream.NewDecoder(res)), reply.NewAnthropic(m.wire, m.name, m.caps.Price, emit))
}

// anthropicEvents are the data of a stream's events.
func anthropicEvents(d ssestream.Decoder) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for d.Next() {
			if !yield(d.Event().Data, nil) {
				return
			}
		}
		if err := d.Err(); err != nil {
			yield(nil, err)
		}
	}
}
