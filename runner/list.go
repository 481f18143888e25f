package runner

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// List is a page of runs, newest first.
func (r *Runner) List(ctx context.Context, req tipstaff.ListRequest) (tipstaff.RunPage, error) {
	page := tipstaff.RunPage{Runs: []tipstaff.Run{}}
	if err := may(ctx, basic(tipstaff.ScopeRead)); err != nil {
		return page, err
	}
	limit, err := pageOf(req.Limit, mostRuns)
	if err != nil {
		return page, err
	}
	for _, status := range req.Status {
		if known := tipstaff.Statuses(); !slices.Contains(known, status) {
			return page, tipstaff.Errorf(tipstaff.InvalidArgument, "there is no status %s: choose from %s", tipstaff.Quote(status, 100), strings.Join(known, ", "))
		}
	}
	q := flow.Query{Prefix: req.Prefix, User: visibleTo(ctx), Envelope: req.Envelope, Thread: req.Thread, Request: req.Request,
		Session: req.Session, Heads: req.Heads, Kind: req.Kind, Name: req.Program, Since: req.Since, Labels: req.Labels, Text: req.Text}
	if !req.Parent.IsZero() {
		q.Parent = req.Parent.String()
	}
	if req.Own || req.Thread != "" || req.Request != "" { // whose keys are a user's own
		q.User = userOf(ctx)
	}
	if req.Project != "" {
		project, err := r.projectOf(req.Project)
		if err != nil {
			return page, err
		}
		q.Project = cmp.Or(project, ".")
	}
	all := flow.Query{User: visibleTo(ctx)}
	var open *openRuns // of all that the caller may see
	if !req.Today.IsZero() {
		if open, err = r.openRuns(ctx, all); err == nil {
			page.Counts, err = r.countToday(ctx, open, req.Today)
		}
		if err != nil {
			return page, explain(err, tipstaff.ID{})
		}
	}
	if req.User != "" {
		if q.User != "" && q.User != req.User { // whose runs the caller does not see
			return page, nil
		}
		q.User = req.User
	}
	if req.ByStatus {
		if open == nil || !reflect.DeepEqual(q, all) {
			open, err = r.openRuns(ctx, q)
		}
		if err == nil {
			page.ByStatus, err = r.countStatuses(ctx, q, open)
		}
		if err != nil {
			return page, explain(err, tipstaff.ID{})
		}
	}
	narrow(&q, req.Status)
	if req.Count {
		if req.CountTo > 0 {
			q.Limit = req.CountTo + 1
		}
		if page.Total, err = r.count(ctx, q, req.Status); err != nil {
			return page, explain(err, tipstaff.ID{})
		}
	}
	if q.Before, err = r.before(ctx, req.Before); err != nil {
		return page, err
	}
	q.Limit = limit + 1
	err = r.eachRow(ctx, q, func(row flow.Row) (bool, error) {
		if fits, err := r.fits(ctx, row, req.Status); !fits || err != nil {
			return true, err
		}
		if len(page.Runs) == limit {
			page.Next = page.Runs[limit-1].ID
			return false, nil
		}
		run, err := r.status(ctx, row)
		page.Runs = append(page.Runs, run)
		return true, err
	})
	if err == nil && page.Next.IsZero() {
		err = r.countStrays(ctx, &page)
	}
	return page, err
}

// narrow leaves out runs that cannot have one of these statuses. A run that has ended has
// the name of its state.
func narrow(q *flow.Query, statuses []string) {
	ended := 0
	for _, s := range statuses {
		if tipstaff.State(s).Terminal() {
			ended++
		}
	}
	switch {
	case len(statuses) == 0:
	case ended == 0:
		q.Open = true
	case ended == len(statuses):
		q.States = statuses
	}
}

// before is the place of a run in the order of lists; 0: the first page.
func (r *Runner) before(ctx context.Context, run tipstaff.ID) (int64, error) {
	if run.IsZero() {
		return 0, nil
	}
	row, err := r.open(ctx, run, tipstaff.ScopeRead)
	return row.N, err
}

// eachRow gives the rows of a query, until f has enough.
func (r *Runner) eachRow(ctx context.Context, q flow.Query, f func(flow.Row) (more bool, err error)) error {
	for {
		rows, err := r.Store.Runs(ctx, q)
		if err != nil {
			return explain(err, tipstaff.ID{})
		}
		for _, row := range rows {
			q.Before = row.N
			if more, err := f(row); err != nil || !more {
				return explain(err, idOf(row.ID))
			}
		}
		if len(rows) < q.Limit {
			return nil
		}
	}
}

