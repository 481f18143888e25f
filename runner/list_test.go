package runner_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
)

func titled(title string, labels map[string]string) func(*tipstaff.StartRequest) {
	return func(r *tipstaff.StartRequest) { r.Title, r.Labels = title, labels }
}

// listed are the ids of a list, and how many it says there are.
func (b *bed) listed(ctx context.Context, req tipstaff.ListRequest) ([]tipstaff.ID, int) {
	b.t.Helper()
	req.Count = true
	page, err := b.List(ctx, req)
	b.check(err)
	var ids []tipstaff.ID
	for _, r := range page.Runs {
		ids = append(ids, r.ID)
	}
	return ids, page.Total
}

func TestListsAreFiltered(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	plan, _ := b.run(`root: {id: s, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 1ms}}`, titled("Ärger im Büro", map[string]string{"team": "red"}))
	looped, _ := b.pipe(loop, titled("", map[string]string{"team": "blue", "urgent": "yes"}))
	b.ahead.Store(int64(48 * time.Hour))
	later := time.Now().Add(24 * time.Hour)
	asks, _ := b.pipe(review, titled("100% of _it_", map[string]string{"team": "red"}))
	cp := b.checkpoints(asks)[0].ID
	fork := b.fork(forking{Run: asks, Checkpoint: cp}).ID
	bob := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "http", User: "bob", Principal: "token:bob", Scopes: []string{tipstaff.ScopeRead}})

	for name, c := range map[string]struct {
		req  tipstaff.ListRequest
		want []tipstaff.ID // newest first
	}{
		"all":                 {tipstaff.ListRequest{}, []tipstaff.ID{fork, asks, looped, plan}},
		"of a kind":           {tipstaff.ListRequest{Kind: "plan"}, []tipstaff.ID{plan}},
		"of no kind":          {tipstaff.ListRequest{Kind: "poem"}, nil},
		"of a program":        {tipstaff.ListRequest{Program: "loop"}, []tipstaff.ID{looped}},
		"with a label":        {tipstaff.ListRequest{Labels: map[string]string{"team": "red"}}, []tipstaff.ID{fork, asks, plan}},
		"labelled at all":     {tipstaff.ListRequest{Labels: map[string]string{"urgent": ""}}, []tipstaff.ID{looped}},
		"two labels":          {tipstaff.ListRequest{Labels: map[string]string{"urgent": "", "team": "red"}}, nil},
		"of a user":           {tipstaff.ListRequest{User: "local"}, []tipstaff.ID{fork, asks, looped, plan}},
		"of another":          {tipstaff.ListRequest{User: "bob"}, nil},
		"children":            {tipstaff.ListRequest{Parent: asks}, []tipstaff.ID{fork}},
		"of the last day":     {tipstaff.ListRequest{Since: later}, []tipstaff.ID{fork, asks}},
		"of the future":       {tipstaff.ListRequest{Since: later.Add(100 * time.Hour)}, nil},
		"by title":            {tipstaff.ListRequest{Text: "ÄRGER"}, []tipstaff.ID{plan}},
		"by name":             {tipstaff.ListRequest{Text: "Loo"}, []tipstaff.ID{looped}},
		"by label":            {tipstaff.ListRequest{Text: "team=blue"}, []tipstaff.ID{looped}},
		"by id":               {tipstaff.ListRequest{Text: looped.String()[4:]}, []tipstaff.ID{looped}},
		"percent is a letter": {tipstaff.ListRequest{Text: "0% of _i"}, []tipstaff.ID{fork, asks}},
		"and no wildcard":     {tipstaff.ListRequest{Text: "1%f"}, nil},
		"ended":               {tipstaff.ListRequest{Status: []string{"completed"}}, []tipstaff.ID{looped, plan}},
		"several at once":     {tipstaff.ListRequest{Status: []string{"completed"}, Kind: "pipeline", Labels: map[string]string{"team": "blue"}, Text: "loop"}, []tipstaff.ID{looped}},
		"before":              {tipstaff.ListRequest{Before: asks, Labels: map[string]string{"team": "red"}}, []tipstaff.ID{plan}},
	} {
		ids, total := b.listed(cli(), c.req)
		if !slices.Equal(ids, c.want) {
			t.Errorf("%s: %v, want %v", name, ids, c.want)
		}
		if c.req.Before.IsZero() && total != len(c.want) {
			t.Errorf("%s: %d are counted of %d", name, total, len(c.want))
		}
		c.req.Before = tipstaff.ID{} // which is another's
		if ids, total := b.listed(bob, c.req); len(ids) != 0 || total != 0 {
			t.Errorf("%s: bob is shown %v and told of %d", name, ids, total)
		}
	}
	if _, n := b.listed(cli(), tipstaff.ListRequest{CountTo: 2}); n != 3 {
		t.Errorf("counted to 2 there are %d: more", n)
	}
	if _, n := b.listed(cli(), tipstaff.ListRequest{CountTo: 1, Status: []string{"completed", tipstaff.StatusAwaitingDecision}}); n != 2 {
		t.Errorf("counted to 1, in two ways, there are %d: more", n)
	}
}

