package pipeline

import (
	"cmp"
	"maps"
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
	Pass  int64  `json:"pass,omitempty"` // since the loop around it jumped back, of one that is limited so
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
	// Enter are the stages with which a follow-up goes on instead, in index order; nil: it
	// goes on as it did. Feedback is what they are told.
	Enter    []string `json:"enter,omitempty"`
	Feedback string   `json:"-"`
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

// Anonymous is the user of an Envelope that nobody is said to own.
const Anonymous = "anonymous"

// Goals are pending until a stage says that it has satisfied them.
const (
	GoalPending   = "pending"
	GoalSatisfied = "satisfied"
)

// Input is what a new Envelope is made of. Ids and times come from the caller: the
// package has neither clock nor chance.
type Input struct {
	EnvelopeID, RequestID, SessionID, RunID string
	UserID                                  string // "" is anonymous
	ThreadID                                string // "" is the run's id

	RawInput   string
	Metadata   map[string]any // normalised; the Envelope takes a copy
	Goals      []string
	StageOrder []string // as it was given; nil: the document's

	ReceivedAt time.Time // zero is CreatedAt
	CreatedAt  time.Time

	// What the run may consume, by the ledger's names: [Pipeline.Limits] together
	// with the manifest's and the caller's. A name that is absent has the document's
	// limit, or the default.
	Bounds tipstaff.Bounds
	// MaxStages lowers the document's; 0 leaves it.
	MaxStages int64
}

// NewEnvelope is the state of a run before its first turn. p is nil for a draft
// that has no pipeline yet.
func NewEnvelope(p *Pipeline, in Input) *Envelope {
	e := &Envelope{
		EnvelopeID: in.EnvelopeID, RequestID: in.RequestID, SessionID: in.SessionID, RunID: in.RunID,
		UserID: cmp.Or(in.UserID, Anonymous), ThreadID: cmp.Or(in.ThreadID, in.RunID), Version: 1,

		RawInput: in.RawInput, Metadata: cloneObject(in.Metadata),
		ReceivedAt: instant(in.ReceivedAt), CreatedAt: instant(in.CreatedAt),
		StageOrder: append([]string{}, in.StageOrder...),

		CurrentStage: Start, Epoch: 1,
		Outputs: map[string]map[string]any{}, Prior: map[string]map[string]any{},
		Frontier: []string{}, ActiveStages: []string{}, CompletedStages: []string{},
		FailedStages: map[string]string{}, SkippedStages: map[string]string{},

		EdgeCounts: []EdgeCount{}, Visits: map[string]int64{},

		Interrupts: []Interrupt{},
		Goals:      []Goal{}, CurrentStageNumber: 1, Rounds: []Round{}, Feedback: []Feedback{}, Waivers: []tipstaff.Waiver{},
		Errors: []ErrorRecord{}, ProcessingHistory: []ProcessingRecord{},
	}
	if e.Metadata == nil {
		e.Metadata = map[string]any{}
	}
	if in.ReceivedAt.IsZero() {
		e.ReceivedAt = e.CreatedAt
	}
	for _, name := range in.Goals {
		e.Goals = append(e.Goals, Goal{name, GoalPending})
	}
	e.bound(p, in)
	return e
}

// bound sets the maxima, and what the Envelope says about its pipeline.
func (e *Envelope) bound(p *Pipeline, in Input) {
	e.MaxStages = DefaultStages
	if p != nil {
		e.Pipeline, e.PipelineDigest = p.Name, p.Digest()
		e.MaxStages = p.MaxStages
	}
	if in.MaxStages > 0 {
		e.MaxStages = min(e.MaxStages, in.MaxStages)
	}
	limits := tipstaff.EffectiveBounds(nil, p.Limits(), nil)
	maps.Copy(limits, in.Bounds)
	e.MaxIterations = limits[tipstaff.BoundIterations]
	e.MaxLLMCalls = limits[tipstaff.BoundModelCalls]
	e.MaxAgentHops = limits[tipstaff.BoundAgentHops]
	e.MaxToolCalls = limits[tipstaff.BoundToolCalls]
	e.MaxTokens = limits[tipstaff.BoundTokens]
	e.MaxCostUSD = tipstaff.USD(limits[tipstaff.BoundCostUSD])
	e.MaxWallSeconds = limits[tipstaff.BoundWallTime] / time.Second.Milliseconds()
}

// Limits are the bounds that the document sets, by the ledger's names and in its
// units: its own four, defaults filled in, and what it says of the others. Of nil
// they are the defaults.
func (p *Pipeline) Limits() tipstaff.Bounds {
	if p == nil {
		p = &Pipeline{MaxIterations: defaultIterations, MaxLLMCalls: defaultLLMCalls, MaxAgentHops: defaultAgentHops}
	}
	limits := tipstaff.Min(p.Bounds)
	limits[tipstaff.BoundIterations] = p.MaxIterations
	limits[tipstaff.BoundModelCalls] = p.MaxLLMCalls
	limits[tipstaff.BoundAgentHops] = p.MaxAgentHops
	return limits
}

// Said are the bounds that the document sets itself.
func (p *Pipeline) Said() tipstaff.Bounds {
	said := p.Limits()
	for field, bound := range map[string]string{"max_iterations": tipstaff.BoundIterations, "max_llm_calls": tipstaff.BoundModelCalls, "max_agent_hops": tipstaff.BoundAgentHops} {
		if p == nil || p.written.Get(field) == nil {
			delete(said, bound)
		}
	}
	return said
}

// Ordered is the Envelope as others see it: with the order of the stages, also where
// nobody has given one. The data of the run does not have that, for its pipeline says it.
func (e *Envelope) Ordered(p *Pipeline) *Envelope {
	if p == nil || len(e.StageOrder) > 0 {
		return e
	}
	ordered := *e
	ordered.StageOrder = p.Names()
	return &ordered
}

// MergeMetadata puts in what somebody changes from outside: a null takes its key out.
func (e *Envelope) MergeMetadata(changes map[string]any) {
	for _, key := range sortedKeys(changes) {
		if changes[key] == nil {
			delete(e.Metadata, key)
			continue
		}
		e.Metadata[key] = changes[key]
	}
}

// Terminate ends the run, unless it has ended before: the first ending stands.
func (e *Envelope) Terminate(r tipstaff.TerminalReason, text string, at time.Time) {
	if e.Terminated {
		return
	}
	at = instant(at)
	e.Terminated, e.TerminalReason, e.TerminationReason, e.Outcome = true, r, text, r.Outcome()
	e.CompletedAt = &at
}

// instant is a time without a clock's own reading and in one zone, so that it is
// the same once it was stored.
func instant(t time.Time) time.Time { return t.Round(0).UTC() }
