package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/runner"
)

const statusLimit = 5 * time.Millisecond

// measureStatus: where a long run stands and what can be done with it next, beside a
// diagnosis, which reads all of its records.
func measureStatus(ctx context.Context, b *bench) (rows []row, err error) {
	bed, err := newBed(filepath.Join(b.dir, "status"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	runs, err := bed.fill(ctx, 1, b.records)
	if err != nil {
		return nil, err
	}
	id, err := tipstaff.ParseID(runs[0])
	if err != nil {
		return nil, err
	}
	control := tipstaff.Control{Runs: runner.New(runner.Config{Store: bed.Store, Keys: bed.Keys()}), Now: time.Now}
	var short, long []float64
	var got tipstaff.RunStatus
	for range turns(b.rounds) {
		start := time.Now()
		if got, err = control.Status(ctx, tipstaff.StatusRequest{Run: id}); err != nil {
			return nil, err
		}
		short = append(short, time.Since(start).Seconds())
		start = time.Now()
		if _, err := control.Diagnose(ctx, tipstaff.RunRequest{Run: id}); err != nil {
			return nil, err
		}
		long = append(long, time.Since(start).Seconds())
	}
	mid := median(short)
	return []row{{figure: "the status of a run, with what to do next", value: mid, measured: fmt.Sprintf("%.2f ms", mid*1e3),
		beside: fmt.Sprintf("%s records; a diagnosis reads them in %s", count(float64(got.HeadSeq)), milliseconds(time.Duration(median(long)*float64(time.Second)))),
		bound:  goal("< "+milliseconds(statusLimit), mid < statusLimit.Seconds())}}, nil
}
