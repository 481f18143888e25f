package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// Load implements [flow.Log]. What Acquire has checked a moment ago is only read on.
func (s *Store) Load(ctx context.Context, run string) (flow.History, error) {
	if l, ok := s.acquired.LoadAndDelete(run); ok {
		l := l.(*loading)
		if err := s.readOn(ctx, l); err != nil {
			return flow.History{}, err
		}
		if !l.moved {
			return l.history, nil
		}
	}
	l, err := s.load(ctx, run)
	if err != nil {
		return flow.History{}, err
	}
	return l.history, nil
}

// addCancel puts a cancel that was asked for before the segment began after its
// first record: it still holds.
func (s *Store) addCancel(ctx context.Context, l *loading, keys Keys) error {
	var seq int64
	err := s.read(ctx, func(c *conn) (err error) {
		seq, err = c.number(ctx, `SELECT cancel FROM runs WHERE n = ?`, l.row.N)
		return err
	})
	h := &l.history
	if err != nil || seq == 0 || len(h.Records) == 0 || seq > h.Records[0].Seq {
		return err
	}
	cancel, err := s.checked(ctx, l.row, keys, seq, seq, journal.Head{})
	if err != nil {
		return err
	}
	if kind := cancel.records[0].Kind; kind != string(tipstaff.KindRunCancelRequested) {
		return unsound(l.row.ID, seq, fmt.Errorf("it is taken for a cancel and is %s", kind))
	}
	h.Records = slices.Insert(h.Records, 1, cancel.records...)
	return nil
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

// base reads what a fork inherits: the segment of its source up to the record it
// was forked at and, if that is the source's first and the source a fork too,
// what that inherits. It also counts the run.continued of all of them.
//
// What a fork's signed draft says of its base fixes every byte of it. Signatures in
// the base are looked at only where there is no such draft, or not yet.
func (s *Store) base(ctx context.Context, fork flow.Row, draft draftBody) (records []flow.Record, segments int, err error) {
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
			part, above, err := s.basePart(ctx, fork, source, g.first, draft)
			if err != nil {
				return nil, 0, err
			}
			records, draft = append(part, records...), above
		}
		whole = whole || g.number > 0
		fork = source
	}
	return records, segments, nil
}

// basePart reads the records of a source from first to where it was forked, and the
// source's own draft.
func (s *Store) basePart(ctx context.Context, fork, source flow.Row, first int64, draft draftBody) ([]flow.Record, draftBody, error) {
	above, err := s.readDraft(ctx, source)
	if err != nil {
		return nil, above, err
	}
	keys, err := s.signers(ctx, source.ID, above)
	if err != nil {
		return nil, above, err
	}
	covered := journal.Head{}
	if draft.Fork != nil {
		covered = journal.Head{Seq: draft.Fork.Seq, Hash: draft.Fork.Hash}
	}
	part, err := s.checked(ctx, source, keys, first, fork.BaseSeq, covered)
	if errors.Is(err, journal.ErrUnmet) {
		err = unsound(source.ID, fork.BaseSeq, fmt.Errorf("run %s was forked from another journal", fork.ID))
	}
	if err != nil {
		return nil, above, err
	}
	return part.records, above, nil
}
