package sqlite

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store"
)

func TestWatchSeesWhatTheOwnerDidNotWrite(t *testing.T) {
	b := newBench(t, nil)
	run, other := b.create(), b.create()
	l := b.acquire(run)
	b.append(l, gate("G1", "root/a"), gate("G2", "root/b"))
	seen := make(chan string, 20)
	stop := b.Watch(run, func(r flow.Record) { seen <- fmt.Sprint(r.Seq, " ", r.Kind) })
	b.write(run, flow.Draft{Kind: "run.cancel_requested"})
	b.append(l, step("root/x"), resolve("G1", "deny", "expiry"))
	b.write(other, flow.Draft{Kind: "run.cancel_requested"})
	b.write(run, resolve("G2", "approve", "command"))
	for _, want := range []string{"8 run.cancel_requested", "10 policy.gate.resolve", "11 policy.gate.resolve"} {
		if got := <-seen; got != want {
			t.Fatalf("seen %s, want %s", got, want)
		}
	}
	stop()
	b.write(run, flow.Draft{Kind: "run.cancel_requested"})
	b.shut() // nothing is left to be told
	if len(seen) > 0 {
		t.Fatalf("seen after stop: %s", <-seen)
	}
}

// A watcher that blocks, and one that stops itself, do not hold up the writer.
func TestWatchersCannotHoldUpTheWriter(t *testing.T) {
	b := newBench(t, nil)
	run := b.create()
	l := b.acquire(run)
	entered, release := make(chan struct{}), make(chan struct{})
	var stop func()
	stop = b.Watch(run, func(flow.Record) { stop(); close(entered); <-release })
	b.write(run, flow.Draft{Kind: "run.cancel_requested"})
	<-entered
	if parked, err := b.Park(l, flow.Parking{}); err != nil || parked {
		t.Fatalf("parked %v: %v", parked, err)
	}
	close(release)
	b.append(l, step("a"))
}

func TestFollowIsCoalesced(t *testing.T) {
	b := newBench(t, nil)
	run := b.create()
	l := b.acquire(run)
	changed, stop := b.Follow(run)
	for i := range 20 {
		b.append(l, step(fmt.Sprint(i)))
	}
	<-changed
	if n := len(changed); n > 1 {
		t.Fatalf("%d signals wait", n)
	}
	stop()
	for len(changed) > 0 {
		<-changed
	}
	b.append(l, step("last"))
	if len(changed) > 0 {
		t.Fatal("signalled after stop")
	}
}

func TestInboxIsPruned(t *testing.T) {
	c := &clock{now: time.Now()}
	b := newBench(t, &Options{Options: store.Options{Now: c.Now}})
	held, free := b.create(), b.create()
	b.acquire(held)
	b.write(held, flow.Draft{Kind: "run.cancel_requested"})
	b.write(free, flow.Draft{Kind: "run.cancel_requested"})
	c.pass(time.Hour)
	b.write(free, flow.Draft{Kind: "run.cancel_requested"})
	if err := b.db.Do(t.Context(), &store.Op{Apply: (*store.Tx).Prune}); err != nil {
		t.Fatal(err)
	}
	var left []string
	err := b.db.Query(t.Context(), func(r store.Row) error {
		left = append(left, fmt.Sprint(r.Text(0) == held, r.Int(1)))
		return nil
	}, `SELECT r.id, i.seq FROM inbox i JOIN runs r ON r.n = i.run ORDER BY i.id`)
	// Of the run that is held everything stays, of the other what is young.
	if want := []string{"true 1", "true 2", "true 3", "true 4", "true 6", "false 6"}; err != nil || !slices.Equal(left, want) {
		t.Fatalf("left: %v %v", left, err)
	}
}

// With a thousand idle runs the poll costs next to nothing.
func TestPollIsCheap(t *testing.T) {
	b := newBench(t, nil)
	for i := range 1000 {
		defer b.Watch(fmt.Sprint("run ", i), func(flow.Record) {})()
	}
	const polls = 200
	start := time.Now()
	for range polls {
		b.db.writer.Poll()
	}
	if each := time.Since(start) / polls; each > pollEvery/10 {
		t.Errorf("a poll takes %v", each)
	}
}

func TestLogIsCutWhenItHasGrown(t *testing.T) {
	t.Parallel()
	const walLimit = 8 << 20 // more than what is reused by itself
	b := newBench(t, &Options{walLimit: walLimit})
	wal := b.db.dir.database() + "-wal"
	// A reader that holds on keeps the log from being reused, until it lets go.
	letGo := b.holdOn()
	size := func() int64 {
		info, err := os.Stat(wal)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	l := b.acquire(b.createDraft())
	big := make([]flow.Draft, 16)
	for i := range big {
		big[i] = flow.Draft{Kind: "plan.output", Note: true, Body: body(`{"chunk":%q}`, strings.Repeat("x", 10<<10))}
	}
	for size() < walLimit {
		b.append(l, big...)
	}
	letGo()
	for n := 0; size() >= walLimit; n++ {
		if n > 300 {
			t.Fatalf("the log still has %d bytes", size())
		}
		b.append(l, step("a"))
	}
}

// holdOn is a reader that keeps its view of the store until it is let go.
func (b *bench) holdOn() (letGo func()) {
	b.Helper()
	reader, err := connect(b.db.dir.database(), readOnly)
	if err != nil {
		b.Fatal(err)
	}
	if err := reader.Exec(`BEGIN`); err != nil {
		b.Fatal(err)
	}
	if _, err := reader.number(b.Context(), `SELECT count(*) FROM runs`); err != nil {
		b.Fatal(err)
	}
	return func() {
		if err := errors.Join(reader.Exec(`ROLLBACK`), reader.close()); err != nil {
			b.Error(err)
		}
	}
}

// Who waits for a reader when it closes the store keeps all other processes from writing.
func TestClosingDoesNotWaitForReaders(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	defer b.holdOn()()
	b.append(b.acquire(b.createDraft()), step("a")) // what the reader does not see
	start := time.Now()
	b.shut()
	if took := time.Since(start); took > busyTimeout/2 {
		t.Errorf("closing took %v", took)
	}
}

// A store is opened while another process writes for long.
func TestOpeningDoesNotWaitForWriters(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	writer, err := connect(b.db.dir.database(), readWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.close()
	if err := writer.Exec(`BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	second, err := Open(b.dir, &Options{UserKey: true, BusyLimit: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(second.Close(), writer.Exec(`ROLLBACK`)); err != nil {
		t.Error(err)
	}
}
