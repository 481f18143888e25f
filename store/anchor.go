package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// projectAnchor learns from a plan in force whether its run is anchored, and of such
// a run notes where it comes to rest: parked, interrupted or ended.
func (t *Tx) projectAnchor(st *runState, r flow.Record) error {
	switch kind := tipstaff.Kind(r.Kind); {
	case kind == tipstaff.KindPlanProposed && st.kind == "plan":
		anchor, err := t.s.asksForAnchor(r.Body)
		if err != nil || anchor == st.anchor {
			return err
		}
		st.anchor = anchor
		return t.exec(`UPDATE runs SET anchor = ? WHERE n = ?`, flag(anchor), st.n)
	case st.anchor && (kind == tipstaff.KindRunParked || kind == tipstaff.KindRunInterrupted || kind.Terminal()):
		t.Rested = true
		return t.exec(`INSERT INTO outbox (run, seq, hash, at) VALUES (?, ?, ?, ?)`, st.n, st.seq, st.hash[:], r.At.UnixNano())
	}
	return nil
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// asksForAnchor reads the plan that a plan.proposed names. One that is not stored
// asks for nothing.
func (s *Store) asksForAnchor(proposed json.RawMessage) (bool, error) {
	var body tipstaff.PlanProposed
	var doc struct {
		Intent struct {
			Anchor bool `json:"anchor"`
		} `json:"intent"`
	}
	if err := json.Unmarshal(proposed, &body); err != nil {
		return false, err
	}
	program, err := s.Blob(context.Background(), body.ProgramDigest)
	if errors.Is(err, flow.ErrNoBlob) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(program, &doc)
	}
	return doc.Intent.Anchor, err
}

// AnchorsDue are the anchors that are yet to be written to the anchor file.
func (s *Store) AnchorsDue(ctx context.Context) (due []journal.Anchor, err error) {
	err = s.db.Query(ctx, func(r Row) error {
		due = append(due, journal.Anchor{Run: r.Text(0), Seq: r.Int(1), Hash: r.Hash(2), At: r.Time(3)})
		return nil
	}, `SELECT r.id, o.seq, o.hash, o.at FROM outbox o JOIN runs r ON r.n = o.run ORDER BY o.at, o.run, o.seq`)
	return due, err
}

// AnchorsWritten crosses off anchors that are on the disk.
func (s *Store) AnchorsWritten(ctx context.Context, written []journal.Anchor) error {
	return s.db.Do(ctx, &Op{Apply: func(t *Tx) error {
		for _, a := range written {
			if err := t.exec(`DELETE FROM outbox WHERE run = (SELECT n FROM runs WHERE id = ?) AND seq = ?`, a.Run, a.Seq); err != nil {
				return err
			}
		}
		return nil
	}})
}

// checkAnchors compares what was loaded with the anchor file: a tail that nobody has
// signed can be cut off without a key, but not there. The last anchor covers all
// before it.
func (s *Store) checkAnchors(ctx context.Context, l *loading) error {
	file, err := s.opts.Anchor()
	if err != nil || file == "" {
		return err
	}
	anchors, unread := journal.ReadAnchors(file, l.row.ID)
	last, head := anchors.Last(), l.part.Head().Seq
	if last > head {
		return fmt.Errorf("%w: run %s ends at record %d, %s says that it had %d", flow.ErrIntegrity, l.row.ID, head, file, last)
	}
	if last == 0 {
		if unread == nil {
			unread = fmt.Errorf("%s does not name it", file)
		}
		return s.checkUnanchored(ctx, l, unread)
	}
	return s.db.Query(ctx, func(r Row) error {
		for _, h := range anchors[last] {
			if !slices.Equal(h[:], r.Bytes(0)) {
				return unsound(l.row.ID, last, fmt.Errorf("%s says that its hash is %s", file, h))
			}
		}
		return nil
	}, `SELECT hash FROM records WHERE run = ? AND seq = ?`, l.row.N, last)
}

// checkUnanchored refuses a run that has come to rest, that is to be anchored and
// whose anchor is neither written nor waits to be.
func (s *Store) checkUnanchored(ctx context.Context, l *loading, why error) error {
	missing, err := Number(ctx, s.db, `SELECT count(*) FROM runs WHERE n = ? AND anchor = 1 AND owned IN ('run.parked', 'run.interrupted')
		AND NOT EXISTS (SELECT 1 FROM outbox WHERE run = n)`, l.row.N)
	if err == nil && missing > 0 {
		err = fmt.Errorf("%w: run %s is anchored: %w", flow.ErrIntegrity, l.row.ID, why)
	}
	return err
}
