package delivery

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// commit builds what would be delivered, and looks at what stands in its way.
func (e Env) commit(ctx context.Context, a flow.Attempt, in commitInput) (made committed, keep []string, err error) {
	made.N, made.Fit, made.Missing, made.Names = in.N, Fits, !in.Worktree.Present(), true
	r, err := e.at(ctx, in.Place, in.Worktree)
	if err == nil {
		r.Protection = e.Protection
		err = e.build(ctx, r, in, &made)
		made.Notices = append(r.Meddling(), made.Notices...)
	}
	if err != nil && noRoom(err) { // which is asked about by itself
		return made, nil, err
	}
	if err != nil {
		made.Notices = append(made.Notices, Unlooked(err)) // also where something else blocks first
		by, err := e.obstacle(ctx, r, in.Worktree.Base, in.Tree, err)
		if err != nil {
			return made, nil, err
		}
		made.Lost, made.Unreadable = by.Blocked == tipstaff.BlockWorktree, by.Why
	}
	made.Teardown, keep, err = e.dropClean(ctx, a, in.Place, in.Worktree, in.Teardown)
	return made, keep, err
}

func (e Env) build(ctx context.Context, r *Repo, in commitInput, made *committed) (err error) {
	if in.Withheld {
		return nil
	}
	// First: what was recorded and is gone is recorded again, if the worktree still has it.
	switch edited, err := r.edited(ctx, in.Worktree, in.Tree); {
	case made.Missing:
	case noRoom(err):
		return err
	case err != nil: // nobody needs the worktree any more
		made.Notices = append(made.Notices, Unlooked(err))
	case edited:
		made.Notices = append(made.Notices, tipstaff.Notice{Code: CodeWorktreeEdited, Message: "the worktree has changed since; what is shown, and would be delivered, is as it was before"})
	}
	if in.N > 1 { // the first gate opens with the difference
		obeyed, err := r.obeyedNow(ctx, in.Worktree.Base, in.Tree)
		if err != nil {
			return err
		}
		obeyed = recorder{redact: e.Redact}.obeyed(append([]tipstaff.ObeyedFile{}, obeyed...))
		made.Obeyed = &obeyed
		if made.Secret, err = e.secretIn(ctx, r, in.Worktree.Base, in.Tree); err != nil || len(made.Secret) > 0 {
			return err
		}
	}
	if made.Commit, err = r.Commit(ctx, Commit{Base: in.Worktree.Base, Tree: in.Tree, Title: in.Title, At: time.Unix(in.At, 0),
		Trailers: []Trailer{{"Tipstaff-Run", in.Run}, {"Tipstaff-Program", in.Program}}}); err != nil {
		return err
	}
	if err := r.Keep(ctx, in.Run, in.N, made.Commit); err != nil {
		return err
	}
	f, err := r.facts(ctx, in.Worktree.Base, made.Commit, in.Branch)
	made.Lost, made.Taken, made.Meddled, made.Fit, made.Dirty = f.Lost, f.BranchTaken, f.Meddled, f.Fit, f.Dirty[:min(len(f.Dirty), maxListed)]
	return err
}

// edited reports whether a worktree is another than a tree.
func (r *Repo) edited(ctx context.Context, w Worktree, tree string) (bool, error) {
	now, err := r.writeTree(ctx, w)
	return err == nil && now != tree, err
}

// publish makes the branch, and removes the worktree that nobody needs any more.
func (e Env) publish(ctx context.Context, a flow.Attempt, in publishInput) (got delivered, keep []string, err error) {
	r, err := At(ctx, e.Git, in.Place)
	if err == nil {
		r = r.With(in.Worktree)
		got.Files, err = e.secretIn(ctx, r, in.Worktree.Base, in.Tree)
	}
	if len(got.Files) > 0 {
		return blockedBy(tipstaff.BlockSecret, got.Files), nil, nil
	}
	if err == nil {
		err = r.Publish(ctx, in.Branch, in.Commit)
	}
	if err != nil {
		got, err = e.obstacle(ctx, r, in.Worktree.Base, in.Tree, err)
		return got, nil, err
	}
	// The index goes first: without it, an attempt that was broken off has begun to remove
	// the worktree.
	if _, err := os.Stat(in.Worktree.index()); err == nil {
		edited, err := r.edited(ctx, in.Worktree, in.Tree)
		if got.Kept = edited || err != nil && !errors.Is(err, ErrWorktreeMissing); got.Kept { // somebody's work may be there
			return got, nil, nil
		}
	}
	if got.Teardown, keep, err = e.tearDown(ctx, a, placeWithin(in.Place, in.Worktree.Path), in.Worktree.Ports, in.Teardown); err != nil {
		return got, nil, err
	}
	got.Kept = r.RemoveWorktree(ctx, in.Worktree) != nil // it is removed later
	return got, keep, nil
}
