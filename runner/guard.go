package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Every method of the Service looks at who calls before it does anything. People at
// this machine may do everything. Any other caller needs the scope of what it
// does, and has to do with the runs of its own user alone, unless it is an admin:
// another user's run is forbidden, and lists leave it out. What methods ask of each
// other goes through methods that are not exported, or is done as the local user.

// need is a scope that a request needs, and what for.
type need struct {
	applies bool // false: not to this request
	scope   string
	to      string
}

func basic(scope string) need { return need{true, scope, "do this"} }

// answering is the need of a caller that answers gates in advance, or while the run
// goes on.
func answering(p tipstaff.Presence) need {
	return need{p.Yes || p.Accept || p.Attended, tipstaff.ScopeDecide, "answer gates"}
}

// dispatching is the need of a caller that lets a plan do what the manifest does not.
func dispatching(applies bool) need {
	return need{applies, tipstaff.ScopeDecide, "let a plan start child runs"}
}

// may refuses a caller that lacks a scope.
func may(ctx context.Context, needs ...need) error {
	c := tipstaff.CallerFrom(ctx)
	for _, n := range needs {
		if own := c.OwnRuns(); n.applies && n.scope == tipstaff.ScopeDecide && len(own) > 0 {
			return ownRun(own, "may not "+n.to)
		}
		if n.applies && !c.May(n.scope) {
			e := tipstaff.Errorf(tipstaff.Forbidden, "%s may not %s", cmp.Or(c.Principal, "a caller without a token"), n.to).WithHint("%s", c.Obtaining(n.scope))
			e.Details = map[string]string{"scope": n.scope}
			return e
		}
	}
	return nil
}

func mayStart(ctx context.Context, req tipstaff.StartRequest) error {
	if err := checkHosting(req.Hosting); err != nil {
		return err
	}
	return may(ctx, basic(tipstaff.ScopeRun), answering(req.Presence), dispatching(req.AllowSubDispatch))
}

func mayDraft(ctx context.Context, req tipstaff.DraftRequest) error {
	if err := checkHosting(req.Hosting); err != nil {
		return err
	}
	return may(ctx, basic(tipstaff.ScopeRun), answering(req.Presence), dispatching(req.AllowSubDispatch))
}

// mayValidate: whoever may look at runs may also ask what a document would come to, which
// makes none. What else a request asks for must be the caller's to ask for.
func mayValidate(ctx context.Context, h tipstaff.Hosting, p tipstaff.Presence, subDispatch bool) error {
	return cmp.Or(checkHosting(h), may(ctx, basic(tipstaff.ScopeRead), answering(p), dispatching(subDispatch)))
}

// open reads the row of a run for a caller who may access it.
func (r *Runner) open(ctx context.Context, run tipstaff.ID, scope string, more ...need) (flow.Row, error) {
	if err := cmp.Or(may(ctx, basic(scope)), may(ctx, more...)); err != nil {
		return flow.Row{}, err
	}
	if run.IsZero() {
		return flow.Row{}, tipstaff.Errorf(tipstaff.InvalidArgument, "no run was named")
	}
	row, err := r.Store.Run(ctx, run.String())
	if c := tipstaff.CallerFrom(ctx); err == nil && !c.SeesAll() && row.User != c.User {
		row, err = flow.Row{}, tipstaff.Errorf(tipstaff.Forbidden, "run %s belongs to another user", run)
	}
	return row, explain(err, run)
}

// permit checks whether a caller may access a run. That the run exists is checked only
// for callers who cannot see all: the others are served while the store is away, too.
func (r *Runner) permit(ctx context.Context, run tipstaff.ID, scope string, more ...need) error {
	if tipstaff.CallerFrom(ctx).SeesAll() && !run.IsZero() {
		return cmp.Or(may(ctx, basic(scope)), may(ctx, more...))
	}
	_, err := r.open(ctx, run, scope, more...)
	return err
}

// openToChange also refuses a process that belongs to the run, or to one that this run
// has started: no agent decides about itself.
func (r *Runner) openToChange(ctx context.Context, run tipstaff.ID, scope string, more ...need) (flow.Row, error) {
	row, err := r.open(ctx, run, scope, more...)
	if err != nil {
		return row, err
	}
	return row, explain(r.refuseOwn(ctx, row), run)
}

// openToDrive is openToChange for what has a run go on or end. On surfaces under control it
// refuses, before anything else happens, a run that somebody drives in a process of their
// own; tool is what was tried.
func (r *Runner) openToDrive(ctx context.Context, run tipstaff.ID, tool string, more ...need) (flow.Row, error) {
	row, err := r.openToChange(ctx, run, tipstaff.ScopeRun, more...)
	if err != nil || !tipstaff.CallerFrom(ctx).Controlled() {
		return row, err
	}
	now, err := r.status(ctx, row)
	if err != nil {
		return row, explain(err, run)
	}
	if now.Control == tipstaff.InspectAlone {
		return row, tipstaff.InspectOnlyControl(run, now.ControlReason, tool)
	}
	return row, nil
}

// MayDrive refuses a caller that may not have a run go on or end with a tool.
func (r *Runner) MayDrive(ctx context.Context, run tipstaff.ID, tool string) error {
	_, err := r.openToDrive(ctx, run, tool)
	return err
}

// Changed signals whenever a run has come, or stands elsewhere than before, until stop.
func (r *Runner) Changed() (changed <-chan struct{}, stop func()) { return r.Store.Follow("") }

