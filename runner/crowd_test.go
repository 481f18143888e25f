package runner_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/sqlite/sqlitetest"
)

// crowded is a store with many runs: copies of two that a real run has left.
func crowded(t *testing.T, ended, asking int) *bed {
	t.Helper()
	b := &bed{t: t, dir: t.TempDir(), dead: map[string]bool{}, forged: map[string]bool{}, checked: map[string]int64{}}
	b.write("tipstaff.yaml", manifest)
	b.open()
	t.Cleanup(func() { b.check(b.store.Close()) })
	done, _ := b.run(`root: {kind: sequential, children: [{id: one, kind: tool_call, tool: "mcp://builtin/exec@1.0.0", args: {argv: [sh, -c, "true"]}}]}`)
	asks, _ := b.run(gated)
	gate := b.get(asks).OpenGates[0].ID
	b.check(sqlitetest.Crowd(b.dir, done.String(), ended, asks.String(), gate.String(), asking))
	return b
}

// What a person sees first of ten thousand runs, of which five hundred ask, is true and there
// within 300 ms.
func TestListsOfManyRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("of large things there are tests without the race detector")
	}
	b := crowded(t, 9_500, 500)
	within := func(what string, f func() error) {
		t.Helper()
		least := time.Hour
		for range 5 {
			from := time.Now()
			b.check(f())
			least = min(least, time.Since(from))
		}
		t.Logf("%s: %v (limit 300 ms)", what, least)
		if least > 300*time.Millisecond {
			t.Errorf("%s takes %v", what, least)
		}
	}
	for what, c := range map[string]struct {
		req  tipstaff.ListRequest
		done int
	}{
		"the newest":      {tipstaff.ListRequest{}, tipstaff.CountMost + 1},
		"those that wait": {tipstaff.ListRequest{Status: []string{tipstaff.StatusAwaitingDecision}}, tipstaff.CountMost + 1},
		"of a text":       {tipstaff.ListRequest{Text: "000042"}, 1 + 10 + 100}, // 42, 42?, 42??
	} {
		c.req.ByStatus, c.req.Today = true, time.Now().Add(-time.Hour)
		within("runs, "+what+", with all counts", func() error {
			page, err := b.List(cli(), c.req)
			if err == nil && page.ByStatus.Of["completed"] != c.done {
				t.Errorf("%s: %v", what, page.ByStatus)
			}
			if err == nil && c.req.Text == "" && (page.ByStatus.Partial || page.ByStatus.Of[tipstaff.StatusAwaitingDecision]+page.ByStatus.Of[tipstaff.StatusAwaitingResume] != 501) {
				t.Errorf("%s: %v", what, page.ByStatus) // one in a hundred gates has expired; the run that all are copied from asks no more
			}
			return err
		})
	}
	within("a hundred gates, with all counts", func() error {
		_, err := b.Inbox(cli(), tipstaff.InboxRequest{Limit: 100, ByProgram: true})
		return err
	})
}

