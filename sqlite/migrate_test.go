//go:build unix

package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"testing/fstest"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/storetest"
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
	run := b.MustCreate()
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
		noted, _ := db.number(context.Background(), `SELECT count(*) FROM migrated`)
		if err := db.close(); err != nil {
			t.Fatal(err)
		}
		if whole := queryErr == nil && rows == 30000; whole != (version == int64(len(list))) || whole != (noted == 1) {
			t.Fatalf("format %d with %d rows, noted %d times: %v", version, rows, noted, queryErr)
		}
		if version == int64(len(list)) {
			break
		}
	}
	s, err := open(folder(b.dir), (&Options{UserKey: true}).withDefaults(), list)
	if err != nil {
		t.Fatal(err)
	}
	b.use(s)
	b.MustVerify(run)
	b.shut()

	// The program of before now meets a newer format: it reads and does not write.
	b.open(nil)
	b.MustVerify(run)
	_, err = b.Acquire(t.Context(), run, storetest.Me)
	if !errors.Is(err, flow.ErrReadOnly) || !strings.Contains(err.Error(), "format_newer") {
		t.Fatalf("writing to a newer format: %v", err)
	}
	if err := storetest.AppendErr(b, flow.Lease{Run: run, Epoch: 1}, storetest.Step("a")); !errors.Is(err, flow.ErrReadOnly) {
		t.Fatalf("appending to a newer format: %v", err)
	}
	if _, err := b.PutBlob(t.Context(), []byte("x")); !errors.Is(err, flow.ErrReadOnly) {
		t.Fatalf("storing a blob in a newer format: %v", err)
	}
}

// A process that has a store open finds at its next write that another has migrated it: it
// writes nothing more, what it has written is there, and doctor tells of it.
func TestAnOpenStoreNoticesAMigration(t *testing.T) {
	for name, meanwhile := range map[string]func(*bench){
		"at its next write": func(*bench) {},
		"also where it has looked for news before": func(b *bench) {
			_, stop := b.Follow("")
			defer stop()
			b.db.writer.Poll()
		},
	} {
		t.Run(name, func(t *testing.T) { testMigrationWhileOpen(t, meanwhile) })
	}
}

