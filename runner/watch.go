package runner

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// A server watches the leases of the others, and takes in the runs that nobody drives.

// watch is what a server has seen of the owners that it cannot look at.
type watch struct {
	last   time.Time            // when it looked
	begun  bool                 // it has looked for what an earlier version has left
	owners map[string]lastHeard // by holder
}

type lastHeard struct {
	beat time.Time // as it stands in the database
	seen time.Time // when it was first seen to be so
}

// lookAfter finds the runs that somebody should drive and nobody does, and puts them into
// the queue.
func (r *Runner) lookAfter(ctx context.Context, w *watch) error {
	holds, err := r.Pool.Holds(ctx)
	if err != nil {
		w.owners = nil
		return explain(err, tipstaff.ID{})
	}
	r.setSilent(w.silent(holds, time.Now()))
	r.stopFenced(holds)
	var lost []flow.Row
	for _, h := range holds {
		if r.lives(h) {
			continue
		}
		row, err := r.Store.Run(ctx, h.Run)
		if err != nil {
			return explain(err, idOf(h.Run))
		}
		lost = append(lost, row)
	}
	err = r.recoverAll(ctx, lost, "serve")
	if r.Scheduler != nil { // it wakes runs, and drives those of a lost server again
		return err
	}
	r.mu.Lock()
	broken := r.broken
	r.broken = nil
	r.mu.Unlock()
	for _, b := range broken {
		r.handOver(b)
	}
	finds := []func(context.Context, string) ([]string, error){r.Store.Due, r.Pool.Strays}
	if !w.begun {
		finds = append(finds, r.Pool.Unwoken)
	}
	begun := true
	for _, find := range finds {
		strays, serr := find(ctx, r.Origin)
		begun = begun && serr == nil
		err = errors.Join(err, explain(serr, tipstaff.ID{}))
		for _, run := range strays {
			err = errors.Join(err, explain(r.takeIn(ctx, run), idOf(run)))
		}
	}
	w.begun = w.begun || begun
	return err
}

