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
func mayAnswer(ctx context.Context, p tipstaff.Presence, dispatch bool) error {
	switch {
	case p.Yes || p.Attended:
		return mayDo(ctx, tipstaff.ScopeDecide, "answer gates")
	case dispatch:
		return mayDo(ctx, tipstaff.ScopeDecide, "let a plan start child runs")
	}
	return nil
}

// brings reports whether a request has a document of the caller's.
func brings(noFiles bool, document []byte) bool { return noFiles && len(document) > 0 }

// mayBring checks the scope for documents that came from elsewhere.
func mayBring(ctx context.Context, brought bool) error {
	if !brought {
		return nil
	}
	return mayDo(ctx, tipstaff.ScopeSubmit, "send documents")
}

// mayStart checks what starting a program needs.
func (g *guarded) mayStart(ctx context.Context, req tipstaff.StartRequest) error {
	err := may(ctx, tipstaff.ScopeRun)
	if err == nil {
		err = mayBring(ctx, brings(req.NoFiles, req.Program))
	}
	if err == nil {
		err = mayAnswer(ctx, req.Presence, req.AllowSubDispatch)
	}
	return err
}

// mayDraft checks what having a plan drafted needs.
func (g *guarded) mayDraft(ctx context.Context, req tipstaff.DraftRequest) error {
	err := may(ctx, tipstaff.ScopeRun)
	if err == nil {
		err = mayAnswer(ctx, req.Presence, req.AllowSubDispatch)
	}
	return err
}

// Start implements [tipstaff.Service].
func (g *guarded) Start(ctx context.Context, req tipstaff.StartRequest) (tipstaff.Started, error) {
	err := g.mayStart(ctx, req)
	if err == nil {
		err = g.r.queue.room()
	}
	if err != nil {
		return tipstaff.Started{}, err
	}
	return g.r.Start(ctx, req)
}

// Draft implements [tipstaff.Service].
func (g *guarded) Draft(ctx context.Context, req tipstaff.DraftRequest) (tipstaff.Started, error) {
	err := g.mayDraft(ctx, req)
	if err == nil {
		err = g.r.queue.room()
	}
	if err != nil {
		return tipstaff.Started{}, err
	}
	return g.r.Draft(ctx, req)
}

// Validate implements [tipstaff.Service].
func (g *guarded) Validate(ctx context.Context, req tipstaff.ValidateRequest) (v tipstaff.Validated, err error) {
	if req.Start != nil {
		err = g.mayStart(ctx, *req.Start)
	}
	if req.Draft != nil && err == nil {
		err = g.mayDraft(ctx, *req.Draft)
	}
	if err != nil {
		return v, err
	}
	return g.r.Validate(ctx, req)
}

// CreateEnvelope implements [tipstaff.Service].
func (g *guarded) CreateEnvelope(ctx context.Context, req tipstaff.EnvelopeRequest) (tipstaff.Started, error) {
	err := may(ctx, tipstaff.ScopeRun)
	if err == nil {
		err = mayBring(ctx, brings(req.NoFiles, req.Program))
	}
	if err != nil {
		return tipstaff.Started{}, err
	}
	return g.r.CreateEnvelope(ctx, req)
}

// UpdateEnvelope implements [tipstaff.Service].
func (g *guarded) UpdateEnvelope(ctx context.Context, req tipstaff.EnvelopeUpdate) error {
	if err := g.mayWith(ctx, tipstaff.ScopeRun, req.Run); err != nil {
		return err
	}
	return g.r.UpdateEnvelope(ctx, req)
}

// ExecuteEnvelope implements [tipstaff.Service].
func (g *guarded) ExecuteEnvelope(ctx context.Context, req tipstaff.ExecuteRequest) (tipstaff.Started, error) {
	if err := g.mayDrive(ctx, req.Run, brings(req.NoFiles, req.Program)); err != nil {
		return tipstaff.Started{}, err
	}
	return g.r.ExecuteEnvelope(ctx, req)
}

// ExecuteAgent implements [tipstaff.Service].
func (g *guarded) ExecuteAgent(ctx context.Context, req tipstaff.AgentRequest) (tipstaff.Started, error) {
	if err := g.mayDrive(ctx, req.Run, len(req.Document) > 0); err != nil {
		return tipstaff.Started{}, err
	}
	return g.r.ExecuteAgent(ctx, req)
}

