package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

// CheckDocument reads what a tag cannot say.
func (a *Agent) CheckDocument(f *document.Fields) {
	a.written, a.path = f.Value, f.Path
	at := placeOf(f, "name")
	switch {
	case missing(f, "name"):
		f.Report(codeNameMissing, at, "name", "an agent needs a name")
	case a.Name == "":
	case reserved(a.Name):
		f.Report(codeReservedName, at, "name", "%q cannot be an agent: routing gives it a meaning of its own", a.Name)
	case !nameGrammar.MatchString(a.Name):
		f.Report(codeBadName, at, "name", "%q cannot name an agent: a letter, then up to 63 of A-Z, a-z, 0-9, _ and -", document.Brief(a.Name))
	}
	if a.OutputKey == DeliveryKey {
		f.Report(codeReservedName, placeOf(f, "output_key"), "output_key", "%q cannot be an output key: what was delivered stands there", a.OutputKey)
	}
	a.OutputKey = cmp.Or(a.OutputKey, a.Name)
	if a.OutputSchema != nil {
		schema, err := document.CompileSchema(a.OutputSchema)
		if err != nil {
			f.Report(codeSchemaInvalid, placeOf(f, "output_schema"), "output_schema", "output_schema is not a JSON Schema: %v", err)
		}
		a.schema = schema
	}
	if f.Value.Get("retry_delay_ms") == nil {
		a.RetryDelay = defaultRetryDelay
	}
	a.Handoff = cmp.Or(a.Handoff, HandoffNever)
	a.checkWay(f)
}

// reference is a name that stands somewhere and must be somebody's.
type reference struct {
	name, path string
	at         document.Position
}

// references are the names that a field of v holds: a text, or those of a list. One of
// another kind holds none, and has been reported. path is that of the field.
func references(v *document.Value, kind document.Kind, field, path string) (refs []reference) {
	held := v.Get(field)
	if held == nil || held.Kind != kind {
		return nil
	}
	if kind == document.Text && held.Text != "" {
		return []reference{{held.Text, path, held.At}}
	}
	for i, item := range held.Items {
		if item.Kind == document.Text {
			refs = append(refs, reference{item.Text, fmt.Sprintf("%s[%d]", path, i), item.At})
		}
	}
	return refs
}

// named are the names that some fields of the stage hold.
func (a *Agent) named(kind document.Kind, fields ...string) (refs []reference) {
	for _, field := range fields {
		refs = append(refs, references(a.written, kind, field, a.path+"."+field)...)
	}
	return refs
}

// ruled are the names that a field of the stage's rules holds.
func (a *Agent) ruled(field string) (refs []reference) {
	if rules := a.written.Get("routing_rules"); rules != nil {
		for i, rule := range rules.Items {
			refs = append(refs, references(rule, document.Text, field, fmt.Sprintf("%s.routing_rules[%d].%s", a.path, i, field))...)
		}
	}
	return refs
}

// targets are all names that the stage routes to.
func (a *Agent) targets() []reference {
	return slices.Concat(a.ruled("target"), a.named(document.Text, "default_next", "error_next", "denied_next"))
}

// CheckDocument reports at most one fault of the rule's form.
func (r *Rule) CheckDocument(f *document.Fields) {
	value := f.Get("value")
	bad := func(name, format string, args ...any) {
		f.Report(codeBadRule, placeOf(f, name), name, format, args...)
	}
	switch {
	case r.Condition != "" && r.When != "":
		bad("when", "a rule has a condition or a when, not both")
	case r.Condition == "" && r.When == "":
		bad("condition", "a rule needs a condition with a value, or a when")
	case r.Condition != "" && value == nil:
		bad("value", "a rule with a condition needs the value that is looked for")
	case r.When != "" && value != nil:
		bad("value", "a value belongs to a condition; a when says all by itself")
	case r.Target == "":
		bad("target", "a rule needs a target")
	case r.Then != "" && !interrupts(r.Target):
		bad("then", "then says where a run goes on after a question; %s asks none", document.Brief(r.Target))
	}
	if value != nil {
		r.Value = fixed(f, value, "value")
	}
	if r.When != "" {
		when, err := compileCondition(r.When)
		if err != nil {
			f.Report(codeBadExpression, placeOf(f, "when"), "when", "%q: %v", document.Brief(r.When), err)
		}
		r.when = when
	}
}

// fixed is a value of the document, in the types of an Envelope.
func fixed(f *document.Fields, v *document.Value, name string) any {
	fixed, err := fixedValue(v)
	if err != nil {
		f.Report(document.CodeLimit, v.At, name, "%v", err)
	}
	return fixed
}

// fixedValue is read from the value's canonical form, so that a pipeline that was
// just read and one that was frozen have the same.
func fixedValue(v *document.Value) (any, error) { return Decode(document.Raw(v)) }

