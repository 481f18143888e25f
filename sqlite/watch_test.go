package sqlite

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store/storetest"
)

// With a thousand idle runs the poll costs next to nothing.
func TestPollIsCheap(t *testing.T) {
	b := newBench(t, nil)
	for i := range 1000 {
		defer b.Watch(fmt.Sprint("run ", i), func(flow.Record) {})()
	}
	const polls = 20
	least := time.Hour
	for range 10 { // the machine may be busy with something else
		start := time.Now()
		for range polls {
			b.db.writer.Poll()
		}
		least = min(least, time.Since(start)/polls)
	}
	if least > pollEvery/10 {
		t.Errorf("a poll takes %v", least)
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
	l := b.MustAcquire(b.MustCreateDraft())
	big := make([]flow.Draft, 16)
	for i := range big {
		big[i] = flow.Draft{Kind: "plan.output", Note: true, Body: storetest.Body(`{"chunk":%q}`, strings.Repeat("x", 10<<10))}
	}
	for size() < walLimit {
		b.MustAppend(l, big...)
	}
	letGo()
	for n := 0; size() >= walLimit; n++ {
		if n > 300 {
			t.Fatalf("the log still has %d bytes", size())
		}
		b.MustAppend(l, storetest.Step("a"))
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
	b.MustAppend(b.MustAcquire(b.MustCreateDraft()), storetest.Step("a")) // what the reader does not see
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
