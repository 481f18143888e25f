package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
	"github.com/tipstaff/tipstaff/policy"
	"github.com/tipstaff/tipstaff/tool"
)

// planRoot is the path of a plan's root.
const planRoot = "root"

// revisedRoot is a root for the records of one revision.
func revisedRoot(root string, number int) string {
	if number > 1 {
		return fmt.Sprintf("%s@%d", root, number)
	}
	return root
}

// planProgram walks a plan.
type planProgram struct {
	*common
	doc   *plan.Document
	carry plan.Carry // what earlier revisions have done
	left  *remainder // and what the walk leaves to later ones, as far as it has come
}

func openPlan(ctx context.Context, src source, c *common, doc *plan.Document) (*planProgram, error) {
	p := &planProgram{common: c, doc: doc, left: newRemainder(c.segment.Approved)}
	var err error
	if c.segment.inForce().Number > 1 {
		if c.inputs, err = revisedInputs(doc, c.inputs); err != nil {
			return nil, fmt.Errorf("run %s: %w", c.run, err)
		}
	}
	p.carry, err = c.segment.carry(ctx, src)
	return p, err
}

func (p *planProgram) root() string    { return revisedRoot(planRoot, p.segment.Revision.Number) }
func (p *planProgram) continues() bool { return false }

func (p *planProgram) flow(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
	p.left = newRemainder(p.segment.Approved)
	w := newWalk(p.common, p.doc, p.gate)
	w.left = p.left
	h := w.handlers()
	h.Carry, h.Keep = p.carry, p.left
	return plan.Walk(fc, p.doc, p.inputs, h)
}

// next: a plan goes on when it is corrected.
func (p *planProgram) next(ctx context.Context, t *transition, _ json.RawMessage, cut bool) error {
	if !cut {
		return errors.New("the program goes on although nothing was confirmed")
	}
	if err := p.handOn(ctx, t); err != nil {
		return err
	}
	return p.correct(ctx, t)
}

// count: what became of the leaves.
func (p *planProgram) count(a *account, ev *evidence) {
	for leaf := range p.doc.Root.Leaves {
		status, ended := a.steps[leaf.ID]
		switch {
		case !ended:
			ev.Skipped = append(ev.Skipped, leaf.ID)
		case status == tipstaff.StepFailed && leaf.Continue:
			ev.Continued = append(ev.Continued, leaf.ID)
		}
		if ended {
			ev.Counts[status]++
		}
	}
}

// walk carries out the nodes of a plan: of a run's own, or of the one that a stage of a
// pipeline walks.
type walk struct {
	*common
	doc  *plan.Document // nil: a single call
	gate *tool.Gate
	left *remainder
	cut  func() map[string]bool // the calls of which the gate that accepted the plan did not show every value
}

func newWalk(c *common, doc *plan.Document, gate *tool.Gate) *walk {
	return &walk{c, doc, gate, newRemainder(nil), sync.OnceValue(func() map[string]bool { return cutIn(doc.Outline(nil)) })}
}

func (w *walk) handlers() plan.Handlers {
	return plan.Handlers{ToolCall: w.toolCall, Step: w.step, SubDispatch: w.subDispatch, Mode: w.mode(), Verbatim: w.draft.Rules < rulesShown}
}

// mode is what the skill wants done about a failure; nil: there is no skill.
func (w *walk) mode() func(reason string) plan.Mode {
	own := w.skills[w.doc.Skill]
	if own == nil || len(own.FailureModes) == 0 {
		return nil
	}
	return func(reason string) plan.Mode {
		m, _ := own.Mode(reason)
		return plan.Mode{Action: string(m.Action), Note: m.Note}
	}
}

// approvalExpiry is how long an approval may be thought over.
const approvalExpiry = 24 * time.Hour

