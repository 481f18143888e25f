package main

import (
	"encoding/json"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/worker"
)

// workerRules are a policy as package worker asks it. A nil policy denies.
type workerRules struct {
	policy   *policy.Policy
	run      policy.Run             // whose worker asks
	writable func(path string) bool // to a command of the worker; nil: nothing is
}

var _ worker.Rules = workerRules{}

func (w workerRules) Static(server, tool, class string) worker.Ruling {
	v, depends := w.policy.Static(server, tool, flow.Class(class))
	r := worker.Ruling{Effect: v.Do.String(), Rules: v.Rules, Why: v.Why, Digest: v.PolicyDigest, Class: class}
	if depends {
		r.Effect = worker.Depends
	}
	return r
}

// Decide judges as the gate of package tool does: guards first, then the rules.
func (w workerRules) Decide(server, tool, class string, args json.RawMessage) worker.Ruling {
	c := policy.Call{Server: server, Tool: tool, Class: flow.Class(class), Args: args, Run: w.run, Writable: w.writable}
	found := w.policy.Inspect(c)
	r := worker.Ruling{Class: class, Facts: found.Facts(), Guards: found.Classes(), Digest: w.policy.Digest()}
	if f, refused := found.Refused(); refused {
		r.Effect, r.Rules, r.Why = worker.Deny, []string{f.Guard}, f.Refused
		return r
	}
	if found.Writes() {
		c.Class, c.Destructive = flow.Once, true
		r.Class = string(flow.Once)
	}
	c.Facts = found.Seen()
	v := w.policy.Decide(c)
	r.Effect, r.Rules, r.Why = v.Do.String(), []string{v.Rule}, v.Why
	return r
}
