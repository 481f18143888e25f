//go:build unix

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// nextFormat is the schema with one migration more, a slow one.
func nextFormat() (schema, error) {
	list, err := loadSchema(embedded)
	return append(list, `CREATE TABLE next (x);
		INSERT INTO next WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x < 30000) SELECT x FROM c;
		ALTER TABLE runs ADD COLUMN extra TEXT`), err
}

func childMigrate(args []string) error {
	list, err := nextFormat()
	if err != nil {
		return err
	}
	fmt.Println("migrating")
	s, err := open(folder(args[0]), (&Options{UserKey: true}).withDefaults(), list)
	if err != nil {
		return err
	}
	return s.Close()
}

// A migration that is killed leaves the format before it or the one after.
func TestKilledMigration(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	run := b.create()
	b.shut()
	list, err := nextFormat()
	if err != nil {
		t.Fatal(err)
	}
	backups := func() int {
		entries, _ := os.ReadDir(folder(b.dir).backups())
		return len(entries)
	}
	for range 3 {
		before := backups()
		c := start(t, "migrate", b.dir)
		c.line(t)
		look := time.NewTicker(time.Millisecond)
		for backups() == before { // once the copy that precedes it is there, it is under way
			<-look.C
		}
		look.Stop()
		_ = c.Process.Kill()
		_ = c.Wait()
		db, err := connect(folder(b.dir).database(), readOnly)
		if err != nil {
			t.Fatal(err)
		}
		version, err := db.number(context.Background(), `PRAGMA user_version`)
		if err != nil {
			t.Fatal(err)
		}
		rows, queryErr := db.number(context.Background(), `SELECT count(*) FROM next`)
		if err := db.close(); err != nil {
			t.Fatal(err)
		}
		if whole := queryErr == nil && rows == 30000; whole != (version == int64(len(list))) {
			t.Fatalf("format %d with %d rows: %v", version, rows, queryErr)
		}
		if version == int64(len(list)) {
			break
		}
	}
	s, err := open(folder(b.dir), (&Options{UserKey: true}).withDefaults(), list)
	if err != nil {
		t.Fatal(err)
	}
	b.Store = s
	b.verify(run)
	b.shut()

	// The program of before now meets a newer format: it reads and does not write.
	b.open(nil)
	b.verify(run)
	_, err = b.Acquire(t.Context(), run, me)
	if !errors.Is(err, flow.ErrReadOnly) || !strings.Contains(err.Error(), "format_newer") {
		t.Fatalf("writing to a newer format: %v", err)
	}
	if err := appendErr(b, flow.Lease{Run: run, Epoch: 1}, step("a")); !errors.Is(err, flow.ErrReadOnly) {
		t.Fatalf("appending to a newer format: %v", err)
	}
	if _, err := b.PutBlob(t.Context(), []byte("x")); !errors.Is(err, flow.ErrReadOnly) {
		t.Fatalf("storing a blob in a newer format: %v", err)
	}
}

// A store that is made is not copied at every format it passes through.
func TestNewStoreHasNoBackups(t *testing.T) {
	b := newBench(t, nil)
	if entries, err := os.ReadDir(folder(b.dir).backups()); len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestMigrationsAreNumbered(t *testing.T) {
	file := &fstest.MapFile{Data: []byte(`SELECT 1`)}
	if list, err := loadSchema(fstest.MapFS{"migrations/0001_a.sql": file, "migrations/0002_b.sql": file}); err != nil || len(list) != 2 {
		t.Errorf("%d migrations: %v", len(list), err)
	}
	if _, err := loadSchema(fstest.MapFS{"migrations/0001_a.sql": file, "migrations/0003_b.sql": file}); err == nil {
		t.Error("a gap was accepted")
	}
}

func TestFailingMigrationChangesNothing(t *testing.T) {
	b := newBench(t, nil)
	run := b.create()
	b.shut()
	list, err := loadSchema(embedded)
	if err != nil {
		t.Fatal(err)
	}
	_, err = open(folder(b.dir), (*Options)(nil).withDefaults(), append(list, `CREATE TABLE half (x); CREATE TABLE half (x)`))
	if err == nil {
		t.Fatal("a migration that fails was accepted")
	}
	b.open(nil)
	b.verify(run)
	b.create()
}

func TestOtherDatabaseIsRefused(t *testing.T) {
	dir := folder(filepath.Join(t.TempDir(), ".tipstaff"))
	if err := dir.make(); err != nil {
		t.Fatal(err)
	}
	c, err := connect(dir.database(), readWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.script(`PRAGMA application_id = 7; CREATE TABLE t (x)`), c.close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(string(dir), nil); err == nil || !strings.Contains(err.Error(), "another program") {
		t.Fatalf("opening: %v", err)
	}
}
