package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/plan"
)

// A follow-up corrects what a run has delivered. It is a fork of that run with all that
// the run has used: a plan inherits the journal up to where the leaf begins that corrects,
// a pipeline all of it, and goes on with the stage. Either inherits the worktree with the
// record that made it.

// followUp stores a decision to fix what was delivered, with the run that it makes.
func (r *Runner) followUp(ctx context.Context, run string, asked flow.GateRow, req tipstaff.DecideRequest, known aboutGate, decide func(flow.Tx) ([]flow.Draft, error)) error {
	row, err := r.Store.Run(ctx, run)
	if err != nil {
		return err
	}
	if _, err := r.resolve(ctx, row, asked, req, known); err != nil {
		return err // nothing is made for a decision that is refused
	}
	g := gateOf(asked)
	subject, ok := tipstaff.DeliverySubjectOf(g)
	if !ok {
		return tipstaff.Errorf(tipstaff.Integrity, "gate %s does not say what was delivered", g.Key)
	}
	made, told := tipstaff.FollowupID(g.ID), tipstaff.FollowupOf(run, asked.ID, subject, req.Feedback)
	body, doc, forked, err := r.followUpOf(ctx, made, row, &told)
	if err != nil {
		return err
	}
	body.origin = row.Origin // whoever may drive the run may drive what corrects it, whoever decides
	created := flow.Draft{Kind: string(tipstaff.KindFollowupCreated), Body: flow.JSON(tipstaff.FollowupCreated{Child: made.String(), Gate: asked.ID, By: actor(ctx)})}
	forked.Beside = &flow.Beside{Run: run, Write: func(tx flow.Tx) ([]flow.Draft, error) {
		now, _, err := findGate(tx.Gates, asked.ID)
		if err != nil || now.Decided > 0 {
			return nil, errMoved
		}
		drafts, err := decide(tx)
		return append(drafts, created), err
	}}
	return r.store(ctx, made, body, doc, append(r.accepted(ctx, body, doc, via(req.Via)), forked))
}

// followUpOf is the draft of the run that follows up another, its program, and the record
// that says whence it was forked.
func (r *Runner) followUpOf(ctx context.Context, made tipstaff.ID, row flow.Row, told *tipstaff.Followup) (body draftBody, doc document, forked flow.Draft, err error) {
	if row.Kind == kindPipeline {
		head, err := leftAt(ctx, r.Store, row.ID, row.Head)
		if err != nil {
			return body, nil, forked, err
		}
		b, err := r.boundaryAsked(ctx, idOf(row.ID), tipstaff.Place{})
		if err != nil {
			return body, nil, forked, err
		}
		asks, err := (handed{}).asks(ctx)
		if err != nil {
			return body, nil, forked, err
		}
		body, doc, said, err := head.branch(ctx, r.Store, made.String(), branch{followup: told, by: actor(ctx), asks: asks}, b)
		return body, doc, flow.Draft{Kind: string(tipstaff.KindRunForked), Body: flow.JSON(said)}, err
	}
	p, err := openProgram(ctx, r.Store, row.ID)
	if err != nil {
		return body, nil, forked, err
	}
	own, ok := p.(*planProgram)
	if !ok {
		return body, nil, forked, tipstaff.Errorf(tipstaff.WrongState, "run %s is a %s: it cannot be followed up", row.ID, row.Kind)
	}
	at, err := own.correctionPoint(ctx, r.Store)
	if err != nil {
		return body, nil, forked, err
	}
	body, doc, forked, err = r.forkAt(ctx, row.ID, at, row.Head, nil)
	if err == nil {
		body.Parent.Relation, body.User, body.Followup = relationFollowup, row.User, told
	}
	return body, doc, forked, err
}

// corrects are the stages that a follow-up goes on with, in index order.
func (t pipelineText) corrects() (names []string) {
	if at := t.Deliver.CorrectAt; at != "" {
		return []string{at}
	}
	for _, a := range t.Agents {
		if a.Entry {
			names = append(names, a.Name)
		}
	}
	return names
}

