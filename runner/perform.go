package runner

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// Performer is a way of doing a leaf of a plan or a stage of a pipeline: a model, a
// tool, a plan, a remote host. Each is a file of its own, and a line where performers
// are listed: here, or in [Config].
type Performer interface {
	// Agent tells about one of the performer's agents, by the name under which steps
	// and stages know it. If there is none of that name, its Trouble says so.
	Agent(m *workspace.Manifest, name string) plan.AgentInfo
	// Settle finds out what a step or stage will need, before there is a run, and has
	// the run freeze it.
	Settle(*Settlement) error
	// Activities are the calls that Perform makes, for one program of a drive.
	Activities(*Environment) map[string]flow.Activity
	// Perform does the work once. It is deterministic: all its effects are calls of the
	// Context, which stands at the path of the step, or of the attempt of a stage. Its
	// errors are those of flow, or a [*pipeline.StageError].
	Perform(flow.Context, *Task) (Result, error)
}

// AnswerChecker is a [Performer] that knows what may be given as the result of a call of
// its own whose end nobody saw.
type AnswerChecker interface {
	// CheckAnswer says why an answer cannot be the call's result. What the step or stage
	// comes to with it is returned, if it ends with it and the call is one of the
	// performer's.
	CheckAnswer(Doubt) (*Result, error)
}

// Doubt is a call in doubt, and the result that somebody gives for it.
type Doubt struct {
	Call   string // the name of its activity
	Path   string
	Schema json.RawMessage // of the output of its step or stage; nil: any
	Answer json.RawMessage
}

// Settlement is a step or stage whose run is about to be made.
type Settlement struct {
	Name     string // of the agent, as the document has it
	Manifest *workspace.Manifest
	// Task is the one that the run is made for; nil: none. Its Worker is who was asked for,
	// if anybody was; whom Settle sets is who the task says does it.
	Task *tipstaff.Task

	way   pipeline.Way
	as    string          // under which the run knows what was settled
	stage *pipeline.Agent // nil: it is a step
	r     *Runner
	p     *prepared
}

// Counted are the bounds that manifest, program or caller have set. Of others the run has
// the defaults.
func (s *Settlement) Counted() []string { return slices.Sorted(maps.Keys(s.p.said)) }

// Stage reports whether it is one: else it is a step.
func (s *Settlement) Stage() bool { return s.stage != nil }

// Writes has the run have a place where files may be changed.
func (s *Settlement) Writes() { s.p.writes = true }

// Freeze has the run keep what Perform will go by, so that it can be replayed without
// the manifest.
func (s *Settlement) Freeze(config json.RawMessage) {
	s.p.agents.settled[s.as] = settledAgent{Way: s.way, Config: config}
}

// Task is what a document asks a performer for. References and templates in it have
// been replaced.
type Task struct {
	Name    string          // the agent, tool or skill that is to do it
	Prompt  string          // of those who are told in words
	Args    json.RawMessage // arguments or inputs: an object, or nil
	Config  json.RawMessage // that was frozen when the agent was settled
	Session string          // in which the agent goes on; "": a new one
	Kept    json.RawMessage // what an earlier visit has left in that session; nil: nothing
	Effect  flow.Class      // that the document declares; "": none
	Schema  json.RawMessage // of the output; nil: any
	Timeout time.Duration   // 0: the performer's own
	Reserve flow.Use        // what the first call has to reserve: that the work begins is not paid for yet
	// Asks reports whether a person is asked before work at a path that may change something.
	// nil: nobody is.
	Asks func(path string) bool
	// Assigned is the id of the task that the run does, by the name that its records have
	// for it; "": the step or stage has one of its own.
	Assigned string

	walk  *walk
	leaf  *plan.Task       // nil: it is a stage
	stage *pipeline.Stage  // nil: it is a leaf
	pipe  *pipelineProgram // of the stage
}

// Title is what the step or stage is called.
func (t *Task) Title() string {
	if t.stage != nil {
		return t.stage.Agent.Name
	}
	if t.Assigned != "" {
		return t.walk.doc.Name
	}
	return cmp.Or(t.leaf.Node.ID, t.walk.doc.Name)
}

