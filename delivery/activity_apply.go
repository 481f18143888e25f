package delivery

import (
	"context"
	"errors"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// apply puts the changes into the checkout. One at a time does: of two with the same changes
// the second finds them there, and none finds those of the other half done.
func (e Env) apply(ctx context.Context, _ flow.Attempt, in applyInput) (got delivered, _ []string, err error) {
	r, err := At(ctx, e.Git, in.Place)
	if err == nil {
		if in.Worktree != nil {
			r = r.With(*in.Worktree)
		}
		r.Protection = e.Protection
		var begun bool
		if got, begun, err = e.applyAt(ctx, r, in); begun {
			return got, nil, err
		}
	}
	if err != nil && ctx.Err() != nil {
		return got, nil, brokenOff(ctx)
	}
	if err != nil {
		got, err = e.obstacle(ctx, r, in.Base, in.Commit, err)
	}
	return got, nil, notSent(err)
}

// applyAt does so in a repository. begun: the checkout may have been changed.
func (e Env) applyAt(ctx context.Context, r *Repo, in applyInput) (got delivered, begun bool, err error) {
	unlock, err := e.lock(ctx, applyLock(r))
	var busy *BusyError
	switch {
	case errors.As(err, &busy):
		return delivered{Blocked: tipstaff.BlockBusy, Why: err.Error()}, false, nil
	case err != nil:
		return got, false, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if secret, err := e.secretIn(ctx, r, in.Base, in.Commit); err != nil || len(secret) > 0 {
		return blockedBy(tipstaff.BlockSecret, secret), false, err
	}
	if in.Asks && !in.Accepted {
		asks, err := r.asks(ctx, in.Base, in.Commit)
		named := map[string]bool{}
		for _, name := range in.Named {
			named[name] = true
		}
		asks = slices.DeleteFunc(asks, func(name string) bool { return named[name] })
		if err != nil || len(asks) > 0 {
			return blockedBy(tipstaff.BlockObeyed, asks), false, err
		}
	}
	var meddled *MeddledError
	var unsettled *UnsettledError
	switch fit, err := r.Apply(ctx, in.Base, in.Commit); {
	case errors.As(err, &unsettled), fit == Fits && err == nil:
		return got, true, err
	case err != nil && ctx.Err() != nil:
		return got, false, err
	case fit == Fits && noRoom(err):
		return delivered{Blocked: tipstaff.BlockDisk, Why: fullText(err), none: true}, false, nil
	case fit == Fits && !errors.As(err, &meddled):
		return delivered{Blocked: tipstaff.BlockUnwritable, Why: err.Error(), none: true}, false, nil
	case err != nil:
		return got, false, err
	case fit == Present:
		r.forgetPlacing(in.Commit)
		return delivered{Already: true}, false, nil
	case fit == Unfetched: // and the checkout has none of the changes
		return delivered{Blocked: tipstaff.BlockContents, none: true}, false, nil
	case fit == Refused:
		return delivered{Blocked: tipstaff.BlockProtected}, false, nil
	case fit == Dirty:
		return delivered{Blocked: tipstaff.BlockDirty}, false, nil
	}
	return delivered{Blocked: tipstaff.BlockConflict}, false, nil
}

// blockedBy is something that files stand in the way of.
func blockedBy(code string, files []string) delivered {
	return delivered{Blocked: code, Files: files[:min(len(files), maxListed)]}
}

// asks are the changed files, as the checkout is now, about which whoever decides has to be
// asked.
func (r *Repo) asks(ctx context.Context, base, commit string) ([]string, error) {
	s, err := r.scratch("", "")
	if err != nil {
		return nil, err
	}
	defer s.close()
	names, err := s.names(ctx, base, commit)
	if err != nil {
		return nil, err
	}
	return s.protected(ctx, commit, names, tipstaff.ApplyAsks)
}

// brokenOff is the error of an attempt that has changed nothing, because ctx ended: it is not
// made any more if the run was cancelled, and later if only this process ends.
func brokenOff(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), flow.ErrCancelled) {
		return &flow.Error{Code: "cancelled", Message: "the run was cancelled before the checkout was changed", NotSent: true}
	}
	return ctx.Err()
}

// notSent is the error of an attempt that has changed nothing.
func notSent(err error) error {
	var known *flow.Error
	if err == nil {
		return nil
	}
	if err = coded(err); errors.As(err, &known) {
		known.NotSent = true
	}
	return err
}

// recallApply looks what became of an attempt that was broken off: all of it is there, or
// nothing; else a person has to look.
func (e Env) recallApply(ctx context.Context, a flow.Attempt, in applyInput) (delivered, []string, error) {
	got, keep, err := e.apply(ctx, a, in)
	if err == nil && got.Blocked == tipstaff.BlockBusy {
		got = e.unlocked(ctx, in, got)
	}
	switch {
	case err != nil, got.Blocked == "", got.none:
	case got.Blocked == tipstaff.BlockDirty, got.Blocked == tipstaff.BlockConflict:
		err = &flow.Error{Code: got.Blocked, Message: "the checkout has neither all of the changes nor none of them" + replacedBy(in)}
	default:
		err = &flow.Error{Code: got.Blocked, Message: "it cannot be told whether the checkout has the changes: " + got.by()}
	}
	if got.Already {
		got.Already = false // by that attempt
	}
	return got, keep, err
}

// unlocked is what became of it as far as that can be seen while another process holds the lock.
func (e Env) unlocked(ctx context.Context, in applyInput, busy delivered) delivered {
	r, err := At(ctx, e.Git, in.Place)
	if err != nil {
		return busy
	}
	if in.Worktree != nil {
		r = r.With(*in.Worktree)
	}
	switch fit, _, err := r.Fit(ctx, in.Base, in.Commit); {
	case err == nil && fit == Present:
		return delivered{Already: true}
	case err == nil && fit == Fits:
		busy.none = true
	}
	return busy
}

// replacedBy says where an attempt that was broken off has left the files that it had replaced.
func replacedBy(in applyInput) string {
	r := &Repo{Place: in.Place}
	if in.Worktree != nil {
		r = r.With(*in.Worktree)
	}
	if beside, err := r.beside(in.Commit); err == nil && exists(oldIn(beside)) {
		return "; files that were there before lie in " + oldIn(beside)
	}
	return ""
}
