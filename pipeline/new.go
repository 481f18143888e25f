package pipeline

import (
	"cmp"
	"maps"
	"time"

	"github.com/tipstaff/tipstaff"
)

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
