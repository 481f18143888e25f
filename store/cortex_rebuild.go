package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cortex"
	"github.com/tipstaff/tipstaff/journal"
)

// Codes of what can be wrong with the rows that follow from the memory's log.
const (
	faultItem     = "item_mismatch"    // an item's row does not follow from the log
	faultWeights  = "weights_mismatch" // nor do the weights
	faultNoAttest = "attest_missing"   // a run has ended, and the log does not know
	faultNoEnd    = "attest_unknown"   // the log tells of an end that is not recorded
)

// RebuildMemory derives items and weights from the log and compares them with
// what is stored. Unless it is to check only, it stores what it has derived; but
// nothing is derived from a log that is not whole.
func (s *Store) RebuildMemory(ctx context.Context, check bool) (tipstaff.MemoryReport, error) {
	d := newDerivation()
	if check {
		err := s.db.Read(ctx, func(q Querier) error { return d.read(ctx, q) })
		return d.report(), err
	}
	err := s.db.Do(ctx, &Op{Drafts: 1, Apply: func(t *Tx) error {
		ctx := context.Background() // the caller's must not break the transaction off
		d = newDerivation()
		if err := d.read(ctx, t.c); err != nil {
			return err
		}
		rows, err := d.write(t)
		if err != nil || rows == 0 {
			return err
		}
		d = newDerivation() // of what is there once all that can be put right has been
		d.rebuilt = rows
		return d.read(ctx, t.c)
	}})
	return d.report(), err
}

// derivation is what the log amounts to, beside what is stored.
type derivation struct {
	*cortex.Rebuild
	kept    map[int64]cortex.Record // those that remember an item
	wrong   []int64                 // items whose rows differ
	weights bool                    // so do the weights
	state   tipstaff.Finding
	rebuilt int // rows that were put right before
}

func newDerivation() *derivation {
	return &derivation{Rebuild: cortex.NewRebuild(), kept: map[int64]cortex.Record{}, state: tipstaff.NothingFound()}
}

func (d *derivation) differs(code string, seq int64, format string, args ...any) {
	d.state.Note(tipstaff.Problem{Code: code, Seq: seq, Message: fmt.Sprintf(format, args...)})
}

func (d *derivation) report() tipstaff.MemoryReport {
	return tipstaff.MemoryReport{Seq: d.Seq, Head: d.Hash.String(), Items: d.Items(), Attests: len(d.Attested), Weights: d.Weights.Named(),
		Log: d.Log, State: d.state, Rebuilt: d.rebuilt}
}

