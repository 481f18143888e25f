package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/storetest"
)

func TestBusyStore(t *testing.T) {
	b := newBench(t, &Options{BusyLimit: 100 * time.Millisecond})
	run := b.MustCreate()
	l := b.MustAcquire(run)
	other, err := connect(b.db.dir.database(), readWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	if err := other.Exec(`BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	if err := storetest.AppendErr(b, l, storetest.Step("a")); !errors.Is(err, flow.ErrStoreBusy) {
		t.Fatalf("with another writer: %v", err)
	}
	if err := other.Exec(`ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	b.MustAppend(l, storetest.Step("a"))
}

func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	damage := map[string]func(t *testing.T, db string){
		"no database at all": func(t *testing.T, db string) {
			overwrite(t, db, 0, []byte("this is not a database file, whatever its name may say"))
		},
		"cut in half": func(t *testing.T, db string) {
			info, err := os.Stat(db)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(db, info.Size()/2/4096*4096); err != nil {
				t.Fatal(err)
			}
		},
		"pages of noise": func(t *testing.T, db string) {
			info, err := os.Stat(db)
			if err != nil {
				t.Fatal(err)
			}
			for at := int64(4096); at < info.Size(); at += 4096 {
				overwrite(t, db, at, []byte(strings.Repeat("noise", 800)))
			}
		},
	}
	for name, harm := range damage {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			run := b.MustCreate()
			l := b.MustAcquire(run)
			for i := range 30 {
				b.MustAppend(l, storetest.Step(fmt.Sprint(i)))
			}
			b.shut()
			harm(t, folder(b.dir).database())
			s, err := Open(b.dir, nil)
			if err == nil {
				// It could be opened, so the damage shows where it lies.
				_, err = s.Records(t.Context(), run, 0, 0)
				if err == nil {
					_, err = s.Acquire(t.Context(), run, storetest.Me)
				}
				if cerr := s.Close(); cerr != nil {
					t.Log(cerr)
				}
			}
			if !errors.Is(err, store.ErrDamaged) || !errors.Is(err, flow.ErrReadOnly) || !strings.Contains(err.Error(), "tipstaff.db") || !strings.Contains(err.Error(), "backup") {
				t.Fatalf("%v", err)
			}
		})
	}
}

func overwrite(t *testing.T, name string, at int64, data []byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(data, at)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// A torn log ends before the tear: what was whole is there, and the store goes
// on from it.
func TestTornLog(t *testing.T) {
	b := newBench(t, nil)
	run := b.MustCreate()
	l := b.MustAcquire(run)
	b.MustAppend(l, storetest.Step("a"))
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole := len(b.MustRecords(run))
	b.MustAppend(l, storetest.Step("b"), storetest.Step("c"))
	copied := copied(t, b)
	wal := filepath.Join(copied, "tipstaff.db-wal")
	info, err := os.Stat(wal)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(wal, info.Size()-100); err != nil {
		t.Fatal(err)
	}
	torn := benchIn(t, copied)
	torn.open(nobodyLives())
	defer torn.shut()
	if got := len(torn.MustRecords(run)); got != whole {
		t.Fatalf("%d records, %d were before the tear", got, whole)
	}
	torn.MustVerify(run)
	torn.MustAppend(torn.MustAcquire(run), storetest.Step("b"))
}

// An append that fails, for whatever reason, fails alone: its neighbours in the batch
// are stored.
func TestFaultyAppendFailsAlone(t *testing.T) {
	t.Parallel()
	const trigger = `CREATE TRIGGER faulty BEFORE INSERT ON records WHEN new.kind = 'plan.step' AND new.run = (SELECT n FROM runs WHERE id = '%s')
		BEGIN SELECT RAISE(%s, 'mine'); END`
	last := flow.Draft{Kind: "plan.step", Path: "x", N: 1, Body: storetest.Body(`{"node":"x","status":"completed"}`)}
	for name, fault := range map[string]struct {
		raise string
		draft flow.Draft
	}{
		"an error":      {"", storetest.Resolve("nowhere", "approve", "command")},
		"a panic":       {"", flow.Draft{Kind: "plan.step", Path: "x", N: 1, Beside: &flow.Beside{Write: func(flow.Tx) ([]flow.Draft, error) { panic("mine") }}}},
		"a constraint":  {"ABORT", last},
		"it rolls back": {"ROLLBACK", last},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			const runs = 20
			leases := make([]flow.Lease, runs)
			for i := range leases {
				leases[i] = b.MustAcquire(b.MustCreateDraft())
			}
			if fault.draft.Beside != nil {
				fault.draft.Beside.Run = leases[0].Run
			}
			if fault.raise != "" {
				b.harm(fmt.Sprintf(trigger, leases[7].Run, fault.raise))
			}
			errs := make([]error, runs)
			var all sync.WaitGroup
			for i, l := range leases {
				all.Add(1)
				end := last
				if i == 7 {
					end = fault.draft
				}
				b.Append(l, []flow.Draft{storetest.Step("x"), end}, func(err error) { errs[i] = err; all.Done() })
			}
			all.Wait()
			for i, l := range leases {
				head := b.MustRun(l.Run).Head
				if i == 7 {
					if errs[i] == nil || head != 2 {
						t.Errorf("the faulty one: %v, head %d", errs[i], head)
					}
				} else if errs[i] != nil || head != 4 {
					t.Errorf("a neighbour: %v, head %d", errs[i], head)
				}
				b.MustVerify(l.Run)
			}
		})
	}
}

// What queues up while a commit syncs shares the next one.
func TestBatchesShareACommit(t *testing.T) {
	b := newBench(t, nil)
	l := b.MustAcquire(b.MustCreate())
	release := make(chan struct{})
	entered := make(chan struct{})
	go func() {
		_ = b.Write(context.Background(), l.Run, func(flow.Tx) ([]flow.Draft, error) {
			close(entered)
			<-release
			return nil, nil
		})
	}()
	<-entered
	var all sync.WaitGroup
	const steps = 300
	for i := range steps {
		all.Add(1)
		b.Append(l, []flow.Draft{storetest.Step(fmt.Sprint(i))}, func(err error) {
			if err != nil {
				t.Error(err)
			}
			all.Done()
		})
	}
	close(release)
	all.Wait()
	w := b.db.writing
	b.shut()           // the writer has ended: its count can be read
	if w.commits > 5 { // create, acquire, the write, the steps, perhaps a heartbeat
		t.Errorf("%d commits for %d steps", w.commits, steps)
	}
}
