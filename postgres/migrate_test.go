package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store"
)

// nextFormat is the list of migrations with one more.
func nextFormat(t *testing.T, more string) []string {
	t.Helper()
	list, err := loadSchema()
	if err != nil {
		t.Fatal(err)
	}
	return append(list, `CREATE TABLE next (x bigint); ALTER TABLE runs ADD COLUMN extra text; ALTER TABLE records ADD COLUMN extra text; UPDATE runs SET extra = 'x';`+more)
}

func (c *cluster) openNewer(list []string) (*Store, error) {
	c.Helper()
	o := &Options{Folder: c.folder, UserKey: true}
	o.Version = "9.9.9"
	o.Alive = func(flow.Owner, time.Time) bool { return false }
	return openWith(c.Context(), c.at, o, list)
}

// Processes that have a store open, and write all the time, find that another has migrated it:
// what was acknowledged is there, and nothing is after it.
func TestOpenStoresNoticeAMigration(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, yes)
	var all sync.WaitGroup
	runs, acknowledged := make([]string, len(c.stores)), make([]int, len(c.stores))
	begun := make(chan struct{}, len(c.stores))
	for i, s := range c.stores {
		runs[i] = c.create()
		l := c.acquire(s, runs[i])
		all.Go(func() {
			for {
				err := appendTo(s, l, fmt.Sprint("p", acknowledged[i]))
				if err != nil {
					if !errors.Is(err, store.ErrNewer) || !errors.Is(err, flow.ErrReadOnly) || !strings.Contains(err.Error(), "while it was open") {
						t.Errorf("store %d: %v", i, err)
					}
					return
				}
				if acknowledged[i]++; acknowledged[i] == 20 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range c.stores {
		<-begun
	}
	newer, err := c.openNewer(nextFormat(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	all.Wait()
	for i, s := range c.stores {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Fallen(ended); !errors.Is(err, store.ErrNewer) {
			t.Errorf("whoever serves store %d is told %v", i, err)
		}
		if err := appendTo(s, flow.Lease{Run: runs[i], Epoch: 1}, "more"); !errors.Is(err, store.ErrNewer) {
			t.Errorf("store %d goes on: %v", i, err)
		}
	}
	c.stores = append(c.stores, newer)
	t.Cleanup(func() { _ = newer.Close() })
	for i, run := range runs {
		paths := c.sound(run)
		delete(paths, "")
		if len(paths) != acknowledged[i] {
			t.Errorf("run %d has %d steps, %d were acknowledged", i, len(paths), acknowledged[i])
		}
		if err := appendTo(newer, c.acquire(newer, run), "after"); err != nil {
			t.Error(err)
		}
	}
	if _, err := Open(t.Context(), c.at, &Options{Folder: c.folder}); !errors.Is(err, store.ErrNewer) {
		t.Errorf("opened by the program of before: %v", err)
	}
	x := &store.Examination{Place: "here"}
	if err := newer.db.Read(t.Context(), func(q store.Querier) error {
		x.Migrations(t.Context(), q, `SELECT count(*) FROM pg_class WHERE oid = to_regclass('migrated')`, "")
		return nil
	}); err != nil {
		t.Error(err)
	}
	if len(x.Found) != 1 || x.Found[0].Severity != tipstaff.SeverityNote || !strings.Contains(x.Found[0].Message, "by Tipstaff 9.9.9") {
		t.Errorf("doctor tells %+v", x.Found)
	}
}

// A migration that is killed leaves the format before it: stores that are open go on.
func TestKilledMigration(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, yes)
	run := c.create()
	l := c.acquire(c.stores[0], run)
	failed := make(chan error, 1)
	go func() {
		s, err := c.openNewer(nextFormat(t, `SELECT pg_sleep(600)`))
		if err == nil {
			_ = s.Close()
		}
		failed <- err
	}()
	query := func(text string) (n int64) {
		t.Helper()
		err := c.stores[0].db.use(t.Context(), func(q *conn) (err error) { n, err = store.Number(context.Background(), q, text); return err })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for query(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%' AND query NOT LIKE '%pg_stat_activity%' AND datname = current_database()`) == 0 {
		select {
		case err := <-failed:
			t.Fatalf("the migration has ended by itself: %v", err)
		default:
		}
	}
	if err := <-failed; err == nil {
		t.Fatal("the migration has not failed")
	}
	if n := query(`SELECT count(*) FROM pg_class WHERE oid IN (to_regclass('next'), to_regclass('migrated'))`); n != 0 {
		t.Errorf("%d tables of the new format are there", n)
	}
	if err := appendTo(c.stores[0], l, "p"); err != nil {
		t.Errorf("the open store: %v", err)
	}
	s, err := c.openNewer(nextFormat(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
