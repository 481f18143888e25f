package tool

import (
	"encoding/json"
	"maps"
	"path"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/workspace"
)

// pathArguments are the arguments of builtin's tools that are paths.
var pathArguments = map[string]string{"read_file": "path", "write_file": "path", "list_dir": "path", "exec": "cwd"}

// cleanPath belongs to check 4. A path has one spelling, so that rules and guards
// which look at it cannot be evaded by another: relative to the first root, without
// ., .. and empty parts. Other roots are reached by absolute paths; that those do not
// lead into the first one is seen when the call is made.
func (g *Gate) cleanPath(d *Definition, args json.RawMessage) *flow.Error {
	name, ok := pathArguments[d.Tool]
	if !g.clean || d.Server != builtin.Name || !ok {
		return nil
	}
	var given map[string]json.RawMessage
	var text string
	if json.Unmarshal(args, &given) != nil || given[name] == nil || json.Unmarshal(given[name], &text) != nil {
		return nil
	}
	refuse := func(why string) *flow.Error {
		return refusal(CodeUncleanPath, detail{"pointer": "/" + name}, "the %s of %s is %s: %s", name, d.Tool, tipstaff.Quote(text, 200), why)
	}
	config, _ := g.Manifest.Server(builtin.Name)
	clean := path.Clean(text)
	switch {
	case path.IsAbs(text) && len(config.Roots) < 2:
		return refuse("write it relative to the root, without a slash at its beginning")
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return refuse("it leaves the root")
	case clean != text:
		return refuse("write " + tipstaff.Quote(clean, 200))
	}
	return nil
}

// WithPrograms is the registry with the digests of the programs that builtin may
// start, for a run to keep: what a person approves is then also which program runs.
func (r *Registry) WithPrograms(m *workspace.Manifest, dir string) *Registry {
	c, ok := r.servers[builtin.Name]
	config, _ := m.Server(builtin.Name)
	if !ok || len(config.Programs) == 0 {
		return r
	}
	held := *c
	held.programs = builtin.New(builtin.Options{Workspace: dir, Programs: config.Programs}).Digests()
	next := &Registry{servers: maps.Clone(r.servers)}
	next.servers[builtin.Name] = &held
	return next
}

// program is the program that a call starts, and its digest. ok is false where it
// starts none, or the digest was not recorded.
func (r *Registry) program(d *Definition, args json.RawMessage) (name, digest string, ok bool) {
	if r == nil || d.Server != builtin.Name || d.Tool != "exec" || r.servers[d.Server] == nil {
		return "", "", false
	}
	var given struct{ Argv []string }
	if json.Unmarshal(args, &given) != nil || len(given.Argv) == 0 {
		return "", "", false
	}
	digest, ok = r.servers[d.Server].programs[given.Argv[0]]
	return given.Argv[0], digest, ok
}
