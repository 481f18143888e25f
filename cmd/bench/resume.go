package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
		figure := "resuming after " + count(float64(n)) + " steps"
		if d, ok := b.affordable(n, patience); !ok {
			rows = append(rows, skipped(figure, d))
			continue
		}
		mid, err := bed.resume(ctx, n, b.rounds)
		if err != nil {
			return nil, err
		}
		d := time.Duration(mid * float64(time.Second))
		rows = append(rows, row{figure: figure, value: mid, measured: milliseconds(d),
			beside: count(float64(n)/mid) + " records/s loaded, folded and replayed"})
	}
	return rows, nil
}

func skipped(figure string, d time.Duration) row {
	return row{figure: figure, measured: "not measured", beside: fmt.Sprintf("it would take %.0f s on this disk", d.Seconds())}
}

// resume parks a run after n steps and drives it again and again. It returns the
// median of the seconds from the start of a drive to the end of its replay.
func (b *bed) resume(ctx context.Context, n, rounds int) (float64, error) {
	run, err := b.create(ctx)
	if err != nil {
		return 0, err
	}
	var there time.Time
	job := flow.Job{Run: run, Owner: b.owner, Flow: func(fc flow.Context, _ json.RawMessage) (json.RawMessage, error) {
		for i := range n {
			if err := takeStep(fc, i); err != nil {
				return nil, err
			}
		}
		there = time.Now()
		return empty, ask(fc)
	}}
	if err := drive(ctx, b.engine, job, flow.ParkedRun); err != nil {
		return 0, err
	}
	var all []float64
	for range rounds {
		start := time.Now()
		if err := drive(ctx, b.engine, job, flow.ParkedRun); err != nil {
			return 0, err
		}
		all = append(all, there.Sub(start).Seconds())
	}
	return median(all), nil
}
