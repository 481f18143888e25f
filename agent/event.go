package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

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

// Body is what an event says: one of the types of this file, as a pointer.
type Body interface{ Type() Type }

// Type is that of the body.
func (e Event) Type() Type { return e.Body.Type() }

// Terminal reports whether nothing follows this event in its turn.
func (e Event) Terminal() bool { return e.Type() == TypeFinish || e.Type() == TypeError }

// Cut is what was left out of a request so that it fits.
type Cut struct {
	Elided  int `json:"elided"`  // results of which a line was sent
	Dropped int `json:"dropped"` // messages that were not sent
}

// StepStarted: a model is about to be called.
type StepStarted struct {
	Step           int    `json:"step"`
	Model          string `json:"model"`
	Messages       int    `json:"messages"` // that are sent
	Tools          int    `json:"tools"`    // that are offered
	EstInputTokens int64  `json:"est_input_tokens"`
	Cut            Cut    `json:"cut"`
}

// TextDelta is a piece of what a model says while it says it. Offset 0 begins the
// text of its channel anew; a gap means that deltas were lost.
type TextDelta struct {
	Step    int    `json:"step"`
	Channel string `json:"channel"`
	Offset  int64  `json:"offset"` // in bytes
	Text    string `json:"text"`
}

// MessageDone is what a model said in a step.
type MessageDone struct {
	Step     int    `json:"step"`
	Text     string `json:"text"`
	Reason   Reason `json:"reason"`
	Calls    int    `json:"calls"`
	Usage    *Usage `json:"usage"` // nil: not known
	Attempts int    `json:"attempts"`
	Model    string `json:"model"` // that answered, as the vendor says
}

// RouterDecided: the tools that this turn offers were selected.
type RouterDecided struct {
	Router   string   `json:"router"`
	Toolkits []string `json:"toolkits"`
	Tools    int      `json:"tools"`
	Fallback string   `json:"fallback"` // why it is the whole catalog after all; "": it was selected
	Usage    *Usage   `json:"usage"`
}

// ToolCallRequest is a tool call that a model asks for.
type ToolCallRequest struct {
	Step        int             `json:"step"`
	Index       int             `json:"index"` // from 1
	ID          string          `json:"id"`
	Name        string          `json:"name"`   // as offered
	Server      string          `json:"server"` // "": there is no such tool
	Tool        string          `json:"tool"`
	URI         string          `json:"uri"`
	Arguments   json.RawMessage `json:"arguments"`   // an object; {} where what came is none
	ArgsDigest  string          `json:"args_digest"` // of the canonical arguments; "": they do not fit
	Effect      flow.Class      `json:"effect"`
	Destructive bool            `json:"destructive"`
	OpenWorld   bool            `json:"open_world"`
	Facts       json.RawMessage `json:"facts"` // that guards found, an object

	// For approvers; no part of the event:
	Rule      string `json:"-"` // that asks
	Untrusted bool   `json:"-"` // an earlier result of the turn came from an open world
}

// ApprovalRequested: a gate asks whether a call may be made.
type ApprovalRequested struct {
	ID           string    `json:"id"` // of the call
	Gate         string    `json:"gate"`
	Rule         string    `json:"rule"`
	PolicyDigest string    `json:"policy_digest"`
	Actions      []string  `json:"actions"`
	ExpiresAt    time.Time `json:"expires_at,omitzero"`
}

// Who decided, where it was no principal.
const (
	ByPolicy = "policy"
	ByGrant  = "grant" // an earlier allow_all of this turn
	ByCancel = "system:cancelled"
)

// ApprovalDecided: a call that reached the policy was allowed or denied.
type ApprovalDecided struct {
	ID           string `json:"id"`       // of the call
	Decision     string `json:"decision"` // allow, allow_all, deny
	By           string `json:"by"`
	Rule         string `json:"rule"`
	PolicyDigest string `json:"policy_digest"`
	Gate         string `json:"gate"` // "": none was asked
	Reason       string `json:"reason"`
}

// ToolCallResult is what a model was told of its call.
type ToolCallResult struct {
	ID         string `json:"id"`
	IsError    bool   `json:"is_error"`
	Class      string `json:"class"`   // of what went wrong; "": nothing
	Content    string `json:"content"` // its first 4 KiB
	Bytes      int64  `json:"bytes"`   // of the whole
	Ref        string `json:"ref"`     // digest of the whole
	DurationMS int64  `json:"duration_ms"`
	Untrusted  bool   `json:"untrusted"` // it came from an open world
}

// Finish: the turn ended with an answer.
type Finish struct {
	Reason    Reason          `json:"reason"`
	Text      string          `json:"text"`
	Output    json.RawMessage `json:"output"` // with an output schema; null: there is none
	Usage     Usage           `json:"usage"`  // of the turn, its router included
	Steps     int             `json:"steps"`
	ToolCalls int             `json:"tool_calls"` // that were made
}

// Failed: the turn ended without one. Its type is error.
type Failed struct {
	Code  string `json:"code"`
	Msg   string `json:"msg"`
	Which string `json:"which"` // the bound, of bound_exceeded
	Usage Usage  `json:"usage"`
	Steps int    `json:"steps"`
}

func (*StepStarted) Type() Type       { return TypeStepStarted }
func (*TextDelta) Type() Type         { return TypeTextDelta }
func (*MessageDone) Type() Type       { return TypeMessage }
func (*RouterDecided) Type() Type     { return TypeRouterDecided }
func (*ToolCallRequest) Type() Type   { return TypeToolCallRequest }
func (*ApprovalRequested) Type() Type { return TypeApprovalRequested }
func (*ApprovalDecided) Type() Type   { return TypeApprovalDecided }
func (*ToolCallResult) Type() Type    { return TypeToolCallResult }
func (*Finish) Type() Type            { return TypeFinish }
func (*Failed) Type() Type            { return TypeError }

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

// kinds are those of the types that every step has.
var kinds = map[Type]string{
	TypeStepStarted:     kindPrefix + string(TypeStepStarted),
	TypeMessage:         kindPrefix + string(TypeMessage),
	TypeToolCallRequest: kindPrefix + string(TypeToolCallRequest),
	TypeApprovalDecided: kindPrefix + string(TypeApprovalDecided),
	TypeToolCallResult:  kindPrefix + string(TypeToolCallResult),
}

// Kind is the kind of record that carries an event of this type.
func (t Type) Kind() string {
	if kind, ok := kinds[t]; ok {
		return kind
	}
	return kindPrefix + string(t)
}

// typeOf is the type of a record's kind; "" if it is none of an agent.
func typeOf(kind string) Type {
	t, ok := strings.CutPrefix(kind, kindPrefix)
	if !ok {
		return ""
	}
	return Type(t)
}

// emitted is a body as the loop emits it.
func emitted(b Body) flow.Event { return flow.Event{Kind: b.Type().Kind(), Body: b} }
