package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/env"
	"cel.dev/cel-go/ext"

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
	// Rules are, of a verdict that Static gives, all that it rests on.
	Rules []string `json:"rules,omitempty"`
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
	tools   Pattern
	command *Command // nil: any

	comparesText bool        // the condition looks at a command as a text
	when         cel.Program // nil: always
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
	if !r.concerns(c) || r.command != nil && !seen.runs(r.command, r.Do, c) {
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
	return r.tools.Match(c.Server, c.Tool)
}

// certain is whether the rule rests on nothing that is in a call.
func (r *compiled) certain() bool { return r.when == nil && r.command == nil }

// Document is what the policy was made from.
func (p *Policy) Document() Document {
	var d Document
	if p == nil {
		return d
	}
	for i := range p.guards {
		if !p.guards[i].implied {
			d.Guards = append(d.Guards, p.guards[i].config.clone())
		}
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
	// Writable reports whether a command may write a file, as it names it; nil: none. It must
	// answer the same throughout one call.
	Writable func(path string) bool
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
//
// The verdict's Rules are those that decide, or [NoMatch]; if it depends, what it
// depends on: rules with a condition, and guards.
func (p *Policy) Static(server, tool string, class flow.Class) (v Verdict, depends bool) {
	v, depends = p.foreseen(Call{Server: server, Tool: tool, Class: class})
	guards := p.watching(server, tool)
	if len(guards) == 0 {
		return v, depends
	}
	raised, _ := p.foreseen(Call{Server: server, Tool: tool, Class: flow.Once})
	if v.Do == Deny && raised.Do == Deny {
		return v, false
	}
	if !depends {
		v.Rules = nil
	}
	v.Rules = append(v.Rules, guards...)
	return v, true
}

// foreseen is the verdict of the rules without a condition. One with a condition
// can change it by being stricter, or by being the only one.
func (p *Policy) foreseen(c Call) (v Verdict, depends bool) {
	if p == nil {
		return Verdict{}, false
	}
	certain := &Policy{digest: p.Digest()}
	for i := range p.rules {
		if p.rules[i].certain() {
			certain.rules = append(certain.rules, p.rules[i])
		}
	}
	v = certain.Decide(c)
	var open []string
	for i := range p.rules {
		r := &p.rules[i]
		switch {
		case !r.concerns(&c):
		case !r.certain() && (r.Do < v.Do || r.Do != v.Do && v.Rule == NoMatch):
			open = append(open, r.ID)
		case r.certain() && r.Do == v.Do:
			v.Rules = append(v.Rules, r.ID)
		}
	}
	if open != nil {
		v.Rules = open
	} else if v.Rules == nil {
		v.Rules = []string{v.Rule}
	}
	return v, open != nil
}

// conditionCost bounds the work of one condition.
const conditionCost = 10_000

// ofTime are the functions of CEL that know calendars. They are left out: a
// condition sees no clock that it could compare with, and the names of time zones
// mean what the files of a machine say.
var ofTime = []string{"timestamp", "duration", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds",
	"getMinutes", "getMonth", "getSeconds"}

// language is what conditions are written in. The members of tool, turn and run
// are variables of their own, so that a misspelt one is found when a document is
// loaded.
var language = sync.OnceValues(func() (*cel.Env, error) {
	timeless := env.NewLibrarySubset()
	for _, name := range ofTime {
		timeless.AddExcludedFunctions(env.NewFunction(name))
	}
	object := cel.MapType(cel.StringType, cel.DynType)
	return cel.NewCustomEnv(
		cel.StdLib(cel.StdLibSubset(timeless)), ext.Strings(), ext.Sets(), cel.CrossTypeNumericComparisons(true),
		cel.Variable("args", object), cel.Variable("facts", object),
		cel.Variable("tool.server", cel.StringType), cel.Variable("tool.name", cel.StringType), cel.Variable("tool.uri", cel.StringType),
		cel.Variable("tool.effect", cel.StringType), cel.Variable("tool.destructive", cel.BoolType), cel.Variable("tool.open_world", cel.BoolType),
		cel.Variable("turn.untrusted", cel.BoolType), cel.Variable("turn.step", cel.IntType),
		cel.Variable("run.id", cel.StringType), cel.Variable("run.path", cel.StringType), cel.Variable("run.principal", cel.StringType),
	)
})

func compileCondition(text string) (cel.Program, *cel.Ast, error) {
	l, err := language()
	if err != nil {
		return nil, nil, err
	}
	ast, issues := l.Compile(text)
	if issues.Err() != nil {
		return nil, nil, faults(issues)
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, nil, fmt.Errorf("the condition gives %s, not true or false", t)
	}
	program, err := l.Program(ast, cel.CostLimit(conditionCost))
	return program, ast, err
}

// mostFaults of one condition are reported: the first explains the others.
const mostFaults = 3

func faults(issues *cel.Issues) error {
	var all []string
	for _, e := range issues.Errors() {
		at := fmt.Sprintf("column %d", e.Location.Column()+1)
		if e.Location.Line() > 1 {
			at = fmt.Sprintf("line %d, %s", e.Location.Line(), at)
		}
		all = append(all, fmt.Sprintf("%s (%s of the condition)", e.Message, at))
	}
	return errors.New("the condition does not compile: " + strings.Join(all[:min(len(all), mostFaults)], "; "))
}

// view is a call as conditions see it. It is made when the first of them is met.
type view struct {
	made bool
	vars map[string]any
	err  error

	looked bool
	shell  *Shell
}

// runs reports whether a rule that names a command is about a call. No call is that no
// guard over commands has looked into.
func (v *view) runs(cmd *Command, do Action, c *Call) bool {
	if !v.looked {
		v.looked, v.shell = true, shellOf(c.Facts)
	}
	switch {
	case v.shell == nil:
		return false
	case do == Allow:
		return cmd.allows(v.shell, c.Writable)
	}
	return cmd.concerns(v.shell)
}

// holds evaluates a condition. One that fails to evaluate is neither true nor
// false: the error says so.
func (v *view) holds(p cel.Program, c *Call) (bool, error) {
	if !v.made {
		v.made = true
		v.vars, v.err = variables(c)
	}
	if v.err != nil {
		return false, v.err
	}
	out, _, err := p.Eval(v.vars)
	if err != nil {
		return false, err
	}
	holds, ok := out.Value().(bool)
	if !ok {
		return false, fmt.Errorf("the condition gave %s, not true or false", out.Type().TypeName())
	}
	return holds, nil
}

func variables(c *Call) (map[string]any, error) {
	args, err := objectOf(c.Args)
	if err != nil {
		return nil, err
	}
	facts, err := objectOf(c.Facts)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"args": args, "facts": facts,
		"tool.server": c.Server, "tool.name": c.Tool, "tool.uri": c.URI, "tool.effect": string(c.Class),
		"tool.destructive": c.Destructive, "tool.open_world": c.OpenWorld,
		"turn.untrusted": c.Turn.Untrusted, "turn.step": c.Turn.Step,
		"run.id": c.Run.ID, "run.path": c.Run.Path, "run.principal": c.Run.Principal,
	}, nil
}

func objectOf(raw json.RawMessage) (map[string]any, error) {
	object := map[string]any{}
	if len(raw) == 0 {
		return object, nil
	}
	err := json.Unmarshal(raw, &object)
	return object, err
}
