package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// page is how many records are read in one look: a reader that holds on longer
// keeps the log from shrinking.
const page = 2000

// The statements name the run by its id and have no LIMIT: to begin a statement
// costs as much as to read thirty rows, and a bound LIMIT, whose value SQLite looks
// at, would have it prepared anew each time.
const selectRecords = `SELECT seq, bytes, hash, kind FROM records WHERE run = (SELECT n FROM runs WHERE id = ?) AND seq > ? ORDER BY seq`

// Records implements [flow.Reader]. No limit is all there are.
func (s *Store) Records(ctx context.Context, run string, after int64, limit int) (records []flow.Stored, err error) {
	if limit > 0 {
		records = make([]flow.Stored, 0, min(limit, 256))
	}
	err = s.eachRecord(ctx, selectRecords, run, after, limit, func(r row) error {
		record := stored(r)
		record.Kind = r.text(3)
		records = append(records, record)
		return nil
	})
	return records, err
}

func stored(r row) flow.Stored {
	record := flow.Stored{Seq: r.int(0), Bytes: r.bytes(1)}
	copy(record.Hash[:], r.bytes(2))
	return record
}

// eachRecord reads records page by page.
func (s *Store) eachRecord(ctx context.Context, query, run string, after int64, limit int, each func(row) error) error {
	none := true
	for left := limit; limit <= 0 || left > 0; {
		want := page
		if limit > 0 {
			want = min(want, left)
		}
		got := 0
		err := s.read(ctx, func(c *conn) error {
			return c.query(ctx, func(r row) error {
				after, got = r.int(0), got+1
				if err := each(r); err != nil || got < want {
					return err
				}
				return errEnough
			}, query, run, after)
		})
		if none = none && got == 0; none && err == nil {
			_, err = s.number(ctx, run) // none after the cursor, or no such run
		}
		if !errors.Is(err, errEnough) {
			return err
		}
		left -= got
	}
	return nil
}

// errEnough ends a query whose further rows nobody wants.
var errEnough = errors.New("enough rows")

// number is what other tables call a run.
func (s *Store) number(ctx context.Context, run string) (n int64, err error) {
	err = s.read(ctx, func(c *conn) error {
		return c.one(ctx, func(r row) error { n = r.int(0); return nil }, `SELECT n FROM runs WHERE id = ?`, run)
	})
	if errors.Is(err, errNoRow) {
		err = fmt.Errorf("%w: %s", flow.ErrNoRun, run)
	}
	return n, err
}

// parseRecord is a stored record as drives see it.
func parseRecord(stored []byte) (flow.Record, error) {
	r, err := journal.Parse(stored)
	if err != nil {
		return flow.Record{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return recordOf(r), nil
}

func recordOf(r journal.Record) flow.Record {
	return flow.Record{Seq: r.Seq, Epoch: r.Epoch, At: r.At,
		Draft: flow.Draft{Kind: r.Kind, Path: r.Path, N: r.N, Note: r.Note, Body: r.Body, From: r.From, ID: r.ID}}
}

// hashText is a hash column as text; "" for none.
func hashText(b []byte) string {
	if len(b) != len(journal.Hash{}) {
		return ""
	}
	return journal.Hash(b).String()
}
