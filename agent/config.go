package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/docs/prompts"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
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

	// ShareWindow: results that do not fit the window together are shortened. Runs of
	// earlier versions fail instead.
	ShareWindow bool `json:"share_window,omitempty"`
	// WholeCost: the cost of a turn is all that was charged for it, failed attempts
	// included. Runs of earlier versions tell the cost of the others.
	WholeCost bool `json:"whole_cost,omitempty"`
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

// Defaults, and what is the most.
const (
	DefaultAgent           = workspace.DefaultAgent
	DefaultMaxSteps        = 32
	DefaultMaxOutputTokens = 8192
	DefaultCallTimeout     = 10 * time.Minute
	DefaultToolTimeout     = 30 * time.Second
	DefaultApprovalExpiry  = 24 * time.Hour
	DefaultParallelism     = 4
	DefaultMaxResultBytes  = 32 << 10
	DefaultOutputRetries   = 1
	DefaultContextWindow   = 32_768 // of a model of which nobody knows it

	maxSteps       = 1000
	maxParallelism = 16
	minResultBytes = 256 // less has no room for a marker
)

// Resolve puts defaults in the place of zero values, and checks the rest. It
// reports every problem at once, as config_invalid. What it gives resolves to
// itself.
func (s *Settings) Resolve() error {
	var c checklist
	s.resolve(&c)
	return c.err()
}

// Resolve is Settings.Resolve for the library form, which also needs a model, tools
// and somebody to approve calls. Name and abilities of the model go into the
// settings.
func (c *Config) Resolve() error {
	var list checklist
	if c.Model == nil {
		list.add("model", "required", "a turn needs a model")
	} else {
		c.ModelName, c.Caps = c.Model.Name(), c.Model.Caps()
	}
	if c.Tools == nil {
		list.add("tools", "required", "a turn needs tools: agent.NoTools is the empty catalog")
	}
	if c.Approver == nil {
		list.add("approver", "required", "a turn needs somebody who approves calls: having nobody does not allow them")
	}
	own := ToolkitClassifier{}
	switch r := c.Router.(type) {
	case nil, PassThrough, *PassThrough:
	case *ToolkitClassifier: // what is reserved must be what it asks
		own = *r
		c.Settings.Router, c.RouterPrompt, c.Toolkits = RouterToolkits, r.Prompt, r.Toolkits
	default:
		c.Settings.Router = RouterCustom
	}
	c.ShareWindow, c.WholeCost = true, true
	c.Settings.resolve(&list)
	if _, ok := c.Router.(*ToolkitClassifier); ok || c.Router == nil && c.Settings.Router == RouterToolkits {
		c.Router = &ToolkitClassifier{Model: cmp.Or(own.Model, c.Model), Agent: cmp.Or(own.Agent, c.Agent), Prompt: c.RouterPrompt, Toolkits: c.Toolkits}
	}
	return list.err()
}

func (s *Settings) resolve(c *checklist) {
	s.Agent = cmp.Or(s.Agent, DefaultAgent)
	if s.ModelName == "" && !slices.ContainsFunc(c.problems, func(p tipstaff.Problem) bool { return p.Path == "model" }) {
		c.add("model_name", "required", "a turn needs the name of a model")
	}
	if s.Preamble == "" {
		s.Preamble = c.preamble(s.Agent)
	}
	s.Caps.ContextWindow = c.count("context_window", s.Caps.ContextWindow, DefaultContextWindow, 0)
	s.MaxSteps = c.count("max_steps", s.MaxSteps, DefaultMaxSteps, maxSteps)
	s.MaxOutputTokens = c.count("max_output_tokens", s.MaxOutputTokens, DefaultMaxOutputTokens, 0)
	if s.Caps.MaxOutput > 0 {
		s.MaxOutputTokens = min(s.MaxOutputTokens, s.Caps.MaxOutput)
	}
	s.ToolParallelism = c.count("tool_parallelism", s.ToolParallelism, DefaultParallelism, maxParallelism)
	s.MaxResultBytes = c.count("max_result_bytes", s.MaxResultBytes, DefaultMaxResultBytes, 0)
	if s.MaxResultBytes > 0 && s.MaxResultBytes < minResultBytes {
		c.add("max_result_bytes", "range", "%d leaves no room for a marker: %d is the least", s.MaxResultBytes, minResultBytes)
	}
	s.CallTimeout = c.duration("call_timeout", s.CallTimeout, DefaultCallTimeout)
	s.ToolTimeout = c.duration("tool_timeout", s.ToolTimeout, DefaultToolTimeout)
	s.ApprovalExpiry = c.duration("approval_expiry", s.ApprovalExpiry, DefaultApprovalExpiry)
	s.Timeout = c.duration("timeout", s.Timeout, 0)
	s.OnLimit = cmp.Or(s.OnLimit, OnLimitFail)
	if s.OnLimit != OnLimitFail && s.OnLimit != OnLimitAsk {
		c.add("on_limit", "enum", "%q is not fail or ask", s.OnLimit)
	}
	if s.OutputRetries == nil {
		s.OutputRetries = new(int)
		*s.OutputRetries = DefaultOutputRetries
	}
	if *s.OutputRetries < 0 {
		c.add("output_retries", "range", "%d is less than 0", *s.OutputRetries)
	}
	c.fraction("temperature", s.Temperature, 2)
	c.fraction("top_p", s.TopP, 1)
	c.schema("output_schema", s.OutputSchema)
	switch s.Router {
	case "", RouterToolkits, RouterCustom:
	default:
		c.add("router", "enum", "%q is no router: there is %s", s.Router, RouterToolkits)
	}
}

// checklist collects what is wrong with a configuration.
type checklist struct{ problems []tipstaff.Problem }

func (c *checklist) add(path, code, format string, args ...any) {
	c.problems = append(c.problems, tipstaff.Problem{Code: code, Path: path, Message: fmt.Sprintf(format, args...)})
}

func (c *checklist) err() error {
	if c.problems == nil {
		return nil
	}
	e := tipstaff.Errorf(ConfigInvalid, "the configuration of the agent is not valid: %s", c.problems[0].Message)
	if n := len(c.problems); n > 1 {
		e.Message += fmt.Sprintf(" (and %d more problems)", n-1)
	}
	e.Problems = c.problems
	return e
}

// count is a number from 1; most 0: there is no most.
func (c *checklist) count(path string, n, otherwise, most int) int {
	switch {
	case n == 0:
		return otherwise
	case n < 0:
		c.add(path, "range", "%d is less than 0", n)
	case most > 0 && n > most:
		c.add(path, "range", "%d is more than %d", n, most)
	}
	return n
}

func (c *checklist) duration(path string, d, otherwise time.Duration) time.Duration {
	if d < 0 {
		c.add(path, "range", "%s is less than 0", d)
	}
	return cmp.Or(d, otherwise)
}

func (c *checklist) fraction(path string, f *float64, most float64) {
	if f != nil && !(*f >= 0 && *f <= most) { // NaN is neither
		c.add(path, "range", "%v is not between 0 and %v", *f, most)
	}
}

func (c *checklist) schema(path string, raw json.RawMessage) {
	if raw == nil {
		return
	}
	if _, err := tool.CompileSchema(raw); err != nil {
		c.add(path, "schema", "the schema cannot be used: %v", err)
	}
}

func (c *checklist) preamble(agent string) string {
	text, err := prompts.Default().Render(prompts.System, prompts.SystemData{Agent: agent})
	if err != nil {
		c.add("preamble", "template", "%v", err)
	}
	return text
}