// refuseOwn refuses a process of a run to act on that run, on those above it, and on those
// that come from it: that it has started, or that were dispatched or forked from it.
func (r *Runner) refuseOwn(ctx context.Context, row flow.Row) error {
	for _, own := range tipstaff.CallerFrom(ctx).OwnRuns() {
		related := own == "" // it may be this one
		for _, way := range [][2]string{{own, row.ID}, {row.ID, own}} {
			if related {
				break
			}
			var err error
			if related, err = r.comesFrom(ctx, way[0], way[1]); err != nil {
				return err
			}
		}
		if related {
			return ownRun([]string{own}, "may not act on run "+row.ID)
		}
	}
	return nil
}

// comesFrom reports whether a run is another, or was made by it, by one of its processes, or
// of what it has recorded.
func (r *Runner) comesFrom(ctx context.Context, run, other string) (bool, error) {
	seen := map[string]bool{}
	for next := []string{run}; len(next) > 0; next = next[1:] {
		if next[0] == other {
			return true, nil
		}
		if seen[next[0]] {
			continue
		}
		seen[next[0]] = true
		draft, err := readDraft(ctx, r.Store, next[0])
		switch {
		case errors.Is(err, flow.ErrNoRun): // of another workspace
			continue
		case err != nil:
			return false, err
		}
		next = append(next, draft.Within...)
		if draft.Parent != nil {
			next = append(next, draft.Parent.Run)
		}
		if draft.ForkOf != nil {
			next = append(next, draft.ForkOf.Run)
		}
	}
	return false, nil
}

// ownRun is what a process of runs is told that acts on them, or wants to decide.
func ownRun(own []string, refused string) error {
	of := "run " + strings.Join(own, " and ")
	if slices.Contains(own, "") {
		of = "a run that is under way here, or may"
	}
	return tipstaff.Errorf(tipstaff.OwnRun, "this process belongs to %s, and %s", of, refused).
		WithCommand("run the command outside of the run")
}

// Owners are those who drive runs of this store now.
func (r *Runner) Owners(ctx context.Context) (all []flow.Owner, err error) {
	leased, err := r.Store.Runs(ctx, flow.Query{Leased: true})
	for _, row := range leased {
		if row.Owner != nil && !slices.Contains(all, *row.Owner) {
			all = append(all, *row.Owner)
		}
	}
	return all, err
}

// Within are the runs of this store of which a process is one: those that it says, and those
// whose owner has started it, unless it is certain which they are.
func (r *Runner) Within(ctx context.Context, said []string, certain bool, under func(flow.Owner) bool) (own []string) {
	if r.Store == nil {
		return nil
	}
	for _, run := range said {
		if _, err := r.Store.Run(ctx, run); !errors.Is(err, flow.ErrNoRun) {
			own = append(own, run)
		}
	}
	if certain {
		return own
	}
	leased, err := r.Store.Runs(ctx, flow.Query{Leased: true})
	if err != nil {
		return append(own, "")
	}
	for _, row := range leased {
		if row.Owner != nil && under(*row.Owner) && !slices.Contains(own, row.ID) {
			own = append(own, row.ID)
		}
	}
	return own
}

// visibleTo is the only user whose runs a caller sees; "": all.
func visibleTo(ctx context.Context) string {
	if tipstaff.CallerFrom(ctx).SeesAll() {
		return ""
	}
	return userOf(ctx)
}

// openToBranch is open for a fork or a rollback; without changes, for a label. Of these
// only a fork leaves the run as it is. A checkpoint is its run's. Whoever changes what was decided or leaves a question behind
// must be one who may answer it.
func (r *Runner) openToBranch(ctx context.Context, run tipstaff.ID, checkpoint string, fork bool, c *tipstaff.Changes) (flow.Row, error) {
	open := r.openToChange
	if fork {
		open = r.open
	}
	row, err := open(ctx, run, tipstaff.ScopeRun)
	if made, _, ok := parseCheckpoint(checkpoint); err == nil && ok {
		if err = r.permit(ctx, idOf(made), tipstaff.ScopeRun); tipstaff.CodeOf(err) == tipstaff.RunNotFound {
			err = tipstaff.Errorf(tipstaff.CheckpointNotFound, "there is no checkpoint %s", checkpoint)
		}
	}
	if err != nil || c == nil {
		return row, err
	}
	decide := func(applies bool, to string) need { return need{applies, tipstaff.ScopeDecide, to} }
	err = may(ctx, decide(len(c.Outputs)+len(c.Metadata) > 0, "edit outputs or metadata"), decide(len(c.Raise) > 0, "raise bounds"))
	past := decide(true, fmt.Sprintf("go back past an open gate of run %s", run))
	if err != nil || may(ctx, past) == nil {
		return row, err
	}
	if past.applies, err = r.hasOpenGate(ctx, run.String()); err != nil {
		return row, explain(err, run)
	}
	return row, may(ctx, past)
}

// hasOpenGate reports whether a run, or one that it has started, has an open gate.
func (r *Runner) hasOpenGate(ctx context.Context, run string) (bool, error) {
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
		open, err := r.hasOpenGate(ctx, child.String())
		if errors.Is(err, flow.ErrNoRun) {
			continue // it was announced and not made yet
		}
		if open || err != nil {
			return open, err
		}
	}
	return false, nil
}
