package tipstaff

import (
	"context"
	"slices"
)

// PendingRequest selects gates that wait for a decision.
type PendingRequest struct {
	Limit int        // 1 to 200; 0 is 50
	Kinds []GateKind // any of these; nil: all
}

// PendingPage is what waits, oldest first. The counts are of all that was asked
// for, not of the page.
type PendingPage struct {
	Gates     []PendingGate    `json:"gates"`
	Total     int              `json:"total"`
	Truncated bool             `json:"truncated"`
	ByKind    map[GateKind]int `json:"by_kind"`
}

// PendingGate is an undecided gate and the run that asks.
type PendingGate struct {
	Run   ID     `json:"run_id"`
	Title string `json:"title"`
	Gate  Gate   `json:"gate"`
}

// unfinished are the statuses of runs that may have open gates. Also a run that
// is driven may: one branch waits while others go on.
var unfinished = []string{
	StatusRunning, StatusQueued, StatusAwaitingHandoff, StatusAwaitingDelivery,
	StatusAwaitingDecision, StatusAwaitingResume, StatusInterrupted,
}

// Pending is every gate, of the runs that the caller may see, that somebody
// should decide.
func Pending(ctx context.Context, runs Lister, req PendingRequest) (PendingPage, error) {
	limit, err := pageLimit(req.Limit, 50)
	if err != nil {
		return PendingPage{}, err
	}
	page := PendingPage{Gates: []PendingGate{}, ByKind: map[GateKind]int{}}
	list := ListRequest{Limit: 200, Status: unfinished}
	for {
		some, err := runs.List(ctx, list)
		if err != nil {
			return PendingPage{}, err
		}
		for _, r := range some.Runs {
			page.add(r, req.Kinds)
		}
		if some.Next.IsZero() {
			break
		}
		list.Before = some.Next
	}
	slices.SortStableFunc(page.Gates, olderFirst)
	page.Total = len(page.Gates)
	page.Truncated = page.Total > limit
	page.Gates = page.Gates[:min(limit, page.Total)]
	return page, nil
}

func (p *PendingPage) add(r Run, kinds []GateKind) {
	for _, g := range r.OpenGates {
		if kinds == nil || slices.Contains(kinds, g.Kind) {
			p.Gates = append(p.Gates, PendingGate{Run: r.ID, Title: r.Title, Gate: g})
			p.ByKind[g.Kind]++
		}
	}
}

// olderFirst orders by time, and gates of the same moment by id, so that equal
// stores give equal pages.
func olderFirst(a, b PendingGate) int {
	if c := a.Gate.OpenedAt.Compare(b.Gate.OpenedAt); c != 0 {
		return c
	}
	return slices.Compare(a.Gate.ID[:], b.Gate.ID[:])
}
