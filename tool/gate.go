package tool

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool/builtin"
	"github.com/tipstaff/tipstaff/workspace"
)

// Gate decides whether a call may be sent. It is asked twice: by the program,
// over what the run has frozen, before the call; and by the activity, over what
// holds at that moment, on the bytes that are about to be sent.
//
// A Gate does no I/O, and its answer depends on nothing but what it was given. Its
// zero value refuses everything.
type Gate struct {
	AllowList []string // whole canonical URIs; nil: nothing is declared
	Manifest  *workspace.Manifest
	Tools     *Registry
	Policy    *policy.Policy // nil: everything is denied
	// Lock holds the definitions that calls must still match. nil: none are held.
	Lock *Registry
	// File is the lock as it stands now: what is no longer in it has been withdrawn
	// since the run began. nil: it is not looked at.
	File *Lock
	// Run says whose calls these are, for conditions of the policy: what a Request
	// leaves empty is taken from here.
	Run policy.Run
	// Asks are the calls that a person is asked about whatever the policy allows, by class
	// and path. nil: none are.
	Asks func(class flow.Class, path string) bool

	clean bool // see Manifest.CleanPaths
}

// NewGate is a gate with the manifest's own policy and nothing locked.
func NewGate(allow []string, m *workspace.Manifest, tools *Registry) *Gate {
	return &Gate{AllowList: allow, Manifest: m, Tools: tools, Policy: m.Rules(), clean: m != nil && m.CleanPaths}
}

// ByAcceptance is the Request.By of a call that the acceptance of its plan
// covers. The only other value is the id of an approval gate that was answered
// with allow.
const ByAcceptance = "accept"

// Request is a call to be decided.
type Request struct {
	URI  string
	Args json.RawMessage // nil: {}
	// By says how a question about this call was met: ByAcceptance, or the id of
	// the approval gate. "": no one has been asked yet.
	By string
	// Literal: the arguments stand in the accepted plan as they are, without
	// references.
	Literal bool
	// Agent: no acceptance covers the call, because an agent made it, or because
	// its plan was accepted by a parent run.
	Agent bool
	// Turn is that of the agent that makes the call. Zero: there is none.
	Turn policy.Turn
	// Run is which call it is; see Gate.Run.
	Run policy.Run
}

// Verdict is the gate's answer. The zero Verdict refuses.
type Verdict struct {
	Do   policy.Action // Deny: refused, see Err
	Err  *flow.Error   // of a refusal; NotSent
	Rule string        // of the policy, where it was reached
	// PolicyDigest is that of the policy, where it was reached.
	PolicyDigest string
	// By is how the question was met: what a call's input carries as by. "": no
	// question arose, or it is still open.
	By string
	// Subject is what a person is asked to approve: {uri, tool_digest, class, hints,
	// args, args_digest, facts, rule, policy_digest}, of one that is asked about whatever
	// the policy allows why, and of a program that is started {name, digest} as program.
	// Set where Do is Ask.
	Subject    json.RawMessage
	Definition *Definition
	Args       json.RawMessage // the canonical bytes that are sent

	// Class is that of the call: the definition's, unless a guard has raised it.
	Class       flow.Class
	Destructive bool
	OpenWorld   bool
	Facts       json.RawMessage // what guards found, by name; nil: none looked
	Guards      []string        // their classes, as policy.Findings.Classes gives them

	seen json.RawMessage // facts as conditions see them
	why  string          // it asks whatever the policy allows; "": it does not
}

// ArgsDigest is the digest of the bytes that are sent.
func (v Verdict) ArgsDigest() string { return flow.Digest(v.Args) }

// FactsDigest is the digest of what guards found, "" if none looked.
func (v Verdict) FactsDigest() string {
	if v.Facts == nil {
		return ""
	}
	return flow.Digest(v.Facts)
}

// Ask checks, in this order: the URI is declared; server and tool exist; pin and
// lock hold; the arguments fit; the class is allowed; guards; the policy. The
// first that fails refuses, with its own code.
//
// Where the policy asks and Request.By is empty, the acceptance of a plan meets
// the question if no rule put it and the call is not once, or is once with
// literal arguments. Otherwise Do is Ask, and an approval is needed.
func (g *Gate) Ask(call Request) Verdict { return g.pass(call, nil) }