// Ten thousand questions among a hundred thousand runs are read by pages: without a gap, a
// double, or what is another's; and what has ended costs nothing.
func TestTooLargeInboxes(t *testing.T) {
	if testing.Short() {
		t.Skip("of large things there are tests without the race detector")
	}
	const ended, asking = 90_000, 10_000
	b, few := crowded(t, ended, asking), crowded(t, ended/100, asking)
	as := func(user string) context.Context {
		return tipstaff.WithCaller(context.Background(), tipstaff.Caller{Surface: "http", User: user, Principal: "token:" + user, Scopes: []string{tipstaff.ScopeRead}})
	}
	best := func(f func() error) time.Duration {
		least := time.Hour
		for range 20 {
			from := time.Now()
			b.check(f())
			least = min(least, time.Since(from))
		}
		return least
	}
	costless := func(what string, f func(*bed) error) { // what has ended
		t.Helper()
		with, without := best(func() error { return f(b) }), best(func() error { return f(few) })
		t.Logf("%s: %v; with a hundredth of what has ended %v", what, with, without)
		if with > 3*without+5*time.Millisecond {
			t.Errorf("%s: %v; with a hundredth of what has ended %v", what, with, without)
		}
	}
	waiting := []string{tipstaff.StatusAwaitingDecision}
	for who, ctx := range map[string]context.Context{"all": cli(), "a user's": as("bob")} {
		costless("the first page of gates, "+who, func(b *bed) error { _, err := b.Inbox(ctx, tipstaff.InboxRequest{}); return err })
		for what, req := range map[string]tipstaff.ListRequest{"the newest": {}, "those that wait": {Status: waiting}, "those that failed, of which there are none": {Status: []string{"failed"}}} {
			costless("the first page of runs, "+what+", "+who, func(b *bed) error { _, err := b.List(ctx, req); return err })
		}
	}

	for what, req := range map[string]tipstaff.ListRequest{
		"of a kind that is not there":    {Kind: "turn"},
		"with a label":                   {Labels: map[string]string{"team": "red"}},
		"of a program that is not there": {Program: "none"},
		"that come from one":             {Parent: tipstaff.NewID(time.Now())},
	} {
		costless("runs "+what, func(b *bed) error { _, err := b.List(cli(), req); return err })
		costless("runs "+what+", of a user", func(b *bed) error { _, err := b.List(as("bob"), req); return err })
	}

	expired := 0 // one in a hundred, of which nobody has taken note yet
	for _, user := range []string{"alice", "bob"} {
		ctx, seen := as(user), map[tipstaff.ID]bool{}
		last := tipstaff.ID{}
		total := 0
		for req := (tipstaff.InboxRequest{Limit: 200}); ; {
			page, err := b.Inbox(ctx, req)
			b.check(err)
			total = page.Total
			for _, g := range page.Gates {
				if seen[g.Gate.ID] || g.User != user || g.Gate.ID.String() <= last.String() || g.Gate.Shown == nil {
					t.Fatalf("%s is given %+v again, out of order, or as a stranger", user, g)
				}
				seen[g.Gate.ID], last = true, g.Gate.ID
			}
			if req.After = page.Next; page.Next.IsZero() {
				break
			}
		}
		if len(seen) != total || page0(b, ctx).ByKind[tipstaff.Question] != total {
			t.Errorf("%s has read %d of %d", user, len(seen), total)
		}
		expired += asking/2 - len(seen)
		runs := map[tipstaff.ID]bool{}
		for req := (tipstaff.ListRequest{Limit: 1000, Status: waiting, Count: true}); ; req.Count = false {
			page, err := b.List(ctx, req)
			b.check(err)
			if req.Count && page.Total != asking/2 {
				t.Errorf("%s is told of %d runs", user, page.Total)
			}
			for _, r := range page.Runs {
				if runs[r.ID] || r.User != user {
					t.Fatalf("%s is given %s of %s", user, r.ID, r.User)
				}
				runs[r.ID] = true
			}
			if req.Before = page.Next; page.Next.IsZero() {
				break
			}
		}
		if len(runs) != asking/2 {
			t.Errorf("%s has seen %d runs that wait", user, len(runs))
		}
	}
	if page, err := b.List(as("alice"), tipstaff.ListRequest{Limit: 1, Count: true}); err != nil || page.Total != (ended+asking)/2 {
		t.Errorf("alice is told of %d runs, %v", page.Total, err)
	}
	if expired != asking/100 {
		t.Errorf("%d expired gates were left out", expired)
	}
	for _, limit := range []int{-1, 201} {
		_, err := b.Inbox(cli(), tipstaff.InboxRequest{Limit: limit})
		_, threads := b.Threads(cli(), tipstaff.ThreadsRequest{Limit: limit})
		_, runs := b.List(cli(), tipstaff.ListRequest{Limit: 5 * limit})
		for _, err := range []error{err, threads, runs} {
			wantCode(t, err, tipstaff.InvalidArgument)
		}
	}
	_, err := b.Inbox(cli(), tipstaff.InboxRequest{Kinds: []tipstaff.GateKind{"riddle"}})
	wantCode(t, err, tipstaff.InvalidArgument)
	if page, err := b.Inbox(cli(), tipstaff.InboxRequest{Kinds: []tipstaff.GateKind{tipstaff.Delivery}}); err != nil || page.Total != 0 || len(page.Gates) != 0 {
		t.Errorf("%+v, %v", page, err)
	}
}

func page0(b *bed, ctx context.Context) tipstaff.InboxPage {
	page, err := b.Inbox(ctx, tipstaff.InboxRequest{Limit: 1})
	b.check(err)
	return page
}

// What can be done with a run of a hundred thousand records is told without reading them.
func TestTooLargeRunsAreToldAtOnce(t *testing.T) {
	const many = 100_000
	b := &bed{t: t, dir: t.TempDir(), dead: map[string]bool{}, forged: map[string]bool{}, checked: map[string]int64{}}
	b.write("tipstaff.yaml", manifest)
	b.open()
	t.Cleanup(func() { b.check(b.store.Close()) })
	run, _ := b.run(gated)
	head := b.get(run).HeadSeq
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.dir, ".tipstaff", "tipstaff.db")+"?_pragma=busy_timeout(60000)")
	b.check(err)
	for _, query := range []string{
		fmt.Sprintf(`WITH RECURSIVE i(x) AS (SELECT %d UNION ALL SELECT x + 1 FROM i WHERE x < %d)
			INSERT INTO records (run, seq, kind, bytes, hash) SELECT r.n, x, k.kind, CAST(replace(CAST(k.bytes AS TEXT), '"seq":%d', '"seq":' || x) AS BLOB), k.hash
			FROM i, runs r JOIN records k ON k.run = r.n AND k.seq = %d WHERE r.id = '%s'`, head+1, many, head, head, run),
		fmt.Sprintf(`UPDATE runs SET head = %d, fold = json_set(fold, '$.seq', %d)`, many, many),
	} {
		if _, err := db.Exec(query); err != nil {
			t.Fatal(err)
		}
	}
	b.check(db.Close())
	control := tipstaff.Control{Runs: b.Runner, Now: b.Now}
	best := time.Hour
	for range 10 {
		from := time.Now()
		got, err := control.Status(cli(), tipstaff.StatusRequest{Run: run})
		best = min(best, time.Since(from))
		if err != nil || got.HeadSeq != many || len(got.Next) != 1 || got.Next[0].Tool != tipstaff.ToolGateDecide {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	t.Logf("the status of a run of %d records: %s", many, best.Round(time.Microsecond))
	if best > 5*time.Millisecond {
		t.Errorf("its status takes %s", best)
	}
	if got, err := control.Tail(cli(), tipstaff.TailRequest{Run: run, After: many - 3}); err != nil || len(got.Events) != 3 || !got.EOF || got.Last != many ||
		!slices.IsSortedFunc(got.Events, func(a, b tipstaff.TailEvent) int { return int(a.Seq - b.Seq) }) {
		t.Errorf("%+v, %v", got, err)
	}
}
