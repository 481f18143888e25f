package main

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"time"

	"github.com/tipstaff/tipstaff/flow"
)

// measureResume: how long it takes until a run that is driven again has replayed
// what is recorded of it and could go on.
func measureResume(ctx context.Context, b *bench) (rows []row, err error) {
	bed, err := newBed(filepath.Join(b.dir, "resume"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	for _, n := range b.replayed {
		n, mid, err := bed.resume(ctx, n, b.rounds)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{figure: "resuming after " + count(float64(n)) + " steps", value: mid,
			measured: milliseconds(time.Duration(mid * float64(time.Second))),
			beside:   count(float64(n)/mid) + " records/s loaded, folded and replayed"})
	}
	return rows, nil
}

// resume parks a run after n steps, or as many as time allows, and drives it
// again and again. It returns how many there are and the median of the seconds
// from the start of a drive to the end of its replay.
func (b *bed) resume(ctx context.Context, n, rounds int) (steps int, seconds float64, err error) {
	run, err := b.create(ctx)
	if err != nil {
		return 0, 0, err
	}
	var there time.Time
	program := func(more func(done int) bool) flow.Func {
		return func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
			for steps = 0; more(steps); steps++ {
				if err := takeStep(fc, steps); err != nil {
					return nil, err
				}
			}
			there = time.Now()
			return empty, ask(fc)
		}
	}
	begin := time.Now()
	first := program(func(done int) bool { return done < n && time.Since(begin) < patience })
	if err := drive(ctx, b.engine, flow.Job{Run: run, Owner: b.owner, Flow: first}, flow.ParkedRun); err != nil {
		return 0, 0, err
	}
	recorded := steps
	again := program(func(done int) bool { return done < recorded })
	var all []float64
	for range rounds {
		start := time.Now()
		if err := drive(ctx, b.engine, flow.Job{Run: run, Owner: b.owner, Flow: again}, flow.ParkedRun); err != nil {
			return 0, 0, err
		}
		all = append(all, there.Sub(start).Seconds())
	}
	return recorded, median(all), nil
}
