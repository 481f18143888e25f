package pipeline

import (
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

// Codes of what can be wrong with a document that reads well.
const (
	codeNameMissing        = "name_missing"
	codeBadName            = "bad_name"
	codeReservedName       = "reserved_name"
	codeDuplicateName      = "duplicate_name"
	codeDuplicateOutputKey = "duplicate_output_key"
	codeUnknownTarget      = "unknown_target"
	codeUnknownDependency  = "unknown_dependency"
	codeSelfDependency     = "self_dependency"
	codeDependencyCycle    = "dependency_cycle"
	codeUnknownEdge        = "unknown_edge"
	codeEdgeNotInGraph     = "edge_not_in_graph"
	codeDuplicateEdgeLimit = "duplicate_edge_limit"
	codeBadBound           = "bad_bound"
	codeNegativeValue      = "negative_value"
	codeNoWayToRun         = "no_way_to_run"
	codeTwoWaysToRun       = "two_ways_to_run"
	codeBadRule            = "bad_rule"
	codeBadExpression      = "bad_expression"
	codeSchemaInvalid      = "schema_invalid"
	codeUnpinnedTool       = "unpinned_tool"
	codeRetryOnce          = "retry_once"
	codeBoundsCeiling      = "bounds_ceiling"

	codeUnreachableStage = "unreachable_stage" // a warning
)

// Defaults of fields that a document leaves out, and the most that a bound may be.
const (
	defaultIterations = 3
	defaultLLMCalls   = 10
	defaultAgentHops  = 21
	DefaultStages     = 5
	defaultParallel   = 8
	defaultSteps      = 32
	defaultTimeout    = 300 * time.Second
	defaultRetryDelay = 1000 * time.Millisecond
	defaultWait       = 30 * time.Second
	defaultAgent      = "default"

	maxBound = 1_000_000
)

// reader makes a pipeline of a document and gathers what is wrong with it.
type reader struct {
	resolver Resolver
	ps       document.Problems
	agents   []*written // in document order
	limits   []writtenLimit
	resumes  []reference
	timeout  time.Duration // of stages that have none of their own
}

// written is a stage and where its parts stand in the document.
type written struct {
	*Agent
	at       document.Position
	nameAt   document.Position
	keyAt    document.Position
	path     string
	entry    *bool
	requires []reference
	after    []reference
	targets  []reference // of its routing
	resumes  []reference // after interrupts of its rules
}

// reference is a name that stands somewhere and must be somebody's.
type reference struct {
	name, path string
	at         document.Position
}

type writtenLimit struct {
	EdgeLimit
	path     string
	at       document.Position
	from, to reference
}

// nullable are lists and the like that programs write as null when they are unset.
var nullable = map[string]bool{
	"requires": true, "after": true, "routing_rules": true, "edge_limits": true,
	"required_output_fields": true, "output_schema": true, "entry": true,
	"model": true, "worker": true, "tool": true, "remote": true, "plan": true, "scripted": true,
}

// fields reads an object; nil: it is none, which has been said. Members that are
// null for being unset are left out.
func (r *reader) fields(v *document.Value, path string) *document.Fields {
	if v.Kind != document.Object {
		document.FieldsOf(&r.ps, v, path)
		return nil
	}
	kept := *v
	kept.Members = nil
	for _, m := range v.Members {
		if m.Value.Kind != document.Null || !nullable[m.Key] {
			kept.Members = append(kept.Members, m)
		}
	}
	f := document.FieldsOf(&r.ps, &kept, path)
	f.Dotted = true
	return f
}

// each reads a list of objects.
func (r *reader) each(f *document.Fields, name string, read func(*document.Fields)) {
	list := f.Typed(name, document.List)
	if list == nil {
		return
	}
	for i, item := range list.Items {
		if of := r.fields(item, f.PathOf(name)+"["+strconv.Itoa(i)+"]"); of != nil {
			read(of)
			of.End()
		}
	}
}

func (r *reader) pipeline(v *document.Value) *Pipeline {
	p := &Pipeline{Bounds: tipstaff.Bounds{}, EdgeLimits: []EdgeLimit{}, Agents: []*Agent{}}
	f := r.fields(v, "")
	if f == nil {
		return p
	}
	if kind := f.Text("kind"); kind != "" && kind != kindPipeline {
		f.Report(document.CodeKindUnknown, f.Value.Get("kind").At, "kind", "the document is a %q, not a pipeline", document.Brief(kind))
	}
	f.Integer("version", 1, 1, 1)
	if p.Name = f.Text("name"); p.Name == "" && missing(f, "name") {
		f.Report(codeNameMissing, placeOf(f, "name"), "name", "a pipeline needs a name")
	}
	p.MaxIterations = r.bound(f, "max_iterations", defaultIterations, tipstaff.BoundIterations, 1)
	p.MaxLLMCalls = r.bound(f, "max_llm_calls", defaultLLMCalls, tipstaff.BoundModelCalls, 1)
	p.MaxAgentHops = r.bound(f, "max_agent_hops", defaultAgentHops, tipstaff.BoundAgentHops, 1)
	p.MaxStages = r.bound(f, "max_stages", DefaultStages, "", 1)
	r.ownBounds(f, p.Bounds)
	r.timeout = defaultTimeout
	if t := r.duration(f, "default_timeout_seconds", 0, time.Second); t > 0 {
		r.timeout = t
	}
	p.DefaultTimeout = r.timeout
	p.MaxParallel = int(r.bound(f, "max_parallel", defaultParallel, "", 1))
	p.OnFailure = OnFailure(r.word(f, "on_failure", string(Finish), string(Cancel)))
	p.OnBound = OnBound(r.word(f, "on_bound", string(EndRun), string(AskMore)))
	p.ClarificationResume = r.resume(f, "clarification_resume_stage")
	p.ConfirmationResume = r.resume(f, "confirmation_resume_stage")
	r.each(f, "edge_limits", r.edgeLimit)
	for _, name := range []string{"workspace", "deliver"} {
		if v := f.Get(name); v != nil {
			f.Report(document.CodeFieldInvalid, v.At, name, "this version of Tipstaff does not have %s", name)
		}
	}
	f.Need("agents")
	r.each(f, "agents", r.agent)
	if len(r.agents) > MaxAgents {
		f.Report(document.CodeLimit, r.agents[MaxAgents].at, "agents", "a pipeline has at most %d agents", MaxAgents)
	}
	f.End()
	return p
}

// ownBounds are those that a document leaves to the manifest unless it says more.
func (r *reader) ownBounds(f *document.Fields, b tipstaff.Bounds) {
	set := func(name string, amount int64) {
		if amount > 0 {
			b[name] = amount
		}
	}
	set(tipstaff.BoundToolCalls, r.bound(f, "max_tool_calls", 0, tipstaff.BoundToolCalls, 1))
	set(tipstaff.BoundTokens, r.bound(f, "max_tokens", 0, tipstaff.BoundTokens, 1))
	second := time.Second.Milliseconds()
	set(tipstaff.BoundWallTime, second*r.bound(f, "max_wall_seconds", 0, tipstaff.BoundWallTime, second))
	set(tipstaff.BoundCostUSD, r.cost(f, "max_cost_usd"))
}

// bound is a limit from 1: 0 is what an unset field looks like, and a pipeline that
// must not loop has no edge that leads back. unit makes the ledger's amount of it.
func (r *reader) bound(f *document.Fields, name string, absent int64, ledger string, unit int64) int64 {
	v := f.Typed(name, document.Number)
	if v == nil {
		return absent
	}
	x, err := strconv.ParseFloat(v.Text, 64)
	if err != nil || x != math.Trunc(x) || x < 1 || x > maxBound {
		f.Report(codeBadBound, v.At, name, "%s is %s; it must be a whole number from 1 to %d", name, document.Brief(v.Text), maxBound)
		return absent
	}
	r.ceiling(f, v, name, ledger, int64(x)*unit)
	return int64(x)
}

func (r *reader) cost(f *document.Fields, name string) int64 {
	v := f.Get(name)
	if v == nil {
		return 0
	}
	if v.Kind != document.Text {
		f.Report(document.CodeFieldType, v.At, name, `%s is %v; an amount is a string, like "0.50"`, name, v.Kind)
		return 0
	}
	amount, err := tipstaff.ParseUSD(v.Text)
	if err != nil || amount <= 0 || amount > maxBound*1e9 {
		f.Report(codeBadBound, v.At, name, `%s is %q; it must be an amount above "0" and up to "%d", like "0.50"`, name, document.Brief(v.Text), maxBound)
		return 0
	}
	r.ceiling(f, v, name, tipstaff.BoundCostUSD, int64(amount))
	return int64(amount)
}

func (r *reader) ceiling(f *document.Fields, v *document.Value, name, ledger string, amount int64) {
	if most, ok := r.resolver.Ceiling[ledger]; ok && amount > most {
		f.Report(codeBoundsCeiling, v.At, name, "%s is above the ceiling of this workspace, which is %s", name, tipstaff.FormatBound(ledger, most))
	}
}

// count is a whole number from 0.
func (r *reader) count(f *document.Fields, name string, absent int64) int64 {
	if r.negative(f, name) {
		return absent
	}
	return f.Integer(name, absent, 0, maxBound)
}

// duration is a number of units of time from 0; a part of one will do.
func (r *reader) duration(f *document.Fields, name string, absent, unit time.Duration) time.Duration {
	if r.negative(f, name) {
		return absent
	}
	const none = -1
	x := f.Number(name, none, 0, maxBound)
	if x == none {
		return absent
	}
	return time.Duration(x * float64(unit))
}

func (r *reader) negative(f *document.Fields, name string) bool {
	v := f.Get(name)
	if v == nil || v.Kind != document.Number {
		return false
	}
	x, err := strconv.ParseFloat(v.Text, 64)
	if err != nil || x >= 0 {
		return false
	}
	f.Report(codeNegativeValue, v.At, name, "%s is %s; it cannot be negative", name, document.Brief(v.Text))
	return true
}

// word is one of a few; an empty one is like one that is left out.
func (r *reader) word(f *document.Fields, name string, words ...string) string {
	if v := f.Get(name); v != nil && v.Kind == document.Text && v.Text == "" {
		return words[0]
	}
	return f.Word(name, words...)
}

// named is the reference that a field holds; ok is false where it holds none.
func (r *reader) named(f *document.Fields, name string) (reference, bool) {
	text := f.Text(name)
	if text == "" {
		return reference{}, false
	}
	return reference{text, f.PathOf(name), f.Value.Get(name).At}, true
}

func (r *reader) resume(f *document.Fields, name string) string {
	ref, ok := r.named(f, name)
	if ok {
		r.resumes = append(r.resumes, ref)
	}
	return ref.name
}

func (r *reader) edgeLimit(f *document.Fields) {
	l := writtenLimit{path: f.Path, at: f.Value.At}
	f.Need("from")
	f.Need("to")
	l.from, _ = r.named(f, "from")
	l.to, _ = r.named(f, "to")
	l.From, l.To = l.from.name, l.to.name
	if !r.negative(f, "max_count") {
		if v := f.Typed("max_count", document.Number); v != nil && v.Text != "0" {
			l.MaxCount = r.bound(f, "max_count", 0, "", 1)
		}
	}
	r.limits = append(r.limits, l)
}

// ValidName reports whether an agent may be called so.
func ValidName(name string) bool { return nameGrammar.MatchString(name) }

var nameGrammar = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// missing reports whether a text is absent or empty, not one of a wrong type.
func missing(f *document.Fields, name string) bool {
	v := f.Value.Get(name)
	return v == nil || v.Kind == document.Text
}

// placeOf is where a member stands, or the object that lacks it.
func placeOf(f *document.Fields, name string) document.Position {
	if v := f.Value.Get(name); v != nil {
		return v.At
	}
	return f.Value.At
}
