package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/docs/prompts"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/plan"
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
	Way      pipeline.Way    `json:"way,omitempty"`    // "": a model
	Config   json.RawMessage `json:"config,omitempty"` // that another performer goes by
	Model    string          `json:"model"`
	Tools    *[]string       `json:"tools,omitempty"` // URIs that it may use at most; nil: what the program allows
	Settings agent.Settings  `json:"settings"`
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

// agentTrouble says why no model answers under the name of an agent; the zero Trouble:
// one does.
func agentTrouble(m *workspace.Manifest, name string) plan.Trouble {
	switch a, ok := m.Agent(name); {
	case ok && a.Model != "":
		return plan.Trouble{}
	case ok:
		return plan.Trouble{Code: "agent_unknown", Message: fmt.Sprintf("the agent %q has no model: a worker does its work", name)}
	}
	names := m.AgentNames()
	message := fmt.Sprintf("there is no agent %q", name)
	if len(names) == 0 {
		message += ": tipstaff.yaml declares no models and agents"
	} else {
		message += ": tipstaff.yaml has " + strings.Join(names, ", ") + tipstaff.DidYouMean(name, names)
	}
	return plan.Trouble{Code: "agent_unknown", Message: message}
}

func (r *Runner) settleAgent(p *prepared, name string) error {
	if _, ok := p.agents.settled[name]; ok {
		return nil
	}
	if t := agentTrouble(p.manifest, name); t.Code != "" {
		return tipstaff.Errorf(tipstaff.InvalidProgram, "%s", t.Message)
	}
	c, _ := p.manifest.Agent(name)
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
		Router: c.Router, CostBound: p.costBound, ShareWindow: true, WholeCost: true,
	}}
	if c.Tools != nil {
		tools, err := p.named(name, c.Tools)
		if err != nil {
			return err
		}
		a.Tools = &tools
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

// named are the URIs of an agent's tools: where it has all tools of a server, those that
// are locked now.
func (p *prepared) named(agent string, items []string) ([]string, error) {
	uris := []string{}
	for _, item := range items {
		found := []string{item}
		server, all := workspace.AllTools(item)
		if all {
			found = nil
			for _, d := range p.tools.Definitions() {
				if d.Server == server {
					found = append(found, d.URI().String())
				}
			}
		}
		for _, uri := range found {
			if !slices.Contains(uris, uri) {
				uris = append(uris, uri)
			}
		}
		if len(found) == 0 {
			return nil, tipstaff.Errorf(tipstaff.InvalidProgram, "agent %s: there is no tool in %s", agent, item).
				WithCommand("declare its tools in tipstaff.yaml and accept them: tipstaff tools pin %s", server)
		}
	}
	return uris, nil
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
		return nil, &tipstaff.Error{Code: tipstaff.Refused, Message: fmt.Sprintf("model %s: %s", key, refused.Message), Err: refused, Hint: adviceFor(tipstaff.RefusedTool{Code: refused.Code}),
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
