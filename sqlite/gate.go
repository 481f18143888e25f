package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// Gates implements [flow.Reader].
func (s *Store) Gates(ctx context.Context, q flow.GateQuery) (gates []flow.GateRow, err error) {
	err = s.read(ctx, func(c *conn) (err error) {
		gates, err = s.gates(ctx, c, q)
		return err
	})
	return gates, err
}

// gates reads gates with the bodies of their records, payloads attached.
func (s *Store) gates(ctx context.Context, c *conn, q flow.GateQuery) (gates []flow.GateRow, err error) {
	query := `SELECT r.id, g.id, g.kind, g.key, g.opened, g.opened_at, g.expires_at, g.decided, g.via, k.bytes, d.bytes
		FROM gates g JOIN runs r ON r.n = g.run JOIN records k ON k.run = g.run AND k.seq = g.opened
		LEFT JOIN records d ON d.run = g.run AND d.seq = g.decided`
	var args []any
	switch {
	case q.Run != "" && q.ID != "":
		query, args = query+` WHERE g.run = (SELECT n FROM runs WHERE id = ?) AND g.id = ?`, []any{q.Run, q.ID}
	case q.Run != "" && q.Open:
		query, args = query+` WHERE g.run = (SELECT n FROM runs WHERE id = ?) AND g.decided = 0 ORDER BY g.opened`, []any{q.Run}
	case q.Run != "":
		query, args = query+` WHERE g.run = (SELECT n FROM runs WHERE id = ?) ORDER BY g.opened`, []any{q.Run}
	case q.Open:
		query += ` WHERE g.decided = 0 ORDER BY g.opened_at, g.run, g.opened`
	default:
		query += ` ORDER BY g.opened_at, g.run, g.opened`
	}
	err = c.query(ctx, func(r row) error {
		g, err := s.scanGate(ctx, r)
		gates = append(gates, g)
		return err
	}, query, args...)
	return gates, err
}

func (s *Store) scanGate(ctx context.Context, r row) (flow.GateRow, error) {
	g := flow.GateRow{
		Run: r.text(0), ID: r.text(1), Kind: r.text(2), Key: r.text(3), Opened: r.int(4), OpenedAt: r.time(5),
		ExpiresAt: r.time(6), Decided: r.int(7), Via: r.text(8),
	}
	get := func(h journal.Hash) ([]byte, error) { return s.Blob(ctx, h.String()) }
	opened, err := gateRecord(g.Run, g.ID, g.Opened, r.bytes(9), opens)
	if err != nil {
		return g, err
	}
	if g.Body, err = journal.Attach(opened.Kind, opened.Note, opened.Body, get); err != nil || g.Decided == 0 {
		return g, err
	}
	decided, err := gateRecord(g.Run, g.ID, g.Decided, r.bytes(10), closes)
	if err == nil && closes(tipstaff.Kind(decided.Kind)) {
		g.Decision, err = journal.Attach(decided.Kind, decided.Note, decided.Body, get)
	}
	return g, err
}

// gateRecord is the record that opened or closed a gate; the end of a run closes all
// that are left. The row of a gate is only an index: what it says is not obeyed unless
// the record says so too.
func gateRecord(run, gate string, seq int64, stored []byte, is func(tipstaff.Kind) bool) (journal.Record, error) {
	rec, err := journal.Parse(stored)
	if err != nil {
		return rec, unsound(run, seq, err)
	}
	if tipstaff.Kind(rec.Kind).Terminal() {
		return rec, nil
	}
	var b gateBody
	if err := json.Unmarshal(rec.Body, &b); err != nil || !is(tipstaff.Kind(rec.Kind)) || b.Gate != gate {
		return rec, unsound(run, seq, fmt.Errorf("it is taken for a record of gate %s and is %s", gate, rec.Kind))
	}
	return rec, nil
}

// decided is the seq of the record that decided a gate; 0: it is open. The rows of
// gates are not believed alone: a decision must stand in the journal, and none may
// stand there of a gate that passes for open, whose own record must be sound.
func (t *tx) decided(st *runState, gate string) (decided int64, err error) {
	ctx := context.Background()
	var opened int64
	var record []byte
	err = t.c.one(ctx, func(r row) error {
		decided, opened, record = r.int(0), r.int(1), r.bytes(2)
		return nil
	}, `SELECT g.decided, g.opened, d.bytes FROM gates g LEFT JOIN records d ON d.run = g.run AND d.seq = g.decided WHERE g.run = ? AND g.id = ?`, st.n, gate)
	switch {
	case errors.Is(err, errNoRow):
		return 0, tipstaff.Errorf(tipstaff.GateNotFound, "run %s has no gate %s", st.id, gate)
	case err != nil:
		return 0, err
	case decided > 0:
		_, err := gateRecord(st.id, gate, decided, record, closes)
		return decided, err
	}
	if err := t.checkRecord(st, opened); err != nil {
		return 0, err
	}
	return 0, t.c.query(ctx, func(r row) error {
		if _, err := gateRecord(st.id, gate, r.int(0), r.bytes(1), closes); err == nil {
			return unsound(st.id, r.int(0), fmt.Errorf("it decides gate %s, which is stored as open", gate))
		}
		return nil
	}, `SELECT seq, bytes FROM records WHERE run = ? AND seq > ? AND kind IN ('policy.gate.resolve', 'intent.answer', 'intent.accept', 'intent.cancel')`, st.n, opened)
}

// checkRecord checks a single record of a run that this process has not checked as a
// whole: what somebody is about to decide must be what was asked.
func (t *tx) checkRecord(st *runState, seq int64) error {
	if st.sound {
		return nil
	}
	keys, err := t.published(st, flow.Draft{})
	if err != nil {
		return err
	}
	if *keys == (Keys{}) {
		*keys = t.w.s.Keys()
	}
	before := journal.Head{Seq: seq - 1}
	return t.c.query(context.Background(), func(r row) error {
		if r.int(0) < seq {
			copy(before.Hash[:], r.bytes(2))
			return nil
		}
		part := journal.NewPart(st.id, before, journal.Head{}, keys.User, keys.Executor)
		_, err := addTo(&part, st.id, r)
		return err
	}, selectChecked, st.n, seq-1, seq)
}
