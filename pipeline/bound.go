package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// refusal is a bound that stands in the way.
type refusal struct {
	reason      tipstaff.TerminalReason
	bound       string // by the name that events and answers have for it
	limit, used int64
	what        string // is refused
	stage, path string // where somebody is asked for more
	transition  string // the reason of the refused edge's; "": there is no edge
	text        string // of an ending; "": what is used of the limit
	noted       bool   // the engine has recorded it
	raise       func(by int64)
}

// Names of bounds that the ledger does not know, as events and answers have them.
const (
	boundEdge   = "edge_limits"
	boundVisits = "max_visits"
	boundStages = "max_stages"
)

// ledgerReasons are the endings of bounds that the ledger knows.
var ledgerReasons = map[string]tipstaff.TerminalReason{
	tipstaff.BoundModelCalls: tipstaff.TerminalLLMCalls, tipstaff.BoundToolCalls: tipstaff.TerminalToolCalls, tipstaff.BoundTokens: tipstaff.TerminalTokens,
	tipstaff.BoundCostUSD: tipstaff.TerminalCost, tipstaff.BoundAgentHops: tipstaff.TerminalHops, tipstaff.BoundWallTime: tipstaff.TerminalDeadline,
	tipstaff.BoundIterations: tipstaff.TerminalIterations,
}

// isBound reports whether a call failed because a bound refused it, or because the
// run's time is over.
func isBound(e *flow.Error) bool {
	return e.Code == flow.CodeBoundExceeded || e.Code == flow.CodeDeadline
}

// reasonOf is the ending that a refused call means.
func reasonOf(e *flow.Error) tipstaff.TerminalReason {
	if e.Code == flow.CodeDeadline {
		return tipstaff.TerminalDeadline
	}
	if r, ok := ledgerReasons[e.Bound]; ok {
		return r
	}
	return tipstaff.TerminalInternal
}

// edgeRefusal is the limit that refuses an edge; nil: it may be taken.
func (x *executor) edgeRefusal(v *visit, t target) *refusal {
	from, e := v.agent.Name, x.env
	to := x.p.Agent(t.to)
	cycle := x.p.IsCycle(from, t.to)
	r := &refusal{what: from + " → " + t.to, stage: from, path: v.path}
	limit := x.p.limits[Edge{from, t.to}]
	switch {
	case t.granted:
	case limit > 0 && x.limitedCount(Edge{from, t.to}) >= limit+countOf(x.MoreEdges, from, t.to):
		r.reason, r.bound, r.transition = tipstaff.TerminalEdgeLimit, boundEdge, tipstaff.TransitionEdge
		r.used, r.limit = x.limitedCount(Edge{from, t.to}), limit+countOf(x.MoreEdges, from, t.to)
		r.raise = func(by int64) { x.MoreEdges, _ = addEdge(x.MoreEdges, from, t.to, by) }
		return r
	case x.visitsSpent(to):
		visits := x.visitRefusal(to)
		r.reason, r.bound, r.used, r.limit, r.raise = visits.reason, visits.bound, visits.used, visits.limit, visits.raise
		r.transition = tipstaff.TransitionVisit
		return r
	case cycle && e.Iteration >= e.MaxIterations:
		r.reason, r.bound, r.transition = tipstaff.TerminalIterations, tipstaff.BoundIterations, tipstaff.TransitionIteration
		r.used, r.limit = e.Iteration, e.MaxIterations
		r.raise = func(by int64) { e.MaxIterations += by }
		return r
	}
	if cycle && x.startsRound(v) && e.CurrentStageNumber >= e.MaxStages {
		r.reason, r.bound, r.used, r.limit = tipstaff.TerminalStages, boundStages, e.CurrentStageNumber, e.MaxStages
		r.raise = func(by int64) { e.MaxStages += by }
		return r
	}
	return nil
}

// visitsSpent reports whether a stage has started as often as it may.
func (x *executor) visitsSpent(a *Agent) bool {
	return a.MaxVisits > 0 && x.env.Visits[a.Name] >= a.MaxVisits+x.MoreVisits[a.Name]
}

// startRefusal is a bound that keeps a stage from starting.
func (x *executor) startRefusal(a *Agent, r tipstaff.TerminalReason, bound string, used, limit int64, raise func(by int64)) *refusal {
	return &refusal{reason: r, bound: bound, used: used, limit: limit, raise: raise,
		what: a.Name, stage: a.Name, path: pathOf(a.Name, x.env.Visits[a.Name]+1)}
}

func (x *executor) visitRefusal(a *Agent) *refusal {
	return x.startRefusal(a, tipstaff.TerminalVisits, boundVisits, x.env.Visits[a.Name], a.MaxVisits+x.MoreVisits[a.Name], func(by int64) {
		if x.MoreVisits == nil {
			x.MoreVisits = map[string]int64{}
		}
		x.MoreVisits[a.Name] += by
	})
}

