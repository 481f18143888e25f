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
	e := tipstaff.Explanation{URI: uri, Do: policy.Deny.String(), Checks: []tipstaff.ToolCheck{}, Rules: []tipstaff.MatchedRule{}, Outcomes: []tipstaff.CallOutcome{}}
	v := g.pass(Request{URI: uri, Args: args, Agent: true}, func(check string, refused *flow.Error) {
		c := tipstaff.ToolCheck{Check: check, OK: refused == nil}
		if refused != nil {
			c.Code, c.Message, c.Detail = refused.Code, refused.Message, refused.Detail
		}
		e.Checks = append(e.Checks, c)
	})
	if u, err := ParseURI(uri); err == nil {
		e.Server, e.Tool = u.Server, u.Tool
	}
	if v.Definition != nil {
		e.Class = string(v.Definition.Class)
	}
	if v.Args != nil {
		e.Args, e.ArgsDigest = v.Args, digestOf(v.Args)
	}
	for _, w := range ways {
		o := g.Ask(Request{URI: uri, Args: args, Literal: w.literal, Agent: w.agent})
		e.Outcomes = append(e.Outcomes, tipstaff.CallOutcome{When: w.when, Do: o.Do.String(), By: o.By})
	}
	if v.Definition != nil && v.Args != nil {
		g.explainPolicy(&e, policy.Call{Server: v.Definition.Server, Tool: v.Definition.Tool, URI: uri, Class: v.Definition.Class, Args: v.Args})
	}
	return e
}

// explainPolicy also speaks where the effect was refused before: what the rules
// say is known all the same.
func (g *Gate) explainPolicy(e *tipstaff.Explanation, call policy.Call) {
	p := g.Policy.Decide(call)
	e.Rule, e.PolicyDigest, e.Why = p.Rule, p.PolicyDigest, p.Why
	if last := e.Checks[len(e.Checks)-1]; last.Check == checkPolicy {
		e.Do = p.Do.String()
	}
	for _, m := range g.Policy.Matching(call) {
		e.Rules = append(e.Rules, tipstaff.MatchedRule{ID: m.Rule, Do: m.Do.String(), Why: m.Why})
	}
}
