package runner

import (
	"context"
	"errors"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// expiryCheck is how long gates of runs that other processes have parked may go unseen.
// Of those that this process parks it learns at once.
const expiryCheck = 30 * time.Second

// Expire denies the gates of parked runs that nobody decides in time, when their time
// comes, until ctx ends. Of those runs it drives on the ones that an owner of this kind
// has parked, and of others those that are due, where nobody shares runs; what others were
// driving waits for somebody to resume it. failed is told what goes wrong with one of them,
// which keeps no other from being acted on.
func (r *Runner) Expire(ctx context.Context, kind string, failed func(error)) {
	for {
		next, err := r.expireDue(ctx, kind)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			failed(err)
			next = time.Time{} // not at once: it would go wrong again
		}
		wait := expiryCheck
		if r.Pool == nil && err == nil {
			wait = lookEvery // a command may have ended what a run here waits for
		}
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(r.Now()), time.Millisecond))
		}
		alarm := time.NewTimer(wait)
		select {
		case <-alarm.C:
		case <-r.parked:
		case <-ctx.Done():
		}
		alarm.Stop()
	}
}

// DenyExpired denies the gates of parked runs past their time, whoever parked them, and has
// nothing go on. A journal that was changed is for verify to report.
func (r *Runner) DenyExpired(ctx context.Context) error {
	if _, err := r.expireDue(ctx, ""); !errors.Is(err, flow.ErrIntegrity) {
		return err
	}
	return nil
}

// hasParked lets Expire look at the gates of a run that this process has just left.
func (r *Runner) hasParked() {
	select {
	case r.parked <- struct{}{}:
	default: // it is going to look
	}
}

// expireDue denies what has expired, and tells when the next gate does; zero: none will
// before it is asked again.
func (r *Runner) expireDue(ctx context.Context, kind string) (next time.Time, err error) {
	gates, err := r.Store.Gates(ctx, flow.GateQuery{Open: true, Due: r.Now().Add(expiryCheck)})
	if err != nil {
		return next, err
	}
	var all error
	for _, g := range gates {
		switch expired := gateOf(g).Expired(r.Now()); {
		case expired:
			all = errors.Join(all, r.expireGate(ctx, g, kind))
		case !g.ExpiresAt.IsZero() && (next.IsZero() || g.ExpiresAt.Before(next)):
			next = g.ExpiresAt
		}
	}
	if kind == "" {
		return next, all
	}
	// Another process may have denied a gate of ours, which does not have the run go on.
	lapsed, err := r.Store.Gates(ctx, flow.GateQuery{Lapsed: true})
	if err != nil {
		return next, err
	}
	for _, g := range lapsed {
		all = errors.Join(all, r.wakeUp(ctx, g.Run, kind))
	}
	if r.Pool != nil { // servers look for themselves
		return next, all
	}
	due, err := r.Store.Due(ctx, kind)
	for _, run := range due {
		all = errors.Join(all, r.wakeUp(ctx, run, kind))
	}
	return next, errors.Join(all, explain(err, tipstaff.ID{}))
}

// expireGate denies a gate, unless its run has an owner: that one sees to it itself. A
// run that this process is driving, or whose parent it is, is looked at when it rests.
func (r *Runner) expireGate(ctx context.Context, g flow.GateRow, kind string) error {
	top, err := r.topOf(ctx, g.Run)
	if err != nil || r.driving(g.Run) || r.driving(top.ID) {
		return explain(err, idOf(g.Run))
	}
	denied := false
	err = r.Store.Write(ctx, g.Run, func(tx flow.Tx) ([]flow.Draft, error) {
		denied = false
		row := tx.Row()
		now, open, err := findGate(tx.Gates, g.ID)
		if err != nil || !open || now.Decided > 0 || row.Owned != string(tipstaff.KindRunParked) || r.alive(row) || !gateOf(now).Expired(tx.Now()) {
			return nil, err
		}
		denied = true
		of := gateOf(now)
		return []flow.Draft{flow.Closing(now.ID, now.Key, of.Digest, of.Deny, flow.ViaExpiry)}, nil
	})
	if err == nil && denied {
		err = r.goOn(ctx, top, g.Run, kind)
	}
	return explain(err, idOf(g.Run))
}

// topOf is a run, or the one that has dispatched it, or that one's, and so on.
func (r *Runner) topOf(ctx context.Context, run string) (flow.Row, error) {
	for {
		draft, err := readDraft(ctx, r.Store, run)
		if err != nil {
			return flow.Row{}, err
		}
		if !draft.Parent.Dispatched() {
			return r.Store.Run(ctx, run)
		}
		run = draft.Parent.Run
	}
}

// goOn drives a run on, from the top of those that have dispatched it, if an owner of this kind
// was the last of that one; else by itself, if it was the last of the run.
func (r *Runner) goOn(ctx context.Context, row flow.Row, run, kind string) error {
	last, err := r.lastOwner(ctx, row)
	if err == nil && last != kind && row.ID != run {
		if row, err = r.Store.Run(ctx, run); err == nil {
			last, err = r.lastOwner(ctx, row)
		}
	}
	if err != nil || last != kind {
		return err
	}
	_, err = r.resume(localUser(ctx), row, tipstaff.Presence{}, false)
	if code := tipstaff.CodeOf(err); code == tipstaff.Busy || code == tipstaff.RunEnded {
		return nil // somebody else was faster
	}
	return err
}
