package runner

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Servers on several machines may drive the runs of one store. A run for which a server has
// no place waits in the store, where any of them finds it; so do the runs of a server that
// has died, or was stopped. Nobody assigns anything: whoever has a place takes what is next.

// Pool is the part of a store by which servers share its runs.
type Pool interface {
	Holder() string // names this open store in the leases that it holds
	Lines(ctx context.Context, host string) (users []string, err error)
	Line(ctx context.Context, host, user string, after int64) ([]flow.Row, error)
	Claim(ctx context.Context, host, user string, from int64) (run string, claim int64, err error)
	Unclaim(ctx context.Context, run string, claim int64) error
	Holds(ctx context.Context) ([]flow.Hold, error)
	// Strays are runs that servers of a kind have made and that nobody has come to drive, and
	// Unwoken those that an earlier version has left waiting for a run which has ended.
	Strays(ctx context.Context, kind string) (runs []string, err error)
	Unwoken(ctx context.Context, kind string) (runs []string, err error)
	// Waiting is how many runs wait in the queue, and since when the first of them does.
	Waiting(ctx context.Context) (n int, since time.Time, err error)
}

// Scheduler decides where and when runs are driven, in the place of the servers themselves.
type Scheduler interface {
	// Schedule has a run driven, by a server on the machine that is named; "": by any. It
	// holds for the time after it was called: one that is driven now is driven once more.
	Schedule(ctx context.Context, run, host string) error
}

// How servers look after the runs that they share.
const (
	claimEvery = 500 * time.Millisecond // a run may wait so long beside a free place elsewhere
	lookEvery  = 2 * time.Second
	// silentAfter is how long an owner that nobody here can look at has not renewed its
	// leases when its runs are taken from it: two of its heartbeats, and some. It is measured
	// by looking, not by comparing clocks, and begins anew when the database did not answer:
	// then nobody could renew anything.
	silentAfter = 13 * time.Second
	// maxShared is how many runs may wait in the queue that servers share, half of them of
	// one user.
	maxShared = 100_000
)

// pooled reports whether this process is one of the servers that share the runs of a store.
func (r *Runner) pooled() bool { return r.Pool != nil && r.Serves }

// submit has a run driven when its turn comes: by this process, or by whichever server takes
// it from the queue.
func (r *Runner) submit(ctx context.Context, row flow.Row, p program, who person) error {
	err := r.elsewhere(row, p)
	switch {
	case r.Scheduler != nil && !who.Attended:
		return r.enqueue(ctx, row, who)
	case !r.pooled():
		if err == nil {
			_, err = r.begin(row.ID, p, who)
		}
		return err
	}
	if err == nil {
		before := 0 // who came earlier is next
		if before, err = r.Store.CountRuns(ctx, flow.Query{Queued: true, User: row.User, Limit: 1}); err != nil {
			return err
		}
		if before == 0 {
			if own := r.queue.take(row.ID, row.User); own != nil {
				_, err = r.beginWith(own, row.ID, p, who)
				return err
			}
		}
	}
	err = r.enqueue(ctx, row, who)
	r.queue.look()
	return err
}

// submitNew is submit of a run that was just made, or is for the first time driven.
func (r *Runner) submitNew(ctx context.Context, p program, who person) error {
	c := p.shared()
	row := flow.Row{ID: c.run, User: c.draft.User}
	if r.Pool != nil {
		var err error
		if row, err = r.Store.Run(ctx, c.run); err != nil {
			return err
		}
	}
	err := r.submit(ctx, row, p, who)
	if r.pooled() && (errors.Is(err, flow.ErrBusy) || errors.Is(err, flow.ErrEnded)) {
		return nil // a server that was faster has found it
	}
	return err
}

// enqueue puts a run into the queue that servers share, with the answers that were given
// for it in advance.
func (r *Runner) enqueue(ctx context.Context, row flow.Row, who person) error {
	self := r.Self(r.Origin, "")
	body := tipstaff.RunQueued{Driven: r.queue.held(row.User), Places: r.MaxDriving, Principal: row.User, Host: self.Host, Answers: who.advance()}
	err := r.Store.Write(context.WithoutCancel(ctx), row.ID, func(tx flow.Tx) ([]flow.Draft, error) {
		switch now := tx.Row(); {
		case tipstaff.State(now.State).Terminal():
			return nil, flow.ErrEnded
		case now.Epoch != row.Epoch || r.held(now):
			return nil, flow.ErrBusy
		case now.Queued:
			return nil, nil // already
		}
		return []flow.Draft{queuedDraft(body)}, nil
	})
	if err == nil && r.Scheduler != nil {
		err = r.Scheduler.Schedule(ctx, row.ID, row.Host)
	}
	return err
}

func queuedDraft(body tipstaff.RunQueued) flow.Draft {
	return flow.Draft{Kind: string(tipstaff.KindRunQueued), Body: flow.JSON(body)}
}

// advance is what somebody answers beforehand; nil: nothing.
func (p person) advance() *tipstaff.AdvanceAnswers {
	if !p.Yes && !p.Accept && !p.draftOnly {
		return nil
	}
	return &tipstaff.AdvanceAnswers{Yes: p.Yes, Accept: p.Accept, DraftOnly: p.draftOnly, By: p.by}
}

