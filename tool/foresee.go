package tool

import (
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
)

// Foresee refuses a call of a program that no run of it could make: what manifest, lock
// and policy decide by themselves, and arguments that stand in the program as they are.
// nil: it depends on what comes.
func (g *Gate) Foresee(call Request) *flow.Error {
	u, refused := g.declared(call.URI)
	if refused != nil {
		return refused
	}
	d, refused := g.known(u)
	if refused != nil {
		return refused
	}
	if refused := g.held(d, u); refused != nil {
		return refused
	}
	if call.Literal {
		if _, refused := arguments(d, call.Args); refused != nil {
			return refused
		}
	}
	if refused := g.effect(d); refused != nil {
		return refused
	}
	if v, depends := g.Policy.Static(d.Server, d.Tool, d.Class); v.Do == policy.Deny && !depends {
		return denied(v, call)
	}
	return nil
}
