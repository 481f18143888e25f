package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/docs/prompts"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// Names under which intent.draft lists what the agents of a run go by.
const (
	frozenAgents  = "agents"
	frozenPrompts = "prompts"
)

// settledAgent is an agent as a run has frozen it: what its loop goes by, which
// suffices for replay, and which model of the manifest is asked.
type settledAgent struct {
	Model    string         `json:"model"`
	Tools    *[]string      `json:"tools,omitempty"` // URIs that it may use at most; nil: what the program allows
	Settings agent.Settings `json:"settings"`
}

// agentSet are the agents that do the steps of a program.
type agentSet struct {
	settled map[string]settledAgent // by name
	prompts prompts.Set
}

// of is an agent of the set.
func (s agentSet) of(name string) (settledAgent, error) {
	a, ok := s.settled[name]
	if !ok {
		return a, &flow.Error{Code: "agent_unknown", Message: fmt.Sprintf("the run froze no agent %q", name)}
	}
	return a, nil
}

// agentTrouble says why an agent of that name cannot be used; the zero Trouble: it
// can.
func agentTrouble(m *workspace.Manifest, name string) plan.Trouble {
	if _, ok := m.Agent(name); ok {
		return plan.Trouble{}
	}
	names := m.AgentNames()
	message := fmt.Sprintf("there is no agent %q", name)
	if len(names) == 0 {
		message += ": tipstaff.yaml declares no models and agents"
	} else {
		message += ": tipstaff.yaml has " + strings.Join(names, ", ")
	}
	return plan.Trouble{Code: "agent_unknown", Message: message}
}