// Prose is what the skill of the program tells whoever does it; "": nothing.
func (t *Task) Prose() string {
	if t.walk.doc != nil {
		if s := t.walk.skills[t.walk.doc.Skill]; s != nil {
			return s.Prose
		}
	}
	return ""
}

// Result is what a performer brings.
type Result struct {
	flow.Result                     // of a leaf
	Output      map[string]any      // of a stage
	Control     *pipeline.Control   // of a stage
	Usage       tipstaff.StageUsage // of a stage, beside its calls of models and tools; also beside an error
	Keep        json.RawMessage     // what the next visit in the session is given; also beside an error
	Notices     []tipstaff.Notice   // of what the agent did beside its worktree; also beside an error
}

// Spoken is the result of an agent that answers in words. value is its answer where
// that was to be JSON; nil: it was not.
func Spoken(text string, value json.RawMessage) Result {
	said := text
	if value != nil {
		said = string(value)
	} else {
		value = flow.JSON(text)
	}
	output, err := pipeline.DecodeObject([]byte(unfenced(said)))
	if err != nil {
		output = map[string]any{"text": text}
	}
	return Result{Result: flow.Result{Value: value}, Output: output}
}

// performers are the ways of doing things that documents may name, by the word that
// pipelines have for each.
type performers map[pipeline.Way]Performer

// withBuiltin adds the built-in performers to those that were handed in.
func withBuiltin(more map[pipeline.Way]Performer) performers {
	all := performers{
		pipeline.WayModel:  modelPerformer{},
		pipeline.WayTool:   toolPerformer{},
		pipeline.WayPlan:   planPerformer{},
		pipeline.WayRemote: remotePerformer{},
	}
	maps.Copy(all, more)
	return all
}

// agent finds who does the steps that name an agent: a model, unless somebody else has
// one of that name.
func (s performers) agent(m *workspace.Manifest, name string) (pipeline.Way, plan.AgentInfo) {
	none := modelPerformer{}.Agent(m, name)
	if none.Trouble.Code == "" {
		return pipeline.WayModel, none
	}
	for _, way := range slices.Sorted(maps.Keys(s)) {
		if info := s[way].Agent(m, name); info.Trouble.Code == "" {
			return way, info
		}
	}
	return pipeline.WayModel, none
}

// has says why stages cannot be run in a way, by one of that name.
func (s performers) has(m *workspace.Manifest, way pipeline.Way, name string) pipeline.Trouble {
	by, ok := s[way]
	if !ok {
		return pipeline.Trouble{Code: "no_way_to_run", Message: fmt.Sprintf("%s stages cannot run yet: this version of Tipstaff has no %ss", way, way)}
	}
	return pipeline.Trouble(by.Agent(m, name).Trouble)
}

// performingStore is the store of a runner. Programs that are opened from it know the
// runner's performers, with which they are driven and replayed.
type performingStore struct {
	flow.Store
	by performers
}

func (s performingStore) performers() performers { return s.by }

// performersOf are those of the runner that a source belongs to.
func performersOf(src source) performers {
	if own, ok := src.(interface{ performers() performers }); ok {
		return own.performers()
	}
	return withBuiltin(nil)
}

// settleAgents settles the agents that a program's steps and stages name.
func (r *Runner) settleAgents(p *prepared) error {
	p.agents = agentSet{settled: map[string]settledAgent{}}
	for _, doc := range p.text.plans() {
		for leaf := range doc.Root.Leaves {
			if leaf.Kind != plan.Step {
				continue
			}
			way, _ := r.performers.agent(p.manifest, leaf.Agent)
			if doc.Turn != nil {
				way = pipeline.WayModel // nobody else has conversations
			}
			s := &Settlement{Name: leaf.Agent, Manifest: p.manifest, Task: p.task, way: way, as: leaf.Agent, r: r, p: p}
			if err := r.performers[way].Settle(s); err != nil {
				return err
			}
		}
	}
	for _, a := range p.text.stages() {
		by, ok := r.performers[a.Way]
		if !ok {
			continue // the document itself says what such a stage brings
		}
		if err := by.Settle(&Settlement{Name: a.Performer(), Manifest: p.manifest, way: a.Way, as: stageAgent(a), stage: a, r: r, p: p}); err != nil {
			return err
		}
	}
	return nil
}

