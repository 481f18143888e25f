package workspace

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/docs/prompts"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/policy/shellguard"
	"github.com/tipstaff/tipstaff/policy/sqlguard"
)

// frozen is the form of a manifest in which a run keeps it: every value is spelled out,
// so that its meaning stays when defaults change. References stand in it as they were
// written, files by name and digest. Serve, MCP and anchor concern no run.
type frozen struct {
	Version int `json:"version"`
	*Manifest
	Policy struct {
		Guards      []policy.GuardConfig `json:"guards,omitempty"`
		Rules       []policy.Rule        `json:"rules"`
		SubDispatch bool                 `json:"sub_dispatch"`
		AutoAccept  bool                 `json:"auto_accept"`
	} `json:"policy"`
	MaxTimeout *document.Duration `json:"max_timeout"`
	Prompts    *prompts.Set       `json:"prompts,omitempty"` // where there is a model that could be given them
}

// Frozen is the manifest as a run keeps it: canonical JSON, without secrets. That
// of a nil manifest is null.
func (m *Manifest) Frozen() []byte {
	if m == nil {
		return []byte("null")
	}
	spelled := *m
	f := frozen{Version: 1, Manifest: &spelled, MaxTimeout: &m.MaxTimeout}
	spelled.AllowedEffects = orEmpty(m.AllowedEffects)
	if m.Bounds == nil {
		spelled.Bounds = tipstaff.Bounds{}
	}
	spelled.Servers = map[string]Server{}
	for name, s := range m.Servers {
		s.Roots, s.Hosts, s.Programs = orEmpty(s.Roots), orEmpty(s.Hosts), orEmpty(s.Programs)
		s.Tools = maps.Clone(s.Tools)
		for tool := range s.Tools {
			s.Tools[tool], _ = m.Tool(name, tool)
		}
		spelled.Servers[name] = s
	}
	spelled.Models = renamed(m.Models, frozenProviders)
	rules := m.Policy.Document()
	f.Policy.Guards, f.Policy.Rules = rules.Guards, orEmpty(rules.Rules)
	f.Policy.SubDispatch, f.Policy.AutoAccept = m.SubDispatch, m.AutoAccept
	if len(m.Models) > 0 {
		f.Prompts = &m.Prompts
	}
	data, err := document.Canonical(flow.JSON(f))
	if err != nil {
		panic(fmt.Sprintf("workspace: a manifest that was read cannot be written: %v", err))
	}
	return data
}

// frozenProviders are the providers whose names are others in the frozen form. There
// openai has always meant chat completions, and still does in the runs that hold it.
var frozenProviders = map[string]string{ProviderOpenAI: "openai-responses", ProviderOpenAIChat: "openai"}

// renamed are models with other names for their providers.
func renamed(models map[string]Model, names map[string]string) map[string]Model {
	models = maps.Clone(models)
	for name, c := range models {
		c.Provider = cmp.Or(names[c.Provider], c.Provider)
		models[name] = c
	}
	return models
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// frozenTool has a duration that people can read. In [Tool], which also stands in the
// catalogs of agents, it is a number.
type frozenTool struct {
	Effect    flow.Class        `json:"effect,omitempty"`
	Timeout   document.Duration `json:"timeout"`
	MaxResult int64             `json:"max_result"`
}

// MarshalJSON writes the tools as they are frozen.
func (t Tools) MarshalJSON() ([]byte, error) {
	all := map[string]frozenTool{}
	for name, c := range t {
		all[name] = frozenTool{c.Effect, document.Duration(c.Timeout), c.MaxResult}
	}
	return json.Marshal(all)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *Tools) UnmarshalJSON(data []byte) error {
	var all map[string]frozenTool
	if err := document.UnmarshalStrict(data, &all); err != nil {
		return err
	}
	*t = Tools{}
	for name, c := range all {
		(*t)[name] = Tool{c.Effect, time.Duration(c.Timeout), c.MaxResult}
	}
	return nil
}

// ParseFrozen reads what Frozen wrote.
func ParseFrozen(data []byte) (*Manifest, error) {
	if bytes.Equal(data, []byte("null")) {
		return nil, nil
	}
	m := &Manifest{Servers: map[string]Server{}, Models: map[string]Model{}, Agents: map[string]Agent{}, Prompts: prompts.Default()}
	f := frozen{Manifest: m}
	if err := document.UnmarshalStrict(data, &f); err != nil {
		return nil, fmt.Errorf("the frozen manifest cannot be read: %w", err)
	}
	if f.Version != 1 {
		return nil, fmt.Errorf("the frozen manifest has version %d: this Tipstaff reads 1", f.Version)
	}
	if f.MaxTimeout == nil {
		return nil, fmt.Errorf("the frozen manifest has no max_timeout")
	}
	m.MaxTimeout = *f.MaxTimeout
	names := map[string]string{}
	for name, frozen := range frozenProviders {
		names[frozen] = name
	}
	m.Models = renamed(m.Models, names)
	for name, s := range m.Servers {
		if s.MaxConcurrent < 1 {
			return nil, fmt.Errorf("the frozen manifest's server %q: max_concurrent is %d", name, s.MaxConcurrent)
		}
	}
	for name, a := range m.Agents {
		if _, ok := m.Models[a.Model]; !ok && a.Worker == "" && a.Role == "" {
			return nil, fmt.Errorf("the frozen manifest's agent %q has a model %q that it does not declare", name, a.Model)
		}
	}
	var problems []policy.Problem
	m.Policy, problems = policy.New(policy.Document{Guards: f.Policy.Guards, Rules: f.Policy.Rules}, sqlguard.Kind, shellguard.Kind)
	if problems != nil {
		return nil, fmt.Errorf("the frozen manifest's %s, entry %d: %s", problems[0].List, problems[0].Index+1, problems[0].Message)
	}
	m.SubDispatch, m.AutoAccept = f.Policy.SubDispatch, f.Policy.AutoAccept
	if f.Prompts != nil {
		m.Prompts = *f.Prompts
	}
	return m, nil
}