// fixedObject is fixed for what must be an object; nil where there is none.
func fixedObject(f *document.Fields, name string) map[string]any {
	v := f.Typed(name, document.Object)
	if v == nil {
		return nil
	}
	object, _ := fixed(f, v, name).(map[string]any)
	return object
}

// templateKinds are the kinds of value that a template of that name may be; any, if it
// has none here.
var templateKinds = map[string][]document.Kind{
	"prompt": {document.Text}, "system": {document.Text},
	"args": {document.Object, document.Text}, "inputs": {document.Object, document.Text},
}

// ReadDocument compiles a template.
func (t *Template) ReadDocument(f *document.Fields, name string, v *document.Value) {
	if kinds := templateKinds[name]; kinds != nil && !slices.Contains(kinds, v.Kind) {
		f.Report(document.CodeFieldType, v.At, name, "%s must be %v, not %v", name, kinds[0], v.Kind)
		return
	}
	*t = *newTemplate(v, func(at document.Position, err error) { f.Report(codeBadExpression, at, name, "%v", err) })
}

var ways = []Way{WayModel, WayWorker, WayTool, WayRemote, WayPlan, WayScripted}

// checkWay finds out how the stage runs: it has exactly one of a few objects.
func (a *Agent) checkWay(f *document.Fields) {
	var found document.Member
	for _, m := range f.Value.Members {
		switch {
		case m.Value.Kind == document.Null || !slices.Contains(ways, Way(m.Key)):
		case found.Value == nil:
			found, a.Way = m, Way(m.Key)
		default:
			f.Report(codeTwoWaysToRun, m.At, m.Key, "the agent has two ways to run, %s and %s; one of them must go", a.Way, m.Key)
			return
		}
	}
	if found.Value == nil {
		f.Problems.Add(codeNoWayToRun, f.Value.At, f.Path, "an agent needs one of model, tool, remote, plan and scripted; remote: {} is the shortest")
		return
	}
	// What may be done about an attempt whose outcome is unknown. Only those who run
	// elsewhere say so themselves; of a tool the manifest does.
	given := f.Get("effect")
	r := f.Context.(*reader)
	switch {
	case a.Way == WayRemote || a.Way == WayWorker:
		a.Effect = cmp.Or(a.Effect, string(flow.Once))
	case given != nil && given.Text != "":
		f.Report(document.CodeFieldInvalid, given.At, "effect", "effect belongs to remote stages; what a %s stage does is known otherwise", a.Way)
		a.Effect = ""
	}
	class := a.Effect
	switch {
	case a.Tool != nil && a.Tool.URI != "":
		class = r.tool(references(found.Value, document.Text, "uri", f.PathOf("tool.uri"))[0])
	case a.Remote != nil:
		a.Remote.Agent = cmp.Or(a.Remote.Agent, a.Name)
	case a.Worker != nil:
		r.worker(f, found, a.Worker.Name)
	}
	if class == string(flow.Once) && a.MaxRetries > 0 {
		f.Report(codeRetryOnce, placeOf(f, "max_retries"), "max_retries", "what %s does must not be done twice, so that it cannot be retried", document.Brief(a.Name))
	}
}

// CheckDocument asks who the model and the others are.
func (m *Model) CheckDocument(f *document.Fields) {
	r := f.Context.(*reader)
	m.MaxSteps = cmp.Or(m.MaxSteps, defaultSteps)
	f.Ignore("prompt_file") // it could not be read, which has been said
	switch {
	case m.Name != "" && m.Agent != "":
		f.Report(document.CodeFieldInvalid, placeOf(f, "agent"), "agent", "a stage has a model by its name or an agent, not both")
	case m.Name != "":
		r.trouble(f, "name", r.resolver.Model, m.Name)
	default:
		m.Agent = cmp.Or(m.Agent, defaultAgent)
		r.trouble(f, "agent", r.resolver.Agent, m.Agent)
	}
	if m.Skill != "" {
		r.trouble(f, "skill", r.resolver.Skill, m.Skill)
	}
	for _, ref := range references(f.Value, document.List, "tools", f.PathOf("tools")) {
		r.tool(ref)
	}
}

// CheckDocument knows of a file that could not be read, which has been said.
func (m *Worker) CheckDocument(f *document.Fields) { f.Ignore("prompt_file") }

// worker asks the host for the one who does a stage.
func (r *reader) worker(f *document.Fields, way document.Member, name string) {
	if r.resolver.Performer != nil {
		if t := r.resolver.Performer(Way(way.Key), name); t.Code != "" {
			f.Report(t.Code, way.At, way.Key, "%s", t.Message)
			return
		}
	}
	if way.Value.Get("name") == nil {
		f.Report(document.CodeFieldMissing, way.Value.At, way.Key+".name", "name is missing")
	}
}

