package tool

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Providers of models.
const (
	ProviderAnthropic = "anthropic"
	ProviderOpenAI    = "openai" // and everything that speaks its chat completions
	ProviderScripted  = "scripted"
)

// ModelConfig is what the manifest says of one model. APIKey, BaseURL and Model
// may hold $env:NAME references: see Resolve.
type ModelConfig struct {
	Provider      string // anthropic, openai, scripted
	Model         string // as the vendor calls it
	APIKey        string // "": none is sent
	BaseURL       string // "": the vendor's own
	AllowHTTP     bool   // http to other machines than this one
	ContextWindow int    // tokens; 0: what the table of models says
	Cache         string // off, 5m, 1h; "": the provider's own default
	Script        File   // of scripted: its answers
}

// File is a file beside the manifest, as it was when the manifest was read.
type File struct {
	Name   string // "": there is none
	Digest string
	Text   string // "" in a manifest that was frozen: that has the digest alone
}

// references are all variables that the configuration refers to, sorted.
func (c ModelConfig) references() []string { return referencesIn(c.APIKey, c.BaseURL, c.Model) }

// Resolve is the configuration with the values of our environment, as NAME=value,
// in the place of its references. One that is not set, or too short to be kept out
// of records, is env_missing; an address that may not be used is range.
func (c ModelConfig) Resolve(environ []string) (ModelConfig, *flow.Error) {
	values, refused := secretsOf(c.references(), environ)
	if refused != nil {
		return ModelConfig{}, refused
	}
	c.APIKey, c.Model = substitute(c.APIKey, values), substitute(c.Model, values)
	if base := substitute(c.BaseURL, values); base != c.BaseURL {
		if checkBaseURL(base, c.AllowHTTP) != nil { // whose message would hold the value
			return ModelConfig{}, refusal(ProblemRange, nil, "%s is not an address that may be used: https, or http to this machine, without credentials", c.BaseURL)
		}
		c.BaseURL = base
	}
	return c, nil
}

// checkBaseURL: a key goes only where nobody else can read it on its way.
func checkBaseURL(s string, allowHTTP bool) error {
	u, err := url.Parse(s)
	if err == nil && allowHTTP && u.Scheme == "http" {
		s = "https" + strings.TrimPrefix(s, u.Scheme)
	}
	return checkURL(s)
}

// Secrets are the values of the references that models and telemetry hold, by
// name, as far as they are set. They belong into the redactor of whatever uses
// them, as those of servers do.
func (m *Manifest) Secrets(environ []string) map[string]string {
	values := map[string]string{}
	if m == nil {
		return values
	}
	var names []string
	for _, c := range m.Models {
		names = append(names, c.references()...)
	}
	for _, text := range m.Telemetry.Headers {
		names = append(names, referencesIn(text)...)
	}
	for _, name := range names {
		if value := lookup(environ, name); value != "" {
			values[name] = value
		}
	}
	return values
}

// Model is the configuration of a declared model.
func (m *Manifest) Model(name string) (ModelConfig, bool) {
	if m == nil {
		return ModelConfig{}, false
	}
	c, ok := m.Models[name]
	return c, ok
}

func checkProvider(s string) error {
	if slices.Contains([]string{ProviderAnthropic, ProviderOpenAI, ProviderScripted}, s) {
		return nil
	}
	return fmt.Errorf("%s is not a provider: use anthropic, openai (for all that speak its chat completions) or scripted", tipstaff.Quote(s, 100))
}
