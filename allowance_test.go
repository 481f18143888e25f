package tipstaff

import "testing"

func TestAllowance(t *testing.T) {
	fresh := func() *Run {
		return &Run{State: Executing, Pipeline: &PipelineStatus{Version: 7}, Bounds: BoundsStatus{
			BoundAgentHops:  {Used: 2, Limit: 20, Limited: true},
			BoundModelCalls: {Used: 1, Limit: 10, Limited: true},
			BoundToolCalls:  {Used: 0, Limit: 50, Limited: true},
			BoundTokens:     {Used: 900, Limit: 100000, Limited: true},
			BoundCostUSD:    {Used: 250e6, Limit: 1e9, Limited: true},
			BoundWallTime:   {Used: 2000, Limit: 30000, Limited: true},
			BoundStages:     {Used: 1, Limit: 3, Limited: true},
		}}
	}
	uses := func(bound string, used int64) func(*Run) {
		return func(r *Run) { r.Bounds[bound] = BoundStatus{Used: used, Limit: r.Bounds[bound].Limit, Limited: true} }
	}
	for _, c := range []struct {
		name    string
		change  func(*Run)
		can     bool
		reason  string
		outcome string
		bound   string // looked at
		left    int64
	}{
		{"fresh", func(*Run) {}, true, "", "", BoundAgentHops, 18},
		{"stages are counted", func(*Run) {}, true, "", "", BoundStages, 2},
		{"money is in billionths", func(*Run) {}, true, "", "", BoundCostUSD, 750_000_000},
		{"time is in milliseconds", func(*Run) {}, true, "", "", BoundWallTime, 28_000},
		{"the last hop is left", uses(BoundAgentHops, 19), true, "", "", BoundAgentHops, 1},
		{"no hop", uses(BoundAgentHops, 20), false, "max_agent_hops_exceeded", "", BoundAgentHops, 0},
		{"more model calls than there were", uses(BoundModelCalls, 13), false, "max_llm_calls_exceeded", "", BoundModelCalls, 0},
		{"what is reserved is not left", func(r *Run) { r.Bounds[BoundModelCalls] = BoundStatus{Used: 7, Reserved: 3, Limit: 10, Limited: true} },
			false, "max_llm_calls_exceeded", "", BoundModelCalls, 0},
		{"no token", uses(BoundTokens, 100000), false, "max_tokens_exceeded", "", BoundTokens, 0},
		{"no money", uses(BoundCostUSD, 1e9), false, "max_cost_exceeded", "", BoundCostUSD, 0},
		{"no time", uses(BoundWallTime, 30_000), false, "deadline_exceeded", "", BoundWallTime, 0},
		{"no tool call is no matter", uses(BoundToolCalls, 50), true, "", "", BoundToolCalls, 0},
		{"no round is no matter", uses(BoundStages, 3), true, "", "", BoundStages, 0},
		{"a question waits", func(r *Run) { r.OpenGates = []Gate{{}} }, false, "", "", BoundAgentHops, 18},
		{"it has ended", func(r *Run) { r.State, r.Pipeline.TerminalReason = Completed, "break_requested" }, false, "break_requested", "completed", BoundAgentHops, 18},
		{"a bound has ended it", func(r *Run) {
			r.State, r.Pipeline.TerminalReason, r.Error = Failed, "max_tokens_exceeded", &Failure{Bound: BoundTokens}
		}, false, "max_tokens_exceeded", "bound_exceeded", BoundAgentHops, 18},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := fresh()
			c.change(run)
			got := AllowanceOf(*run)
			if got.CanContinue != c.can || got.Reason != c.reason || got.Outcome != c.outcome || got.Version != 7 {
				t.Errorf("%+v", got)
			}
			if got.InterruptPending != (len(run.OpenGates) > 0) {
				t.Errorf("%+v", got)
			}
			if got.Left[c.bound] != c.left {
				t.Errorf("%d %s are left, want %d", got.Left[c.bound], c.bound, c.left)
			}
		})
	}
	unlimited := AllowanceOf(Run{State: Executing, Bounds: BoundsStatus{BoundTokens: {Used: 5}}})
	if _, limited := unlimited.Left[BoundTokens]; limited || !unlimited.CanContinue {
		t.Errorf("%+v", unlimited)
	}
}
