package pipeline

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// Reserved names: targets of routing that are no stages, and what is no stage's
// name or output key.
const (
	End           = "end"
	Start         = "start"
	Clarification = "clarification"
	Confirmation  = "confirmation"
	DeliveryKey   = "delivery"
	controlKey    = "_control" // where stages without a control part of their own put one
)

// Pipeline is a document that was read and checked. It is never changed after
// that, and any number of runs share it.
type Pipeline struct {
	Name   string   `doc:"name"`
	Agents []*Agent `doc:"agents,required"` // by index: sorted by stage_order, ties as they were declared

	// From 1: 0 is what an unset field looks like, and a pipeline that must not loop has
	// no edge that leads back.
	MaxIterations int64 `doc:"max_iterations,min=1,max=1000000,code=bad_bound"`
	MaxLLMCalls   int64 `doc:"max_llm_calls,min=1,max=1000000,code=bad_bound"`
	MaxAgentHops  int64 `doc:"max_agent_hops,min=1,max=1000000,code=bad_bound"`
	MaxStages     int64 `doc:"max_stages,min=1,max=1000000,code=bad_bound"`
	// What the document says of the other bounds, by their names in the ledger; a
	// name that is absent has the manifest's limit, or the default.
	Bounds     tipstaff.Bounds
	EdgeLimits []EdgeLimit `doc:"edge_limits,null"`

	DefaultTimeout time.Duration `doc:"default_timeout_seconds,unit=1s,max=1000000,negative=negative_value"`
	MaxParallel    int           `doc:"max_parallel,min=1,max=1000000,code=bad_bound"`
	OnFailure      OnFailure     `doc:"on_failure,in=|finish|cancel"`
	OnBound        OnBound       `doc:"on_bound,in=|end|ask"`

	// Where a run goes on after an interrupt whose rule says nothing; "": at the
	// stage that asked.
	ClarificationResume string `doc:"clarification_resume_stage"`
	ConfirmationResume  string `doc:"confirmation_resume_stage"`

	Files   document.Files    `doc:"files"` // where it works, and what is made ready there
	Deliver *document.Deliver `doc:"deliver"`

	written   *document.Value
	canonical []byte
	index     map[string]int
	limits    map[Edge]int64      // without those that leave an edge to the iterations
	perPass   map[Edge]bool       // of these, what is limited in each pass of the loop around it
	releases  map[string][]*Agent // by name, who requires it; by index
	depends   bool                // a stage requires or waits for another
	warnings  []tipstaff.Problem
}

// EdgeLimit bounds how often an edge is taken; 0 leaves it to the iterations.
type EdgeLimit struct {
	From     string `json:"from" doc:",required"`
	To       string `json:"to" doc:",required"`
	MaxCount int64  `json:"max_count" doc:",max=1000000,code=bad_bound,negative=negative_value"`
	// What is counted: the edge in the whole run ("" or run), or in one pass of the loop
	// around it.
	Per string `json:"per" doc:",in=|run|pass"`
}

// perPass is the edge limit whose count begins anew with every pass of the loop around it.
const perPass = "pass"

// Edge is a pair of stages.
type Edge struct{ From, To string }

// OnFailure is what becomes of the rest of a batch after a fatal failure.
type OnFailure string

const (
	Finish OnFailure = "finish"
	Cancel OnFailure = "cancel"
)

// OnBound is what is done where a bound would end the run.
type OnBound string

const (
	EndRun  OnBound = "end"
	AskMore OnBound = "ask"
)

// Way is how a stage is run.
type Way string

const (
	WayModel    Way = "model"
	WayWorker   Way = "worker"
	WayTool     Way = "tool"
	WayRemote   Way = "remote"
	WayPlan     Way = "plan"
	WayScripted Way = "scripted"
)

// Agent is one stage.
type Agent struct {
	Name       string `doc:"name"`
	Index      int
	StageOrder int64    `doc:"stage_order,min=-9007199254740992"`
	Requires   []string `doc:"requires,null"`
	Join       string   `doc:"join,in=|all|any"` // which of Requires release it; "": all
	After      []string `doc:"after,null"`
	Entry      bool     // in the first frontier: derived, or as the document says
	EntrySaid  *bool    `doc:"entry,null"` // what the document says of that; nil: nothing

	Way      Way
	Model    *Model     `doc:"model,null"`
	Worker   *Worker    `doc:"worker,null"`
	Tool     *Tool      `doc:"tool,null"`
	Remote   *Remote    `doc:"remote,null"`
	Plan     *PlanStage `doc:"plan,null"`
	Scripted *Scripted  `doc:"scripted,null"`

	OutputKey      string          `doc:"output_key"`
	RequiredFields []string        `doc:"required_output_fields,null"`
	OutputSchema   json.RawMessage `doc:"output_schema,null"` // nil: any object
	Rules          []Rule          `doc:"routing_rules,null"`
	DefaultNext    string          `doc:"default_next"`
	ErrorNext      string          `doc:"error_next"`
	DeniedNext     string          `doc:"denied_next"`
	Timeout        time.Duration   `doc:"timeout_seconds,unit=1s,max=1000000,negative=negative_value"` // per attempt: its own, or the pipeline's
	MaxRetries     int             `doc:"max_retries,max=1000000,negative=negative_value"`
	RetryDelay     time.Duration   `doc:"retry_delay_ms,unit=1ms,max=1000000,negative=negative_value"`
	MaxVisits      int64           `doc:"max_visits,min=1,max=1000000,code=bad_bound"` // 0: no limit of its own
	Handoff        Handoff         `doc:"handoff,in=|never|on_reject|always"`
	Effect         string          `doc:"effect,in=|once|idempotent|read"` // read, idempotent or once, of a remote or worker; "" of other ways

	written *document.Value // and where that stands in the document
	path    string
	schema  *jsonschema.Resolved // of OutputSchema
}

