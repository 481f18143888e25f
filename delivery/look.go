package delivery

import (
	"context"

	"github.com/tipstaff/tipstaff"
)

// Look says what stands in the way of the actions of an open gate as things are now. What
// only the run knows, that follow-ups lead nowhere or have no room, is as it was.
func (r *Repo) Look(ctx context.Context, s tipstaff.DeliverySubject) (now tipstaff.DeliveryNow, err error) {
	now.Worktree = Worktree{Path: s.Worktree}.Present()
	f := Facts{Scope: s.ScopeViolations, Failing: required(s.Checks, s.Tree), Rejected: s.Release == tipstaff.ReleaseRejected, Reason: s.ReleaseReason,
		Branch: s.Branch, WorktreeMissing: !now.Worktree, Secret: s.Secret, Fit: Fits}
	r = r.With(Worktree{Path: s.Worktree})
	if f.Meddled, err = r.Meddled(ctx); err != nil {
		return now, err
	}
	if s.Commit != "" { // else there is nothing that could be handed over
		if f.Lost, err = r.Lost(ctx, s.Commit); err != nil {
			return now, err
		}
		if f.BranchTaken, err = r.BranchTaken(ctx, s.Branch, s.Commit); err != nil {
			return now, err
		}
	}
	if s.Commit != "" && !f.Lost {
		if f.Fit, f.Dirty, err = r.Fit(ctx, s.Base, s.Commit); err != nil {
			return now, err
		}
		if now.Asks, err = r.asks(ctx, s.Base, s.Commit); err != nil {
			return now, err
		}
	}
	for _, was := range s.Blocked {
		if was.Action == tipstaff.DeliverFix && was.Code != tipstaff.BlockWorktree {
			f.NoFollowup = &was
		}
	}
	now.Blocked = Blocked(f)
	now.DefaultAction = tipstaff.DefaultDelivery(now.Blocked, f.Rejected)
	return now, nil
}
