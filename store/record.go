package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// page is how many records are read in one look: a reader that holds on longer
// keeps a database from tidying up.
const page = 2000

// Records implements [flow.Reader]. No limit is all there are.
func (s *Store) Records(ctx context.Context, run string, after int64, limit int) (records []flow.Stored, err error) {
	if limit > 0 {
		records = make([]flow.Stored, 0, min(limit, 256))
	}
	err = s.eachRecord(ctx, run, after, limit, func(r flow.Stored) error {
		records = append(records, r)
		return nil
	})
	return records, err
}

// EachRecord gives each every record after a cursor as it is read. It is for whoever
// looks at one record while the next is read, and must be quick: the database is held
// meanwhile.
func (s *Store) EachRecord(ctx context.Context, run string, after int64, each func(flow.Stored) error) error {
	return s.eachRecord(ctx, run, after, 0, each)
}

// eachRecord reads records page by page. The statement names the run by its id and has
// no LIMIT: to begin one costs as much as to read thirty rows, and SQLite would prepare
// one with a bound LIMIT anew each time.
func (s *Store) eachRecord(ctx context.Context, run string, after int64, limit int, each func(flow.Stored) error) error {
	none := true
	for left := limit; limit <= 0 || left > 0; {
		want := page
		if limit > 0 {
			want = min(want, left)
		}
		got := 0
		err := s.db.Query(ctx, func(r Row) error {
			after, got = r.Int(0), got+1
			if err := each(flow.Stored{Seq: after, Bytes: r.Bytes(1), Hash: r.Hash(2), Kind: r.Text(3)}); err != nil || got < want {
				return err
			}
			return errEnough
		}, `SELECT seq, bytes, hash, kind FROM records WHERE run = (SELECT n FROM runs WHERE id = ?) AND seq > ? ORDER BY seq`, run, after)
		if none = none && got == 0; none && err == nil {
			if there, err := Number(ctx, s.db, `SELECT count(*) FROM runs WHERE id = ?`, run); err != nil || there > 0 {
				return err
			}
			return fmt.Errorf("%w: %s", flow.ErrNoRun, run)
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

// ParseRecord is a stored record as drives see it.
func ParseRecord(stored []byte) (flow.Record, error) {
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
