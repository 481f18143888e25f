package sqlite

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/storetest"
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

// lane is one way of making steps: run makes n of them.
type lane func(b *testing.B, n int)

func bareOne(b *testing.B) lane {
	c := bare(b)
	seq := int64(0)
	return func(b *testing.B, n int) {
		for range n {
			seq++
			if err := c.Exec(bareInsert, int64(1), seq, "effect.finished", bareRecord, bareHash); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func storeOne(b *testing.B) lane {
	s := newBench(b, nil)
	next := stepper(s, s.MustAcquire(s.MustCreate()))
	settled(b, s)
	return func(b *testing.B, n int) {
		for range n {
			if err := next(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// stepper appends one step to a run and waits for it.
func stepper(s *bench, l flow.Lease) func() error {
	d := []flow.Draft{storetest.Step("root/a")}
	done := make(chan error, 1)
	finished := func(err error) { done <- err }
	return func() error {
		s.Append(l, d, finished)
		return <-done
	}
}

// settled waits for the files of envelopes, which would compete for the disk.
func settled(b *testing.B, s *bench) {
	if err := s.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}

const manyRuns = 200

// bareMany commits in groups for 200 runs that each wait for their step.
func bareMany(b *testing.B) lane {
	c := bare(b)
	type bareStep struct {
		run, seq int64
		done     chan error
	}
	queue := store.NewMailbox[bareStep]()
	ended := make(chan struct{})
	b.Cleanup(func() { queue.Close(); <-ended })
	commit := func(steps []bareStep) error {
		if err := c.Exec(`BEGIN IMMEDIATE`); err != nil {
			return err
		}
		for _, s := range steps {
			if err := c.Exec(bareInsert, s.run, s.seq, "effect.finished", bareRecord, bareHash); err != nil {
				return err
			}
		}
		return c.Exec(`COMMIT`)
	}
	go func() {
		defer close(ended)
		for {
			steps, open := queue.Take(func(bareStep) bool { return true })
			if !open {
				return
			}
			if len(steps) == 0 {
				<-queue.Wake
				continue
			}
			err := commit(steps)
			for _, s := range steps {
				s.done <- err
			}
		}
	}()
	return spread(func(run int) func() error {
		s := bareStep{run: int64(run), done: make(chan error, 1)}
		return func() error {
			s.seq++
			queue.Put(s)
			return <-s.done
		}
	})
}

func storeMany(b *testing.B) lane {
	s := newBench(b, nil)
	leases := make([]flow.Lease, manyRuns)
	for i := range leases {
		leases[i] = s.MustAcquire(s.MustCreateDraft())
	}
	settled(b, s)
	return spread(func(run int) func() error { return stepper(s, leases[run]) })
}

// spread shares steps out to the runs, all at work at once.
func spread(open func(run int) func() error) lane {
	steps := make([]func() error, manyRuns)
	for i := range steps {
		steps[i] = open(i)
	}
	return func(b *testing.B, n int) {
		var all sync.WaitGroup
		for i, step := range steps {
			share := n / manyRuns
			if i < n%manyRuns {
				share++
			}
			all.Go(func() {
				for range share {
					if err := step(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	}
}

// race runs two lanes in turns, so that both meet the same disk and the same
// neighbours, and reports the second as a part of the first.
func race(b *testing.B, bare, store lane, slice int) {
	b.ResetTimer()
	var spent [2]time.Duration
	for made := 0; made < b.N; made += slice {
		for i, run := range []lane{bare, store} {
			start := time.Now()
			run(b, slice)
			spent[i] += time.Since(start)
		}
	}
	b.StopTimer()
	steps := float64((b.N + slice - 1) / slice * slice)
	b.ReportMetric(steps/spent[0].Seconds(), "bare/s")
	b.ReportMetric(steps/spent[1].Seconds(), "steps/s")
	b.ReportMetric(spent[0].Seconds()/spent[1].Seconds(), "of-bare")
	b.ReportMetric(0, "ns/op")
}

func BenchmarkOneRun(b *testing.B) { race(b, bareOne(b), storeOne(b), 50) }

func BenchmarkManyRuns(b *testing.B) { race(b, bareMany(b), storeMany(b), 10*manyRuns) }
