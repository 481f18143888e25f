package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
)

// bench is a store in a folder of its own that can be closed and opened again.
type bench struct {
	testing.TB
	*Store
	dir string
}

func newBench(t testing.TB, o *Options) *bench {
	t.Helper()
	b := &bench{TB: t, dir: filepath.Join(t.TempDir(), ".tipstaff")}
	b.open(o)
	t.Cleanup(func() {
		if b.Store != nil {
			b.shut()
		}
	})
	return b
}

func (b *bench) open(o *Options) {
	b.Helper()
	if o == nil {
		o = &Options{}
	}
	o.UserKey = !o.ReadOnly
	s, err := Open(b.dir, o)
	if err != nil {
		b.Fatal(err)
	}
	b.Store = s
}

func (b *bench) shut() {
	b.Helper()
	if err := b.Close(); err != nil {
		b.Error(err)
	}
	b.Store = nil
}

func (b *bench) reopen(o *Options) {
	b.Helper()
	b.shut()
	b.open(o)
}

const zeroDigest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

func body(format string, args ...any) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(format, args...))
}

// begun are the records of a given program: drafted, compiled, accepted, taking
// effect.
func (b *bench) begun() []flow.Draft {
	keys := b.Keys()
	return []flow.Draft{
		{Kind: "intent.draft", From: "executor", Body: body(`{"program_kind":"plan","program_digest":%q,"inputs":{},"bounds":{},"user":"local","origin":"foreground","keys":{"user":%q,"executor":%q},"frozen":{}}`,
			zeroDigest, keys.User, keys.Executor)},
		{Kind: "intent.compiled", From: "executor", Body: body(`{"attempts":0}`)},
		{Kind: "intent.accept", From: "user", Body: body(`{"intent_hash":%q,"program_digest":%q,"revision":1,"bounds":{},"via":"command"}`, zeroDigest, zeroDigest)},
		{Kind: "plan.proposed", From: "executor", Body: body(`{"intent_hash":%q,"program_digest":%q,"revision":1,"accepted_by":"x"}`, zeroDigest, zeroDigest)},
	}
}

func attest() flow.Draft {
	return flow.Draft{Kind: "intent.attest", From: "executor", Body: body(`{"outcome":"success","outputs_digest":%q,"cited":[],"evidence":{}}`, zeroDigest)}
}

func gate(id, path string) flow.Draft {
	return flow.Draft{Kind: "policy.gate", From: "executor", Path: path,
		Body: body(`{"gate":%q,"gate_kind":"question","question":"?","subject":{},"actions":["approve","deny"],"deny":"deny","digest":%q}`, id, zeroDigest)}
}

func resolve(gate, action, via string) flow.Draft {
	d := flow.Draft{Kind: "policy.gate.resolve", From: "user"}
	on := ""
	switch via {
	case "expiry", "superseded", "run_ended":
		d.From, on = "executor", fmt.Sprintf(`,"on_behalf_of":"system:%s"`, via)
	}
	d.Body = body(`{"gate":%q,"action":%q,"subject_digest":%q,"via":%q%s}`, gate, action, zeroDigest, via, on)
	return d
}

func step(path string) flow.Draft {
	return flow.Draft{Kind: "effect.finished", Path: path, Body: body(`{"attempt":1,"digest":%q,"name":"tool.call","value":{"text":"a result of some length, as tools give them, or so"}}`, zeroDigest)}
}

func (b *bench) create() string {
	b.Helper()
	id := tipstaff.NewID(time.Now()).String()
	err := b.Create(context.Background(), flow.NewRun{ID: id, User: "local", Kind: "plan", Origin: "foreground", Program: zeroDigest}, b.begun())
	if err != nil {
		b.Fatal(err)
	}
	return id
}

// createDraft is a run with one envelope, for tests of many.
func (b *bench) createDraft() string {
	b.Helper()
	id := tipstaff.NewID(time.Now()).String()
	if err := b.Create(context.Background(), flow.NewRun{ID: id, User: "local"}, b.begun()[:1]); err != nil {
		b.Fatal(err)
	}
	return id
}

var me = flow.Owner{Kind: "foreground", Host: "here", Pid: 42}

