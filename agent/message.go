package agent

import (
	"encoding/json"

	"github.com/tipstaff/tipstaff"
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
