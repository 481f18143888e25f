package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/workspace"
)

// Registry holds definitions of tools: those that servers list, those that the
// lock holds, or those that a run has frozen. It never changes once made, and
// looking something up does no I/O.
type Registry struct {
	servers map[string]*catalog
}

// catalog is what one server lists, as far as the manifest declares it.
type catalog struct {
	version  string
	tools    map[string]*Definition
	broken   map[string]string // tools that are listed and cannot be used, and why
	fault    string            // why nothing of the server can be used
	extra    []string          // listed, not declared
	unlocked map[string]bool   // declared, and not in the lock that this was made from
	hold     *flow.Error       // why calls are refused although the definitions are known
	programs map[string]string // of builtin: digests of those that may be started; nil: not looked at
}

// NewRegistry asks every server that the manifest declares for its tools. It is
// meant for servers that live in this process; one that cannot be asked is an
// error.
func NewRegistry(m *workspace.Manifest, servers map[string]Server) (*Registry, error) {
	manager := NewManager(m, servers)
	defer manager.Close()
	ctx, cancel := context.WithTimeout(context.Background(), connectLimit)
	defer cancel()
	r := &Registry{servers: map[string]*catalog{}}
	if m == nil {
		return r, nil
	}
	for _, name := range sortedKeys(m.Servers) {
		c, err := manager.catalog(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("the tools of server %q cannot be listed: %w", name, err)
		}
		r.servers[name] = c
	}
	return r, nil
}

// newCatalog reads a listing. A duplicate name makes the whole server unusable: it is
// unknown which of the two was approved.
func newCatalog(m *workspace.Manifest, server, version string, listed []json.RawMessage) *catalog {
	c := &catalog{version: version, tools: map[string]*Definition{}, broken: map[string]string{}}
	seen := map[string]bool{}
	for i, raw := range listed {
		w, err := parseWireTool(raw)
		if err != nil || w.Name == "" {
			c.fault = fmt.Sprintf("tool %d of its list has no readable name", i+1)
			continue
		}
		if seen[w.Name] {
			c.fault = fmt.Sprintf("it lists two tools named %q", w.Name)
		}
		seen[w.Name] = true
		config, declared := m.Tool(server, w.Name)
		if !declared {
			c.extra = append(c.extra, w.Name)
			continue
		}
		d, err := define(server, version, raw, config)
		if err != nil {
			c.broken[w.Name] = err.Error()
			continue
		}
		c.tools[w.Name] = d
	}
	return c
}

// Lookup is the definition that a pinned URI names. Its error is ErrInvalidURI,
// ErrUnpinnedTool, or a *flow.Error with unknown_tool, unlocked_tool,
// pin_mismatch, package_changed or env_missing.
func (r *Registry) Lookup(uri string) (*Definition, error) {
	u, err := tipstaff.ParseToolURI(uri)
	if err != nil {
		return nil, err
	}
	d, refused := r.find(u)
	if refused == nil {
		refused = pinned(d, u)
	}
	if refused == nil {
		refused = r.servers[u.Server].hold
	}
	if refused != nil {
		return nil, refused
	}
	return d, nil
}

// Definitions are all tools that are listed, by server and name. Whether its
// schemas can be used shows when a tool is looked up.
func (r *Registry) Definitions() []*Definition {
	if r == nil {
		return nil
	}
	var list []*Definition
	for _, server := range sortedKeys(r.servers) {
		c := r.servers[server]
		if c.fault != "" {
			continue
		}
		for _, name := range sortedKeys(c.tools) {
			list = append(list, c.tools[name])
		}
	}
	return list
}

// find is the tool whatever its pin.
func (r *Registry) find(u tipstaff.ToolURI) (*Definition, *flow.Error) {
	if r == nil || r.servers[u.Server] == nil {
		return nil, refusal(CodeUnknown, nil, "server %q is not declared in the manifest", u.Server)
	}
	c := r.servers[u.Server]
	if c.fault != "" {
		return nil, refusal(CodeUnknown, nil, "server %q cannot be used: %s", u.Server, c.fault)
	}
	if why, ok := c.broken[u.Tool]; ok {
		return nil, unusable(u, errors.New(why))
	}
	if c.unlocked[u.Tool] {
		return nil, refusal(CodeUnlocked, nil, "%s/%s is not in %s: nobody has accepted its definition yet", u.Server, u.Tool, LockName)
	}
	d, ok := c.tools[u.Tool]
	if !ok {
		return nil, refusal(CodeUnknown, nil, "server %q has no declared tool %q%s", u.Server, u.Tool, tipstaff.Suggest(u.Tool, sortedKeys(c.tools)))
	}
	if err := d.usable(); err != nil {
		return nil, unusable(u, err)
	}
	return d, nil
}