// fits reports whether a run has one of these statuses; none are all.
func (r *Runner) fits(ctx context.Context, row flow.Row, statuses []string) (bool, error) {
	if len(statuses) == 0 {
		return true, nil
	}
	run, err := r.standing(ctx, row)
	return slices.Contains(statuses, run.Status), err
}

// count is how many runs have one of these statuses. Those that have ended need not be read
// for it.
func (r *Runner) count(ctx context.Context, q flow.Query, statuses []string) (int, error) {
	if len(statuses) == 0 || q.States != nil {
		return r.Store.CountRuns(ctx, q)
	}
	ended := slices.DeleteFunc(slices.Clone(statuses), func(s string) bool { return !tipstaff.State(s).Terminal() })
	n := 0
	if len(ended) > 0 {
		over := q
		over.States = ended
		var err error
		if n, err = r.Store.CountRuns(ctx, over); err != nil {
			return 0, err
		}
	}
	most := q.Limit
	q.Open, q.Limit = true, mostRuns
	if most > 0 && n >= most {
		return most, nil
	}
	err := r.eachRow(ctx, q, func(row flow.Row) (bool, error) {
		fits, err := r.fits(ctx, row, statuses)
		if fits {
			n++
		}
		return n != most, err
	})
	return n, err
}

// openRuns are those of a query that have not ended, the newest of them.
type openRuns struct {
	runs []tipstaff.Run
	more bool
}

func (r *Runner) openRuns(ctx context.Context, q flow.Query) (*openRuns, error) {
	open := new(openRuns)
	q.Open, q.Limit = true, tipstaff.CountMost+1
	err := r.eachRow(ctx, q, func(row flow.Row) (bool, error) {
		if open.more = len(open.runs) == tipstaff.CountMost; open.more {
			return false, nil
		}
		run, err := r.standing(ctx, row)
		open.runs = append(open.runs, run)
		return true, err
	})
	return open, err
}

// ends are the states of runs that have ended.
var ends = []string{string(tipstaff.Completed), string(tipstaff.Failed), string(tipstaff.Cancelled)}

// countStatuses is how many runs of a query have each status.
func (r *Runner) countStatuses(ctx context.Context, q flow.Query, open *openRuns) (*tipstaff.StatusCounts, error) {
	q.States, q.Limit = ends, tipstaff.CountMost+1
	of, err := r.Store.CountStates(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, run := range open.runs {
		of[run.Status]++
	}
	return &tipstaff.StatusCounts{Of: of, Partial: open.more}, nil
}

// countToday is what the runs that the caller may see are doing, and what they have done
// since a time. What a run that goes on has cost is known from its records alone.
func (r *Runner) countToday(ctx context.Context, open *openRuns, since time.Time) (*tipstaff.RunCounts, error) {
	counts := &tipstaff.RunCounts{Partial: open.more}
	for _, run := range open.runs {
		switch run.Condition {
		case tipstaff.Running:
			counts.Running++
		case tipstaff.Waiting:
			counts.Waiting++
		case tipstaff.Interrupted:
			counts.Interrupted++
		}
		if !run.CreatedAt.Before(since) {
			counts.Cost += tipstaff.USD(run.Bounds[tipstaff.BoundCostUSD].Used)
		}
	}
	user := visibleTo(ctx)
	var err error
	if counts.Ended, err = r.Store.CountRuns(ctx, flow.Query{User: user, EndedSince: since, Limit: tipstaff.CountMost + 1}); err != nil {
		return nil, err
	}
	cost, err := r.Store.CostOfRuns(ctx, flow.Query{User: user, States: ends, Since: since})
	counts.Cost += tipstaff.USD(cost)
	return counts, err
}

// countStrays looks for the files of runs if the store holds none.
func (r *Runner) countStrays(ctx context.Context, page *tipstaff.RunPage) error {
	if len(page.Runs) > 0 || r.Files == "" {
		return nil
	}
	if rows, err := r.Store.Runs(ctx, flow.Query{Limit: 1}); err != nil || len(rows) > 0 {
		return explain(err, tipstaff.ID{})
	}
	entries, err := os.ReadDir(r.Files)
	for _, e := range entries {
		if _, err := tipstaff.ParseID(e.Name()); err == nil && e.IsDir() {
			page.Strays++
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return explain(err, tipstaff.ID{})
	}
	return nil
}

// ownSession refuses a conversation that there is, and that is none of the caller's.
func (r *Runner) ownSession(ctx context.Context, session string) error {
	rows, err := r.Store.Runs(ctx, flow.Query{Session: session, Limit: 1})
	if err == nil && len(rows) == 1 && visibleTo(ctx) != "" && rows[0].User != visibleTo(ctx) {
		return tipstaff.Errorf(tipstaff.Forbidden, "the session %s belongs to another user", session)
	}
	return err
}
