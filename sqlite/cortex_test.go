package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cortex"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
)

// leafEnd is the record of a leaf that has ended, with what is remembered of it.
func leafEnd(path string) flow.Draft {
	return flow.Draft{Kind: "plan.step", Path: path, N: 1, Body: body(`{"node":"x","status":"completed"}`), Memo: &flow.Memo{
		Kind: "tool_call", Tool: "mcp://files/read@1.0.0", Outcome: "completed", Summary: path + " completed", Digest: zeroDigest,
		Skill: "skill://s@1.0.0", Verb: "build", Server: "files"}}
}

// terminals are the three ways in which a run ends.
var terminals = map[string]flow.Draft{
	"completed": {Kind: "intent.attest", From: "executor", Body: body(`{"outcome":"success","outputs_digest":%q,"cited":[],"evidence":{}}`, zeroDigest)},
	"failed":    {Kind: "intent.fail", From: "executor", Body: body(`{"reason":"tool_error","message":"m","cited":[],"evidence":{}}`)},
	"cancelled": {Kind: "intent.cancel", From: "executor", Body: body(`{"reason":"r","via":"command","cited":[],"evidence":{},"on_behalf_of":"local:cli"}`)},
}

// citing is an end that cites items.
func citing(kind string, cited ...string) flow.Draft {
	d := terminals[kind]
	d.Body = json.RawMessage(strings.Replace(string(d.Body), `"cited":[]`, `"cited":`+string(flow.JSON(cited)), 1))
	return d
}

