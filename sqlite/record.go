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

// Records implements [flow.Reader]. No limit is all there are.
func (s *Store) Records(ctx context.Context, run string, after int64, limit int) (records []flow.Stored, err error) {
	if limit > 0 {
		records = make([]flow.Stored, 0, min(limit, 200))
	}
	err = s.eachRecord(ctx, run, after, limit, func(seq int64, kind string, bytes, hash []byte) error {
		r := flow.Stored{Seq: seq, Kind: kind, Bytes: bytes}
		copy(r.Hash[:], hash)
		records = append(records, r)
		return nil
	})
	return records, err
}

// eachRecord reads records page by page.
func (s *Store) eachRecord(ctx context.Context, run string, after int64, limit int, each func(seq int64, kind string, bytes, hash []byte) error) error {
	n, err := s.number(ctx, run)
	if err != nil {
		return err
	}
	for left := limit; limit <= 0 || left > 0; {
		want := page
		if limit > 0 {
			want = min(want, left)
		}
		got := 0
		// Without LIMIT: SQLite would look at its value, and for that prepare the
		// statement anew each time, which costs more than reading fifty rows.
		err := s.read(ctx, func(c *conn) error {
			return c.query(ctx, func(r row) error {
				after, got = r.int(0), got+1
				if err := each(after, r.text(1), r.bytes(2), r.bytes(3)); err != nil || got < want {
					return err
				}
				return errEnough
			}, `SELECT seq, kind, bytes, hash FROM records WHERE run = ? AND seq > ? ORDER BY seq`, n, after)
		})
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
	return flow.Record{Seq: r.Seq, Epoch: r.Epoch, At: r.At,
		Draft: flow.Draft{Kind: r.Kind, Path: r.Path, N: r.N, Note: r.Note, Body: r.Body, From: r.From, ID: r.ID}}, nil
}

// hashText is a hash column as text; "" for none.
func hashText(b []byte) string {
	if len(b) != len(journal.Hash{}) {
		return ""
	}
	return journal.Hash(b).String()
}
