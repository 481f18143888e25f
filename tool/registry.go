package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool/builtin"
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
	broken   map[string]string          // tools that are listed and cannot be used, and why
	fault    string                     // why nothing of the server can be used
	extra    map[string]json.RawMessage // listed, not declared
	missing  map[string]bool            // declared, not listed
	unlocked map[string]bool            // declared, and not in the lock that this was made from
	hold     *flow.Error                // why calls are refused although the definitions are known
	programs map[string]string          // of builtin: digests of those that may be started; nil: not looked at
}

// NewRegistry asks every server that the manifest declares for its tools. It is
// meant for servers that live in this process; one that cannot be asked is an
// error.
func NewRegistry(m *workspace.Manifest, servers map[string]Server) (*Registry, error) {
	manager := NewManager(m, servers)
	defer manager.Close()
	r := &Registry{servers: map[string]*catalog{}}
	if m == nil {
		return r, nil
	}
	for _, name := range sortedKeys(m.Servers) {
		c, err := manager.catalog(context.Background(), name) // which has limits of its own
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
	c := &catalog{version: version, tools: map[string]*Definition{}, broken: map[string]string{}, missing: map[string]bool{}, extra: map[string]json.RawMessage{}}
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
			c.extra[w.Name] = raw
			continue
		}
		d, err := define(server, version, raw, config)
		if err != nil {
			c.broken[w.Name] = err.Error()
			continue
		}
		c.tools[w.Name] = d
	}
	for name := range m.Servers[server].Tools {
		if !seen[name] {
			c.missing[name] = true
		}
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

// names are those of the servers.
func (r *Registry) names() []string {
	if r == nil {
		return nil
	}
	return sortedKeys(r.servers)
}

// find is the tool whatever its pin.
func (r *Registry) find(u tipstaff.ToolURI) (*Definition, *flow.Error) {
	if r == nil || r.servers[u.Server] == nil {
		return nil, refusal(CodeUnknown, nil, "server %q is not declared in the manifest%s", u.Server, tipstaff.Suggest(u.Server, r.names()))
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
	if c.missing[u.Tool] {
		return nil, refusal(CodeUnknown, nil, "the server does not list %s/%s, which the manifest declares: it has dropped the tool, or never had it; "+
			"remove the declaration, or have the server list it, then `tipstaff tools pin %s`", u.Server, u.Tool, u.Server)
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

// NewLockedRegistry is what may be called, found out without a connection: the
// tools of builtin as this binary has them, those of every other server as the
// lock holds them. A declared tool that the lock does not hold is unlocked_tool.
func NewLockedRegistry(m *workspace.Manifest, l *Lock) *Registry {
	r := &Registry{servers: map[string]*catalog{}}
	if m == nil {
		return r
	}
	for name := range m.Servers {
		r.servers[name] = lockedCatalog(m, l, name)
	}
	return r
}

// Withhold is the registry in which every call of a server is refused for this
// reason, if it is not refused for another before. A nil reason withholds nothing.
func (r *Registry) Withhold(server string, why *flow.Error) *Registry {
	if why == nil {
		return r
	}
	return r.with(server, func(c *catalog) { c.hold = why })
}

// with is the registry with a change to what it has of a server, if it has that.
func (r *Registry) with(server string, change func(*catalog)) *Registry {
	c, ok := r.servers[server]
	if !ok {
		return r
	}
	changed := *c
	change(&changed)
	next := &Registry{servers: maps.Clone(r.servers)}
	next.servers[server] = &changed
	return next
}

// WithPrograms is the registry with the digests of the programs that builtin may
// start, for a run to keep: what a person approves is then also which program runs.
func (r *Registry) WithPrograms(m *workspace.Manifest, dir string) *Registry {
	config, _ := m.Server(builtin.Name)
	if len(config.Programs) == 0 {
		return r
	}
	return r.with(builtin.Name, func(c *catalog) {
		c.programs = builtin.New(builtin.Options{Workspace: dir, Programs: config.Programs}).Digests()
	})
}

// ProgramDigest is the digest of a program that builtin may start; false: it was not looked at.
func (r *Registry) ProgramDigest(name string) (digest string, ok bool) {
	if r == nil || r.servers[builtin.Name] == nil {
		return "", false
	}
	digest, ok = r.servers[builtin.Name].programs[name]
	return digest, ok
}

// Ready says, without a connection, why a server could not be used as the lock
// holds it: its package or a file that its command names changed, or a variable is
// not set. nil: no reason is known.
func (l *Lock) Ready(name string, s Server) *flow.Error {
	if e, ok := s.(external); ok {
		if refused := e.ready(); refused != nil {
			return refused
		}
	}
	if l == nil {
		return nil
	}
	if stdio, ok := s.(*stdioServer); ok {
		if refused := l.Accepts(stdio.code, stdio.command()); refused != nil {
			return refused
		}
	}
	held := l.Servers[name].PackageDigest
	if held == "" {
		return nil
	}
	switch now, err := packageOf(s); {
	case err != nil:
		return refusal(CodePackageChanged, nil, "the package of server %q cannot be digested: %v", name, err)
	case now != held:
		return refusal(CodePackageChanged, detail{"accepted": held, "digest": now},
			"the package of server %q has digest %s, and %s was accepted", name, cmp.Or(now, "none"), held)
	}
	return nil
}

// packageOf is the digest of what a server would start now; "": the manifest
// names no package.
func packageOf(s Server) (string, error) {
	stdio, ok := s.(*stdioServer)
	if !ok || stdio.config.Package == "" && stdio.config.PackageDigest == "" {
		return "", nil
	}
	if _, here := stdio.command().PackageHere(stdio.launch.Workspace); here { // the lock has the digests of its files
		return "", nil
	}
	program, err := stdio.program()
	if err != nil {
		return "", err
	}
	return PackageDigest(packagePath(stdio.config, stdio.launch.Workspace, program))
}

func lockedCatalog(m *workspace.Manifest, l *Lock, server string) *catalog {
	if server == builtin.Name {
		return newCatalog(m, server, builtin.Version, builtin.Definitions())
	}
	var held LockedServer
	if l != nil {
		held = l.Servers[server]
	}
	c := &catalog{version: held.Version, tools: map[string]*Definition{}, broken: map[string]string{}, unlocked: map[string]bool{}}
	for tool := range m.Servers[server].Tools {
		t, ok := held.Tools[tool]
		if !ok {
			c.unlocked[tool] = true
			continue
		}
		config, _ := m.Tool(server, tool)
		d, err := defineText(server, held.Version, t.Definition, config)
		if err != nil {
			c.broken[tool] = err.Error()
			continue
		}
		c.tools[tool] = d
	}
	return c
}

// Hold makes the manager refuse, besides what a run's own gate refuses, calls of
// tools that are not in this lock or differ from it, and not start servers and
// programs whose files do. It is to be called before the first call.
func (m *Manager) Hold(l *Lock) {
	m.lock = l
	for _, link := range m.links {
		switch s := link.server.(type) {
		case *stdioServer:
			s.lock = l
		case *builtinServer:
			s.lock = l
		}
	}
}

// Compare makes the manager list servers beside this lock, also those that are no
// longer what it holds.
func (m *Manager) Compare(l *Lock) { m.lock = l }