// stageAgent is the name under which the agent of a stage is frozen: no agent of a
// manifest can have it.
func stageAgent(a *pipeline.Agent) string { return "stage:" + a.Name }

// agentless is for performers that have no agents.
type agentless struct{}

func (agentless) Agent(*workspace.Manifest, string) plan.AgentInfo {
	return plan.AgentInfo{Trouble: plan.Trouble{Code: "agent_unknown", Message: "it has no agents"}}
}

func (agentless) Settle(*Settlement) error { return nil }

// perform does a leaf of a plan. A step is tried as often as its node allows.
func (w *walk) perform(fc flow.Context, leaf plan.Task) (flow.Result, error) {
	n, way := leaf.Node, pipeline.WayModel
	t := &Task{Name: n.Performer(), Prompt: leaf.Prompt, Args: leaf.Args, Schema: n.OutputSchema, Timeout: leaf.Timeout, Asks: w.asksBefore(), walk: w, leaf: &leaf}
	switch n.Kind {
	case plan.ToolCall:
		way = pipeline.WayTool
	case plan.SubDispatch:
		way = pipeline.WayPlan
	case plan.Step:
		t.Reserve, t.Assigned = flow.Use{tipstaff.BoundAgentHops: 1}, w.draft.Labels[tipstaff.LabelTask]
		if a := w.agents.settled[n.Agent]; a.Way != "" {
			way, t.Config = a.Way, a.Config
		}
		if f := w.draft.Followup; f != nil && n == w.corrected() { // as a stage is told
			t.Prompt += "\n\n" + f.Feedback
		}
	}
	by, ok := w.performers[way]
	if !ok {
		return flow.Result{}, fmt.Errorf("nobody here does %s, which is for a %s", n.ID, way)
	}
	for try := 1; ; try++ {
		at := fc
		if try > 1 { // what was recorded of the one before stays
			at = fc.At(fmt.Sprintf("try#%d", try))
		}
		r, err := by.Perform(at, t)
		w.files.notice(at.Path(), r.Notices)
		var failed *flow.Error
		if n.Kind != plan.Step || !errors.As(err, &failed) || try > leaf.Retry.Max || !slices.Contains(leaf.Retry.On, plan.Reason(failed)) {
			return r.Result, err
		}
		if err := fc.At(fmt.Sprintf("try#%d", try+1)).Sleep(backoff(leaf.Retry, try)); err != nil {
			return r.Result, err
		}
	}
}

// backoff is the pause after a failed try. A step is retried by the program itself,
// so that it has no jitter.
func backoff(r flow.Retry, try int) time.Duration {
	d := max(r.Backoff, time.Millisecond)
	for range try - 1 {
		d = time.Duration(float64(d) * max(r.Factor, 1))
		if r.MaxBackoff > 0 && d > r.MaxBackoff {
			return r.MaxBackoff
		}
	}
	return d
}