func (b *bench) memoryLog() (records []cortex.Record) {
	b.Helper()
	stored, err := b.MemoryLog(context.Background(), 0, 1<<30)
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range stored {
		r, err := cortex.ParseRecord(s.Bytes)
		if err != nil {
			b.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

func (b *bench) memoryKinds() (kinds []string) {
	for _, r := range b.memoryLog() {
		kinds = append(kinds, r.Kind())
	}
	return kinds
}

func (b *bench) checkMemory() tipstaff.MemoryReport {
	b.Helper()
	report, err := b.RebuildMemory(context.Background(), true)
	if err != nil {
		b.Fatal(err)
	}
	return report
}

func (b *bench) memorySound() {
	b.Helper()
	if report := b.checkMemory(); !report.OK() {
		b.Errorf("the memory: %+v", report)
	}
}

func (b *bench) item(u string) tipstaff.MemoryItem {
	b.Helper()
	parsed, err := cortex.ParseURI(u)
	if err != nil {
		b.Fatal(err)
	}
	m, ok, err := b.MemoryItem(context.Background(), parsed)
	if err != nil || !ok {
		b.Fatalf("%s is not there: %v", u, err)
	}
	return m
}

func (b *bench) rememberFact(text string) string {
	b.Helper()
	u, err := b.Remember(context.Background(), "fact", cortex.Remember{By: "local:cli", Importance: 5, Text: text})
	if err != nil {
		b.Fatal(err)
	}
	return u.String()
}

// ending is what the last record of a run says about the memory.
type ending struct {
	Cited    []string `json:"cited"`
	Evidence struct {
		Cortex cortex.Place `json:"cortex"`
	} `json:"evidence"`
}

func (b *bench) ending(run string) (e ending) {
	b.Helper()
	records := b.records(run)
	r, err := journal.Parse(records[len(records)-1].Bytes)
	if err == nil {
		err = json.Unmarshal(r.Body, &e)
	}
	if err != nil {
		b.Fatal(err)
	}
	return e
}

func TestLeavesAndEndsAreRemembered(t *testing.T) {
	t.Parallel()
	outcomes := map[string]string{"completed": cortex.Success, "failed": cortex.Failure, "cancelled": cortex.Cancelled}
	for name, end := range terminals {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			run := b.create()
			l := b.acquire(run)
			b.append(l, step("root/a"), leafEnd("root/a"))
			b.append(l, leafEnd("root/b"), end)
			b.verify(run)
			if got, want := b.memoryKinds(), []string{"remember", "remember", "attest", "learn_weights"}; !slices.Equal(got, want) {
				t.Fatalf("the log has %v", got)
			}
			log := b.memoryLog()
			a := log[2].Body.(*cortex.Attest)
			if a.Outcome != outcomes[name] || log[2].Run != run || !time.Time(a.Began).Equal(b.row(run).Created) {
				t.Errorf("attested: %+v", a)
			}
			first, _ := log[0].Item()
			second, _ := log[1].Item()
			e := b.ending(run)
			if e.Evidence.Cortex != (cortex.Place{AttestSeq: 3, LearnSeq: 4}) || !slices.Equal(e.Cited, []string{first.Item, second.Item}) {
				t.Errorf("the envelope says %+v", e)
			}
			want := tipstaff.MemoryItem{Item: first.Item, Type: "event", Text: "root/a completed", Importance: 3, By: "executor", Seq: 1, CreatedAt: log[0].At,
				Skill: "skill://s@1.0.0", Verb: "build", Server: "files", Run: mustParse(t, run), Path: "root/a", Kind: "tool_call",
				Tool: "mcp://files/read@1.0.0", Outcome: "completed", Digest: zeroDigest, LastUsedAt: log[0].At}
			if got := b.item(first.Item); got != want {
				t.Errorf("remembered %+v\nwant %+v", got, want)
			}
			b.memorySound()
		})
	}
}

func mustParse(t *testing.T, run string) tipstaff.ID {
	t.Helper()
	id, err := tipstaff.ParseID(run)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A run that nobody drives is ended by a writer without a lease.
func TestEndsWithoutAnOwnerAreRemembered(t *testing.T) {
	b := newBench(t, nil)
	run := b.create()
	b.write(run, terminals["cancelled"])
	if e := b.ending(run); e.Evidence.Cortex.AttestSeq != 1 {
		t.Errorf("the envelope says %+v", e)
	}
	if err := b.writeErr(run, terminals["failed"]); !errors.Is(err, flow.ErrEnded) {
		t.Errorf("a second end: %v", err)
	}
	if got := b.memoryKinds(); len(got) != 2 {
		t.Errorf("the log has %v", got)
	}
	b.memorySound()
}

func TestARunLearnsFromWhatItWasGiven(t *testing.T) {
	b := newBench(t, nil)
	fact := b.rememberFact("it rains on Mondays")
	before := b.item(fact)
	good, bad, neutral := b.create(), b.create(), b.create()
	b.write(good, citing("completed", fact))
	raised := b.item(fact)
	if raised.Citations != 1 || raised.Accesses != 1 || !raised.LastUsedAt.After(before.LastUsedAt) {
		t.Errorf("after a success: %+v", raised)
	}
	w, err := b.MemoryWeights(t.Context())
	if err != nil || w == cortex.Cold || w[4] != cortex.Cold[4] {
		t.Errorf("weights %v: %v", w, err)
	}
	b.write(neutral, citing("failed", fact))
	if w2, _ := b.MemoryWeights(t.Context()); w2 != w {
		t.Errorf("a tool_error moved the weights to %v", w2)
	}
	if m := b.item(fact); m.Citations != 1 || !m.LastUsedAt.After(raised.LastUsedAt) {
		t.Errorf("after a tool_error: %+v", m)
	}
	d := citing("failed", fact)
	d.Body = json.RawMessage(strings.Replace(string(d.Body), "tool_error", "wrong_assumption", 1))
	b.write(bad, d)
	if m := b.item(fact); m.Citations != 0 || m.Accesses != 1 {
		t.Errorf("after a wrong assumption: %+v", m)
	}
	b.memorySound()
}

// What a run's children leave behind, it cites too.
func TestChildrensEventsAreCited(t *testing.T) {
	b := newBench(t, nil)
	parent, child := b.create(), b.create()
	l := b.acquire(parent)
	b.append(l, flow.Draft{Kind: "intent.dispatch", From: "executor", Path: "root/sub",
		Body: body(`{"child":%q,"skill":"skill://s@1.0.0","skill_digest":%q,"bounds":{}}`, child, zeroDigest)})
	cl := b.acquire(child)
	b.append(cl, leafEnd("root/x"), terminals["completed"])
	b.append(l, leafEnd("root/sub"), terminals["completed"])
	if e := b.ending(parent); len(e.Cited) != 2 || e.Cited[1] != b.ending(child).Cited[0] {
		t.Errorf("the parent cites %v, the child %v", e.Cited, b.ending(child).Cited)
	}
	b.memorySound()
}

func TestForget(t *testing.T) {
	b := newBench(t, nil)
	fact := b.rememberFact("it rains on Mondays")
	u, _ := cortex.ParseURI(fact)
	for range 2 { // the second time changes nothing
		if ok, err := b.Forget(t.Context(), u, "local:cli"); !ok || err != nil {
			t.Fatalf("%v, %v", ok, err)
		}
	}
	if got := b.memoryKinds(); !slices.Equal(got, []string{"remember", "tombstone"}) {
		t.Errorf("the log has %v", got)
	}
	if items, err := b.MemoryItems(t.Context(), tipstaff.MemoryQuery{}); len(items) != 0 || err != nil {
		t.Errorf("listed: %v, %v", items, err)
	}
	if !b.item(fact).Forgotten {
		t.Error("the item is not marked")
	}
	if ok, err := b.Forget(t.Context(), cortex.NewURI("fact", time.Now(), 99), "local:cli"); ok || err != nil {
		t.Errorf("an unknown item: %v, %v", ok, err)
	}
	b.memorySound()
}

// An append that is refused leaves nothing in the log of the memory, and no gap.
func TestRefusedAppendsLeaveNoGap(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	const runs = 20
	leases := make([]flow.Lease, runs)
	for i := range leases {
		leases[i] = b.acquire(b.create())
	}
	b.harm(fmt.Sprintf(`CREATE TRIGGER faulty BEFORE INSERT ON records WHEN new.kind = 'intent.attest' AND new.run = (SELECT n FROM runs WHERE id = '%s')
		BEGIN SELECT RAISE(ABORT, 'mine'); END`, leases[7].Run))
	var all sync.WaitGroup
	for i, l := range leases {
		all.Add(1)
		b.Append(l, []flow.Draft{leafEnd("root/a"), terminals["completed"]}, func(err error) {
			if (err != nil) != (i == 7) {
				t.Errorf("run %d: %v", i, err)
			}
			all.Done()
		})
	}
	all.Wait()
	if got := len(b.memoryLog()); got != 3*(runs-1) {
		t.Errorf("the log has %d records", got)
	}
	b.memorySound()
	b.harm(`DROP TRIGGER faulty`)
	b.append(leases[7], leafEnd("root/a"))
	if err := appendErr(b, leases[7], flow.Draft{Kind: "intent.attest", From: "user", Body: terminals["completed"].Body}); err == nil {
		t.Error("a user attested")
	}
	b.append(leases[7], terminals["completed"])
	b.memorySound()
}

// Two stores on one folder, as two processes have them, share one log.
func TestTwoStoresShareTheMemory(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	other := &bench{TB: t, dir: b.dir}
	other.open(nil)
	defer other.shut()
	var all sync.WaitGroup
	for _, s := range []*bench{b, other} {
		all.Go(func() {
			for range 10 {
				run := s.create()
				l := s.acquire(run)
				s.append(l, leafEnd("root/a"))
				s.append(l, leafEnd("root/b"), terminals["completed"])
			}
		})
	}
	all.Wait()
	if got := len(b.memoryLog()); got != 80 {
		t.Errorf("the log has %d records", got)
	}
	b.memorySound()
}

// The log of the database cut after each of its pages is what a machine finds
// that lost power there: a run has ended, and then has one attest with its
// learn_weights right after it, or it has not, and then there is neither.
func TestPowerLossAroundTheEnd(t *testing.T) {
	t.Parallel()
	for name, end := range terminals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			fact := b.rememberFact("something to cite")
			run := b.create()
			l := b.acquire(run)
			b.append(l, leafEnd("root/a"))
			if err := b.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			wal := b.db.dir.database() + "-wal"
			before := size(t, wal)
			end := end
			end.Body = citing(name, fact).Body
			b.append(l, leafEnd("root/b"), end)
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
			torn := &bench{TB: t, dir: tornCopy(t, b, last)}
			torn.open(nobodyLives())
			defer torn.shut()
			torn.append(torn.acquire(run), end)
			torn.memorySound()
			if got := torn.memoryKinds(); !slices.Equal(got, []string{"remember", "remember", "attest", "learn_weights"}) {
				t.Errorf("the log has %v", got)
			}
		})
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
	torn := &bench{TB: t, dir: tornCopy(t, b, cut)}
	torn.open(nil)
	defer torn.shut()
	ended = tipstaff.State(torn.row(run).State).Terminal()
	want := []string{"remember", "remember"}
	if ended {
		want = append(want, "remember", "attest", "learn_weights")
	}
	if kinds, report := torn.memoryKinds(), torn.checkMemory(); !slices.Equal(kinds, want) || !report.OK() {
		t.Errorf("cut at %d, ended: %v, the log has %v: %+v", cut, ended, kinds, report)
	}
	return ended
}

