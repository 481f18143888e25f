package runner

import (
	"context"
	"iter"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/journal"
)

// Guarded is the Service for surfaces: it looks at who calls before anything is done.
// What the methods ask of each other afterwards is not looked at again.
//
// Whoever comes by the command line sees all. A caller from elsewhere needs the scope
// of what it does, and has to do with the runs of its own user alone, unless it is an
// admin: another user's run is forbidden, and lists leave it out.
func (r *Runner) Guarded() tipstaff.Service { return &guarded{r} }

type guarded struct{ r *Runner }

var _ tipstaff.Service = (*guarded)(nil)

// may checks a scope.
func may(ctx context.Context, scope string) error {
	c := tipstaff.CallerFrom(ctx)
	if c.May(scope) {
		return nil
	}
	who := c.Principal
	if who == "" {
		who = "a caller without a token"
	}
	return tipstaff.Errorf(tipstaff.Forbidden, "%s may not do this", who).WithHint("the token needs the scope %s", scope)
}

// mayWith checks a scope and, where a run is named, whose it is. A run that does not
// exist is for the method to find out.
func (g *guarded) mayWith(ctx context.Context, scope string, run tipstaff.ID) error {
	if err := may(ctx, scope); err != nil {
		return err
	}
	c := tipstaff.CallerFrom(ctx)
	if run.IsZero() || c.SeesAll() {
		return nil
	}
	row, err := g.r.Store.Run(ctx, run.String())
	if err != nil {
		return explain(err, run)
	}
	if row.User != c.User {
		return tipstaff.Errorf(tipstaff.Forbidden, "run %s belongs to another user", run)
	}
	return nil
}

// visibleTo is the only user whose runs a caller sees; "": all.
func visibleTo(ctx context.Context) string {
	if tipstaff.CallerFrom(ctx).SeesAll() {
		return ""
	}
	return userOf(ctx)
}

// onBehalf is who acts for a user without being that user; "": nobody does.
func onBehalf(ctx context.Context) string {
	if p := principal(ctx); strings.HasPrefix(p, "token:") && p != "token:"+userOf(ctx) {
		return p
	}
	return ""
}

// Start implements [tipstaff.Service]. A document that came from elsewhere needs a
// scope of its own.
func (g *guarded) Start(ctx context.Context, req tipstaff.StartRequest) (tipstaff.Started, error) {
	err := g.mayWith(ctx, tipstaff.ScopeRun, req.Run)
	if err == nil && req.Hold != nil {
		err = g.mayWith(ctx, tipstaff.ScopeRun, req.Hold.Run)
	}
	if err == nil && brings(req) {
		err = may(ctx, tipstaff.ScopeSubmit)
	}
	if err == nil && req.Hold == nil && !req.DryRun {
		err = g.r.queue.room()
	}
	if err != nil {
		return tipstaff.Started{}, err
	}
	return g.r.Start(ctx, req)
}

// brings reports whether a request has a document of the caller's.
func brings(req tipstaff.StartRequest) bool {
	return req.NoFiles && len(req.Program) > 0 || req.Agent != nil && len(req.Agent.Document) > 0
}

// Get implements [tipstaff.Service].
func (g *guarded) Get(ctx context.Context, run tipstaff.ID) (tipstaff.Run, error) {
	if err := g.mayWith(ctx, tipstaff.ScopeRead, run); err != nil {
		return tipstaff.Run{}, err
	}
	return g.r.Get(ctx, run)
}

// List implements [tipstaff.Service].
func (g *guarded) List(ctx context.Context, req tipstaff.ListRequest) (tipstaff.RunPage, error) {
	if err := may(ctx, tipstaff.ScopeRead); err != nil {
		return tipstaff.RunPage{}, err
	}
	return g.r.List(ctx, req)
}

// Events implements [tipstaff.Service].
func (g *guarded) Events(ctx context.Context, req tipstaff.EventsRequest) iter.Seq2[tipstaff.Event, error] {
	if err := g.mayWith(ctx, tipstaff.ScopeRead, req.Run); err != nil {
		return func(yield func(tipstaff.Event, error) bool) { yield(tipstaff.Event{}, err) }
	}
	return g.r.Events(ctx, req)
}