func unusable(u tipstaff.ToolURI, why error) *flow.Error {
	return refusal(CodeUnknown, nil, "tool %q of server %q cannot be used: %v", u.Tool, u.Server, why)
}

func pinned(d *Definition, u tipstaff.ToolURI) *flow.Error {
	if d.fits(u.Pin) {
		return nil
	}
	return refusal(CodePinMismatch, detail{"pin": u.Pin, "version": d.Version, "digest": d.Digest},
		"%s/%s is pinned to %s, but is version %s with digest %s", u.Server, u.Tool, u.Pin, tipstaff.Quote(d.Version, 60), d.Digest)
}

// The frozen form of a registry.
type (
	frozenRegistry struct {
		Version int                      `json:"version"`
		Servers map[string]frozenCatalog `json:"servers"`
	}
	frozenCatalog struct {
		Version  string                      `json:"version"`
		Tools    map[string]frozenDefinition `json:"tools"`
		Programs map[string]string           `json:"programs,omitempty"`
	}
	frozenDefinition struct {
		Class      flow.Class      `json:"class"`
		Digest     string          `json:"digest"`
		Definition json.RawMessage `json:"definition"`
		Timeout    string          `json:"timeout"`
		MaxResult  int64           `json:"max_result"`
	}
)

// Freeze is the usable tools as a run keeps them, canonical JSON: with them the
// gate can be asked again without any server.
func (r *Registry) Freeze() ([]byte, error) {
	f := frozenRegistry{Version: 1, Servers: map[string]frozenCatalog{}}
	for _, d := range r.Definitions() {
		c, ok := f.Servers[d.Server]
		if !ok {
			c = frozenCatalog{d.Version, map[string]frozenDefinition{}, r.servers[d.Server].programs}
			f.Servers[d.Server] = c
		}
		c.Tools[d.Tool] = frozenDefinition{d.Class, d.Digest, d.Raw, d.Timeout.String(), d.MaxResult}
	}
	return canonicalOf(f)
}

// LoadFrozen reads what Freeze wrote. A definition that does not have the digest
// it is said to have is an error.
func LoadFrozen(data []byte) (*Registry, error) {
	var f frozenRegistry
	if err := document.UnmarshalStrict(data, &f); err != nil {
		return nil, fmt.Errorf("the frozen tools cannot be read: %w", err)
	}
	if f.Version != 1 {
		return nil, fmt.Errorf("the frozen tools have version %d: this Tipstaff reads 1", f.Version)
	}
	r := &Registry{servers: map[string]*catalog{}}
	for server, fc := range f.Servers {
		c := &catalog{version: fc.Version, tools: map[string]*Definition{}, programs: fc.Programs}
		for name, fd := range fc.Tools {
			d, err := fd.thaw(server, name, fc.Version)
			if err != nil {
				return nil, fmt.Errorf("the frozen tool %s/%s: %w", server, name, err)
			}
			c.tools[name] = d
		}
		r.servers[server] = c
	}
	return r, nil
}

func (f frozenDefinition) thaw(server, name, version string) (*Definition, error) {
	timeout, err := time.ParseDuration(f.Timeout)
	if err != nil {
		return nil, err
	}
	d, err := defineText(server, version, f.Definition, workspace.Tool{Effect: f.Class, Timeout: timeout, MaxResult: f.MaxResult})
	switch {
	case err != nil:
		return nil, err
	case d.Tool != name:
		return nil, fmt.Errorf("its definition names %q", d.Tool)
	case d.Digest != f.Digest:
		return nil, fmt.Errorf("its definition has digest %s, not %s", d.Digest, f.Digest)
	case d.Class != f.Class:
		return nil, fmt.Errorf("its hints make it %s, not %s", d.Class, f.Class)
	}
	return d, nil
}