// perform runs one attempt of one stage, within the run's gate, narrowed to what the
// stage names.
func (p *pipelineProgram) perform(fc flow.Context, s pipeline.Stage) (pipeline.Result, error) {
	by, ok := p.performers[s.Agent.Way]
	if !ok {
		return pipeline.Result{}, fmt.Errorf("stage %s has no way to run", s.Agent.Name)
	}
	args := s.Args
	if args == nil {
		args = s.Input
	}
	gate := *p.gate
	gate.AllowList = p.pipe.allowedIn(s.Agent, p.skills, p.agents)
	t := &Task{Name: s.Agent.Performer(), Prompt: s.Prompt, Args: args, Config: p.agents.settled[stageAgent(s.Agent)].Config,
		Effect: flow.Class(s.Agent.Effect), Schema: s.Agent.OutputSchema, Timeout: s.Timeout,
		Asks: p.asksBefore(), walk: newWalk(p.common, p.pipe.walked[s.Agent.Name], &gate), stage: &s, pipe: p}
	if s.Agent.Keeps() {
		t.Session = s.Agent.Name
		t.Kept = p.sessions[t.Session]
	}
	m := &meter{earlier: p.draft.Rules < rulesKept}
	got, err := by.Perform(metered{fc, m}, t)
	p.files.notice(fc.Path(), got.Notices)
	if t.Session != "" && got.Keep != nil && !flow.Parked(err) {
		p.sessions[t.Session] = got.Keep
	}
	m.add(got.Usage)
	var res pipeline.Result
	if err == nil {
		res.Output, res.Control = got.Output, got.Control
	} // else what it has used counts, also where a bound stopped it
	res.Usage, res.Once = m.read()
	return res, m.failed(err)
}

// meter adds up what an attempt of a stage uses, whoever asks for it on its behalf:
// the agent loop, the walker of a plan or the stage itself. Branches of the attempt
// share it; sums do not depend on their order.
type meter struct {
	mu    sync.Mutex
	usage tipstaff.StageUsage
	once  bool

	// Of runs of earlier versions: the cost of attempts that failed is left out, and whoever
	// gives the result of a remote call gives its use, too.
	earlier bool
}

func (m *meter) read() (tipstaff.StageUsage, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.usage, m.once
}

// add counts what a performer tells by itself.
func (m *meter) add(u tipstaff.StageUsage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.usage = m.usage.Plus(u)
}

// failed is the error of an attempt, with what it has used.
func (m *meter) failed(err error) error {
	if err == nil {
		return nil
	}
	err = stageError(err)
	var e *pipeline.StageError
	if errors.As(err, &e) {
		used, once := m.read()
		with := *e
		with.Usage, with.Once = used, with.Once || once
		return &with
	}
	return err
}

// metered is a flow.Context whose calls are counted.
type metered struct {
	flow.Context
	m *meter
}

func (c metered) At(segment string) flow.Context { return metered{c.Context.At(segment), c.m} }

func (c metered) Do(call flow.Call) (flow.Result, error) {
	r, err := c.Context.Do(call)
	c.m.take(call, r, err)
	return r, err
}

func (c metered) Go(g flow.Group, branches ...flow.Branch) error {
	own := make([]flow.Branch, len(branches))
	for i, b := range branches {
		own[i] = flow.Branch{Name: b.Name, Run: func(fc flow.Context) error { return b.Run(metered{fc, c.m}) }}
	}
	return c.Context.Go(g, own...)
}

// take counts the attempts of a call that were made: one that a bound or a rule
// refused was not.
func (m *meter) take(call flow.Call, r flow.Result, err error) {
	made := int64(r.Attempt)
	var failed *flow.Error
	if errors.As(err, &failed) && failed.NotSent {
		made--
	}
	if made <= 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.once = m.once || call.Class == flow.Once || call.Class == ""
	m.usage.Hops += made * call.Reserve[tipstaff.BoundAgentHops]
	before := m.usage.CostUSD
	switch call.Name {
	case tool.ActivityName:
		m.usage.ToolCalls += made
	case agent.ModelActivity, agent.RouterActivity:
		m.usage.LLMCalls += made
		m.spoke(r)
	case remoteActivity:
		if r.By == "" || m.earlier {
			m.reported(r)
		}
	}
	if !m.earlier {
		m.usage.CostUSD = before + tipstaff.USD(r.Cost)
		m.usage.LostUSD += tipstaff.USD(r.Lost)
	}
}

// spoke adds what a model says that it used.
func (m *meter) spoke(r flow.Result) {
	var v struct {
		Usage struct {
			InputTokens  int64 `json:"input_tokens"`
			OutputTokens int64 `json:"output_tokens"`
		} `json:"usage"`
	}
	if json.Unmarshal(r.Value, &v) == nil {
		m.usage.TokensIn += v.Usage.InputTokens
		m.usage.TokensOut += v.Usage.OutputTokens
	}
	m.usage.CostUSD += tipstaff.USD(r.Use[tipstaff.BoundCostUSD])
}

