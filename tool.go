package tipstaff

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Tools looks after the tools of a workspace: what its manifest declares, what
// its lock holds, and what the servers say. It needs no store. Calling a tool is
// a run: see [CallProgram].
//
// A manifest that is not valid is invalid_program; a lock that cannot be trusted
// is refused; a server or tool that the manifest does not declare is
// invalid_argument.
type Tools interface {
	// List is every declared tool. It connects to nothing.
	List(context.Context) ([]ToolInfo, error)
	// Live asks servers, all if none is named, what they list now: every tool of theirs,
	// declared or not. A server that cannot be asked has a finding.
	Live(ctx context.Context, servers []string) ([]ToolInfo, []ToolFinding, error)
	// Describe is one tool with its definition, as the lock holds it or, live, as
	// its server lists it now. The tool is named by a URI or by server/tool.
	Describe(ctx context.Context, name string, live bool) (ToolInfo, error)
	// Explain says what the gate would decide about a call, and why. It connects to
	// nothing and asks nobody.
	Explain(ctx context.Context, name string, args json.RawMessage) (Explanation, error)
	// Verify checks manifest, environment, packages and lock and, unless offline,
	// the servers themselves.
	Verify(ctx context.Context, offline bool) (ToolReport, error)
	// Compare asks servers what they list now, looks at the code of workers and programs, which
	// are named worker/NAME and program/NAME, and says how that differs from the lock. If
	// nothing is named it looks at all.
	Compare(ctx context.Context, named []string) (PinReport, error)
	// Pin writes the lock that a report proposes. It is refused if the lock has changed
	// since.
	Pin(context.Context, PinReport) error
}

// How a tool stands to the lock.
const (
	ToolBuiltin  = "builtin"  // locked by the binary
	ToolLocked   = "locked"   // its definition was accepted
	ToolUnlocked = "unlocked" // nobody has accepted it yet
	// ToolUndeclared: its server lists it, and the manifest does not declare it.
	ToolUndeclared = "undeclared"
	ToolUnusable   = "unusable" // its definition cannot be used: Trouble says why
)

