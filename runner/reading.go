package runner

import (
	"context"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// pageSize is how many records are asked for at once while a whole run is read.
// It is small, so that short runs too are read and looked at on two cores.
const pageSize = 200

// eachRecord gives f the records after a cursor. While f looks at one page the
// next is read.
func eachRecord(ctx context.Context, src source, run string, after int64, f func(flow.Stored) error) error {
	return eachPage(ctx, src, run, after, func(page []flow.Stored) []flow.Stored { return page }, func(page []flow.Stored) error {
		for _, s := range page {
			if err := f(s); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachPage reads the records after a cursor page by page, and does with each page
// what prepare does, on another goroutine than f, which is one page behind.
func eachPage[T any](ctx context.Context, src source, run string, after int64, prepare func([]flow.Stored) T, f func(T) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	pages := make(chan T, 1)
	failed := make(chan error, 1)
	go func() {
		defer close(pages)
		for {
			records, err := src.Records(ctx, run, after, pageSize)
			if err != nil {
				failed <- err
				return
			}
			if len(records) > 0 {
				after = records[len(records)-1].Seq
				select {
				case pages <- prepare(records):
				case <-ctx.Done():
					failed <- ctx.Err()
					return
				}
			}
			if len(records) < pageSize {
				failed <- nil
				return
			}
		}
	}()
	for page := range pages {
		if err := f(page); err != nil {
			return err
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

// eachReading is eachRecord for whoever needs them parsed.
func eachReading(ctx context.Context, src source, run string, f func(*reading) error) error {
	parse := func(page []flow.Stored) []reading {
		parsed := make([]reading, len(page))
		for i, s := range page {
			parsed[i].Stored = s
			parsed[i].record, parsed[i].err = journal.Parse(s.Bytes)
		}
		return parsed
	}
	return eachPage(ctx, src, run, 0, parse, func(page []reading) error {
		for i := range page {
			if err := f(&page[i]); err != nil {
				return err
			}
		}
		return nil
	})
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
