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

// stopping are the bounds that keep any stage from starting, in the order in which
// they are checked, and how a pipeline ends by them.
var stopping = []struct {
	bound  string
	reason TerminalReason
}{
	{BoundAgentHops, TerminalHops},
	{BoundModelCalls, TerminalLLMCalls},
	{BoundTokens, TerminalTokens},
	{BoundCostUSD, TerminalCost},
	{BoundWallTime, TerminalDeadline},
}

// AllowanceOf tells it from the status of a run: held counters, and no data.
func AllowanceOf(run Run) Allowance {
	a := Allowance{Left: make(map[string]int64, len(run.Bounds)), InterruptPending: len(run.OpenGates) > 0}
	if run.Pipeline != nil {
		a.Version = run.Pipeline.Version
	}
	for name, b := range run.Bounds {
		if b.Limited {
			a.Left[name] = b.Left()
		}
	}
	if run.State.Terminal() {
		a.Outcome = string(run.State) // completed, failed or cancelled
		if run.State == Failed && run.Error != nil && run.Error.Bound != "" {
			a.Outcome = OutcomeBound
		}
		if run.Pipeline != nil {
			a.Reason = run.Pipeline.TerminalReason
		}
		return a
	}
	for _, s := range stopping {
		if left, limited := a.Left[s.bound]; limited && left == 0 {
			a.Reason = string(s.reason)
			return a
		}
	}
	a.CanContinue = !a.InterruptPending
	return a
}
