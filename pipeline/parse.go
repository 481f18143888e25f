package pipeline

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// Limits of a document.
const (
	MaxSize   = 1 << 20 // bytes of source, and of each file that it names
	MaxAgents = 1000
	maxFrozen = 8 << 20 // bytes of its canonical form, with the files in it
)

const kindPipeline = "pipeline"

// IsPipeline reports whether a source says that it is a pipeline, or says nothing
// and has agents.
func IsPipeline(src []byte) bool {
	v, fault := document.Read(src, MaxSize)
	if fault != nil || v.Kind != document.Object {
		return false
	}
	kind := v.Get("kind")
	if kind == nil {
		return v.Get("agents") != nil
	}
	return kind.Kind == document.Text && kind.Text == kindPipeline
}

// Check reads a document in YAML 1.2 or JSON: everything that is wrong with it, in
// the order in which it stands there. The pipeline is nil if anything is. name is
// that of the file, for messages.
func Check(name string, src []byte, r Resolver) (*Pipeline, []tipstaff.Problem) {
	v, faults := document.ReadAll(src, MaxSize)
	if len(faults) > 0 {
		return nil, faults.Public(name)
	}
	return check(name, v, r)
}

// Load reads a pipeline back from its canonical form, which was checked when it was
// frozen.
func Load(canonical []byte) (*Pipeline, error) {
	v, fault := document.Read(canonical, maxFrozen)
	if fault != nil {
		return nil, unreadable(document.Problems{*fault}.Public(frozenName))
	}
	p, problems := check(frozenName, v, Resolver{})
	if len(problems) > 0 {
		return nil, unreadable(problems)
	}
	if string(p.canonical) != string(canonical) {
		return nil, errors.New("pipeline: the stored program is not in its canonical form")
	}
	return p, nil
}

// frozenName stands for the file in messages about a stored program.
const frozenName = "program"

func unreadable(problems []tipstaff.Problem) error {
	return &tipstaff.Error{Code: tipstaff.InvalidProgram, Message: "the stored program cannot be read", Problems: problems}
}

func check(name string, v *document.Value, r Resolver) (*Pipeline, []tipstaff.Problem) {
	rd := &reader{resolver: r}
	rd.inline(v)
	document.CheckNumbers(v, &rd.ps)
	p := rd.pipeline(v)
	rd.connections(p)
	if len(rd.ps) > 0 {
		return nil, rd.ps.Public(name)
	}
	p.canonical = document.Raw(v)
	p.arrange()
	if rd.passes(p); len(rd.ps) > 0 {
		return nil, rd.ps.Public(name)
	}
	p.warnings = p.unreachable().Public(name)
	return p, nil
}

// Canonical is the document in RFC 8785 form, with the files that it named in their
// places: what a run is frozen with.
func (p *Pipeline) Canonical() []byte { return p.canonical }

// Digest names the program: sha256:<hex> of Canonical.
func (p *Pipeline) Digest() string { return flow.Digest(p.canonical) }

// Warnings are what is odd about a pipeline that can run all the same, in document
// order.
func (p *Pipeline) Warnings() []tipstaff.Problem { return p.warnings }

// Resolver answers what a document cannot know by itself. A function that is nil has
// nothing against anything, save File. The zero Resolver is one that knows nobody.
type Resolver struct {
	// Ceiling is what the manifest allows at most, by the ledger's names.
	Ceiling tipstaff.Bounds
	// File reads a file that the document names, relative to it. nil: the document
	// may name none.
	File func(name string) ([]byte, error)
	// Tool tells the effect class of a pinned tool; "": not known.
	Tool func(uri string) (class string, trouble Trouble)
	// Model, Agent and Skill tell about names of the manifest.
	Model, Agent, Skill func(name string) Trouble
	// Performer tells whether the host has somebody of that name who runs stages in
	// that way.
	Performer func(way Way, name string) Trouble
	// Feature tells whether the host has what a document asks of it: files, deliver.
	Feature func(name string) Trouble
	// Plan checks the document of a plan stage, which is in RFC 8785 form.
	Plan func(document json.RawMessage) []tipstaff.Problem
}

// Trouble is why something cannot be used.
type Trouble = document.Trouble

//go:embed schema.json
var documentSchema []byte

// Schema is a JSON Schema of pipeline documents, for editors. It says which fields
// there are and what they hold; that names fit together is for [Check] to say.
func Schema() json.RawMessage { return json.RawMessage(documentSchema) }

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

// reader is what the parts of a document share while it is read.
type reader struct {
	resolver Resolver
	ps       document.Problems
}

