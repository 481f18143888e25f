package agent

import (
	"context"
	"encoding/json"
)

// Model answers requests. Package provider has those of vendors, and a scripted
// one.
type Model interface {
	// Name is what the vendor calls it.
	Name() string
	Caps() Caps
	// Stream makes one attempt to answer. emit is called in order, from one
	// goroutine, and never after Stream has returned. Its errors are *flow.Error;
	// Retry and After say whether and when another attempt may help. What was said
	// before an error may come with it as a Response, for the session.
	Stream(ctx context.Context, r Request, emit func(Delta)) (Response, error)
}

// CancellableModel is a Model that may promise to return from Stream as soon as its
// context ends. Nobody need then stand by to leave it behind, which saves a step
// the way to another goroutine and back.
type CancellableModel interface {
	Model
	// Cancels is the promise, for a request.
	Cancels(r Request) bool
}

// Cancels reports whether a model promises to return from Stream as soon as its
// context ends.
func Cancels(m Model, r Request) bool {
	c, ok := m.(CancellableModel)
	return ok && c.Cancels(r)
}

// Caps is what a model can do. It is frozen into a run with the settings.
type Caps struct {
	ContextWindow    int    `json:"context_window"` // tokens
	MaxOutput        int    `json:"max_output"`     // tokens
	Images           bool   `json:"images"`
	StructuredOutput bool   `json:"structured_output"`
	Price            *Price `json:"price,omitempty"` // nil: not known
}

// Purposes of a request.
const (
	PurposeTurn   = "turn"
	PurposeRouter = "router"
	PurposeDraft  = "draft"
)

// Request is a conversation to be continued.
type Request struct {
	System          string
	Tools           []Offer
	Messages        []Message
	Temperature     *float64 // nil: not sent
	TopP            *float64 // nil: not sent
	MaxOutputTokens int
	OutputSchema    json.RawMessage // of the answer, where the model has structured output; nil: text

	// Not sent:
	Agent   string // whose turn it is
	Path    string // of the call
	Attempt int    // from 1
	Purpose string
}

// Offer is a tool as a model is told of it.
type Offer struct {
	Name        string          `json:"name"` // see tools.go
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema"` // of its arguments
	Tool        string          `json:"-"`      // server/tool
}

// Channels of a delta.
const (
	ChannelAnswer    = "answer"
	ChannelReasoning = "reasoning"
)

// Delta is a piece of what a model says while it says it: valid UTF-8.
type Delta struct {
	Channel string
	Text    string
}

// Reason is why a model stopped.
type Reason = string

const (
	ReasonStop          Reason = "stop"
	ReasonToolCalls     Reason = "tool_calls"
	ReasonLength        Reason = "length"
	ReasonContentFilter Reason = "content_filter"
)

// Response is a whole answer. It is the value of model.call.
type Response struct {
	Text   string          `json:"text"`
	Calls  []Call          `json:"calls,omitempty"`
	Reason Reason          `json:"reason"`
	Usage  *Usage          `json:"usage,omitempty"`  // nil: not known
	Model  string          `json:"model"`            // that answered, as the vendor says
	Opaque json.RawMessage `json:"opaque,omitempty"` // vendor blocks that must go back as they are; nil: none
}

// Invocation is what a host knows of the model that an agent asks, besides the
// settings: telemetry tells of it.
type Invocation struct {
	Provider     string // as the conventions of OpenTelemetry call the vendor
	Host         string // where the model is reached; "": not known
	Port         int
	Conversation string // "": the turn belongs to none
}
