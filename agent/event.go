package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Type names what an event says. The set is closed.
type Type string

const (
	TypeStepStarted       Type = "step_started"
	TypeTextDelta         Type = "text_delta" // transient: no seq, never journaled
	TypeMessage           Type = "message"
	TypeRouterDecided     Type = "router_decided"
	TypeToolCallRequest   Type = "tool_call_request"
	TypeApprovalRequested Type = "approval_requested" // a view of the gate's own record
	TypeApprovalDecided   Type = "approval_decided"   // of a gate: likewise
	TypeToolCallResult    Type = "tool_call_result"
	TypeFinish            Type = "finish"
	TypeError             Type = "error"
)

// ErrUnknownType: an event is of a type that this version does not know.
var ErrUnknownType = errors.New("agent: unknown type of event")

// Event is something that happened in a turn. In a journal it is a record of kind
// "agent." and its type, with the body's fields.
type Event struct {
	Seq  int64  // in the journal; 0: it is not there
	Path string // of the model call, the tool call or the turn that it belongs to
	Body Body
}

// Body is what an event says: one of the types below, as a pointer.
type Body interface{ Kind() tipstaff.Kind }

// Type is that of the body.
func (e Event) Type() Type { return typeOf(string(e.Body.Kind())) }

// Terminal reports whether nothing follows this event in its turn.
func (e Event) Terminal() bool { return e.Type() == TypeFinish || e.Type() == TypeError }

// What events say. In a journal these are the bodies of records.
type (
	Cut               = tipstaff.AgentCut
	StepStarted       = tipstaff.AgentStepStarted
	TextDelta         = tipstaff.AgentTextDelta
	MessageDone       = tipstaff.AgentMessage
	RouterDecided     = tipstaff.AgentRouterDecided
	ToolCallRequest   = tipstaff.AgentToolCallRequest
	ApprovalRequested = tipstaff.AgentApprovalRequested
	ApprovalDecided   = tipstaff.AgentApprovalDecided
	ToolCallResult    = tipstaff.AgentToolCallResult
	Finish            = tipstaff.AgentFinish
	Failed            = tipstaff.AgentError
)

// Who decided, where it was no principal.
const (
	ByPolicy = "policy"
	ByGrant  = "grant" // an earlier allow_all of this turn
	ByCancel = "system:cancelled"
)

// newBody makes an empty body, by type.
var newBody = map[Type]func() Body{
	TypeStepStarted:       func() Body { return new(StepStarted) },
	TypeTextDelta:         func() Body { return new(TextDelta) },
	TypeMessage:           func() Body { return new(MessageDone) },
	TypeRouterDecided:     func() Body { return new(RouterDecided) },
	TypeToolCallRequest:   func() Body { return new(ToolCallRequest) },
	TypeApprovalRequested: func() Body { return new(ApprovalRequested) },
	TypeApprovalDecided:   func() Body { return new(ApprovalDecided) },
	TypeToolCallResult:    func() Body { return new(ToolCallResult) },
	TypeFinish:            func() Body { return new(Finish) },
	TypeError:             func() Body { return new(Failed) },
}

// MarshalJSON writes type, seq and path before the fields of the body.
func (e Event) MarshalJSON() ([]byte, error) {
	if e.Body == nil {
		return nil, errors.New("agent: an event without a body")
	}
	head := struct {
		Type Type   `json:"type"`
		Seq  int64  `json:"seq,omitempty"`
		Path string `json:"path"`
	}{e.Type(), e.Seq, e.Path}
	fields := bytes.TrimPrefix(flow.JSON(e.Body), []byte("{")) // a body always has some
	return append(append(bytes.TrimSuffix(flow.JSON(head), []byte("}")), ','), fields...), nil
}

