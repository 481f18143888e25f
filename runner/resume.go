package runner

import (
	"context"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Resume drives a waiting or interrupted run on. A run that waits for decisions
// nobody has made is not driven: nothing would come of it, and nothing is
// written. A person who is there can answer, so then it is.
func (r *Runner) Resume(ctx context.Context, req tipstaff.ResumeRequest) (tipstaff.Started, error) {
	run, err := r.mayChange(req.Run)
	if err != nil {
		return tipstaff.Started{}, err
	}
	row, err := r.Store.Run(ctx, run)
	if err != nil {
		return tipstaff.Started{}, explain(err, req.Run)
	}
	if tipstaff.State(row.State).Terminal() {
		return tipstaff.Started{}, explain(flow.ErrEnded, req.Run)
	}
	if row.Kind == kindPipeline && tipstaff.State(row.State) == tipstaff.Drafting {
		return tipstaff.Started{}, tipstaff.Errorf(tipstaff.WrongState, "run %s is a draft: it was never started", run)
	}
	if r.driving(run) || r.alive(row) {
		return tipstaff.Started{}, explain(flow.ErrBusy, req.Run)
	}
	p, err := openProgram(ctx, r.Store, run)
	if err != nil {
		return tipstaff.Started{}, explain(err, req.Run)
	}
	started := p.shared().started()
	who := person{Presence: req.Presence}
	pending, err := r.pending(ctx, row)
	if err != nil {
		return tipstaff.Started{}, explain(err, req.Run)
	}
	if len(pending) > 0 && !who.canAnswer(pending) {
		return started, nil
	}
	_, err = r.begin(run, p, who)
	return started, explain(err, req.Run)
}

// pending are the gates that a parked run and its children wait for, if none of
// them was decided since and no timer is due.
func (r *Runner) pending(ctx context.Context, row flow.Row) ([]tipstaff.Gate, error) {
	if row.Owned != string(tipstaff.KindRunParked) || row.Cancel || row.Correction > row.Cont {
		return nil, nil
	}
	if !row.WakeAt.IsZero() && !r.Now().Before(row.WakeAt) {
		return nil, nil
	}
	gates, err := r.Store.Gates(ctx, flow.GateQuery{Run: row.ID, Open: true})
	if err != nil {
		return nil, err
	}
	if decided, err := decidedSince(ctx, r.Store, row); err != nil || decided {
		return nil, err
	}
	var open []tipstaff.Gate
	for _, g := range gates {
		if gateOf(g).Expired(r.Now()) {
			return nil, nil
		}
		open = append(open, gateOf(g))
	}
	below, waits, err := r.pendingBelow(ctx, row)
	if err != nil || !waits {
		return nil, err
	}
	return append(open, below...), nil
}

// decidedSince reports whether a decision follows the run's last run.parked. Only
// foreign records can, so that is near the head.
func decidedSince(ctx context.Context, src source, row flow.Row) (decided bool, err error) {
	for end := row.Head; end > 0; end -= pageSize {
		page, err := src.Records(ctx, row.ID, max(0, end-pageSize), pageSize)
		if err != nil {
			return false, err
		}
		for _, s := range slices.Backward(page) {
			switch tipstaff.Kind(s.Kind) {
			case tipstaff.KindRunParked:
				return decided, nil
			case tipstaff.KindPolicyGateResolve, tipstaff.KindIntentAnswer, tipstaff.KindIntentAccept:
				decided = true
			}
		}
	}
	return decided, nil
}