// Counts by status follow every filter but that of the status, and count nobody else's.
func TestListsCountByStatus(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.run(`root: {id: s, kind: tool_call, tool: "mcp://builtin/sleep@1.0.0", args: {duration: 1ms}}`, titled("first", nil))
	b.pipe(loop, titled("second", map[string]string{"team": "red"}))
	b.pipe(review, titled("third", map[string]string{"team": "red"}))
	b.pipe(review, titled("fourth", nil))
	bob := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "http", User: "bob", Principal: "token:bob", Scopes: []string{tipstaff.ScopeRead}})
	none := map[string]int{"completed": 0, "failed": 0, "cancelled": 0}
	for name, c := range map[string]struct {
		ctx  context.Context
		req  tipstaff.ListRequest
		want map[string]int
	}{
		"all":           {cli(), tipstaff.ListRequest{}, map[string]int{"completed": 2, "awaiting_decision": 2}},
		"of one status": {cli(), tipstaff.ListRequest{Status: []string{"failed"}}, map[string]int{"completed": 2, "awaiting_decision": 2}},
		"with a label":  {cli(), tipstaff.ListRequest{Labels: map[string]string{"team": "red"}, Today: time.Now()}, map[string]int{"completed": 1, "awaiting_decision": 1}},
		"by text":       {cli(), tipstaff.ListRequest{Text: "FOURTH"}, map[string]int{"awaiting_decision": 1}},
		"of a kind":     {cli(), tipstaff.ListRequest{Kind: "plan"}, map[string]int{"completed": 1}},
		"another's":     {bob, tipstaff.ListRequest{}, nil},
		"of another":    {cli(), tipstaff.ListRequest{User: "bob"}, nil},
	} {
		c.req.ByStatus = true
		page, err := b.List(c.ctx, c.req)
		b.check(err)
		want := maps.Clone(none)
		maps.Copy(want, c.want)
		if page.ByStatus == nil || page.ByStatus.Partial || !maps.Equal(page.ByStatus.Of, want) {
			t.Errorf("%s: %+v, want %v", name, page.ByStatus, want)
		}
	}
}

// The inbox tells of which programs the gates are, and what their runs have cost.
func TestInboxByProgram(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	asks, _ := b.pipe(review)
	b.pipe(strings.Replace(review, "name: review", "name: other", 1))
	for program, want := range map[string]int{"": 2, "review": 1, "other": 1, "none": 0} {
		page, err := b.Inbox(cli(), tipstaff.InboxRequest{Program: program, ByProgram: true})
		b.check(err)
		if len(page.Gates) != want || page.Total != want || !maps.Equal(page.ByProgram, map[string]int{"review": 1, "other": 1}) {
			t.Errorf("%q: %d gates of %d, %v", program, len(page.Gates), page.Total, page.ByProgram)
		}
		if program == "review" && (page.Gates[0].Run != asks || page.Gates[0].Cost != tipstaff.USD(b.get(asks).Bounds[tipstaff.BoundCostUSD].Used)) {
			t.Errorf("%+v", page.Gates[0])
		}
	}
	page, err := b.Inbox(cli(), tipstaff.InboxRequest{Due: time.Now().Add(time.Hour)})
	b.check(err)
	if page.Total != 0 {
		t.Errorf("%d gates expire within the hour", page.Total)
	}
}

// A draft that is given another program is found by the name of that.
func TestListsFollowTheNameOfADraft(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	draft := b.held()
	started, err := b.ExecuteEnvelope(cli(), tipstaff.ExecuteRequest{Run: draft, Program: []byte(loop), Name: "loop.yaml"})
	b.check(err)
	b.wait(started.Run)
	for _, req := range []tipstaff.ListRequest{{Program: "loop"}, {Text: "loop"}} {
		if ids, _ := b.listed(cli(), req); !slices.Equal(ids, []tipstaff.ID{draft}) {
			t.Errorf("%+v: %v", req, ids)
		}
	}
}

func TestListsCountWhatRunsDo(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	costly := `
name: costly
agents: [{name: a, scripted: {answers: [{output: {}, usage: {cost_usd: "0.25"}}]}}]
`
	b.pipe(costly)
	b.ahead.Store(int64(48 * time.Hour))
	today := time.Now().Add(24 * time.Hour)
	b.pipe(costly)
	b.pipe(costly)
	b.pipe(review) // waits
	counts := func(ctx context.Context) tipstaff.RunCounts {
		t.Helper()
		page, err := b.List(ctx, tipstaff.ListRequest{Limit: 1, Today: today})
		b.check(err)
		return *page.Counts
	}
	if got, want := counts(cli()), (tipstaff.RunCounts{Waiting: 1, Ended: 2, Cost: 500_000_000}); got != want {
		t.Errorf("the runs: %+v, want %+v", got, want)
	}
	bob := tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "http", User: "bob", Principal: "token:bob", Scopes: []string{tipstaff.ScopeRead}})
	if got := counts(bob); got != (tipstaff.RunCounts{}) {
		t.Errorf("bob's: %+v", got)
	}
	if page, err := b.List(cli(), tipstaff.ListRequest{}); err != nil || page.Counts != nil {
		t.Errorf("counts that nobody asked for: %+v %v", page.Counts, err)
	}
}

func TestFamilyOfForks(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	old, _ := b.pipe(review)
	cp := b.checkpoints(old)[0]
	fork := b.fork(forking{Run: old, Checkpoint: cp.ID}).ID
	back := b.fork(forking{Run: old, Checkpoint: cp.ID, Rollback: true}).ID
	b.resume(fork)
	again := b.fork(forking{Run: fork, At: b.of(fork, tipstaff.KindTurnMerged)[0].Seq}).ID
	f, err := tipstaff.FamilyOf(cli(), b, fork)
	b.check(err)
	if len(f.Ancestors) != 1 || f.Ancestors[0].Run != old || len(f.Children) != 1 || f.Children[0].Run != again || len(f.Siblings) != 1 || f.Siblings[0].Run != back || f.Cut {
		t.Fatalf("%+v", f)
	}
	if f.Run.Relation != "fork" || f.Run.Seq == 0 || f.Siblings[0].Relation != "rollback" || f.Ancestors[0].Status != "cancelled" {
		t.Errorf("%+v", f)
	}
}
