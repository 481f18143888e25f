package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/runner"
)

const verifiedRecords = 100_000 // a second

// measureVerify: the part of verify that reads a run's records and checks chain,
// signatures, blobs, files and state. Conformance, which replays a program, is
// measured with the plan.
func measureVerify(ctx context.Context, b *bench) (rows []row, err error) {
	bed, err := newBed(filepath.Join(b.dir, "verify"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bed.Close()) }()
	runs, err := bed.fill(ctx, b.runs, b.records)
	if err != nil {
		return nil, err
	}
	keys := bed.Keys()
	verifier := runner.New(runner.Config{Store: bed.Store, Keys: keys,
		Trusted: func() ([]journal.PublicKey, error) { return bed.PublicKeys(ctx) }, Files: filepath.Join(bed.dir, "journal")})
	var rates []float64
	records := int64(0)
	for range turns(b.rounds) {
		start := time.Now()
		records = 0
		for _, run := range runs {
			n, err := verify(ctx, verifier, run)
			if err != nil {
				return nil, err
			}
			records += n
		}
		rates = append(rates, float64(records)/time.Since(start).Seconds())
	}
	rate := median(rates)
	return []row{{figure: "`verify`, integrity", value: rate, measured: count(rate) + " records/s",
		beside: fmt.Sprintf("%s records of %d runs", count(float64(records)), len(runs)),
		bound:  goal("≥ "+count(verifiedRecords), rate >= verifiedRecords)}}, nil
}

// verify checks one run and returns how many records it has.
func verify(ctx context.Context, r *runner.Runner, run string) (int64, error) {
	id, err := tipstaff.ParseID(run)
	if err != nil {
		return 0, err
	}
	res, err := r.Integrity(ctx, id)
	if err == nil && !res.OK() {
		err = fmt.Errorf("run %s does not verify: %v", run, res.Faults)
	}
	return res.Seq, err
}

// fill stores so many records, if time allows, in runs that then end.
func (b *bed) fill(ctx context.Context, runs, records int) ([]string, error) {
	ids, err := b.createAll(ctx, runs)
	if err != nil {
		return nil, err
	}
	each, start := (records+runs-1)/runs, time.Now()
	program := steps(func(done int) bool { return done < each && time.Since(start) < patience })
	err = parallel(ids, func(id *string) error { return b.drive(ctx, *id, program) })
	return ids, errors.Join(err, b.Flush(ctx))
}
