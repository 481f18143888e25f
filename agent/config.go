package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
)

// What on_limit may be.
const (
	OnLimitFail = "fail"
	OnLimitAsk  = "ask"
)

// Settings are what the loop goes by. A run freezes them; replay needs no more.
// Zero values are replaced by the defaults: see Resolve.
type Settings struct {
	Agent     string `json:"agent"`      // "": default
	ModelName string `json:"model_name"` // as the vendor calls it
	Caps      Caps   `json:"caps"`

	Preamble        string          `json:"preamble"` // docs/prompts/system.md, rendered
	System          string          `json:"system"`
	MaxSteps        int             `json:"max_steps"`         // 0: 32; at most 1,000
	OnLimit         string          `json:"on_limit"`          // "": fail
	Temperature     *float64        `json:"temperature"`       // nil: not sent
	TopP            *float64        `json:"top_p"`             // nil: not sent
	MaxOutputTokens int             `json:"max_output_tokens"` // 0: 8,192; lowered to the model's maximum
	CallTimeout     time.Duration   `json:"call_timeout"`      // 0: 10 min
	ToolTimeout     time.Duration   `json:"tool_timeout"`      // 0: 30 s; of tools whose manifest says nothing
	ApprovalExpiry  time.Duration   `json:"approval_expiry"`   // 0: 24 h
	ToolParallelism int             `json:"tool_parallelism"`  // 0: 4; 1 to 16
	MaxResultBytes  int             `json:"max_result_bytes"`  // 0: 32 KiB; what enters the context of one result
	OutputSchema    json.RawMessage `json:"output_schema,omitempty"`
	OutputRetries   *int            `json:"output_retries"` // nil: 1

	Router       string    `json:"router"`        // "": whole catalog; toolkits; custom (the library form's own)
	RouterPrompt string    `json:"router_prompt"` // docs/prompts/router.md
	Toolkits     []Toolkit `json:"toolkits"`

	Hop bool `json:"hop"` // the turn is counted as one of the run's agent_hops, reserved with the catalog
	// Prepaid: the first model call was charged to the run before the turn began.
	Prepaid bool          `json:"prepaid,omitempty"`
	Timeout time.Duration `json:"timeout"` // of all calls of the turn together, waiting for people left out; 0: none

	// CostBound: somebody has set a bound of cost, so that a model without a price
	// must not be called.
	CostBound bool `json:"cost_bound"`
}

// Config is what a turn needs. For [Run] Model, Tools and Approver are required;
// [Turn] uses Settings, Gate, Policy and nothing else.
type Config struct {
	Settings

	Model      Model
	Tools      Tools
	Approver   Approver
	Gates      func(ctx context.Context, g tipstaff.Gate) (tipstaff.Choice, error) // other gates; nil: they end the turn
	Router     Router                                                              // nil: whole catalog
	Policy     *policy.Policy                                                      // nil: no rules, every call asks
	Middleware []Middleware
	Logger     *slog.Logger // nil: discard
	LogKey     []byte       // of args_hmac; nil: random, once per process

	// Gate decides over what a run has frozen. nil: it is made from the catalog and
	// the policy.
	Gate *tool.Gate
	// Principal is on whose behalf the turn runs, for policies.
	Principal string
}
