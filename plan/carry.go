package plan

import (
	"encoding/json"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Carry is what earlier revisions of a plan leave to a walk, by the ids of their
// leaves. The zero Carry is that of a first revision: nothing.
type Carry struct {
	Done   map[string]Done
	Doubts map[string]Doubt
}

// Done is a leaf that was completed. A later one of the same id that is of the
// same kind, done by the same and given the same has the same result: nothing is
// called and nothing is charged.
type Done struct {
	Path   string          `json:"path"` // where it was performed
	Kind   NodeKind        `json:"kind"`
	By     string          `json:"by,omitempty"`     // the tool, agent or skill; "" of a gate
	Input  string          `json:"input"`            // digest of all that it was given, references replaced
	Digest string          `json:"digest"`           // of the output
	Output json.RawMessage `json:"output,omitempty"` // a walk needs it; whoever keeps it may have it elsewhere
}

// Doubt is a call that must happen only once, was announced by an earlier
// revision, and of which nobody knows whether it took effect. A leaf of its id
// and performer asks before it calls again.
type Doubt struct {
	Path    string          `json:"path"` // of the call
	Kind    NodeKind        `json:"kind"` // of its leaf
	By      string          `json:"by"`
	Name    string          `json:"name"` // of the activity
	Attempt int             `json:"attempt"`
	Digest  string          `json:"digest"`          // of name and input
	Input   json.RawMessage `json:"input,omitempty"` // as with Done.Output
	Lost    json.RawMessage `json:"lost,omitempty"`  // what is known of its end: the body of its effect.lost
}

// Keeper is told what a later revision can rely on. Branches of a walk call it at
// the same time.
type Keeper interface {
	// Completed: the leaf was performed in this walk, and ended well.
	Completed(id string, d Done)
	// Settled: the doubt about this leaf was decided.
	Settled(id string)
}

// Performer is who does what a leaf asks for: the tool, agent or skill.
func (n *Node) Performer() string {
	switch n.Kind {
	case ToolCall:
		return n.Tool
	case Step:
		return n.Agent
	case SubDispatch:
		return n.Skill
	}
	return ""
}

// What leaves are given: everything that a result depends on, and nothing that
// only says how patiently it is waited for.
type (
	callGiven struct {
		Args  json.RawMessage `json:"args"`
		Parse string          `json:"parse,omitempty"`
	}
	stepGiven struct {
		Prompt       string          `json:"prompt"`
		Inputs       json.RawMessage `json:"inputs"`
		Tools        *[]string       `json:"tools,omitempty"`
		OutputSchema json.RawMessage `json:"output_schema,omitempty"`
	}
	dispatchGiven struct {
		Agent  string          `json:"agent"`
		Inputs json.RawMessage `json:"inputs"`
		Scope  string          `json:"scope,omitempty"`
		Bounds Bounds          `json:"bounds,omitempty"`
		Accept string          `json:"accept"`
	}
	gateGiven struct {
		Question string          `json:"question"`
		Subject  json.RawMessage `json:"subject"`
		Actions  []Action        `json:"actions"`
	}
)

// unlessCarried performs a leaf, whose references have been replaced, if no
// earlier revision has done so. What is in doubt is asked about first.
func (w *walker) unlessCarried(fc flow.Context, n *Node, given any, perform func() end) end {
	input := flow.Digest(flow.JSON(given))
	done, ok := w.h.Carry.Done[n.ID]
	if ok && done.Kind == n.Kind && done.By == n.Performer() && done.Input == input {
		return end{output: done.Output, carried: true, body: tipstaff.PlanStep{ResultDigest: done.Digest}}
	}
	doubt, ok := w.h.Carry.Doubts[n.ID]
	if ok && doubt.Kind == n.Kind && doubt.By == n.Performer() && firstTry(fc) {
		if e, over := w.askDoubt(fc, n, doubt); over {
			e.input = input
			return e
		}
	}
	e := perform()
	e.input = input
	return e
}

// firstTry reports whether a leaf stands at its own path: what a person had tried
// again has a path below it, and was asked about before.
func firstTry(fc flow.Context) bool {
	path := fc.Path()
	return !strings.HasPrefix(path[strings.LastIndexByte(path, '/')+1:], againKey)
}

// askDoubt asks what became of an earlier revision's call. over is false if the
// leaf is to be performed now.
func (w *walker) askDoubt(fc flow.Context, n *Node, d Doubt) (e end, over bool) {
	decision, err := fc.Wait(flow.EarlierDoubt(flow.Attempt{Path: d.Path, Name: d.Name, N: d.Attempt, Input: d.Input}, d.Lost))
	if err != nil {
		return end{err: err}, true
	}
	if w.h.Keep != nil {
		w.h.Keep.Settled(n.ID)
	}
	switch decision.Action {
	case "retry":
		return end{}, false
	case "use_result":
		return called(flow.Result{Value: decision.Answer, By: decision.By}, nil), true
	}
	return end{err: &flow.Error{Code: flow.CodeInDoubt,
		Message: "it was decided to fail: nobody knows whether " + d.Name + " took effect in an earlier revision"}}, true
}
