package pipeline

import (
	"time"

	"github.com/tipstaff/tipstaff"
)

// Envelope is the state of a pipeline run. Between stages it does not change;
// the executor alone merges.
type Envelope struct {
	// identity
	EnvelopeID string `json:"envelope_id"`
	RequestID  string `json:"request_id"`
	SessionID  string `json:"session_id"`
	UserID     string `json:"user_id"`
	RunID      string `json:"run_id"`
	ThreadID   string `json:"thread_id"`
	Version    int64  `json:"version"`

	// input
	RawInput       string         `json:"raw_input"`
	Metadata       map[string]any `json:"metadata"`
	ReceivedAt     time.Time      `json:"received_at"`
	CreatedAt      time.Time      `json:"created_at"`
	Pipeline       string         `json:"pipeline"`
	PipelineDigest string         `json:"pipeline_digest"`
	StageOrder     []string       `json:"stage_order"`

	// state
	CurrentStage    string                    `json:"current_stage"`
	Outputs         map[string]map[string]any `json:"outputs"`
	Prior           map[string]map[string]any `json:"prior"`
	Epoch           int64                     `json:"epoch"`
	Frontier        []string                  `json:"frontier"`
	ActiveStages    []string                  `json:"active_stages"`
	CompletedStages []string                  `json:"completed_stages"`
	FailedStages    map[string]string         `json:"failed_stages"`
	SkippedStages   map[string]string         `json:"skipped_stages"`

	// counters and their maxima
	Iteration      int64            `json:"iteration"`
	LLMCallCount   int64            `json:"llm_call_count"`
	AgentHopCount  int64            `json:"agent_hop_count"`
	ToolCallCount  int64            `json:"tool_call_count"`
	TokensIn       int64            `json:"tokens_in"`
	TokensOut      int64            `json:"tokens_out"`
	CostUSD        tipstaff.USD     `json:"cost_usd"`
	WallMs         int64            `json:"wall_ms"`
	EdgeCounts     []EdgeCount      `json:"edge_counts"`
	Visits         map[string]int64 `json:"visits"`
	MaxIterations  int64            `json:"max_iterations"`
	MaxLLMCalls    int64            `json:"max_llm_calls"`
	MaxAgentHops   int64            `json:"max_agent_hops"`
	MaxStages      int64            `json:"max_stages"`
	MaxToolCalls   int64            `json:"max_tool_calls"`
	MaxTokens      int64            `json:"max_tokens"`
	MaxCostUSD     tipstaff.USD     `json:"max_cost_usd"`
	MaxWallSeconds int64            `json:"max_wall_seconds"`

	// end
	Terminated        bool                    `json:"terminated"`
	TerminalReason    tipstaff.TerminalReason `json:"terminal_reason,omitempty"`
	TerminationReason string                  `json:"termination_reason,omitempty"`
	Outcome           string                  `json:"outcome,omitempty"`
	CompletedAt       *time.Time              `json:"completed_at,omitempty"`

	// gates
	Interrupts       []Interrupt `json:"interrupts"`
	InterruptPending bool        `json:"interrupt_pending"` // derived: one is open

	// progress
	Goals              []Goal            `json:"goals"`
	CurrentStageNumber int64             `json:"current_stage_number"`
	Rounds             []Round           `json:"rounds"`
	Feedback           []Feedback        `json:"feedback"`
	Waivers            []tipstaff.Waiver `json:"waivers"`

	// records: the newest 50, and how many there were
	Errors            []ErrorRecord      `json:"errors"`
	ProcessingHistory []ProcessingRecord `json:"processing_history"`
	HistoryTotal      int64              `json:"history_total"`
}

// EdgeCount is how often an edge was taken.
type EdgeCount struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Count int64  `json:"count"`
}

// Interrupt is a gate that a stage opened. ID is that of the gate, once it is known
// to whoever shows the Envelope; the executor knows it by its key.
type Interrupt struct {
	ID       string         `json:"id,omitempty"`
	Key      string         `json:"key"`
	Kind     string         `json:"kind"`
	Stage    string         `json:"stage"`
	Visit    int64          `json:"visit"`
	Question string         `json:"question,omitempty"`
	Message  string         `json:"message,omitempty"`
	Data     map[string]any `json:"data,omitempty"`
	Open     bool           `json:"open"`
	Response *Response      `json:"response,omitempty"`
}

// Goal is something the input asks for.
type Goal struct {
	Name   string `json:"name"`
	Status string `json:"status"` // pending or satisfied
}

// Round is a pass that satisfied goals while others remained.
type Round struct {
	Number    int64    `json:"number"`
	Satisfied []string `json:"satisfied"`
	Summary   string   `json:"summary,omitempty"`
}

// Feedback is what an edge carried to the stage it entered.
type Feedback struct {
	From      string `json:"from"`
	To        string `json:"to"`
	Iteration int64  `json:"iteration"`
	Text      string `json:"text"`
}

// ErrorRecord is one failure of a stage.
type ErrorRecord struct {
	Stage   string    `json:"stage"`
	Visit   int64     `json:"visit"`
	Code    string    `json:"code"`
	Message string    `json:"message"`
	At      time.Time `json:"at"`
}

// ProcessingRecord is one start of a stage and what became of it.
type ProcessingRecord struct {
	Agent       string       `json:"agent"`
	Visit       int64        `json:"visit"`
	Attempts    int64        `json:"attempts"`
	StartedAt   time.Time    `json:"started_at"`
	CompletedAt *time.Time   `json:"completed_at,omitempty"`
	DurationMs  int64        `json:"duration_ms"`
	Status      string       `json:"status"` // running, success, error, skipped or cancelled
	Error       string       `json:"error,omitempty"`
	LLMCalls    int64        `json:"llm_calls"`
	ToolCalls   int64        `json:"tool_calls"`
	TokensIn    int64        `json:"tokens_in"`
	TokensOut   int64        `json:"tokens_out"`
	CostUSD     tipstaff.USD `json:"cost_usd"`
}

// Rollback is applied at the boundary of a turn: data is what the journal gives
// there, counters are those of the run that was left, and edits are a person's.
// The pending routing is evaluated after it.
type Rollback struct {
	RunID      string `json:"run_id"` // the identity from here on
	EnvelopeID string `json:"envelope_id"`
	ThreadID   string `json:"thread_id"`

	Turn     int64                     `json:"turn"`
	Version  int64                     `json:"version"` // of the Envelope that was left: it goes on from there
	Counters Counters                  `json:"counters"`
	Outputs  map[string]map[string]any `json:"outputs,omitempty"`
	Metadata map[string]any            `json:"metadata,omitempty"`
	Raised   map[string]int64          `json:"raised,omitempty"` // maxima by the field's name: max_iterations …
	By       string                    `json:"by"`
	From     string                    `json:"from"` // the run that was left
	// The record of the boundary in it, for the transition `rollback`.
	Checkpoint string `json:"checkpoint"`
}

// Counters only grow, whatever is rolled back.
type Counters struct {
	Iteration     int64            `json:"iteration"`
	LLMCallCount  int64            `json:"llm_call_count"`
	AgentHopCount int64            `json:"agent_hop_count"`
	ToolCallCount int64            `json:"tool_call_count"`
	TokensIn      int64            `json:"tokens_in"`
	TokensOut     int64            `json:"tokens_out"`
	CostUSD       tipstaff.USD     `json:"cost_usd"`
	EdgeCounts    []EdgeCount      `json:"edge_counts"`
	Visits        map[string]int64 `json:"visits"`
	Transitions   int64            `json:"transitions"`
	StageNumber   int64            `json:"current_stage_number"`
}
