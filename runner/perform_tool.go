package runner

import (
	"errors"
	"fmt"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/agent"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
)

// toolPerformer makes one call.
type toolPerformer struct{ agentless }

// Activities implements [Performer].
func (toolPerformer) Activities(env *Environment) map[string]flow.Activity {
	act := toolActivity(env.manager, env.program.shared().gate)
	act.Check = env.toolCheck(act.Check)
	return map[string]flow.Activity{tool.ActivityName: act}
}

// Perform implements [Performer]: the gate is asked over what the run froze, a person
// where the policy wants one, and then the call is made. A refusal goes the same way, so
// that it is recorded as the call's outcome.
func (toolPerformer) Perform(fc flow.Context, t *Task) (Result, error) {
	if t.stage != nil {
		return t.toolStage(fc)
	}
	r, err := t.walk.toolCall(fc, *t.leaf)
	return Result{Result: r}, err
}

// toolStage makes one call, as a node of a plan would.
func (t *Task) toolStage(fc flow.Context) (Result, error) {
	node := &plan.Node{Kind: plan.ToolCall, ID: t.stage.Agent.Name, Tool: t.Name, Timeout: t.Timeout}
	r, err := t.walk.toolCall(fc, plan.Task{Node: node, Args: t.Args, Literal: t.stage.Agent.Tool.Args.Literal()})
	if err != nil {
		return Result{}, err
	}
	output, err := toolOutput(r.Value)
	if err != nil {
		return Result{}, &flow.Error{Code: plan.ReasonOutputInvalid, Message: fmt.Sprintf("what %s answered cannot be kept: %v", t.Name, err)}
	}
	return Result{Output: output}, nil
}

// toolOutput is the output of a stage whose tool gave this result.
func toolOutput(result []byte) (map[string]any, error) {
	v, err := pipeline.Decode(result)
	switch v := v.(type) {
	case map[string]any:
		return v, err
	case string:
		return map[string]any{"text": v}, err
	}
	return map[string]any{"result": v}, err
}

// approvalExpiry is how long an approval may be thought over.
const approvalExpiry = 24 * time.Hour

func (w *walk) toolCall(fc flow.Context, call plan.Task) (flow.Result, error) {
	uri := call.Node.Tool
	asks := w.asks()
	// A person who was asked has accepted what they were shown.
	covered := (asks != asksOnce || w.unasked[fc.Path()]) && (!w.segment.Revision.Shown || !w.cut()[call.Node.ID])
	v := w.gate.Ask(tool.Request{URI: uri, Args: call.Args, Literal: call.Literal && covered, Agent: hasAsk(asks, asksAll), Run: policy.Run{Path: fc.Path()}})
	by := v.By
	if v.Do == policy.Ask {
		var err error
		if by, err = w.approval(fc, call.Node, v); err != nil {
			return flow.Result{}, err
		}
	}
	class, retry, limits := flow.Once, call.Retry, plan.ToolInfo{}
	if v.Definition != nil {
		class, limits.Timeout = v.Class, v.Definition.Timeout
	}
	if class == flow.Once {
		retry = flow.Retry{}
	}
	r, err := fc.Do(flow.Call{Name: tool.ActivityName, Class: class, Timeout: call.Node.EffectiveTimeout(limits), Retry: retry,
		Input:   flow.JSON(tool.Input{URI: uri, Args: call.Args, Parse: call.Node.Parse, By: by, Facts: v.FactsDigest()}),
		Reserve: flow.Use{tipstaff.BoundToolCalls: 1}, Local: v.Err})
	var ended *flow.Error
	if v.Err != nil && err == nil { // only somebody who wrote it down could have a result of what the gate refuses
		return flow.Result{}, v.Err
	}
	if errors.As(err, &ended) && ended.Code == tool.CodeKilled {
		return r, flow.ErrCancelled // it did not fail: it was ended with its group or run
	}
	if err == nil || ended != nil {
		w.left.spend(call.Node.ID)
	}
	return r, err
}

// approval asks a person whether a call may be made, and returns the gate that
// allowed it. One that an earlier revision was given holds if it was about the
// same, tool and arguments, and its call was not made.
func (w *walk) approval(fc flow.Context, n *plan.Node, v tool.Verdict) (gate string, err error) {
	subject := flow.Digest(v.Subject)
	if earlier, ok := w.segment.Approved[n.ID]; ok && earlier.Subject == subject {
		return earlier.Gate, nil
	}
	d, err := fc.Wait(flow.Gate{Key: "approval", Kind: string(tipstaff.Approval), Question: "May " + n.Tool + " be called with these arguments?",
		Subject: v.Subject, Actions: []string{"allow", "deny"}, Deny: "deny", Expires: approvalExpiry})
	if err != nil {
		return "", err
	}
	if d.Action != "allow" {
		return "", &flow.Error{Code: "approval_denied", Message: agent.Denial(d), Detail: flow.JSON(map[string]string{"rule": v.Rule}), NotSent: true}
	}
	w.left.approve(n.ID, approval{d.Gate, subject})
	return d.Gate, nil
}

// cutIn are the ids of the calls of which a gate does not show every value.
func cutIn(o *tipstaff.Outline) map[string]bool {
	cut := map[string]bool{}
	var look func(*tipstaff.Outline)
	look = func(o *tipstaff.Outline) {
		if o.Kind == string(plan.ToolCall) && !tipstaff.ShownWhole(o.Given) {
			cut[o.ID] = true
		}
		for _, c := range o.Children {
			look(c)
		}
	}
	look(o)
	return cut
}