// Drive drives a run in this process until it rests or ctx ends, whoever else waits for a
// turn: it was this process that was chosen for it. One that waits for decisions which
// nobody has made is left as it is.
func (r *Runner) Drive(ctx context.Context, run string) (driven tipstaff.Driven, err error) {
	defer func() { err = explain(err, idOf(run)) }()
	row, err := r.Store.Run(ctx, run)
	if err == nil && tipstaff.State(row.State).Terminal() {
		r.wakeParent(run) // which may have been left to this drive
		return r.rest(ctx, row, driven)
	}
	if err == nil {
		err = r.recoverAll(ctx, []flow.Row{row}, "drive")
	}
	if err != nil {
		return driven, err
	}
	p, who, err := r.openQueued(ctx, run)
	if err == nil {
		err = r.elsewhere(row, p)
	}
	if err != nil {
		return driven, err
	}
	pending, err := r.pending(ctx, row)
	if err != nil {
		return driven, err
	}
	if len(pending) > 0 && !who.canAnswer(pending) {
		return r.rest(ctx, row, driven)
	}
	a, err := r.beginWith(nil, run, p, who)
	if err != nil {
		return driven, err
	}
	defer context.AfterFunc(ctx, func() { a.stop(&flow.Stop{Reason: "engine"}) })()
	<-a.done
	return a.driven, nil
}

// Share drives the runs that wait in the queue which servers share, and looks after those
// whose server has died, until ctx ends. failed is told what goes wrong.
func (r *Runner) Share(ctx context.Context, failed func(error)) {
	var both sync.WaitGroup
	tell := func(err error) {
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
	if r.Scheduler == nil {
		both.Go(func() { every(ctx, claimEvery, r.queue.freed, func() { tell(r.claim(ctx)) }) })
	}
	both.Go(func() {
		r.measure(ctx)
		every(ctx, lookEvery, nil, func() { r.measure(ctx) })
	})
	var w watch
	both.Go(func() { every(ctx, lookEvery, nil, func() { tell(r.lookAfter(ctx, &w)) }) })
	both.Wait()
}

// every calls f again and again, and sooner when woken, until ctx ends.
func every(ctx context.Context, pause time.Duration, woken <-chan struct{}, f func()) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-woken:
		}
		f()
	}
}

// claim takes runs from the queue as long as there are places for them here.
func (r *Runner) claim(ctx context.Context) error {
	for r.queue.hasPlace() && r.Stop.Err() == nil && ctx.Err() == nil {
		host := r.Self("", "").Host
		users, err := r.Pool.Lines(ctx, host)
		if err != nil {
			return explain(err, tipstaff.ID{})
		}
		taken := false
		for _, user := range users {
			own := r.queue.take("", user)
			if own == nil {
				continue
			}
			if taken, err = r.claimOf(ctx, host, user, own); err != nil {
				return err
			}
			if taken {
				break // the next is that of who has the fewest now
			}
		}
		if !taken {
			return nil
		}
	}
	return nil
}

// claimOf drives a run of a user's line in a place that is its own, and reports whether there
// was one that this server may take and is able to.
func (r *Runner) claimOf(ctx context.Context, host, user string, own *turn) (taken bool, err error) {
	defer func() {
		if !taken {
			own.leave()
		}
	}()
	r.here() // what was noted of another workspace is forgotten
	for range mostLooked {
		from := int64(0)
		if w := r.passageOf(user); w != nil { // look first: to take what is left to others costs two commits
			row, err := r.nextAble(ctx, host, user, w)
			if err != nil || row == nil {
				return false, explain(err, tipstaff.ID{})
			}
			p, _, err := r.openQueued(ctx, row.ID)
			if passing(err) {
				return false, explain(err, idOf(row.ID))
			}
			if r.passes(user, row.ID, p, err) {
				continue
			}
			from = row.N
		}
		run, claim, err := r.Pool.Claim(ctx, host, user, from)
		if err != nil || run == "" {
			return false, explain(err, tipstaff.ID{})
		}
		p, who, err := r.openQueued(ctx, run)
		if passing(err) {
			return false, explain(err, idOf(run)) // it is taken again
		}
		if r.passes(user, run, p, err) {
			if err := r.Pool.Unclaim(ctx, run, claim); err != nil {
				return false, explain(err, idOf(run))
			}
			continue
		}
		if _, err = r.beginWith(own, run, p, who); err != nil && !errors.Is(err, flow.ErrBusy) {
			return true, explain(err, idOf(run))
		}
		return true, nil
	}
	r.queue.look() // when others had their turn
	return false, nil
}

// passing reports whether a run could not be opened because the store does not answer, or the
// server is stopping.
func passing(err error) bool {
	return storeFailed(coded(explain(err, tipstaff.ID{}))) || errors.Is(err, context.Canceled)
}

// mostLooked is how many runs of a line that this server has not seen yet are looked at before
// the next line is.
const mostLooked = 100

// openQueued opens a run that waited in the queue, with who answers its gates.
func (r *Runner) openQueued(ctx context.Context, run string) (p program, who person, err error) {
	row, err := r.Store.Run(ctx, run)
	if err != nil {
		return nil, who, err
	}
	fold, _, err := r.foldAt(ctx, row)
	if err != nil {
		return nil, who, err
	}
	if fold.Queue != nil && fold.Queue.Answers != nil {
		a := fold.Queue.Answers
		who = person{Presence: tipstaff.Presence{Yes: a.Yes, Accept: a.Accept}, draftOnly: a.DraftOnly, by: a.By}
	}
	p, err = openProgram(ctx, r.Store, run)
	return p, who, err
}
