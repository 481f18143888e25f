package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// other is a second store in the folder of the first, as of another process.
func (b *bench) other(o *Options) *bench {
	b.Helper()
	second := &bench{TB: b.TB, dir: b.dir}
	second.open(o)
	b.Cleanup(second.shut)
	return second
}

// newest is the last run of an Envelope, as clients ask for it.
func (b *bench) newest(envelope string) flow.Row {
	b.Helper()
	rows, err := b.Runs(context.Background(), flow.Query{Envelope: envelope, Limit: 1})
	if err != nil || len(rows) != 1 {
		b.Fatalf("the newest run of %s: %v, %v", envelope, rows, err)
	}
	return rows[0]
}

// What a lookup remembers ends with the next commit, whoever makes it.
func TestLookUpIsNeverStale(t *testing.T) {
	b := newBench(t, nil)
	run := b.mustPipeline(flow.NewRun{User: "ann", Envelope: "env_1"})
	lease := b.acquire(run)
	readers := []*bench{b, b.other(nil), b.other(&Options{ReadOnly: true})}
	for n := range 200 {
		head := b.row(run).Head
		b.append(lease, step(fmt.Sprint("root/s", n)))
		for i, r := range readers {
			for range 2 { // read, and remembered
				if got := r.row(run).Head; got != head+1 {
					t.Fatalf("store %d has record %d as the last of the run; %d was written", i, got, head+1)
				}
				if got := r.newest("env_1"); got.ID != run || got.Head != head+1 {
					t.Fatalf("store %d has record %d of run %s as the last of the Envelope; %d of %s was written", i, got.Head, got.ID, head+1, run)
				}
			}
		}
	}
	b.append(lease, attest())
	next := readers[1].mustPipeline(flow.NewRun{User: "ann", Envelope: "env_1", After: run})
	for i, r := range readers {
		if got := r.newest("env_1").ID; got != next {
			t.Errorf("store %d has %s as the newest run; %s was made after %s", i, got, next, run)
		}
	}
}

// A run that is not there is looked for again.
func TestLookUpFindsWhatWasMissing(t *testing.T) {
	b := newBench(t, nil)
	if rows, err := b.Runs(context.Background(), flow.Query{Envelope: "env_1", Limit: 1}); err != nil || len(rows) != 0 {
		t.Fatalf("an Envelope without runs: %v, %v", rows, err)
	}
	if _, err := b.Run(context.Background(), "01ARZ3NDEKTSV4RRFFQ69G5FAV"); !errors.Is(err, flow.ErrNoRun) {
		t.Fatalf("a run that is not there: %v", err)
	}
	run := b.mustPipeline(flow.NewRun{User: "ann", Envelope: "env_1"})
	if got := b.newest("env_1").ID; got != run {
		t.Errorf("the newest run is %s, not %s", got, run)
	}
}

// Whoever asks has a list of their own, and one who is not the owner sees nothing of it.
func TestLookUpIsNotShared(t *testing.T) {
	b := newBench(t, nil)
	run := b.mustPipeline(flow.NewRun{User: "ann", Envelope: "env_1"})
	q := flow.Query{Envelope: "env_1", User: "ann", Limit: 1}
	rows, err := b.Runs(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	rows[0].ID = "changed"
	if got := b.find(q); !slices.Equal(got, []string{run}) {
		t.Errorf("what one reader changed another sees: %v", got)
	}
	q.User = "bob"
	if got := b.find(q); len(got) != 0 {
		t.Errorf("bob sees %v", got)
	}
}

// What is remembered stays small, and readers at once see every write that was
// acknowledged.
func TestLookUpOfMany(t *testing.T) {
	b := newBench(t, nil)
	run := b.create()
	for range manyRecent + 10 {
		b.row(b.createDraft())
	}
	var reading sync.WaitGroup
	lease := b.acquire(run)
	stop, written := make(chan struct{}), make(chan int64)
	for range 2 * readers {
		reading.Go(func() {
			last := int64(0)
			for {
				select {
				case head := <-written:
					last = max(last, head)
				case <-stop:
					return
				default:
				}
				row, err := b.Run(context.Background(), run)
				if err != nil || row.Head < last {
					t.Errorf("record %d was read as the last after %d had been: %v", row.Head, last, err)
					return
				}
				last = row.Head
			}
		})
	}
	for n := range 300 {
		b.append(lease, step(fmt.Sprint("root/s", n)))
		select {
		case written <- b.row(run).Head:
		default:
		}
	}
	close(stop)
	reading.Wait()
	b.readers.mu.Lock()
	defer b.readers.mu.Unlock()
	if len(b.readers.idle) == 0 {
		t.Error("no connection came back")
	}
	for _, c := range b.readers.idle {
		if len(c.recent) > manyRecent {
			t.Errorf("a connection remembers %d lookups", len(c.recent))
		}
	}
}
