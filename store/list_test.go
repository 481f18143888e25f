package store_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store"
)

// migrated is a SQLite database with the tables of a store.
func migrated(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "plan.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	files, err := filepath.Glob("../sqlite/migrations/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v %v", files, err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(string(text)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return db
}

// No list reads all runs, whatever it is filtered by. A text is looked for in a small table of
// its own, of which the newest part is read.
func TestListsAreReadByIndex(t *testing.T) {
	db := migrated(t)
	scans := regexp.MustCompile(`SCAN (runs|run_labels|run_search)\b`)
	open := regexp.MustCompile(`SCAN runs USING (COVERING )?INDEX runs_open`) // in which nothing else stands
	plan := func(query string, args []any) (text string) {
		t.Helper()
		rows, err := db.Query("EXPLAIN QUERY PLAN "+query, args...)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		defer rows.Close()
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			text += detail + "\n"
		}
		return text
	}
	for name, q := range map[string]flow.Query{
		"kind": {Kind: "plan"}, "name": {Name: "p"}, "parent": {Parent: "r"}, "label": {Labels: map[string]string{"a": "b"}},
		"any label": {Labels: map[string]string{"a": ""}}, "text": {Text: "x"}, "since": {Since: time.Unix(1, 0)}, "states": {States: []string{"completed", "failed"}},
		"open": {Open: true}, "ended": {EndedSince: time.Unix(1, 0)},
	} {
		for _, user := range []string{"", "ann"} {
			q.User = user
			where, args := store.WhereRuns(q)
			order := " ORDER BY n DESC"
			if name == "ended" { // which is only counted
				order = ""
			}
			got := plan("SELECT n FROM runs WHERE "+where+order+" LIMIT 50", args)
			if scans.MatchString(open.ReplaceAllString(got, "")) {
				t.Errorf("%s of %q: %s is read by\n%s", name, user, where, got)
			}
		}
	}
	if got := plan("SELECT n FROM runs WHERE title = 'x'", nil); !scans.MatchString(got) {
		t.Errorf("a scan is not seen in %q", got)
	}
}
