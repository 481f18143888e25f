package runner

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

const (
	cancelGrace = 10 * time.Second // for once calls in flight
	cancelWait  = 15 * time.Second // for a living owner to settle
	cancelSlack = 2 * time.Second  // for it to end by itself when its grace is over
)

// Cancel asks a living owner to cancel and waits for it, or settles a run that
// has none.
func (r *Runner) Cancel(ctx context.Context, req tipstaff.CancelRequest) (tipstaff.Cancellation, error) {
	row, err := r.openToDrive(ctx, req.Run, tipstaff.ToolRunCancel)
	if err != nil {
		return tipstaff.Cancellation{}, err
	}
	var c tipstaff.Cancellation
	switch {
	case tipstaff.State(row.State).Terminal():
		c.How = tipstaff.CancelDone
	case r.held(row) || r.driving(row.ID):
		c, err = r.askToCancel(ctx, row, req)
	default:
		c.How = tipstaff.CancelDead
		body := r.cancelRequest(ctx, req)
		if row.Session != "" {
			body, err = r.requestCancel(ctx, row.ID, req)
		}
		if err == nil {
			c.Swept, err = r.endLeft(ctx, row, body)
		}
		if errors.Is(err, flow.ErrBusy) { // it was taken in this moment
			c, err = r.askToCancel(ctx, row, req)
		}
		if err == nil && r.Scheduler != nil && row.Driver == tipstaff.OriginEngine {
			_ = r.Scheduler.Schedule(ctx, row.ID, row.Host) // so that it need not wait for the run any more
		}
	}
	if errors.Is(err, flow.ErrEnded) { // meanwhile, and perhaps because it was asked to
		c.How, err = tipstaff.CancelStopped, nil
	}
	if err != nil {
		return tipstaff.Cancellation{}, explain(err, req.Run)
	}
	c.Run, err = r.get(ctx, req.Run)
	if c.How == tipstaff.CancelStopped && c.State.Terminal() && c.State != tipstaff.Cancelled {
		c.How = tipstaff.CancelDone // it was faster
	}
	return c, err
}

// requestCancel stores the request, unless somebody asked before; then it returns that one.
// A hard one ends the grace of one that is not.
func (r *Runner) requestCancel(ctx context.Context, run string, req tipstaff.CancelRequest) (cancelRequest, error) {
	body := r.cancelRequest(ctx, req)
	for {
		a, head, err := accountOf(ctx, r.Store, run)
		if err != nil {
			return body, err
		}
		moved := false
		err = r.Store.Write(ctx, run, func(tx flow.Tx) ([]flow.Draft, error) {
			row := tx.Row()
			if tipstaff.State(row.State).Terminal() {
				return nil, flow.ErrEnded
			}
			if !row.Cancel {
				return []flow.Draft{body.draft()}, nil
			}
			if moved = row.Head != head; moved {
				return nil, nil
			}
			if before := a.cancelRequest(); !req.Hard || before.Mode == body.Mode {
				body = before
				return nil, nil
			}
			return []flow.Draft{body.draft()}, nil
		})
		if err != nil || !moved {
			return body, err
		}
	}
}

