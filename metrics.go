package tipstaff

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// RunReader is the part of [Reader] that projections of one run need.
type RunReader interface {
	Get(context.Context, ID) (Run, error)
	DiffReader
}

// Metric is what was used, in all launches of a run. Everything in it adds up.
type Metric struct {
	ModelCalls   int64 `json:"model_calls"`
	ToolCalls    int64 `json:"tool_calls"`
	Invocations  int64 `json:"invocations"` // of workers
	TokensIn     int64 `json:"tokens_in"`   // cached ones included
	TokensOut    int64 `json:"tokens_out"`
	TokensCached int64 `json:"tokens_cached"`
	CostUSD      USD   `json:"cost_usd"`
	HeldUSD      USD   `json:"held_usd,omitzero"` // beside the cost, for attempts that were lost: nobody knows what they cost
	Exact        bool  `json:"exact"`             // whoever used something has told how much, and what it cost
	Retries      int64 `json:"retries"`
	Gates        int64 `json:"gates"` // that were opened
}

// Add adds what another part of the run has used.
func (m *Metric) Add(n Metric) {
	m.ModelCalls += n.ModelCalls
	m.ToolCalls += n.ToolCalls
	m.Invocations += n.Invocations
	m.TokensIn += n.TokensIn
	m.TokensOut += n.TokensOut
	m.TokensCached += n.TokensCached
	m.CostUSD += n.CostUSD
	m.HeldUSD += n.HeldUSD
	m.Exact = m.Exact && n.Exact
	m.Retries += n.Retries
	m.Gates += n.Gates
}

// used adds what a model has counted; nil: it did not tell.
func (m *Metric) used(u *ModelUsage) {
	if u == nil {
		m.Exact = false
		return
	}
	m.TokensIn += u.InputTokens
	m.TokensOut += u.OutputTokens
	m.TokensCached += u.CacheReadTokens
	m.Exact = m.Exact && u.CostUSD != nil
}

// MetricRow is a part of the totals.
type MetricRow struct {
	Name string `json:"name"` // of a stage, the path of a step, an agent or a worker; of parts, the model; "": no agent has done it
	Metric
	// Parts explain the row and are not added to anything: what models answered, also inside
	// of workers, whose calls count for no bound.
	Parts []MetricRow `json:"parts,omitempty"`
}

// RunMetrics is what a run has used and how long it took. What it inherits from the run that
// it was forked from is in its bounds, and not here.
type RunMetrics struct {
	Run     ID    `json:"run_id"`
	HeadSeq int64 `json:"head_seq"`
	Metric
	WallS    float64     `json:"wall_s"`    // since it was made, up to its end
	ActiveS  float64     `json:"active_s"`  // of which it was driven
	WaitingS float64     `json:"waiting_s"` // and the rest
	Steps    []MetricRow `json:"steps"`     // by stage or step; they add up to the totals
	Agents   []MetricRow `json:"agents"`    // by agent; so do they
}

// Metrics is what a run has used up to a moment.
func Metrics(ctx context.Context, r RunReader, id ID, now time.Time) (RunMetrics, error) {
	run, err := r.Get(ctx, id)
	if err != nil {
		return RunMetrics{}, err
	}
	doc, err := documentOf(ctx, r, run)
	if err != nil {
		return RunMetrics{}, err
	}
	m := meter{steps: map[string]*stepMeter{}, agents: doc.agents(run), whole: map[string]bool{}}
	for e, err := range upTo(ctx, r, run) {
		if err != nil {
			return RunMetrics{}, err
		}
		m.apply(&e)
	}
	return m.report(run, now), nil
}

// meter sums up the records of a run. Each step has a ledger, and the same rules charge it
// that charge the run's: so the steps add up to what the run has used.
type meter struct {
	fold      Fold
	inherited int64 // milliseconds of driving, of a fork
	order     []*stepMeter
	steps     map[string]*stepMeter
	agents    map[string]string // by step
	whole     map[string]bool   // visits of stages that one call has done
}

type stepMeter struct {
	row    MetricRow
	ledger Ledger
}

// step is where the figures of a place belong.
func (m *meter) step(path string) *stepMeter {
	name := m.place(path)
	s := m.steps[name]
	if s == nil {
		s = &stepMeter{row: MetricRow{Name: name, Metric: Metric{Exact: true}}, ledger: Ledger{Holds: m.fold.Ledger.Holds}}
		m.steps[name], m.order = s, append(m.order, s)
	}
	return s
}

// place is the step, or the stage without its visit, that a path lies in.
func (m *meter) place(path string) string {
	switch {
	case path == "" || ofDelivery(path):
		return "deliver"
	case m.fold.Pipeline == nil:
		return leafOf(path)
	}
	return stageOf(path)
}

// stageOf is the stage of a path without its visit.
func stageOf(path string) string {
	first, _, _ := strings.Cut(path, "/")
	name, _, _ := strings.Cut(first, "#")
	return name
}

