package pipeline

import (
	"fmt"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff/document"
)

// agent reads one stage.
func (r *reader) agent(f *document.Fields) {
	a := &Agent{}
	w := &written{Agent: a, at: f.Value.At, path: f.Path}
	r.agents = append(r.agents, w)
	r.agentName(f, w)
	const farthest = 1 << 53
	a.StageOrder = f.Integer("stage_order", 0, -farthest, farthest)
	w.requires = r.list(f, "requires")
	w.after = r.list(f, "after")
	a.Requires, a.After = namesOf(w.requires), namesOf(w.after)
	a.JoinAny = r.word(f, "join", "all", "any") == "any"
	if v := f.Typed("entry", document.Boolean); v != nil {
		entry := v.Text == "true"
		w.entry = &entry
	}
	a.RequiredFields, _ = f.Texts("required_output_fields")
	if v := f.Get("output_schema"); v != nil {
		a.OutputSchema = document.Raw(v)
		schema, err := document.CompileSchema(a.OutputSchema)
		if err != nil {
			f.Report(codeSchemaInvalid, v.At, "output_schema", "output_schema is no JSON Schema: %v", err)
		}
		a.schema = schema
	}
	r.routing(f, w)
	a.Timeout = r.timeout
	if own := r.duration(f, "timeout_seconds", 0, time.Second); own > 0 {
		a.Timeout = own
	}
	a.MaxRetries = int(r.count(f, "max_retries", 0))
	a.RetryDelay = r.duration(f, "retry_delay_ms", defaultRetryDelay, time.Millisecond)
	a.MaxVisits = r.bound(f, "max_visits", 0, "", 1)
	a.Handoff = Handoff(r.word(f, "handoff", string(HandoffNever), string(HandoffOnReject), string(HandoffAlways)))
	r.way(f, w)
}

func (r *reader) agentName(f *document.Fields, w *written) {
	a := w.Agent
	a.Name, w.nameAt = f.Text("name"), placeOf(f, "name")
	switch {
	case a.Name == "" && missing(f, "name"):
		f.Report(codeNameMissing, w.nameAt, "name", "an agent needs a name")
	case a.Name == "":
	case reserved(a.Name):
		f.Report(codeReservedName, w.nameAt, "name", "%q cannot be an agent: routing gives it a meaning of its own", a.Name)
	case !nameGrammar.MatchString(a.Name):
		f.Report(codeBadName, w.nameAt, "name", "%q cannot name an agent: a letter, then up to 63 of A-Z, a-z, 0-9, _ and -", document.Brief(a.Name))
	}
	w.keyAt = w.nameAt
	if a.OutputKey = f.Text("output_key"); a.OutputKey == "" {
		a.OutputKey = a.Name
		return
	}
	w.keyAt = placeOf(f, "output_key")
	if a.OutputKey == DeliveryKey {
		f.Report(codeReservedName, w.keyAt, "output_key", "%q cannot be an output key: what was delivered stands there", a.OutputKey)
	}
}

// list reads names and where they stand.
func (r *reader) list(f *document.Fields, name string) []reference {
	var refs []reference
	names, at := f.Texts(name)
	for i := range names {
		refs = append(refs, reference{names[i], fmt.Sprintf("%s[%d]", f.PathOf(name), i), at[i]})
	}
	return refs
}

func namesOf(refs []reference) []string {
	var names []string
	for _, ref := range refs {
		names = append(names, ref.name)
	}
	return names
}

func (r *reader) routing(f *document.Fields, w *written) {
	target := func(name string) string {
		ref, ok := r.named(f, name)
		if ok {
			w.targets = append(w.targets, ref)
		}
		return ref.name
	}
	r.each(f, "routing_rules", func(f *document.Fields) { r.rule(f, w) })
	w.DefaultNext = target("default_next")
	w.ErrorNext = target("error_next")
	w.DeniedNext = target("denied_next")
}

// rule reads one, and reports at most one fault of its form.
func (r *reader) rule(f *document.Fields, w *written) {
	rule := Rule{Condition: f.Text("condition"), When: f.Text("when")}
	value := f.Get("value")
	target, routed := r.named(f, "target")
	then, continues := r.named(f, "then")
	rule.Target, rule.Then = target.name, then.name
	bad := func(name, format string, args ...any) {
		f.Report(codeBadRule, placeOf(f, name), name, format, args...)
	}
	switch {
	case rule.Condition != "" && rule.When != "":
		bad("when", "a rule has a condition or a when, not both")
	case rule.Condition == "" && rule.When == "":
		bad("condition", "a rule needs a condition with a value, or a when")
	case rule.Condition != "" && value == nil:
		bad("value", "a rule with a condition needs the value that is looked for")
	case rule.When != "" && value != nil:
		bad("value", "a value belongs to a condition; a when says all by itself")
	case !routed:
		bad("target", "a rule needs a target")
	case continues && !interrupts(rule.Target):
		bad("then", "then says where a run goes on after a question; %s asks none", document.Brief(rule.Target))
	}
	if value != nil {
		rule.Value = r.fixed(f, value, "value")
	}
	if rule.When != "" {
		when, err := compileCondition(rule.When)
		if err != nil {
			f.Report(codeBadExpression, placeOf(f, "when"), "when", "%q: %v", document.Brief(rule.When), err)
		}
		rule.when = when
	}
	if routed {
		w.targets = append(w.targets, target)
	}
	if continues {
		w.resumes = append(w.resumes, then)
	}
	w.Rules = append(w.Rules, rule)
}

// fixed is a value of the document, in the types of an Envelope.
func (r *reader) fixed(f *document.Fields, v *document.Value, name string) any {
	fixed, err := fixedValue(v)
	if err != nil {
		f.Report(document.CodeLimit, v.At, name, "%v", err)
	}
	return fixed
}

// fixedValue is read from the value's canonical form, so that a pipeline that was
// just read and one that was frozen have the same.
func fixedValue(v *document.Value) (any, error) { return Decode(document.Raw(v)) }

// object is fixed for what must be an object; nil where there is none.
func (r *reader) object(f *document.Fields, name string) map[string]any {
	v := f.Typed(name, document.Object)
	if v == nil {
		return nil
	}
	object, _ := r.fixed(f, v, name).(map[string]any)
	return object
}

// template compiles a member; nil: there is none.
func (r *reader) template(f *document.Fields, name string, kinds ...document.Kind) *Template {
	v := f.Get(name)
	if v == nil {
		return nil
	}
	if len(kinds) > 0 && !slices.Contains(kinds, v.Kind) {
		f.Report(document.CodeFieldType, v.At, name, "%s must be %v, not %v", name, kinds[0], v.Kind)
		return nil
	}
	return newTemplate(v, func(at document.Position, err error) {
		f.Report(codeBadExpression, at, name, "%v", err)
	})
}
