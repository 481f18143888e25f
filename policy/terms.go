package policy

import (
	"encoding/json"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Terms are what somebody agrees to by accepting a program: what it is for, what
// it may spend, with which tools, and what it may not do. How it gets there is
// no part of them, except for calls that cannot be taken back.
//
// The order of a list never matters. Amounts, minima and times are texts, so
// that nothing is rounded on the way; one that cannot be read is never taken for
// equal to another.
type Terms struct {
	Verb        string
	Objects     []Object
	Criteria    []json.RawMessage // of success, in RFC 8785 form
	Budget      []Amount          // of an asset listed twice the least counts
	Deadline    string            // RFC 3339, or a day, which ends with its last second in UTC; "": none
	Anchor      bool
	Constraints []Constraint
	Bounds      tipstaff.Bounds // that the program sets
	Defaults    tipstaff.Bounds // that hold where the program sets none; nil: nothing does
	Tools       []Tool          // that may be called
	Calls       []OnceCall
	Dispatches  []Dispatch
}

// Object is something that the intent is about.
type Object struct{ Name, Value, URI, Type string }

// Amount is a decimal quantity of an asset.
type Amount struct{ Asset, Amount string }

// Constraint is one that must (hard) or should hold. Which fields have a meaning
// depends on Type.
type Constraint struct {
	Type string // budget, deadline, jurisdiction, quality, rule, policy or x:<name>
	Name string // the asset, metric, rule or policy it is about
	Hard bool

	Limit       string          // budget: the most; deadline: the latest; quality: the least
	Allow, Deny []string        // jurisdiction; a nil Allow allows all
	Data        json.RawMessage // x:<name>, in RFC 8785 form
}

// Key names what a constraint is about. Those of one key hold together.
func (c Constraint) Key() string {
	if c.Name == "" {
		return c.Type
	}
	return c.Type + ":" + c.Name
}

// Tool is one pinned tool and its effect class. Whoever does not know the class
// leaves it empty, which counts as once.
type Tool struct {
	Server, Name, Pin string
	Class             flow.Class
}

// OnceCall is a call that must not happen twice, so that what it is told is part
// of the terms.
type OnceCall struct {
	ID, Tool string          // of the node; the tool's URI
	Args     json.RawMessage // as written, in RFC 8785 form
}

// Dispatch is a child run that the program starts.
type Dispatch struct {
	Agent, Skill string
	Scope        string // the folder it is kept to; "": that of its parent
}
