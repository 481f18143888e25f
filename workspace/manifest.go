package workspace

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/docs/prompts"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool/builtin"
)

// Values that hold where a manifest says nothing.
const (
	DefaultTimeout       = 30 * time.Second
	DefaultStartTimeout  = 30 * time.Second
	DefaultMaxTimeout    = time.Hour
	DefaultMaxResult     = 8 << 20
	DefaultMaxConcurrent = 4
)

// Manifest is tipstaff.yaml: which servers and tools exist here, and what they
// may do. A nil Manifest is a workspace without one: it declares nothing and
// allows nothing.
type Manifest struct {
	AllowedEffects []flow.Class      `json:"allowed_effects" doc:",one,in=read|idempotent|once"` // absent in the file: read alone
	Servers        map[string]Server `json:"servers" doc:""`
	Policy         *policy.Policy    `json:"-"`                                   // never nil
	SubDispatch    bool              `json:"-"`                                   // plans may start child runs
	AutoAccept     bool              `json:"-"`                                   // a caller may accept a drafted plan in advance
	Bounds         tipstaff.Bounds   `json:"bounds"`                              // ceilings of every run; nil: none
	MaxTimeout     document.Duration `json:"-" doc:"max_timeout,min=1ms,max=24h"` // the longest timeout a program may ask for
	DefaultSkill   string            `json:"default_skill,omitempty" doc:""`      // for programs that name none; "": none
	Scope          string            `json:"scope,omitempty"`                     // the only folder that a child run may use; "": every root
	Implicit       bool              `json:"implicit,omitempty"`                  // the workspace has no file: see [Implicit]
	CleanPaths     bool              `json:"clean_paths,omitempty"`               // paths in arguments of builtin must be clean; not in runs that were made before they had to be

	Models     map[string]Model `json:"models,omitempty" doc:""`
	Anchor     string           `json:"-"`                           // the file that anchors are written to, beside the manifest unless absolute; "": none
	ModelsFile File             `json:"models_file,omitzero" doc:""` // overrides entries of the table of models
	Agents     map[string]Agent `json:"agents,omitempty" doc:""`

	Workers  map[string]Worker `json:"workers,omitempty" doc:""`  // configured ones: see [Manifest.Worker]
	Roles    map[string]Role   `json:"roles,omitempty" doc:""`    // configured ones: see [Manifest.Role]
	Bindings map[string]string `json:"bindings,omitempty" doc:""` // roles to workers

	Worktree *document.Preparation `json:"worktree,omitempty" doc:""` // what every worktree is given; nil: nothing

	Prompts   prompts.Set `json:"-"` // those that come with Tipstaff, unless a folder replaces some
	Telemetry Telemetry   `json:"telemetry,omitzero" doc:""`
	Serve     Serve       `json:"-" doc:"serve"`
	MCP       MCP         `json:"-" doc:"mcp"`

	obeys   []string // files beside it that it names; not in a frozen one
	unasked []string // rules of its own policy that let programs be started without asking; likewise
}

func newManifest() *Manifest {
	return &Manifest{
		AllowedEffects: []flow.Class{flow.Read},
		Servers:        map[string]Server{},
		Policy:         new(policy.Policy),
		MaxTimeout:     document.Duration(DefaultMaxTimeout),
		CleanPaths:     true,
		Models:         map[string]Model{},
		Agents:         map[string]Agent{},
		Prompts:        prompts.Default(),
		Serve:          Serve{MaxDriving: DefaultMaxDriving},
	}
}

// File is a file beside the manifest, as it was when the manifest was read.
type File struct {
	Name   string `json:"name"` // "": there is none
	Digest string `json:"digest"`
	Text   string `json:"-"` // "" in a manifest that was frozen: that has the digest alone
}

// orNone is m, or what a workspace without a manifest has.
func (m *Manifest) orNone() *Manifest {
	if m == nil {
		return &Manifest{Serve: Serve{MaxDriving: DefaultMaxDriving}}
	}
	return m
}

// Server is the configuration of a declared server.
func (m *Manifest) Server(name string) (Server, bool) {
	s, ok := m.orNone().Servers[name]
	return s, ok
}

// Undeclared says of a tool that it, or its server, is not declared, and which was perhaps
// meant.
func (m *Manifest) Undeclared(server, tool string) string {
	s, ok := m.Server(server)
	if !ok {
		return fmt.Sprintf("the manifest declares no server %s%s", tipstaff.Quote(server, 100), tipstaff.Suggest(server, sortedKeys(m.orNone().Servers)))
	}
	return fmt.Sprintf("the manifest declares no tool %s of server %s%s", tipstaff.Quote(tool, 100), server, tipstaff.Suggest(tool, sortedKeys(s.Tools)))
}

// Tool is the configuration of a declared tool, its timeout and size resolved:
// the tool's, else the server's, else the default.
func (m *Manifest) Tool(server, tool string) (Tool, bool) {
	s, _ := m.Server(server)
	t, ok := s.Tools[tool]
	if !ok {
		return Tool{}, false
	}
	t.Timeout = cmp.Or(t.Timeout, time.Duration(s.Timeout), DefaultTimeout)
	t.MaxResult = cmp.Or(t.MaxResult, DefaultMaxResult)
	return t, true
}

// Allows reports whether tools of a class may be called at all.
func (m *Manifest) Allows(c flow.Class) bool {
	return slices.Contains(m.orNone().AllowedEffects, c)
}

// Rules is the policy; nil for a nil manifest.
func (m *Manifest) Rules() *policy.Policy { return m.orNone().Policy }

// Ceiling is the bounds that no run may exceed; nil for a nil manifest.
func (m *Manifest) Ceiling() tipstaff.Bounds { return m.orNone().Bounds }

// Obeys are the files beside the manifest that it names, and folders of such files.
// Those of a frozen one are not known.
func (m *Manifest) Obeys() []string {
	list := slices.Concat(m.obeys, m.Serve.Programs)
	if m.Anchor != "" {
		list = append(list, m.Anchor)
	}
	return list
}

// Within is the manifest of a run that may use the files of one folder alone, of
// none if it is not in any declared root any more.
func (m *Manifest) Within(scope string, declared bool) *Manifest {
	narrow := *m
	narrow.Scope = scope
	narrow.Servers = maps.Clone(m.Servers)
	if s, ok := narrow.Servers[builtin.Name]; ok {
		s.Roots = nil
		if declared {
			s.Roots = []string{scope}
		}
		narrow.Servers[builtin.Name] = s
	}
	return &narrow
}

// WithSubDispatch is the manifest of a run whose caller lets it start child runs.
func (m *Manifest) WithSubDispatch() *Manifest {
	allowing := Manifest{MaxTimeout: document.Duration(DefaultMaxTimeout), Policy: new(policy.Policy)}
	if m != nil {
		allowing = *m
	}
	allowing.SubDispatch = true
	return &allowing
}

// sortedKeys are the names of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
