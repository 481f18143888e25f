package tipstaff

import (
	"context"
	"time"
)

// Lister is the part of [Service] that lists runs.
type Lister interface {
	List(context.Context, ListRequest) (RunPage, error)
}

// HistoryRequest selects a page of past and present runs.
type HistoryRequest struct {
	Limit  int      // 1 to 200; 0 is 10
	Before ID       // runs older than this one; zero: from the newest
	Status []string // any of these; nil: all
}

// HistoryPage is one page, newest first.
type HistoryPage struct {
	Runs       []HistoryRun `json:"runs"`
	Truncated  bool         `json:"truncated"`
	NextBefore ID           `json:"next_before,omitzero"` // zero: no more
}

// HistoryRun is one line of a history.
type HistoryRun struct {
	ID        ID        `json:"run_id"`
	Title     string    `json:"title"`
	Status    string    `json:"status"`
	CreatedAt time.Time `json:"created_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Tokens    string    `json:"tokens"`
	CostUSD   string    `json:"cost_usd"`
	Parent    ID        `json:"parent_run_id,omitzero"`
}

// History is a page of runs, with what each of them cost.
func History(ctx context.Context, runs Lister, req HistoryRequest) (HistoryPage, error) {
	limit, err := pageLimit(req.Limit, 10)
	if err != nil {
		return HistoryPage{}, err
	}
	page, err := runs.List(ctx, ListRequest{Limit: limit, Before: req.Before, Status: req.Status})
	if err != nil {
		return HistoryPage{}, err
	}
	h := HistoryPage{Runs: make([]HistoryRun, 0, len(page.Runs)), NextBefore: page.Next, Truncated: !page.Next.IsZero()}
	for _, r := range page.Runs {
		h.Runs = append(h.Runs, historyRun(r))
	}
	return h, nil
}

func historyRun(r Run) HistoryRun {
	h := HistoryRun{
		ID: r.ID, Title: r.Title, Status: r.Status, CreatedAt: r.CreatedAt, EndedAt: r.EndedAt,
		Tokens: used(r, BoundTokens), CostUSD: used(r, BoundCostUSD),
	}
	if r.Lineage != nil {
		h.Parent = r.Lineage.Parent
	}
	return h
}

// used is what a run has used of a bound, which may be nothing.
func used(r Run, bound string) string { return FormatBound(bound, r.Bounds[bound].Used) }

// pageLimit is the size of a page. One that is out of range is refused, never
// clamped: whoever asks for 1,000 would take 200 for all there is.
func pageLimit(asked, absent int) (int, error) {
	const most = 200
	if asked == 0 {
		return absent, nil
	}
	if asked < 1 || asked > most {
		return 0, Errorf(InvalidArgument, "a limit of %d", asked).WithHint("ask for 1 to %d", most)
	}
	return asked, nil
}