func (r *reader) pipeline(v *document.Value) *Pipeline {
	p := &Pipeline{Bounds: tipstaff.Bounds{}, EdgeLimits: []EdgeLimit{}, Agents: []*Agent{}, MaxParallel: defaultParallel,
		MaxIterations: defaultIterations, MaxLLMCalls: defaultLLMCalls, MaxAgentHops: defaultAgentHops, MaxStages: DefaultStages}
	f := document.FieldsOf(&r.ps, v, "")
	f.Dotted, f.Context = true, r
	p.written = f.Value
	if v.Kind == document.Object {
		f.Decode(p)
		f.End()
	}
	return p
}

// CheckDocument reads what a tag cannot say.
func (p *Pipeline) CheckDocument(f *document.Fields) {
	if kind := f.Text("kind"); kind != "" && kind != kindPipeline {
		f.Report(document.CodeKindUnknown, f.Value.Get("kind").At, "kind", "the document is a %q, not a pipeline", document.Brief(kind))
	}
	f.Integer("version", 1, 1, 1)
	if missing(f, "name") {
		f.Report(codeNameMissing, placeOf(f, "name"), "name", "a pipeline needs a name")
	}
	p.checkBounds(f)
	p.DefaultTimeout = cmp.Or(p.DefaultTimeout, defaultTimeout)
	p.OnFailure, p.OnBound = cmp.Or(p.OnFailure, Finish), cmp.Or(p.OnBound, EndRun)
	p.checkDelivery(f)
	for _, a := range p.Agents {
		a.Timeout = cmp.Or(a.Timeout, p.DefaultTimeout)
	}
	if len(p.Agents) > MaxAgents {
		f.Report(document.CodeLimit, p.Agents[MaxAgents].written.At, "agents", "a pipeline has at most %d agents", MaxAgents)
	}
}

// checkDelivery checks where the pipeline works and what it hands over.
func (p *Pipeline) checkDelivery(f *document.Fields) {
	document.CheckFiles(f, p.Files.Mode, p.Deliver)
	can := f.Context.(*reader).resolver.Feature
	for _, w := range []struct {
		name   string
		wanted bool
	}{{"files", p.Files.Wanted()}, {"deliver", p.Deliver != nil}} {
		if !w.wanted || can == nil {
			continue
		}
		if t := can(w.name); t.Code != "" {
			f.Report(t.Code, f.Value.Get(w.name).At, w.name, "%s", t.Message)
		}
	}
	if p.Deliver == nil {
		return
	}
	if p.Deliver.Release != "" {
		if _, err := CompileRelease(p.Deliver.Release); err != nil {
			f.Report(codeBadExpression, f.Value.Find("deliver", "release").At, "deliver.release", "release: %v", err)
		}
	}
	for _, a := range p.Agents {
		if a.Name == DeliveryKey {
			f.Report(codeReservedName, a.written.Get("name").At, a.path+".name", "no agent of a pipeline with deliver can be called %s", DeliveryKey)
		}
	}
}

// checkBounds reads the bounds that a document leaves to the manifest unless it says
// more, and compares all with the ceilings.
func (p *Pipeline) checkBounds(f *document.Fields) {
	var own struct {
		ToolCalls int64 `doc:"max_tool_calls,min=1,max=1000000,code=bad_bound"`
		Tokens    int64 `doc:"max_tokens,min=1,max=1000000,code=bad_bound"`
		Wall      int64 `doc:"max_wall_seconds,min=1,max=1000000,code=bad_bound"`
		Cost      cost  `doc:"max_cost_usd"`
	}
	f.Decode(&own)
	p.Bounds[tipstaff.BoundToolCalls] = own.ToolCalls
	p.Bounds[tipstaff.BoundTokens] = own.Tokens
	p.Bounds[tipstaff.BoundWallTime] = own.Wall * time.Second.Milliseconds()
	p.Bounds[tipstaff.BoundCostUSD] = int64(own.Cost)
	maps.DeleteFunc(p.Bounds, func(_ string, amount int64) bool { return amount == 0 })
	limits, ceiling := p.Limits(), f.Context.(*reader).resolver.Ceiling
	for _, b := range []struct{ ledger, name string }{
		{tipstaff.BoundIterations, "max_iterations"}, {tipstaff.BoundModelCalls, "max_llm_calls"}, {tipstaff.BoundAgentHops, "max_agent_hops"},
		{tipstaff.BoundToolCalls, "max_tool_calls"}, {tipstaff.BoundTokens, "max_tokens"}, {tipstaff.BoundCostUSD, "max_cost_usd"},
		{tipstaff.BoundWallTime, "max_wall_seconds"},
	} {
		v := f.Value.Get(b.name)
		if most, ok := ceiling[b.ledger]; ok && v != nil && limits[b.ledger] > most {
			f.Report(codeBoundsCeiling, v.At, b.name, "%s is above the ceiling of this workspace, which is %s", b.name, tipstaff.FormatBound(b.ledger, most))
		}
	}
}

