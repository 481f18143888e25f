package workspace

import (
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

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
