package runner

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
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
func may(ctx context.Context, scope string) error { return mayDo(ctx, scope, "do this") }

// mayDo is may, and says what the scope is needed for.
func mayDo(ctx context.Context, scope, what string) error {
	c := tipstaff.CallerFrom(ctx)
	if c.May(scope) {
		return nil
	}
	who := c.Principal
	if who == "" {
		who = "a caller without a token"
	}
	return tipstaff.Errorf(tipstaff.Forbidden, "%s may not %s", who, what).WithHint("the token needs the scope %s", scope)
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
func onBehalf(ctx context.Context, user string) string {
	if p := principal(ctx); strings.HasPrefix(p, "token:") && p != "token:"+user {
		return p
	}
	return ""
}

// asksOf is which calls of a program ask although it was accepted. What somebody
// brought, or made of a pipeline, is accepted by that only if they may decide.
func asksOf(ctx context.Context, brought bool) string {
	if brought && !tipstaff.CallerFrom(ctx).May(tipstaff.ScopeDecide) {
		return asksOnce
	}
	return ""
}

// mayAnswer checks whether a caller may answer gates in advance, or while the run goes
// on, and may let a plan do what the manifest does not.
func mayAnswer(ctx context.Context, yes bool, ask tipstaff.Ask, dispatch bool) error {
	switch {
	case yes || ask != nil:
		return mayDo(ctx, tipstaff.ScopeDecide, "answer gates")
	case dispatch:
		return mayDo(ctx, tipstaff.ScopeDecide, "let a plan start child runs")
	}
	return nil
}

// Start implements [tipstaff.Service]. A document that came from elsewhere needs a
// scope of its own.
func (g *guarded) Start(ctx context.Context, req tipstaff.StartRequest) (tipstaff.Started, error) {
	err := g.mayWith(ctx, tipstaff.ScopeRun, req.Run)
	if err == nil && req.Hold != nil {
		err = g.mayWith(ctx, tipstaff.ScopeRun, req.Hold.Run)
	}
	if err == nil && brings(req) {
		err = mayDo(ctx, tipstaff.ScopeSubmit, "send documents")
	}
	if err == nil {
		err = mayAnswer(ctx, req.Yes, req.Ask, req.AllowSubDispatch)
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
		err = mayDo(ctx, tipstaff.ScopeSubmit, "send documents")
	}
	if err == nil {
		err = mayAnswer(ctx, req.Yes, req.Ask, false)
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

// Fork implements [tipstaff.Service]. A checkpoint is its run's. Whoever changes what
// was decided or leaves a question behind must be one who may answer it.
func (g *guarded) Fork(ctx context.Context, req tipstaff.ForkRequest) (tipstaff.Run, error) {
	err := g.mayWith(ctx, tipstaff.ScopeRun, req.Run)
	if made, ok := runOfCheckpoint(req.Checkpoint); err == nil && ok {
		if err = g.mayWith(ctx, tipstaff.ScopeRun, made); tipstaff.CodeOf(err) == tipstaff.RunNotFound {
			err = tipstaff.Errorf(tipstaff.CheckpointNotFound, "there is no checkpoint %s", req.Checkpoint)
		}
	}
	if err == nil && req.Label == "" {
		err = g.mayGoBack(ctx, req)
	}
	if err != nil {
		return tipstaff.Run{}, err
	}
	return g.r.Fork(ctx, req)
}

func (g *guarded) mayGoBack(ctx context.Context, req tipstaff.ForkRequest) error {
	if may(ctx, tipstaff.ScopeDecide) == nil {
		return nil
	}
	switch {
	case len(req.Outputs)+len(req.Metadata) > 0:
		return mayDo(ctx, tipstaff.ScopeDecide, "edit outputs or metadata")
	case len(req.Raise) > 0:
		return mayDo(ctx, tipstaff.ScopeDecide, "raise bounds")
	}
	open, err := g.r.asked(ctx, req.Run.String())
	if err == nil && open {
		return mayDo(ctx, tipstaff.ScopeDecide, fmt.Sprintf("go back past an open gate of run %s", req.Run))
	}
	return explain(err, req.Run)
}

// asked reports whether a run, or one that it has started, has an open gate.
func (r *Runner) asked(ctx context.Context, run string) (bool, error) {
	open, err := r.Store.Gates(ctx, flow.GateQuery{Run: run, Open: true})
	if err != nil || len(open) > 0 {
		return len(open) > 0, err
	}
	row, err := r.Store.Run(ctx, run)
	if err != nil {
		return false, err
	}
	got, err := r.status(ctx, row)
	if err != nil || got.Lineage == nil {
		return false, err
	}
	for _, child := range got.Lineage.Children {
		asked, err := r.asked(ctx, child.String())
		if errors.Is(err, flow.ErrNoRun) {
			continue // it was announced and not made yet
		}
		if asked || err != nil {
			return asked, err
		}
	}
	return false, nil
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
