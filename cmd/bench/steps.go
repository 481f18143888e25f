package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

const (
	leastOfBare    = 0.5     // of bare SQLite's rate, for steps
	memorySteps    = 120_000 // a second
	stepsOfRecords = 100     // from which the size of a record is taken
	perRound       = 3       // slices of a round: the shorter, the more alike what both sides meet
)

// sides are the rates of two peers measured in turns.
type sides struct{ ours, peer, ratios []float64 }

// round measures both, now the one first and now the other.
func (s *sides) round(n int, ours, peer func() (float64, error)) error {
	first, second := ours, peer
	if n%2 == 0 {
		first, second = peer, ours
	}
	a, err := first()
	if err != nil {
		return err
	}
	b, err := second()
	if err != nil {
		return err
	}
	if n%2 == 0 {
		a, b = b, a
	}
	s.ours, s.peer, s.ratios = append(s.ours, a), append(s.peer, b), append(s.ratios, a/b)
	return nil
}

// measureSteps: one run, one step after the other, each synced.
func measureSteps(ctx context.Context, b *bench) (rows []row, err error) {
	bed, err := newBed(filepath.Join(b.dir, "steps"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	size, err := bed.recordSize(ctx)
	if err != nil {
		return nil, err
	}
	bare, err := newBare(filepath.Join(b.dir, "steps-bare.db"), size)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bare.close()) }()
	raw, err := newRaw(filepath.Join(b.dir, "steps-raw"), size)
	if err != nil {
		return nil, err
	}
	defer raw.close()
	var s sides
	var disk []float64
	slice := b.round / perRound
	for n := range turns(b.rounds * perRound) {
		fsyncs, err := repeat(slice, raw.step)
		if err != nil {
			return nil, err
		}
		disk = append(disk, fsyncs)
		err = s.round(n,
			func() (float64, error) { return bed.sequence(ctx, slice) },
			func() (float64, error) { return repeat(slice, bare.step) })
		if err != nil {
			return nil, err
		}
	}
	r := median(s.ratios)
	return []row{{figure: "durable `read` steps, one run", value: median(s.ours), measured: count(median(s.ours)) + " steps/s",
		beside: fmt.Sprintf("bare SQLite %s/s: %s; append and fsync %s/s", count(median(s.peer)), times(r), count(median(disk))),
		bound:  limit(fmt.Sprintf("≥ %g × bare SQLite", leastOfBare), r >= leastOfBare)}}, nil
}

// recordSize is how many bytes the record of one step has.
func (b *bed) recordSize(ctx context.Context) (int, error) {
	run, err := b.create(ctx)
	if err != nil {
		return 0, err
	}
	if err := b.drive(ctx, run, steps(func(done int) bool { return done < stepsOfRecords })); err != nil {
		return 0, err
	}
	records, err := b.Records(ctx, run, 0, 0)
	total, n := 0, 0
	for _, r := range records {
		if r.Kind == kindOfStep {
			total, n = total+len(r.Bytes), n+1
		}
	}
	if err == nil && n != stepsOfRecords {
		err = fmt.Errorf("%d steps of %d were recorded", n, stepsOfRecords)
	}
	if err != nil {
		return 0, err
	}
	return total / n, nil
}

// sequence takes the steps of a new run for a while and returns how many a
// second. The run's making, start and end are not in it.
func (b *bed) sequence(ctx context.Context, d time.Duration) (float64, error) {
	run, err := b.create(ctx)
	if err != nil {
		return 0, err
	}
	if err := b.Flush(ctx); err != nil {
		return 0, err
	}
	program, measured := timed(d)
	if err := b.drive(ctx, run, program); err != nil {
		return 0, err
	}
	return measured(), nil
}

// timed is a program of steps that goes on for a while, and afterwards says how
// many it took a second.
func timed(d time.Duration) (program flow.Func, rate func() float64) {
	var start time.Time
	var spent time.Duration
	var taken int
	program = steps(func(done int) bool {
		if done == 0 {
			start = time.Now()
		}
		taken, spent = done, time.Since(start)
		return spent < d
	})
	return program, func() float64 { return float64(taken) / spent.Seconds() }
}

// measureConcurrent: many runs at once, whose steps share commits.
func measureConcurrent(ctx context.Context, b *bench) (rows []row, err error) {
	bed, err := newBed(filepath.Join(b.dir, "concurrent"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	size, err := bed.recordSize(ctx)
	if err != nil {
		return nil, err
	}
	bare, err := newBare(filepath.Join(b.dir, "concurrent-bare.db"), size)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bare.close()) }()
	var s sides
	for n := range turns(b.rounds) {
		err := s.round(n,
			func() (float64, error) { return bed.concurrent(ctx, b.runs, b.round) },
			func() (float64, error) { return bare.group(b.runs, b.round) })
		if err != nil {
			return nil, err
		}
	}
	r := median(s.ratios)
	return []row{{figure: fmt.Sprintf("durable `read` steps, %d runs at once", b.runs), value: median(s.ours), measured: count(median(s.ours)) + " steps/s",
		beside: fmt.Sprintf("bare SQLite, group commit, %s/s: %s", count(median(s.peer)), times(r)),
		bound:  limit(fmt.Sprintf("≥ %g × bare SQLite", leastOfBare), r >= leastOfBare)}}, nil
}

// concurrent drives new runs side by side for a while and returns how many
// steps they took a second. All have started, with one step each, before the
// time begins; their ends are not in it.
func (b *bed) concurrent(ctx context.Context, runs int, d time.Duration) (rate float64, err error) {
	ids, err := b.createAll(ctx, runs)
	if err != nil {
		return 0, err
	}
	var ready, all sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	var start, last time.Time
	total := 0
	begin := make(chan struct{})
	ready.Add(runs)
	for _, id := range ids {
		arrive := sync.OnceFunc(ready.Done)
		more := func(done int) bool {
			if done == 1 {
				arrive()
				<-begin
			}
			now := time.Now()
			if done == 0 || now.Sub(start) < d {
				return true
			}
			mu.Lock()
			defer mu.Unlock()
			total += done - 1
			last = now
			return false
		}
		all.Go(func() {
			err := b.drive(ctx, id, steps(more))
			arrive() // also if it failed before
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	ready.Wait()
	start = time.Now()
	close(begin)
	all.Wait()
	return float64(total) / last.Sub(start).Seconds(), errors.Join(errs...)
}

// createAll makes runs and returns when the files of their envelopes are
// written too: what follows has the disk to itself.
func (b *bed) createAll(ctx context.Context, n int) ([]string, error) {
	ids := make([]string, n)
	err := parallel(ids, func(id *string) (err error) {
		*id, err = b.create(ctx)
		return err
	})
	return ids, errors.Join(err, b.Flush(ctx))
}

// measureMemoryLog: what a step costs when nothing is written.
func measureMemoryLog(ctx context.Context, b *bench) ([]row, error) {
	var rates []float64
	for range turns(b.rounds) {
		program, rate := timed(b.round)
		if err := drive(ctx, flow.New(flow.NewMem(), nil), flow.Job{Run: "memory", Flow: program}, flow.Completed); err != nil {
			return nil, err
		}
		rates = append(rates, rate())
	}
	rate := median(rates)
	return []row{{figure: "steps on the memory log, one run", value: rate, measured: count(rate) + " steps/s",
		bound: goal("≥ "+count(memorySteps), rate >= memorySteps)}}, nil
}
