package pipeline

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
	"github.com/tipstaff/tipstaff/flow"
)

var ways = []Way{WayModel, WayWorker, WayTool, WayRemote, WayPlan, WayScripted}

// way reads how the stage runs: exactly one of a few objects.
func (r *reader) way(f *document.Fields, w *written) {
	for _, way := range ways {
		f.Ignore(string(way), "effect")
	}
	var found *document.Member
	for i, m := range f.Value.Members {
		switch {
		case !slices.Contains(ways, Way(m.Key)):
		case found == nil:
			found, w.Way = &f.Value.Members[i], Way(m.Key)
		default:
			f.Report(codeTwoWaysToRun, m.At, m.Key, "the agent has two ways to run, %s and %s; one of them must go", w.Way, m.Key)
			return
		}
	}
	if found == nil {
		r.ps.Add(codeNoWayToRun, f.Value.At, f.Path, "an agent needs one of model, tool, remote, plan and scripted; remote: {} is the shortest")
		return
	}
	r.effect(f, w)
	inner := r.fields(found.Value, f.PathOf(found.Key))
	if inner == nil {
		return
	}
	switch w.Way {
	case WayModel:
		w.Model = r.model(inner)
	case WayWorker:
		w.Worker = r.worker(f, found, inner)
	case WayTool:
		w.Tool = r.tool(f, inner, w)
	case WayRemote:
		w.Remote = r.remote(inner, w.Agent)
	case WayPlan:
		w.Plan = r.plan(inner)
	case WayScripted:
		w.Scripted = r.scripted(inner)
	}
	inner.End()
}

// effect is what may be done about an attempt whose outcome is unknown. Only those
// who run elsewhere say so themselves; of a tool the manifest does.
func (r *reader) effect(f *document.Fields, w *written) {
	given := f.Get("effect")
	effect := r.word(f, "effect", string(flow.Once), string(flow.Idempotent), string(flow.Read))
	if w.Way == WayRemote || w.Way == WayWorker {
		w.Effect = effect
		r.retryable(f, w, effect)
		return
	}
	if given != nil && given.Text != "" {
		f.Report(document.CodeFieldInvalid, given.At, "effect", "effect belongs to remote stages; what a %s stage does is known otherwise", w.Way)
	}
}

func (r *reader) retryable(f *document.Fields, w *written, class string) {
	if class == string(flow.Once) && w.MaxRetries > 0 {
		f.Report(codeRetryOnce, placeOf(f, "max_retries"), "max_retries", "what %s does must not be done twice, so that it cannot be retried", document.Brief(w.Name))
	}
}

func (r *reader) model(f *document.Fields) *Model {
	m := &Model{
		Name: f.Text("name"), Agent: f.Text("agent"),
		Prompt: r.template(f, "prompt", document.Text), System: r.template(f, "system", document.Text),
		Skill:    f.Text("skill"),
		MaxSteps: int(r.bound(f, "max_steps", defaultSteps, "", 1)),
		Keep:     r.word(f, "session", "fresh", "keep") == "keep",
	}
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
	if refs := r.list(f, "tools"); f.Value.Get("tools") != nil {
		uris := []string{}
		for _, ref := range refs {
			uris = append(uris, ref.name)
			r.uri(ref)
		}
		m.Tools = &uris
	}
	return m
}

