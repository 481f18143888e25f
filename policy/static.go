package policy

import "github.com/tipstaff/tipstaff/flow"

// Static says what Decide would say about calls of a tool before there is a call.
// depends: that rests with its arguments, or with the turn or run it is made in;
// v is then what holds if no condition does. A tool that a guard watches is
// refused or raised by what is in a call, so that only a deny of every class is
// certain.
func (p *Policy) Static(server, tool string, class flow.Class) (v Verdict, depends bool) {
	v, depends = p.foreseen(Call{Server: server, Tool: tool, Class: class})
	if !p.watched(server, tool) {
		return v, depends
	}
	raised, _ := p.foreseen(Call{Server: server, Tool: tool, Class: flow.Once})
	return v, v.Do != Deny || raised.Do != Deny
}

// foreseen is the verdict of the rules without a condition. One with a condition
// can change it by being stricter, or by being the only one.
func (p *Policy) foreseen(c Call) (v Verdict, depends bool) {
	if p == nil {
		return Verdict{}, false
	}
	certain := &Policy{digest: p.Digest()}
	for i := range p.rules {
		if p.rules[i].when == nil {
			certain.rules = append(certain.rules, p.rules[i])
		}
	}
	v = certain.Decide(c)
	for i := range p.rules {
		r := &p.rules[i]
		if r.when != nil && r.concerns(&c) && (r.Do < v.Do || r.Do != v.Do && v.Rule == NoMatch) {
			return v, true
		}
	}
	return v, false
}
