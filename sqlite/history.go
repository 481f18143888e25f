package sqlite

import (
	"context"
	"fmt"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
)

// Load implements [flow.Log].
func (s *Store) Load(ctx context.Context, run string) (flow.History, error) {
	row, err := s.Run(ctx, run)
	if err != nil {
		return flow.History{}, err
	}
	h := flow.History{Blob: func(digest string) ([]byte, error) { return s.Blob(context.Background(), digest) }}
	if tipstaff.State(row.State).Terminal() {
		h.Ended = flow.Status(row.State)
	}
	own, err := s.segment(ctx, row.N, row.Head)
	if err != nil {
		return flow.History{}, err
	}
	h.Segment = own.number
	if h.Records, err = s.history(ctx, row.N, own.first, row.Head); err != nil {
		return flow.History{}, fmt.Errorf("run %s: %w", run, err)
	}
	if own.number > 0 {
		if err := s.addCancel(ctx, row.N, &h); err != nil {
			return flow.History{}, fmt.Errorf("run %s: %w", run, err)
		}
	}
	base, segments, err := s.base(ctx, row)
	if err != nil {
		return flow.History{}, err
	}
	h.Segment += segments
	if own.number == 0 {
		h.Base = base // else the present segment no longer follows from it
	}
	return h, nil
}

// addCancel puts a cancel that was asked for before the segment began after its
// first record: it still holds.
func (s *Store) addCancel(ctx context.Context, n int64, h *flow.History) error {
	var seq int64
	err := s.read(ctx, func(c *conn) (err error) {
		seq, err = c.number(ctx, `SELECT cancel FROM runs WHERE n = ?`, n)
		return err
	})
	if err != nil || seq == 0 || len(h.Records) == 0 || seq > h.Records[0].Seq {
		return err
	}
	cancel, err := s.history(ctx, n, seq, seq)
	h.Records = slices.Insert(h.Records, 1, cancel...)
	return err
}

// segment is where the history of a drive begins.
type segment struct {
	first  int64 // seq of its first record: run.continued, or the run's own first
	number int   // how many run.continued there are up to it
}

// segment finds the one that a record lies in.
func (s *Store) segment(ctx context.Context, n, seq int64) (g segment, err error) {
	g.first = 1
	err = s.read(ctx, func(c *conn) error {
		return c.query(ctx, func(r row) error {
			if g.number = int(r.int(1)); g.number > 0 {
				g.first = r.int(0)
			}
			return nil
		}, `SELECT max(seq), count(*) FROM records WHERE run = ? AND seq <= ? AND kind = 'run.continued'`, n, seq)
	})
	return g, err
}

// history reads the records first to last of a run.
func (s *Store) history(ctx context.Context, n, first, last int64) (records []flow.Record, err error) {
	records = make([]flow.Record, 0, last-first+1)
	for first <= last {
		to := min(first+page-1, last)
		err := s.read(ctx, func(c *conn) error {
			return c.query(ctx, func(r row) error {
				rec, err := parseRecord(r.bytes(0))
				records = append(records, rec)
				return err
			}, `SELECT bytes FROM records WHERE run = ? AND seq BETWEEN ? AND ? ORDER BY seq`, n, first, to)
		})
		if err != nil {
			return nil, err
		}
		first = to + 1
	}
	return records, nil
}

// base reads what a fork inherits: the segment of its source up to the record it
// was forked at and, if that is the source's first and the source a fork too,
// what that inherits. It also counts the run.continued of all of them.
func (s *Store) base(ctx context.Context, fork flow.Row) (records []flow.Record, segments int, err error) {
	whole := false // a later part begins with run.continued
	for fork.Base != "" {
		source, err := s.Run(ctx, fork.Base)
		if err != nil {
			return nil, 0, fmt.Errorf("the source of run %s: %w", fork.ID, err)
		}
		g, err := s.segment(ctx, source.N, fork.BaseSeq)
		if err != nil {
			return nil, 0, err
		}
		segments += g.number
		if !whole {
			part, err := s.history(ctx, source.N, g.first, fork.BaseSeq)
			if err != nil {
				return nil, 0, fmt.Errorf("run %s: %w", source.ID, err)
			}
			records = append(part, records...)
		}
		whole = whole || g.number > 0
		fork = source
	}
	return records, segments, nil
}
