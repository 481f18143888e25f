package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"cel.dev/cel-go/cel"

	"github.com/tipstaff/tipstaff/flow"
)

// NoMatch is the rule named when no rule matched: the call is asked about.
const NoMatch = "builtin/no-match"

// Verdict is a decision and the rule that made it. The zero Verdict denies.
type Verdict struct {
	Do           Action `json:"do"`
	Rule         string `json:"rule"`
	PolicyDigest string `json:"policy_digest"`
	Why          string `json:"why,omitempty"`
}

// Policy is a document that was found valid. The zero Policy has no rules: every
// call is asked about.
type Policy struct {
	guards []watch
	rules  []compiled
	digest string
}

type compiled struct {
	Rule
	glob glob
	when cel.Program // nil: always
}

// Decide is the verdict on a call, in which the facts that [Policy.Inspect] gives
// stand already. It is pure and total: every call has one, and equal calls have
// equal ones. A nil policy denies.
func (p *Policy) Decide(c Call) Verdict {
	if p == nil {
		return Verdict{}
	}
	var seen view
	best := -1
	for i := range p.rules {
		if (best < 0 || p.rules[i].Do < p.rules[best].Do) && p.rules[i].matches(&c, &seen) {
			best = i
		}
	}
	if best < 0 {
		return Verdict{Do: Ask, Rule: NoMatch, PolicyDigest: p.Digest()}
	}
	return p.verdict(best)
}

// Matching is the verdict of every rule that matches, in the order of the
// document. It is what explains a decision.
func (p *Policy) Matching(c Call) []Verdict {
	if p == nil {
		return nil
	}
	var seen view
	var all []Verdict
	for i := range p.rules {
		if p.rules[i].matches(&c, &seen) {
			all = append(all, p.verdict(i))
		}
	}
	return all
}

func (p *Policy) verdict(i int) Verdict {
	r := &p.rules[i]
	return Verdict{Do: r.Do, Rule: r.ID, PolicyDigest: p.Digest(), Why: r.Why}
}

// matches: a condition that fails to evaluate counts against the call, so it holds
// for deny and ask and does not for allow.
func (r *compiled) matches(c *Call, seen *view) bool {
	if !r.concerns(c) {
		return false
	}
	if r.when == nil {
		return true
	}
	holds, err := seen.holds(r.when, c)
	if err != nil {
		return r.Do != Allow
	}
	return holds
}

// concerns is whether the rule is about such calls, its condition aside.
func (r *compiled) concerns(c *Call) bool {
	if len(r.Effect) > 0 && !slices.Contains(r.Effect, c.Class) {
		return false
	}
	return r.glob.match(c.Server, c.Tool)
}

// Document is what the policy was made from.
func (p *Policy) Document() Document {
	var d Document
	if p == nil {
		return d
	}
	for i := range p.guards {
		d.Guards = append(d.Guards, p.guards[i].config.clone())
	}
	for i := range p.rules {
		r := p.rules[i].Rule
		r.Effect = slices.Clone(r.Effect)
		d.Rules = append(d.Rules, r)
	}
	return d
}

// Digest is sha256:<hex> of the document's canonical JSON.
func (p *Policy) Digest() string {
	if p == nil || p.digest == "" {
		return noRules()
	}
	return p.digest
}

// noRules is the digest of a policy without rules, which most are.
var noRules = sync.OnceValue(func() string { return digest(Document{}) })

// Action is what to do with a call. The zero value denies, so that a verdict
// was not filled in lets nothing through.
type Action uint8

// Stricter actions are smaller.
const (
	Deny Action = iota
	Ask
	Allow
)

// ParseAction reads allow, ask or deny.
func ParseAction(s string) (Action, error) {
	switch s {
	case "allow":
		return Allow, nil
	case "ask":
		return Ask, nil
	case "deny":
		return Deny, nil
	}
	return Deny, fmt.Errorf("%q is not an action: use allow, ask or deny", s)
}

func (a Action) String() string {
	switch a {
	case Allow:
		return "allow"
	case Ask:
		return "ask"
	}
	return "deny"
}

// MarshalText is String.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText is ParseAction.
func (a *Action) UnmarshalText(b []byte) (err error) {
	*a, err = ParseAction(string(b))
	return err
}

// Call is what is decided about. Conditions see all of it.
type Call struct {
	Server, Tool, URI string
	Class             flow.Class      // as guards have raised it
	Args              json.RawMessage // an object; nil: {}
	Destructive       bool
	OpenWorld         bool
	Facts             json.RawMessage // what guards found, as Findings.Seen gives it; nil: {}
	Turn              Turn
	Run               Run
}

// Turn is how far the turn of the agent that makes a call has come. Outside of a
// turn it is zero.
type Turn struct {
	Untrusted bool `json:"untrusted"` // an earlier result of the turn came from an open world
	Step      int  `json:"step"`
}

// Run is which call of which run it is, and on whose behalf.
type Run struct{ ID, Path, Principal string }

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
