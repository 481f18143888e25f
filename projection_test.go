package tipstaff

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// pages is a Lister that gives its runs page by page, newest first.
type pages struct {
	runs []Run
	asks []ListRequest
	err  error
}

func (p *pages) List(_ context.Context, req ListRequest) (RunPage, error) {
	p.asks = append(p.asks, req)
	if p.err != nil {
		return RunPage{}, p.err
	}
	from := 0
	if !req.Before.IsZero() {
		from = 1 + slices.IndexFunc(p.runs, func(r Run) bool { return r.ID == req.Before })
	}
	const size = 2 // smaller than what is asked for, so that there is more than one page
	to := min(from+min(req.Limit, size), len(p.runs))
	page := RunPage{Runs: p.runs[from:to]}
	if to < len(p.runs) {
		page.Next = p.runs[to-1].ID
	}
	return page, nil
}

func TestHistory(t *testing.T) {
	p := &pages{runs: []Run{
		{ID: testID(3), Title: "c", Status: "running", CreatedAt: dawn, Bounds: BoundsStatus{"tokens": {Used: 12}, "cost_usd": {Used: 1e7}}},
		{ID: testID(2), Title: "b", Status: "failed", EndedAt: dawn, Lineage: &Lineage{Parent: testID(1)}},
		{ID: testID(1), Title: "a", Status: "completed"},
	}}
	got, err := History(context.Background(), p, HistoryRequest{Status: []string{"failed"}, Before: ID{}})
	if err != nil {
		t.Fatal(err)
	}
	want := []HistoryRun{
		{ID: testID(3), Title: "c", Status: "running", CreatedAt: dawn, Tokens: "12", CostUSD: "0.01"},
		{ID: testID(2), Title: "b", Status: "failed", EndedAt: dawn, Tokens: "0", CostUSD: "0.00", Parent: testID(1)},
	}
	if !slices.Equal(got.Runs, want) || !got.Truncated || got.NextBefore != testID(2) {
		t.Errorf("%+v", got)
	}
	if ask := p.asks[0]; ask.Limit != 10 || !slices.Equal(ask.Status, []string{"failed"}) {
		t.Errorf("asked for %+v", ask)
	}
	rest, err := History(context.Background(), p, HistoryRequest{Limit: 200, Before: got.NextBefore})
	if err != nil || len(rest.Runs) != 1 || rest.Runs[0].ID != testID(1) || rest.Truncated {
		t.Errorf("%+v, %v", rest, err)
	}
}

func TestPendingListsEveryGateOldestFirst(t *testing.T) {
	gate := func(n byte, kind GateKind, minute int) Gate {
		return Gate{ID: testID(n), Kind: kind, OpenedAt: dawn.Add(time.Duration(minute) * time.Minute)}
	}
	p := &pages{runs: []Run{
		{ID: testID(5), Title: "e", OpenGates: []Gate{gate(51, Question, 9), gate(52, Bound, 1)}},
		{ID: testID(4), Title: "d"},
		{ID: testID(3), Title: "c", OpenGates: []Gate{gate(32, InDoubt, 5), gate(31, Question, 5)}},
	}}
	ids := func(page PendingPage) (ids []byte) {
		for _, g := range page.Gates {
			ids = append(ids, g.Gate.ID[15])
		}
		return ids
	}
	all, err := Pending(context.Background(), p, PendingRequest{})
	if err != nil || !slices.Equal(ids(all), []byte{52, 31, 32, 51}) || all.Total != 4 || all.Truncated {
		t.Errorf("%+v, %v", all, err)
	}
	if all.Gates[0].Run != testID(5) || all.Gates[0].Title != "e" {
		t.Errorf("the first gate is of %+v", all.Gates[0])
	}
	if all.ByKind[Question] != 2 || all.ByKind[InDoubt] != 1 || all.ByKind[Bound] != 1 {
		t.Errorf("by kind %v", all.ByKind)
	}
	some, err := Pending(context.Background(), p, PendingRequest{Limit: 1, Kinds: []GateKind{Question}})
	if err != nil || !slices.Equal(ids(some), []byte{31}) || some.Total != 2 || !some.Truncated {
		t.Errorf("%+v, %v", some, err)
	}
	none, err := Pending(context.Background(), &pages{}, PendingRequest{})
	if err != nil || none.Gates == nil || none.Total != 0 {
		t.Errorf("%+v, %v", none, err)
	}
}

func TestPagesAreRefusedNeverClamped(t *testing.T) {
	for _, limit := range []int{-1, 201} {
		if _, err := History(context.Background(), &pages{}, HistoryRequest{Limit: limit}); CodeOf(err) != InvalidArgument {
			t.Errorf("history of %d: %v", limit, err)
		}
		if _, err := Pending(context.Background(), &pages{}, PendingRequest{Limit: limit}); CodeOf(err) != InvalidArgument {
			t.Errorf("pending of %d: %v", limit, err)
		}
	}
}

func TestProjectionsHandErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	if _, err := History(context.Background(), &pages{err: broken}, HistoryRequest{}); !errors.Is(err, broken) {
		t.Errorf("history: %v", err)
	}
	if _, err := Pending(context.Background(), &pages{err: broken}, PendingRequest{}); !errors.Is(err, broken) {
		t.Errorf("pending: %v", err)
	}
}
