package page

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tipstaff/tipstaff"
)

// runsPage is a page of the list of runs.
type runsPage struct {
	Runs    []tipstaff.Run
	Total   string
	Next    tipstaff.ID
	Counts  tipstaff.RunCounts
	Filter  url.Values  // what is asked for
	Filters []filter    // by status
	Narrow  []filter    // what else is asked for, to be taken back
	Upto    tipstaff.ID // the newest run that is shown; zero: of an older page
	Newer   int         // runs that have come since: they push nothing down
}

// filter is a link that narrows the list.
type filter struct {
	Name, Value, Title string
	Count              string
	Chosen             bool
}

// runs is the list of runs, newest first.
func (v *view) runs() error {
	q := v.r.URL.Query()
	if run, err := v.runCalled(q.Get("q")); err == nil && q.Get("part") == "" { // who searches for an id wants that run
		return v.redirect("/ui/runs/" + run.ID.String())
	}
	req := tipstaff.ListRequest{Limit: 50, ByStatus: true, Kind: q.Get("kind"), Program: q.Get("program"), User: q.Get("user"), Text: q.Get("q")}
	req.Today = time.Date(v.now.Year(), v.now.Month(), v.now.Day(), 0, 0, 0, 0, v.now.Location())
	if s := q.Get("status"); s != "" {
		req.Status = strings.Split(s, ",")
	}
	if name, value, named := strings.Cut(q.Get("label"), "="); name != "" {
		req.Labels = map[string]string{name: ""}
		if named {
			req.Labels[name] = value
		}
	}
	if since := q.Get("since"); since != "" {
		at, err := time.Parse(time.DateOnly, since)
		if err != nil {
			return tipstaff.Errorf(tipstaff.InvalidArgument, "since is not a day like 2026-01-31")
		}
		req.Since = at
	}
	var err error
	if req.Before, err = v.id("before"); err != nil {
		return err
	}
	found, newer, err := v.runsUpto(req, q["upto"])
	if err != nil {
		return err
	}
	page := runsPage{Runs: found.Runs, Total: countOf(found.ByStatus, q.Get("status")), Next: found.Next, Filter: q, Newer: newer}
	if req.Before.IsZero() && len(found.Runs) > 0 {
		page.Upto = found.Runs[0].ID
	}
	if found.Counts != nil {
		page.Counts = *found.Counts
	}
	for _, f := range []filter{
		{Name: "status", Title: "All"},
		{Name: "status", Value: "running", Title: "Running"},
		{Name: "status", Value: "awaiting_decision,awaiting_phase_handoff,awaiting_delivery", Title: "Waiting for a decision"},
		{Name: "status", Value: "interrupted,awaiting_resume", Title: "Needs resuming"},
		{Name: "status", Value: "completed", Title: "Completed"},
		{Name: "status", Value: "failed", Title: "Failed"},
		{Name: "status", Value: "cancelled", Title: "Cancelled"},
	} {
		f.Chosen, f.Count = q.Get(f.Name) == f.Value, countOf(found.ByStatus, f.Value)
		page.Filters = append(page.Filters, f)
	}
	for _, name := range []string{"kind", "program", "label", "user", "since"} {
		if value := q.Get(name); value != "" {
			page.Narrow = append(page.Narrow, filter{Name: name, Value: value})
		}
	}
	return v.show("runs", "Runs", page)
}

// countOf is how many runs have one of these statuses, with commas between them; "": any.
func countOf(by *tipstaff.StatusCounts, statuses string) string {
	if by == nil {
		return ""
	}
	n, more := 0, false
	for status, of := range by.Of {
		if statuses == "" || slices.Contains(strings.Split(statuses, ","), status) {
			n += of
		}
	}
	for status := range strings.SplitSeq(statuses, ",") {
		more = more || by.Partial && !tipstaff.State(status).Terminal()
	}
	return counted(n, more)
}

// counted is a number of runs as far as they are counted; more: there are at least so many.
func counted(n int, more bool) string {
	if n > tipstaff.CountMost {
		n, more = tipstaff.CountMost, true
	}
	if more {
		return thousands(n) + "+"
	}
	return thousands(n)
}

// runsUpto lists runs up to one that a page knew as the newest, and counts those that have come
// since. given is what the address says: nothing at all, or the run; "" is a page that had none.
func (v *view) runsUpto(req tipstaff.ListRequest, given []string) (found tipstaff.RunPage, newer int, err error) {
	all, err := v.s.control.Runs.List(v.ctx(), req)
	if err != nil || given == nil {
		return all, 0, err
	}
	upto := given[0] // ids sort by the time at which they were made
	for found = all; newer < tipstaff.CountMost; {
		n := slices.IndexFunc(found.Runs, func(r tipstaff.Run) bool { return r.ID.String() <= upto })
		if n < 0 {
			n = len(found.Runs)
		}
		if n == 0 {
			break
		}
		newer += n
		req.Before, req.ByStatus, req.Today = found.Runs[n-1].ID, false, time.Time{}
		if found, err = v.s.control.Runs.List(v.ctx(), req); err != nil {
			return found, 0, err
		}
	}
	found.ByStatus, found.Counts = all.ByStatus, all.Counts
	return found, newer, nil
}

// With is the address of the list with one parameter set.
func (p runsPage) With(name, value string) string {
	q := url.Values{}
	for n, all := range p.Filter {
		q[n] = all
	}
	q.Del("before")
	q.Del("part")
	q.Del("upto")
	q.Set(name, value)
	if value == "" {
		q.Del(name)
	}
	if len(q) == 0 {
		return "/ui/runs"
	}
	return "/ui/runs?" + q.Encode()
}

// Search is the text that is looked for.
func (p runsPage) Search() string { return p.Filter.Get("q") }

// Driven is how long a run was driven.
func driven(r tipstaff.Run, now time.Time) time.Duration {
	if r.Life == nil {
		return 0
	}
	return time.Duration(r.Life.Until(now).DrivenMs) * time.Millisecond
}

// costOf is what a run has cost.
func costOf(r tipstaff.Run) tipstaff.USD { return tipstaff.USD(r.Bounds[tipstaff.BoundCostUSD].Used) }

// tokensOf is how many a run has used.
func tokensOf(r tipstaff.Run) int64 { return r.Bounds[tipstaff.BoundTokens].Used }

// nameOf is what people call a run.
func nameOf(r tipstaff.Run) string {
	switch {
	case r.Title != "":
		return r.Title
	case r.Program.Name != "":
		return r.Program.Name
	}
	return r.ID.String()
}
