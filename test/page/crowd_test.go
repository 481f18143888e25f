package page_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/test/webtest"
)

// copies adds so many copies of a run, whose ids begin alike, and of its open gates. Their
// records are not copied but those that ask: no list reads others. Every hundredth is found by
// a word.
func (b *bed) copies(of tipstaff.Run, prefix string, n int) {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.Dir, ".tipstaff", "tipstaff.db")+"?_pragma=busy_timeout(60000)")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	gate := "none"
	if len(of.OpenGates) > 0 {
		gate = of.OpenGates[0].ID.String()
	}
	const columns = `user, kind, origin, title, program, base, base_seq, created, state, epoch, owned, cont, cancel, correction, env, envs, head, head_hash, wake_at, updated, ended, name, cost`
	gates := "'0" + prefix[:1] + "' || substr(new.id, 3)"
	exec := func(query string, args ...any) {
		b.Helper()
		if _, err := db.Exec(query, args...); err != nil {
			b.Fatalf("%s: %v", query, err)
		}
	}
	exec(fmt.Sprintf(`WITH RECURSIVE i(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM i WHERE x < %d)
		INSERT INTO runs (id, fold, %s) SELECT printf('%s%%024d', x), replace(fold, ?, printf('0%s%%024d', x)), %s FROM i, runs WHERE id = ?`, n, columns, prefix, prefix[:1], columns), gate, of.ID.String())
	exec(`INSERT INTO records (run, seq, kind, bytes, hash) SELECT new.n, k.seq, k.kind, CAST(replace(CAST(k.bytes AS TEXT), ?, `+gates+`) AS BLOB), k.hash
		FROM runs new JOIN runs old ON old.id = ? JOIN gates g ON g.run = old.n JOIN records k ON k.run = old.n AND k.seq = g.opened WHERE new.id LIKE ?`, gate, of.ID.String(), prefix+"%")
	exec(`INSERT INTO gates (run, id, user, kind, key, opened, opened_at) SELECT new.n, `+gates+`, g.user, g.kind, g.key, g.opened, g.opened_at
		FROM runs new JOIN runs old ON old.id = ? JOIN gates g ON g.run = old.n WHERE new.id LIKE ?`, of.ID.String(), prefix+"%")
	exec(`INSERT INTO run_search (run, text) SELECT n, CASE WHEN id LIKE '%00' THEN 'needle ' ELSE '' END || id FROM runs WHERE id LIKE ?`, prefix+"%")
	b.Cleanup(func() { // they have no journal that could be verified
		db, err := sql.Open("sqlite", "file:"+filepath.Join(b.Dir, ".tipstaff", "tipstaff.db")+"?_pragma=busy_timeout(60000)")
		if err != nil {
			b.Fatal(err)
		}
		defer db.Close()
		for _, table := range []string{"records", "gates", "run_search"} {
			if _, err := db.Exec(`DELETE FROM `+table+` WHERE run IN (SELECT n FROM runs WHERE id LIKE ?)`, prefix+"%"); err != nil {
				b.Error(err)
			}
		}
		if _, err := db.Exec(`DELETE FROM runs WHERE id LIKE ?`, prefix+"%"); err != nil {
			b.Error(err)
		}
	})
}

