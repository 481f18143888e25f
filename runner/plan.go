package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
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
		// The document may declare other inputs than the run was given: those it does not
		// know are left aside, those it adds have their defaults.
		given, err := declaredInputs(doc, c.inputs)
		if err != nil {
			return nil, fmt.Errorf("run %s: %w", c.run, err)
		}
		var problems []tipstaff.Problem
		if c.inputs, problems = doc.CheckInputs(given); len(problems) > 0 {
			return nil, fmt.Errorf("run %s: the revised program does not take the run's inputs: %s", c.run, problems[0].Message)
		}
	}
	p.carry, err = c.segment.carry(ctx, src)
	if c.draft.Followup != nil && c.segment.since == 0 {
		p.redo()
	}
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
	return plan.Walk(fc, p.doc, p.withFollowup(p.inputs), h)
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
	return plan.Handlers{Perform: w.perform, Mode: w.mode(), Verbatim: w.draft.Rules < rulesShown}
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