func (b *bench) acquire(run string) flow.Lease {
	b.Helper()
	l, err := b.Acquire(context.Background(), run, me)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// appendErr appends and waits.
func appendErr(s flow.Log, l flow.Lease, drafts ...flow.Draft) error {
	done := make(chan error, 1)
	s.Append(l, drafts, func(err error) { done <- err })
	return <-done
}

func (b *bench) append(l flow.Lease, drafts ...flow.Draft) {
	b.Helper()
	if err := appendErr(b, l, drafts...); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) write(run string, drafts ...flow.Draft) {
	b.Helper()
	if err := b.writeErr(run, drafts...); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) writeErr(run string, drafts ...flow.Draft) error {
	return b.Write(context.Background(), run, func(flow.Tx) ([]flow.Draft, error) { return drafts, nil })
}

func (b *bench) row(run string) flow.Row {
	b.Helper()
	r, err := b.Run(context.Background(), run)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func (b *bench) records(run string) []flow.Stored {
	b.Helper()
	r, err := b.Records(context.Background(), run, 0, 0)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func (b *bench) kinds(run string) (kinds []string) {
	b.Helper()
	for _, r := range b.records(run) {
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

// verify checks a run as an outsider would: numbering, chain, signatures, and
// that the row agrees.
func (b *bench) verify(run string) {
	b.Helper()
	keys, err := b.PublicKeys(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	row := b.row(run)
	head, err := journal.ParseHash(row.HeadHash)
	if err != nil {
		b.Fatal(err)
	}
	v := journal.NewVerifier(&journal.Options{
		Run: run, Trusted: keys, Open: true, State: row.State, Heads: []journal.Head{{Seq: row.Head, Hash: head, Of: "the row"}},
		Kinds:     func(kind string) bool { return tipstaff.KnownKind(tipstaff.Kind(kind)) },
		Lifecycle: lifecycle,
	})
	for _, r := range b.records(run) {
		hash := journal.Hash(r.Hash)
		v.Add(r.Bytes, &hash)
	}
	if result := v.Close(); !result.OK() {
		b.Fatalf("run %s: %v", run, result.Faults)
	}
}

func lifecycle(state string, e journal.Record) string {
	id, _ := tipstaff.ParseID(e.Run)
	m := tipstaff.Machine{Run: id, State: tipstaff.State(state)}
	_ = m.Apply(&tipstaff.Event{Kind: tipstaff.Kind(e.Kind), Run: id, Body: e.Body}) // not every kind drives
	return string(m.State)
}

func TestManyRunsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	const runs, steps = 200, 10
	ids := make([]string, runs)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			ids[i] = b.createDraft()
			l := b.acquire(ids[i])
			for n := range steps {
				if err := appendErr(b, l, step(fmt.Sprintf("root/%d", n))); err != nil {
					t.Error(err)
				}
			}
			if err := appendErr(b, l, gate("G1", "root/ok")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if got := len(b.records(id)); got != 1+1+steps+1 {
			t.Fatalf("run %s has %d records", id, got)
		}
		b.verify(id)
	}
}

// What others could read of runs is taken from them, also where the folder was there
// before.
func TestStoreIsForItsOwnerAlone(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"an open folder": func(dir string) error { return os.Mkdir(dir, 0o755) },
		"an open store": func(dir string) error {
			s, err := Open(dir, nil)
			if err != nil {
				return err
			}
			return errors.Join(s.Close(), os.Chmod(dir, 0o755), os.Chmod(filepath.Join(dir, "tipstaff.db"), 0o644), os.Chmod(filepath.Join(dir, "blobs"), 0o777))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), ".tipstaff")
			if err := prepare(dir); err != nil {
				t.Fatal(err)
			}
			s, err := Open(dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for name, most := range map[string]os.FileMode{"": 0o700, "blobs": 0o700, "journal": 0o700, "tipstaff.db": 0o600, "tipstaff.db-wal": 0o600, "tipstaff.db-shm": 0o600} {
				info, err := os.Stat(filepath.Join(dir, name))
				if err != nil || info.Mode().Perm()&^most != 0 {
					t.Errorf("%q: %v, %v", name, info.Mode(), err)
				}
			}
		})
	}
}

// Readers see every write that was acknowledged, whoever made it, and go on while
// others read, while connections give their pages back, and until the store is closed.
func TestReadersSeeWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	run := b.create()
	stores := []*bench{b, {TB: t, dir: b.dir}, {TB: t, dir: b.dir}}
	stores[1].open(nil)
	stores[2].open(&Options{ReadOnly: true})
	var acknowledged atomic.Int64
	var reading sync.WaitGroup
	for _, s := range stores {
		for range 2 {
			reading.Go(func() {
				for {
					least := acknowledged.Load()
					row, err := s.Run(context.Background(), run)
					if errors.Is(err, store.ErrClosed) {
						return
					}
					if err != nil || row.Head < least {
						t.Errorf("record %d was read as the last, %d was acknowledged: %v", row.Head, least, err)
						return
					}
				}
			})
		}
	}
	l := b.acquire(run)
	for n := range 100 {
		b.append(l, step(fmt.Sprint("root/", n)))
		acknowledged.Store(int64(6 + n)) // after what began the run
		b.db.readers.shrink()
	}
	for _, s := range stores {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	reading.Wait()
	b.Store = nil
}
