package tool

import (
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/docs/prompts"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
)

// Values that hold where a manifest says nothing.
const (
	DefaultTimeout       = 30 * time.Second
	DefaultMaxTimeout    = time.Hour
	DefaultMaxResult     = 8 << 20
	DefaultMaxConcurrent = 4
)

// Manifest is tipstaff.yaml: which servers and tools exist here, and what they
// may do. A nil Manifest is a workspace without one: it declares nothing and
// allows nothing.
type Manifest struct {
	AllowedEffects []flow.Class // absent in the file: read alone
	Servers        map[string]ServerConfig
	Policy         *policy.Policy  // never nil
	SubDispatch    bool            // plans may start child runs
	AutoAccept     bool            // a caller may accept a drafted plan in advance
	Bounds         tipstaff.Bounds // ceilings of every run; nil: none
	MaxTimeout     time.Duration   // the longest timeout a program may ask for
	DefaultSkill   string          // for programs that name none; "": none
	Scope          string          // the only folder that a child run may use; "": every root
	CleanPaths     bool            // paths in arguments of builtin must be clean; not in runs that were made before they had to be

	Models     map[string]ModelConfig
	Anchor     string // the file that anchors are written to, beside the manifest unless absolute; "": none
	ModelsFile File   // overrides entries of the table of models
	Agents     map[string]AgentConfig
	Prompts    prompts.Set // those that come with Tipstaff, unless a folder replaces some
	Telemetry  TelemetryConfig
	Serve      ServeConfig

	obeys []string // files beside it that it names; not in a frozen one
}

// ServerConfig is what the manifest says of one server.
type ServerConfig struct {
	Tools         map[string]ToolConfig
	Timeout       time.Duration // of tools without their own; 0: DefaultTimeout
	MaxConcurrent int           // calls at once

	// Of a server that is a program of its own, spoken to over its input and output.
	Command       []string
	Env           map[string]string // may hold $env:NAME references
	InheritEnv    []string          // names passed on as they are set here
	Package       string            // the file or folder that PackageDigest is of; "": the program
	PackageDigest string            // "": not checked

	// Of a server that is reached over HTTP.
	URL     string
	Headers map[string]string // may hold $env:NAME references

	// Of builtin alone. Nothing listed means nothing allowed.
	Roots    []string // folders that files are read and written in
	Hosts    []string // host or host:port that may be fetched from
	Programs []string // names or paths of programs that may be run
}

// ToolConfig is what the manifest says of one tool.
type ToolConfig struct {
	Effect    flow.Class    `json:"effect,omitempty"`     // "": what the tool's hints state
	Timeout   time.Duration `json:"timeout,omitempty"`    // 0: the server's
	MaxResult int64         `json:"max_result,omitempty"` // bytes; 0: DefaultMaxResult
}

// Server is the configuration of a declared server.
func (m *Manifest) Server(name string) (ServerConfig, bool) {
	if m == nil {
		return ServerConfig{}, false
	}
	s, ok := m.Servers[name]
	return s, ok
}

// Tool is the configuration of a declared tool, its timeout and size resolved:
// the tool's, else the server's, else the default.
func (m *Manifest) Tool(server, tool string) (ToolConfig, bool) {
	s, ok := m.Server(server)
	if !ok {
		return ToolConfig{}, false
	}
	t, ok := s.Tools[tool]
	if !ok {
		return ToolConfig{}, false
	}
	if t.Timeout == 0 {
		t.Timeout = s.Timeout
	}
	if t.Timeout == 0 {
		t.Timeout = DefaultTimeout
	}
	if t.MaxResult == 0 {
		t.MaxResult = DefaultMaxResult
	}
	return t, true
}

// Allows reports whether tools of a class may be called at all.
func (m *Manifest) Allows(c flow.Class) bool {
	return m != nil && slices.Contains(m.AllowedEffects, c)
}

// rules is the policy, that of a nil manifest being none at all.
func (m *Manifest) rules() *policy.Policy {
	if m == nil {
		return nil
	}
	return m.Policy
}

// Ceiling is what no run may go beyond; that of a nil manifest is nothing.
func (m *Manifest) Ceiling() tipstaff.Bounds {
	if m == nil {
		return nil
	}
	return m.Bounds
}