// The checks by name, in their order.
const (
	checkDeclared  = "declared"
	checkKnown     = "known"
	checkLocked    = "locked"
	checkArguments = "arguments"
	checkEffect    = "effect"
	checkGuards    = "guards"
	checkPolicy    = "policy"
)

// pass makes the checks in order. It calls tell, if it is not nil, with each result.
func (g *Gate) pass(call Request, tell func(check string, refused *flow.Error)) Verdict {
	passes := func(check string, refused *flow.Error) bool {
		if tell != nil {
			tell(check, refused)
		}
		return refused == nil
	}
	u, refused := g.declared(call.URI)
	if !passes(checkDeclared, refused) {
		return Verdict{Err: refused}
	}
	d, refused := g.known(u)
	if refused != nil && refused.Code == CodeUnlocked { // it exists, but was not accepted
		passes(checkKnown, nil)
		passes(checkLocked, refused)
		return Verdict{Err: refused}
	}
	if !passes(checkKnown, refused) {
		return Verdict{Err: refused}
	}
	if refused := g.held(d, u); !passes(checkLocked, refused) {
		return Verdict{Err: refused}
	}
	v := Verdict{Definition: d, Class: d.Class, Destructive: d.Destructive(), OpenWorld: d.OpenWorld()}
	refuse := func(check string, refused *flow.Error) bool {
		v.Err = refused
		return !passes(check, refused)
	}
	var given map[string]any
	if v.Args, given, refused = arguments(d, call.Args); refused == nil {
		refused = g.cleanPath(d, given)
	}
	if refuse(checkArguments, refused) {
		return v
	}
	if refuse(checkEffect, g.effect(d)) {
		return v
	}
	if refuse(checkGuards, g.guard(call, &v)) {
		return v
	}
	g.decide(call, &v)
	passes(checkPolicy, v.Err)
	return v
}

// declared is check 1.
func (g *Gate) declared(uri string) (tipstaff.ToolURI, *flow.Error) {
	u, err := tipstaff.ParseToolURI(uri)
	if err != nil || !slices.Contains(g.AllowList, uri) {
		return u, refusal(CodeUndeclared, nil, "%s is not declared by the program", tipstaff.Quote(uri, 200))
	}
	return u, nil
}

// known is check 2.
func (g *Gate) known(u tipstaff.ToolURI) (*Definition, *flow.Error) {
	if _, ok := g.Manifest.Tool(u.Server, u.Tool); !ok {
		return nil, refusal(CodeUnknown, nil, "%s", g.Manifest.Undeclared(u.Server, u.Tool))
	}
	return g.Tools.find(u)
}

// held is check 3: the pin, then the lock of the run and that of the workspace,
// then the package.
func (g *Gate) held(d *Definition, u tipstaff.ToolURI) *flow.Error {
	if refused := pinned(d, u); refused != nil {
		return refused
	}
	if g.Lock != nil {
		held, refused := g.Lock.find(u)
		if refused != nil {
			return refusal(CodeUnlocked, detail{"digest": d.Digest}, "%s/%s is not among the tools that were accepted", u.Server, u.Tool)
		}
		remedy := "`tipstaff tools pin " + d.Server + "` shows it"
		if g.File != nil && g.File.holds(d) == nil {
			remedy = LockName + " holds the new one by now, and this run was made with the old one: start a new run"
		}
		if refused := unchanged(held.Version, LockedTool{held.Digest, held.Raw}, d, remedy); refused != nil {
			return refused
		}
	}
	if refused := g.File.holds(d); refused != nil {
		return refused
	}
	return g.Tools.servers[u.Server].hold
}

// arguments is check 4: it gives the canonical bytes, and what they hold.
func arguments(d *Definition, raw json.RawMessage) (args json.RawMessage, given map[string]any, refused *flow.Error) {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	args, err := canonical(raw)
	switch {
	case errors.Is(err, errNumberUnsafe):
		return nil, nil, refusal(CodeNumberUnsafe, nil, "the arguments of %s: %v", d.Tool, err)
	case err != nil:
		return nil, nil, refusal(CodeInvalidArguments, detail{"pointer": ""}, "the arguments of %s are not JSON: %v", d.Tool, err)
	case json.Unmarshal(args, &given) != nil || given == nil:
		return nil, nil, refusal(CodeInvalidArguments, detail{"pointer": ""}, "the arguments of %s are not a JSON object", d.Tool)
	}
	var wrong *SchemaError
	if errors.As(d.InputSchema.validate(given), &wrong) {
		return nil, nil, refusal(CodeInvalidArguments, detail{"pointer": wrong.Pointer}, "the arguments of %s do not fit: %v", d.Tool, wrong)
	}
	return args, given, nil
}

