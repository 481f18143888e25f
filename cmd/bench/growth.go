package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

const (
	yardstick = 1000 // steps of the run that longer ones are compared with
	linear    = 1.2  // times the yardstick's cost a step that theirs may be

	longest     = 50 * time.Second // that one run may take, with what is beside it
	notMeasured = "not measured"
)

// track is where runs are driven whose length is being looked at.
type track struct {
	name   string
	create func(context.Context) (string, error)
	engine flow.Engine
	owner  flow.Owner
}

// measureGrowth: whether the thousandth step costs what the first did, and the
// hundred thousandth. It ends with what a step takes on the disk.
func measureGrowth(ctx context.Context, b *bench) (_ []row, err error) {
	far, err := newBed(filepath.Join(b.dir, "far"))
	if err != nil {
		return nil, err
	}
	near, err := newBed(filepath.Join(b.dir, "near"))
	if err != nil {
		return nil, errors.Join(err, far.Close())
	}
	for _, pair := range [][2]track{{memoryTrack(), memoryTrack()}, {far.track(), near.track()}} {
		guess := 0.0
		for _, n := range b.sizes {
			r, err := b.growth(ctx, pair[0], pair[1], n, guess)
			if err != nil {
				return nil, errors.Join(err, far.Close(), near.Close())
			}
			if r.value > 0 {
				guess = r.value
			}
			b.add(r)
		}
	}
	disk, err := far.bytesPerStep(ctx)
	return []row{disk}, errors.Join(err, near.Close())
}

func memoryTrack() track {
	n := 0
	return track{name: "memory log", engine: flow.New(flow.NewMem(), nil), create: func(context.Context) (string, error) {
		n++
		return strconv.Itoa(n), nil
	}}
}

func (b *bed) track() track { return track{"SQLite", b.create, b.engine, b.owner} }

// growth takes the cost of runs of n steps. One that is longer than the
// yardstick is compared with as many steps in runs of that length, which are
// driven while it pauses, some ten times on its way: whatever else the machine
// does meets both. guess is what a step costs, in seconds, as far as is known.
func (b *bench) growth(ctx context.Context, far, near track, n int, guess float64) (row, error) {
	figure := fmt.Sprintf("a run of %s steps, %s", count(float64(n)), far.name)
	each := time.Duration(2 * float64(n) * guess * float64(time.Second))
	if each > longest {
		return row{figure: figure, measured: notMeasured, beside: fmt.Sprintf("it would take %.0f s here", each.Seconds())}, nil
	}
	rounds := max(1, min(b.rounds, 30_000/n))
	if time.Duration(rounds)*each > patience {
		rounds = 1
	}
	every := 0
	if n > yardstick {
		every = max(n/10, yardstick)
	}
	var ours, peers, ratios []float64
	for range rounds {
		cost, peer, err := compare(ctx, far, near, n, every)
		if err != nil {
			return row{}, err
		}
		ours, peers, ratios = append(ours, cost), append(peers, peer), append(ratios, cost/peer)
	}
	r := row{figure: figure, value: median(ours), measured: fmt.Sprintf("%.1f µs a step", median(ours)*1e6)}
	if every > 0 {
		r.beside = fmt.Sprintf("in runs of %s: %.1f µs, %s", count(yardstick), median(peers)*1e6, times(median(ratios)))
		r.bound = goal(fmt.Sprintf("≤ %g ×", linear), median(ratios) <= linear)
	}
	return r, nil
}

// compare returns the seconds that a step costs in a run of n, and in the runs
// of the yardstick's length that are driven after every so many of its steps.
func compare(ctx context.Context, far, near track, n, every int) (ours, peer float64, err error) {
	var beside time.Duration
	steps := 0
	spent, err := far.cost(ctx, n, every, func() error {
		for range every / yardstick {
			d, err := near.cost(ctx, yardstick, 0, nil)
			if err != nil {
				return err
			}
			beside, steps = beside+d, steps+yardstick
		}
		return nil
	})
	return spent.Seconds() / float64(n), beside.Seconds() / float64(steps), err
}

// cost is how long the steps of a new run take, without the interludes that are
// called after each so many of them (0: none).
func (t track) cost(ctx context.Context, n, every int, interlude func() error) (time.Duration, error) {
	run, err := t.create(ctx)
	if err != nil {
		return 0, err
	}
	var start time.Time
	var spent, paused time.Duration
	var failure error
	more := func(done int) bool {
		if done == 0 {
			start = time.Now()
		} else if every > 0 && done%every == 0 {
			pause := time.Now()
			failure = interlude()
			paused += time.Since(pause)
		}
		spent = time.Since(start) - paused
		return done < n && failure == nil
	}
	err = drive(ctx, t.engine, flow.Job{Run: run, Owner: t.owner, Flow: steps(more)}, flow.Completed)
	return spent, errors.Join(err, failure)
}

// bytesPerStep closes the store, so that all it holds is in one file.
func (b *bed) bytesPerStep(ctx context.Context) (r row, err error) {
	records, size := 0, 0
	rows, err := b.Runs(ctx, flow.Query{})
	for _, run := range rows {
		for after := int64(0); err == nil && after < run.Head; {
			page, pageErr := b.Records(ctx, run.ID, after, segment)
			err = pageErr
			for _, rec := range page {
				after = rec.Seq
				if rec.Kind == kindOfStep {
					records, size = records+1, size+len(rec.Bytes)
				}
			}
		}
	}
	if err := errors.Join(err, b.Close()); err != nil {
		return row{}, err
	}
	file, err := b.fileSize()
	if err != nil {
		return row{}, err
	}
	each := float64(file) / float64(records)
	return row{figure: "bytes a step on disk", value: each, measured: count(each) + " bytes",
		beside: fmt.Sprintf("its record %s, its result %d", count(float64(size)/float64(records)), len(result))}, nil
}
