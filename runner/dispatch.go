package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/pipeline"
	"github.com/tipstaff/tipstaff/plan"
)

// dispatchName is the activity that starts a child run and takes it to its end.
const dispatchName = "run.dispatch"

// dispatchInput is all that a child run is made from, beside what its parent has
// frozen.
type dispatchInput struct {
	Skill       string          `json:"skill"`
	SkillDigest string          `json:"skill_digest"`
	Inputs      json.RawMessage `json:"inputs"`
	Bounds      tipstaff.Bounds `json:"bounds"`
	Scope       string          `json:"scope,omitempty"`
	Accept      string          `json:"accept"`
	Agent       string          `json:"agent,omitempty"` // who drafts the plan of a skill that brings none
}

// planPerformer walks a plan below a stage, and has a child run walk one for a
// sub_dispatch node.
type planPerformer struct{ agentless }

// Activities implements [Performer].
func (planPerformer) Activities(env *Environment) map[string]flow.Activity {
	return map[string]flow.Activity{dispatchName: env.r.dispatch(env.program.shared(), env.who)}
}

// Perform implements [Performer]. The bounds of a child are reserved from this run's,
// and settled by what the child used. The call is idempotent: the child has a journal of
// its own, and an attempt that finds it goes on with it.
func (planPerformer) Perform(fc flow.Context, t *Task) (Result, error) {
	if t.stage != nil {
		return t.planStage(fc)
	}
	p, n := t.walk.common, t.leaf.Node
	s, doc := p.skills[n.Skill], p.children[n.Skill]
	if s == nil {
		return Result{}, subagent("%s was not frozen into this run", n.Skill)
	}
	bounds, drafts := p.childBounds(n, doc), ""
	if doc == nil {
		drafts = n.Agent
	}
	r, err := fc.Do(flow.Call{Name: dispatchName, Class: flow.Idempotent, Timeout: t.Timeout, Reserve: handDown(bounds),
		Input: flow.JSON(dispatchInput{Skill: n.Skill, SkillDigest: s.Digest(), Inputs: t.Args, Bounds: bounds,
			Scope: n.Scope, Accept: n.Accept, Agent: drafts})})
	return Result{Result: r}, err
}

// planStage walks the plan of a stage, in this run.
func (t *Task) planStage(fc flow.Context) (r Result, err error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(t.Args, &given); err != nil {
		return r, inputError("the inputs of a plan are an object: %v", err)
	}
	inputs, problems := t.walk.doc.CheckInputs(given)
	if len(problems) > 0 {
		return r, inputError("%s", problems[0].Message)
	}
	value, err := plan.Walk(fc, t.walk.doc, inputs, t.walk.handlers())
	if err != nil {
		return r, err
	}
	var res plan.Result
	if err := json.Unmarshal(value, &res); err != nil {
		return r, err
	}
	if r.Output, err = pipeline.DecodeObject(res.Outputs); err != nil {
		return r, &flow.Error{Code: plan.ReasonOutputInvalid, Message: "the outputs of the plan cannot be kept: " + err.Error()}
	}
	return r, nil
}

func inputError(format string, args ...any) *pipeline.StageError {
	return &pipeline.StageError{Code: "input_error", Message: fmt.Sprintf(format, args...)}
}

// subagent is the failure of a node whose child did not complete.
func subagent(format string, args ...any) *flow.Error {
	return &flow.Error{Code: plan.ReasonSubagent, Message: fmt.Sprintf(format, args...)}
}

// dispatch is the activity for the drive of a parent. who answers the parent's
// gates answers the child's too.
func (r *Runner) dispatch(parent *common, who person) flow.Activity {
	return flow.Activity{Run: func(ctx context.Context, a flow.Attempt) (flow.Done, error) {
		var in dispatchInput
		if err := json.Unmarshal(a.Input, &in); err != nil {
			return flow.Done{}, err
		}
		child, err := r.childOf(ctx, parent, a, in)
		if err != nil {
			return flow.Done{}, err
		}
		who := who
		if in.Accept == plan.AcceptAuto {
			who.parent = parent.run
		}
		if err := r.takeToEnd(ctx, child, who); err != nil {
			if errors.Is(err, flow.ErrParked) {
				r.waitsFor(parent.run, child)
			}
			return flow.Done{}, err
		}
		return r.resultOf(ctx, child)
	}}
}

// waitsFor notes that the drive of a run does not look at a child any more.
func (r *Runner) waitsFor(run, child string) {
	r.mu.Lock()
	a := r.drives[run]
	r.mu.Unlock()
	if a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.waits = append(a.waits, child)
	}
}

