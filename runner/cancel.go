package runner

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

const (
	cancelGrace = 10 * time.Second // for once calls in flight
	cancelWait  = 15 * time.Second // for a living owner to settle
)

// Cancel asks a living owner to cancel and waits for it, or settles a run that
// has none.
func (r *Runner) Cancel(ctx context.Context, req tipstaff.CancelRequest) (tipstaff.Cancellation, error) {
	row, err := r.openToDrive(ctx, req.Run, tipstaff.ToolRunCancel)
	if err != nil {
		return tipstaff.Cancellation{}, err
	}
	switch {
	case tipstaff.State(row.State).Terminal():
		err = flow.ErrEnded
	case r.alive(row) || r.driving(row.ID):
		err = r.askToCancel(ctx, row.ID, req)
	case row.Session != "":
		// A turn that nobody drives is cancelled by driving it: what it leaves of the
		// conversation is for its loop to say.
		if _, err = r.requestCancel(ctx, row.ID, req.Reason); err == nil {
			err = r.driveOut(ctx, row.ID)
		}
	default:
		err = r.settle(ctx, row, r.cancelRequest(ctx, req.Reason))
	}
	if err != nil {
		return tipstaff.Cancellation{}, explain(err, req.Run)
	}
	run, err := r.get(ctx, req.Run)
	return tipstaff.Cancellation{Run: run}, err
}

// requestCancel stores the request, unless somebody asked before.
func (r *Runner) requestCancel(ctx context.Context, run, reason string) (cancelRequest, error) {
	body := r.cancelRequest(ctx, reason)
	return body, r.Store.Write(ctx, run, func(tx flow.Tx) ([]flow.Draft, error) {
		switch row := tx.Row(); {
		case tipstaff.State(row.State).Terminal():
			return nil, flow.ErrEnded
		case row.Cancel:
			return nil, nil
		}
		return []flow.Draft{body.draft()}, nil
	})
}

// driveOut drives a run, with nobody to ask, to where it rests.
func (r *Runner) driveOut(ctx context.Context, run string) error {
	p, err := openProgram(ctx, r.Store, run)
	if err != nil {
		return err
	}
	a, err := r.begin(run, p, person{ending: true})
	if err != nil {
		return err
	}
	<-a.done
	if a.driven.Err != nil {
		return a.driven.Err
	}
	return nil
}

func (r *Runner) cancelRequest(ctx context.Context, reason string) cancelRequest {
	return cancelRequest{RunCancelRequested: tipstaff.RunCancelRequested{Actor: actor(ctx), Mode: "graceful", Reason: reason, Deadline: r.Now().Add(cancelGrace).UTC()}}
}

func (b cancelRequest) draft() flow.Draft {
	return flow.Draft{Kind: string(tipstaff.KindRunCancelRequested), Body: flow.JSON(b.RunCancelRequested)}
}