// Decide implements [tipstaff.Service].
func (g *guarded) Decide(ctx context.Context, req tipstaff.DecideRequest) (tipstaff.Decided, error) {
	if err := g.mayWith(ctx, tipstaff.ScopeDecide, req.Run); err != nil {
		return tipstaff.Decided{}, err
	}
	return g.r.Decide(ctx, req)
}

// Resume implements [tipstaff.Service]. A correction is a document of the caller's.
func (g *guarded) Resume(ctx context.Context, req tipstaff.ResumeRequest) (tipstaff.Started, error) {
	err := g.mayWith(ctx, tipstaff.ScopeRun, req.Run)
	if err == nil && req.Correction != nil {
		err = may(ctx, tipstaff.ScopeSubmit)
	}
	if err == nil {
		err = g.r.queue.room()
	}
	if err != nil {
		return tipstaff.Started{}, err
	}
	return g.r.Resume(ctx, req)
}

// Cancel implements [tipstaff.Service].
func (g *guarded) Cancel(ctx context.Context, req tipstaff.CancelRequest) (tipstaff.Run, error) {
	if err := g.mayWith(ctx, tipstaff.ScopeRun, req.Run); err != nil {
		return tipstaff.Run{}, err
	}
	return g.r.Cancel(ctx, req)
}

// Fork implements [tipstaff.Service]. A checkpoint is its run's.
func (g *guarded) Fork(ctx context.Context, req tipstaff.ForkRequest) (tipstaff.Run, error) {
	err := g.mayWith(ctx, tipstaff.ScopeRun, req.Run)
	if made, ok := runOfCheckpoint(req.Checkpoint); err == nil && ok {
		if err = g.mayWith(ctx, tipstaff.ScopeRun, made); tipstaff.CodeOf(err) == tipstaff.RunNotFound {
			err = tipstaff.Errorf(tipstaff.CheckpointNotFound, "there is no checkpoint %s", req.Checkpoint)
		}
	}
	if err != nil {
		return tipstaff.Run{}, err
	}
	return g.r.Fork(ctx, req)
}

// runOfCheckpoint is the run that a checkpoint's id names: cp_, the run, _, the turn.
func runOfCheckpoint(id string) (tipstaff.ID, bool) {
	rest, ok := strings.CutPrefix(id, "cp_")
	ulid, _, _ := strings.Cut(rest, "_")
	run, err := tipstaff.ParseID(ulid)
	return run, ok && err == nil
}

// Artifact implements [tipstaff.Service].
func (g *guarded) Artifact(ctx context.Context, run tipstaff.ID, name string) ([]byte, error) {
	err := g.mayWith(ctx, tipstaff.ScopeRead, run)
	if err == nil && !tipstaff.CallerFrom(ctx).SeesAll() {
		err = g.r.mentions(ctx, run, name)
	}
	if err != nil {
		return nil, err
	}
	return g.r.Artifact(ctx, run, name)
}

// mentions refuses a digest that stands in no record of a run, nor of those that it
// inherits from: knowing a digest does not make its content one's own.
func (r *Runner) mentions(ctx context.Context, id tipstaff.ID, name string) error {
	if _, err := journal.ParseHash(name); err != nil {
		return nil // which is no digest
	}
	for run := id.String(); run != ""; {
		if kept, err := r.Store.Keeps(ctx, run, name); kept || err != nil {
			return explain(err, id)
		}
		row, err := r.Store.Run(ctx, run)
		if err != nil {
			return explain(err, id)
		}
		run = row.Base
	}
	return tipstaff.Errorf(tipstaff.ArtifactNotFound, "run %s has no artifact %s", id, name)
}

// Verify implements [tipstaff.Service]. An export is a folder of this machine, and
// nobody's.
func (g *guarded) Verify(ctx context.Context, req tipstaff.VerifyRequest) (tipstaff.Report, error) {
	err := g.mayWith(ctx, tipstaff.ScopeRead, req.Run)
	if err == nil && req.Dir != "" && visibleTo(ctx) != "" {
		err = may(ctx, tipstaff.ScopeAdmin)
	}
	if err != nil {
		return tipstaff.Report{}, err
	}
	return g.r.Verify(ctx, req)
}