func (m *meter) apply(e *Event) {
	m.fold.Apply(e)
	switch e.Kind {
	case KindRunForked:
		m.inherited = m.fold.WallMs
	case KindEffectIntended, KindEffectFailed, KindEffectFinished:
		m.applyEffect(e)
	case KindEffectSuspended:
		m.step(e.Path).ledger.suspend(e.Path)
	case KindBoundReserved:
		m.step(e.Path).ledger.reserve(e.Path, BodyOf[BoundReserved](e).By)
	case KindBoundUsed:
		m.step(e.Path).ledger.spent(e.Path, BodyOf[BoundUsed](e).SoFar)
	case KindGateTaken:
		m.step(AskerPath(InDoubt, e.Path)).ledger.decideDoubt(e.Path, m.fold.Given)
	case KindRunContinued: // a segment begins while no call is under way
		for _, s := range m.order {
			s.ledger.carry(nil, nil, nil)
		}
	case KindIntentAttest, KindIntentFail, KindIntentCancel:
		for _, s := range m.order {
			s.ledger.end()
		}
	case KindStageRetrying:
		m.step(e.Path).row.Retries++
	case KindPolicyGate, KindIntentClarify:
		if b, err := flow.ReadOpened(string(e.Kind), e.Body); err == nil {
			m.step(AskerPath(GateKind(b.Kind), e.Path)).row.Gates++
		}
	default:
		m.applyAgent(e)
	}
}

func (m *meter) applyEffect(e *Event) {
	var b Effect
	if !decode(e.Body, &b) {
		return
	}
	path := e.Path
	if up := parentPath(path); up != "" && slices.Contains(agentActivities, b.Name) {
		path = up
	}
	s := m.step(path)
	switch e.Kind {
	case KindEffectIntended:
		s.ledger.intend(e.Path, &b)
		return
	case KindEffectFailed:
		s.row.Retries++
	}
	if slices.Contains(stageActivities, b.Name) {
		visit, _, _ := strings.Cut(e.Path, "/")
		m.whole[visit] = true
	}
	s.ledger.finish(e.Path, &b)
}

// stageActivities are the calls that do a stage as a whole: those of a host of agents, and of
// a script. What they have used is told with the stage's end.
var stageActivities = []string{"stage.remote", "stage.scripted"}

// applyAgent takes in what models have counted. Inside of a worker that only explains what
// the end of its invocation tells.
func (m *meter) applyAgent(e *Event) {
	switch e.Kind {
	case KindAgentMessage:
		b := BodyOf[AgentMessage](e)
		s := m.step(e.Path)
		if b.Invocation == "" {
			s.row.used(b.Usage)
		}
		part := s.part(b.Model)
		part.ModelCalls++
		part.used(b.Usage)
		if b.Usage != nil && b.Usage.CostUSD != nil {
			part.CostUSD += *b.Usage.CostUSD
		}
	case KindAgentRouterDecided:
		if b := BodyOf[AgentRouterDecided](e); b.Usage != nil {
			m.step(e.Path).row.used(b.Usage)
		}
	case KindWorkerStarted:
		s := m.step(e.Path)
		s.row.Invocations++
		m.agents[s.row.Name] = BodyOf[WorkerStarted](e).Worker
	case KindWorkerEnded:
		b := BodyOf[WorkerEnded](e)
		s := m.step(e.Path)
		s.row.used(&b.Usage)
		s.row.Exact = s.row.Exact && b.UsageKnown
	case KindStageFinished:
		if b := BodyOf[StageFinished](e); m.whole[e.Path] {
			s := m.step(e.Path)
			s.row.TokensIn += b.Usage.TokensIn
			s.row.TokensOut += b.Usage.TokensOut
		}
	}
}

func (s *stepMeter) part(model string) *Metric {
	i := slices.IndexFunc(s.row.Parts, func(p MetricRow) bool { return p.Name == model })
	if i < 0 {
		i = len(s.row.Parts)
		s.row.Parts = append(s.row.Parts, MetricRow{Name: model, Metric: Metric{Exact: true}})
	}
	return &s.row.Parts[i].Metric
}

// report closes the sums.
func (m *meter) report(run Run, now time.Time) RunMetrics {
	got := RunMetrics{Run: run.ID, HeadSeq: run.HeadSeq, Metric: Metric{Exact: true}, Steps: []MetricRow{}, Agents: []MetricRow{}}
	for _, s := range m.order {
		row := s.row
		row.ModelCalls, row.ToolCalls, row.CostUSD = s.ledger.Used[BoundModelCalls], s.ledger.Used[BoundToolCalls], USD(s.ledger.Used[BoundCostUSD])
		row.HeldUSD = USD(s.ledger.Held[BoundCostUSD])
		row.Exact = row.Exact && s.ledger.Lost[BoundCostUSD] == 0 && len(s.ledger.Held) == 0
		if row.Metric == (Metric{Exact: true}) && len(row.Parts) == 0 {
			continue // nothing was used there
		}
		got.Add(row.Metric)
		got.Steps = append(got.Steps, row)
		agent := m.agents[row.Name]
		i := slices.IndexFunc(got.Agents, func(a MetricRow) bool { return a.Name == agent })
		if i < 0 {
			got.Agents = append(got.Agents, MetricRow{Name: agent, Metric: row.Metric})
		} else {
			got.Agents[i].Add(row.Metric)
		}
	}
	end := now
	if !run.EndedAt.IsZero() {
		end = run.EndedAt
	}
	wall := max(0, end.Sub(run.CreatedAt).Milliseconds())
	active := min(wall, max(0, m.fold.used(run.Condition, now)[BoundWallTime]-m.inherited))
	got.WallS, got.ActiveS, got.WaitingS = seconds(wall), seconds(active), seconds(wall-active)
	return got
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }

// agents are who does the steps of a program, by step. Stages are agents themselves.
func (d *programDocument) agents(run Run) map[string]string {
	all := map[string]string{}
	for _, a := range d.Agents {
		all[a.Name] = a.Name
	}
	if run.Turn != nil {
		all[ProgramTurn] = run.Turn.Agent
	}
	d.walk(func(n *documentNode, path string) {
		if n.Kind == "step" || n.Kind == "sub_dispatch" {
			all[path] = cmp.Or(n.Agent, "default")
		}
	})
	return all
}
