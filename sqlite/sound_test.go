package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store/storetest"
)

// What is acknowledged is on the disk: with a log that is written ahead, FULL alone syncs
// every commit. Without a power failure nothing else shows it.
func TestEveryCommitIsSynced(t *testing.T) {
	b := newBench(t, nil)
	c, err := connect(b.db.dir.database(), readWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	const full = 2
	if got, err := c.number(t.Context(), `PRAGMA synchronous`); err != nil || got != full {
		t.Errorf("synchronous is %d, want %d (FULL): %v", got, full, err)
	}
}

// Whatever was changed behind the back of a store is found by whoever takes the run, and
// nothing is written to it.
func TestChangedStoresAreNotObeyed(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]string{
		"the state of the row":    `UPDATE runs SET state = 'accepted'`,
		"a record":                `UPDATE records SET bytes = replace(CAST(bytes AS TEXT), '"a"', '"b"') WHERE kind = 'effect.finished'`,
		"a hash":                  `UPDATE records SET hash = zeroblob(32) WHERE kind = 'effect.finished'`,
		"the kind beside it":      `UPDATE records SET kind = 'effect.failed' WHERE kind = 'effect.finished'`,
		"the last record is gone": `DELETE FROM records WHERE seq = (SELECT max(seq) FROM records)`,
		"a record in the middle":  `DELETE FROM records WHERE kind = 'effect.finished'`,
		"a signature":             `UPDATE records SET bytes = replace(CAST(bytes AS TEXT), '"sig":"', '"sig":"A') WHERE kind = 'policy.gate'`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nobodyLives())
			run := b.MustCreateDraft()
			l := b.MustAcquire(run)
			b.MustAppend(l, storetest.Step("a"), storetest.Gate("G1", "root/ok"))
			b.MustWrite(run, flow.Draft{Kind: "run.interrupted", Body: storetest.Body(`{"reason":"owner_died"}`)})
			b.harm(harm)
			b.reopen(nobodyLives())
			head := b.count(`SELECT count(*) FROM records`)
			if _, err := b.Acquire(t.Context(), run, storetest.Me); !errors.Is(err, flow.ErrIntegrity) {
				t.Errorf("it was taken: %v", err)
			}
			if now := b.count(`SELECT count(*) FROM records`); now != head {
				t.Errorf("%d records became %d", head, now)
			}
		})
	}
}

// A question that is not signed as it was asked is not decided, even by a process that knows
// the run.
func TestAChangedQuestionIsNotDecided(t *testing.T) {
	b := newBench(t, nobodyLives())
	run := b.MustCreateDraft()
	b.MustAppend(b.MustAcquire(run), storetest.Gate("G1", "root/ok"))
	b.harm(`UPDATE records SET bytes = replace(CAST(bytes AS TEXT), '"question":"?"', '"question":"!"') WHERE kind = 'policy.gate'`)
	b.reopen(nobodyLives())
	if err := b.WriteDrafts(run, storetest.Resolve("G1", "approve", "command")); !errors.Is(err, flow.ErrIntegrity) {
		t.Errorf("it was decided: %v", err)
	}
}

// A process goes on writing to the file that it has opened, whatever became of its name.
func TestATakenStoreIsLost(t *testing.T) {
	for name, take := range map[string]func(db string) error{
		"removed": os.Remove,
		"moved":   func(db string) error { return os.Rename(db, db+".away") },
		"another in its place": func(db string) error {
			text, err := os.ReadFile(db)
			return errors.Join(err, os.Rename(db, db+".away"), os.WriteFile(db, text, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nobodyLives())
			l := b.MustAcquire(b.MustCreate())
			b.MustAppend(l, storetest.Step("a"))
			if err := take(b.db.dir.database()); err != nil {
				t.Fatal(err)
			}
			for i := range 2 { // neither what is under way nor what comes after it is acknowledged
				if err := storetest.AppendErr(b, l, storetest.Step(fmt.Sprint(i))); !errors.Is(err, flow.ErrStoreLost) {
					t.Errorf("append %d is answered with %v", i, err)
				}
			}
			_ = b.Close() // what it says is not the matter here
			b.Store = nil
		})
	}
}

// Records are read page by page; whoever asks for more than a page gets it.
func TestRecordsOfALongRunAreRead(t *testing.T) {
	const all = 4500 // more than two pages
	b := newBench(t, nil)
	run := b.MustCreate()
	had := len(b.MustRecords(run))
	l := b.MustAcquire(run)
	steps := make([]flow.Draft, all-had-1)
	for i := range steps {
		steps[i] = storetest.Step(fmt.Sprint("root/", i))
	}
	b.MustAppend(l, steps...)
	for _, c := range []struct {
		after       int64
		limit, want int
	}{{0, 0, all}, {0, 4100, 4100}, {100, 0, all - 100}, {0, 2000, 2000}, {all - 1, 0, 1}} {
		records, err := b.Records(t.Context(), run, c.after, c.limit)
		if err != nil || len(records) != c.want {
			t.Fatalf("%d records after %d, at most %d, want %d: %v", len(records), c.after, c.limit, c.want, err)
		}
		for i, r := range records {
			if r.Seq != c.after+int64(i)+1 {
				t.Fatalf("record %d stands where %d must", r.Seq, c.after+int64(i)+1)
			}
		}
	}
}

func (b *bench) count(query string) int64 {
	b.Helper()
	c, err := connect(folder(b.dir).database(), readOnly)
	if err != nil {
		b.Fatal(err)
	}
	defer c.close()
	n, err := c.number(context.Background(), query)
	if err != nil {
		b.Fatal(err)
	}
	return n
}
