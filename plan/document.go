package plan

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Limits of a document.
const (
	MaxSize     = 1 << 20 // bytes of source
	MaxNodes    = 2000
	MaxDepth    = 32  // levels of nodes; the root is the first
	MaxPath     = 512 // bytes of a node's path
	maxParallel = 64
)

// Names that documents do not choose.
const (
	rootPath      = "root"     // of a plan
	inputScope    = "input"    // what ${input.name} begins with
	inputFollowup = "followup" // an input that only follow-ups have; null elsewhere
)

// Defaults of nodes that say nothing else.
const (
	DefaultTimeout     = 30 * time.Second // of a tool call, where the manifest has none either
	DefaultMaxTimeout  = time.Hour
	DefaultStepTimeout = 5 * time.Minute
	DefaultExpiry      = 24 * time.Hour // of a gate
	DefaultParallel    = 8
	DefaultAgent       = "default"
)

// Document is a plan as its author wrote it, defaults filled in where nodes
// need one. It is not changed after Parse and may be shared.
type Document struct {
	Kind      string // plan or turn
	Turn      *Turn  // of a turn; nil: it is a plan
	Version   int    // always 1
	Name      string
	Skill     string
	Tools     *[]string // nil: the document has none; empty: it allows nothing
	Inputs    []Input   // in document order
	Intent    Intent
	Bounds    Bounds
	Root      *Node
	Outputs   json.RawMessage // with references; nil: none
	Workspace string          // worktree, checkout or none; "": not said
	Deliver   *Deliver

	file      string
	canonical []byte
	problems  []document.Problem // what Parse found: Validate reports it again
	outputs   *document.Value
	at        map[string]document.Position // of top-level fields and of inputs
	toolsAt   []document.Position
}

// Input is a value the caller gives at the start.
type Input struct {
	Name     string
	Required bool
	Default  json.RawMessage // nil: none
	Schema   json.RawMessage // JSON Schema

	at document.Position
}

// NodeKind is one of six.
type NodeKind string

const (
	Sequential  NodeKind = "sequential"
	Parallel    NodeKind = "parallel"
	ToolCall    NodeKind = "tool_call"
	Step        NodeKind = "step"
	SubDispatch NodeKind = "sub_dispatch"
	Gate        NodeKind = "gate"
)

// Branch reports whether nodes of this kind hold others.
func (k NodeKind) Branch() bool { return k == Sequential || k == Parallel }

// How the plan of a child run is accepted: a person is asked, or its parent does
// it.
const (
	AcceptAsk  = "ask"
	AcceptAuto = "auto"
)

// Node is one place of the tree. Which fields have a meaning depends on Kind.
type Node struct {
	Kind NodeKind
	ID   string
	Path string // root, then per level the id, else the index among its siblings

	// Of branches.
	Children    []*Node
	MaxParallel int

	// Of tool_call.
	Tool  string
	Args  json.RawMessage // with references, RFC 8785 form; nil: none given
	Parse string          // "" or "json"

	// Of step; Agent, Inputs also of sub_dispatch.
	Prompt       string
	Agent        string
	Inputs       json.RawMessage
	Tools        *[]string
	OutputSchema json.RawMessage

	// Of sub_dispatch.
	Skill  string
	Scope  string
	Bounds Bounds
	Accept string // AcceptAsk or AcceptAuto

	// Of gate.
	Question string
	Show     json.RawMessage
	Actions  []Action
	Expires  time.Duration

	// Of tool_call, step, sub_dispatch.
	Timeout  time.Duration // 0: not said
	Retry    flow.Retry    // zero: never
	Continue bool          // on_error: continue

	segment   string
	at        document.Position
	childless bool
	args      *document.Value
	verbatim  bool // args hold no reference and no escape: Args is what they resolve to
	literal   bool // args hold no reference
	inputs    *document.Value
	show      *document.Value
	prompt    *document.Value
	question  *document.Value
	written   *document.Value // an object; nil: it stands in no document
	toolsAt   []document.Position
}

// Action is one answer that a gate offers.
type Action struct {
	Name       string
	Fails      bool   // outcome: fail
	FailReason string // of one that fails; "": gate_denied
}

// DefaultActions are those of a gate that names none.
func DefaultActions() []Action {
	return []Action{{Name: "approve"}, {Name: "deny", Fails: true}}
}

// EffectiveTimeout is how long one attempt of a tool call may take: the node's
// own, else the tool's by the manifest, else 30 s.
func (n *Node) EffectiveTimeout(tool ToolInfo) time.Duration {
	switch {
	case n.Timeout > 0:
		return n.Timeout
	case tool.Timeout > 0:
		return tool.Timeout
	}
	return DefaultTimeout
}

// Leaves yields the leaves under n, n included, in document order.
func (n *Node) Leaves(yield func(*Node) bool) { n.leaves(yield) }

func (n *Node) leaves(yield func(*Node) bool) bool {
	if !n.Kind.Branch() {
		return yield(n)
	}
	for _, c := range n.Children {
		if !c.leaves(yield) {
			return false
		}
	}
	return true
}

// field is what stands at a field of n as it was written; nil: nothing.
func (n *Node) field(name string) *document.Value {
	if n.written == nil {
		return nil
	}
	return n.written.Get(name)
}

// leaf reports whether n is of a known kind that holds no others.
func (n *Node) leaf() bool { return n.Kind != "" && !n.Kind.Branch() }

// place gives n and all under it their segments and paths.
func (n *Node) place(parent string, index int) {
	n.segment = n.ID
	if n.segment == "" {
		n.segment = strconv.Itoa(index)
	}
	n.Path = parent + "/" + n.segment
	if parent == "" {
		n.Path = rootPath
	}
	for i, c := range n.Children {
		c.place(n.Path, i)
	}
}

// AllowList is the URIs that the program may call: its tools, or if it has no
// such field the literal URIs of its own tool calls. Of a document with a skill
// and no tools it is empty: the skill's list is for whoever holds the skill.
func (d *Document) AllowList() []string {
	if d.Tools != nil {
		return append([]string{}, *d.Tools...)
	}
	list := []string{}
	if d.Skill != "" {
		return list
	}
	seen := map[string]bool{}
	for leaf := range d.Root.Leaves {
		if leaf.Kind == ToolCall && !seen[leaf.Tool] {
			seen[leaf.Tool] = true
			list = append(list, leaf.Tool)
		}
	}
	return list
}