// childOf is the run that belongs to this call, made if there is none. Its id is
// in the parent's journal before the child is: no attempt makes a second one.
func (r *Runner) childOf(ctx context.Context, parent *common, a flow.Attempt, in dispatchInput) (string, error) {
	child := ""
	err := eachEvent(ctx, r.Store, a.Run, 0, func(e *tipstaff.Event) error { // an earlier attempt may have named it
		if e.Kind == tipstaff.KindIntentDispatch && e.Path == a.Path {
			child = tipstaff.BodyOf[tipstaff.IntentDispatch](e).Child.String()
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if child != "" {
		_, err := r.Store.Run(ctx, child)
		if err == nil || !errors.Is(err, flow.ErrNoRun) {
			return child, err
		}
	}
	made, err := r.prepareChild(ctx, parent, in)
	if err != nil {
		return "", err
	}
	if child == "" {
		child = tipstaff.NewID(r.Now()).String()
		a.Note(flow.Event{Kind: string(tipstaff.KindIntentDispatch), From: journal.Executor, Body: tipstaff.IntentDispatch{
			Child: idOf(child), Skill: in.Skill, SkillDigest: in.SkillDigest, Bounds: in.Bounds}})
		if err := a.Sync(); err != nil {
			return "", err
		}
	}
	err = r.createChild(ctx, child, parent, made, in.Accept)
	if err != nil {
		if _, missing := r.Store.Run(ctx, child); missing == nil {
			err = nil // whoever drove the parent before was still making it
		}
	}
	return child, err
}

// takeToEnd drives a child until it has ended. It is not driven while somebody
// else does, nor while it waits for decisions that nobody here can make: then
// the parent waits too.
func (r *Runner) takeToEnd(ctx context.Context, child string, who person) error {
	changed, stop := r.Store.Follow(child)
	defer stop()
	for {
		row, err := r.Store.Run(ctx, child)
		switch {
		case ctx.Err() != nil:
			return r.leave(ctx, child)
		case err != nil:
			return err
		case tipstaff.State(row.State).Terminal():
			return nil
		case r.driving(child) || r.alive(row):
			select {
			case <-ctx.Done():
			case <-changed:
			case <-time.After(time.Second):
			}
			continue
		}
		pending, err := r.pending(ctx, row)
		if err != nil {
			return err
		}
		if len(pending) > 0 && !who.canAnswer(pending) {
			return flow.ErrParked
		}
		if err := r.driveChild(ctx, child, who); err != nil {
			return err
		}
	}
}

// driveChild drives a child once. One that is interrupted or cannot be driven
// leaves its parent waiting: both are taken up by the next drive.
func (r *Runner) driveChild(ctx context.Context, child string, who person) error {
	p, err := openProgram(ctx, r.Store, child)
	if err != nil {
		return err
	}
	a, err := r.begin(child, p, who)
	if errors.Is(err, flow.ErrBusy) {
		return nil
	} else if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return r.leave(ctx, child)
	case <-a.done:
		switch d := a.driven; {
		case d.Err != nil && d.Err.Code == tipstaff.Busy:
			return nil // somebody else drives it
		case d.Err != nil || d.Outcome == string(flow.Interrupted) || d.Outcome == string(flow.ParkedRun):
			return flow.ErrParked
		}
		return nil
	}
}

// leave is what becomes of a child whose parent's call is over before it is. A
// stop of the process stops both, and both are resumed; otherwise the child is
// cancelled.
func (r *Runner) leave(ctx context.Context, child string) error {
	var stopped *flow.Stop
	if cause := context.Cause(ctx); errors.As(cause, &stopped) {
		return cause
	}
	why := "its parent's call ended: " + context.Cause(ctx).Error()
	if err := r.cancelChild(child, why); err != nil {
		return err
	}
	if limit := new(flow.Error); errors.As(context.Cause(ctx), &limit) {
		ended := *limit
		ended.Retry = false
		return &ended
	}
	return context.Cause(ctx)
}

// cancelChild ends a child run on behalf of its parent.
func (r *Runner) cancelChild(child, why string) error {
	row, err := r.Store.Run(context.Background(), child)
	if err != nil || tipstaff.State(row.State).Terminal() {
		return err
	}
	parent := ""
	if p, err := openProgram(context.Background(), r.Store, child); err == nil && p.shared().draft.Parent != nil {
		parent = p.shared().draft.Parent.Run
	}
	ctx := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "parent", User: row.User, Principal: "run:" + parent})
	_, err = r.Cancel(ctx, tipstaff.CancelRequest{Run: idOf(child), Reason: why})
	return err
}

// endChildren cancels the children of a run that is over and that nobody will
// drive on any more.
func (r *Runner) endChildren(run string) {
	row, err := r.Store.Run(context.Background(), run)
	if err != nil || !tipstaff.State(row.State).Terminal() {
		return
	}
	got, err := r.status(context.Background(), row)
	if err != nil || got.Lineage == nil {
		return
	}
	for _, child := range got.Lineage.Children {
		_ = r.cancelChild(child.String(), "its parent ended: "+row.State) // a child that cannot be ended now can be by hand
	}
}

