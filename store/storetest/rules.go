package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// ZeroDigest is that of nothing that is stored.
const ZeroDigest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

// Body is that of a draft, as JSON.
func Body(format string, args ...any) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(format, args...))
}

func attest() flow.Draft {
	return flow.Draft{Kind: "intent.attest", From: "executor", Body: Body(`{"outcome":"success","outputs_digest":%q,"cited":[],"evidence":{}}`, ZeroDigest)}
}

// Gate opens a gate.
func Gate(id, path string) flow.Draft {
	return flow.Draft{Kind: "policy.gate", From: "executor", Path: path,
		Body: Body(`{"gate":%q,"gate_kind":"question","question":"?","subject":{},"actions":["approve","deny"],"deny":"deny","digest":%q}`, id, ZeroDigest)}
}

// Resolve decides a gate.
func Resolve(gate, action, via string) flow.Draft {
	d := flow.Draft{Kind: "policy.gate.resolve", From: "user"}
	on := ""
	switch via {
	case "expiry", "superseded", "run_ended":
		d.From, on = "executor", fmt.Sprintf(`,"on_behalf_of":"system:%s"`, via)
	}
	d.Body = Body(`{"gate":%q,"action":%q,"subject_digest":%q,"via":%q%s}`, gate, action, ZeroDigest, via, on)
	return d
}

// Step is what a leaf of a plan writes.
func Step(path string) flow.Draft {
	return flow.Draft{Kind: "effect.finished", Path: path, Body: Body(`{"attempt":1,"digest":%q,"name":"tool.call","value":{"text":"a result of some length, as tools give them, or so"}}`, ZeroDigest)}
}

// MustCreate makes a run that may be driven.
func (b *Bench) MustCreate() string {
	b.Helper()
	id := tipstaff.NewID(time.Now()).String()
	err := b.Create(context.Background(), flow.NewRun{ID: id, User: "local", Kind: "plan", Origin: "foreground", Program: ZeroDigest}, Begun(b.Keys()))
	if err != nil {
		b.Fatal(err)
	}
	return id
}

// MustCreateDraft is a run with one envelope, for tests of many.
func (b *Bench) MustCreateDraft() string {
	b.Helper()
	id := tipstaff.NewID(time.Now()).String()
	if err := b.Create(context.Background(), flow.NewRun{ID: id, User: "local"}, Begun(b.Keys())[:1]); err != nil {
		b.Fatal(err)
	}
	return id
}

// Me is whoever drives the runs of a Bench.
var Me = flow.Owner{Kind: "foreground", Host: "here", Pid: 42}

// MustAcquire takes the lease of a run.
func (b *Bench) MustAcquire(run string) flow.Lease {
	b.Helper()
	l, err := b.Acquire(context.Background(), run, Me)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// AppendErr appends and waits.
func AppendErr(s flow.Log, l flow.Lease, drafts ...flow.Draft) error {
	done := make(chan error, 1)
	s.Append(l, drafts, func(err error) { done <- err })
	return <-done
}

// MustAppend appends as the owner of a run.
func (b *Bench) MustAppend(l flow.Lease, drafts ...flow.Draft) {
	b.Helper()
	if err := AppendErr(b, l, drafts...); err != nil {
		b.Fatal(err)
	}
}

// MustWrite writes to a run without its lease.
func (b *Bench) MustWrite(run string, drafts ...flow.Draft) {
	b.Helper()
	if err := b.WriteDrafts(run, drafts...); err != nil {
		b.Fatal(err)
	}
}

// WriteDrafts is MustWrite for what may be refused.
func (b *Bench) WriteDrafts(run string, drafts ...flow.Draft) error {
	return b.Write(context.Background(), run, func(flow.Tx) ([]flow.Draft, error) { return drafts, nil })
}

// MustRun is the row of a run.
func (b *Bench) MustRun(run string) flow.Row {
	b.Helper()
	r, err := b.Run(context.Background(), run)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// MustRecords are all records of a run.
func (b *Bench) MustRecords(run string) []flow.Stored {
	b.Helper()
	r, err := b.Records(context.Background(), run, 0, 0)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// Kinds are those of the records of a run.
func (b *Bench) Kinds(run string) (kinds []string) {
	b.Helper()
	for _, r := range b.MustRecords(run) {
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

// MustVerify checks a run as an outsider would: numbering, chain, signatures, and
// that the row agrees.
func (b *Bench) MustVerify(run string) {
	b.Helper()
	keys, err := b.PublicKeys(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	row := b.MustRun(run)
	head, err := journal.ParseHash(row.HeadHash)
	if err != nil {
		b.Fatal(err)
	}
	v := journal.NewVerifier(&journal.Options{
		Run: run, Trusted: keys, Open: true, State: row.State, Heads: []journal.Head{{Seq: row.Head, Hash: head, Of: "the row"}},
		Kinds:     func(kind string) bool { return tipstaff.KnownKind(tipstaff.Kind(kind)) },
		Lifecycle: lifecycle,
	})
	for _, r := range b.MustRecords(run) {
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

func testManyRunsAtOnce(t *testing.T, place Place) {
	t.Parallel()
	b := place.Bench(t, nil)
	const runs, steps = 200, 10
	ids := make([]string, runs)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			ids[i] = b.MustCreateDraft()
			l := b.MustAcquire(ids[i])
			for n := range steps {
				if err := AppendErr(b, l, Step(fmt.Sprintf("root/%d", n))); err != nil {
					t.Error(err)
				}
			}
			if err := AppendErr(b, l, Gate("G1", "root/ok")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if got := len(b.MustRecords(id)); got != 1+1+steps+1 {
			t.Fatalf("run %s has %d records", id, got)
		}
		b.MustVerify(id)
	}
}
