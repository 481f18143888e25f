package agent

import (
	"encoding/json"
	"math"
	"math/big"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
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
	ContentText  = "text"
	ContentImage = "image"
)

// Content is one piece of a tool's result.
type Content struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	MimeType string `json:"mime_type,omitempty"`
	Data     []byte `json:"data,omitempty"` // of an image
}

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
