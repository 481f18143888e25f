package tipstaff

import (
	"encoding/json"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// Bodies of the records of agents.

// ModelUsage is what a model call used, as the vendor counts it, or what a turn did.
type ModelUsage struct {
	InputTokens      int64 `json:"input_tokens"` // cached ones included
	OutputTokens     int64 `json:"output_tokens"`
	CacheReadTokens  int64 `json:"cache_read_tokens"`
	CacheWriteTokens int64 `json:"cache_write_tokens"`
	ReasoningTokens  int64 `json:"reasoning_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
	CostUSD          *USD  `json:"cost_usd"`           // of a turn: all that was charged; nil: the price is not known
	LostUSD          USD   `json:"lost_usd,omitempty"` // of that, what was reserved for attempts that told nothing of their cost
}

// Add sums up. What costs an unknown amount makes the sum unknown.
func (u *ModelUsage) Add(v *ModelUsage) {
	if v == nil {
		return
	}
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.CacheReadTokens += v.CacheReadTokens
	u.CacheWriteTokens += v.CacheWriteTokens
	u.ReasoningTokens += v.ReasoningTokens
	u.TotalTokens += v.TotalTokens
	if u.CostUSD == nil || v.CostUSD == nil {
		u.CostUSD = nil
		return
	}
	sum := *u.CostUSD + *v.CostUSD
	u.CostUSD = &sum
}

// AgentStepStarted is the body of agent.step_started: a model is about to be called.
type AgentStepStarted struct {
	Step           int      `json:"step"`
	Model          string   `json:"model"`
	Messages       int      `json:"messages"` // that are sent
	Tools          int      `json:"tools"`    // that are offered
	EstInputTokens int64    `json:"est_input_tokens"`
	Cut            AgentCut `json:"cut"`

	Inside // of a worker
}

// AgentCut is what was left out of a request so that it fits.
type AgentCut struct {
	Elided    int `json:"elided"`              // results of which a line was sent
	Shortened int `json:"shortened,omitempty"` // results of which the middle was left out
	Dropped   int `json:"dropped"`             // messages that were not sent
}

// AgentTextDelta is the body of agent.text_delta: a piece of what a model says while
// it says it. Offset 0 begins the text of its channel anew; a gap means that deltas
// were lost.
type AgentTextDelta struct {
	Step    int    `json:"step"`
	Channel string `json:"channel"`
	Offset  int64  `json:"offset"` // in bytes
	Text    string `json:"text"`

	Inside // of a worker
}

// AgentMessage is the body of agent.message: what a model said in a step.
type AgentMessage struct {
	Step     int         `json:"step"`
	Text     string      `json:"text"`
	Reason   string      `json:"reason"`
	Calls    int         `json:"calls"`
	Usage    *ModelUsage `json:"usage"` // nil: not known
	Attempts int         `json:"attempts"`
	Model    string      `json:"model"` // that answered, as the vendor says

	Inside // of a worker
}

// AgentRouterDecided is the body of agent.router_decided: the tools that this turn
// offers were selected.
type AgentRouterDecided struct {
	Router   string      `json:"router"`
	Toolkits []string    `json:"toolkits"`
	Tools    int         `json:"tools"`
	Fallback string      `json:"fallback"` // why it is the whole catalog after all; "": it was selected
	Usage    *ModelUsage `json:"usage"`
}

// AgentToolCallRequest is the body of agent.tool_call_request: a tool call that a
// model asks for.
type AgentToolCallRequest struct {
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

	Inside // of a worker

	// For approvers; no part of the event:
	Rule      string `json:"-"` // that asks
	Untrusted bool   `json:"-"` // an earlier result of the turn came from an open world
}

// Title is what the model wants to call, under the name that it has here.
func (b *AgentToolCallRequest) Title() string {
	if b.Server == "" {
		return b.Name
	}
	return b.Server + "/" + b.Tool
}

// AgentApprovalRequested is how agents tell of a gate that asks whether a call may be
// made. The record is the gate's own.
type AgentApprovalRequested struct {
	ID           string    `json:"id"` // of the call
	Gate         string    `json:"gate"`
	Rule         string    `json:"rule"`
	PolicyDigest string    `json:"policy_digest"`
	Actions      []string  `json:"actions"`
	ExpiresAt    time.Time `json:"expires_at,omitzero"`
}

// AgentApprovalDecided is the body of agent.approval_decided: a call that reached the
// policy was allowed or denied.
type AgentApprovalDecided struct {
	ID           string `json:"id"`       // of the call
	Decision     string `json:"decision"` // allow, allow_all, deny
	By           string `json:"by"`
	Rule         string `json:"rule"`
	PolicyDigest string `json:"policy_digest"`
	Gate         string `json:"gate"` // "": none was asked
	Reason       string `json:"reason"`

	Inside // of a worker
}

// AgentToolCallResult is the body of agent.tool_call_result: what a model was told of
// its call.
type AgentToolCallResult struct {
	ID         string `json:"id"`
	IsError    bool   `json:"is_error"`
	Class      string `json:"class"`   // of what went wrong; "": nothing
	Content    string `json:"content"` // its first 4 KiB
	Bytes      int64  `json:"bytes"`   // of the whole
	Ref        string `json:"ref"`     // digest of the whole
	DurationMS int64  `json:"duration_ms"`
	Untrusted  bool   `json:"untrusted"` // it came from an open world

	Inside // of a worker
}

// AgentFinish is the body of agent.finish: the turn ended with an answer.
type AgentFinish struct {
	Reason    string          `json:"reason"`
	Text      string          `json:"text"`
	Output    json.RawMessage `json:"output"` // with an output schema; null: there is none
	Usage     ModelUsage      `json:"usage"`  // of the turn, its router included
	Steps     int             `json:"steps"`
	ToolCalls int             `json:"tool_calls"` // that were made

	Inside // of a worker
}

// AgentError is the body of agent.error: the turn ended without an answer.
type AgentError struct {
	Code  string     `json:"code"`
	Msg   string     `json:"msg"`
	Which string     `json:"which"` // the bound, of bound_exceeded
	Usage ModelUsage `json:"usage"`
	Steps int        `json:"steps"`

	Inside // of a worker
}

// Kinds of what agents tell, by body.

func (*AgentStepStarted) Kind() Kind       { return KindAgentStepStarted }
func (*AgentTextDelta) Kind() Kind         { return KindAgentTextDelta }
func (*AgentMessage) Kind() Kind           { return KindAgentMessage }
func (*AgentRouterDecided) Kind() Kind     { return KindAgentRouterDecided }
func (*AgentToolCallRequest) Kind() Kind   { return KindAgentToolCallRequest }
func (*AgentApprovalRequested) Kind() Kind { return "agent.approval_requested" } // told, never recorded
func (*AgentApprovalDecided) Kind() Kind   { return KindAgentApprovalDecided }
func (*AgentToolCallResult) Kind() Kind    { return KindAgentToolCallResult }
func (*AgentFinish) Kind() Kind            { return KindAgentFinish }
func (*AgentError) Kind() Kind             { return KindAgentError }
