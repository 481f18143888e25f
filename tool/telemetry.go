package tool

import "github.com/tipstaff/tipstaff/flow"

// TelemetryConfig is what the manifest says of traces. Its zero value sends none.
type TelemetryConfig struct {
	Content  bool              // spans hold what was said
	Endpoint string            // of an OTLP collector over HTTP; "": none
	Headers  map[string]string // may hold $env:NAME references
}

// Resolve is the configuration with the values of our environment, as NAME=value,
// in the place of its references. One that is not set is env_missing.
func (c TelemetryConfig) Resolve(environ []string) (TelemetryConfig, *flow.Error) {
	headers := map[string]string{}
	for _, name := range sortedKeys(c.Headers) {
		values, refused := secretsOf(referencesIn(c.Headers[name]), environ)
		if refused != nil {
			return TelemetryConfig{}, refused
		}
		headers[name] = substitute(c.Headers[name], values)
	}
	c.Headers = headers
	return c, nil
}
