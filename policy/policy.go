package policy

import (
	"slices"
	"sync"

	"cel.dev/cel-go/cel"
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
