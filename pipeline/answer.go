package pipeline

import (
	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/document"
)

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
		Delay:  r.duration(f, "delay_ms", 0, milliseconds),
		Hang:   f.Boolean("hang", false),
	}
	if a.Output == nil {
		a.Output = map[string]any{}
	}
	if v := f.Typed("error", document.Object); v != nil {
		a.Error = r.stageError(r.fields(v, f.PathOf("error")))
		if f.Value.Get("output") != nil {
			f.Report(document.CodeFieldInvalid, memberAt(f.Value, "error"), "error", "an answer has an output or an error, not both")
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

func (r *reader) usage(f *document.Fields) Usage {
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
