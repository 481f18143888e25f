package runner

import (
	"encoding/json"
	"errors"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/tool"
)

// meter adds up what an attempt of a stage uses, whoever asks for it on its behalf:
// the agent loop, the walker of a plan or the stage itself. Branches of the attempt
// share it; sums do not depend on their order.
type meter struct {
	mu    sync.Mutex
	usage tipstaff.StageUsage
	once  bool
}

func (m *meter) read() (pipeline.Usage, bool) {
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
	switch call.Name {
	case tool.ActivityName:
		m.usage.ToolCalls += made
	case agent.ModelActivity, agent.RouterActivity:
		m.usage.LLMCalls += made
		m.spoke(r)
	case remoteActivity:
		m.reported(r)
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