func testMigrationWhileOpen(t *testing.T, meanwhile func(*bench)) {
	b := newBench(t, nil)
	run := b.MustCreate()
	lease := b.MustAcquire(run)
	b.MustAppend(lease, storetest.LeafEnd("root/a"))
	list, err := nextFormat()
	if err != nil {
		t.Fatal(err)
	}
	newer := nobodyLives().withDefaults()
	newer.UserKey, newer.Version = true, "9.9.9"
	s, err := open(folder(b.dir), newer, list)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	meanwhile(b)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Fallen(ended); err != nil {
		t.Errorf("before it writes it has noticed: %v", err)
	}
	fell := make(chan error, 1)
	go func() { fell <- b.Fallen(t.Context()) }()
	for range 2 {
		err := storetest.AppendErr(b, lease, storetest.LeafEnd("root/b"))
		if !errors.Is(err, flow.ErrReadOnly) || !errors.Is(err, store.ErrNewer) || !strings.Contains(err.Error(), fmt.Sprintf("to a newer format than %d by a newer Tipstaff while it was open", len(list)-1)) {
			t.Errorf("the next write: %v", err)
		}
	}
	if err := <-fell; !errors.Is(err, store.ErrNewer) {
		t.Errorf("whoever serves is told: %v", err)
	}
	before, err := b.Run(t.Context(), run)
	if err != nil {
		t.Errorf("reading: %v", err)
	}
	after := &bench{Bench: b.Bench, dir: b.dir}
	after.use(s)
	if now, err := after.Run(t.Context(), run); err != nil || now.Head != before.Head {
		t.Errorf("the run ends at %d, and %d was acknowledged: %v", now.Head, before.Head, err)
	}
	after.MustAppend(after.MustAcquire(run), storetest.LeafEnd("root/b"))
	after.MustVerify(run)
	found, err := Examine(t.Context(), b.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	told := false
	for _, d := range found {
		told = told || d.Code == "migrated" && d.Severity == tipstaff.SeverityNote && strings.Contains(d.Message, fmt.Sprintf("from format %d to %d at 20", len(list)-1, len(list))) && strings.Contains(d.Message, "by Tipstaff 9.9.9")
	}
	if !told {
		t.Errorf("doctor tells nothing of it: %+v", found)
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
	run := b.MustCreate()
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
	b.MustVerify(run)
	b.MustCreate()
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

// backTo turns a store of the present format into one of an earlier format: what each
// migration brought is taken away, the last first.
var backTo = []struct {
	format int
	undo   string
}{
	{9, `DROP INDEX runs_queued; CREATE INDEX runs_queued ON runs (n) WHERE queued = 1;
		ALTER TABLE runs DROP COLUMN host; ALTER TABLE runs DROP COLUMN driver; ALTER TABLE runs DROP COLUMN claimed`},
	{8, `DROP INDEX runs_kind; DROP INDEX runs_kind_user; DROP INDEX runs_name; DROP INDEX runs_name_user; DROP INDEX runs_parent;
		DROP INDEX runs_created; DROP INDEX runs_ended; DROP INDEX runs_state; CREATE INDEX runs_state ON runs (state, id); DROP TABLE run_labels; DROP TABLE run_search;
		ALTER TABLE runs DROP COLUMN name; ALTER TABLE runs DROP COLUMN parent; ALTER TABLE runs DROP COLUMN ended; ALTER TABLE runs DROP COLUMN cost`},
	{7, `DROP INDEX runs_request_key; DROP INDEX runs_launch; DROP INDEX runs_queued; DROP INDEX gates_inbox; DROP INDEX gates_lapsed; DROP INDEX gates_inbox_user; ALTER TABLE gates DROP COLUMN user;
		DROP INDEX runs_open; DROP INDEX runs_open_user; DROP INDEX runs_threads; DROP INDEX runs_user; DROP INDEX runs_user_state; CREATE INDEX runs_user ON runs (user, id);
		ALTER TABLE runs DROP COLUMN project; ALTER TABLE runs DROP COLUMN queued;
		ALTER TABLE runs DROP COLUMN request_key; ALTER TABLE runs DROP COLUMN request_digest; ALTER TABLE runs DROP COLUMN launch`},
	{6, `DROP TABLE tasks; DROP TABLE task_log; DROP TABLE worker_sessions`},
	{5, `DELETE FROM cortex_items WHERE type = 'event'`}, // whose rows came later then
	{4, `ALTER TABLE runs DROP COLUMN anchor; DROP TABLE outbox`},
	{3, `DROP INDEX runs_envelope; DROP INDEX runs_request; DROP INDEX runs_thread;
		ALTER TABLE runs DROP COLUMN envelope; ALTER TABLE runs DROP COLUMN request; ALTER TABLE runs DROP COLUMN thread`},
	{2, `DROP INDEX runs_session; ALTER TABLE runs DROP COLUMN session`},
	{1, `DROP TABLE cortex_items; DROP TABLE cortex_log; DROP TABLE cortex_weights; DROP INDEX records_children`},
}

// A store of an earlier format is not read before it was migrated, and loses nothing
// when it is.
func TestOldStoresAreMigrated(t *testing.T) {
	for i, old := range backTo {
		t.Run(fmt.Sprint("format ", old.format), func(t *testing.T) {
			b := newBench(t, nobodyLives())
			b.RememberFact("older than the events")
			run := b.MustCreate()
			b.MustAppend(b.MustAcquire(run), storetest.LeafEnd("root/a"), storetest.LeafEnd("root/b"))
			before, err := b.MemoryItems(t.Context(), tipstaff.MemoryQuery{})
			if err != nil {
				t.Fatal(err)
			}
			b.shut()
			for _, back := range backTo[:i+1] {
				b.harm(back.undo)
			}
			b.harm(fmt.Sprint(`PRAGMA user_version = `, old.format))

			b.open(&Options{ReadOnly: true})
			if _, err := b.Run(t.Context(), run); !errors.Is(err, flow.ErrReadOnly) || !strings.Contains(err.Error(), fmt.Sprint("has format ", old.format)) {
				t.Errorf("read as it is: %v", err)
			}
			if _, err := b.Backup(t.Context(), filepath.Join(t.TempDir(), "copy")); err != nil {
				t.Errorf("copied as it is: %v", err)
			}
			b.shut()

			b.open(nobodyLives())
			after, err := b.MemoryItems(t.Context(), tipstaff.MemoryQuery{})
			if err != nil || old.format > 1 && !slices.Equal(after, before) {
				t.Errorf("remembered: %+v, %v\nwant %+v", after, err, before)
			}
			b.MemorySound()
			b.MustAppend(b.MustAcquire(run), storetest.LeafEnd("root/c"), storetest.Terminals["completed"])
			b.MustPipeline(flow.NewRun{User: "ann", Envelope: "env_1", Thread: "t"})
			b.MustVerify(run)
			b.MemorySound()
		})
	}
}