// experienced is a store whose memory has five records.
func experienced(t *testing.T) *bench {
	b := newBench(t, nil)
	fact := b.rememberFact("it rains on Mondays") // 1
	l := b.acquire(b.create())
	b.append(l, leafEnd("root/a"))         // 2
	b.append(l, citing("completed", fact)) // 3, 4
	b.rememberFact("something else")       // 5
	b.memorySound()
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
			torn := &bench{TB: t, dir: copied(t, b)}
			torn.harm(c.harm)
			torn.open(nil)
			defer torn.shut()
			found := torn.checkMemory()
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
	b.memorySound()
}

func TestRebuildPutsRight(t *testing.T) {
	b := experienced(t)
	b.harm(`UPDATE cortex_items SET citations = 9 WHERE seq = 1; DELETE FROM cortex_items WHERE seq = 2; UPDATE cortex_weights SET r = 1`)
	if report := b.checkMemory(); report.State.Total != 3 || !report.Log.OK || report.Rebuilt != 0 {
		t.Errorf("before: %+v", report)
	}
	report, err := b.RebuildMemory(t.Context(), false)
	if err != nil || !report.OK() || report.Rebuilt != 3 {
		t.Errorf("rebuilt: %+v: %v", report, err)
	}
	b.rememberFact("life goes on")
	b.memorySound()
}