// cost is an amount of USD that bounds a run.
type cost tipstaff.USD

// ReadDocument reads a text: a number would have been rounded before.
func (c *cost) ReadDocument(f *document.Fields, name string, v *document.Value) {
	if v.Kind != document.Text {
		f.Report(document.CodeFieldType, v.At, name, `%s is %v; an amount is a string, like "0.50"`, name, v.Kind)
		return
	}
	amount, err := tipstaff.ParseUSD(v.Text)
	if err != nil || amount <= 0 || amount > maxBound*1e9 {
		f.Report(codeBadBound, v.At, name, `%s is %q; it must be an amount above "0" and up to "%d", like "0.50"`, name, document.Brief(v.Text), maxBound)
		return
	}
	*c = cost(amount)
}

// ValidName reports whether an agent may be called so.
func ValidName(name string) bool { return nameGrammar.MatchString(name) }

var nameGrammar = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// missing reports whether a text is absent or empty, not one of a wrong type.
func missing(f *document.Fields, name string) bool {
	v := f.Value.Get(name)
	return v == nil || v.Kind == document.Text && v.Text == ""
}

// placeOf is where a member stands, or the object that lacks it.
func placeOf(f *document.Fields, name string) document.Position {
	if v := f.Value.Get(name); v != nil {
		return v.At
	}
	return f.Value.At
}

// inline puts the files that a document names in the places where they are named:
// prompt for prompt_file, plan.document for plan.file. From then on the document
// depends on no file.
func (r *reader) inline(v *document.Value) {
	agents := v.Get("agents")
	if agents == nil {
		return
	}
	for _, agent := range agents.Items {
		for _, way := range []Way{WayModel, WayWorker} {
			if told := agent.Get(string(way)); told != nil {
				r.inlineFile(told, "prompt_file", "prompt")
			}
		}
		if plan := agent.Get("plan"); plan != nil {
			r.inlineFile(plan, "file", "document")
		}
	}
}

// inlineFile replaces the member that names a file by one that holds what it says: a
// text, or the document of a plan. One that stays has been reported.
func (r *reader) inlineFile(v *document.Value, name, instead string) {
	i := slices.IndexFunc(v.Members, func(m document.Member) bool { return m.Key == name })
	if i < 0 {
		return
	}
	m, file := v.Members[i], v.Members[i].Value
	switch {
	case v.Get(instead) != nil:
		r.ps.Add(document.CodeFieldInvalid, m.At, "", "%s and %s are two ways to say the same; one of them must go", instead, name)
		return
	case file.Kind != document.Text:
		r.ps.Add(document.CodeFieldType, file.At, "", "%s must be a string, not %v", name, file.Kind)
		return
	case r.resolver.File == nil:
		r.ps.Add(document.CodeFieldInvalid, file.At, "", "this document cannot name files, having no folder of its own; write %s", instead)
		return
	}
	src, err := r.resolver.File(file.Text)
	content := &document.Value{Kind: document.Text, Text: string(src)}
	var faults document.Problems
	switch {
	case err != nil:
		r.ps.Add(document.CodeFieldInvalid, file.At, "", "%s cannot be read: %v", name, err)
		return
	case len(src) > MaxSize:
		r.ps.Add(document.CodeLimit, file.At, "", "%s has more than %d bytes, which are the most that are read", document.Brief(file.Text), MaxSize)
		return
	case instead == "document":
		content, faults = document.ReadAll(src, MaxSize)
	default:
		if fault := document.CheckText(src); fault != nil {
			faults = document.Problems{*fault}
		}
	}
	for _, fault := range faults {
		r.ps.Add(fault.Code, file.At, "", "%s:%d:%d: %s", file.Text, fault.At.Line, fault.At.Column, fault.Message)
	}
	if len(faults) == 0 {
		move(content, file.At)
		v.Members[i] = document.Member{Key: instead, At: m.At, Value: content}
	}
}

// move gives a value that came from another file one place in this one.
func move(v *document.Value, to document.Position) {
	v.At = to
	for _, item := range v.Items {
		move(item, to)
	}
	for i := range v.Members {
		v.Members[i].At = to
		move(v.Members[i].Value, to)
	}
}
