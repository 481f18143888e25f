package runner

import (
	"context"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// pageSize is how many records are asked for at once while a whole run is read.
const pageSize = 1000

// eachRecord gives f the records after a cursor, page by page. While f looks at
// one page the next is read.
func eachRecord(ctx context.Context, src source, run string, after int64, f func(flow.Stored) error) error {
	return each(ctx, 0, func(ctx context.Context, give func([]flow.Stored) error) error {
		return readPages(ctx, src, run, after, give)
	}, f)
}

func readPages(ctx context.Context, src source, run string, after int64, give func([]flow.Stored) error) error {
	for {
		records, err := src.Records(ctx, run, after, pageSize)
		if err != nil || len(records) == 0 {
			return err
		}
		after = records[len(records)-1].Seq
		if err := give(records); err != nil || len(records) < pageSize {
			return err
		}
	}
}

// each runs read on another goroutine and gives f, one by one, what it gives in
// batches, of which so many wait besides the one that is on its way. It ends with
// the first error of either.
func each[T any](ctx context.Context, waiting int, read func(ctx context.Context, give func([]T) error) error, f func(T) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	batches, failed := make(chan []T, waiting), make(chan error, 1)
	go func() {
		defer close(batches)
		failed <- read(ctx, func(batch []T) error {
			select {
			case batches <- batch:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	for batch := range batches {
		for i := range batch {
			if err := f(batch[i]); err != nil {
				return err
			}
		}
	}
	return <-failed
}

// reading is a stored record and what it says, as far as it could be parsed.
type reading struct {
	flow.Stored
	record journal.Record
	err    error
}

// batchSize is how many parsed records change hands at once.
const batchSize = 64

// eachReading is eachRecord for whoever needs all of a run parsed. f must not wait
// for anybody: the store is held while it looks at what is read.
func eachReading(ctx context.Context, src source, run string, f func(*reading) error) error {
	return each(ctx, 4, func(ctx context.Context, give func([]*reading) error) error {
		var batch []*reading
		take := func(s flow.Stored) error {
			r := &reading{Stored: s}
			r.record, r.err = journal.Parse(s.Bytes)
			if batch = append(batch, r); len(batch) < batchSize {
				return nil
			}
			full := batch
			batch = make([]*reading, 0, batchSize)
			return give(full)
		}
		err := readPages(ctx, src, run, 0, func(page []flow.Stored) error {
			for _, s := range page {
				if err := take(s); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil && len(batch) > 0 {
			err = give(batch)
		}
		return err
	}, f)
}

// event is the record as surfaces know it. What is not as it should be is left to
// ParseEvent, which forgives more and says what is wrong.
func (r *reading) event() (tipstaff.Event, error) {
	rec := &r.record
	e := tipstaff.Event{V: journal.Version, Seq: rec.Seq, Kind: tipstaff.Kind(rec.Kind), At: rec.At, Path: rec.Path, Epoch: rec.Epoch, N: rec.N,
		Note: rec.Note, Body: rec.Body, From: rec.From, Prev: rec.Prev, Head: rec.Head, Key: rec.Key, Sig: rec.Sig, Raw: r.Bytes}
	err := r.err
	if err == nil {
		e.Run, err = tipstaff.ParseID(rec.Run)
	}
	if err == nil && rec.ID != "" {
		e.ID, err = tipstaff.ParseID(rec.ID)
	}
	if err != nil || !tipstaff.KnownKind(e.Kind) {
		return tipstaff.ParseEvent(r.Bytes)
	}
	return e, nil
}