func (d *derivation) read(ctx context.Context, q Querier) error {
	for _, step := range []func(context.Context, Querier) error{d.readLog, d.missingRecords, d.compareItems, d.compareWeights, d.compareEnds} {
		if err := step(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// readLog also compares the columns of each record with its bytes.
func (d *derivation) readLog(ctx context.Context, q Querier) error {
	err := q.Query(ctx, func(r Row) error {
		rec, ok := d.Add(r.Int(0), r.Bytes(1), r.Hash(2))
		if ok && rec.Kind() == cortex.KindRemember {
			d.kept[rec.Seq] = rec
		}
		if ok && (rec.Kind() != r.Text(3) || rec.Run != r.Text(4)) {
			d.Fault(string(journal.ErrHash), r.Int(0), "the record is stored as %s of run %q, and is %s of run %q", r.Text(3), r.Text(4), rec.Kind(), rec.Run)
		}
		return nil
	}, `SELECT l.seq, l.bytes, l.hash, l.kind, coalesce(r.id, '') FROM cortex_log l LEFT JOIN runs r ON r.n = l.run ORDER BY l.seq`)
	d.Close()
	return err
}

// missingRecords looks whether anything follows from records that the log no
// longer has: every record leaves a mark in the rows beside it.
func (d *derivation) missingRecords(ctx context.Context, q Querier) error {
	last, err := Number(ctx, q, `SELECT max(seq) FROM (SELECT max(seq) AS seq FROM cortex_items UNION ALL SELECT max(tombstone) FROM cortex_items
		UNION ALL SELECT max(seq) FROM cortex_weights) AS marks`)
	if err == nil && last > d.Seq {
		d.Fault(string(journal.ErrTruncated), d.Seq, "the log ends here, and something follows from its record %d", last)
	}
	return err
}

// itemRow is a row of cortex_items.
type itemRow struct {
	typ, run, skill, verb, server string
	importance                    int64
	pinned                        bool
	created, lastUse              int64
	accesses, citations           int64
	tombstone                     int64
}

func (d *derivation) compareItems(ctx context.Context, q Querier) error {
	stored := map[int64]bool{}
	differs := func(seq int64, format string, args ...any) {
		d.wrong = append(d.wrong, seq)
		d.differs(faultItem, seq, format, args...)
	}
	err := q.Query(ctx, func(r Row) error {
		row := itemRow{r.Text(1), r.Text(2), r.Text(3), r.Text(4), r.Text(5), r.Int(6), r.Int(7) != 0, r.Int(8), r.Int(9), r.Int(10), r.Int(11), r.Int(12)}
		stored[r.Int(0)] = true
		if want, ok := d.derive(r.Int(0)); !ok {
			differs(r.Int(0), "an item is stored, and the log does not remember it")
		} else if want != row {
			differs(r.Int(0), "the item is stored as %+v, and the log adds up to %+v", row, want)
		}
		return nil
	}, `SELECT i.seq, i.type, coalesce(r.id, ''), i.skill, i.verb, i.server, i.importance, i.pinned, i.created, i.last_use, i.accesses, i.citations, i.tombstone
		FROM cortex_items i LEFT JOIN runs r ON r.n = i.run ORDER BY i.seq`)
	for _, seq := range slices.Sorted(maps.Keys(d.kept)) {
		if err == nil && !stored[seq] {
			differs(seq, "the log remembers an item, and it is not stored")
		}
	}
	return err
}

// derive is the row of the item that a record remembers; false: it remembers none.
func (d *derivation) derive(seq int64) (itemRow, bool) {
	rec, ok := d.kept[seq]
	if !ok {
		return itemRow{}, false
	}
	m, _ := rec.Item()
	u, _ := cortex.ParseURI(m.Item) // checked with the record
	s, ok := d.Standing(u)
	return itemRow{m.Type, rec.Run, m.Skill, m.Verb, m.Server, int64(m.Importance), m.Pinned,
		s.Created.UnixNano(), s.LastUse.UnixNano(), s.Accesses, s.Citations, s.Forgotten}, ok
}

func (d *derivation) compareWeights(ctx context.Context, q Querier) error {
	var stored []cortex.Weights
	seq := int64(0)
	err := q.Query(ctx, func(r Row) error {
		stored = append(stored, cortex.Weights{r.Int(0), r.Int(1), r.Int(2), r.Int(3), r.Int(4)})
		seq = r.Int(5)
		return nil
	}, `SELECT r, a, c, d, v, seq FROM cortex_weights`)
	if d.weights = len(stored) != 1 || stored[0] != d.Weights || seq != d.Learned; d.weights && err == nil {
		d.differs(faultWeights, seq, "the weights are stored as %v, learned with record %d; the log adds up to %v with record %d", stored, seq, d.Weights, d.Learned)
	}
	return err
}

// compareEnds looks whether runs and log agree on what has ended. Runs that ended
// before there was a memory say nothing about it.
func (d *derivation) compareEnds(ctx context.Context, q Querier) error {
	ended := map[string]int64{}
	err := q.Query(ctx, func(r Row) error {
		var evidence struct {
			Cortex *cortex.Place `json:"cortex"`
		}
		run := r.Text(0)
		end, err := tipstaff.ParseEvent(r.Bytes(1))
		if err != nil || json.Unmarshal(tipstaff.BodyOf[tipstaff.Ending](&end).Evidence, &evidence) != nil || evidence.Cortex == nil {
			return nil // what is wrong with the run's own journal is found by verifying that
		}
		ended[run] = evidence.Cortex.AttestSeq
		if seq := d.Attested[run]; seq != ended[run] {
			d.differs(faultNoAttest, ended[run], "run %s ended with this record, and the log has %d", run, seq)
		}
		return nil
	}, `SELECT r.id, k.bytes FROM runs r JOIN records k ON k.run = r.n AND k.seq = r.head WHERE r.state IN ('completed', 'failed', 'cancelled') ORDER BY r.n`)
	var unknown []int64
	for run, seq := range d.Attested {
		if ended[run] == 0 {
			unknown = append(unknown, seq)
		}
	}
	slices.Sort(unknown)
	for _, seq := range unknown {
		d.differs(faultNoEnd, seq, "a run is said to have ended, and its own records do not say so")
	}
	return err
}

// write puts right the rows that differ, and says how many there were.
func (d *derivation) write(t *Tx) (rows int, err error) {
	if !d.Log.OK {
		return 0, nil
	}
	for _, seq := range d.wrong {
		err := t.exec(`DELETE FROM cortex_items WHERE seq = ?`, seq)
		if want, ok := d.derive(seq); err == nil && ok {
			err = t.putItem(seq, want)
		}
		if err != nil {
			return 0, err
		}
		rows++
	}
	if d.weights {
		err = errors.Join(t.exec(`DELETE FROM cortex_weights`),
			t.exec(`INSERT INTO cortex_weights (id, r, a, c, d, v, seq) VALUES (1, 0, 0, 0, 0, 0, 0)`), t.putWeights(d.Weights, d.Learned))
		rows++
	}
	return rows, err
}

// putItem writes the row of the item that a record of the memory's log remembers.
func (t *Tx) putItem(seq int64, i itemRow) error {
	return t.exec(`INSERT INTO cortex_items (seq, type, run, skill, verb, server, importance, pinned, created, last_use, accesses, citations, tombstone)
		VALUES (?, ?, coalesce((SELECT n FROM runs WHERE id = ?), 0), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		seq, i.typ, i.run, i.skill, i.verb, i.server, i.importance, flag(i.pinned), i.created, i.lastUse, i.accesses, i.citations, i.tombstone)
}