// Position is where the document says how the agent runs.
func (a *Agent) Position() (line, column int) {
	at := a.written.At
	if way := a.written.Get(string(a.Way)); way != nil {
		at = way.At
	}
	return at.Line, at.Column
}

// Performer is who does what the stage asks for: the agent, model, worker or tool; "":
// the stage itself says what is done.
func (a *Agent) Performer() string {
	switch a.Way {
	case WayModel:
		return cmp.Or(a.Model.Agent, a.Model.Name)
	case WayWorker:
		return a.Worker.Name
	case WayTool:
		return a.Tool.URI
	case WayRemote:
		return a.Remote.Agent
	}
	return ""
}

// Label says in a word who runs the stage.
func (a *Agent) Label() string {
	if a.Way == WayTool {
		return a.Tool.URI
	}
	return strings.TrimSpace(string(a.Way) + " " + a.Performer())
}

const (
	joinAny     = "any"
	keepSession = "keep"
)

// Keeps reports whether later visits go on in the session of the first.
func (a *Agent) Keeps() bool {
	return a.Model != nil && a.Model.Session == keepSession || a.Worker != nil && a.Worker.Session == keepSession
}

// Rule routes a stage that succeeded. It has a condition, or when.
type Rule struct {
	Condition string `doc:"condition"`
	Value     any    // of Condition: normalised, as [Normalize] gives it
	When      string `doc:"when"`
	Target    string `doc:"target"`
	Then      string `doc:"then"` // of an interrupt target: where the run goes on; "": unsaid

	when *expression // of When
}

// Handoff is when a person looks at what a stage has brought.
type Handoff string

const (
	HandoffNever    Handoff = "never"
	HandoffOnReject Handoff = "on_reject"
	HandoffAlways   Handoff = "always"
)

// Template is a value with ${CEL} in it, as the document has it.
type Template struct {
	written *document.Value
	texts   map[*document.Value][]part // the strings in it, compiled
	filled  bool                       // an expression stands in one of them
}

// Model runs a stage with a model in an agent loop.
type Model struct {
	Name     string    `doc:"name"`  // a model of the manifest
	Agent    string    `doc:"agent"` // or an agent of it
	Prompt   *Template `doc:"prompt"`
	System   *Template `doc:"system"`
	Skill    string    `doc:"skill"`
	Tools    *[]string `doc:"tools"` // nil: what the skill or agent allows; empty: none
	MaxSteps int       `doc:"max_steps,min=1,max=1000000,code=bad_bound"`
	Session  string    `doc:"session,in=|fresh|keep"` // of later visits; keep: that of the first
}

// Worker runs a stage with somebody whom the host brings: see [Resolver.Performer].
type Worker struct {
	Name    string    `doc:"name"` // as the host calls it
	Prompt  *Template `doc:"prompt"`
	Session string    `doc:"session,in=|fresh|keep"` // of later visits; keep: that of the first
}

// Tool runs a stage with one call.
type Tool struct {
	URI  string    `doc:"uri,required"`
	Args *Template `doc:"args"`
}

// Remote runs a stage in another process.
type Remote struct {
	Agent string        `doc:"agent"` // as hosts call it
	Input *Template     `doc:"input"`
	Wait  time.Duration `doc:"wait_seconds,unit=1s,max=1000000,negative=negative_value"` // for a host to appear
}

// PlanStage walks a plan inside the run.
type PlanStage struct {
	Document json.RawMessage `doc:"document,object"` // RFC 8785; read by whoever walks it
	Inputs   *Template       `doc:"inputs"`
}

// Scripted gives answers by visit.
type Scripted struct {
	Answers []Answer `doc:"answers"`
	Repeat  string   `doc:"repeat,in=|last|cycle|fail"` // what is done after the last of them
}

// Answer is what a scripted stage brings.
type Answer struct {
	Output  map[string]any
	Error   *StageError `doc:"error"`
	Control *Control
	Usage   tipstaff.StageUsage
	Delay   time.Duration `doc:"delay_ms,unit=1ms,max=1000000,negative=negative_value"`
	Hang    bool          `doc:"hang"` // until the attempt's time is over
}
