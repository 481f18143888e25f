package runner

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/workspace"
)

// Resume drives a waiting or interrupted run on. A run that waits for decisions
// nobody has made is not driven: nothing would come of it, and nothing is
// written. A person who is there can answer, so then it is.
func (r *Runner) Resume(ctx context.Context, req tipstaff.ResumeRequest) (tipstaff.Started, error) {
	row, err := r.openToDrive(ctx, req.Run, tipstaff.ToolRunResume, answering(req.Presence))
	if err == nil && !r.driving(row.ID) { // else it has a place, and is busy
		err = r.mayBegin(ctx, row.User, req.Detach)
	}
	if err != nil {
		return tipstaff.Started{}, err
	}
	if r.Launch != "" {
		started, err := r.execute(ctx, row)
		return started, explain(err, req.Run)
	}
	return r.resume(ctx, row, req.Presence, req.Detach)
}

func (r *Runner) resume(ctx context.Context, row flow.Row, p tipstaff.Presence, detach bool) (started tipstaff.Started, err error) {
	defer func() { err = explain(err, idOf(row.ID)) }()
	switch {
	case tipstaff.State(row.State).Terminal():
		return started, flow.ErrEnded
	case row.Kind == kindPipeline && tipstaff.State(row.State) == tipstaff.Drafting:
		return started, tipstaff.Errorf(tipstaff.WrongState, "run %s is a draft: it was never started", row.ID)
	case r.driving(row.ID):
		r.goesOnAgain(row.ID)
		return started, flow.ErrBusy
	case r.held(row):
		return started, flow.ErrBusy
	}
	opened, err := openProgram(ctx, r.Store, row.ID)
	if err != nil {
		return started, err
	}
	who := person{Presence: p}
	pending, err := r.pending(ctx, row)
	if err != nil {
		return started, err
	}
	started = opened.shared().started()
	if len(pending) > 0 && !who.canAnswer(pending) {
		return started, nil
	}
	if detach {
		started.Launched, err = r.launchAgain(ctx, row, opened, who)
		return started, err
	}
	return started, r.submit(ctx, row, opened, who)
}

// pending are the gates that a parked run and its children wait for, if none of
// them was decided since and no timer is due.
func (r *Runner) pending(ctx context.Context, row flow.Row) ([]tipstaff.Gate, error) {
	if row.Owned != string(tipstaff.KindRunParked) || row.Cancel || row.Correction > row.Cont {
		return nil, nil
	}
	if r.due(row) {
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
	err = eachBackward(ctx, src, row, func(s flow.Stored) error {
		switch tipstaff.Kind(s.Kind) {
		case tipstaff.KindRunParked:
			return errEnough
		case tipstaff.KindPolicyGateResolve, tipstaff.KindIntentAnswer, tipstaff.KindIntentAccept:
			decided = true
		}
		return nil
	})
	return decided, err
}

// eachBackward gives f the records of a run, the last first, until f has enough. It may
// give some twice.
func eachBackward(ctx context.Context, src source, row flow.Row, f func(flow.Stored) error) error {
	for end := row.Head; end > 0; end -= pageSize {
		page, err := src.Records(ctx, row.ID, max(0, end-pageSize), pageSize)
		if err != nil {
			return err
		}
		for _, s := range slices.Backward(page) {
			if err := f(s); err == errEnough {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// Serving is what the workspace's manifest says of the daemon.
func (r *Runner) Serving() (workspace.Serve, error) {
	m, err := r.manifest()
	return m.Serving(), err
}

// Elicits reports whether the answer of the person at an MCP client, as that reports it, closes
// a gate of a kind. A manifest that cannot be read lets it close none.
func (r *Runner) Elicits(kind tipstaff.GateKind) bool {
	m, err := r.manifest()
	return err == nil && m.Elicits(kind)
}

// unfinished are the states in which a run can be driven on by itself. A draft waits
// for whoever made it.
var unfinished = []string{string(tipstaff.Proposed), string(tipstaff.Clarifying), string(tipstaff.Accepted), string(tipstaff.Executing)}

// TakeUp drives on what an earlier owner of this kind left: the runs that it was
// driving when it ended, and those that it had not come to, in the order in which they
// were made. What others were driving waits for somebody to resume it. It tells how
// many there were.
func (r *Runner) TakeUp(ctx context.Context, kind string) (int, error) {
	rows, err := r.Store.Runs(ctx, flow.Query{States: unfinished})
	if err != nil {
		return 0, explain(err, tipstaff.ID{})
	}
	waiting, err := r.lookAtQueue(ctx)
	if err != nil {
		return 0, explain(err, tipstaff.ID{})
	}
	taken := 0
	for _, row := range slices.Backward(rows) {
		if waiting[row.ID] > 0 {
			continue // in the queue of another that lives
		}
		left, err := r.leftBy(ctx, row, kind)
		if err != nil {
			return taken, explain(err, idOf(row.ID))
		}
		if !left {
			continue
		}
		now, err := r.Store.Run(ctx, row.ID) // it may have gone on with its parent
		if err == nil {
			_, err = r.resume(localUser(ctx), now, tipstaff.Presence{}, false)
		}
		switch {
		case err == nil:
			taken++
		case errors.Is(err, &tipstaff.Error{Code: tipstaff.FormatNewer}): // it waits for the newer program
		case !errors.Is(err, &tipstaff.Error{Code: tipstaff.Busy}) && !errors.Is(err, &tipstaff.Error{Code: tipstaff.RunEnded}):
			return taken, explain(err, idOf(row.ID))
		}
	}
	return taken, nil
}

// leftBy reports whether an owner of this kind was the last that a run had, and left it
// without parking it; or made it, and never came to drive it; or had it wait for its turn.
func (r *Runner) leftBy(ctx context.Context, row flow.Row, kind string) (bool, error) {
	fold, _, err := r.foldAt(ctx, row)
	if err != nil {
		return false, err
	}
	switch fold.Owned {
	case "":
		return row.Origin == kind && row.Base == "", nil // a fork waits for whoever made it
	case tipstaff.KindRunQueued: // daemons alone have a queue
		return true, nil
	case tipstaff.KindRunParked: // and it ended before it could go on with a gate that had expired
		top, err := r.topOf(ctx, row.ID)
		if err != nil || top.ID != row.ID {
			return false, err
		}
		e, err := eventAt(ctx, r.Store, row.ID, row.Head)
		if err != nil || !e.Kind.ClosesGate() || tipstaff.BodyOf[tipstaff.GateResolved](e).Via != flow.ViaExpiry {
			return false, err
		}
		last, err := r.lastOwner(ctx, row)
		return last == kind, err
	case tipstaff.KindRunInterrupted:
		last, err := r.lastOwner(ctx, row)
		return last == kind, err
	}
	return false, nil
}

// lastOwner is the kind of the owner that drove a run last.
func (r *Runner) lastOwner(ctx context.Context, row flow.Row) (kind string, err error) {
	err = eachBackward(ctx, r.Store, row, func(s flow.Stored) error {
		if s.Kind != string(tipstaff.KindRunStarted) && s.Kind != string(tipstaff.KindRunResumed) {
			return nil
		}
		e, err := tipstaff.ParseEvent(s.Bytes)
		kind = tipstaff.BodyOf[tipstaff.RunStarted](&e).Kind
		return cmp.Or(err, error(errEnough))
	})
	return kind, err
}
