package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/tool"
	"github.com/tipstaff/tipstaff/workspace"
)

// perform runs one attempt of one stage, in the way that its document says.
func (p *pipelineProgram) perform(fc flow.Context, s pipeline.Stage) (pipeline.Result, error) {
	if s.Agent.Way == pipeline.WayScripted {
		return pipeline.PerformScripted(fc, s)
	}
	m := &meter{}
	res, err := p.performAs(metered{fc, m}, s)
	if err != nil {
		res = pipeline.Result{} // but what it has used counts, also where a bound stopped it
	}
	res.Usage, res.Once = m.read()
	return res, m.failed(err)
}

func (p *pipelineProgram) performAs(fc flow.Context, s pipeline.Stage) (r pipeline.Result, err error) {
	switch s.Agent.Way {
	case pipeline.WayModel:
		r.Output, err = p.modelStage(fc, s)
	case pipeline.WayTool:
		r.Output, err = p.toolStage(fc, s)
	case pipeline.WayPlan:
		r.Output, err = p.planStage(fc, s)
	case pipeline.WayRemote:
		r.Output, r.Control, err = p.remoteStage(fc, s)
	default:
		err = fmt.Errorf("stage %s has no way to run", s.Agent.Name)
	}
	return r, err
}

// toolStage makes one call, as a node of a plan would.
func (p *pipelineProgram) toolStage(fc flow.Context, s pipeline.Stage) (map[string]any, error) {
	node := &plan.Node{Kind: plan.ToolCall, ID: s.Agent.Name, Tool: s.Agent.Tool.URI, Timeout: s.Timeout}
	r, err := newWalk(p.common, nil, p.gateOf(s.Agent)).toolCall(fc, plan.ToolRequest{Node: node, Args: s.Args, Literal: s.Agent.Tool.Args.Literal()})
	if err != nil {
		return nil, err
	}
	v, err := pipeline.Decode(r.Value)
	if err != nil {
		return nil, &flow.Error{Code: plan.ReasonOutputInvalid, Message: fmt.Sprintf("what %s answered cannot be kept: %v", node.Tool, err)}
	}
	return asObject(v), nil
}

// planStage walks a plan below the stage.
func (p *pipelineProgram) planStage(fc flow.Context, s pipeline.Stage) (map[string]any, error) {
	doc := p.pipe.walked[s.Agent.Name]
	var given map[string]json.RawMessage
	if err := json.Unmarshal(s.Input, &given); err != nil {
		return nil, inputError("the inputs of a plan are an object: %v", err)
	}
	inputs, problems := doc.CheckInputs(given)
	if len(problems) > 0 {
		return nil, inputError("%s", problems[0].Message)
	}
	value, err := plan.Walk(fc, doc, inputs, newWalk(p.common, doc, p.gateOf(s.Agent)).handlers())
	if err != nil {
		return nil, err
	}
	var res plan.Result
	if err := json.Unmarshal(value, &res); err != nil {
		return nil, err
	}
	out, err := pipeline.DecodeObject(res.Outputs)
	if err != nil {
		return nil, &flow.Error{Code: plan.ReasonOutputInvalid, Message: "the outputs of the plan cannot be kept: " + err.Error()}
	}
	return out, nil
}

func inputError(format string, args ...any) *pipeline.StageError {
	return &pipeline.StageError{Code: "input_error", Message: fmt.Sprintf(format, args...)}
}

// modelStage has a model do the stage, in a turn of the agent loop.
func (p *pipelineProgram) modelStage(fc flow.Context, s pipeline.Stage) (map[string]any, error) {
	a, ok := p.agents.settled[stageAgent(s.Agent)]
	if !ok {
		return nil, fmt.Errorf("the run froze no agent for stage %s", s.Agent.Name)
	}
	set := a.Settings
	set.System = strings.TrimSpace(set.System + "\n\n" + s.System)
	set.Timeout, set.Prepaid = s.Timeout, true
	if s.Agent.OutputSchema != nil {
		set.OutputSchema = s.Agent.OutputSchema
	}
	in := agent.Input{Message: s.Prompt}
	if s.Agent.Model.Keep {
		in.Session = s.Agent.Name
		if said := p.sessions[s.Agent.Name]; said != nil {
			if err := json.Unmarshal(said, &in.History); err != nil {
				return nil, err
			}
		}
	}
	out, err := p.speak(fc, set, p.gateOf(s.Agent), in)
	if s.Agent.Model.Keep && (err == nil || !flow.Parked(err)) {
		p.sessions[s.Agent.Name] = flow.JSON(out.Messages)
	}
	if err != nil {
		return nil, err
	}
	return spokenObject(out), nil
}

// spokenObject is what a model said as an object: its own, or its text.
func spokenObject(out agent.Output) map[string]any {
	text := out.Text
	if out.JSON != nil {
		text = string(out.JSON)
	}
	if v, err := pipeline.DecodeObject([]byte(unfenced(text))); err == nil {
		return v
	}
	return map[string]any{"text": out.Text}
}