// mayDrive checks what driving a run needs, with a document of the caller's or without.
func (g *guarded) mayDrive(ctx context.Context, run tipstaff.ID, brought bool) error {
	err := g.mayWith(ctx, tipstaff.ScopeRun, run)
	if err == nil {
		err = mayBring(ctx, brought)
	}
	if err == nil {
		err = g.r.queue.room()
	}
	return err
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

// Defer implements [tipstaff.Service].
func (g *guarded) Defer(ctx context.Context, run, gate tipstaff.ID) error {
	if err := g.mayWith(ctx, tipstaff.ScopeDecide, run); err != nil {
		return err
	}
	return g.r.Defer(ctx, run, gate)
}

// Resume implements [tipstaff.Service].
func (g *guarded) Resume(ctx context.Context, req tipstaff.ResumeRequest) (tipstaff.Started, error) {
	err := g.mayDrive(ctx, req.Run, false)
	if err == nil {
		err = mayAnswer(ctx, req.Presence, false)
	}
	if err != nil {
		return tipstaff.Started{}, err
	}
	return g.r.Resume(ctx, req)
}

// Correct implements [tipstaff.Service]. A correction is a document of the caller's.
func (g *guarded) Correct(ctx context.Context, req tipstaff.CorrectRequest) (tipstaff.Corrected, error) {
	err := g.mayWith(ctx, tipstaff.ScopeRun, req.Run)
	if err == nil {
		err = mayBring(ctx, true)
	}
	if err != nil {
		return tipstaff.Corrected{}, err
	}
	return g.r.Correct(ctx, req)
}

// Cancel implements [tipstaff.Service].
func (g *guarded) Cancel(ctx context.Context, req tipstaff.CancelRequest) (tipstaff.Run, error) {
	if err := g.mayWith(ctx, tipstaff.ScopeRun, req.Run); err != nil {
		return tipstaff.Run{}, err
	}
	return g.r.Cancel(ctx, req)
}

// Fork implements [tipstaff.Service].
func (g *guarded) Fork(ctx context.Context, req tipstaff.ForkRequest) (tipstaff.Run, error) {
	if err := g.mayBranch(ctx, req.Run, req.Checkpoint, &req.Changes); err != nil {
		return tipstaff.Run{}, err
	}
	return g.r.Fork(ctx, req)
}

// Rollback implements [tipstaff.Service].
func (g *guarded) Rollback(ctx context.Context, req tipstaff.RollbackRequest) (tipstaff.Run, error) {
	if err := g.mayBranch(ctx, req.Run, req.Checkpoint, &req.Changes); err != nil {
		return tipstaff.Run{}, err
	}
	return g.r.Rollback(ctx, req)
}

// Label implements [tipstaff.Service].
func (g *guarded) Label(ctx context.Context, req tipstaff.LabelRequest) (tipstaff.Checkpoint, error) {
	if err := g.mayBranch(ctx, req.Run, req.Checkpoint, nil); err != nil {
		return tipstaff.Checkpoint{}, err
	}
	return g.r.Label(ctx, req)
}

// mayBranch checks what a fork or a rollback needs; without changes, what a label does.
// A checkpoint is its run's. Whoever changes what was decided or leaves a question
// behind must be one who may answer it.
func (g *guarded) mayBranch(ctx context.Context, run tipstaff.ID, checkpoint string, c *tipstaff.Changes) error {
	err := g.mayWith(ctx, tipstaff.ScopeRun, run)
	if made, ok := runOfCheckpoint(checkpoint); err == nil && ok {
		if err = g.mayWith(ctx, tipstaff.ScopeRun, made); tipstaff.CodeOf(err) == tipstaff.RunNotFound {
			err = tipstaff.Errorf(tipstaff.CheckpointNotFound, "there is no checkpoint %s", checkpoint)
		}
	}
	switch {
	case err != nil, c == nil, may(ctx, tipstaff.ScopeDecide) == nil:
		return err
	case len(c.Outputs)+len(c.Metadata) > 0:
		return mayDo(ctx, tipstaff.ScopeDecide, "edit outputs or metadata")
	case len(c.Raise) > 0:
		return mayDo(ctx, tipstaff.ScopeDecide, "raise bounds")
	}
	open, err := g.r.asked(ctx, run.String())
	if err == nil && open {
		return mayDo(ctx, tipstaff.ScopeDecide, fmt.Sprintf("go back past an open gate of run %s", run))
	}
	return explain(err, run)
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

// Wait implements [tipstaff.Service].
func (g *guarded) Wait(ctx context.Context, run tipstaff.ID) (tipstaff.Driven, error) {
	if err := g.mayWith(ctx, tipstaff.ScopeRead, run); err != nil {
		return tipstaff.Driven{}, err
	}
	return g.r.Wait(ctx, run)
}

// Checkpoints implements [tipstaff.Service].
func (g *guarded) Checkpoints(ctx context.Context, run tipstaff.ID) ([]tipstaff.Checkpoint, error) {
	if err := g.mayWith(ctx, tipstaff.ScopeRead, run); err != nil {
		return nil, err
	}
	return g.r.Checkpoints(ctx, run)
}

// Envelope implements [tipstaff.Service].
func (g *guarded) Envelope(ctx context.Context, run tipstaff.ID, checkpoint string) ([]byte, error) {
	if err := g.mayWith(ctx, tipstaff.ScopeRead, run); err != nil {
		return nil, err
	}
	return g.r.Envelope(ctx, run, checkpoint)
}

// Graph implements [tipstaff.Service].
func (g *guarded) Graph(ctx context.Context, run tipstaff.ID, format string) ([]byte, error) {
	if err := g.mayWith(ctx, tipstaff.ScopeRead, run); err != nil {
		return nil, err
	}
	return g.r.Graph(ctx, run, format)
}

// Artifact implements [tipstaff.Service].
func (g *guarded) Artifact(ctx context.Context, run tipstaff.ID, digest string) ([]byte, error) {
	err := g.mayWith(ctx, tipstaff.ScopeRead, run)
	if err == nil && !tipstaff.CallerFrom(ctx).SeesAll() {
		err = g.r.mentions(ctx, run, digest)
	}
	if err != nil {
		return nil, err
	}
	return g.r.Artifact(ctx, run, digest)
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

// Verify implements [tipstaff.Service]. Exports, keys and anchors are files of this
// machine, and nobody's.
func (g *guarded) Verify(ctx context.Context, req tipstaff.VerifyRequest) (tipstaff.Report, error) {
	err := g.mayWith(ctx, tipstaff.ScopeRead, req.Run)
	if err == nil && (req.Dir != "" || req.Anchor != "" || len(req.Keys) > 0) && visibleTo(ctx) != "" {
		err = may(ctx, tipstaff.ScopeAdmin)
	}
	if err != nil {
		return tipstaff.Report{}, err
	}
	return g.r.Verify(ctx, req)
}
