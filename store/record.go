package store

import (
	"context"
	"fmt"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// page is how many records are read in one look: a reader that holds on longer
// keeps a database from tidying up.
const page = 2000

// Records implements [flow.Reader], page by page. No limit is all there are.
func (s *Store) Records(ctx context.Context, run string, after int64, limit int) (records []flow.Stored, err error) {
	for full := true; full && err == nil && (limit <= 0 || len(records) < limit); {
		got, want := 0, page
		if limit > 0 {
			want = min(want, limit-len(records))
		}
		// There is no LIMIT: SQLite would prepare the statement anew each time. Numbers of
		// records have no gaps.
		err = s.db.Query(ctx, func(r Row) error {
			after, got = r.Int(0), got+1
			records = append(records, flow.Stored{Seq: after, Bytes: r.Bytes(1), Hash: r.Hash(2), Kind: r.Text(3)})
			return nil
		}, `SELECT seq, bytes, hash, kind FROM records WHERE run = (SELECT n FROM runs WHERE id = ?) AND seq > ? AND seq <= ? ORDER BY seq`, run, after, after+int64(want))
		full = got == want
	}
	if err == nil && len(records) == 0 { // none after the cursor, or no such run
		_, err = s.Run(ctx, run)
	}
	return records, err
}

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
