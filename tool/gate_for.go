package tool

import (
	"encoding/json"
	"fmt"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/workspace"
)

// Entry is a tool of a catalog: its definition, and the URI under which it is
// declared.
type Entry struct {
	URI     string
	Server  string
	Name    string
	Version string
	Raw     json.RawMessage // as its server lists it
	Config  workspace.Tool
}

// NewGateFor is a gate over these tools and no others, for programs that have no
// manifest: every class is allowed, nothing is locked. A nil policy has no rules.
func NewGateFor(tools []Entry, p *policy.Policy) (*Gate, error) {
	if p == nil {
		p = new(policy.Policy)
	}
	m := &workspace.Manifest{AllowedEffects: []flow.Class{flow.Read, flow.Idempotent, flow.Once},
		Servers: map[string]workspace.Server{}, Policy: p, MaxTimeout: document.Duration(workspace.DefaultMaxTimeout)}
	r := &Registry{servers: map[string]*catalog{}}
	var allow []string
	for _, t := range tools {
		if err := r.add(m, t); err != nil {
			return nil, fmt.Errorf("tool %s: %w", tipstaff.Quote(t.URI, 200), err)
		}
		allow = append(allow, t.URI)
	}
	return NewGate(allow, m, r), nil
}

// add declares a tool and takes it in.
func (r *Registry) add(m *workspace.Manifest, t Entry) error {
	u, err := tipstaff.ParseToolURI(t.URI)
	switch {
	case err != nil:
		return err
	case u.Server != t.Server || u.Tool != t.Name:
		return fmt.Errorf("its URI does not name %s/%s", t.Server, t.Name)
	}
	c, ok := r.servers[t.Server]
	if !ok {
		c = &catalog{version: t.Version, tools: map[string]*Definition{}}
		r.servers[t.Server] = c
		m.Servers[t.Server] = workspace.Server{Tools: workspace.Tools{}, MaxConcurrent: workspace.DefaultMaxConcurrent}
	}
	if _, ok := c.tools[t.Name]; ok {
		return fmt.Errorf("%s/%s is declared twice", t.Server, t.Name)
	}
	m.Servers[t.Server].Tools[t.Name] = t.Config
	config, _ := m.Tool(t.Server, t.Name)
	d, err := define(t.Server, t.Version, t.Raw, config)
	switch {
	case err != nil:
		return err
	case d.Tool != t.Name:
		return fmt.Errorf("its definition names %s", tipstaff.Quote(d.Tool, 140))
	case !d.fits(u.Pin):
		return fmt.Errorf("it is version %s with digest %s, which its pin does not fit", tipstaff.Quote(d.Version, 60), d.Digest)
	}
	c.tools[t.Name] = d
	return d.usable()
}