// askToCancel stores the request and waits until the owner has settled the run,
// or has died: then the run is settled here.
func (r *Runner) askToCancel(ctx context.Context, run string, req tipstaff.CancelRequest) error {
	changed, stop := r.Store.Follow(run)
	defer stop()
	body, err := r.requestCancel(ctx, run, req.Reason)
	if err != nil {
		return err
	}
	r.queue.excuse(run)
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(req.Wait, cancelWait))
	defer cancel()
	for {
		row, err := r.Store.Run(ctx, run)
		switch {
		case ctx.Err() != nil:
			return nil // it is recorded, and will be settled without another call
		case err != nil:
			return err
		case tipstaff.State(row.State).Terminal():
			return nil
		case !r.alive(row) && !r.driving(run):
			return r.settle(ctx, row, body)
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// settle ends a run that nobody drives: the request, closings of its gates and
// the terminal envelope in one transaction.
func (r *Runner) settle(ctx context.Context, row flow.Row, req cancelRequest) error {
	if err := r.sweep(ctx, row); err != nil {
		return err
	}
	p, err := openProgram(ctx, r.Store, row.ID)
	if err != nil {
		return err
	}
	for {
		a, head, err := accountOf(ctx, r.Store, row.ID)
		if err != nil {
			return err
		}
		used, limit, err := r.totals(ctx, row.ID, p)
		if err != nil {
			return err
		}
		out := flow.Outcome{Status: flow.Cancelled, Used: used, Limit: limit}
		beside, err := p.beside(ctx, r, out)
		if err != nil {
			return err
		}
		moved := false
		err = r.Store.Write(ctx, row.ID, func(tx flow.Tx) ([]flow.Draft, error) {
			now := tx.Row()
			switch {
			case tipstaff.State(now.State).Terminal():
				return nil, flow.ErrEnded
			case r.alive(now):
				return nil, flow.ErrBusy
			}
			if moved = now.Head != head; moved {
				return nil, nil
			}
			drafts, err := closings(tx)
			if err != nil {
				return nil, err
			}
			if now.Cancel {
				req = a.cancelRequest()
			} else {
				drafts = append([]flow.Draft{req.draft()}, drafts...)
			}
			end := r.cancelled(p, a, out, req)
			end.Beside = beside
			return append(drafts, end), nil
		})
		if err != nil {
			return err
		}
		if !moved {
			r.project(row.ID)
			if p.shared().hasChildren() {
				r.endChildren(row.ID)
			}
			return nil
		}
	}
}

// closings close the gates of a run that ends.
func closings(tx flow.Tx) (drafts []flow.Draft, err error) {
	gates, err := tx.Gates(true)
	for _, row := range gates {
		g := gateOf(row)
		drafts = append(drafts, flow.Closing(row.ID, row.Key, g.Digest, g.Deny, "run_ended"))
	}
	return drafts, err
}

func (r *Runner) totals(ctx context.Context, run string, p program) (used, limit flow.Use, err error) {
	h, err := r.Store.Load(ctx, run)
	if err != nil {
		return nil, nil, err
	}
	used, limit = flow.Totals(h, p.shared().limits)
	return used, limit, nil
}

// Recover marks the runs of dead owners as interrupted, or completes a cancel
// that one of them left behind. Left-over processes are ended first, so that
// none works beside its successor. Gates past their time are denied. It drives nothing.
func (r *Runner) Recover(ctx context.Context, foundBy string) error {
	rows, err := r.Store.Runs(ctx, flow.Query{Leased: true})
	if err != nil {
		return explain(err, tipstaff.ID{})
	}
	rows = slices.DeleteFunc(rows, r.alive)
	if err := r.sweep(ctx, rows...); err != nil {
		return explain(err, tipstaff.ID{})
	}
	var all errgroup.Group
	all.SetLimit(16) // they share commits
	for _, row := range rows {
		all.Go(func() error { return explain(r.recover(ctx, row, foundBy), idOf(row.ID)) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	_, err = r.expireDue(ctx, "")
	return err
}

func (r *Runner) recover(ctx context.Context, row flow.Row, foundBy string) error {
	if row.Cancel && row.Session == "" { // a turn is ended by whoever drives it next
		// A journal that was changed settles nothing, and keeps nobody from the other runs.
		if err := r.settle(ctx, row, cancelRequest{}); !errors.Is(err, flow.ErrIntegrity) {
			return err
		}
	}
	return r.Store.Write(ctx, row.ID, func(tx flow.Tx) ([]flow.Draft, error) {
		now := tx.Row()
		if now.Owner == nil || now.Epoch != row.Epoch {
			return nil, nil // somebody else was faster
		}
		return []flow.Draft{{Kind: string(tipstaff.KindRunInterrupted), Body: flow.JSON(tipstaff.RunInterrupted{
			Reason: "owner_died", Pid: row.Owner.Pid, LastHeartbeat: row.Heartbeat.UTC().Format(time.RFC3339Nano), FoundBy: foundBy})}}, nil
	})
}

// sweep ends what the owners of these runs left behind.
func (r *Runner) sweep(ctx context.Context, rows ...flow.Row) error {
	launches := map[string]string{}
	for _, row := range rows {
		if row.Owner != nil && row.Owner.Launch != "" {
			launches[row.Owner.Launch] = row.ID
		}
	}
	var err error
	if r.Sweep != nil && len(launches) > 0 {
		_, err = r.Sweep(ctx, launches)
	}
	err = errors.Join(err, r.sweepWorkers(ctx, rows))
	if errors.Is(err, errors.ErrUnsupported) {
		return nil // this system cannot tell whose a process is
	}
	return err
}

// sweepWorkers ends what is left of invocations of these runs whose end nobody saw.
func (r *Runner) sweepWorkers(ctx context.Context, rows []flow.Row) error {
	if r.SweepPrograms == nil || r.Workers == nil {
		return nil
	}
	var left []tipstaff.ProcessIdentity
	for _, row := range rows {
		sessions, err := r.Workers.WorkerSessions(ctx, tipstaff.SessionQuery{Run: row.ID, All: true}, "")
		if err != nil {
			return err
		}
		for _, s := range sessions {
			if s.Lease == nil || r.Alive(*s.Lease, s.UpdatedAt, r.Now()) {
				continue
			}
			for _, i := range s.Invocations {
				if i.Ended.IsZero() && i.Identity.Pid > 0 {
					left = append(left, i.Identity)
				}
			}
		}
	}
	if len(left) == 0 {
		return nil
	}
	_, err := r.SweepPrograms(ctx, left)
	return err
}

// Fork makes a new run that inherits the journal of another up to a record.
func (r *Runner) Fork(ctx context.Context, req tipstaff.ForkRequest) (tipstaff.Run, error) {
	row, err := r.openToBranch(ctx, req.Run, req.Checkpoint, true, &req.Changes)
	if err != nil {
		return tipstaff.Run{}, err
	}
	if row.Kind == kindPipeline || req.Checkpoint != "" || req.Stage != "" || req.Thread != "" || len(req.Outputs)+len(req.Metadata)+len(req.Raise) > 0 {
		return r.goBack(ctx, branch{ForkRequest: req}, row)
	}
	at := req.At
	if at == 0 {
		if at, err = r.forkPoint(ctx, row); err != nil {
			return tipstaff.Run{}, explain(err, req.Run)
		}
	}
	if at < 1 || at > row.Head {
		return tipstaff.Run{}, tipstaff.Errorf(tipstaff.CursorBeyondHead, "run %s has records 1 to %d: it cannot be forked at %d", row.ID, row.Head, at)
	}
	body, doc, forked, err := r.forkAt(ctx, row.ID, at, at)
	if err != nil {
		return tipstaff.Run{}, explain(err, req.Run)
	}
	made := tipstaff.NewID(r.Now())
	if err := r.store(ctx, made, body, doc, append(r.accepted(ctx, body, doc, "command"), forked)); err != nil {
		return tipstaff.Run{}, explain(err, req.Run)
	}
	return r.get(ctx, made)
}

// forkAt is the draft of a run that inherits the journal of another up to record at, and
// has used all that the other has up to record head; its program, and the record that says
// so.
func (r *Runner) forkAt(ctx context.Context, run string, at, head int64) (body draftBody, doc document, forked flow.Draft, err error) {
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
	used, limit := flow.Totals(h, c.limits)
	body = c.draft
	body.Bounds = tipstaff.Bounds(limit) // with what decisions have added to them
	body.revision, body.Asks = c.segment.Revision.Number, c.asks()
	body.ForkOf = &tipstaff.ForkPoint{Run: run, Seq: at, Hash: journal.Hash(last[0].Hash)}
	body.Parent = &tipstaff.RunParent{Run: run, Relation: relationFork}
	if doc, err = p.branch(ctx, r, &body); err != nil {
		return body, nil, forked, err
	}
	wall := flow.Wall(h).Milliseconds()
	forked = flow.Draft{Kind: string(tipstaff.KindRunForked), Body: flow.JSON(tipstaff.RunForked{FromRun: run, Seq: at, Counters: used, WallMs: &wall, By: actor(ctx)})}
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
