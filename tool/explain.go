package tool

import (
	"encoding/json"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
)

// ways are how a call can come about: the gate treats them differently where the
// policy asks.
var ways = []struct {
	when           string
	literal, agent bool
}{
	{"literal", true, false},
	{"referenced", false, false},
	{"agent", false, true},
}

// Explain says what the gate would decide about a call, check by check, and for
// each way in which the call could be made.
func (g *Gate) Explain(uri string, args json.RawMessage) tipstaff.Explanation {
	e := tipstaff.Explanation{URI: uri, Do: policy.Deny.String(), Checks: []tipstaff.ToolCheck{},
		Guards: []tipstaff.GuardFinding{}, Rules: []tipstaff.MatchedRule{}, Outcomes: []tipstaff.CallOutcome{}}
	call := Request{URI: uri, Args: args, Agent: true}
	v := g.pass(call, func(check string, refused *flow.Error) {
		c := tipstaff.ToolCheck{Check: check, OK: refused == nil}
		if refused != nil {
			c.Code, c.Message, c.Detail = refused.Code, refused.Message, refused.Detail
		}
		e.Checks = append(e.Checks, c)
	})
	if u, err := tipstaff.ParseToolURI(uri); err == nil {
		e.Server, e.Tool = u.Server, u.Tool
	}
	if v.Args != nil {
		e.Args, e.ArgsDigest = v.Args, flow.Digest(v.Args)
	}
	for _, w := range ways {
		o := g.Ask(Request{URI: uri, Args: args, Literal: w.literal, Agent: w.agent})
		e.Outcomes = append(e.Outcomes, tipstaff.CallOutcome{When: w.when, Do: o.Do.String(), By: o.By})
	}
	if d := v.Definition; d != nil {
		foreseen, depends := g.Policy.Static(d.Server, d.Tool, d.Class)
		e.Class, e.Static = string(v.Class), foreseen.Do.String()
		if depends {
			e.Static = "depends"
		}
	}
	if v.Definition != nil && v.Args != nil {
		g.explainPolicy(&e, call, v)
	}
	return e
}

// explainPolicy adds what guards and rules say, even if the call was refused before
// they were reached.
func (g *Gate) explainPolicy(e *tipstaff.Explanation, call Request, v Verdict) {
	for _, f := range g.Policy.Inspect(g.seen(call, &v)) {
		e.Guards = append(e.Guards, tipstaff.GuardFinding{Guard: f.Guard, Name: f.Name, Class: f.Class, Facts: f.Facts, Refused: f.Refused})
	}
	_ = g.guard(call, &v) // for facts and class: whether it refuses is among the checks
	e.Class = string(v.Class)
	seen := g.seen(call, &v)
	p := g.Policy.Decide(seen)
	e.Rule, e.PolicyDigest, e.Why = p.Rule, p.PolicyDigest, p.Why
	if last := e.Checks[len(e.Checks)-1]; last.Check == checkPolicy {
		e.Do = p.Do.String()
	}
	for _, m := range g.Policy.Matching(seen) {
		e.Rules = append(e.Rules, tipstaff.MatchedRule{ID: m.Rule, Do: m.Do.String(), Why: m.Why})
	}
}