// inputFollowup is what references in plans call what a follow-up is told.
const inputFollowup = "followup"

// withFollowup adds to the inputs of a plan what a follow-up is told.
func (p *planProgram) withFollowup(inputs json.RawMessage) json.RawMessage {
	if p.draft.Followup == nil {
		return inputs
	}
	all := map[string]json.RawMessage{}
	_ = json.Unmarshal(inputs, &all) // they were checked when the run was made
	all = maps.Clone(all)
	all[inputFollowup] = flow.JSON(p.draft.Followup)
	return flow.JSON(all)
}

// corrected is the step of a plan that is told what is to be corrected: the one that the
// document names, else its first; nil: there is none.
func (w *walk) corrected() *plan.Node {
	text, ok := w.text.(planText)
	if !ok || text.Document != w.doc || text.Deliver == nil {
		return nil
	}
	for leaf := range w.doc.Root.Leaves {
		if at := text.Deliver.CorrectAt; leaf.Kind == plan.Step && (at == "" || at == leaf.ID) {
			return leaf
		}
	}
	return nil
}

// redone are the leaves of the document that a follow-up begins with, and those after them.
func (p *planProgram) redone() (ids []string) {
	at := p.doc.Deliver.CorrectAt
	begun := at == ""
	for leaf := range p.doc.Root.Leaves {
		if begun = begun || leaf.ID == at || usesFollowup(leaf); begun {
			ids = append(ids, leaf.ID)
		}
	}
	return ids
}

// usesFollowup reports whether a leaf refers to what a follow-up is told: it had another
// input in the parent.
func usesFollowup(n *plan.Node) bool {
	ref := []byte("inputs." + inputFollowup)
	return bytes.Contains(slices.Concat(n.Args, n.Inputs, n.Show, []byte(n.Prompt), []byte(n.Question)), ref)
}

// redo has what earlier revisions of the parent have done be done again, where it is to be
// corrected.
func (p *planProgram) redo() {
	for _, id := range p.redone() {
		delete(p.carry.Done, id)
	}
}

// correctionPoint is the last record before a follow-up of the run begins anew, at which
// nothing was under way.
func (p *planProgram) correctionPoint(ctx context.Context, src source) (at int64, err error) {
	redone := p.redone()
	begins := []string{p.root()} // paths
	if p.doc.Deliver.CorrectAt != "" {
		begins = nil
		var find func(*tipstaff.Outline)
		find = func(o *tipstaff.Outline) {
			if o.ID != "" && slices.Contains(redone, o.ID) {
				begins = append(begins, o.Path)
			}
			for _, c := range o.Children {
				find(c)
			}
		}
		find(p.outline())
	}
	open := map[string]bool{}
	err = eachEvent(ctx, src, p.run, 0, func(e *tipstaff.Event) error {
		if e.Seq > p.segment.since && slices.ContainsFunc(begins, func(path string) bool { return e.Path == path || strings.HasPrefix(e.Path, path+"/") }) {
			return errEnough
		}
		switch {
		case e.Kind == tipstaff.KindEffectIntended || flow.Opens(string(e.Kind)):
			open[e.Path] = true
		case e.Kind == tipstaff.KindEffectFinished || e.Kind.ClosesGate():
			delete(open, e.Path)
		}
		if len(open) == 0 {
			at = e.Seq
		}
		return nil
	})
	return at, err
}

// worktreeLine are the runs that the worktree of a run went through: the first has made
// it, each follow-up has taken it over.
func worktreeLine(ctx context.Context, src source, run string, draft *draftBody) (line []string, err error) {
	for {
		follows, inherits := draft.Parent != nil && draft.Parent.Relation == relationFollowup, false
		if inherits = follows; draft.ForkOf != nil && !follows {
			if inherits, err = hasWorktree(ctx, src, draft.ForkOf.Run, draft.ForkOf.Seq); err != nil {
				return nil, err
			}
		}
		if follows || !inherits {
			line = append(line, run)
		}
		if !inherits {
			slices.Reverse(line)
			return line, nil
		}
		run = draft.ForkOf.Run
		if draft, err = readDraft(ctx, src, run); err != nil {
			return nil, err
		}
	}
}