// toolCall performs a tool node: the gate is asked over what the run froze, a
// person where the policy wants one, and then the call is made. A refusal goes
// the same way, so that it is recorded as the call's outcome.
func (w *walk) toolCall(fc flow.Context, call plan.ToolRequest) (flow.Result, error) {
	uri := call.Node.Tool
	asks := w.asks()
	v := w.gate.Ask(tool.Request{URI: uri, Args: call.Args, Literal: call.Literal && asks != asksOnce && w.covered(call.Node.ID), Agent: asks == asksAll, Run: policy.Run{Path: fc.Path()}})
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

// asks is which calls of the program ask although it was accepted.
func (c *common) asks() string {
	if c.draft.acceptedVia == viaParent || c.segment.Revision.ByParent {
		return asksAll
	}
	return c.draft.Asks
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
		return "", &flow.Error{Code: "approval_denied", Message: denial(d), Detail: flow.JSON(map[string]string{"rule": v.Rule}), NotSent: true}
	}
	w.left.approve(n.ID, approval{d.Gate, subject})
	return d.Gate, nil
}

func denial(d flow.Decision) string {
	switch {
	case d.Via == "expiry":
		return "nobody approved the call in time"
	case d.Note != "":
		return fmt.Sprintf("%s did not allow the call: %s", d.By, d.Note)
	}
	return d.By + " did not allow the call"
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

// covered reports whether the acceptance of the program covers the literal arguments of
// a call: a person who was asked has accepted what they were shown.
func (w *walk) covered(id string) bool { return !w.segment.Revision.Shown || !w.cut()[id] }

// revisedInputs are the inputs of a run for a document that may declare others:
// those it does not know are left aside, those it adds have their defaults.
func revisedInputs(doc *plan.Document, inputs json.RawMessage) (json.RawMessage, error) {
	given, err := declaredInputs(doc, inputs)
	if err != nil {
		return nil, err
	}
	checked, problems := doc.CheckInputs(given)
	if len(problems) > 0 {
		return nil, fmt.Errorf("the revised program does not take the run's inputs: %s", problems[0].Message)
	}
	return checked, nil
}

// declaredInputs are those of a run that a document knows.
func declaredInputs(doc *plan.Document, inputs json.RawMessage) (map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(inputs, &all); err != nil {
		return nil, fmt.Errorf("the inputs cannot be read: %w", err)
	}
	given := map[string]json.RawMessage{}
	for _, in := range doc.Inputs {
		if v, ok := all[in.Name]; ok {
			given[in.Name] = v
		}
	}
	return given, nil
}

// carry is what a walk takes over, with long results put back.
func (s *segment) carry(ctx context.Context, src source) (plan.Carry, error) {
	all := plan.Carry{Done: maps.Clone(s.Carried), Doubts: map[string]plan.Doubt{}}
	for id, done := range all.Done {
		if done.Output != nil {
			continue
		}
		output, err := src.Blob(ctx, done.Digest)
		if err != nil {
			return all, fmt.Errorf("the result of %s is not there: %w", done.Path, err)
		}
		done.Output = output
		all.Done[id] = done
	}
	for id, d := range s.InDoubt {
		if d.InputDigest != "" {
			input, err := src.Blob(ctx, d.InputDigest)
			if err != nil {
				return all, fmt.Errorf("the input of %s is not there: %w", d.Path, err)
			}
			d.Input = input
		}
		all.Doubts[id] = d.Doubt
	}
	return all, nil
}

// remainder is what one walk leaves to a later revision. Branches tell it at the
// same time.
type remainder struct {
	mu       sync.Mutex
	done     map[string]plan.Done
	settled  map[string]bool     // doubts of earlier revisions that were decided
	approved map[string]approval // calls that may be made and were not yet
}

func newRemainder(approved map[string]approval) *remainder {
	l := &remainder{done: map[string]plan.Done{}, settled: map[string]bool{}, approved: maps.Clone(approved)}
	if l.approved == nil {
		l.approved = map[string]approval{}
	}
	return l
}

// Completed implements [plan.Keeper].
func (l *remainder) Completed(id string, d plan.Done) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done[id] = d
}

// Settled implements [plan.Keeper].
func (l *remainder) Settled(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled[id] = true
}

// approve keeps an approval until its call has been made.
func (l *remainder) approve(id string, a approval) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.approved[id] = a
}

func (l *remainder) spend(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.approved, id)
}
