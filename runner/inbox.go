package runner

import (
	"context"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Gate is one gate of a run, open or closed, with all that it asks about.
func (r *Runner) Gate(ctx context.Context, run tipstaff.ID, gate string) (tipstaff.Gate, error) {
	row, err := r.open(ctx, run, tipstaff.ScopeRead)
	if err != nil {
		return tipstaff.Gate{}, err
	}
	found, ok, err := findGate(func(open bool) ([]flow.GateRow, error) {
		return r.Store.Gates(ctx, flow.GateQuery{Run: row.ID, Open: open})
	}, gate)
	if err == nil && !ok {
		err = tipstaff.Errorf(tipstaff.GateNotFound, "run %s has no gate %s", run, tipstaff.Quote(gate, 100))
	}
	if err != nil {
		return tipstaff.Gate{}, explain(err, run)
	}
	g := gateOf(found)
	shown := tipstaff.WholeSubject(g)
	g.Shown = &shown
	return g, nil
}

// Inbox is a page of undecided gates, oldest first.
func (r *Runner) Inbox(ctx context.Context, req tipstaff.InboxRequest) (tipstaff.InboxPage, error) {
	page := tipstaff.InboxPage{Gates: []tipstaff.InboxGate{}, ByKind: map[tipstaff.GateKind]int{}}
	if err := may(ctx, basic(tipstaff.ScopeRead)); err != nil {
		return page, err
	}
	rows, err := r.Store.Gates(ctx, flow.GateQuery{Open: true})
	if err != nil {
		return page, explain(err, tipstaff.ID{})
	}
	for _, row := range rows {
		g := gateOf(row)
		run, err := r.Get(ctx, idOf(row.Run))
		if err != nil || g.Expired(r.Now()) || len(req.Kinds) > 0 && !slices.Contains(req.Kinds, g.Kind) {
			continue
		}
		page.Total++
		page.ByKind[g.Kind]++
		page.Gates = append(page.Gates, tipstaff.InboxGate{Run: run.ID, Title: run.Title, User: run.User, Status: run.Status, Gate: g})
	}
	return page, nil
}

// Threads is a page of the caller's threads.
func (r *Runner) Threads(ctx context.Context, req tipstaff.ThreadsRequest) (tipstaff.ThreadPage, error) {
	return tipstaff.ThreadPage{Threads: []tipstaff.Thread{}}, may(ctx, basic(tipstaff.ScopeRead))
}