// stopFenced breaks off the drives whose runs others have taken: while they wait for a call
// they would not learn of it.
func (r *Runner) stopFenced(holds []flow.Hold) {
	own, others := map[string]bool{}, map[string]bool{}
	for _, h := range holds {
		mine := h.Holder == r.Pool.Holder()
		own[h.Run], others[h.Run] = mine, !mine
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for run, a := range r.drives {
		if others[run] || a.shared && a.leased && !own[run] { // one that is not may sleep without a lease
			a.stop(&flow.Stop{Reason: string(tipstaff.LeaseLost)})
		}
		a.leased = own[run]
	}
}

// silent are the holders that have not renewed their leases for too long.
func (w *watch) silent(holds []flow.Hold, now time.Time) map[string]bool {
	if now.Sub(w.last) > 2*lookEvery { // this process was stopped, or could not look
		w.owners = nil
	}
	w.last = now
	heard, silent := map[string]lastHeard{}, map[string]bool{}
	for _, h := range holds {
		if h.Heartbeat.After(heard[h.Holder].beat) {
			heard[h.Holder] = lastHeard{h.Heartbeat, now}
		}
	}
	for holder, h := range heard {
		if known, ok := w.owners[holder]; ok && !h.beat.After(known.beat) {
			heard[holder] = known
			silent[holder] = now.Sub(known.seen) > silentAfter
		}
	}
	w.owners = heard
	return silent
}

// lives reports whether a lease is that of somebody who drives: of an owner that is silent,
// whose process is gone, or that is this process and has given the run up, it is not.
func (r *Runner) lives(h flow.Hold) bool {
	if h.Holder == r.Pool.Holder() {
		return r.driving(h.Run)
	}
	return !r.isSilent(h.Holder) && r.mayLive(h.Owner)
}

// mayLive reports whether an owner may live, however old its heartbeat is: it cannot be looked
// at, or its process is there.
func (r *Runner) mayLive(o flow.Owner) bool { return r.Alive(o, r.Now(), r.Now()) }

func (r *Runner) setSilent(holders map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.silent = holders
}

func (r *Runner) isSilent(holder string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.silent[holder]
}

// abandoned is a run that was left by who drove it, with the answers given for it in advance.
type abandoned struct {
	run string
	who person
}

// takeIn puts a run that strayed into the queue, unless it goes on with its parent.
func (r *Runner) takeIn(ctx context.Context, run string) error {
	row, err := r.Store.Run(ctx, run)
	if err != nil {
		return err
	}
	parent, child, err := r.parentOf(ctx, run)
	if err != nil || child && (r.held(parent) || r.willGoOn(ctx, parent)) {
		return err // a stray whose parent is driven is looked at again when that rests
	}
	return r.enqueueAgain(ctx, row, person{})
}

// enqueueAgain is enqueue of a run that nobody drives, unless somebody else was faster.
func (r *Runner) enqueueAgain(ctx context.Context, row flow.Row, who person) error {
	err := r.enqueue(ctx, row, who)
	if errors.Is(err, flow.ErrBusy) || errors.Is(err, flow.ErrEnded) {
		return nil
	}
	return err
}

// parentOf is the run that has dispatched this one, if one has.
func (r *Runner) parentOf(ctx context.Context, run string) (parent flow.Row, child bool, err error) {
	draft, err := readDraft(ctx, r.Store, run)
	if err != nil || !draft.Parent.Dispatched() {
		return parent, false, err
	}
	parent, err = r.Store.Run(ctx, draft.Parent.Run)
	return parent, err == nil, err
}

// willGoOn reports whether a run that nobody drives is about to be driven by a server, from
// where it came to rest: then it takes its children with it. One that is driven may have left
// a child behind that it does not look at again before it rests.
func (r *Runner) willGoOn(ctx context.Context, row flow.Row) bool {
	switch {
	case tipstaff.State(row.State).Terminal() || r.held(row):
		return false
	case row.Queued:
		return true
	case row.Owner != nil && ofServer(row.Owner.Kind):
		return true // it is put into the queue, or goes on with its own parent, once it is found
	case row.Owned != string(tipstaff.KindRunInterrupted):
		return false
	}
	parent, child, err := r.parentOf(ctx, row.ID)
	return err == nil && child && r.willGoOn(ctx, parent)
}

// ofServer reports whether owners of a kind are servers, which go on with each other's runs.
func ofServer(kind string) bool {
	return kind == tipstaff.OriginDaemon || kind == tipstaff.OriginEngine
}

// handOver puts a run that this process has driven by itself, and broken off, into the queue,
// now or when the store takes it.
func (r *Runner) handOver(l abandoned) {
	ctx := context.WithoutCancel(r.Stop)
	row, err := r.Store.Run(ctx, l.run)
	if err == nil && r.enqueueAgain(ctx, row, l.who) == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = append(r.broken, l)
}

// storeFailed reports whether a drive was broken off because the store did not answer, or had
// no room: the next one may go on.
func storeFailed(err *tipstaff.Error) bool {
	return err != nil && slices.Contains([]tipstaff.Code{tipstaff.StoreUnavailable, tipstaff.StoreBusy, tipstaff.StoreFull}, err.Code)
}

// goesOn reports whether the run of an owner that died is for the servers to drive on by
// itself. A child that its parent was driving goes on with that.
func (r *Runner) goesOn(ctx context.Context, row flow.Row) (bool, error) {
	if r.Pool == nil || row.Owner == nil || !ofServer(row.Owner.Kind) {
		return false, nil
	}
	parent, child, err := r.parentOf(ctx, row.ID)
	return err == nil && !(child && r.willGoOn(ctx, parent)), err
}

// wakeParent has the run go on that waits for a child which has ended.
func (r *Runner) wakeParent(child string) {
	ctx := context.WithoutCancel(r.Stop)
	if parent, is, err := r.parentOf(ctx, child); err == nil && is {
		r.wake(ctx, parent)
	}
}

// wake has a run go on that is due, if it is one of those that servers drive. Whatever keeps it
// from that now, the run is found by who looks for those that are due.
func (r *Runner) wake(ctx context.Context, row flow.Row) {
	kind := r.Origin
	if r.Scheduler != nil {
		kind = tipstaff.OriginEngine
	}
	if ofServer(kind) && r.Stop.Err() == nil && r.due(row) {
		_ = r.wakeUp(ctx, row.ID, kind)
	}
}

// wakeUp has a run go on that is due and that owners of this kind drive, from the top of those
// that have dispatched it.
func (r *Runner) wakeUp(ctx context.Context, run, kind string) error {
	top, err := r.topOf(ctx, run)
	if err == nil && !r.driving(run) && !r.driving(top.ID) {
		err = r.goOn(ctx, top, run, kind)
	}
	return explain(err, idOf(run))
}

// due reports whether a run is at rest, and its time has come: by a timer, or because a run has
// ended that it waits for.
func (r *Runner) due(row flow.Row) bool {
	return row.Owned == string(tipstaff.KindRunParked) && !row.WakeAt.IsZero() && !r.Now().Before(row.WakeAt)
}
