package workspace

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Providers of models.
const (
	ProviderAnthropic = "anthropic"
	ProviderOpenAI    = "openai" // and everything that speaks its chat completions
	ProviderScripted  = "scripted"
)

// Model is what the manifest says of one model. APIKey, BaseURL and Model may hold
// $env:NAME references: see Resolve.
type Model struct {
	Provider      string `json:"provider" doc:",in=anthropic|openai|scripted"`
	Model         string `json:"model,omitempty" doc:""`                                 // as the vendor calls it
	APIKey        string `json:"api_key,omitempty" doc:""`                               // "": none is sent
	BaseURL       string `json:"base_url,omitempty" doc:""`                              // "": the vendor's own
	AllowHTTP     bool   `json:"allow_http,omitempty" doc:""`                            // http to other machines than this one
	ContextWindow int    `json:"context_window,omitempty" doc:",min=1024,max=100000000"` // tokens; 0: what the table of models says
	Cache         string `json:"cache,omitempty" doc:",in=off|5m|1h"`                    // "": the provider's own default
	Script        File   `json:"script,omitzero" doc:""`                                 // of scripted: its answers
}

// references are all variables that the configuration refers to, sorted.
func (c Model) references() []string { return referencesIn(c.APIKey, c.BaseURL, c.Model) }

// Resolve is the configuration with the values of our environment, as NAME=value,
// in the place of its references. One that is not set, or too short to be kept out
// of records, is env_missing; an address that may not be used is range.
func (c Model) Resolve(environ []string) (Model, *flow.Error) {
	values, refused := secretsOf(c.references(), environ)
	if refused != nil {
		return Model{}, refused
	}
	c.APIKey, c.Model = Substitute(c.APIKey, values), Substitute(c.Model, values)
	if base := Substitute(c.BaseURL, values); base != c.BaseURL {
		if checkBaseURL(base, c.AllowHTTP) != nil { // whose message would hold the value
			return Model{}, &flow.Error{Code: document.CodeRange, NotSent: true,
				Message: c.BaseURL + " is not an address that may be used: https, or http to this machine, without credentials"}
		}
		c.BaseURL = base
	}
	return c, nil
}

// Secrets are the values of the references that models and telemetry hold, by
// name, as far as they are set. They belong into the redactor of whatever uses
// them, as those of servers do.
func (m *Manifest) Secrets(environ []string) map[string]string {
	m = m.orNone()
	values := map[string]string{}
	var names []string
	for _, c := range m.Models {
		names = append(names, c.references()...)
	}
	for _, text := range m.Telemetry.Headers {
		names = append(names, referencesIn(text)...)
	}
	for _, name := range names {
		if value := Lookup(environ, name); value != "" {
			values[name] = value
		}
	}
	return values
}

// Model is the configuration of a declared model.
func (m *Manifest) Model(name string) (Model, bool) {
	c, ok := m.orNone().Models[name]
	return c, ok
}

var (
	modelForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$`) // a name in the manifest
	ofScripted = []string{"provider", "model", "script", "context_window"}
)

// CheckKey checks the name of a model.
func (c *Model) CheckKey(name string) error {
	if !modelForm.MatchString(name) {
		return fmt.Errorf("%s cannot name a model: 1 to 64 of A-Z, a-z, 0-9, _, ., : and -, beginning with a letter or digit", tipstaff.Quote(name, 100))
	}
	return nil
}

// CheckDocument: which fields a model needs, and which it may not have, depends on its
// provider.
func (c *Model) CheckDocument(f *document.Fields) {
	plainText(f, "model")
	secretText(f, "api_key")
	if plainText(f, "base_url") && len(referencesIn(c.BaseURL)) == 0 { // one with a reference is looked at when it is known
		checkAddress(f, "base_url", f.Get("base_url"), c.AllowHTTP)
	}
	needs(f, "provider", ": anthropic, openai or scripted")
	stray := func(name, format string) {
		if v := f.Value.Get(name); v != nil {
			f.Report(document.CodeFieldUnknown, v.At, name, format, f.Path)
		}
	}
	switch c.Provider {
	case ProviderScripted:
		needs(f, "script", ": the file that holds its answers")
		for _, field := range f.Known() {
			if !slices.Contains(ofScripted, field) {
				stray(field, "%s: a scripted model is asked of nobody: it has no "+field)
			}
		}
	case ProviderAnthropic, ProviderOpenAI:
		needs(f, "model", ", as the vendor calls it")
		if f.Get("base_url") == nil {
			needs(f, "api_key", ", as $env:NAME")
		}
		stray("script", "%s: script goes with provider: scripted")
		if c.Provider != ProviderAnthropic {
			stray("cache", "%s: cache goes with provider: anthropic; others decide themselves")
		}
	}
}
