package runner

import (
	"cmp"
	"context"
	"maps"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// Fork makes a new run that inherits the journal of another up to a record.
func (r *Runner) Fork(ctx context.Context, req tipstaff.ForkRequest) (tipstaff.Forked, error) {
	row, err := r.openToBranch(ctx, req.Run, req.Checkpoint, true, &req.Changes)
	if err == nil && req.Project != "" {
		err = tipstaff.Errorf(tipstaff.InvalidArgument, "a fork is about what its source is about: it cannot have another project")
	}
	if err = cmp.Or(err, checkHosting(req.Hosting)); err != nil {
		return tipstaff.Forked{}, err
	}
	started, found, err := r.madeBefore(ctx, req.Key, requestDigest(relationFork, req))
	if !found && err == nil {
		started, err = r.fork(ctx, req, row)
	}
	if err != nil {
		return tipstaff.Forked{}, explain(err, req.Run)
	}
	fork := tipstaff.Forked{Existed: started.Existed, Launched: started.Launched}
	fork.Run, err = r.get(ctx, started.Run)
	return fork, err
}

func (r *Runner) fork(ctx context.Context, req tipstaff.ForkRequest, row flow.Row) (none tipstaff.Started, err error) {
	if row.Kind == kindPipeline || req.Checkpoint != "" || req.Stage != "" || req.Thread != "" || len(req.Outputs)+len(req.Metadata) > 0 {
		return r.goBack(ctx, branch{ForkRequest: req}, row)
	}
	at := req.At
	if at == 0 {
		if at, err = r.forkPoint(ctx, row); err != nil {
			return none, err
		}
	}
	if at < 1 || at > row.Head {
		return none, tipstaff.Errorf(tipstaff.CursorBeyondHead, "run %s has records 1 to %d: it cannot be forked at %d", row.ID, row.Head, at)
	}
	body, doc, forked, err := r.forkAt(ctx, row.ID, at, at, req.Raise)
	if err != nil {
		return none, err
	}
	body.forked(req)
	return r.create(ctx, tipstaff.NewID(r.Now()), body, doc, append(r.accepted(ctx, body, doc, "command"), forked), person{}, req.Detach)
}

// forked gives the draft of a fork what its request says of it.
func (d *draftBody) forked(req tipstaff.ForkRequest) {
	d.Title, d.Labels = cmp.Or(req.Title, d.Title), maps.Clone(d.Labels)
	d.hosted(req.Hosting, requestDigest(relationFork, req))
}

// forkAt is the draft of a run that inherits the journal of another up to record at, and
// has used all that the other has up to record head, under bounds that are raised; its
// program, and the record that says so.
func (r *Runner) forkAt(ctx context.Context, run string, at, head int64, raised map[string]int64) (body draftBody, doc document, forked flow.Draft, err error) {
	p, err := programAt(ctx, r.Store, run, at)
	if err != nil {
		return body, nil, forked, err
	}
	last, err := r.Store.Records(ctx, run, at-1, 1)
	if err != nil {
		return body, nil, forked, err
	}
	h, err := segmentOf(ctx, r.Store, run, head)
	if err != nil {
		return body, nil, forked, err
	}
	c := p.shared()
	tally := flow.Totals(h, c.limits)
	body = c.draft
	ceiling := r.ceilingNow(c, raised)
	if body.Bounds, err = c.forkBounds(tipstaff.Bounds(tally.Limit), raised, ceiling); err != nil {
		return body, nil, forked, err
	}
	body.revision = c.segment.Revision.Number
	if body.Asks, err = (handed{of: c.asks()}).asks(ctx); err != nil {
		return body, nil, forked, err
	}
	body.ForkOf = &tipstaff.ForkPoint{Run: run, Seq: at, Hash: journal.Hash(last[0].Hash)}
	body.Parent = &tipstaff.RunParent{Run: run, Relation: relationFork}
	if doc, err = p.branch(ctx, r, &body); err != nil {
		return body, nil, forked, err
	}
	wall := flow.Wall(h).Milliseconds()
	forked = flow.Draft{Kind: string(tipstaff.KindRunForked), Body: flow.JSON(tipstaff.RunForked{FromRun: run, Seq: at, Counters: tally.Used, Held: tally.Held, WallMs: &wall, Raised: raised, Ceiling: ceiling, By: actor(ctx)})}
	return body, doc, forked, nil
}

// forkPoint is the last record before the effect that made a run fail; of one
// that did not fail, its head.
func (r *Runner) forkPoint(ctx context.Context, row flow.Row) (int64, error) {
	if tipstaff.State(row.State) != tipstaff.Failed {
		return row.Head, nil
	}
	began, failed := map[string]int64{}, int64(0)
	var wrong []tipstaff.Failure // of calls
	err := eachEvent(ctx, r.Store, row.ID, 0, func(e *tipstaff.Event) error {
		switch e.Kind {
		case tipstaff.KindEffectIntended, tipstaff.KindEffectFinished, tipstaff.KindPolicyGate:
			if began[e.Path] == 0 {
				began[e.Path] = e.Seq
			}
			if b := tipstaff.BodyOf[tipstaff.Effect](e); e.Kind == tipstaff.KindEffectFinished && b.Error != nil {
				wrong = append(wrong, tipstaff.Failure{Code: b.Error.Code, Path: e.Path})
			}
		case tipstaff.KindPlanStep:
			switch b := tipstaff.BodyOf[tipstaff.PlanStep](e); b.Status {
			case tipstaff.StepStarted, tipstaff.StepCompleted, tipstaff.StepCancelled:
			default:
				at := began[e.Path]
				if at == 0 && b.Error != nil { // an agent's calls are below its step
					for _, w := range wrong {
						if w.Code == b.Error.Code && strings.HasPrefix(w.Path, e.Path+"/") {
							at = began[w.Path]
						}
					}
				}
				failed = cmp.Or(at, failed)
			}
		}
		return nil
	})
	if failed > 0 {
		return failed - 1, err
	}
	return row.Head, err
}

// ceilingNow is what the manifest permits at this moment of bounds that are raised, where
// that is not what it permitted when the run was made.
func (r *Runner) ceilingNow(c *common, raised map[string]int64) flow.Use {
	m, err := r.manifest()
	if err != nil {
		return nil // then nobody has permitted anything else
	}
	var now flow.Use
	was := c.gate.Manifest.Ceiling()
	for name := range raised {
		bound := raisable[name].bound
		most, limited := m.Ceiling()[bound]
		if then, had := was[bound]; limited && (!had || then != most) {
			if now == nil {
				now = flow.Use{}
			}
			now[bound] = most
		}
	}
	return now
}

// forkBounds are the bounds of a fork whose source was held to limit, with what decisions
// had added to it. Those that are raised are set anew, up to the ceiling: that of the manifest
// or, where that says nothing, of the plan itself. now is that of the manifest by now, where
// that is another.
func (c *common) forkBounds(limit tipstaff.Bounds, raised map[string]int64, now flow.Use) (tipstaff.Bounds, error) {
	own := tipstaff.Bounds{}
	if text, ok := c.text.(planText); ok {
		own = tipstaff.Bounds(text.Document.Limits())
	}
	ceiling := tipstaff.EffectiveBounds(nil, own, nil)
	maps.Copy(ceiling, c.gate.Manifest.Ceiling())
	maps.Copy(ceiling, tipstaff.Bounds(now))
	bounds := maps.Clone(limit)
	return bounds, raise(bounds, ceiling, raised, false)
}

// forkedPlan checks that a fork of a plan or a turn has no more budget than it could be
// given. That of a pipeline is judged with all else that it takes over.
func (j *judge) forkedPlan() {
	draft := j.draft
	if draft.ForkOf == nil || draft.Pipeline != nil {
		return
	}
	forked, at := j.forked()
	if forked == nil {
		return
	}
	base, err := programAt(j.ctx, j.src, draft.ForkOf.Run, draft.ForkOf.Seq)
	if err != nil {
		j.fault("rollback_mismatch", 1, "", "%v", err)
		return
	}
	h, err := segmentOf(j.ctx, j.src, draft.ForkOf.Run, draft.ForkOf.Seq)
	if err != nil {
		j.fault("rollback_mismatch", 1, "", "%v", err)
		return
	}
	c := base.shared()
	if joinAsks(draft.Asks, c.asks()) != draft.Asks {
		j.fault("rollback_mismatch", 1, "", "the run was forked from one that asks about more calls")
	}
	want, err := c.forkBounds(tipstaff.Bounds(flow.Totals(h, c.limits).Limit), forked.Raised, forked.Ceiling)
	if err != nil {
		j.fault("rollback_mismatch", at, "", "%v", err)
		return
	}
	if above := draft.Bounds.Above(want); len(above) > 0 {
		j.fault("rollback_mismatch", 1, "", "the run was forked with more %s than its source had, and nobody has raised it", strings.Join(above, ", "))
	}
}