// asObject makes an object of what a tool answered: its own, or one with the
// answer as result.
func asObject(v any) map[string]any {
	if o, ok := v.(map[string]any); ok {
		return o
	}
	if text, ok := v.(string); ok {
		return map[string]any{"text": text}
	}
	return map[string]any{"result": v}
}

// stageAgent is the name under which the agent of a model stage is frozen: no
// agent of a manifest can have it.
func stageAgent(a *pipeline.Agent) string { return "stage:" + a.Name }

// settleStage settles who does a model stage.
func (r *Runner) settleStage(p *prepared, a *pipeline.Agent) error {
	c := workspace.Agent{Model: a.Model.Name}
	if a.Model.Agent != "" {
		c, _ = p.manifest.Agent(a.Model.Agent) // it was looked for when the document was checked
	}
	if a.Model.Skill != "" {
		c.Skill = a.Model.Skill
	}
	if a.Model.Tools != nil {
		c.Tools = *a.Model.Tools
	}
	if c.Tools == nil && c.Skill == "" {
		c.Tools = []string{} // what a stage does not name it may not use
	}
	if a.Model.MaxSteps > 0 {
		c.MaxSteps = a.Model.MaxSteps
	}
	return r.settleAgentAs(p, stageAgent(a), c)
}

// stageTools are the tools that a stage may use, besides those of a plan's nodes.
func stageTools(a *pipeline.Agent, set agentSet) []string {
	switch a.Way {
	case pipeline.WayTool:
		return []string{a.Tool.URI}
	case pipeline.WayModel:
		if own := set.settled[stageAgent(a)].Tools; own != nil {
			return *own
		}
	}
	return nil
}

// gateOf is the run's gate, narrowed to what one stage names.
func (p *pipelineProgram) gateOf(a *pipeline.Agent) *tool.Gate {
	g := *p.gate
	g.AllowList = p.pipe.allowedIn(a, p.skills, p.agents)
	return &g
}

// stageError is a failure in the words of pipelines. What must be handed up as it is
// comes back so.
func stageError(err error) error {
	var own *pipeline.StageError
	var failed *flow.Error
	var ended *plan.Failure
	switch {
	case flow.Parked(err), errors.Is(err, flow.ErrCancelled), errors.As(err, &own):
		return err
	case errors.As(err, &ended):
		if ended.Reason == plan.ReasonBound {
			return &flow.Error{Code: flow.CodeBoundExceeded, Bound: ended.Bound, Message: ended.Message}
		}
		return &pipeline.StageError{Code: failureCode(ended), Message: ended.Message, Retryable: pipeline.Retryable(ended.Reason),
			Denied: ended.Reason == plan.ReasonPolicyDenied || ended.Reason == plan.ReasonGateDenied}
	case errors.As(err, &failed):
		if failed.Code == flow.CodeBoundExceeded || failed.Code == flow.CodeDeadline {
			return err
		}
		reason := plan.Reason(failed)
		return &pipeline.StageError{Code: failed.Code, Message: failed.Message, Retryable: failed.Retry || pipeline.Retryable(reason),
			Denied: reason == plan.ReasonPolicyDenied || reason == plan.ReasonGateDenied}
	}
	return err
}

func failureCode(f *plan.Failure) string {
	if f.Code != "" {
		return f.Code
	}
	return f.Reason
}

// endingFailure is the end of a pipeline in the closed terms of the lifecycle.
func endingFailure(e *pipeline.Ending) *plan.Failure {
	f := &plan.Failure{Reason: plan.ReasonStepError, Code: e.Code, Message: e.Text, Path: e.Path}
	switch e.Reason {
	case tipstaff.TerminalToolFailed:
		f.Reason = plan.ReasonToolError
	case tipstaff.TerminalPolicy:
		f.Reason = plan.ReasonPolicyDenied
	case tipstaff.TerminalDenied:
		f.Reason = plan.ReasonGateDenied
	case tipstaff.TerminalDeadlock:
		f.Reason = "x:deadlock"
	case tipstaff.TerminalInternal:
		f.Reason = plan.ReasonInternal
	}
	if e.Outcome == tipstaff.OutcomeBound {
		f.Reason, f.Bound = plan.ReasonBound, e.Bound
	}
	return f
}

// pipelineEnd is what the envelope that ends a pipeline run says beside what those of
// other runs say.
func pipelineEnd(out flow.Outcome) tipstaff.Ending {
	reason, text := tipstaff.TerminalInternal, ""
	var res pipelineResult
	var e *pipeline.Ending
	switch {
	case out.Status == flow.Completed && json.Unmarshal(out.Value, &res) == nil:
		reason, text = res.TerminalReason, res.TerminationReason
	case errors.As(out.Err, &e):
		reason, text = e.Reason, e.Text
	case out.Status == flow.Cancelled: // by others than the executor, which says the same
		reason, text = tipstaff.TerminalCancelled, pipeline.TextCancelled
	case out.Err != nil:
		text = out.Err.Error()
	}
	text = tipstaff.Printable(text)
	return tipstaff.Ending{TerminalReason: string(reason), TerminationReason: &text}
}
