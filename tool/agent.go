package tool

import (
	"encoding/json"
	"slices"
	"time"
)

// DefaultAgent is who does what names nobody.
const DefaultAgent = "default"

// What an agent's router may be, besides "", which is none.
const RouterToolkits = "toolkits"

// AgentConfig is what the manifest says of one agent. A zero value leaves it to
// the loop's own default.
type AgentConfig struct {
	Model  string   // one of the manifest's models
	Skill  string   // URI; "": none
	Tools  []string // pinned URIs; nil: the skill's, without one none
	Router string   // "": the whole catalog is offered
	System string   // its own instructions

	MaxSteps        int
	OnLimit         string // fail, ask
	Temperature     *float64
	TopP            *float64
	MaxOutputTokens int
	CallTimeout     time.Duration
	ToolTimeout     time.Duration
	ApprovalExpiry  time.Duration
	ToolParallelism int
	MaxResultBytes  int
	OutputSchema    json.RawMessage // nil: none
	OutputRetries   *int
}

// Agent is the configuration of an agent; "" is the default one. Where the
// manifest has one model and no agent of that name, that model is the default
// agent, with nothing of its own.
func (m *Manifest) Agent(name string) (AgentConfig, bool) {
	if m == nil {
		return AgentConfig{}, false
	}
	if name == "" {
		name = DefaultAgent
	}
	if a, ok := m.Agents[name]; ok {
		return a, true
	}
	if name == DefaultAgent && len(m.Models) == 1 {
		return AgentConfig{Model: sortedKeys(m.Models)[0]}, true
	}
	return AgentConfig{}, false
}

// AgentNames are all agents, sorted, the default one included where it is not
// declared.
func (m *Manifest) AgentNames() []string {
	if m == nil {
		return nil
	}
	names := sortedKeys(m.Agents)
	if _, ok := m.Agent(DefaultAgent); ok && !slices.Contains(names, DefaultAgent) {
		names = append(names, DefaultAgent)
		slices.Sort(names)
	}
	return names
}