// effect is check 5. A class that rose since the tool was locked is refused too:
// the run treats the call as it was accepted, and might repeat it.
func (g *Gate) effect(d *Definition) *flow.Error {
	if refused := g.allowed(d.Tool, d.Class); refused != nil {
		return refused
	}
	held, _ := g.Lock.find(tipstaff.ToolURI{Server: d.Server, Tool: d.Tool})
	if held != nil && policy.Stricter(d.Class, held.Class) {
		return refusal(CodeEffectDenied, detail{"class": d.Class, "accepted": held.Class},
			"%s now has effect %s, and was accepted as %s: start a new run", d.Tool, d.Class, held.Class)
	}
	return nil
}

func (g *Gate) allowed(tool string, class flow.Class) *flow.Error {
	if g.Manifest.Allows(class) {
		return nil
	}
	return refusal(CodeEffectDenied, detail{"class": class}, "%s has effect %s, which allowed_effects of the manifest does not list", tool, class)
}

// guard is the first half of check 6: the policy's guards look at the arguments.
// They may refuse the call, or raise its class, which must then be allowed too.
func (g *Gate) guard(call Request, v *Verdict) *flow.Error {
	found := g.Policy.Inspect(g.seen(call, v))
	v.Facts, v.seen, v.Guards = found.Facts(), found.Seen(), found.Classes()
	if f, ok := found.Refused(); ok {
		return refusal(CodeGuardRefused, detail{"guard": f.Guard}, "guard %q refuses %s: %s", f.Guard, call.URI, f.Refused)
	}
	if found.Writes() {
		v.Class, v.Destructive = flow.Once, true
	}
	return g.allowed(v.Definition.Tool, v.Class)
}

// seen is the call as guards and policy see it.
func (g *Gate) seen(call Request, v *Verdict) policy.Call {
	d := v.Definition
	return policy.Call{Server: d.Server, Tool: d.Tool, URI: call.URI, Class: v.Class, Args: v.Args,
		Destructive: v.Destructive, OpenWorld: v.OpenWorld, Facts: v.seen, Turn: call.Turn,
		Run: policy.Run{ID: cmp.Or(call.Run.ID, g.Run.ID), Path: cmp.Or(call.Run.Path, g.Run.Path), Principal: cmp.Or(call.Run.Principal, g.Run.Principal)}}
}

// decide is the second half of check 6.
func (g *Gate) decide(call Request, v *Verdict) {
	seen := g.seen(call, v)
	p := g.Policy.Decide(seen)
	if waived := p.Do == policy.Allow || p.Rule == policy.NoMatch; waived && g.Asks != nil && g.Asks(v.Class, seen.Run.Path) {
		p.Do, p.Rule, v.why = policy.Ask, tipstaff.RuleBrought, tipstaff.WhyBrought
	}
	v.Do, v.Rule, v.PolicyDigest = p.Do, p.Rule, p.PolicyDigest
	if p.Do == policy.Ask {
		v.By, v.Do = meet(call, v.Class, p.Rule)
	}
	switch v.Do {
	case policy.Ask:
		v.Subject = v.subject(call.URI, g.Tools)
	case policy.Deny:
		v.Err = denied(p, call)
	}
}

// meet says whether a question of the policy is met, still open, or cannot be
// met by what the call brings.
func meet(call Request, class flow.Class, rule string) (by string, do policy.Action) {
	covered := rule == policy.NoMatch && !call.Agent
	switch call.By {
	case "":
		if covered && (class != flow.Once || call.Literal) {
			return ByAcceptance, policy.Allow
		}
		return "", policy.Ask
	case ByAcceptance:
		if covered {
			return ByAcceptance, policy.Allow
		}
	default:
		if _, err := tipstaff.ParseID(call.By); err == nil {
			return call.By, policy.Allow
		}
	}
	return "", policy.Deny
}

