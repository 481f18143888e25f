package agent

import (
	"context"
	"encoding/json"
	"math"
	"math/big"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/tool"
)

// Role is who says a message. The system text is configuration, not a message.
type Role string

const (
	User      Role = "user"
	Assistant Role = "assistant"
	FromTool  Role = "tool"
)

// Message is one entry of a conversation.
type Message struct {
	Role    Role            `json:"role"`
	Text    string          `json:"text,omitempty"`
	Calls   []Call          `json:"calls,omitempty"`    // of the assistant
	CallID  string          `json:"call_id,omitempty"`  // of a tool: which call this answers
	Content []Content       `json:"content,omitempty"`  // of a tool
	IsError bool            `json:"is_error,omitempty"` // of a tool
	Partial bool            `json:"partial,omitempty"`  // the answer broke off
	Model   string          `json:"model,omitempty"`    // who said it
	Usage   *Usage          `json:"usage,omitempty"`
	Opaque  json.RawMessage `json:"opaque,omitempty"` // goes back to the provider that made it, and to no other
}

// Call is a tool call that a model asks for.
type Call struct {
	ID        string `json:"id"`
	Name      string `json:"name"`      // as offered
	Arguments string `json:"arguments"` // the text received, which may be no JSON
}

// Types of content.
const (
	ContentText  = tool.ContentText
	ContentImage = tool.ContentImage
)

// Content is one piece of a tool's result.
type Content = tool.Content

// Usage is what a model call used, as the vendor counts it.
type Usage = tipstaff.ModelUsage

// USD is an amount of money.
type USD = tipstaff.USD

// Price is what a million tokens cost, in 10⁻⁹ USD.
type Price struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read"`
	CacheWrite int64 `json:"cache_write"`
}

// perMillion is of how many tokens a price is.
const perMillion = 1_000_000

// Cost is what a call costs, rounded up to 10⁻⁹ USD. Of its input tokens the cached
// ones have prices of their own.
func (p Price) Cost(u Usage) USD {
	fresh := max(u.InputTokens-u.CacheReadTokens-u.CacheWriteTokens, 0)
	parts := [...][2]int64{{fresh, p.Input}, {u.OutputTokens, p.Output}, {u.CacheReadTokens, p.CacheRead}, {u.CacheWriteTokens, p.CacheWrite}}
	sum := new(big.Int)
	for _, part := range parts {
		sum.Add(sum, new(big.Int).Mul(big.NewInt(part[0]), big.NewInt(part[1])))
	}
	sum.Add(sum, big.NewInt(perMillion-1))
	sum.Div(sum, big.NewInt(perMillion))
	if !sum.IsInt64() {
		return math.MaxInt64
	}
	return USD(sum.Int64())
}

// most is what a request of that size can cost at most: its input may be written
// to a cache, which can be dearer than to read it plain.
func (p Price) most(input, output int64) USD {
	p.Input = max(p.Input, p.CacheWrite)
	return p.Cost(Usage{InputTokens: input, OutputTokens: output})
}

// priced is a usage with its cost, where that is known and not yet told.
func priced(u *Usage, p *Price) *Usage {
	if u == nil || u.CostUSD != nil || p == nil {
		return u
	}
	with, cost := *u, p.Cost(*u)
	with.CostUSD = &cost
	return &with
}

// reserve is what a model call may use at most.
func reserve(input, output int64, p *Price) flow.Use {
	use := flow.Use{tipstaff.BoundModelCalls: 1, tipstaff.BoundTokens: input + output}
	if p != nil {
		use[tipstaff.BoundCostUSD] = int64(p.most(input, output))
	}
	return use
}

// used is what a model call used; nil: that is not known, and its reservation is
// charged.
func used(u *Usage) flow.Use {
	if u == nil {
		return nil
	}
	use := flow.Use{tipstaff.BoundModelCalls: 1, tipstaff.BoundTokens: u.TotalTokens}
	if u.CostUSD != nil {
		use[tipstaff.BoundCostUSD] = int64(*u.CostUSD)
	}
	return use
}

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

// Caps is what a model can do. It is frozen into a run with the settings.
type Caps struct {
	ContextWindow    int    `json:"context_window"` // tokens
	MaxOutput        int    `json:"max_output"`     // tokens
	Images           bool   `json:"images"`
	StructuredOutput bool   `json:"structured_output"`
	Thinking         int    `json:"thinking,omitempty"` // tokens that it may think with, of an answer's
	Price            *Price `json:"price,omitempty"`    // nil: not known
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
