package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/journal"
)

const verifiedRecords = 100_000 // a second

// measureVerify: reading a store's runs and checking chain, signatures and
// state, as verify does before it looks at conformance.
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
	var rates []float64
	records := 0
	for range turns(b.rounds) {
		start := time.Now()
		records = 0
		for _, run := range runs {
			n, err := bed.verify(ctx, run)
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
		limit:  "≥ " + count(verifiedRecords), ok: absolute(rate >= verifiedRecords)}}, nil
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

// verify checks one run and returns how many records it has.
func (b *bed) verify(ctx context.Context, run string) (int, error) {
	trusted, err := b.PublicKeys(ctx)
	if err != nil {
		return 0, err
	}
	row, err := b.Run(ctx, run)
	if err != nil {
		return 0, err
	}
	head, err := journal.ParseHash(row.HeadHash)
	if err != nil {
		return 0, err
	}
	v := journal.NewVerifier(&journal.Options{
		Run: run, Trusted: trusted, State: row.State, Lifecycle: lifecycle,
		Kinds: func(kind string) bool { return tipstaff.KnownKind(tipstaff.Kind(kind)) },
		Heads: []journal.Head{{Seq: row.Head, Hash: head, Of: "the run row"}},
		Blob:  func(h journal.Hash) ([]byte, error) { return b.Blob(ctx, h.String()) },
	})
	const page = 1000
	for after := int64(0); ; after += page {
		records, err := b.Records(ctx, run, after, page)
		if err != nil {
			return 0, err
		}
		for _, r := range records {
			hash := journal.Hash(r.Hash)
			v.Add(r.Bytes, &hash)
		}
		if len(records) < page {
			break
		}
	}
	res := v.Close()
	if !res.OK() {
		return 0, fmt.Errorf("run %s does not verify: %v", run, res.Faults)
	}
	return int(res.Seq), nil
}

// lifecycle folds an envelope into the state of a run.
func lifecycle(state string, r journal.Record) string {
	run, _ := tipstaff.ParseID(r.Run) // a verifier has compared it already
	m := tipstaff.Machine{Run: run, State: tipstaff.State(state)}
	_ = m.Apply(&tipstaff.Event{Kind: tipstaff.Kind(r.Kind), Run: run, Body: r.Body}) // kinds that drive nothing are refused
	return string(m.State)
}
