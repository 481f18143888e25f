package plan

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Limits of a document.
const (
	MaxSize  = 1 << 20 // bytes of source
	MaxNodes = 2000
	MaxDepth = 32  // levels of nodes; the root is the first
	MaxPath  = 512 // bytes of a node's path
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
	Kind    string               `doc:"kind"` // plan or turn
	Turn    *Turn                // of a turn; nil: it is a plan
	Version int                  `doc:"version,required,min=1,max=1"` // always 1
	Name    string               `doc:"name"`
	Skill   string               `doc:"skill"`
	Tools   *[]string            // nil: the document has none; empty: it allows nothing
	Inputs  []document.Parameter // that the caller gives at the start, in document order
	Intent  Intent               `doc:"intent"`
	Bounds  Bounds               `doc:"bounds"`
	Root    *Node
	Outputs json.RawMessage   `doc:"outputs,object"` // with references; nil: none
	Files   document.Files    `doc:"files"`          // where it works, and what is made ready there
	Deliver *document.Deliver `doc:"deliver"`

	file      string
	frozen    bool // read back: it was checked by the rules of its time
	canonical []byte
	problems  []document.Problem // what Parse found: Validate reports it again
	written   *document.Value    // an object; nil: nobody has written it
}

// place is where a field of the document is written; zero: nowhere.
func (d *Document) place(name string) (at document.Position) {
	if m := d.written.Member(name); m != nil {
		at = m.At
	}
	return at
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
	Kind NodeKind `doc:"kind,variant"`
	ID   string   `doc:"id"`
	Path string   // root, then per level the id, else the index among its siblings

	// Of branches.
	Children    []*Node
	MaxParallel int `doc:"max_parallel,of=parallel,min=1,max=64"`

	// Of tool_call.
	Tool  string          `doc:"tool,required,of=tool_call"`
	Args  json.RawMessage `doc:"args,object,of=tool_call"`        // with references, RFC 8785 form; nil: none given
	Parse string          `doc:"parse,in=none|json,of=tool_call"` // "" or "json"

	// Of step; Agent, Inputs also of sub_dispatch.
	Prompt       string          `doc:"prompt,required,of=step"`
	Agent        string          `doc:"agent,of=step|sub_dispatch"`
	Inputs       json.RawMessage `doc:"inputs,object,of=step|sub_dispatch"`
	Tools        *[]string
	OutputSchema json.RawMessage `doc:"output_schema,of=step"`

	// Of sub_dispatch.
	Skill  string `doc:"skill,required,of=sub_dispatch"`
	Scope  string `doc:"scope,of=sub_dispatch"`
	Bounds Bounds `doc:"bounds,of=sub_dispatch"`
	Accept string `doc:"accept,in=ask|auto,of=sub_dispatch"` // AcceptAsk or AcceptAuto

	// Of gate.
	Question string          `doc:"question,of=gate"`
	Show     json.RawMessage `doc:"show,of=gate"`
	Actions  []Action        `doc:"actions,of=gate"`
	Expires  time.Duration   `doc:"expires,of=gate"`

	// Of tool_call, step, sub_dispatch.
	Timeout  time.Duration `doc:"timeout,of=tool_call|step|sub_dispatch"` // 0: not said
	Retry    flow.Retry    // zero: never
	Continue bool          // on_error: continue

	segment   string
	childless bool
	verbatim  bool            // args hold no reference and no escape: Args is what they resolve to
	literal   bool            // args hold no reference
	written   *document.Value // an object; nil: it stands in no document
}

// Action is one answer that a gate offers.
type Action struct {
	Name       string `doc:"name,required"`
	Fails      bool   // outcome: fail
	FailReason string `doc:"fail_reason"` // of one that fails; "": gate_denied
}

// DefaultActions are those of a gate that names none.
func DefaultActions() []Action {
	return []Action{{Name: "approve"}, {Name: "deny", Fails: true}}
}

// EffectiveTimeout is how long one attempt of a tool call may take: the node's
// own, else the tool's by the manifest, else 30 s.
func (n *Node) EffectiveTimeout(tool ToolInfo) time.Duration {
	return cmp.Or(n.Timeout, tool.Timeout, DefaultTimeout)
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

// field is what stands at a field of n as it was written; nil: nothing, or nothing of
// that kind where one is given.
func (n *Node) field(name string, kinds ...document.Kind) *document.Value {
	v := n.written.Get(name)
	if v != nil && len(kinds) > 0 && !slices.Contains(kinds, v.Kind) {
		return nil
	}
	return v
}

// at is where n is written; zero: nowhere.
func (n *Node) at() (at document.Position) {
	if n.written != nil {
		at = n.written.At
	}
	return at
}

// leaf reports whether n is of a known kind that holds no others.
func (n *Node) leaf() bool { return n.Kind != "" && !n.Kind.Branch() }

// place gives n and all under it their segments and paths.
func (n *Node) place(parent string, index int) {
	n.segment = cmp.Or(n.ID, strconv.Itoa(index))
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
