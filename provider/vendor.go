package provider

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
)

// vendorModel is what the models of all vendors have in common.
type vendorModel struct {
	wire     *wire
	url      string
	header   http.Header
	name     string
	own      bool // at the vendor's own address
	caps     agent.Caps
	fixed    bool // refuses sampling parameters
	thinking thinking
	mute     bool // it is known not to think
}

// newVendor checks a config for a vendor whose own address and path are given.
func newVendor(c Config, own, path string, dial dialFunc) (vendorModel, error) {
	if c.Model == "" {
		return vendorModel{}, invalid("provider %s needs a model", c.Provider).WithHint("name it as the vendor does, in model")
	}
	if strings.ContainsFunc(c.APIKey, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return vendorModel{}, invalid("the API key of %s has characters that cannot stand in a header", c.Model).
			WithHint("check the variable that api_key names for spaces and line ends")
	}
	if len(c.Script) > 0 {
		return vendorModel{}, invalid("provider %s takes no script", c.Provider)
	}
	if c.Cache != "" && c.Provider != Anthropic {
		return vendorModel{}, invalid("provider %s has no setting for its cache", c.Provider).WithHint("remove cache: it is always on there")
	}
	at, err := parseAddress(c.BaseURL, own, c.AllowHTTP)
	if err != nil {
		return vendorModel{}, err
	}
	if at.own && c.APIKey == "" {
		return vendorModel{}, invalid("the model %s at %s needs an API key", c.Model, at.host).WithHint("set api_key to $env:NAME")
	}
	table := cmp.Or(c.Prices, DefaultTable())
	m := vendorModel{wire: newWire(c.Provider, at.host, c.APIKey, dial), url: at.url + path, header: http.Header{}, name: c.Model, own: at.own,
		caps: table.Caps(c.Model, c.Cache == CacheLong), fixed: !table.Sampling(c.Model)}
	takes := table.Thinking(c.Model)
	m.mute = takes != nil && len(takes) == 0
	if m.thinking, err = parseThinking(c, takes, m.caps.MaxOutput); err != nil {
		return vendorModel{}, err
	}
	if c.ContextWindow > 0 {
		m.caps.ContextWindow = c.ContextWindow
	}
	m.caps.Thinking = min(m.thinking.allowance(), m.caps.ContextWindow/4) // the conversation needs room, too
	return m, nil
}

func (m *vendorModel) Name() string     { return m.name }
func (m *vendorModel) Caps() agent.Caps { return m.caps }

// sampling are the parameters that the model takes. A router asks for temperature 0 of
// every model, also of those that take none.
func (m *vendorModel) sampling(r agent.Request) (temperature, topP *float64) {
	if m.fixed && r.Purpose == agent.PurposeRouter {
		return nil, nil
	}
	return r.Temperature, r.TopP
}

// bear sends the key as most servers want it.
func (m *vendorModel) bear(key string) {
	if key != "" {
		m.header.Set("Authorization", "Bearer "+key)
	}
}

// option is a part of a request that some servers refuse, each in its own words, of
// which it names one. Such a server is asked without it from then on.
type option struct {
	words   []string
	refused atomic.Bool
}

// persist asks, and asks again at once without the options that are refused: that was no
// attempt. with tells ask which of the options to send.
func persist(options []*option, ask func(with []bool) (agent.Response, error)) (agent.Response, error) {
	for {
		with, again := make([]bool, len(options)), false
		for i, o := range options {
			with[i] = !o.refused.Load()
		}
		response, err := ask(with)
		var e *flow.Error
		if errors.As(err, &e) && e.Code == CodeRejected {
			for i, o := range options {
				if with[i] && slices.ContainsFunc(o.words, func(word string) bool { return strings.Contains(e.Message, word) }) {
					o.refused.Store(true)
					again = true
				}
			}
		}
		if !again {
			return response, err
		}
	}
}

// opaque is what of an answer must go back as it came: signed reasoning, and where
// it stood. Reasoning is bound to the model that thought it.
type opaque struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Parts    []part `json:"parts"`
}

// part is one block of an answer, in their order.
type part struct {
	Block     json.RawMessage `json:"block,omitempty"`     // as it came
	Text      int             `json:"text,omitempty"`      // so many bytes of the message's text
	Call      bool            `json:"call,omitempty"`      // the message's next call
	Phase     string          `json:"phase,omitempty"`     // of a text, to OpenAI
	Signature string          `json:"signature,omitempty"` // of a text or call, to Gemini
}

// piece is a part with what it stands for.
type piece struct {
	part
	text string
	call agent.Call
}

// pieces are what an assistant said before, in that order, with the vendor's own blocks
// at their places if it was this model that said it.
func (m *vendorModel) pieces(message agent.Message) (list []piece) {
	var own opaque
	if json.Unmarshal(message.Opaque, &own) != nil || own.Provider != m.wire.vendor || own.Model != m.name {
		own.Parts = nil
	}
	text, calls := message.Text, message.Calls
	for _, p := range own.Parts {
		switch {
		case p.Call && len(calls) > 0:
			list, calls = append(list, piece{part: p, call: calls[0]}), calls[1:]
		case !p.Call:
			n := min(p.Text, len(text))
			list, text = append(list, piece{part: p, text: text[:n]}), text[n:]
		}
	}
	if text != "" {
		list = append(list, piece{text: text})
	}
	for _, c := range calls {
		list = append(list, piece{part: part{Call: true}, call: c})
	}
	return list
}

// result is a tool's result as text, and its images, which the text names by number.
// before is how many images of this step there are already.
func (m *vendorModel) result(message agent.Message, before int) (text string, images []agent.Content) {
	var lines []string
	for _, c := range message.Content {
		switch {
		case c.Type != agent.ContentImage:
			lines = append(lines, c.Text)
		case !m.caps.Images || len(c.Data) == 0:
			lines = append(lines, unseen(c))
		default:
			images = append(images, c)
			lines = append(lines, fmt.Sprintf("[image %d, below]", before+len(images)))
		}
	}
	return strings.Join(lines, "\n"), images
}

// imageLabel tells which image of a step's results the next one is, where images stand
// apart from the text.
func imageLabel(number int, call string) string {
	return fmt.Sprintf("[image %d, of call %s]", number, call)
}

func base64Of(c agent.Content) string { return base64.StdEncoding.EncodeToString(c.Data) }

// dataURL is an image in the place of its address.
func dataURL(c agent.Content) string { return "data:" + c.MimeType + ";base64," + base64Of(c) }

// sendable is arguments as vendors take them back: an object, or none at all.
func sendable(arguments string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &object) != nil || object == nil {
		return emptyArguments
	}
	return arguments
}

// sendableName is a tool's name as vendors take it back. A model may have made one
// up that they would refuse in every later request of the session.
func sendableName(name string) string {
	const most = 64
	name = cmp.Or(agent.PlainName(name), "_")
	return name[:min(len(name), most)]
}

// unseen stands for an image that the model cannot look at.
func unseen(c agent.Content) string {
	return "[an image, " + c.MimeType + ", which this model cannot see]"
}
