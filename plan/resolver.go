package plan

import (
	"time"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Resolver answers what a plan cannot know by itself: which tools, skills and
// agents there are. Each answer may carry a Trouble, which is then reported at
// the node that asked. A nil Resolver has nothing against anything.
type Resolver interface {
	// Tool tells about a well-formed, pinned tool URI.
	Tool(uri string) ToolInfo
	// Skill tells about a skill that a document is written for, or dispatches.
	Skill(uri string) SkillInfo
	// Agent tells about who would do a step. No agent of that name: agent_unknown.
	Agent(name string) AgentInfo
	// Dispatch tells whether a child run of a skill may be started.
	Dispatch(skill, agent string) Trouble
	// Feature tells whether this host can do what a document asks of it beyond its
	// nodes: files (a worktree or checkout), deliver, anchor.
	Feature(name string) Trouble
	// Release tells what is wrong with a release expression.
	Release(expression string) Trouble
	// Bounds are the ceilings that no document may exceed, in ledger units. A name
	// that is absent has none.
	Bounds() flow.Use
}

// Codes with which a resolver says that a child run may not be started.
const (
	CodeSubDispatchDisabled = "sub_dispatch_disabled"
	CodeSubDispatchCycle    = "sub_dispatch_cycle"
)

// Trouble is why something cannot be used.
type Trouble = document.Trouble

// ToolInfo is what the manifest says about a tool.
type ToolInfo struct {
	Class      flow.Class    // "": unknown
	Timeout    time.Duration // the tool's, else its server's; 0: neither
	MaxTimeout time.Duration // the manifest's max_timeout; 0: one hour
	Trouble    Trouble
}

// SkillInfo is what a skill allows, takes and promises.
type SkillInfo struct {
	Tools     []string        // the URIs that its programs may call; nil: not known
	SubSkills []string        // the URIs of skills that they may dispatch; nil: not known
	Inputs    map[string]bool // by name, whether it must be given; nil: not known
	Outputs   []string        // names that its programs must have among their outputs
	Trouble   Trouble
}

// AgentInfo is what matters about an agent here.
type AgentInfo struct {
	Once    bool // a worker, or may call a tool of class once: its steps cannot be retried
	Writes  bool // it may change files: what it changes is handed over
	Trouble Trouble
}