// worker reads a stage that somebody of the host does; outer is the stage itself.
func (r *reader) worker(outer *document.Fields, way *document.Member, f *document.Fields) *Worker {
	m := &Worker{Name: f.Text("name"), Prompt: r.template(f, "prompt", document.Text), Keep: r.word(f, "session", "fresh", "keep") == "keep"}
	f.Ignore("prompt_file") // it could not be read, which has been said
	if r.resolver.Performer != nil {
		if t := r.resolver.Performer(Way(way.Key), m.Name); t.Code != "" {
			outer.Report(t.Code, way.At, way.Key, "%s", t.Message)
			return m
		}
	}
	f.Need("name")
	return m
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

// uri checks a tool and tells its class; "": nobody knows.
func (r *reader) uri(ref reference) (class string) {
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

// tool reads the call of a stage; outer is the stage itself.
func (r *reader) tool(outer, f *document.Fields, w *written) *Tool {
	t := &Tool{Args: r.template(f, "args", document.Object, document.Text)}
	f.Need("uri")
	if ref, ok := r.named(f, "uri"); ok {
		t.URI = ref.name
		r.retryable(outer, w, r.uri(ref))
	}
	return t
}

func (r *reader) remote(f *document.Fields, a *Agent) *Remote {
	m := &Remote{Agent: f.TextOr("agent", a.Name), Input: r.template(f, "input"), Wait: r.duration(f, "wait_seconds", defaultWait, time.Second)}
	if m.Input == nil {
		m.Input = newTemplate(&document.Value{Kind: document.Text, Text: "${input}"}, func(_ document.Position, err error) { panic(err) })
	}
	return m
}

func (r *reader) plan(f *document.Fields) *PlanStage {
	s := &PlanStage{Inputs: r.template(f, "inputs", document.Object, document.Text)}
	v := f.Typed("document", document.Object)
	if v == nil {
		f.Ignore("file") // it could not be read, which has been said
		if f.Value.Get("document") == nil && f.Value.Get("file") == nil {
			f.Report(document.CodeFieldMissing, f.Value.At, "document", "a plan stage needs a file or a document")
		}
		return s
	}
	s.Document = document.Raw(v)
	for _, name := range []string{"workspace", "deliver"} {
		if m := v.Member(name); m != nil {
			f.Report(document.CodeFieldInvalid, m.At, "document", "a plan inside a pipeline has no %s of its own", name)
		}
	}
	if r.resolver.Plan != nil {
		for _, p := range r.resolver.Plan(s.Document) {
			f.Report(p.Code, v.At, "document", "%s", strings.TrimPrefix(p.Path+": "+p.Message, ": "))
		}
	}
	return s
}

// What a scripted stage does after its last answer.
const (
	repeatLast  = "last"
	repeatCycle = "cycle"
	repeatFail  = "fail"
)

func (r *reader) scripted(f *document.Fields) *Scripted {
	s := &Scripted{Repeat: r.word(f, "repeat", repeatLast, repeatCycle, repeatFail)}
	if v := f.Value.Get("answers"); v == nil || v.Kind == document.List && len(v.Items) == 0 {
		f.Report(document.CodeFieldMissing, placeOf(f, "answers"), "answers", "a scripted stage needs an answer")
	}
	r.each(f, "answers", func(f *document.Fields) { s.Answers = append(s.Answers, r.answer(f)) })
	return s
}

func (r *reader) answer(f *document.Fields) Answer {
	a := Answer{
		Output: r.object(f, "output"),
		Delay:  r.duration(f, "delay_ms", 0, time.Millisecond),
		Hang:   f.Boolean("hang", false),
	}
	if a.Output == nil {
		a.Output = map[string]any{}
	}
	if v := f.Typed("error", document.Object); v != nil {
		a.Error = r.stageError(r.fields(v, f.PathOf("error")))
		if f.Value.Get("output") != nil {
			f.Report(document.CodeFieldInvalid, f.Value.Member("error").At, "error", "an answer has an output or an error, not both")
		}
	}
	if v := f.Typed("usage", document.Object); v != nil {
		a.Usage = r.usage(r.fields(v, f.PathOf("usage")))
	}
	if v := f.Typed("control", document.Object); v != nil {
		object, _ := r.fixed(f, v, "control").(map[string]any)
		control, err := ReadControl(object)
		if err != nil {
			f.Report(document.CodeFieldInvalid, v.At, "control", "%v", err)
		}
		a.Control = control
	}
	return a
}

func (r *reader) stageError(f *document.Fields) *StageError {
	defer f.End()
	f.Need("code")
	return &StageError{Code: f.Text("code"), Message: f.Text("message"), Retryable: f.Boolean("retryable", false)}
}

func (r *reader) usage(f *document.Fields) tipstaff.StageUsage {
	defer f.End()
	u := tipstaff.StageUsage{
		LLMCalls: r.count(f, "llm_calls", 0), ToolCalls: r.count(f, "tool_calls", 0), Hops: r.count(f, "agent_hops", 0),
		TokensIn: r.count(f, "tokens_in", 0), TokensOut: r.count(f, "tokens_out", 0),
	}
	if v := f.Typed("cost_usd", document.Text); v != nil {
		cost, err := tipstaff.ParseUSD(v.Text)
		if err != nil {
			f.Report(document.CodeRange, v.At, "cost_usd", "%v", err)
		}
		u.CostUSD = cost
	}
	return u
}
