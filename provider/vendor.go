package provider

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/tipstaff/tipstaff/agent"
)

// vendorModel is what the models of both vendors have in common.
type vendorModel struct {
	wire   *wire
	url    string
	header http.Header
	name   string
	own    bool // at the vendor's own address
	caps   agent.Caps
	fixed  bool // refuses sampling parameters
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
	if c.ContextWindow > 0 {
		m.caps.ContextWindow = c.ContextWindow
	}
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