// denied is the refusal of a policy: a rule that denies, or a rule that asks and was
// not answered.
func denied(p policy.Verdict, call Request) *flow.Error {
	d := detail{"rule": p.Rule, "policy_digest": p.PolicyDigest}
	if p.Do == policy.Deny {
		why := ""
		if p.Why != "" {
			why = ": " + p.Why
		}
		return refusal(CodePolicyDenied, d, "rule %q denies %s%s", p.Rule, call.URI, why)
	}
	return refusal(CodePolicyDenied, d, "rule %q asks for an approval of %s, and nobody gave one", p.Rule, call.URI)
}

func (v *Verdict) subject(uri string, tools *Registry) json.RawMessage {
	facts := v.Facts
	if facts == nil {
		facts = json.RawMessage("{}")
	}
	subject := map[string]any{
		"uri": uri, "tool_digest": v.Definition.Digest, "class": v.Class,
		"hints": map[string]bool{"destructive": v.Destructive, "open_world": v.OpenWorld},
		"args":  v.Args, "args_digest": v.ArgsDigest(), "facts": facts,
		"rule": v.Rule, "policy_digest": v.PolicyDigest,
	}
	if v.why != "" {
		subject["why"] = v.why
	}
	if name, digest, ok := tools.program(v.Definition, v.Args); ok {
		subject["program"] = map[string]string{"name": name, "digest": digest}
	}
	return flow.JSON(subject)
}

