package worker

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Actions at the gates of a worker.
const (
	actionAllow    = "allow"
	actionAllowAll = "allow_all"
	actionDeny     = "deny"
	actionAnswer   = "answer"
	actionRetry    = "retry"
	actionFail     = "fail"
	actionExtend   = "extend"
	actionStop     = "stop"
)

// expiry is how long people have to answer.
const expiry = 24 * time.Hour

// approvalGate asks whether a call may be made, and shows exactly that call.
func (d *drive) approvalGate(r Request, res Result) flow.Gate {
	return flow.Gate{Kind: string(tipstaff.Approval), Subject: r.Subject(d.Worker, d.Type, res.CLIVersion, res.Dir), Actions: []string{actionAllow, actionDeny, actionAllowAll}, Deny: actionDeny,
		Expires: expiry, Question: fmt.Sprintf("May worker %s call %s?", d.Worker, r.Tool)}
}

// leaveGate asks whether the worker may begin what it is told. What every worker is told first
// is the operator's, and left out.
func (d *drive) leaveGate(prompt string) flow.Gate {
	subject := tipstaff.WorkerInvocation{Worker: d.Worker, Type: d.Type, Model: d.Model, Posture: string(d.Posture), Task: d.task,
		Rule: tipstaff.RuleBrought, Why: tipstaff.WhyBrought, Prompt: strings.TrimPrefix(prompt, d.Preamble)}
	return flow.Gate{Key: "approval", Kind: string(tipstaff.Approval), Subject: subject.Subject(), Actions: []string{actionAllow, actionDeny}, Deny: actionDeny,
		Expires: expiry, Question: fmt.Sprintf("May worker %s begin this with posture %s?", d.Worker, d.Posture)}
}

// questionGate passes a question on.
func (d *drive) questionGate(res Result) flow.Gate {
	subject := tipstaff.WorkerQuestion{Worker: d.Worker, Task: d.task, Question: res.Report.Question, Options: res.Report.Options, Text: res.Text}
	if subject.Question == "" {
		subject.Question = res.Report.Reason
	}
	return flow.Gate{Key: "question", Kind: string(tipstaff.Question), Subject: subject.Subject(), Actions: []string{actionAnswer, actionDeny}, Deny: actionDeny,
		Expires: expiry, Question: fmt.Sprintf("Worker %s asks something about task %s", d.Worker, d.task)}
}

// failureGate asks what to do about an invocation that came to nothing.
func (d *drive) failureGate(code string, res Result) flow.Gate {
	subject := tipstaff.WorkerQuestion{Worker: d.Worker, Task: d.task, Outcome: code, Question: tipstaff.Joined(": ", outcomeText(res), res.Error), Text: res.Text, StderrTail: res.StderrTail}
	return flow.Gate{Key: "failure", Kind: string(tipstaff.Question), Subject: subject.Subject(), Actions: []string{actionRetry, actionFail}, Deny: actionFail,
		Expires: expiry, Question: fmt.Sprintf("Worker %s has not done task %s. Try again?", d.Worker, d.task)}
}

// reviewGate hands what was reported to a person.
func (d *drive) reviewGate(res Result) flow.Gate {
	subject := tipstaff.HandoffSubject{Stage: d.task, Visit: int64(d.iteration), Trigger: tipstaff.TriggerApproved, Round: int64(d.iteration),
		MaxRounds: int64(d.MaxIterations), Summary: res.Report.Reason, Findings: []tipstaff.StageFinding{}, Incomplete: []string{}}
	actions := subject.Offer()
	return flow.Gate{Kind: string(tipstaff.Handoff), Subject: flow.JSON(subject), Actions: actions, Deny: tipstaff.ActionHalt,
		Question: fmt.Sprintf("Worker %s hands over task %s, iteration %d. What now?", d.Worker, d.task, d.iteration)}
}

// limitGate asks for one more iteration.
func (d *drive) limitGate() flow.Gate {
	return flow.Gate{Kind: string(tipstaff.Bound), Actions: []string{actionExtend, actionStop}, Deny: actionStop,
		Subject:  flow.JSON(map[string]any{"bound": boundIterations, "limit": d.MaxIterations, "used": d.iteration, "task": d.task}),
		Question: fmt.Sprintf("Task %s was rejected %d times. May it be worked on again?", d.task, d.iteration)}
}

// answerText is what somebody answered, in words.
func answerText(dec flow.Decision) string {
	if dec.Feedback != "" {
		return dec.Feedback
	}
	var text string
	if json.Unmarshal(dec.Answer, &text) == nil {
		return text
	}
	var object struct {
		Text string `json:"text"`
	}
	if json.Unmarshal(dec.Answer, &object) == nil && object.Text != "" {
		return object.Text
	}
	return string(dec.Answer)
}
