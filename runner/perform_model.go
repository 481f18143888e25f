package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/docs/prompts"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// modelPerformer has a model do the work, in a turn of the agent loop.
type modelPerformer struct{}

// Agent implements [Performer].
func (modelPerformer) Agent(m *workspace.Manifest, name string) plan.AgentInfo {
	return plan.AgentInfo{Trouble: agentTrouble(m, name)}
}

// Settle implements [Performer]. What a stage says itself comes before what the
// manifest says of its agent.
func (modelPerformer) Settle(s *Settlement) error {
	if s.stage == nil {
		return s.r.settleAgent(s.p, s.Name)
	}
	said := s.stage.Model
	c := workspace.Agent{Model: said.Name}
	if said.Agent != "" {
		c, _ = s.Manifest.Agent(said.Agent) // it was looked for when the document was checked
	}
	if said.Skill != "" {
		c.Skill = said.Skill
	}
	if said.Tools != nil {
		c.Tools = *said.Tools
	}
	if c.Tools == nil && c.Skill == "" {
		c.Tools = []string{} // what a stage does not name it may not use
	}
	if said.MaxSteps > 0 {
		c.MaxSteps = said.MaxSteps
	}
	return s.r.settleAgentAs(s.p, s.as, c)
}

// Perform implements [Performer].
func (modelPerformer) Perform(fc flow.Context, t *Task) (Result, error) {
	if t.stage != nil {
		return t.modelStage(fc)
	}
	a, err := t.walk.agents.of(t.Name)
	if err != nil {
		return Result{}, err
	}
	message, err := t.message()
	if err != nil {
		return Result{}, &flow.Error{Code: plan.ReasonStepError, Message: err.Error(), NotSent: true}
	}
	s := a.Settings
	if t.Schema != nil {
		s.OutputSchema = t.Schema
	}
	s.Hop, s.Timeout = true, cmp.Or(t.Timeout, plan.DefaultStepTimeout)
	out, err := t.walk.speak(fc, s, a.narrowed(t.walk.gate, t.leaf.Node), agent.Input{Message: message})
	if err != nil {
		return Result{}, err
	}
	return Spoken(out.Text, out.JSON), nil
}

// message is what the agent of a step is told: its prompt, with the inputs.
func (t *Task) message() (string, error) {
	data := prompts.StepData{Prompt: t.Prompt}
	if own := t.walk.skills[t.walk.doc.Skill]; own != nil {
		data.Skill = own.Prose
	}
	var inputs map[string]any
	if err := json.Unmarshal(t.Args, &inputs); err != nil {
		return "", err
	}
	if len(inputs) > 0 {
		data.Inputs = inputs
	}
	return t.walk.agents.prompts.Render(prompts.Step, data)
}

func (t *Task) modelStage(fc flow.Context) (Result, error) {
	p, s := t.pipe, t.stage
	a, ok := p.agents.settled[stageAgent(s.Agent)]
	if !ok {
		return Result{}, fmt.Errorf("the run froze no agent for stage %s", s.Agent.Name)
	}
	set := a.Settings
	set.System = strings.TrimSpace(set.System + "\n\n" + s.System)
	set.Timeout, set.Prepaid = t.Timeout, true
	if t.Schema != nil {
		set.OutputSchema = t.Schema
	}
	in := agent.Input{Message: t.Prompt, Session: t.Session}
	if t.Kept != nil {
		if err := json.Unmarshal(t.Kept, &in.History); err != nil {
			return Result{}, err
		}
	}
	out, err := p.speak(fc, set, t.walk.gate, in)
	var res Result
	if err == nil {
		res = Spoken(out.Text, out.JSON)
	}
	res.Keep = flow.JSON(out.Messages)
	return res, err
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

// Activities implements [Performer]. A program without agents has them, too: the one
// that takes its place in the drive may have some.
func (modelPerformer) Activities(env *Environment) map[string]flow.Activity {
	models := modelRouter{open: map[string]func() (agent.Model, error){}, blob: env.r.Store.Blob}
	for name, a := range env.program.shared().agents.settled {
		models.open[name] = sync.OnceValues(func() (agent.Model, error) { return env.r.model(env.Manifest, a.Model) })
	}
	return map[string]flow.Activity{
		agent.ModelActivity: agent.ModelCall(models),
		agent.CatalogActivity: {Run: func(_ context.Context, a flow.Attempt) (flow.Done, error) {
			return flow.Done{Value: flow.JSON(agent.CatalogOf(a.Local.(*agent.Local).Gate))}, nil
		}},
		agent.RouterActivity: {Run: func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
			of := a.Local.(*agent.Local)
			model, err := models.of(of.Agent)
			if err != nil {
				return flow.Done{}, err
			}
			router := &agent.ToolkitClassifier{Model: model, Agent: of.Agent, Prompt: of.RouterPrompt, Toolkits: of.Toolkits}
			return agent.RouterCall(router).Run(ctx, a)
		}},
	}
}

// modelRouter puts a request through to the model of the agent that makes it. A
// model is opened when it is first asked: a run that only has to be ended needs no
// key.
type modelRouter struct {
	open map[string]func() (agent.Model, error)
	blob func(ctx context.Context, digest string) ([]byte, error)
}

func (s modelRouter) Name() string     { return "" }
func (s modelRouter) Caps() agent.Caps { return agent.Caps{} }

func (s modelRouter) Stream(ctx context.Context, r agent.Request, emit func(agent.Delta)) (agent.Response, error) {
	m, err := s.of(r.Agent)
	if err != nil {
		return agent.Response{}, err
	}
	r, err = r.Shown(m.Caps(), func(digest string) ([]byte, error) { return s.blob(ctx, digest) })
	if err != nil {
		return agent.Response{}, &flow.Error{Code: flow.CodeInternal, Message: err.Error(), NotSent: true}
	}
	return m.Stream(ctx, r, emit)
}

func (s modelRouter) of(name string) (agent.Model, error) {
	open, ok := s.open[name]
	if !ok {
		return nil, fmt.Errorf("the run has no agent %q", name)
	}
	m, err := open()
	if err != nil {
		return nil, &flow.Error{Code: "model_unavailable", Message: err.Error(), NotSent: true}
	}
	return m, nil
}
