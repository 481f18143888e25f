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

// keepClean is how long a clean checkout stays that its run has not taken away when it ended.
// Until then whoever has ended the run may be about to.
const keepClean = time.Hour

// TidyWorktrees removes the worktrees of runs that have ended long ago, unless a run that
// has not ended works there too, and clean checkouts of runs whose process was killed. One
// that cannot be removed now is tried again the next time: it keeps nobody from working.
func (r *Runner) TidyWorktrees(ctx context.Context) error {
	if r.Git == nil || r.Worktrees == "" {
		return nil
	}
	r.dropCleans(ctx, func(run string) bool {
		row, err := r.Store.Run(ctx, run)
		if err != nil || !tipstaff.State(row.State).Terminal() {
			return false // it is another workspace's, or under way
		}
		last, err := eventAt(ctx, r.Store, run, row.Head)
		return err == nil && r.Now().Sub(last.At) >= keepClean
	})
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
	if prepared := r.prepared(ctx, run, draft); w.Present() && !r.tearDown(ctx, run, prepared.Teardown, placed(draft, w.Path), prepared.Ports) {
		return
	}
	_ = repo.RemoveWorktree(ctx, w)
}

// dropCleans takes away the clean checkouts of runs that have ended. A run that ends at a gate,
// or completes, has done so itself, and recorded what came of it.
func (r *Runner) dropCleans(ctx context.Context, ended func(run string) bool) {
	for _, c := range delivery.CleanCheckouts(r.Worktrees) {
		if !ended(c.Run) {
			continue
		}
		draft, err := readDraft(ctx, r.Store, c.Run)
		if err != nil || draft.Files == nil || draft.Files.Place == nil {
			continue
		}
		ports, err := c.Ports()
		if err == nil && r.tearDown(ctx, c.Run, r.prepared(ctx, c.Run, draft).Teardown, placed(draft, c.Path), ports) {
			_ = r.Git.RemoveClean(c.Path) // it is tried again when worktrees are tidied
		}
	}
}

// placed is the project's folder in one that holds the files of its repository.
func placed(draft *draftBody, dir string) string {
	return filepath.Join(dir, filepath.FromSlash(draft.Files.Place.Prefix))
}

// prepared is what was recorded, and allowed, when the worktree of a run was made ready: by the
// run itself, or by the one that it is a fork of.
func (r *Runner) prepared(ctx context.Context, run string, draft *draftBody) (prepared tipstaff.WorktreePrepared) {
	for at := int64(0); ; {
		found := false
		err := eachEvent(ctx, r.Store, run, at, func(e *tipstaff.Event) error {
			if found = e.Kind == tipstaff.KindWorktreePrepared; !found {
				return nil
			}
			prepared = tipstaff.BodyOf[tipstaff.WorktreePrepared](e)
			return errEnough
		})
		if err != nil || found || draft.ForkOf == nil {
			return prepared
		}
		run, at = draft.ForkOf.Run, draft.ForkOf.Seq
		if draft, err = readDraft(ctx, r.Store, run); err != nil {
			return prepared
		}
	}
}

// tearDown runs what is to run when a folder goes in which a run has worked. The run has ended:
// there is no record to put the outcome in. It reports false if ctx ended before.
func (r *Runner) tearDown(ctx context.Context, run string, commands []tipstaff.TeardownCommand, dir string, ports []int) bool {
	if len(commands) == 0 {
		return ctx.Err() == nil
	}
	launch := tipstaff.NewID(r.Now()).String()
	markers := r.Markers(run, launch)
	defer func() { _, _ = r.Sweep(context.WithoutCancel(ctx), map[string]string{launch: run}) }() // what is left then hangs in the kernel
	for _, c := range commands {
		if limit, err := time.ParseDuration(c.Timeout); err == nil {
			_, _, _ = r.program(ctx, delivery.Command{Argv: c.Argv, Dir: dir, Timeout: limit, Env: delivery.Worktree{Ports: ports}.Environ()}, markers)
		}
	}
	return ctx.Err() == nil
}
