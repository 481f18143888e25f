package sqlite

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tipstaff/tipstaff/flow"
)

// The bare loops use the same driver, pragmas and table, and one INSERT a step:
// what SQLite itself costs on this disk.

func bare(b *testing.B) *conn {
	path := filepath.Join(b.TempDir(), "bare.db")
	c, err := connect(path, readWrite)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.close() })
	err = c.script(`PRAGMA journal_mode = WAL; CREATE TABLE records (run INTEGER NOT NULL, seq INTEGER NOT NULL, kind TEXT NOT NULL,
		bytes BLOB NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (run, seq)) WITHOUT ROWID`)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

var (
	bareRecord = make([]byte, 330)
	bareHash   = make([]byte, 32)
)

const bareInsert = `INSERT INTO records (run, seq, kind, bytes, hash) VALUES (?, ?, ?, ?, ?)`

func BenchmarkBareOneRun(b *testing.B) {
	c := bare(b)
	seq := int64(0)
	for b.Loop() {
		seq++
		if err := c.exec(bareInsert, int64(1), seq, "effect.finished", bareRecord, bareHash); err != nil {
			b.Fatal(err)
		}
	}
	perSecond(b)
}

func BenchmarkOneRun(b *testing.B) {
	s := newBench(b, nil)
	l := s.acquire(s.create())
	if err := s.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	d := []flow.Draft{step("root/a")}
	done := make(chan error, 1)
	finished := func(err error) { done <- err }
	for b.Loop() {
		s.Append(l, d, finished)
		if err := <-done; err != nil {
			b.Fatal(err)
		}
	}
	perSecond(b)
}

const manyRuns = 200

// BenchmarkBareManyRuns commits the same group for 200 runs that each wait for
// their step.
func BenchmarkBareManyRuns(b *testing.B) {
	c := bare(b)
	type step struct {
		run, seq int64
		done     chan error
	}
	queue := newMailbox[step]()
	go func() {
		for {
			steps, open := queue.take(func(step) bool { return true })
			if !open {
				return
			}
			if len(steps) == 0 {
				<-queue.wake
				continue
			}
			err := c.exec(`BEGIN IMMEDIATE`)
			for _, s := range steps {
				if err == nil {
					err = c.exec(bareInsert, s.run, s.seq, "effect.finished", bareRecord, bareHash)
				}
			}
			if err == nil {
				err = c.exec(`COMMIT`)
			}
			for _, s := range steps {
				s.done <- err
			}
		}
	}()
	many(b, func(run int) func() error {
		s := step{run: int64(run), done: make(chan error, 1)}
		return func() error {
			s.seq++
			queue.put(s)
			return <-s.done
		}
	})
	queue.close()
}

func BenchmarkManyRuns(b *testing.B) {
	s := newBench(b, nil)
	leases := make([]flow.Lease, manyRuns)
	for i := range leases {
		leases[i] = s.acquire(s.create())
	}
	if err := s.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	many(b, func(run int) func() error {
		d := []flow.Draft{step(fmt.Sprintf("root/%d", run))}
		done := make(chan error, 1)
		finished := func(err error) { done <- err }
		return func() error {
			s.Append(leases[run], d, finished)
			return <-done
		}
	})
}

// many spreads the steps over the runs.
func many(b *testing.B, open func(run int) func() error) {
	steps := make([]func() error, manyRuns)
	for i := range steps {
		steps[i] = open(i)
	}
	b.ResetTimer()
	var all sync.WaitGroup
	for i, step := range steps {
		n := b.N / manyRuns
		if i < b.N%manyRuns {
			n++
		}
		all.Go(func() {
			for range n {
				if err := step(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	perSecond(b)
}

func perSecond(b *testing.B) {
	if d := b.Elapsed(); d > 0 {
		b.ReportMetric(float64(b.N)/d.Seconds(), "steps/s")
		b.ReportMetric(0, "ns/op")
	}
}
