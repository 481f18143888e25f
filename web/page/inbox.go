package page

import (
	"slices"
	"time"

	"github.com/tipstaff/tipstaff"
)

// inboxPage is what waits for a person.
type inboxPage struct {
	Gates  []tipstaff.InboxGate
	Total  int
	Next   tipstaff.ID
	Kinds  []kindCount
	Kind   string         // the one that is shown; "": all
	Resume []tipstaff.Run // that only need to be resumed
	Newest []tipstaff.Run // when nothing waits
}

type kindCount struct {
	Kind  tipstaff.GateKind
	Count int
}

// inbox is the first page: every open gate, those that expire within the hour first.
func (v *view) inbox() error {
	page := inboxPage{Kind: v.r.FormValue("kind")}
	req := tipstaff.InboxRequest{Limit: 100}
	if page.Kind != "" {
		req.Kinds = []tipstaff.GateKind{tipstaff.GateKind(page.Kind)}
	}
	if after := v.r.FormValue("after"); after != "" {
		id, err := tipstaff.ParseID(after)
		if err != nil {
			return tipstaff.Errorf(tipstaff.InvalidArgument, "after is not the id of a gate")
		}
		req.After = id
	}
	found, err := v.s.control.Runs.Inbox(v.ctx(), req)
	if err != nil {
		return err
	}
	page.Gates, page.Total, page.Next = found.Gates, found.Total, found.Next
	soon := v.now.Add(time.Hour)
	slices.SortStableFunc(page.Gates, func(a, b tipstaff.InboxGate) int { return expiring(a, soon) - expiring(b, soon) })
	for kind, n := range found.ByKind {
		page.Kinds = append(page.Kinds, kindCount{kind, n})
	}
	slices.SortFunc(page.Kinds, func(a, b kindCount) int { return b.Count - a.Count })
	resumable, err := v.s.control.Runs.List(v.ctx(), tipstaff.ListRequest{Limit: 20, Status: []string{tipstaff.StatusInterrupted, tipstaff.StatusAwaitingResume}})
	if err != nil {
		return err
	}
	page.Resume = resumable.Runs
	if len(page.Gates) == 0 && page.Kind == "" {
		newest, err := v.s.control.Runs.List(v.ctx(), tipstaff.ListRequest{Limit: 3})
		if err != nil {
			return err
		}
		page.Newest = newest.Runs
	}
	return v.show("inbox", "Inbox", page)
}

func expiring(g tipstaff.InboxGate, soon time.Time) int {
	if at := g.Gate.ExpiresAt; !at.IsZero() && at.Before(soon) {
		return 0
	}
	return 1
}
