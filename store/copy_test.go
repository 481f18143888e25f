package store_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tipstaff/tipstaff/store"
)

// left says what a copy leaves out, and why.
var left = map[string]string{
	"inbox":          "what processes tell each other",
	"marks":          "the transactions of processes",
	"blob_data":      "written with the rows of blobs",
	"blob_objects":   "objects of a bucket, whose payloads are copied",
	"runs.holder":    "the lease of a process that knows nothing of the copy",
	"runs.owner":     "likewise",
	"runs.heartbeat": "likewise",
	"runs.launch":    "the process itself",
	"runs.claimed":   "the claim of a server, likewise",
	"gates.decision": "nobody writes it",
}

// A column that a migration adds is copied, or left out for a reason.
func TestEveryColumnIsCopied(t *testing.T) {
	db := migrated(t)
	rows, err := db.Query(`SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	tables := map[string][]string{}
	for rows.Next() {
		var table, column string
		if err := rows.Scan(&table, &column); err != nil {
			t.Fatal(err)
		}
		tables[table] = append(tables[table], column)
	}
	compareCopied(t, "sqlite", tables)

	files, err := filepath.Glob("../postgres/migrations/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v %v", files, err)
	}
	tables = map[string][]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?s)CREATE TABLE (\w+) \(\n(.*?)\n\)`).FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(m[2]) {
				if name := strings.Trim(strings.Fields(line)[0], `"`); name != "PRIMARY" {
					tables[m[1]] = append(tables[m[1]], name)
				}
			}
		}
		for _, m := range regexp.MustCompile(`ALTER TABLE (\w+) ADD COLUMN "?(\w+)`).FindAllStringSubmatch(string(text), -1) {
			tables[m[1]] = append(tables[m[1]], m[2])
		}
	}
	compareCopied(t, "postgres", tables)
}

func compareCopied(t *testing.T, where string, tables map[string][]string) {
	t.Helper()
	copied := store.CopiedColumns()
	for table, columns := range tables {
		for _, column := range columns {
			if left[table] == "" && left[table+"."+column] == "" && !slices.Contains(copied[table], column) {
				t.Errorf("%s: %s.%s is not copied", where, table, column)
			}
		}
	}
	for table, columns := range copied {
		for _, column := range columns {
			if !slices.Contains(tables[table], column) {
				t.Errorf("%s has no %s.%s, which is copied", where, table, column)
			}
		}
	}
}