// ToolInfo is a tool that the manifest declares.
type ToolInfo struct {
	Server  string `json:"server"`
	Tool    string `json:"tool"`
	URI     string `json:"uri,omitempty"` // pinned; "": there is nothing yet to pin it to
	Version string `json:"version,omitempty"`
	Digest  string `json:"digest,omitempty"`
	Lock    string `json:"lock"` // ToolBuiltin …
	// Class is the effect class, and ClassFrom who states it: manifest, hints, both
	// or, where neither does, default. "" where only the hints could tell.
	Class       string `json:"class,omitempty"`
	ClassFrom   string `json:"class_from,omitempty"`
	Allowed     bool   `json:"allowed"` // by the manifest's allowed_effects
	Timeout     string `json:"timeout"`
	MaxResult   int64  `json:"max_result"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Trouble     string `json:"trouble,omitempty"` // why it cannot be called as things stand
	// Writable is, of the tool that writes files, where: the patterns of the manifest, or its
	// roots, in which it writes all that is not protected.
	Writable   []string        `json:"writable,omitempty"`
	Definition json.RawMessage `json:"definition,omitempty"`
}

// Name is server/tool.
func (t ToolInfo) Name() string { return t.Server + "/" + t.Tool }

// Levels of findings.
const (
	FindingError   = "error"   // calls would be refused or fail
	FindingWarning = "warning" // calls work, and something is unsafe
	FindingNote    = "note"    // worth knowing
)

// ToolFinding is one thing that a look at servers brought up.
type ToolFinding struct {
	Level   string      `json:"level"`
	Code    string      `json:"code"`
	Server  string      `json:"server,omitempty"` // or worker/NAME, program/NAME
	Tool    string      `json:"tool,omitempty"`
	Message string      `json:"message"`
	Changes []PinChange `json:"changes,omitempty"` // of definition_changed
}

// ToolReport is what Verify found.
type ToolReport struct {
	OK       bool          `json:"ok"` // no finding is an error
	Offline  bool          `json:"offline"`
	Servers  []ToolServer  `json:"servers"`
	Findings []ToolFinding `json:"findings"`
}

// ToolServer is one declared server.
type ToolServer struct {
	Server  string `json:"server"`
	Version string `json:"version,omitempty"` // that it reports; offline, that the lock holds
	Tools   int    `json:"tools"`             // that are declared
	Usable  int    `json:"usable"`            // that could be called
}

// PinReport is how the servers differ from the lock.
type PinReport struct {
	Changes  []PinChange   `json:"changes"`
	Findings []ToolFinding `json:"findings"`
	Written  bool          `json:"written"`

	Lock []byte `json:"-"` // that is proposed
	Was  string `json:"-"` // digest of the lock that it was compared with; "": there is none
}

// Failed reports whether something cannot be pinned.
func (r PinReport) Failed() bool {
	return slices.ContainsFunc(r.Findings, func(f ToolFinding) bool { return f.Level == FindingError })
}

// What a PinChange tells of.
const (
	PinAdded   = "added"
	PinRemoved = "removed"
	PinChanged = "changed"
)

// PinChange is one difference between the lock and what a server lists: a tool
// that came or went, or one member of a definition that is another.
type PinChange struct {
	Server string `json:"server"`         // or worker/NAME, program/NAME
	Tool   string `json:"tool,omitempty"` // "": of the server itself
	Kind   string `json:"kind"`           // PinAdded …
	// Member is a JSON pointer into the definition, or version, package_digest or
	// class. "" of a tool that was added or removed.
	Member string          `json:"member,omitempty"`
	Was    json.RawMessage `json:"was,omitempty"`
	Now    json.RawMessage `json:"now,omitempty"`
}

// Explanation is what the gate would decide about a call.
type Explanation struct {
	Server       string          `json:"server"`
	Tool         string          `json:"tool"`
	URI          string          `json:"uri,omitempty"`
	Class        string          `json:"class,omitempty"` // of the call: guards may have raised it
	Args         json.RawMessage `json:"args,omitempty"`  // canonical, as they would be sent
	ArgsDigest   string          `json:"args_digest,omitempty"`
	Checks       []ToolCheck     `json:"checks"` // in their order, up to the one that refuses
	Do           string          `json:"do"`     // allow, ask or deny: of the policy; deny also where a check before it refuses
	Rule         string          `json:"rule,omitempty"`
	PolicyDigest string          `json:"policy_digest,omitempty"`
	Why          string          `json:"why,omitempty"`
	Guards       []GuardFinding  `json:"guards"`           // what guards find in the arguments
	Rules        []MatchedRule   `json:"rules"`            // all that match, in the order of the manifest
	Static       string          `json:"static,omitempty"` // what the policy says before there are arguments: allow, ask, deny, depends
	// Outcomes say what would happen to the call, by who makes it.
	Outcomes []CallOutcome `json:"outcomes"`
}

// ToolCheck is one check of the gate.
type ToolCheck struct {
	Check   string          `json:"check"` // declared, known, locked, arguments, effect, guards, policy
	OK      bool            `json:"ok"`
	Code    string          `json:"code,omitempty"` // of the refusal
	Message string          `json:"message,omitempty"`
	Detail  json.RawMessage `json:"detail,omitempty"`
}

// GuardFinding is what a guard of the policy finds in a call's arguments.
type GuardFinding struct {
	Guard   string          `json:"guard"` // its id
	Name    string          `json:"name"`  // under which rules see the facts
	Class   string          `json:"class"` // the guard's own: read, write
	Facts   json.RawMessage `json:"facts"`
	Refused string          `json:"refused,omitempty"` // why it refuses the call
}

// MatchedRule is a rule of the policy that matches a call.
type MatchedRule struct {
	ID  string `json:"id"`
	Do  string `json:"do"`
	Why string `json:"why,omitempty"`
}

// CallOutcome is what would happen to a call that is made in one way.
type CallOutcome struct {
	When string `json:"when"` // literal: in a plan, written out; referenced: in a plan, with references; agent
	Do   string `json:"do"`   // allow, ask, deny
	By   string `json:"by,omitempty"`
}

// ToolRefusal is the cause of a refused Start: the tools that the program wants
// and that could not be called as things stand.
type ToolRefusal struct{ Tools []RefusedTool }

// RefusedTool is a tool that could not be called, and why.
type RefusedTool struct {
	URI, Server, Tool string
	Path              string // of the node that wants it; "": the program lists it
	Line, Column      int    // where it stands; 0: elsewhere than in the program
	Code, Message     string
}

func (e *ToolRefusal) Error() string {
	var all []string
	for _, t := range e.Tools {
		all = append(all, t.Message)
	}
	return strings.Join(all, "; ")
}

// PinMends reports whether pinning a server's tools anew mends what a code says of one of them.
func PinMends(code string) bool { return code == "unlocked_tool" || code == "definition_changed" }

// Pinnable are the servers whose tools err refuses for want of a lock and nothing
// else: pinning them would let the program start.
func Pinnable(err error) []string {
	var r *ToolRefusal
	if !errors.As(err, &r) {
		return nil
	}
	var servers []string
	for _, t := range r.Tools {
		if !PinMends(t.Code) {
			return nil
		}
		if !slices.Contains(servers, t.Server) {
			servers = append(servers, t.Server)
		}
	}
	return servers
}

// CallNode is the id of the one node of a CallProgram, CallOutput the name of its
// output.
const (
	CallNode   = "call"
	CallOutput = "output"
)

// CallProgram is a plan that calls one tool with these arguments, exactly as they
// are: nothing in them is taken for a reference. No arguments are {}.
func CallProgram(uri string, args json.RawMessage) ([]byte, error) {
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	dec := json.NewDecoder(bytes.NewReader(args))
	dec.UseNumber()
	var object map[string]any
	if err := dec.Decode(&object); err != nil || object == nil || dec.More() {
		return nil, Errorf(InvalidArgument, "the arguments are not one JSON object").WithHint(`write {"name": value, …}`)
	}
	name := strings.TrimPrefix(uri, "mcp://")
	if at := strings.LastIndexByte(name, '@'); at >= 0 {
		name = name[:at]
	}
	type node map[string]any
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(node{
		"kind": "plan", "version": 1, "name": "call " + name, "tools": []string{uri},
		"root":    node{"id": CallNode, "kind": "tool_call", "tool": uri, "args": literal(object)},
		"outputs": node{CallOutput: fmt.Sprintf("${%s.output}", CallNode)},
	})
	return b.Bytes(), err
}

// literal escapes what a plan would take for references.
func literal(v any) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "${", "$${")
	case []any:
		for i := range v {
			v[i] = literal(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = literal(v[name])
		}
	}
	return v
}
