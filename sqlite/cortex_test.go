package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store/storetest"
)

// An append that is refused leaves nothing in the log of the memory, and no gap.
func TestRefusedAppendsLeaveNoGap(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	const runs = 20
	leases := make([]flow.Lease, runs)
	for i := range leases {
		leases[i] = b.MustAcquire(b.MustCreate())
	}
	b.harm(fmt.Sprintf(`CREATE TRIGGER faulty BEFORE INSERT ON records WHEN new.kind = 'intent.attest' AND new.run = (SELECT n FROM runs WHERE id = '%s')
		BEGIN SELECT RAISE(ABORT, 'mine'); END`, leases[7].Run))
	var all sync.WaitGroup
	for i, l := range leases {
		all.Add(1)
		b.Append(l, []flow.Draft{storetest.LeafEnd("root/a"), storetest.Terminals["completed"]}, func(err error) {
			if (err != nil) != (i == 7) {
				t.Errorf("run %d: %v", i, err)
			}
			all.Done()
		})
	}
	all.Wait()
	if got := len(b.MustMemoryLog()); got != 3*(runs-1) {
		t.Errorf("the log has %d records", got)
	}
	b.MemorySound()
	b.harm(`DROP TRIGGER faulty`)
	b.MustAppend(leases[7], storetest.LeafEnd("root/a"))
	if err := storetest.AppendErr(b, leases[7], flow.Draft{Kind: "intent.attest", From: "user", Body: storetest.Terminals["completed"].Body}); err == nil {
		t.Error("a user attested")
	}
	b.MustAppend(leases[7], storetest.Terminals["completed"])
	b.MemorySound()
}

// The log of the database cut after each of its pages is what a machine finds
// that lost power there: a run has ended, and then has one attest with its
// learn_weights right after it, or it has not, and then there is neither.
func TestPowerLossAroundTheEnd(t *testing.T) {
	t.Parallel()
	for name, end := range storetest.Terminals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			fact := b.RememberFact("something to cite")
			run := b.MustCreate()
			l := b.MustAcquire(run)
			b.MustAppend(l, storetest.LeafEnd("root/a"))
			if err := b.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			wal := b.db.dir.database() + "-wal"
			before := size(t, wal)
			end := end
			end.Body = storetest.Citing(name, fact).Body
			b.MustAppend(l, storetest.LeafEnd("root/b"), end)
			after := size(t, wal)
			ended, last := 0, before
			const frame = 4096 + 24
			for cut := before; cut <= after; cut += frame {
				if endedAt(t, b, cut, run) {
					ended++
				} else {
					last = cut
				}
			}
			if ended != 1 || last <= before {
				t.Errorf("of the cuts between %d and %d the run had ended after %d; the last after which it had not was %d", before, after, ended, last)
			}
			// Life goes on from there, and the run ends once.
			torn := benchIn(t, tornCopy(t, b, last))
			torn.forgetEnd(run) // its file is written after the commit
			torn.open(nobodyLives())
			defer torn.shut()
			torn.MustAppend(torn.MustAcquire(run), end)
			torn.MemorySound()
			if got := torn.MemoryKinds(); !slices.Equal(got, []string{"remember", "remember", "attest", "learn_weights"}) {
				t.Errorf("the log has %v", got)
			}
		})
	}
}

// forgetEnd removes the file of the envelope with which a run has ended.
func (b *bench) forgetEnd(run string) {
	b.Helper()
	ends, err := filepath.Glob(filepath.Join(b.dir, "journal", run, "*-intent.[acf]*.json"))
	if err != nil || len(ends) == 0 {
		b.Fatalf("no file says that the run has ended: %v", err)
	}
	if err := os.Remove(ends[len(ends)-1]); err != nil {
		b.Fatal(err)
	}
}

func size(t *testing.T, name string) int64 {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// copied is a copy of a store's folder, as a machine finds it that lost power.
func copied(t *testing.T, b *bench) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), ".tipstaff")
	err := os.CopyFS(dir, os.DirFS(b.dir))
	for errors.Is(err, fs.ErrNotExist) { // a file was given its name meanwhile
		dir = filepath.Join(t.TempDir(), ".tipstaff")
		err = os.CopyFS(dir, os.DirFS(b.dir))
	}
	keys := filepath.Join(dir, "keys")
	if err := errors.Join(err, os.Chmod(keys, 0o700), os.Chmod(filepath.Join(keys, "user.key"), 0o600), os.Chmod(filepath.Join(keys, "executor.key"), 0o600)); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(folder(dir).database() + "-shm")
	return dir
}

// tornCopy is a copy of a store's folder in which the log ends at a byte.
func tornCopy(t *testing.T, b *bench, cut int64) string {
	t.Helper()
	dir := copied(t, b)
	if err := os.Truncate(folder(dir).database()+"-wal", cut); err != nil {
		t.Fatal(err)
	}
	return dir
}

// endedAt reports whether the run has ended in a store that was cut off there, and
// checks that the memory agrees.
func endedAt(t *testing.T, b *bench, cut int64, run string) (ended bool) {
	t.Helper()
	torn := benchIn(t, tornCopy(t, b, cut))
	torn.open(nil)
	defer torn.shut()
	ended = tipstaff.State(torn.MustRun(run).State).Terminal()
	want := []string{"remember", "remember"}
	if ended {
		want = append(want, "remember", "attest", "learn_weights")
	}
	if kinds, report := torn.MemoryKinds(), torn.CheckMemory(); !slices.Equal(kinds, want) || !report.OK() {
		t.Errorf("cut at %d, ended: %v, the log has %v: %+v", cut, ended, kinds, report)
	}
	return ended
}

