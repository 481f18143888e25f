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

// newBody is an empty body of a type; nil: there is no such type.
func newBody(t Type) Body {
	switch t {
	case TypeStepStarted:
		return new(StepStarted)
	case TypeTextDelta:
		return new(TextDelta)
	case TypeMessage:
		return new(MessageDone)
	case TypeRouterDecided:
		return new(RouterDecided)
	case TypeToolCallRequest:
		return new(ToolCallRequest)
	case TypeApprovalRequested:
		return new(ApprovalRequested)
	case TypeApprovalDecided:
		return new(ApprovalDecided)
	case TypeToolCallResult:
		return new(ToolCallResult)
	case TypeFinish:
		return new(Finish)
	case TypeError:
		return new(Failed)
	}
	return nil
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
	body := newBody(t)
	if body == nil {
		return nil, fmt.Errorf("%w: %q", ErrUnknownType, string(t))
	}
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
