package tool

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tipstaff/tipstaff/docs/prompts"
)

// The part of the frozen form that is about models. References stand in it as they
// were written, files by name and digest.
type (
	frozenAgents struct {
		Models     map[string]frozenModel `json:"models,omitempty"`
		ModelsFile *frozenFile            `json:"models_file,omitempty"`
		Agents     map[string]frozenAgent `json:"agents,omitempty"`
		Prompts    *prompts.Set           `json:"prompts,omitempty"` // where there is a model that could be given them
		Telemetry  *frozenTelemetry       `json:"telemetry,omitempty"`
	}
	frozenModel struct {
		Provider      string      `json:"provider"`
		Model         string      `json:"model,omitempty"`
		APIKey        string      `json:"api_key,omitempty"`
		BaseURL       string      `json:"base_url,omitempty"`
		AllowHTTP     bool        `json:"allow_http,omitempty"`
		ContextWindow int         `json:"context_window,omitempty"`
		Cache         string      `json:"cache,omitempty"`
		Script        *frozenFile `json:"script,omitempty"`
	}
	frozenFile struct {
		Name   string `json:"name"`
		Digest string `json:"digest"`
	}
	frozenAgent struct {
		Model           string          `json:"model"`
		Skill           string          `json:"skill,omitempty"`
		Tools           []string        `json:"tools"`
		Router          string          `json:"router,omitempty"`
		System          string          `json:"system,omitempty"`
		MaxSteps        int             `json:"max_steps,omitempty"`
		OnLimit         string          `json:"on_limit,omitempty"`
		Temperature     *float64        `json:"temperature,omitempty"`
		TopP            *float64        `json:"top_p,omitempty"`
		MaxOutputTokens int             `json:"max_output_tokens,omitempty"`
		CallTimeout     frozenDuration  `json:"call_timeout,omitempty"`
		ToolTimeout     frozenDuration  `json:"tool_timeout,omitempty"`
		ApprovalExpiry  frozenDuration  `json:"approval_expiry,omitempty"`
		ToolParallelism int             `json:"tool_parallelism,omitempty"`
		MaxResultBytes  int             `json:"max_result_bytes,omitempty"`
		OutputSchema    json.RawMessage `json:"output_schema,omitempty"`
		OutputRetries   *int            `json:"output_retries,omitempty"`
	}
	frozenTelemetry struct {
		Content  bool              `json:"content,omitempty"`
		Endpoint string            `json:"endpoint,omitempty"`
		Headers  map[string]string `json:"headers,omitempty"`
	}
)

// frozenDuration is written as people write it.
type frozenDuration time.Duration

func (d frozenDuration) MarshalText() ([]byte, error) {
	return []byte(time.Duration(d).String()), nil
}

func (d *frozenDuration) UnmarshalText(text []byte) error {
	value, err := time.ParseDuration(string(text))
	*d = frozenDuration(value)
	return err
}

func (m *Manifest) frozenAgents() frozenAgents {
	var f frozenAgents
	if len(m.Models) > 0 {
		f.Models, f.Prompts = map[string]frozenModel{}, &m.Prompts
	}
	for name, c := range m.Models {
		f.Models[name] = frozenModel{c.Provider, c.Model, c.APIKey, c.BaseURL, c.AllowHTTP, c.ContextWindow, c.Cache, c.Script.frozen()}
	}
	f.ModelsFile = m.ModelsFile.frozen()
	if len(m.Agents) > 0 {
		f.Agents = map[string]frozenAgent{}
	}
	for name, a := range m.Agents {
		f.Agents[name] = a.frozen()
	}
	if t := m.Telemetry; t.Content || t.Endpoint != "" {
		f.Telemetry = &frozenTelemetry{t.Content, t.Endpoint, t.Headers}
	}
	return f
}

func (f File) frozen() *frozenFile {
	if f.Name == "" {
		return nil
	}
	return &frozenFile{f.Name, f.Digest}
}

func (f *frozenFile) thaw() File {
	if f == nil {
		return File{}
	}
	return File{Name: f.Name, Digest: f.Digest}
}

func (a AgentConfig) frozen() frozenAgent {
	return frozenAgent{
		a.Model, a.Skill, a.Tools, a.Router, a.System, a.MaxSteps, a.OnLimit, a.Temperature, a.TopP, a.MaxOutputTokens,
		frozenDuration(a.CallTimeout), frozenDuration(a.ToolTimeout), frozenDuration(a.ApprovalExpiry),
		a.ToolParallelism, a.MaxResultBytes, a.OutputSchema, a.OutputRetries,
	}
}

func (f frozenAgent) thaw() AgentConfig {
	return AgentConfig{
		f.Model, f.Skill, f.Tools, f.Router, f.System, f.MaxSteps, f.OnLimit, f.Temperature, f.TopP, f.MaxOutputTokens,
		time.Duration(f.CallTimeout), time.Duration(f.ToolTimeout), time.Duration(f.ApprovalExpiry),
		f.ToolParallelism, f.MaxResultBytes, f.OutputSchema, f.OutputRetries,
	}
}

// thaw fills in the part of a manifest that is about models.
func (f frozenAgents) thaw(m *Manifest) error {
	m.Models, m.Agents, m.Prompts = map[string]ModelConfig{}, map[string]AgentConfig{}, prompts.Default()
	for name, c := range f.Models {
		m.Models[name] = ModelConfig{c.Provider, c.Model, c.APIKey, c.BaseURL, c.AllowHTTP, c.ContextWindow, c.Cache, c.Script.thaw()}
	}
	m.ModelsFile = f.ModelsFile.thaw()
	for name, a := range f.Agents {
		if _, ok := m.Models[a.Model]; !ok {
			return fmt.Errorf("the frozen manifest's agent %q has a model %q that it does not declare", name, a.Model)
		}
		m.Agents[name] = a.thaw()
	}
	if f.Prompts != nil {
		m.Prompts = *f.Prompts
	}
	if f.Telemetry != nil {
		m.Telemetry = TelemetryConfig(*f.Telemetry)
	}
	return nil
}
