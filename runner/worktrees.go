package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
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
	seen := map[string]bool{}
	for _, e := range entries {
		name, _, _ := strings.Cut(e.Name(), ".") // what belongs to a worktree lies beside it, also of one that is gone
		id, err := tipstaff.ParseID(name)
		if err != nil || seen[name] || r.Now().Sub(id.Time()) < keepWorktree {
			continue
		}
		seen[name] = true
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
	w := delivery.Worktree{Path: filepath.Join(r.Worktrees, run), Branch: delivery.RunBranches + run, Base: draft.Files.Base}
	if w.Present() {
		r.tearDown(ctx, run, w, *draft.Files.Place)
	}
	_ = repo.RemoveWorktree(ctx, w)
}

// tearDown runs what was to run when a worktree goes, as it was recorded, and allowed, when
// the worktree was made ready. The run has ended: there is no record to put the outcome in.
func (r *Runner) tearDown(ctx context.Context, run string, w delivery.Worktree, place delivery.Place) {
	var prepared tipstaff.WorktreePrepared
	if err := eachEvent(ctx, r.Store, run, 0, func(e *tipstaff.Event) error {
		if e.Kind != tipstaff.KindWorktreePrepared {
			return nil
		}
		prepared = tipstaff.BodyOf[tipstaff.WorktreePrepared](e)
		return errEnough
	}); err != nil && !errors.Is(err, errEnough) {
		return
	}
	if len(prepared.Teardown) == 0 {
		return
	}
	w.Ports = prepared.Ports
	launch := tipstaff.NewID(r.Now()).String()
	markers := r.Markers(run, launch)
	defer func() { _, _ = r.Sweep(context.WithoutCancel(ctx), map[string]string{launch: run}) }() // what is left then hangs in the kernel
	for _, c := range prepared.Teardown {
		limit, err := time.ParseDuration(c.Timeout)
		if err != nil {
			continue
		}
		_, _, _ = r.program(ctx, delivery.Command{Argv: c.Argv, Dir: filepath.Join(w.Path, filepath.FromSlash(place.Prefix)), Timeout: limit, Env: w.Environ()}, markers)
	}
}
