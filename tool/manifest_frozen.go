package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
)

// The frozen form of a manifest: every value spelled out, so that a run keeps
// its meaning when defaults change.
type (
	frozenManifest struct {
		Version        int                     `json:"version"`
		AllowedEffects []flow.Class            `json:"allowed_effects"`
		Servers        map[string]frozenServer `json:"servers"`
		Policy         frozenPolicy            `json:"policy"`
		Bounds         tipstaff.Bounds         `json:"bounds"`
		MaxTimeout     string                  `json:"max_timeout"`
		DefaultSkill   string                  `json:"default_skill,omitempty"`
		Scope          string                  `json:"scope,omitempty"`
		CleanPaths     bool                    `json:"clean_paths,omitempty"`
		frozenAgents
	}
	frozenServer struct {
		Roots         []string              `json:"roots"`
		Hosts         []string              `json:"hosts"`
		Programs      []string              `json:"programs"`
		Tools         map[string]frozenTool `json:"tools"`
		MaxConcurrent int                   `json:"max_concurrent"`

		Command       []string          `json:"command,omitempty"`
		Env           map[string]string `json:"env,omitempty"`
		InheritEnv    []string          `json:"inherit_env,omitempty"`
		Package       string            `json:"package,omitempty"`
		PackageDigest string            `json:"package_digest,omitempty"`
		URL           string            `json:"url,omitempty"`
		Headers       map[string]string `json:"headers,omitempty"`
	}
	frozenTool struct {
		Effect    flow.Class `json:"effect,omitempty"`
		Timeout   string     `json:"timeout"`
		MaxResult int64      `json:"max_result"`
	}
	frozenPolicy struct {
		Guards      []policy.GuardConfig `json:"guards,omitempty"`
		Rules       []policy.Rule        `json:"rules"`
		SubDispatch bool                 `json:"sub_dispatch"`
		AutoAccept  bool                 `json:"auto_accept"`
	}
)

// Frozen is the manifest as a run keeps it: canonical JSON, without secrets. That
// of a nil manifest is null.
func (m *Manifest) Frozen() []byte {
	if m == nil {
		return []byte("null")
	}
	f := frozenManifest{
		Version:        1,
		AllowedEffects: orEmpty(m.AllowedEffects),
		Servers:        map[string]frozenServer{},
		Policy:         m.frozenPolicy(),
		Bounds:         m.Bounds,
		MaxTimeout:     m.MaxTimeout.String(),
		DefaultSkill:   m.DefaultSkill,
		Scope:          m.Scope,
		CleanPaths:     m.CleanPaths,
		frozenAgents:   m.frozenAgents(),
	}
	if f.Bounds == nil {
		f.Bounds = tipstaff.Bounds{}
	}
	for name, s := range m.Servers {
		f.Servers[name] = m.frozenServer(name, s)
	}
	data, err := canonicalOf(f)
	if err != nil {
		panic(fmt.Sprintf("tool: a manifest that was read cannot be written: %v", err))
	}
	return data
}

func (m *Manifest) frozenPolicy() frozenPolicy {
	d := m.Policy.Document()
	return frozenPolicy{Guards: d.Guards, Rules: orEmpty(d.Rules), SubDispatch: m.SubDispatch, AutoAccept: m.AutoAccept}
}

func (m *Manifest) frozenServer(name string, s ServerConfig) frozenServer {
	f := frozenServer{
		Roots: orEmpty(s.Roots), Hosts: orEmpty(s.Hosts), Programs: orEmpty(s.Programs),
		Tools: map[string]frozenTool{}, MaxConcurrent: s.MaxConcurrent,
		Command: s.Command, Env: s.Env, InheritEnv: s.InheritEnv, Package: s.Package, PackageDigest: s.PackageDigest,
		URL: s.URL, Headers: s.Headers,
	}
	for tool := range s.Tools {
		t, _ := m.Tool(name, tool)
		f.Tools[tool] = frozenTool{t.Effect, t.Timeout.String(), t.MaxResult}
	}
	return f
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// ParseFrozen reads what Frozen wrote.
func ParseFrozen(data []byte) (*Manifest, error) {
	if bytes.Equal(data, []byte("null")) {
		return nil, nil
	}
	var f frozenManifest
	if err := decodeStrict(data, &f); err != nil {
		return nil, fmt.Errorf("the frozen manifest cannot be read: %w", err)
	}
	if f.Version != 1 {
		return nil, fmt.Errorf("the frozen manifest has version %d: this Tipstaff reads 1", f.Version)
	}
	m := &Manifest{
		AllowedEffects: f.AllowedEffects,
		Servers:        map[string]ServerConfig{},
		SubDispatch:    f.Policy.SubDispatch,
		AutoAccept:     f.Policy.AutoAccept,
		Bounds:         f.Bounds,
		DefaultSkill:   f.DefaultSkill,
		Scope:          f.Scope,
		CleanPaths:     f.CleanPaths,
	}
	var err error
	if m.MaxTimeout, err = time.ParseDuration(f.MaxTimeout); err != nil {
		return nil, fmt.Errorf("the frozen manifest's max_timeout: %w", err)
	}
	for name, s := range f.Servers {
		if m.Servers[name], err = s.thaw(); err != nil {
			return nil, fmt.Errorf("the frozen manifest's server %q: %w", name, err)
		}
	}
	compiled, problems := policy.New(policy.Document{Guards: f.Policy.Guards, Rules: f.Policy.Rules})
	if problems != nil {
		return nil, fmt.Errorf("the frozen manifest's %s, entry %d: %s", problems[0].List, problems[0].Index+1, problems[0].Message)
	}
	m.Policy = compiled
	if err := f.frozenAgents.thaw(m); err != nil {
		return nil, err
	}
	return m, nil
}

func (f frozenServer) thaw() (ServerConfig, error) {
	s := ServerConfig{
		Tools: map[string]ToolConfig{}, MaxConcurrent: f.MaxConcurrent,
		Roots: f.Roots, Hosts: f.Hosts, Programs: f.Programs,
		Command: f.Command, Env: f.Env, InheritEnv: f.InheritEnv, Package: f.Package, PackageDigest: f.PackageDigest,
		URL: f.URL, Headers: f.Headers,
	}
	if s.MaxConcurrent < 1 {
		return s, fmt.Errorf("max_concurrent is %d", s.MaxConcurrent)
	}
	for name, t := range f.Tools {
		d, err := time.ParseDuration(t.Timeout)
		if err != nil {
			return s, fmt.Errorf("timeout of %q: %w", name, err)
		}
		s.Tools[name] = ToolConfig{t.Effect, d, t.MaxResult}
	}
	return s, nil
}

// decodeStrict refuses unknown members and anything after the value.
func decodeStrict(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if dec.More() {
		return fmt.Errorf("text follows the value")
	}
	return nil
}
