package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/delivery"
	"github.com/tipstaff/tipstaff/flow"
)

// keepWorktree is how long the worktree of a run stays after its end.
const keepWorktree = 7 * 24 * time.Hour

// TidyWorktrees removes the worktrees of runs that have ended long ago, unless a run that
// has not ended works there too. One that cannot be removed now is tried again the next
// time: it keeps nobody from working.
func (r *Runner) TidyWorktrees(ctx context.Context) error {
	if r.Git == nil || r.Worktrees == "" {
		return nil
	}
	entries, _ := os.ReadDir(r.Worktrees) // there need not be any
	var used map[string]bool              // by the run that made it
	for _, e := range entries {
		id, err := tipstaff.ParseID(e.Name())
		if err != nil || !e.IsDir() || r.Now().Sub(id.Time()) < keepWorktree {
			continue
		}
		ended, err := r.lineEnded(ctx, id)
		if err != nil {
			return explain(err, id)
		}
		if ended.IsZero() || r.Now().Sub(ended) < keepWorktree {
			continue
		}
		if used == nil {
			if used, err = r.worktreesInUse(ctx); err != nil {
				return err
			}
		}
		if !used[id.String()] {
			r.removeWorktree(ctx, id.String())
		}
	}
	return nil
}

// lineEnded is when the last of a run and its follow-ups has ended; zero: one has not, or
// the store has no such run, which is then another workspace's.
func (r *Runner) lineEnded(ctx context.Context, id tipstaff.ID) (at time.Time, err error) {
	for {
		row, err := r.Store.Run(ctx, id.String())
		switch {
		case errors.Is(err, flow.ErrNoRun):
			return time.Time{}, nil
		case err != nil || !tipstaff.State(row.State).Terminal():
			return time.Time{}, err
		}
		last, err := eventAt(ctx, r.Store, row.ID, row.Head)
		if err != nil {
			return time.Time{}, err
		}
		at = last.At
		gates, err := r.Store.Gates(ctx, flow.GateQuery{Run: row.ID})
		if err != nil {
			return time.Time{}, err
		}
		next := tipstaff.ID{}
		for _, g := range gates {
			if g.Kind == string(tipstaff.Delivery) && g.Decided > 0 && g.Decision.Action == tipstaff.DeliverFix {
				next = tipstaff.FollowupID(idOf(g.ID))
			}
		}
		if next.IsZero() {
			return at, nil
		}
		id = next
	}
}

// worktreesInUse are those that runs work in which have not ended.
func (r *Runner) worktreesInUse(ctx context.Context) (map[string]bool, error) {
	rows, err := r.Store.Runs(ctx, flow.Query{States: unfinished})
	if err != nil {
		return nil, explain(err, tipstaff.ID{})
	}
	used := map[string]bool{}
	for _, row := range rows {
		draft, err := readDraft(ctx, r.Store, row.ID)
		if err != nil || draft.Files == nil {
			continue // a run that cannot be read works nowhere
		}
		if line, err := worktreeLine(ctx, r.Store, row.ID, draft); err == nil {
			used[line[0]] = true
		}
	}
	return used, nil
}

// removeWorktree removes the worktree that was made for a run.
func (r *Runner) removeWorktree(ctx context.Context, run string) {
	draft, err := readDraft(ctx, r.Store, run)
	if err != nil || draft.Files == nil || draft.Files.Place == nil {
		return
	}
	repo, err := delivery.At(ctx, r.Git, *draft.Files.Place)
	if err != nil {
		return // the repository is gone, or not to be read now
	}
	_ = repo.RemoveWorktree(ctx, delivery.Worktree{Path: filepath.Join(r.Worktrees, run), Branch: delivery.RunBranches + run, Base: draft.Files.Base})
}