// pendingBelow are the gates that the children of a parked run wait for. waits is
// false if one of them could be driven on.
func (r *Runner) pendingBelow(ctx context.Context, row flow.Row) (open []tipstaff.Gate, waits bool, err error) {
	got, err := r.status(ctx, row)
	if err != nil || got.Lineage == nil {
		return nil, true, err
	}
	for _, id := range got.Lineage.Children {
		child, err := r.Store.Run(ctx, id.String())
		if errors.Is(err, flow.ErrNoRun) {
			return nil, false, nil // it was announced and not made yet
		} else if err != nil {
			return nil, false, err
		}
		if tipstaff.State(child.State).Terminal() {
			continue // had its parent not seen that yet, it would be due
		}
		gates, err := r.pending(ctx, child)
		if err != nil || len(gates) == 0 {
			return nil, false, err
		}
		open = append(open, gates...)
	}
	return open, true, nil
}

// resultOf is what a child that has ended brings its parent.
func (r *Runner) resultOf(ctx context.Context, child string) (flow.Done, error) {
	got, err := r.get(ctx, idOf(child))
	if err != nil {
		return flow.Done{}, err
	}
	p, err := openProgram(ctx, r.Store, child)
	if err != nil {
		return flow.Done{}, err
	}
	tally, err := r.totals(ctx, child, p)
	if err != nil {
		return flow.Done{}, err
	}
	done := flow.Done{Value: got.Outputs, Use: handDown(tally.Used), Held: tally.Held}
	if got.State == tipstaff.Completed {
		return done, nil
	}
	failed := subagent("child run %s ended %s", child, got.State)
	told := map[string]any{"child": child, "state": got.State}
	if f := got.Error; f != nil {
		failed.Message += ": " + f.Message
		told["reason"], told["code"] = f.Reason, f.Code
	}
	failed.Detail, failed.Answered = flow.JSON(told), true
	return done, failed
}

// Bounds that a child takes from its parent's ledger. The others are its own.
var handedDown = []string{tipstaff.BoundModelCalls, tipstaff.BoundToolCalls, tipstaff.BoundTokens, tipstaff.BoundCostUSD, tipstaff.BoundAgentHops}

// lostAttempts is the room that is given where nobody has set a bound: an attempt
// whose end nobody saw is charged.
const lostAttempts = 4

// childBounds is what a child may consume: what its node says, what its plan
// says, and where neither does, what its plan can need at most, with room for
// attempts that a crash loses. Never more than the parent's own limit.
func (p *common) childBounds(n *plan.Node, doc *plan.Document) tipstaff.Bounds {
	said := tipstaff.Min(tipstaff.Bounds(n.Bounds))
	if doc != nil {
		said = tipstaff.Min(said, tipstaff.Bounds(doc.Bounds))
	}
	for name, most := range p.needs(doc) {
		if _, ok := said[name]; !ok {
			if most > 0 {
				most += lostAttempts
			}
			said[name] = most
		}
	}
	return tipstaff.Min(tipstaff.EffectiveBounds(nil, said, nil), tipstaff.Bounds(p.limits))
}

// needs is the most that a plan can take from the ledger. A plan without agents
// takes nothing but tool calls and hops. What an agent will take nobody knows: a
// plan that has one, or that one is to draft (nil), gets half of what its parent
// has, so that the parent can go on after it. It ends: no skill dispatches itself.
func (p *common) needs(doc *plan.Document) tipstaff.Bounds {
	most, agents := tipstaff.Bounds{}, false
	for _, name := range handedDown {
		most[name] = 0
		if doc == nil {
			most[name] = p.limits[name] / 2
		}
	}
	if doc == nil {
		return most
	}
	for leaf := range doc.Root.Leaves {
		switch leaf.Kind {
		case plan.Step:
			most[tipstaff.BoundAgentHops] += 1 + int64(leaf.Retry.Max)
			agents = true
		case plan.ToolCall:
			most[tipstaff.BoundToolCalls] += 1 + int64(leaf.Retry.Max)
		case plan.SubDispatch:
			most[tipstaff.BoundAgentHops]++
			for name, n := range p.childBounds(leaf, p.children[leaf.Skill]) {
				if _, down := most[name]; down {
					most[name] += n
				}
			}
		}
	}
	for _, name := range handedDown {
		if limit, ok := p.limits[name]; agents && ok && name != tipstaff.BoundAgentHops {
			most[name] = max(most[name], limit/2)
		}
	}
	return most
}

// handDown is what a parent holds for a child with these bounds, or pays for one
// that has used as much: with the hop of starting it.
func handDown(amounts map[string]int64) flow.Use {
	u := flow.Use{tipstaff.BoundAgentHops: 1}
	for _, name := range handedDown {
		if amounts[name] > 0 {
			u[name] += amounts[name]
		}
	}
	return u
}