// Decode reads what MarshalJSON wrote. Fields that it does not know are let go:
// those who report for others add their own. A type that it does not know is
// ErrUnknownType.
func Decode(data []byte) (Event, error) {
	var head struct {
		Type Type   `json:"type"`
		Seq  int64  `json:"seq"`
		Path string `json:"path"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return Event{}, fmt.Errorf("agent: the event cannot be read: %w", err)
	}
	body, err := decodeBody(head.Type, data)
	if err != nil {
		return Event{}, err
	}
	return Event{Seq: head.Seq, Path: head.Path, Body: body}, nil
}

func decodeBody(t Type, data []byte) (Body, error) {
	empty := newBody[t]
	if empty == nil {
		return nil, fmt.Errorf("%w: %q", ErrUnknownType, string(t))
	}
	body := empty()
	if err := json.Unmarshal(data, body); err != nil {
		return nil, fmt.Errorf("agent: the %s event cannot be read: %w", t, err)
	}
	return body, nil
}

// kindPrefix makes a type a kind of record.
const kindPrefix = "agent."

// Kind is the kind of record that carries an event of this type.
func (t Type) Kind() string { return kindPrefix + string(t) }

// typeOf is the type of a record's kind; "" if it is none of an agent.
func typeOf(kind string) Type {
	t, ok := strings.CutPrefix(kind, kindPrefix)
	if !ok {
		return ""
	}
	return Type(t)
}

// emitted is a body as the loop emits it.
func emitted(b Body) flow.Event { return flow.Event{Kind: string(b.Kind()), Body: b} }

// View makes events of a run's records. Most are there as such; those about gates
// are seen in the gates' own records. It must be shown the records of a run in
// their order, from the first. The zero View has seen none.
type View struct {
	calls map[string]string            // ids, by the path of the call
	gates map[string]ApprovalRequested // by id
	// settled are the calls about which a decision was seen. One that comes after the
	// turn was cancelled is stored, and counts no more.
	settled map[string]bool
}

// Event is what a record, or something that was told without being recorded, says
// of a turn; false: nothing.
func (v *View) Event(r flow.Record) (Event, bool) {
	if v.calls == nil {
		*v = View{calls: map[string]string{}, gates: map[string]ApprovalRequested{}, settled: map[string]bool{}}
	}
	switch tipstaff.Kind(r.Kind) {
	case tipstaff.KindPolicyGate:
		return v.requested(r)
	case tipstaff.KindPolicyGateResolve:
		return v.decided(r)
	}
	t := typeOf(r.Kind)
	if t == "" {
		return Event{}, false
	}
	body, err := decodeBody(t, r.Body)
	if err != nil {
		return Event{}, false
	}
	switch b := body.(type) {
	case *ToolCallRequest:
		v.calls[r.Path] = b.ID
	case *ApprovalDecided:
		if !v.settle(r.Path) {
			return Event{}, false
		}
	}
	return Event{Seq: r.Seq, Path: r.Path, Body: body}, true
}

// settle reports whether this is the first decision about the call at a path.
func (v *View) settle(path string) bool {
	first := !v.settled[path]
	v.settled[path] = true
	return first
}

func (v *View) requested(r flow.Record) (Event, bool) {
	var g tipstaff.GateOpened
	var subject struct {
		Rule         string `json:"rule"`
		PolicyDigest string `json:"policy_digest"`
	}
	path, approval := strings.CutSuffix(r.Path, "/approval")
	id, known := v.calls[path]
	if !approval || !known || json.Unmarshal(r.Body, &g) != nil || json.Unmarshal(g.Subject, &subject) != nil || g.Kind != string(tipstaff.Approval) {
		return Event{}, false
	}
	asked := ApprovalRequested{ID: id, Gate: g.Gate, Rule: subject.Rule, PolicyDigest: subject.PolicyDigest,
		Actions: g.Actions, ExpiresAt: g.ExpiresAt.Time}
	v.gates[g.Gate] = asked
	return Event{Seq: r.Seq, Path: path, Body: &asked}, true
}

func (v *View) decided(r flow.Record) (Event, bool) {
	var d tipstaff.GateResolved
	if json.Unmarshal(r.Body, &d) != nil {
		return Event{}, false
	}
	asked, ok := v.gates[d.Gate]
	if !ok || !d.Decision() {
		return Event{}, false
	}
	path := strings.TrimSuffix(r.Path, "/approval")
	if !v.settle(path) {
		return Event{}, false
	}
	if d.OnBehalfOf == "" {
		d.OnBehalfOf = "local:cli"
	}
	return Event{Seq: r.Seq, Path: path, Body: &ApprovalDecided{ID: asked.ID, Decision: d.Action,
		By: d.OnBehalfOf, Rule: asked.Rule, PolicyDigest: asked.PolicyDigest, Gate: d.Gate, Reason: d.Note}}, true
}
