package tipstaff

// Allowance is whether a stage of any kind could start in a pipeline run, and what
// is left to it. Asking has no side effect.
type Allowance struct {
	CanContinue      bool
	Reason           string           // why not, in the words of terminal reasons; "": it can, or a question is open
	InterruptPending bool             // a person is asked first
	Outcome          string           // of a run that has ended
	Left             map[string]int64 // by bound, never negative; one that is absent has no limit
	Version          int64
}

// the bounds that stand in the way of any stage, in the order in which they are
// looked at, and how a pipeline ends by them.
var standing = []struct{ bound, reason string }{
	{BoundAgentHops, "max_agent_hops_exceeded"},
	{BoundModelCalls, "max_llm_calls_exceeded"},
	{BoundTokens, "max_tokens_exceeded"},
	{BoundCostUSD, "max_cost_exceeded"},
	{BoundWallTime, "deadline_exceeded"},
}

// AllowanceOf tells it from the status of a run: held counters, and no data.
func AllowanceOf(run Run) Allowance {
	a := Allowance{Left: make(map[string]int64, len(run.Bounds)), InterruptPending: len(run.OpenGates) > 0}
	if run.Pipeline != nil {
		a.Version = run.Pipeline.Version
	}
	for name, b := range run.Bounds {
		if b.Limited {
			a.Left[name] = max(0, b.Limit-b.Used-b.Reserved)
		}
	}
	if run.State.Terminal() {
		a.Outcome = run.outcome()
		if run.Pipeline != nil {
			a.Reason = run.Pipeline.TerminalReason
		}
		return a
	}
	for _, s := range standing {
		if left, limited := a.Left[s.bound]; limited && left == 0 {
			a.Reason = s.reason
			return a
		}
	}
	a.CanContinue = !a.InterruptPending
	return a
}

// outcome is how a pipeline ended: completed, bound_exceeded, failed or cancelled.
func (r *Run) outcome() string {
	if r.State == Failed && r.Error != nil && r.Error.Bound != "" {
		return "bound_exceeded"
	}
	return string(r.State)
}
