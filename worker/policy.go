package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Rules are one policy: the run's frozen one, or the one in force.
type Rules interface {
	// Static is the ruling on a tool whatever it is called with: allow, ask, deny or
	// depends, and the rules that it rests on.
	Static(server, tool, class string) Ruling
	// Decide is the ruling of guards and rules on one call: allow, ask or deny. A guard
	// may raise the class.
	Decide(server, tool, class string, args json.RawMessage) Ruling
}

// Grant is a person's leave for calls that would be asked about. It is given to the
// invocation that goes on after the decision.
type Grant struct {
	Tool       string   `json:"tool"`
	ArgsDigest string   `json:"args_digest"`
	All        bool     `json:"all,omitempty"`    // of allow_all: every call of this tool, class and guard classes, and not this one alone
	Class      string   `json:"class,omitempty"`  // of such a grant
	Guards     []string `json:"guards,omitempty"` // likewise
}

// grantFor is what a decision on a request grants: allow, or allow_all.
func grantFor(r Request, all bool) Grant {
	g := Grant{Tool: r.Tool, ArgsDigest: r.ArgsDigest}
	if all {
		g.All, g.Class, g.Guards = true, r.Class, r.Guards
	}
	return g
}

// PolicyOptions are what a policy of an invocation is made from.
type PolicyOptions struct {
	Frozen  Rules                 // the run's
	Current func() (Rules, error) // the one in force, asked for each request; nil: there is none but the frozen one
	Grants  []Grant
	Type    string // of the worker
	Dir     string // where it works, and the only place where it changes files
	// Protected is what it does not change there either; nil: what belongs to git alone.
	Protected Protected
}

// NewPolicy is the policy of one invocation.
func NewPolicy(o PolicyOptions) Policy {
	return &strictest{PolicyOptions: o, left: slices.Clone(o.Grants)}
}

type strictest struct {
	PolicyOptions

	mu   sync.Mutex
	left []Grant // that were not used
}

// ruleCurrent is named if the policy in force cannot be read.
const ruleCurrent = "builtin/policy"

// sources are the policies of which the stricter counts.
func (p *strictest) sources() ([]Rules, error) {
	all := []Rules{p.Frozen}
	if p.Current == nil {
		return all, nil
	}
	now, err := p.Current()
	return append(all, now), err
}

func (p *strictest) Static(server, tool, class string) Ruling {
	return p.stricter(func(r Rules) Ruling { return r.Static(server, tool, class) })
}

func (p *strictest) Decide(_ context.Context, r Request) Ruling {
	server, tool, _ := strings.Cut(r.Tool, "/")
	ruling := p.stricter(func(rules Rules) Ruling { return rules.Decide(server, tool, r.Class, r.Args) })
	if why := outside(p.Type, tool, p.Dir, r.Args, p.Protected); why != "" && server == nativeServer(p.Type) && ruling.Effect != Deny {
		ruling.Effect, ruling.Rules, ruling.Why = Deny, []string{ruleOutside}, why
	}
	if ruling.Effect == Ask && p.granted(r, ruling) {
		ruling.Effect = Allow
	}
	return ruling
}

// strictness orders effects. What depends may turn out to be a denial, but a denial is one
// for certain.
var strictness = []string{Allow, Ask, Depends, Deny}

// stricter is the stricter of the rulings of the frozen policy and the one in force. If
// they are equal the frozen one speaks, and classes that guards gave are those of both.
func (p *strictest) stricter(rule func(Rules) Ruling) Ruling {
	sources, err := p.sources()
	if err != nil {
		return Ruling{Effect: Deny, Rules: []string{ruleCurrent}, Why: fmt.Sprintf("the policy in force cannot be read: %v", err)}
	}
	var best Ruling
	var guards []string
	for i, s := range sources {
		r := rule(s)
		if i == 0 || slices.Index(strictness, r.Effect) > slices.Index(strictness, best.Effect) {
			best = r
		}
		guards = append(guards, r.Guards...)
	}
	slices.Sort(guards)
	best.Guards = slices.Compact(guards)
	return best
}

// granted uses up a grant for a request: one for every such call, else one for this call.
func (p *strictest) granted(r Request, ruling Ruling) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	class := r.Class
	if ruling.Class != "" {
		class = ruling.Class
	}
	if slices.ContainsFunc(p.Grants, func(g Grant) bool {
		return g.All && g.Tool == r.Tool && g.Class == class && slices.Equal(g.Guards, ruling.Guards)
	}) {
		return true
	}
	i := slices.IndexFunc(p.left, func(g Grant) bool { return g.Tool == r.Tool && g.ArgsDigest == r.ArgsDigest && !g.All })
	if i >= 0 {
		p.left = slices.Delete(p.left, i, i+1)
	}
	return i >= 0
}