// Admit is Ask at the moment of dispatch, on the bytes that are about to be sent.
// It is too late to ask a person, so an open question refuses; so does anything that
// differs from what was decided about. Acceptance counts only where the program has
// said that it does.
func (g *Gate) Admit(in Input, run policy.Run) Verdict {
	// A call of unknown origin counts as one of an agent.
	call := Request{URI: in.URI, Args: in.Args, By: in.By, Agent: in.By == "" || in.Turn != nil, Run: run}
	if in.Turn != nil {
		call.Turn = *in.Turn
	}
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
		if _, _, refused := arguments(d, call.Args); refused != nil {
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

// Codes of refusals by the gate. Nothing was sent.
const (
	CodeUndeclared        = "undeclared_tool"
	CodeUnknown           = "unknown_tool"
	CodePinMismatch       = "pin_mismatch"
	CodeUnlocked          = "unlocked_tool"
	CodeDefinitionChanged = "definition_changed"
	CodePackageChanged    = "package_changed"
	CodeEnvMissing        = workspace.CodeEnvMissing
	CodeNumberUnsafe      = "number_unsafe"
	CodeInvalidArguments  = "invalid_arguments"
	CodeUncleanPath       = builtin.CodeUncleanPath
	CodeProgramChanged    = builtin.CodeProgramChanged
	CodeEffectDenied      = "effect_denied"
	CodeGuardRefused      = "guard_refused"
	CodePolicyDenied      = "policy_denied"
)

// Codes of calls that were let through and failed.
const (
	CodeToolError     = "tool_error"       // the tool ran and reported an error
	CodeUnavailable   = "tool_unavailable" // the server could not be reached, or was lost
	CodeOutputInvalid = "output_invalid"   // the reply cannot be used
	CodePanic         = "panic"            // what makes the call panicked
	CodeKilled        = "killed"           // ended because its run was cancelled
)

// detail is what a failure says for machines.
type detail map[string]any

// refusal is an error of the gate.
func refusal(code string, d detail, format string, args ...any) *flow.Error {
	e := &flow.Error{Code: code, Message: fmt.Sprintf(format, args...), NotSent: true}
	if d != nil {
		e.Detail = flow.JSON(d)
	}
	return e
}

// Entry is a tool of a catalog: its definition, and the URI under which it is
// declared.
type Entry struct {
	URI     string          `json:"uri"`
	Server  string          `json:"server"`
	Name    string          `json:"name"`
	Version string          `json:"version"`
	Raw     json.RawMessage `json:"definition"` // as its server lists it: name, description, inputSchema, annotations
	Config  workspace.Tool  `json:"config"`     // as the manifest declares it
}

// NewGateFor is a gate over these tools and no others, for programs that have no
// manifest: every class is allowed, nothing is locked. A nil policy has no rules.
func NewGateFor(tools []Entry, p *policy.Policy) (*Gate, error) {
	if p == nil {
		p = new(policy.Policy)
	}
	m := &workspace.Manifest{AllowedEffects: []flow.Class{flow.Read, flow.Idempotent, flow.Once},
		Servers: map[string]workspace.Server{}, Policy: p, MaxTimeout: document.Duration(workspace.DefaultMaxTimeout)}
	r := &Registry{servers: map[string]*catalog{}}
	var allow []string
	for _, t := range tools {
		if err := r.add(m, t); err != nil {
			return nil, fmt.Errorf("tool %s: %w", tipstaff.Quote(t.URI, 200), err)
		}
		allow = append(allow, t.URI)
	}
	return NewGate(allow, m, r), nil
}

// add declares a tool and takes it in.
func (r *Registry) add(m *workspace.Manifest, t Entry) error {
	u, err := tipstaff.ParseToolURI(t.URI)
	switch {
	case err != nil:
		return err
	case u.Server != t.Server || u.Tool != t.Name:
		return fmt.Errorf("its URI does not name %s/%s", t.Server, t.Name)
	}
	c, ok := r.servers[t.Server]
	if !ok {
		c = &catalog{version: t.Version, tools: map[string]*Definition{}}
		r.servers[t.Server] = c
		m.Servers[t.Server] = workspace.Server{Tools: workspace.Tools{}, MaxConcurrent: workspace.DefaultMaxConcurrent}
	}
	if _, ok := c.tools[t.Name]; ok {
		return fmt.Errorf("%s/%s is declared twice", t.Server, t.Name)
	}
	m.Servers[t.Server].Tools[t.Name] = t.Config
	config, _ := m.Tool(t.Server, t.Name)
	d, err := define(t.Server, t.Version, t.Raw, config)
	switch {
	case err != nil:
		return err
	case d.Tool != t.Name:
		return fmt.Errorf("its definition names %s", tipstaff.Quote(d.Tool, 140))
	case !d.fits(u.Pin):
		return fmt.Errorf("it is version %s with digest %s, which its pin does not fit", tipstaff.Quote(d.Version, 60), d.Digest)
	}
	c.tools[t.Name] = d
	return d.usable()
}

// pathArguments are the arguments of builtin's tools that are paths.
var pathArguments = map[string]string{"read_file": "path", "write_file": "path", "list_dir": "path", "exec": "cwd"}

// cleanPath belongs to check 4. A path has one spelling, so that rules and guards
// which look at it cannot be evaded by another: relative to the first root, without
// ., .. and empty parts. Other roots are reached by absolute paths; that those do not
// lead into the first one is seen when the call is made.
func (g *Gate) cleanPath(d *Definition, given map[string]any) *flow.Error {
	name, ok := pathArguments[d.Tool]
	if !g.clean || d.Server != builtin.Name || !ok {
		return nil
	}
	text, ok := given[name].(string)
	if !ok {
		return nil
	}
	refuse := func(why string) *flow.Error {
		return refusal(CodeUncleanPath, detail{"pointer": "/" + name}, "the %s of %s is %s: %s", name, d.Tool, tipstaff.Quote(text, 200), why)
	}
	config, _ := g.Manifest.Server(builtin.Name)
	clean := path.Clean(text)
	switch {
	case path.IsAbs(text) && len(config.Roots) < 2:
		return refuse("write it relative to the root, without a slash at its beginning")
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return refuse("it leaves the root")
	case clean != text:
		return refuse("write " + tipstaff.Quote(clean, 200))
	}
	return nil
}

// program is the program that a call starts, and its digest. ok is false where it
// starts none, or the digest was not recorded.
func (r *Registry) program(d *Definition, args json.RawMessage) (name, digest string, ok bool) {
	if r == nil || d.Server != builtin.Name || d.Tool != "exec" || r.servers[d.Server] == nil {
		return "", "", false
	}
	var given struct{ Argv []string }
	if json.Unmarshal(args, &given) != nil || len(given.Argv) == 0 {
		return "", "", false
	}
	digest, ok = r.servers[d.Server].programs[given.Argv[0]]
	return given.Argv[0], digest, ok
}