// settleAgents settles the agents that a program's steps and stages name.
func (r *Runner) settleAgents(p *prepared) error {
	p.agents = agentSet{settled: map[string]settledAgent{}}
	for _, doc := range p.text.plans() {
		for leaf := range doc.Root.Leaves {
			if leaf.Kind == plan.Step {
				if err := r.settleAgent(p, leaf.Agent); err != nil {
					return err
				}
			}
		}
	}
	for _, a := range p.text.stages() {
		if a.Way == pipeline.WayModel {
			if err := r.settleStage(p, a); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Runner) settleAgent(p *prepared, name string) error {
	if _, ok := p.agents.settled[name]; ok {
		return nil
	}
	c, ok := p.manifest.Agent(name)
	if !ok {
		return tipstaff.Errorf(tipstaff.InvalidProgram, "%s", agentTrouble(p.manifest, name).Message)
	}
	return r.settleAgentAs(p, name, c)
}

// settleAgentAs settles an agent, under a name of the program.
func (r *Runner) settleAgentAs(p *prepared, name string, c workspace.Agent) error {
	key, steps := c.Model, c.MaxSteps
	if t := p.text.turn(); t != nil {
		if t.Model != "" {
			key = t.Model
		}
		if t.MaxSteps > 0 {
			steps = t.MaxSteps
		}
	}
	declared := p.manifest
	if p.live != nil {
		declared = p.live
	}
	model, err := r.model(declared, key)
	if err != nil {
		return err
	}
	p.agents.prompts = p.manifest.Prompts
	preamble, err := p.agents.prompts.Render(prompts.System, prompts.SystemData{Agent: name})
	if err != nil {
		return err
	}
	a := settledAgent{Model: key, Settings: agent.Settings{
		Agent: name, ModelName: model.Name(), Caps: model.Caps(), Preamble: preamble, System: c.System,
		MaxSteps: steps, OnLimit: c.OnLimit, Temperature: c.Temperature, TopP: c.TopP, MaxOutputTokens: c.MaxOutputTokens,
		CallTimeout: time.Duration(c.CallTimeout), ToolTimeout: time.Duration(c.ToolTimeout), ApprovalExpiry: time.Duration(c.ApprovalExpiry),
		ToolParallelism: c.ToolParallelism, MaxResultBytes: c.MaxResultBytes, OutputSchema: c.OutputSchema, OutputRetries: c.OutputRetries,
		Router: c.Router, CostBound: p.costBound,
	}}
	if c.Tools != nil {
		a.Tools = &c.Tools
	}
	if err := p.equip(&a, c.Skill); err != nil {
		return err
	}
	if c.Router != "" {
		a.Settings.RouterPrompt = p.agents.prompts.Router
		toolkits, problems := workspace.ParseToolkits(string(prompts.Toolkits), []byte(p.agents.prompts.Toolkits))
		if len(problems) > 0 {
			return &tipstaff.Error{Code: tipstaff.InvalidProgram, Message: "the toolkits are not valid", Problems: problems}
		}
		a.Settings.Toolkits = toolkits
	}
	if err := a.Settings.Resolve(); err != nil {
		return err
	}
	p.agents.settled[name] = a
	return nil
}

// equip gives an agent its skill: the prose joins its instructions, and its tools
// are narrowed to the skill's.
func (p *prepared) equip(a *settledAgent, uri string) error {
	if uri == "" {
		return nil
	}
	s, err := p.skills.take(uri)
	if err != nil {
		t := skillTrouble(uri, err)
		return tipstaff.Errorf(tipstaff.InvalidProgram, "agent %s: %s", a.Settings.Agent, t.Message)
	}
	tools := s.Tools
	if a.Tools != nil {
		tools = both(s.Tools, *a.Tools)
	}
	a.Tools = &tools
	a.Settings.System = strings.TrimSpace(a.Settings.System + "\n\n" + s.Prose)
	return nil
}

// model opens a model that the manifest declares. Nothing is connected to.
func (r *Runner) model(m *workspace.Manifest, key string) (agent.Model, error) {
	c, ok := m.Model(key)
	if !ok {
		return nil, tipstaff.Errorf(tipstaff.InvalidArgument, "the manifest declares no model %q", key)
	}
	resolved, refused := c.Resolve(os.Environ())
	if refused != nil {
		return nil, &tipstaff.Error{Code: tipstaff.Refused, Message: fmt.Sprintf("model %s: %s", key, refused.Message), Err: refused,
			Problems: []tipstaff.Problem{{Code: refused.Code, Path: "models." + key, Message: refused.Message}}}
	}
	if r.Models == nil {
		return nil, tipstaff.Errorf(tipstaff.Internal, "there are no providers of models here")
	}
	return r.Models(resolved, m.ModelsFile)
}

// freezeAgents stores what the agents go by.
func (r *Runner) freezeAgents(ctx context.Context, set agentSet, frozen map[string]string) (err error) {
	if len(set.settled) == 0 {
		return nil
	}
	if frozen[frozenAgents], err = r.Store.PutBlob(ctx, canonical(flow.JSON(set.settled))); err != nil {
		return err
	}
	frozen[frozenPrompts], err = r.Store.PutBlob(ctx, canonical(flow.JSON(set.prompts)))
	return err
}

// openAgents reads back what freezeAgents stored.
func (c *common) openAgents(ctx context.Context, src source) error {
	for name, into := range map[string]any{frozenAgents: &c.agents.settled, frozenPrompts: &c.agents.prompts} {
		digest := c.draft.Frozen[name]
		if digest == "" {
			continue
		}
		data, err := src.Blob(ctx, digest)
		if err != nil {
			return fmt.Errorf("the %s that run %s froze are not there: %w", name, c.run, err)
		}
		if err := json.Unmarshal(data, into); err != nil {
			return fmt.Errorf("the %s that run %s froze cannot be read: %w", name, c.run, err)
		}
	}
	return nil
}

// step has an agent do a step, as often as the node allows.
func (w *walk) step(fc flow.Context, call plan.StepRequest) (flow.Result, error) {
	a, err := w.agents.of(call.Node.Agent)
	if err != nil {
		return flow.Result{}, err
	}
	message, err := w.message(call)
	if err != nil {
		return flow.Result{}, &flow.Error{Code: plan.ReasonStepError, Message: err.Error(), NotSent: true}
	}
	for try := 1; ; try++ {
		at := fc
		if try > 1 { // what was recorded of the one before stays
			at = fc.At(fmt.Sprintf("try#%d", try))
		}
		r, err := w.takeTurn(at, a, call, message)
		var failed *flow.Error
		if err == nil || !errors.As(err, &failed) || try > call.Retry.Max || !retried(call.Retry, failed) {
			return r, err
		}
		if err := fc.At(fmt.Sprintf("try#%d", try+1)).Sleep(backoff(call.Retry, try)); err != nil {
			return r, err
		}
	}
}

func retried(r flow.Retry, failed *flow.Error) bool {
	return slices.Contains(r.On, plan.Reason(failed))
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

// message is what the agent of a step is told: its prompt, with the inputs.
func (w *walk) message(call plan.StepRequest) (string, error) {
	data := prompts.StepData{Prompt: call.Prompt}
	if own := w.skills[w.doc.Skill]; own != nil {
		data.Skill = own.Prose
	}
	var inputs map[string]any
	if err := json.Unmarshal(call.Inputs, &inputs); err != nil {
		return "", err
	}
	if len(inputs) > 0 {
		data.Inputs = inputs
	}
	return w.agents.prompts.Render(prompts.Step, data)
}

// takeTurn has the agent answer in a session of its own, and makes of its output what
// the node wants.
func (w *walk) takeTurn(fc flow.Context, a settledAgent, call plan.StepRequest, message string) (flow.Result, error) {
	s := a.Settings
	if call.Node.OutputSchema != nil {
		s.OutputSchema = call.Node.OutputSchema
	}
	s.Hop, s.Timeout = true, cmp.Or(call.Timeout, plan.DefaultStepTimeout)
	out, err := w.speak(fc, s, a.narrowed(w.gate, call.Node), agent.Input{Message: message})
	switch {
	case err != nil:
		return flow.Result{}, err
	case out.JSON != nil:
		return flow.Result{Value: out.JSON}, nil
	}
	return flow.Result{Value: flow.JSON(out.Text)}, nil
}

// speak runs the agent loop. What it came to is returned also beside an error.
func (c *common) speak(fc flow.Context, s agent.Settings, gate *tool.Gate, in agent.Input) (agent.Output, error) {
	out, err := agent.Turn(fc, agent.Config{Settings: s, Gate: gate, Principal: c.draft.User}, in)
	if err == nil {
		err = out.Failure()
	}
	return out, err
}

// narrowed is a gate, narrowed to what the agent and the node may use.
func (a settledAgent) narrowed(gate *tool.Gate, n *plan.Node) *tool.Gate {
	g := *gate
	if n.Tools != nil {
		g.AllowList = both(g.AllowList, *n.Tools)
	}
	if a.Tools != nil {
		g.AllowList = both(g.AllowList, *a.Tools)
	}
	return &g
}

// agentActs are the activities that agents need in a drive. A program without agents has
// them, too: the one that takes its place in the drive may have some.
func (r *Runner) agentActs(c *common, m *workspace.Manifest, acts map[string]flow.Activity) {
	models := modelRouter{}
	for name, a := range c.agents.settled {
		models[name] = sync.OnceValues(func() (agent.Model, error) { return r.model(m, a.Model) })
	}
	acts[agent.ModelActivity] = agent.ModelCall(models)
	acts[agent.CatalogActivity] = flow.Activity{Run: func(_ context.Context, a flow.Attempt) (flow.Done, error) {
		return flow.Done{Value: flow.JSON(agent.CatalogOf(a.Local.(*agent.Local).Gate))}, nil
	}}
	acts[agent.RouterActivity] = flow.Activity{Run: func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		of := a.Local.(*agent.Local)
		model, err := models.of(of.Agent)
		if err != nil {
			return flow.Done{}, err
		}
		router := &agent.ToolkitClassifier{Model: model, Agent: of.Agent, Prompt: of.RouterPrompt, Toolkits: of.Toolkits}
		return agent.RouterCall(router).Run(ctx, a)
	}}
}

// modelRouter puts a request through to the model of the agent that makes it. A
// model is opened when it is first asked: a run that only has to be ended needs no
// key.
type modelRouter map[string]func() (agent.Model, error)

func (s modelRouter) Name() string     { return "" }
func (s modelRouter) Caps() agent.Caps { return agent.Caps{} }

func (s modelRouter) Stream(ctx context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	m, err := s.of(r.Agent)
	if err != nil {
		return agent.Response{}, err
	}
	return m.Stream(ctx, r, emit)
}

// Cancels is the promise of the model that the request goes to.
func (s modelRouter) Cancels(r agent.Request) bool {
	m, err := s.of(r.Agent)
	return err == nil && agent.Cancels(m, r)
}

func (s modelRouter) of(name string) (agent.Model, error) {
	open, ok := s[name]
	if !ok {
		return nil, fmt.Errorf("the run has no agent %q", name)
	}
	m, err := open()
	if err != nil {
		return nil, &flow.Error{Code: "model_unavailable", Message: err.Error(), NotSent: true}
	}
	return m, nil
}