// Of all that is remembered only a part is looked at: it must be the right one.
func TestRecollectMissesNothing(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	now := time.Now()
	b := newBench(t, &Options{Options: store.Options{Now: func() time.Time { now = now.Add(time.Minute); return now }}})
	pick := func(names ...string) string { return names[dice.IntN(len(names))] }
	var cited []string
	for range 12 {
		l := b.acquire(b.create())
		for i := range 8 {
			d := leafEnd(fmt.Sprintf("root/%d", i))
			d.Memo.Skill, d.Memo.Verb, d.Memo.Server = pick("", "s"), pick("", "v", "w"), pick("", "files", "other")
			b.append(l, d)
		}
		u, err := b.Remember(t.Context(), "fact", cortex.Remember{By: "me", Text: "x", Importance: dice.IntN(11), Pinned: dice.IntN(8) == 0, Server: pick("", "files", "other")})
		if err != nil {
			t.Fatal(err)
		}
		cited = append(cited, u.String(), cortex.NewURI("event", now, 0).String())
		items, err := b.MemoryItems(t.Context(), tipstaff.MemoryQuery{Type: "event"})
		if err != nil {
			t.Fatal(err)
		}
		cited = append(cited, items[dice.IntN(len(items))].Item)
		b.append(l, terminals["failed"])
		b.write(b.create(), citing(pick("completed", "failed"), cited[dice.IntN(len(cited)):]...))
	}
	all, err := b.MemoryItems(t.Context(), tipstaff.MemoryQuery{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := b.MemoryWeights(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, req := range []tipstaff.RecallRequest{{}, {Server: "files"}, {Verb: "w"}, {Skill: "s"}, {Skill: "s", Verb: "v", Server: "other"}, {Server: "none"}} {
		some, err := b.Recollect(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := w.Recall(some, req, now), w.Recall(all, req, now); !slices.Equal(got, want) || len(want) == 0 {
			t.Errorf("%+v: recalled %v\nwant %v", req, got, want)
		}
	}
	b.memorySound()
}

// Every item has its row from the moment it is remembered.
func TestEventsAreThereAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	fact := b.rememberFact("older than all of them")
	l := b.acquire(b.create())
	b.append(l, leafEnd("root/0"), leafEnd("root/1"), leafEnd("root/2"))
	b.memorySound()
	all, err := b.MemoryItems(t.Context(), tipstaff.MemoryQuery{})
	if err != nil || len(all) != 4 || all[0].Path != "root/2" || all[2].Path != "root/0" || all[3].Item != fact {
		t.Errorf("listed: %+v, %v", all, err)
	}
	for _, c := range []struct {
		query tipstaff.MemoryQuery
		want  int
	}{{tipstaff.MemoryQuery{Limit: 2}, 2}, {tipstaff.MemoryQuery{Type: "event"}, 3}, {tipstaff.MemoryQuery{Type: "fact", Limit: 1}, 1}} {
		if some, err := b.MemoryItems(t.Context(), c.query); len(some) != c.want || err != nil {
			t.Errorf("%+v lists %+v, %v", c.query, some, err)
		}
	}
	if m := b.item(all[1].Item); m != all[1] {
		t.Errorf("looked up: %+v, want %+v", m, all[1])
	}
	found, err := b.Recollect(t.Context(), tipstaff.RecallRequest{Verb: "build"})
	if err != nil || len(found) != 4 {
		t.Errorf("recollected: %+v, %v", found, err)
	}
	b.append(l, terminals["completed"])
	after, err := b.MemoryItems(t.Context(), tipstaff.MemoryQuery{Type: "event"})
	if err != nil || len(after) != 3 || after[1] != all[1] {
		t.Errorf("listed: %+v, %v", after, err)
	}
	b.memorySound()
}
