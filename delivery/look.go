package delivery

import (
	"cmp"
	"context"

	"github.com/tipstaff/tipstaff"
)

// Look says what stands in the way of the actions of an open gate as things are now. What
// only the run knows, that follow-ups lead nowhere or have no room, is as it was.
func (r *Repo) Look(ctx context.Context, s tipstaff.DeliverySubject) (now tipstaff.DeliveryNow, err error) {
	now.Worktree = Worktree{Path: s.Worktree}.Present()
	r = r.With(Worktree{Path: s.Worktree})
	f := Facts{Fit: Fits}
	if len(s.Secret) == 0 { // else there is nothing that could be handed over
		commit := cmp.Or(s.Commit, s.Tree)
		if f, err = r.facts(ctx, s.Base, commit, s.Branch); err == nil && !f.Lost {
			now.Asks, err = r.asks(ctx, s.Base, commit)
		}
	} else {
		f.Meddled, err = r.Meddled(ctx)
	}
	if ctx.Err() != nil {
		return now, err
	}
	if err != nil {
		f.Unreadable = err.Error()
	}
	f.Scope, f.Failing, f.Rejected, f.Reason = s.ScopeViolations, required(s.Checks, s.Tree), s.Release == tipstaff.ReleaseRejected, s.ReleaseReason
	f.WorktreeMissing, f.Secret = !now.Worktree, s.Secret
	for _, was := range s.Blocked {
		if was.Action == tipstaff.DeliverFix && was.Code != tipstaff.BlockWorktree {
			f.NoFollowup = &was
		}
	}
	now.Blocked = Blocked(f)
	now.DefaultAction = tipstaff.DefaultDelivery(now.Blocked, f.Rejected)
	return now, nil
}

// facts are what stands in the way of handing over a commit, or a tree, by the repository alone.
func (r *Repo) facts(ctx context.Context, base, commit, branch string) (f Facts, err error) {
	f.Branch, f.Fit = branch, Fits
	if f.Meddled, err = r.Meddled(ctx); err != nil {
		return f, err
	}
	if f.Lost, err = r.Lost(ctx, base, commit); err != nil {
		return f, err
	}
	if f.BranchTaken, err = r.BranchTaken(ctx, branch, commit); err != nil || f.Lost {
		return f, err
	}
	if f.Fit, f.Dirty, err = r.Fit(ctx, base, commit); err != nil && ctx.Err() == nil { // a branch can be made all the same
		f.Fit, f.Dirty, err = Unclear, []string{err.Error()}, nil
	}
	return f, err
}