// reported adds what another's agent has used: as it says or, where it failed, as the
// ledger was told, which does not tell tokens apart.
func (m *meter) reported(r flow.Result) {
	var v struct {
		Usage tipstaff.StageUsage `json:"usage"`
	}
	if json.Unmarshal(r.Value, &v) != nil {
		v.Usage = tipstaff.StageUsage{LLMCalls: r.Use[tipstaff.BoundModelCalls], ToolCalls: r.Use[tipstaff.BoundToolCalls],
			TokensIn: r.Use[tipstaff.BoundTokens], CostUSD: tipstaff.USD(r.Use[tipstaff.BoundCostUSD])}
	}
	v.Usage.Hops = 0 // those are counted by what was reserved
	m.usage = m.usage.Plus(v.Usage)
}

// stageError is a failure in the words of pipelines. What must be handed up as it is
// comes back so.
func stageError(err error) error {
	var own *pipeline.StageError
	var failed *flow.Error
	var ended *plan.Failure
	switch {
	case flow.Parked(err), errors.Is(err, flow.ErrCancelled), errors.As(err, &own):
		return err
	case errors.As(err, &ended):
		if ended.Reason == plan.ReasonBound {
			return &flow.Error{Code: flow.CodeBoundExceeded, Bound: ended.Bound, Message: ended.Message}
		}
		return &pipeline.StageError{Code: cmp.Or(ended.Code, ended.Reason), Message: ended.Message, Retryable: pipeline.Retryable(ended.Reason),
			Denied: ended.Reason == plan.ReasonPolicyDenied || ended.Reason == plan.ReasonGateDenied}
	case errors.As(err, &failed):
		if failed.Code == flow.CodeBoundExceeded || failed.Code == flow.CodeDeadline {
			return err
		}
		reason := plan.Reason(failed)
		return &pipeline.StageError{Code: failed.Code, Message: failed.Message, Retryable: failed.Retry || pipeline.Retryable(reason),
			Denied: reason == plan.ReasonPolicyDenied || reason == plan.ReasonGateDenied}
	}
	return err
}

// endingFailure is the end of a pipeline in the closed terms of the lifecycle.
func endingFailure(e *pipeline.Ending) *plan.Failure {
	f := &plan.Failure{Reason: plan.ReasonStepError, Code: e.Code, Message: e.Text, Path: e.Path}
	switch e.Reason {
	case tipstaff.TerminalToolFailed:
		f.Reason = plan.ReasonToolError
	case tipstaff.TerminalPolicy:
		f.Reason = plan.ReasonPolicyDenied
	case tipstaff.TerminalDenied:
		f.Reason = plan.ReasonGateDenied
	case tipstaff.TerminalDeadlock:
		f.Reason = "x:deadlock"
	case tipstaff.TerminalInternal:
		f.Reason = plan.ReasonInternal
	}
	if e.Outcome == tipstaff.OutcomeBound {
		f.Reason, f.Bound = plan.ReasonBound, e.Bound
	}
	return f
}

// pipelineEnd is what the envelope that ends a pipeline run says beside what those of
// other runs say.
func pipelineEnd(out flow.Outcome) tipstaff.Ending {
	reason, text := tipstaff.TerminalInternal, ""
	var res pipelineResult
	var e *pipeline.Ending
	switch {
	case out.Status == flow.Completed && json.Unmarshal(out.Value, &res) == nil:
		reason, text = res.TerminalReason, res.TerminationReason
	case errors.As(out.Err, &e):
		reason, text = e.Reason, e.Text
	case out.Status == flow.Cancelled: // by others than the executor, which says the same
		reason, text = tipstaff.TerminalCancelled, pipeline.TextCancelled
	case out.Err != nil:
		text = out.Err.Error()
	}
	text = tipstaff.Printable(text)
	return tipstaff.Ending{TerminalReason: string(reason), TerminationReason: &text}
}
