package tipstaff

// Names of bounds, as documents spell them.
const (
	BoundIterations = "iterations"
	BoundModelCalls = "model_calls"
	BoundToolCalls  = "tool_calls"
	BoundAgentHops  = "agent_hops"
	BoundTokens     = "tokens"
	BoundCostUSD    = "cost_usd"
	BoundWallTime   = "wall_time"
)

// BoundStatus is one bound as surfaces show it: decimal strings for cost_usd,
// durations for wall_time, whole numbers for the rest.
type BoundStatus struct {
	Limit    string `json:"limit,omitempty"` // absent: only counted
	Used     string `json:"used"`
	Reserved string `json:"reserved"`
}