// Of 10,000 runs and 500 open gates the lists show, count and find what is there.
func TestListsOfManyRuns(t *testing.T) {
	const done, failed, asking = 6000, 3500, 500
	b := newBed(t)
	b.copies(b.start("alice", `{kind: plan, version: 1, name: good, root: {kind: sequential, children: [{id: a, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: note.txt}}]}}`), "00", done-1)
	b.copies(b.start("bob", `{kind: plan, version: 1, name: bad, root: {kind: sequential, children: [{id: a, kind: tool_call, tool: "mcp://builtin/read_file@1.0.0", args: {path: none.txt}}]}}`), "10", failed-1)
	b.copies(b.start("alice", webtest.Gated("x.txt")), "20", asking-1)

	admin := tipstaff.WithCaller(b.as("root"), tipstaff.Caller{Surface: "http", User: "root", Principal: "token:root", Scopes: []string{tipstaff.ScopeAdmin}})
	for what, c := range map[string]struct {
		req  tipstaff.ListRequest
		path string
		want int
	}{
		"all":            {tipstaff.ListRequest{}, "", done + failed + asking},
		"completed":      {tipstaff.ListRequest{Status: []string{"completed"}}, "status=completed", done},
		"failed":         {tipstaff.ListRequest{Status: []string{"failed"}}, "status=failed", failed},
		"waiting":        {tipstaff.ListRequest{Status: []string{tipstaff.StatusAwaitingDecision}}, "status=awaiting_decision", asking},
		"running":        {tipstaff.ListRequest{Status: []string{"running"}}, "status=running", 0},
		"of a kind":      {tipstaff.ListRequest{Kind: "plan"}, "kind=plan", done + failed + asking},
		"of a program":   {tipstaff.ListRequest{Program: "bad"}, "program=bad", failed},
		"of a user":      {tipstaff.ListRequest{User: "bob"}, "user=bob", failed},
		"since today":    {tipstaff.ListRequest{Since: time.Now().Add(-time.Hour)}, "since=" + time.Now().Format(time.DateOnly), done + failed + asking},
		"with a label":   {tipstaff.ListRequest{Labels: map[string]string{"team": ""}}, "label=team", 0},
		"with a word":    {tipstaff.ListRequest{Text: "needle"}, "q=needle", (done-1)/100 + (failed-1)/100 + (asking-1)/100},
		"without a word": {tipstaff.ListRequest{Text: "nobody wrote this"}, "q=nobody+wrote+this", 0},
	} {
		req, seen := c.req, map[tipstaff.ID]bool{}
		req.Limit, req.Count = 1000, true
		for {
			page, err := b.Runner.List(admin, req)
			if err != nil {
				t.Fatal(what, err)
			}
			if req.Count && page.Total != c.want {
				t.Errorf("%s: %d are counted, want %d", what, page.Total, c.want)
			}
			for _, r := range page.Runs {
				seen[r.ID] = true
			}
			if req.Before, req.Count = page.Next, false; page.Next.IsZero() {
				break
			}
		}
		if len(seen) != c.want {
			t.Errorf("%s: %d are listed, want %d", what, len(seen), c.want)
		}
		b.opensWith(t, "/ui/runs?"+c.path, min(c.want, 50))
	}

	kinds, asked := tipstaff.InboxRequest{Limit: 200}, map[tipstaff.ID]bool{}
	for {
		page, err := b.Runner.Inbox(admin, kinds)
		if err != nil {
			t.Fatal(err)
		}
		if page.Total != asking || page.ByKind[tipstaff.Question] != asking {
			t.Fatalf("%d gates are counted, %v by kind, want %d", page.Total, page.ByKind, asking)
		}
		for _, g := range page.Gates {
			asked[g.Gate.ID] = true
		}
		if kinds.After = page.Next; page.Next.IsZero() {
			break
		}
	}
	if len(asked) != asking {
		t.Errorf("%d gates are listed, want %d", len(asked), asking)
	}
	b.opensWith(t, "/ui/", 100)
	b.opensWith(t, "/ui/?kind=question", 100)
}

// opensWith opens a list that shows so many rows, as one who sees everything, and tells how
// long that took.
func (b *bed) opensWith(t *testing.T, path string, rows int) {
	t.Helper()
	w := b.browser("root")
	began := time.Now()
	p := w.open(path)
	t.Logf("%s: %s", path, time.Since(began).Round(time.Millisecond))
	got := 0
	for _, name := range []string{"tr", "li"} {
		for _, n := range p.all(name) {
			if attr(n, "data-key") != "" {
				got++
			}
		}
	}
	if got != rows {
		t.Errorf("%s shows %d rows, want %d", path, got, rows)
	}
}
