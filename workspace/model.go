package workspace

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Providers of models.
const (
	ProviderAnthropic  = "anthropic"
	ProviderOpenAI     = "openai"      // its Responses API
	ProviderOpenAIChat = "openai-chat" // everything that speaks its chat completions
	ProviderGemini     = "gemini"
	ProviderScripted   = "scripted"
)

// Model is what the manifest says of one model. APIKey, BaseURL and Model may hold
// $env:NAME references: see Resolve.
type Model struct {
	Provider      string   `json:"provider" doc:",in=anthropic|openai|openai-chat|gemini|scripted"`
	Model         string   `json:"model,omitempty" doc:""`                                 // as the vendor calls it
	APIKey        string   `json:"api_key,omitempty" doc:""`                               // "": none is sent
	BaseURL       string   `json:"base_url,omitempty" doc:""`                              // "": the vendor's own
	AllowHTTP     bool     `json:"allow_http,omitempty" doc:""`                            // http to other machines than this one
	ContextWindow int      `json:"context_window,omitempty" doc:",min=1024,max=100000000"` // tokens; 0: what the table of models says
	Thinking      Thinking `json:"thinking,omitempty" doc:""`                              // "": as the vendor has it
	Cache         string   `json:"cache,omitempty" doc:",in=off|5m|1h"`                    // "": the provider's own default
	Script        File     `json:"script,omitzero" doc:""`                                 // of scripted: its answers
}

// Thinking is how much a model is to think before it answers: off, low, medium, high,
// or a number of tokens.
type Thinking string

// ThinkingOff: not at all.
const ThinkingOff Thinking = "off"

// Tokens is the number of tokens, if it is one.
func (t Thinking) Tokens() int {
	n, err := strconv.Atoi(string(t))
	if err != nil {
		return 0
	}
	return n
}

// ReadDocument reads a word or a number.
func (t *Thinking) ReadDocument(f *document.Fields, name string, v *document.Value) {
	words := []string{string(ThinkingOff), "low", "medium", "high"}
	switch {
	case v.Kind == document.Text && slices.Contains(words, v.Text), v.Kind == document.Number && Thinking(v.Text).Tokens() > 0:
		*t = Thinking(v.Text)
	case v.Kind == document.Text || v.Kind == document.Number || v.Kind == document.Boolean:
		near := ""
		if word := tipstaff.Nearest(v.Text, words); word != "" && v.Kind == document.Text {
			near = "; did you mean " + word + "?"
		}
		f.Report(document.CodeFieldInvalid, v.At, name, "%s is %q; it must be off, low, medium, high or a number of tokens%s", name, document.Brief(v.Text), near)
	default:
		f.Report(document.CodeFieldType, v.At, name, "%s must be off, low, medium, high or a number of tokens, not %v", name, v.Kind)
	}
}

// Vendor is who makes the API that a model is asked with, as the conventions of
// OpenTelemetry call it.
func (c Model) Vendor() string {
	switch c.Provider {
	case ProviderOpenAIChat:
		return ProviderOpenAI
	case ProviderGemini:
		return "gcp.gemini"
	}
	return c.Provider
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

// Secrets are the values of the references that models, workers and telemetry hold, and
// of the variables that workers sign in with, by name, as far as they are set. They belong into the redactor of whatever uses
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
	for _, w := range m.Workers {
		maps.Copy(values, w.Secrets(environ))
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
	needs(f, "provider", ": anthropic, openai, openai-chat, gemini or scripted")
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
	case ProviderAnthropic, ProviderOpenAI, ProviderOpenAIChat, ProviderGemini:
		needs(f, "model", ", as the vendor calls it")
		if f.Get("base_url") == nil {
			needs(f, "api_key", ", as $env:NAME")
		}
		stray("script", "%s: script goes with provider: scripted")
		if c.Provider != ProviderAnthropic {
			stray("cache", "%s: cache goes with provider: anthropic; others decide themselves")
		}
		c.checkThinking(f)
	}
}

// leastThinking is the smallest budget that Anthropic takes.
const leastThinking = 1024

// checkThinking refuses what the vendor cannot do. What a model cannot do is known to
// the table of models.
func (c *Model) checkThinking(f *document.Fields) {
	tokens := c.Thinking.Tokens()
	report := func(format string, args ...any) {
		f.Report(document.CodeRange, f.Get("thinking").At, "thinking", format, args...)
	}
	switch {
	case tokens == 0:
	case c.Provider == ProviderOpenAI || c.Provider == ProviderOpenAIChat:
		report("%s is a number of tokens, which provider: %s does not take: write off, low, medium or high", f.PathOf("thinking"), c.Provider)
	case c.Provider == ProviderAnthropic && tokens < leastThinking:
		report("%s is %d tokens: Anthropic takes no fewer than %d", f.PathOf("thinking"), tokens, leastThinking)
	}
}

// checkThought refuses settings of an agent that its model cannot go by while it thinks.
func (m *Manifest) checkThought(f *document.Fields, name string, a Agent) {
	model := m.Models[a.Model]
	report := func(field, format string, args ...any) {
		if v := f.Value.Find("agents", name, field); v != nil {
			path := "agents." + name + "." + field
			f.Problems.Add(document.CodeRange, v.At, path, path+format, args...)
		}
	}
	if tokens := model.Thinking.Tokens(); a.MaxOutputTokens > 0 && a.MaxOutputTokens <= tokens {
		report("max_output_tokens", " is %d, and its model may think with %d of them: it needs more, to answer", a.MaxOutputTokens, tokens)
	}
	if model.Thinking == "" || model.Thinking == ThinkingOff || model.Provider != ProviderAnthropic && model.Provider != ProviderOpenAI {
		return
	}
	for _, field := range []string{"temperature", "top_p"} {
		report(field, ": provider: %s takes none while its model thinks: leave it out, or thinking", model.Provider)
	}
}

// Linking is the manifest with more patterns of what worktrees have a link to.
func (m *Manifest) Linking(patterns []string) *Manifest {
	if m == nil || len(patterns) == 0 {
		return m
	}
	all := *m
	given := document.Preparation{Link: patterns}
	if m.Worktree != nil {
		given = m.Worktree.With(given)
	}
	all.Worktree = &given
	return &all
}

// ForRun is the manifest as a run goes by it that froze another; either may be nil. A run
// that was begun with chat completions goes on with them: before openai was the word for
// the Responses API it stood for them.
func (m *Manifest) ForRun(frozen *Manifest) *Manifest {
	if m == nil {
		return nil
	}
	begun := *m
	begun.Models = maps.Clone(m.Models)
	for name, c := range m.Models {
		if was, _ := frozen.Model(name); c.Provider == ProviderOpenAI && was.Provider == ProviderOpenAIChat {
			c.Provider = ProviderOpenAIChat
			begun.Models[name] = c
		}
	}
	return &begun
}