// trouble asks about a name of the manifest.
func (r *reader) trouble(f *document.Fields, field string, ask func(string) Trouble, name string) {
	if ask == nil {
		return
	}
	if t := ask(name); t.Code != "" {
		f.Report(t.Code, placeOf(f, field), field, "%s", cmp.Or(t.Message, document.Brief(name)+" cannot be used"))
	}
}

// tool checks a tool and tells its class; "": nobody knows.
func (r *reader) tool(ref reference) (class string) {
	if _, err := tipstaff.ParseToolURI(ref.name); err != nil {
		r.ps.Add(codeUnpinnedTool, ref.at, ref.path, "%q is not pinned; write mcp://server/tool@1.2.3 or @sha256:<digest>", document.Brief(ref.name))
		return ""
	}
	if r.resolver.Tool == nil {
		return ""
	}
	class, trouble := r.resolver.Tool(ref.name)
	if trouble.Code != "" {
		r.ps.Add(trouble.Code, ref.at, ref.path, "%s", cmp.Or(trouble.Message, "the tool cannot be used"))
	}
	return class
}

// CheckDocument fills in the defaults.
func (m *Remote) CheckDocument(f *document.Fields) {
	if f.Value.Get("wait_seconds") == nil {
		m.Wait = defaultWait
	}
	if f.Value.Get("input") == nil {
		m.Input = newTemplate(&document.Value{Kind: document.Text, Text: "${input}"}, func(_ document.Position, err error) { panic(err) })
	}
}

// CheckDocument has the plan checked by whoever walks it.
func (s *PlanStage) CheckDocument(f *document.Fields) {
	f.Ignore("file") // it could not be read, which has been said
	if f.Value.Get("document") == nil && f.Value.Get("file") == nil {
		f.Report(document.CodeFieldMissing, f.Value.At, "document", "a plan stage needs a file or a document")
	}
	if s.Document == nil {
		return
	}
	v := f.Get("document")
	for _, name := range []string{"files", "deliver"} {
		if m := v.Member(name); m != nil {
			f.Report(document.CodeFieldInvalid, m.At, "document", "a plan inside a pipeline has no %s of its own", name)
		}
	}
	if r := f.Context.(*reader); r.resolver.Plan != nil {
		for _, p := range r.resolver.Plan(s.Document) {
			f.Report(p.Code, v.At, "document", "%s", strings.TrimPrefix(p.Path+": "+p.Message, ": "))
		}
	}
}

// What a scripted stage does after its last answer.
const (
	repeatLast  = "last"
	repeatCycle = "cycle"
)

// CheckDocument asks for an answer.
func (s *Scripted) CheckDocument(f *document.Fields) {
	s.Repeat = cmp.Or(s.Repeat, repeatLast)
	if v := f.Value.Get("answers"); v == nil || v.Kind == document.List && len(v.Items) == 0 {
		f.Report(document.CodeFieldMissing, placeOf(f, "answers"), "answers", "a scripted stage needs an answer")
	}
}

// CheckDocument reads what a tag cannot say.
func (a *Answer) CheckDocument(f *document.Fields) {
	if a.Output = fixedObject(f, "output"); a.Output == nil {
		a.Output = map[string]any{}
	}
	if m := f.Value.Member("error"); m != nil && m.Value.Kind == document.Object && f.Value.Get("output") != nil {
		f.Report(document.CodeFieldInvalid, m.At, "error", "an answer has an output or an error, not both")
	}
	f.Object("usage", func(f *document.Fields) { a.Usage = usage(f) })
	if object := fixedObject(f, "control"); object != nil {
		control, err := ReadControl(object)
		if err != nil {
			f.Report(document.CodeFieldInvalid, placeOf(f, "control"), "control", "%v", err)
		}
		a.Control = control
	}
}

func usage(f *document.Fields) tipstaff.StageUsage {
	var u struct {
		LLMCalls  int64 `doc:"llm_calls,max=1000000,negative=negative_value"`
		ToolCalls int64 `doc:"tool_calls,max=1000000,negative=negative_value"`
		Hops      int64 `doc:"agent_hops,max=1000000,negative=negative_value"`
		TokensIn  int64 `doc:"tokens_in,max=1000000,negative=negative_value"`
		TokensOut int64 `doc:"tokens_out,max=1000000,negative=negative_value"`
	}
	f.Decode(&u)
	used := tipstaff.StageUsage{LLMCalls: u.LLMCalls, ToolCalls: u.ToolCalls, Hops: u.Hops, TokensIn: u.TokensIn, TokensOut: u.TokensOut}
	if v := f.Typed("cost_usd", document.Text); v != nil {
		cost, err := tipstaff.ParseUSD(v.Text)
		if err != nil {
			f.Report(document.CodeRange, v.At, "cost_usd", "%v", err)
		}
		used.CostUSD = cost
	}
	return used
}