// endLeft ends a run that nobody drives. A turn is cancelled by driving it: what it leaves
// of the conversation is for its loop to say.
func (r *Runner) endLeft(ctx context.Context, row flow.Row, body cancelRequest) (swept int, err error) {
	if row.Session == "" {
		if swept, err = r.settle(ctx, row, body); err == nil {
			r.dropCleans(r.Stop, func(of string) bool { return of == row.ID })
		}
		return swept, err
	}
	if swept, err = r.sweep(ctx, row); err != nil {
		return swept, err
	}
	return swept, r.driveOut(ctx, row.ID)
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

func (r *Runner) cancelRequest(ctx context.Context, req tipstaff.CancelRequest) cancelRequest {
	mode, grace := "graceful", cmp.Or(req.Grace, cancelGrace)
	if req.Hard {
		mode, grace = flow.CancelHard, 0
	}
	return cancelRequest{RunCancelRequested: tipstaff.RunCancelRequested{Actor: actor(ctx), Mode: mode, Reason: req.Reason, Deadline: r.Now().Add(grace).UTC()}}
}

func (b cancelRequest) draft() flow.Draft {
	return flow.Draft{Kind: string(tipstaff.KindRunCancelRequested), Body: flow.JSON(b.RunCancelRequested)}
}

// askToCancel stores the request and waits until the owner has settled the run,
// or has died: then the run is settled here. A process of the run's own is told, and ended
// when its grace is over: also if that takes longer than anybody waits here.
func (r *Runner) askToCancel(ctx context.Context, row flow.Row, req tipstaff.CancelRequest) (c tipstaff.Cancellation, err error) {
	run := row.ID
	changed, stop := r.Store.Follow(run)
	defer stop()
	body, err := r.requestCancel(ctx, run, req)
	if err != nil {
		return c, err
	}
	r.queue.excuse(run)
	waiting, cancel := context.WithTimeout(ctx, cmp.Or(req.Wait, cancelWait))
	defer cancel()
	var ending chan processEnd
	elsewhere := false // its process is where nobody here can signal it: it learns of the request from the store
	for {
		row, err := r.Store.Run(waiting, run)
		switch {
		case waiting.Err() != nil:
			c.How = tipstaff.CancelSent // it is recorded, and will be settled without another call
			return c, ctx.Err()
		case err != nil:
			return c, err
		case ending == nil && (tipstaff.State(row.State).Terminal() || !r.held(row) && !r.driving(run)):
			if !tipstaff.State(row.State).Terminal() {
				c.Swept, err = r.endLeft(ctx, row, body)
			}
			if errors.Is(err, flow.ErrBusy) {
				break // it was taken in this moment, by somebody who finds the request and settles it
			}
			c.How = tipstaff.CancelStopped
			return c, err
		case ending == nil && !elsewhere:
			ending = r.endProcess(ctx, row, body)
		}
		select {
		case <-waiting.Done():
		case done := <-ending:
			if elsewhere = errors.Is(done.err, errors.ErrUnsupported); !elsewhere {
				return done.Cancellation, done.err
			}
			ending = nil
		case <-changed:
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// processEnd is what became of a process that was to end.
type processEnd struct {
	tipstaff.Cancellation
	err error
}

// endProcess has the process that was launched for a run end, and settles the run if that
// has not. It goes on by itself, and tells when it is through; nil: there is none that may be
// signalled, or it is not known yet.
func (r *Runner) endProcess(ctx context.Context, row flow.Row, body cancelRequest) chan processEnd {
	p, ok := r.processOf(ctx, row, body)
	if !ok {
		return nil
	}
	through := make(chan processEnd, 1)
	ctx = context.WithoutCancel(ctx)
	go func() {
		var e processEnd
		e.Cancellation, e.err = r.stopAndSettle(ctx, row.ID, p, body)
		through <- e
	}()
	return through
}

func (r *Runner) stopAndSettle(ctx context.Context, run string, p flow.Owner, body cancelRequest) (c tipstaff.Cancellation, err error) {
	stopped, err := r.Launcher.Stop(ctx, p, run, max(0, body.Deadline.Sub(r.Now())))
	if err != nil {
		return c, err
	}
	c.Forced, c.Swept, c.How = stopped.Forced, stopped.Swept, tipstaff.CancelStopped
	if c.Forced && r.Launches != nil {
		err = r.Launches.UpdateLaunch(ctx, run, p.Launch, func(now *flow.Launch) {
			if now.Exit == nil {
				now.Exit = &flow.LaunchExit{Code: 137, Signal: "SIGKILL"}
			}
		})
		if err != nil {
			return c, err
		}
	}
	row, err := r.Store.Run(ctx, run)
	if err != nil || tipstaff.State(row.State).Terminal() {
		return c, err
	}
	more, err := r.endLeft(ctx, row, body)
	c.Swept += more
	return c, err
}

// processOf is the process that may be ended with a run: the one that was launched for it.
// One in the foreground may be killed if somebody says so, and if it drives this run for
// its own sake.
func (r *Runner) processOf(ctx context.Context, row flow.Row, body cancelRequest) (p flow.Owner, ok bool) {
	l, o := row.Launch, row.Owner
	switch {
	case r.Launcher == nil || r.driving(row.ID):
		return p, false
	case l != nil && l.Exit == nil && l.Process != nil && (o == nil || o.Launch == l.Token):
		return *l.Process, true
	case o == nil || o.Kind != "foreground" || body.Mode != flow.CancelHard:
		return p, false
	}
	top, err := r.topOf(ctx, row.ID)
	return *o, err == nil && top.ID == row.ID
}

// settle ends a run that nobody drives: the request, closings of its gates and
// the terminal envelope in one transaction.
func (r *Runner) settle(ctx context.Context, row flow.Row, req cancelRequest) (swept int, err error) {
	if swept, err = r.sweep(ctx, row); err != nil {
		return swept, err
	}
	p, err := openProgram(ctx, r.Store, row.ID)
	if err != nil {
		return swept, err
	}
	for {
		a, head, err := accountOf(ctx, r.Store, row.ID)
		if err != nil {
			return swept, err
		}
		tally, err := r.totals(ctx, row.ID, p)
		if err != nil {
			return swept, err
		}
		out := flow.Outcome{Status: flow.Cancelled, Tally: tally}
		beside, err := p.beside(ctx, r, out)
		if err != nil {
			return swept, err
		}
		moved := false
		err = r.Store.Write(ctx, row.ID, func(tx flow.Tx) ([]flow.Draft, error) {
			now := tx.Row()
			switch {
			case tipstaff.State(now.State).Terminal():
				return nil, flow.ErrEnded
			case r.held(now):
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
			return swept, err
		}
		if !moved {
			r.project(row.ID)
			if p.shared().hasChildren() {
				r.endChildren(row.ID)
			}
			return swept, nil
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

func (r *Runner) totals(ctx context.Context, run string, p program) (flow.Tally, error) {
	h, err := r.Store.Load(ctx, run)
	if err != nil {
		return flow.Tally{}, err
	}
	h.Holds = p.shared().draft.Holds()
	return flow.Totals(h, p.shared().limits), nil
}

// Recover marks the runs of dead owners, and of launched processes that died before they
// drove anything, as interrupted, or completes a cancel that one of them left behind.
// Left-over processes are ended first, so that none works beside its successor. A process
// that does not end although it was cancelled is ended. Gates past their time are denied. It
// drives nothing.
func (r *Runner) Recover(ctx context.Context, foundBy string) error {
	var rows []flow.Row
	if !r.pooled() { // else it watches them all the time
		var err error
		if rows, err = r.Store.Runs(ctx, flow.Query{Leased: true}); err != nil {
			return explain(err, tipstaff.ID{})
		}
		if r.Pool != nil { // of what is elsewhere one look tells nothing: the database may have been away
			rows = slices.DeleteFunc(rows, func(row flow.Row) bool { return row.Owner != nil && r.mayLive(*row.Owner) })
		}
	}
	launched, err := r.Store.Runs(ctx, flow.Query{Launched: true, States: append([]string{string(tipstaff.Drafting)}, unfinished...)})
	if err != nil {
		return explain(err, tipstaff.ID{})
	}
	for _, row := range launched {
		if row.Owner == nil && row.Launch.Epoch == 0 && !row.Launch.Over {
			rows = append(rows, row)
		}
	}
	if err := r.recoverAll(ctx, rows, foundBy); err != nil {
		return err
	}
	for _, row := range launched {
		if err := r.endOverdue(ctx, row); err != nil {
			return explain(err, idOf(row.ID))
		}
	}
	return nil
}

// recoverAll does so for those of these runs that nobody drives, or is about to.
func (r *Runner) recoverAll(ctx context.Context, rows []flow.Row, foundBy string) error {
	rows = slices.DeleteFunc(slices.Clone(rows), r.held)
	if _, err := r.sweep(ctx, rows...); err != nil {
		return explain(err, tipstaff.ID{})
	}
	var all errgroup.Group
	all.SetLimit(16) // they share commits
	for _, row := range rows {
		all.Go(func() error { return explain(r.recover(ctx, row, "owner_died", foundBy), idOf(row.ID)) })
	}
	return all.Wait()
}

// recover says of a run whose owner, or launched process, has died why it was interrupted;
// or completes a cancel.
func (r *Runner) recover(ctx context.Context, row flow.Row, reason, foundBy string) error {
	if row.Cancel && row.Session == "" && !tipstaff.State(row.State).Terminal() { // a turn is ended by whoever drives it next
		// A journal that was changed settles nothing, and keeps nobody from the other runs.
		_, err := r.settle(ctx, row, cancelRequest{})
		switch {
		case errors.Is(err, flow.ErrEnded), errors.Is(err, flow.ErrBusy):
			return nil // somebody else was faster
		case !errors.Is(err, flow.ErrIntegrity):
			return err
		}
	}
	left := func(now flow.Row) bool {
		return now.Owner != nil || now.Launch != nil && now.Launch.Epoch == 0 && !now.Launch.Over
	}
	if !left(row) {
		return nil
	}
	lost := tipstaff.RunInterrupted{Reason: reason, FoundBy: foundBy}
	switch {
	case row.Owner != nil:
		lost.Pid, lost.LastHeartbeat = row.Owner.Pid, row.Heartbeat.UTC().Format(time.RFC3339Nano)
	case row.Launch.Process != nil:
		lost.Pid = row.Launch.Process.Pid
	}
	requeue, err := r.goesOn(ctx, row)
	if err != nil {
		return err
	}
	token := ""
	if row.Launch != nil {
		token = row.Launch.Token
	}
	return r.Store.Write(ctx, row.ID, func(tx flow.Tx) ([]flow.Draft, error) {
		now := tx.Row()
		if tipstaff.State(now.State).Terminal() || !left(now) || now.Epoch != row.Epoch || r.held(now) || now.Launch != nil && now.Launch.Token != token {
			return nil, nil // somebody else was faster
		}
		drafts := []flow.Draft{{Kind: string(tipstaff.KindRunInterrupted), Body: flow.JSON(lost)}}
		if requeue {
			drafts = append(drafts, queuedDraft(tipstaff.RunQueued{Principal: row.User}))
		}
		return drafts, nil
	})
}

// endOverdue ends the process of a run that was to be cancelled by now. Whoever asked may
// have died.
func (r *Runner) endOverdue(ctx context.Context, row flow.Row) error {
	if !row.Cancel || !r.held(row) || r.driving(row.ID) {
		return nil
	}
	a, _, err := accountOf(ctx, r.Store, row.ID)
	if err != nil {
		return err
	}
	body := a.cancelRequest()
	if p, ok := r.processOf(ctx, row, body); ok && r.Now().After(body.Deadline.Add(cancelSlack)) {
		_, err = r.stopAndSettle(ctx, row.ID, p, body)
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return nil // it is elsewhere
	}
	return err
}

// sweep ends what the owners of these runs left behind, and tells how many processes that
// were.
func (r *Runner) sweep(ctx context.Context, rows ...flow.Row) (swept int, err error) {
	launches, here := map[string]string{}, r.Self("", "").Host
	for _, row := range rows {
		if r.Pool != nil && row.Owner != nil && row.Owner.Host != here {
			continue // what it has started is not on this machine
		}
		if row.Owner != nil && row.Owner.Launch != "" {
			launches[row.Owner.Launch] = row.ID
		}
		if row.Launch != nil {
			launches[row.Launch.Token] = row.ID
		}
	}
	if len(launches) > 0 {
		swept, err = r.Sweep(ctx, launches)
	}
	err = errors.Join(err, r.sweepWorkers(ctx, rows))
	if errors.Is(err, errors.ErrUnsupported) {
		return swept, nil // this system cannot tell whose a process is
	}
	return swept, err
}

// sweepWorkers ends what is left of invocations of these runs whose end nobody saw.
func (r *Runner) sweepWorkers(ctx context.Context, rows []flow.Row) error {
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
