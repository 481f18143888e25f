package reply

import "github.com/tipstaff/tipstaff/agent"

// EmptyArguments are those of a call that has none.
const EmptyArguments = "{}"

// settle is the reason of a whole answer. Calls count, whatever the reason: servers
// say stop with them too.
func (w *Wire) settle(reason agent.Reason, calls []agent.Call) (agent.Reason, error) {
	switch {
	case reason == agent.ReasonStop && len(calls) > 0:
		reason = agent.ReasonToolCalls
	case reason == agent.ReasonToolCalls && len(calls) == 0:
		return "", w.protocol("the answer ended for tool calls and has none")
	}
	if reason == agent.ReasonToolCalls {
		for i, c := range calls {
			if c.Name == "" {
				return "", w.protocol("call %d names no tool", i+1)
			}
		}
	}
	return reason, nil
}

// Priced completes what a vendor counted.
func Priced(u *agent.Usage, price *agent.Price) *agent.Usage {
	if u == nil {
		return nil
	}
	u.TotalTokens = u.InputTokens + u.OutputTokens
	if price != nil {
		cost := price.Cost(*u)
		u.CostUSD = &cost
	}
	return u
}
