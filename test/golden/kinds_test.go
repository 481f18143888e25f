//go:build unix

package golden

import (
	"database/sql"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/tipstaff/tipstaff"
)

// Whatever a journal may hold stands in a journal of some generation: else nobody would
// notice that a change has made such records unreadable.
func TestEveryKindIsInAGoldenJournal(t *testing.T) {
	t.Parallel()
	frozen := frozenKinds(t)
	for _, kind := range declaredKinds(t) {
		switch {
		case kind.Transient(), frozen[kind]:
		default:
			t.Errorf("no golden journal holds a record of kind %s: add a run that has one to a new generation, as README.md says", kind)
		}
	}
	for kind := range frozen {
		if !tipstaff.KnownKind(kind) {
			t.Errorf("golden journals hold records of kind %s, which event.go does not list any more", kind)
		}
	}
}

// declaredKinds are the constants of event.go.
func declaredKinds(t *testing.T) (kinds []tipstaff.Kind) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "event.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`(?m)^\tKind\w+ +Kind = "([^"]+)"`).FindAllSubmatch(text, -1) {
		kinds = append(kinds, tipstaff.Kind(found[1]))
	}
	if len(kinds) == 0 {
		t.Fatal("event.go declares no kinds, as far as this test can see")
	}
	return kinds
}

// frozenKinds are those of the records in the databases of all archives.
func frozenKinds(t *testing.T) map[tipstaff.Kind]bool {
	t.Helper()
	archives, err := filepath.Glob("v*/*.tar.bz2")
	if err != nil || len(archives) == 0 {
		t.Fatalf("there are no archives: %v", err)
	}
	kinds := map[tipstaff.Kind]bool{}
	for _, archive := range archives {
		dir := t.TempDir()
		err := untar(archive, dir)
		if err == nil {
			err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
				if err == nil && filepath.Base(path) == "tipstaff.db" {
					err = addKinds(kinds, path)
				}
				return err
			})
		}
		if err != nil {
			t.Fatalf("%s: %v", archive, err)
		}
	}
	return kinds
}

func addKinds(kinds map[tipstaff.Kind]bool, file string) error {
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.Query(`SELECT DISTINCT json_extract(CAST(bytes AS TEXT), '$.kind') FROM records`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var kind tipstaff.Kind
		if err := rows.Scan(&kind); err != nil {
			return err
		}
		kinds[kind] = true
	}
	return rows.Err()
}
