package tool

import (
	"cmp"
	"maps"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/workspace"
)

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
	c, ok := r.servers[server]
	if !ok || why == nil {
		return r
	}
	held := *c
	held.hold = why
	next := &Registry{servers: maps.Clone(r.servers)}
	next.servers[server] = &held
	return next
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
		if refused := checkFiles(stdio.config, stdio.launch.Workspace, name, l.Servers[name].Files); refused != nil {
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
	program, err := stdio.program()
	if err != nil {
		return "", err
	}
	return PackageDigest(packagePath(stdio.config, stdio.launch.Workspace, program))
}

// filesOf are the digests of the workspace's files that a server's command names.
func filesOf(s Server) (map[string]string, error) {
	stdio, ok := s.(*stdioServer)
	if !ok {
		return nil, nil
	}
	return digests(stdio.config, stdio.launch.Workspace)
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
// tools that are not in this lock or differ from it, and not start servers whose
// files do. It is to be called before the first call.
func (m *Manager) Hold(l *Lock) {
	m.lock = l
	for name, link := range m.links {
		if s, ok := link.server.(*stdioServer); ok && l != nil {
			s.files = l.Servers[name].Files
		}
	}
}

// Compare makes the manager list servers beside this lock, also those that are no
// longer what it holds.
func (m *Manager) Compare(l *Lock) { m.lock = l }

// Unheld are the files that the command of a server names and of which the lock, as
// it was made before it held any, has no digest.
func (l *Lock) Unheld(name string, s Server) []string {
	stdio, ok := s.(*stdioServer)
	if !ok || l == nil || l.Servers[name].Tools == nil || l.Servers[name].Files != nil {
		return nil
	}
	return names(stdio.config, stdio.launch.Workspace).files
}
