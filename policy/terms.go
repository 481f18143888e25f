package policy

import (
	"encoding/json"
	"strconv"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Terms are what somebody agrees to by accepting a program: what it is for, what
// it may spend, with which tools, and what it may not do. How it gets there is
// no part of them, except for what it changes: calls that cannot be taken back, what
// child runs are given, and the gates at which a person can stop either.
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
	Calls       []Effect        // that do more than read
	Dispatches  []Dispatch
	Gates       []Gate // of the program
	// ByID: once calls are compared by the ids of their nodes, and gates not at all.
	// See [Terms.Earlier].
	ByID bool
}

// Earlier are the terms as first versions compared them: a once call had to keep its
// arguments for as long as it kept its id and tool; gates, and what a child run was
// given beside its scope, were left aside. What journals of such runs say about their
// corrections must come out the same for ever.
func (t Terms) Earlier() Terms {
	calls, dispatches := t.Calls, t.Dispatches
	t.Calls, t.Dispatches, t.Gates, t.ByID = nil, nil, nil, true
	for _, c := range calls {
		if c.Agent == "" && known(c.Class) == flow.Once {
			t.Calls = append(t.Calls, c)
		}
	}
	for _, d := range dispatches {
		t.Dispatches = append(t.Dispatches, Dispatch{Agent: d.Agent, Skill: d.Skill, Scope: d.Scope})
	}
	return t
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

// Tool is one pinned tool and its effect class. An unknown class is
// left empty, which counts as once.
type Tool struct {
	Server, Name, Pin string
	Class             flow.Class
}

// Effect is a call that does more than read, made by the program itself or by an agent
// in one of its steps.
type Effect struct {
	ID    string // of the node
	Agent string // who may make it in a step; "": the program makes it
	Tool  string // its URI
	Class flow.Class
	Args  json.RawMessage // as written, in RFC 8785 form; of an agent, what it is told
	Gates []Gate          // that must have been passed when it is made
	Made  bool            // it was made already, and is not made again
}

// Dispatch is a child run that the program starts.
type Dispatch struct {
	Agent, Skill string
	Scope        string          // the folder it is kept to; "": that of its parent
	Auto         bool            // its plan is accepted without asking
	Inputs       json.RawMessage // as written, in RFC 8785 form
	Bounds       tipstaff.Bounds // that it sets
	Continue     bool            // its failure, even if a person stopped it, is ignored
	Gates        []Gate          // that must have been passed when it starts
}

// Gate is a question to a person: what it asks, what it shows and which answers it
// offers, the latter two as JSON in RFC 8785 form. Two that agree in all of it are
// the same to the person who answers.
type Gate struct{ Question, Show, Actions string }

func (g Gate) String() string { return "the gate " + briefly(strconv.Quote(g.Question)) }