// hasWorktree reports whether a run had a worktree at a record.
func hasWorktree(ctx context.Context, src source, run string, at int64) (has bool, err error) {
	for {
		err = eachEvent(ctx, src, run, at, func(e *tipstaff.Event) error {
			if has = e.Kind == tipstaff.KindEffectFinished && strings.HasPrefix(e.Path, worktreePath); has {
				return errEnough
			}
			return nil
		})
		if has || err != nil {
			return has, err
		}
		draft, err := readDraft(ctx, src, run)
		if err != nil || draft.ForkOf == nil {
			return false, err
		}
		run, at = draft.ForkOf.Run, draft.ForkOf.Seq
	}
}

// Where package delivery makes worktrees, and commits for its gates.
const (
	worktreePath = "deliver/worktree"
	commitPath   = "deliver/commit#"
)

// askedBy are the runs whose gates about a delivery a fork has inherited, in the order of
// the gates: commit and branch that were shown there are theirs.
func askedBy(ctx context.Context, src source, draft *draftBody) (runs []string, err error) {
	if draft.ForkOf == nil || draft.Parent != nil && draft.Parent.Relation == relationFollowup {
		return nil, nil
	}
	base, err := readDraft(ctx, src, draft.ForkOf.Run)
	if err != nil {
		return nil, err
	}
	if runs, err = askedBy(ctx, src, base); err != nil {
		return nil, err
	}
	err = eachEvent(ctx, src, draft.ForkOf.Run, draft.ForkOf.Seq, func(e *tipstaff.Event) error {
		if e.Kind == tipstaff.KindEffectFinished && strings.HasPrefix(e.Path, commitPath) {
			runs = append(runs, draft.ForkOf.Run)
		}
		return nil
	})
	return runs, err
}

// modeOf is where a program works.
func modeOf(f *tipstaff.RunFiles) string {
	if f == nil {
		return ""
	}
	return f.Mode
}

// followedUp checks that a follow-up was told what its parent's gate and decision say,
// where those can be asked.
func (j *judge) followedUp() {
	f := j.draft.Followup
	if f == nil || j.draft.Parent == nil || j.draft.Parent.Relation != relationFollowup {
		return
	}
	var opened tipstaff.Gate
	var decided bool
	err := eachEvent(j.ctx, j.src, f.ParentRunID, 0, func(e *tipstaff.Event) error {
		switch {
		case e.Kind == tipstaff.KindPolicyGate:
			if err := attach(j.ctx, j.src, e); err != nil {
				return err
			}
			if g, err := tipstaff.OpenedGate(e.Kind, e.Path, e.Seq, e.At, e.Body); err == nil && g.ID.String() == f.Gate {
				opened = g
			}
		case e.Kind == tipstaff.KindPolicyGateResolve && e.Path == opened.Key && opened.Key != "":
			b := tipstaff.BodyOf[tipstaff.GateResolved](e)
			decided = true
			s, _ := tipstaff.DeliverySubjectOf(opened)
			if want := tipstaff.FollowupOf(f.ParentRunID, f.Gate, s, b.Feedback); b.Action != tipstaff.DeliverFix || !sameJSON(flow.JSON(f), flow.JSON(want)) {
				j.fault("followup_mismatch", 1, "", "%s", differing(flow.JSON(f), flow.JSON(want)))
			}
		}
		return nil
	})
	if _, stored := j.src.(rows); stored && (err != nil || !decided) {
		j.fault("followup_mismatch", 1, "", "run %s has no decision that made this run", f.ParentRunID)
	}
}
