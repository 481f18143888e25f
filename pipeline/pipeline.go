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
	Name   string
	Agents []*Agent // by index: sorted by stage_order, ties as they were declared

	MaxIterations, MaxLLMCalls, MaxAgentHops, MaxStages int64
	// What the document says of the other bounds, by their names in the ledger; a
	// name that is absent has the manifest's limit, or the default.
	Bounds     tipstaff.Bounds
	EdgeLimits []EdgeLimit

	DefaultTimeout time.Duration
	MaxParallel    int
	OnFailure      OnFailure
	OnBound        OnBound

	// Where a run goes on after an interrupt whose rule says nothing; "": at the
	// stage that asked.
	ClarificationResume, ConfirmationResume string

	canonical []byte
	index     map[string]int
	limits    map[Edge]int64      // without those that leave an edge to the iterations
	releases  map[string][]*Agent // by name, who requires it; by index
	depends   bool                // a stage requires or waits for another
	warnings  []tipstaff.Problem
}

// EdgeLimit bounds how often an edge is taken; 0 leaves it to the iterations.
type EdgeLimit struct {
	From     string `json:"from"`
	To       string `json:"to"`
	MaxCount int64  `json:"max_count"`
}

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
	Name       string
	Index      int
	StageOrder int64
	Requires   []string
	JoinAny    bool // the first of Requires releases it, not all
	After      []string
	Entry      bool // in the first frontier: derived, or as the document says

	Way      Way
	Model    *Model
	Worker   *Worker
	Tool     *Tool
	Remote   *Remote
	Plan     *PlanStage
	Scripted *Scripted

	OutputKey      string
	RequiredFields []string
	OutputSchema   json.RawMessage // nil: any object
	Rules          []Rule
	DefaultNext    string
	ErrorNext      string
	DeniedNext     string
	Timeout        time.Duration // per attempt: its own, or the pipeline's
	MaxRetries     int
	RetryDelay     time.Duration
	MaxVisits      int64 // 0: no limit of its own
	Handoff        Handoff
	Effect         string // read, idempotent or once, of a remote or worker; "" of other ways

	schema *jsonschema.Resolved // of OutputSchema
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

// Keeps reports whether later visits go on in the session of the first.
func (a *Agent) Keeps() bool {
	return a.Model != nil && a.Model.Keep || a.Worker != nil && a.Worker.Keep
}

// Rule routes a stage that succeeded. It has a condition, or when.
type Rule struct {
	Condition string
	Value     any // of Condition: normalised, as [Normalize] gives it
	When      string
	Target    string
	Then      string // of an interrupt target: where the run goes on; "": unsaid

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
	Name, Agent    string // a model of the manifest, or an agent of it
	Prompt, System *Template
	Skill          string
	Tools          *[]string // nil: what the skill or agent allows; empty: none
	MaxSteps       int
	Keep           bool // later visits go on in the session of the first
}

// Worker runs a stage with somebody whom the host brings: see [Resolver.Performer].
type Worker struct {
	Name   string // as the host calls it
	Prompt *Template
	Keep   bool // later visits go on in the session of the first
}

// Tool runs a stage with one call.
type Tool struct {
	URI  string
	Args *Template
}

// Remote runs a stage in another process.
type Remote struct {
	Agent string // as hosts call it
	Input *Template
	Wait  time.Duration // for a host to appear
}

// PlanStage walks a plan inside the run.
type PlanStage struct {
	Document json.RawMessage // RFC 8785; read by whoever walks it
	Inputs   *Template
}

// Scripted gives answers by visit.
type Scripted struct {
	Answers []Answer
	Repeat  string // last, cycle or fail: after the last of them
}

// Answer is what a scripted stage brings.
type Answer struct {
	Output  map[string]any
	Error   *StageError
	Control *Control
	Usage   tipstaff.StageUsage
	Delay   time.Duration
	Hang    bool // until the attempt's time is over
}
