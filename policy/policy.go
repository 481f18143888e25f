package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gowebpki/jcs"

	"github.com/tipstaff/tipstaff/flow"
)

// NoMatch is the rule named when no rule matched: the call is asked about.
const NoMatch = "builtin/no-match"

// Rule is one line of a policy.
type Rule struct {
	ID     string       // unique; names the verdict
	Tool   string       // glob on server/tool
	Effect []flow.Class // nil: any class
	Do     Action
	Why    string // shown to whoever is asked or refused
}

// Call is what is decided about.
type Call struct {
	Server, Tool, URI string
	Class             flow.Class
	Args              json.RawMessage
}

// Verdict is a decision and the rule that made it. The zero Verdict denies.
type Verdict struct {
	Do           Action `json:"do"`
	Rule         string `json:"rule"`
	PolicyDigest string `json:"policy_digest"`
	Why          string `json:"why,omitempty"`
}

// Policy is a set of rules that were found valid. The zero Policy has no rules:
// every call is asked about.
type Policy struct {
	rules  []compiled
	digest string
}

type compiled struct {
	Rule
	glob glob
}

// Problem is a fault of one rule. Rule is its index; Field is one of id, tool,
// effect.
type Problem struct {
	Rule    int
	Field   string
	Message string
}

// New compiles rules. It reports every problem; with any, the policy is nil.
func New(rules []Rule) (*Policy, []Problem) {
	p := &Policy{digest: digest(rules)}
	var problems []Problem
	report := func(i int, field, format string, args ...any) {
		problems = append(problems, Problem{i, field, fmt.Sprintf(format, args...)})
	}
	first := map[string]int{}
	for i, r := range rules {
		if err := checkID(r.ID); err != nil {
			report(i, "id", "%v", err)
		} else if j, ok := first[r.ID]; ok {
			report(i, "id", "rule %d has the id %q already", j+1, r.ID)
		} else {
			first[r.ID] = i
		}
		g, err := parseGlob(r.Tool)
		if err != nil {
			report(i, "tool", "%v", err)
		}
		if err := checkEffect(r.Effect); err != nil {
			report(i, "effect", "%v", err)
		}
		r.Effect = slices.Clone(r.Effect)
		p.rules = append(p.rules, compiled{r, g})
	}
	if problems != nil {
		return nil, problems
	}
	return p, nil
}

func checkID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("a rule needs an id: records name the rule that decided")
	case len(id) > 64:
		return fmt.Errorf("the id %.20q… has %d characters: 64 are the most", id, len(id))
	case strings.HasPrefix(id, "builtin/"):
		return fmt.Errorf("the id %q begins with builtin/, which is reserved", id)
	}
	for _, r := range id {
		if r <= ' ' || r > '~' {
			return fmt.Errorf("the id %q has the character %q: use letters, digits and punctuation", id, r)
		}
	}
	return nil
}

func checkEffect(classes []flow.Class) error {
	if classes != nil && len(classes) == 0 {
		return fmt.Errorf("an empty list of effects matches nothing: leave effect out to match every class")
	}
	for i, c := range classes {
		if c != flow.Read && c != flow.Idempotent && c != flow.Once {
			return fmt.Errorf("%q is not an effect class: use read, idempotent or once", string(c))
		}
		if slices.Contains(classes[:i], c) {
			return fmt.Errorf("%q stands twice", string(c))
		}
	}
	return nil
}

// Decide is the verdict on a call. It is pure and total: every call has one, and
// equal calls have equal ones. A nil policy denies.
func (p *Policy) Decide(c Call) Verdict {
	if p == nil {
		return Verdict{}
	}
	best := -1
	for i, r := range p.rules {
		if r.matches(c) && (best < 0 || r.Do < p.rules[best].Do) {
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
	var all []Verdict
	for i, r := range p.rules {
		if r.matches(c) {
			all = append(all, p.verdict(i))
		}
	}
	return all
}

func (p *Policy) verdict(i int) Verdict {
	r := p.rules[i]
	return Verdict{Do: r.Do, Rule: r.ID, PolicyDigest: p.Digest(), Why: r.Why}
}

func (r compiled) matches(c Call) bool {
	if len(r.Effect) > 0 && !slices.Contains(r.Effect, c.Class) {
		return false
	}
	return r.glob.match(c.Server, c.Tool)
}

// Rules are the rules in the order of the document.
func (p *Policy) Rules() []Rule {
	if p == nil {
		return nil
	}
	rules := make([]Rule, len(p.rules))
	for i, r := range p.rules {
		rules[i] = r.Rule
		rules[i].Effect = slices.Clone(r.Effect)
	}
	return rules
}

// Digest is sha256:<hex> of the rules' canonical JSON.
func (p *Policy) Digest() string {
	if p == nil || p.digest == "" {
		return noRules()
	}
	return p.digest
}

// noRules is the digest of a policy without rules, which most are.
var noRules = sync.OnceValue(func() string { return digest(nil) })

// digest covers the document as parsed, in its order, since the order can change
// which rule a verdict names.
func digest(rules []Rule) string {
	type rule struct {
		ID     string       `json:"id"`
		Tool   string       `json:"tool"`
		Effect []flow.Class `json:"effect,omitempty"`
		Do     Action       `json:"do"`
		Why    string       `json:"why,omitempty"`
	}
	doc := struct {
		Version int    `json:"version"`
		Rules   []rule `json:"rules"`
	}{1, make([]rule, len(rules))}
	for i, r := range rules {
		doc.Rules[i] = rule(r)
	}
	canonical, err := jcs.Transform(flow.JSON(doc))
	if err != nil {
		panic(fmt.Sprintf("policy: rules have no canonical form: %v", err)) // strings and a small integer always have one
	}
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}