// experienced is a store whose memory has five records.
func experienced(t *testing.T) *bench {
	b := newBench(t, nil)
	fact := b.RememberFact("it rains on Mondays") // 1
	l := b.MustAcquire(b.MustCreate())
	b.MustAppend(l, storetest.LeafEnd("root/a"))         // 2
	b.MustAppend(l, storetest.Citing("completed", fact)) // 3, 4
	b.RememberFact("something else")                     // 5
	b.MemorySound()
	return b
}

// harm changes the database behind the back of the store.
func (b *bench) harm(sql string) {
	b.Helper()
	c, err := connect(folder(b.dir).database(), readWrite)
	if err == nil {
		err = errors.Join(c.script(sql), c.close())
	}
	if err != nil {
		b.Fatal(err)
	}
}

func TestDamagedMemory(t *testing.T) {
	t.Parallel()
	b := experienced(t)
	for name, c := range map[string]struct {
		harm     string
		code     string
		seq      int64
		repaired bool // by a rebuild
	}{
		"a record is deleted":            {`DELETE FROM cortex_log WHERE seq = 2`, "gap", 3, false},
		"a record is edited":             {`UPDATE cortex_log SET bytes = CAST(replace(CAST(bytes AS TEXT), 'rains', 'pours') AS BLOB) WHERE seq = 1`, "hash", 1, false},
		"a hash is edited":               {`UPDATE cortex_log SET hash = zeroblob(32) WHERE seq = 3`, "hash", 3, false},
		"two records change places":      {`UPDATE cortex_log SET seq = -1 WHERE seq = 1; UPDATE cortex_log SET seq = 1 WHERE seq = 2; UPDATE cortex_log SET seq = 2 WHERE seq = -1`, "hash", 1, false},
		"a kind is edited":               {`UPDATE cortex_log SET kind = 'tombstone' WHERE seq = 1`, "hash", 1, false},
		"an event is another run's":      {`UPDATE cortex_log SET run = 0 WHERE seq = 2`, "hash", 2, false},
		"the last is cut off":            {`DELETE FROM cortex_log WHERE seq = 5`, "truncated", 4, false},
		"an end is cut off":              {`DELETE FROM cortex_log WHERE seq > 2; DELETE FROM cortex_items WHERE seq > 2; UPDATE cortex_items SET citations = 0, accesses = 0, last_use = created; UPDATE cortex_weights SET r = 250000000, a = 150000000, c = 300000000, d = 200000000, seq = 0`, "attest_missing", 3, false},
		"a run that ended is open again": {`UPDATE runs SET state = 'executing' WHERE n = 1`, "attest_unknown", 3, false},
		"an item is deleted":             {`DELETE FROM cortex_items WHERE seq = 1`, "item_mismatch", 1, true},
		"an item is edited":              {`UPDATE cortex_items SET citations = citations + 1 WHERE seq = 1`, "item_mismatch", 1, true},
		"an item is about another":       {`UPDATE cortex_items SET server = 'x' WHERE seq = 2`, "item_mismatch", 2, true},
		"an item is invented":            {`INSERT INTO cortex_items SELECT 4, type, run, skill, verb, server, importance, pinned, created, last_use, 0, 0, 0 FROM cortex_items WHERE seq = 1`, "item_mismatch", 4, true},
		"an item is forgotten":           {`UPDATE cortex_items SET tombstone = 5 WHERE seq = 1`, "item_mismatch", 1, true},
		"weights are edited":             {`UPDATE cortex_weights SET r = r + 1, a = a - 1`, "weights_mismatch", 4, true},
		"weights are gone":               {`DELETE FROM cortex_weights`, "weights_mismatch", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			torn := benchIn(t, copied(t, b))
			torn.harm(c.harm)
			torn.open(nil)
			defer torn.shut()
			found := torn.CheckMemory()
			problems := slices.Concat(found.Log.Problems, found.State.Problems)
			if !slices.ContainsFunc(problems, func(p tipstaff.Problem) bool { return p.Code == c.code && p.Seq == c.seq }) {
				t.Errorf("found %+v, want %s at %d", problems, c.code, c.seq)
			}
			after, err := torn.RebuildMemory(t.Context(), false)
			if err != nil || after.OK() != c.repaired || (after.Rebuilt > 0) != c.repaired {
				t.Errorf("put right: %+v: %v", after, err)
			}
		})
	}
	b.MemorySound()
}

func TestRebuildPutsRight(t *testing.T) {
	b := experienced(t)
	b.harm(`UPDATE cortex_items SET citations = 9 WHERE seq = 1; DELETE FROM cortex_items WHERE seq = 2; UPDATE cortex_weights SET r = 1`)
	if report := b.CheckMemory(); report.State.Total != 3 || !report.Log.OK || report.Rebuilt != 0 {
		t.Errorf("before: %+v", report)
	}
	report, err := b.RebuildMemory(t.Context(), false)
	if err != nil || !report.OK() || report.Rebuilt != 3 {
		t.Errorf("rebuilt: %+v: %v", report, err)
	}
	b.RememberFact("life goes on")
	b.MemorySound()
}
