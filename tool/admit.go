package tool

import "github.com/tipstaff/tipstaff/policy"

// Admit is Ask at the moment of dispatch, on the bytes that are about to be sent.
// Nobody can be asked any more at this point, so an open question refuses; so does
// what is not what was decided about. Acceptance counts only where the program has
// said that it does.
func (g *Gate) Admit(in Input, run policy.Run) Verdict {
	call := Request{URI: in.URI, Args: in.Args, By: in.By, Agent: in.agent(), Turn: in.turn(), Run: run}
	v := g.Ask(call)
	if v.Do == policy.Ask {
		v.Err = denied(policy.Verdict{Do: policy.Ask, Rule: v.Rule, PolicyDigest: v.PolicyDigest}, call)
	}
	if v.Err == nil {
		v.Err = in.approved(v)
	}
	if v.Err != nil {
		v.Do = policy.Deny
	}
	return v
}