func (x *executor) hopRefusal(a *Agent) *refusal {
	e := x.env
	return x.startRefusal(a, tipstaff.TerminalHops, tipstaff.BoundAgentHops, e.AgentHopCount, e.MaxAgentHops, func(by int64) { e.MaxAgentHops += by })
}

func (x *executor) callRefusal(a *Agent) *refusal {
	e := x.env
	return x.startRefusal(a, tipstaff.TerminalLLMCalls, tipstaff.BoundModelCalls, e.LLMCallCount, e.MaxLLMCalls, func(by int64) { e.MaxLLMCalls += by })
}

// ledgerRefusal is what the ledger's refusal of a start means; nil: it is no bound.
func (x *executor) ledgerRefusal(v *visit, by *flow.Error) *refusal {
	if !isBound(by) {
		return nil
	}
	var r *refusal
	switch by.Bound {
	case tipstaff.BoundAgentHops:
		r = x.hopRefusal(v.agent)
	case tipstaff.BoundModelCalls:
		r = x.callRefusal(v.agent)
	case "": // the deadline of the job: nobody can extend it
		r = x.startRefusal(v.agent, reasonOf(by), "", 0, 0, nil)
	default: // the ledger raises itself
		r = x.startRefusal(v.agent, reasonOf(by), by.Bound, 0, 0, func(int64) {})
	}
	r.noted, r.text = true, v.agent.Name+": "+by.Message
	return r
}

// refuse records that a bound stands in the way, and ends the run: or, where the
// document says so, asks for more. nil means that there is more.
func (x *executor) refuse(r *refusal) error {
	if !r.noted {
		x.emitAt(r.path, tipstaff.KindBoundRefused, tipstaff.BoundRefused{Bound: r.bound, Limit: r.limit, Used: r.used, Refused: r.what})
	}
	if x.p.OnBound == AskMore && r.raise != nil {
		by, err := x.askMore(r)
		if err != nil {
			return err
		}
		if by > 0 {
			r.raise(by)
			x.env.Version++
			return nil
		}
	}
	text := fmt.Sprintf("%s: %d of %d %s are used", r.what, r.used, r.limit, x.boundName(r))
	return x.end(r.reason, cmp.Or(r.text, text), where{stage: r.stage, path: r.path, code: flow.CodeBoundExceeded})
}

// boundName is what people are told that a bound is called: as the document has it.
func (x *executor) boundName(r *refusal) string {
	if x.state.Earlier {
		return r.bound
	}
	return cmp.Or(r.reason.Bound(), r.bound)
}

// Actions at a gate about a bound.
const (
	actionExtend = "extend"
	actionStop   = "stop"
)

type boundSubject struct {
	Bound   string `json:"bound"`
	Limit   int64  `json:"limit"`
	Used    int64  `json:"used"`
	Refused string `json:"refused"`
	Stage   string `json:"stage"`
}

// askMore opens a bound gate. The ledger raises its own bounds by the same answer,
// and the engine notes every extension.
func (x *executor) askMore(r *refusal) (by int64, err error) {
	key := "bound"
	if x.bounds[r.path]++; x.bounds[r.path] > 1 {
		key += "#r" + strconv.Itoa(x.bounds[r.path]) // bound#2 is the engine's own
	}
	d, err := x.wait(r.stage, r.path, flow.Gate{Key: key, Kind: string(tipstaff.Bound),
		Question: fmt.Sprintf("%s: the bound %s is reached. Extend it?", r.what, x.boundName(r)),
		Subject:  flow.JSON(boundSubject{r.bound, r.limit, r.used, r.what, r.stage}),
		Actions:  []string{actionExtend, actionStop}, Deny: actionStop})
	if err != nil || d.Action != actionExtend {
		return 0, err
	}
	var amounts map[string]int64
	if json.Unmarshal(d.Answer, &amounts) != nil {
		return 0, nil
	}
	if by, ok := amounts[r.bound]; ok {
		return by, nil
	}
	if _, known := ledgerReasons[r.bound]; known && r.bound != tipstaff.BoundIterations {
		return 0, nil // the ledger would not have understood it either
	}
	return amounts[r.reason.Bound()], nil
}

// Budget is what is left to the run. Time is not in it: the engine alone knows how
// much has passed, and bounds every call by it.
func (e *Envelope) Budget() Budget {
	left := func(most, used int64) int64 { return max(0, most-used) }
	return Budget{
		tipstaff.BoundIterations: left(e.MaxIterations, e.Iteration),
		tipstaff.BoundModelCalls: left(e.MaxLLMCalls, e.LLMCallCount),
		tipstaff.BoundAgentHops:  left(e.MaxAgentHops, e.AgentHopCount),
		tipstaff.BoundToolCalls:  left(e.MaxToolCalls, e.ToolCallCount),
		tipstaff.BoundTokens:     left(e.MaxTokens, e.TokensIn+e.TokensOut),
		tipstaff.BoundCostUSD:    left(int64(e.MaxCostUSD), int64(e.CostUSD)),
	}
}
