package runner

import (
	"cmp"
	"context"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/delivery"
	"github.com/tipstaff/tipstaff/flow"
)

// Pages of lists.
const (
	usualPage = 50
	mostGates = 200
	mostRuns  = 1000
)

// pageOf is how much is asked for. What is out of range is an error: whoever asked would
// take less for all.
func pageOf(limit, most int) (int, error) {
	if limit < 0 || limit > most {
		return 0, tipstaff.Errorf(tipstaff.InvalidArgument, "limit is %d: it is from 1 to %d", limit, most)
	}
	return cmp.Or(limit, usualPage), nil
}

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
	fold, _, err := r.foldAt(ctx, row)
	if err != nil {
		return tipstaff.Gate{}, explain(err, run)
	}
	g, err := r.shownGate(ctx, found, fold, tipstaff.WholeSubject)
	if found.Decided == 0 {
		r.showNow(ctx, row.ID, &g, tipstaff.WholeSubject)
	}
	return g, explain(err, run)
}

// showNow shows of an open delivery what stands in its way now: its gate says how that was when it
// opened. Where nobody can look it stays as it was.
func (r *Runner) showNow(ctx context.Context, run string, g *tipstaff.Gate, show func(tipstaff.Gate) tipstaff.Shown) {
	subject, ok := tipstaff.DeliverySubjectOf(*g)
	if !ok {
		return
	}
	now := r.looks.at(ctx, r.Stop, g.ID.String(), r.Now, func(ctx context.Context) *tipstaff.DeliveryNow { return r.lookAgain(ctx, run, subject) })
	if now == nil {
		return
	}
	g.Now = now
	if g.Shown != nil {
		shown := show(*g)
		g.Shown = &shown
	}
}

// lookAgain looks what stands in the way of an open delivery now; nil: nobody can.
func (r *Runner) lookAgain(ctx context.Context, run string, subject tipstaff.DeliverySubject) *tipstaff.DeliveryNow {
	if r.Git == nil {
		return nil
	}
	draft, err := readDraft(ctx, r.Store, run)
	if err != nil || draft.Files == nil || draft.Files.Place == nil {
		return nil
	}
	repo, err := delivery.At(ctx, r.Git, *draft.Files.Place)
	if err != nil {
		return nil
	}
	if m, err := r.manifest(); err == nil {
		repo.Protection = applying(r.protection(m))
	}
	now, err := repo.Look(ctx, subject)
	if err != nil {
		return nil
	}
	if draft.Rules < rulesDelivered { // whose `apply` does not ask
		now.Asks = nil
	}
	return &now
}

// shownGate is a stored gate with what is known of a call in doubt, and what people see of it.
func (r *Runner) shownGate(ctx context.Context, row flow.GateRow, fold *tipstaff.Fold, show func(tipstaff.Gate) tipstaff.Shown) (g tipstaff.Gate, err error) {
	g = gateOf(row)
	if g.Kind == tipstaff.InDoubt {
		if seq := fold.Given[g.Path]; seq > 0 {
			if g.Given, err = givenAt(ctx, r.Store, row.Run, seq); err != nil {
				return g, err
			}
		}
		if g.Heard, err = r.lastHeard(ctx, row.Run, g.Path, g.OpenedSeq); err != nil {
			return g, err
		}
	}
	if c := fold.Changed; c != nil && g.AboutChanges() && row.Decided == 0 {
		changed := *c
		changed.First = r.changedFiles(ctx, c.List)
		g.Changed = &changed
	}
	shown := show(g)
	g.Shown = &shown
	return g, nil
}

// Inbox is a page of undecided gates, oldest first. It reads the gates of the page, and
// counts the open ones: runs without any cost nothing.
func (r *Runner) Inbox(ctx context.Context, req tipstaff.InboxRequest) (tipstaff.InboxPage, error) {
	page := tipstaff.InboxPage{Gates: []tipstaff.InboxGate{}, ByKind: map[tipstaff.GateKind]int{}}
	if err := may(ctx, basic(tipstaff.ScopeRead)); err != nil {
		return page, err
	}
	limit, err := pageOf(req.Limit, mostGates)
	if err != nil {
		return page, err
	}
	q := flow.GateQuery{Open: true, User: visibleTo(ctx), Valid: r.Now(), Due: req.Due}
	for _, kind := range req.Kinds {
		if !tipstaff.KnownGateKind(kind) {
			return page, tipstaff.Errorf(tipstaff.InvalidArgument, "there is no kind %s of gates", tipstaff.Quote(string(kind), 100))
		}
		q.Kinds = append(q.Kinds, string(kind))
	}
	if req.ByProgram {
		by := q
		by.ByName = true
		if page.ByProgram, err = r.Store.CountGates(ctx, by); err != nil {
			return page, explain(err, tipstaff.ID{})
		}
	}
	q.Name = req.Program
	counts, err := r.Store.CountGates(ctx, q)
	if err != nil {
		return page, explain(err, tipstaff.ID{})
	}
	for kind, n := range counts {
		page.ByKind[tipstaff.GateKind(kind)] = n
		page.Total += n
	}
	if q.Limit = limit + 1; !req.After.IsZero() {
		q.After = req.After.String()
	}
	rows, err := r.Store.Gates(ctx, q)
	if err != nil {
		return page, explain(err, tipstaff.ID{})
	}
	more := len(rows) > limit
	asking := map[string]tipstaff.Run{}
	for _, row := range rows[:min(limit, len(rows))] {
		run, known := asking[row.Run]
		if !known {
			if run, err = r.asking(ctx, row.Run); err != nil {
				return page, explain(err, idOf(row.Run))
			}
			asking[row.Run] = run
		}
		id, _ := tipstaff.ParseID(row.ID) // the store has read it before
		for _, g := range run.OpenGates {
			if g.ID == id {
				page.Gates = append(page.Gates, tipstaff.AskingGate(run, g))
			}
		}
		if page.Next = (tipstaff.ID{}); more {
			page.Next = id
		}
	}
	return page, nil
}

// asking is the status of a run that asks.
func (r *Runner) asking(ctx context.Context, run string) (tipstaff.Run, error) {
	row, err := r.Store.Run(ctx, run)
	if err != nil {
		return tipstaff.Run{}, err
	}
	return r.status(ctx, row)
}

// Threads is a page of the caller's threads, the one with the newest run first.
func (r *Runner) Threads(ctx context.Context, req tipstaff.ThreadsRequest) (tipstaff.ThreadPage, error) {
	page := tipstaff.ThreadPage{Threads: []tipstaff.Thread{}}
	if err := may(ctx, basic(tipstaff.ScopeRead)); err != nil {
		return page, err
	}
	limit, err := pageOf(req.Limit, mostGates)
	if err != nil {
		return page, err
	}
	q := flow.Query{User: userOf(ctx), Threads: true, Limit: limit + 1}
	if q.Before, err = r.before(ctx, req.Before); err != nil {
		return page, err
	}
	rows, err := r.Store.Runs(ctx, q)
	if err != nil {
		return page, explain(err, tipstaff.ID{})
	}
	for _, row := range rows[:min(limit, len(rows))] {
		t := tipstaff.Thread{ID: row.Thread}
		if t.Head, err = r.status(ctx, row); err == nil {
			t.Runs, err = r.Store.CountRuns(ctx, flow.Query{User: row.User, Thread: row.Thread})
		}
		if err != nil {
			return page, explain(err, idOf(row.ID))
		}
		if page.Threads = append(page.Threads, t); len(rows) > limit {
			page.Next = t.Head.ID
		}
	}
	return page, nil
}
