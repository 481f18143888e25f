package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// Gates implements [flow.Reader].
func (s *Store) Gates(ctx context.Context, q flow.GateQuery) ([]flow.GateRow, error) {
	return s.gates(ctx, s.db, q)
}

// gates reads gates with the bodies of their records, payloads attached.
func (s *Store) gates(ctx context.Context, db Querier, q flow.GateQuery) (gates []flow.GateRow, err error) {
	where, args := whereGates(q)
	order := ` ORDER BY g.id`
	if q.Run != "" {
		order = ` ORDER BY g.opened`
	}
	if q.Limit > 0 {
		order, args = order+` LIMIT ?`, append(args, int64(q.Limit))
	}
	err = db.Query(ctx, func(r Row) error {
		g, err := s.scanGate(r)
		gates = append(gates, g)
		return err
	}, `SELECT r.id, g.id, g.kind, g.key, g.opened, g.opened_at, g.expires_at, g.decided, g.via, k.bytes, d.bytes
		FROM gates g JOIN runs r ON r.n = g.run JOIN records k ON k.run = g.run AND k.seq = g.opened
		LEFT JOIN records d ON d.run = g.run AND d.seq = g.decided WHERE `+where+order, args...)
	return gates, err
}

// CountGates implements [flow.Reader].
func (s *Store) CountGates(ctx context.Context, q flow.GateQuery) (map[string]int, error) {
	counts := map[string]int{}
	where, args := whereGates(q)
	from, by := `gates g`, `g.kind`
	if q.Lapsed || q.ByName {
		from += ` JOIN runs r ON r.n = g.run`
	}
	if q.ByName {
		by = `r.name`
	}
	err := s.db.Query(ctx, func(r Row) error {
		counts[r.Text(0)] = int(r.Int(1))
		return nil
	}, `SELECT `+by+`, count(*) FROM `+from+` WHERE `+where+` GROUP BY `+by, args...)
	return counts, err
}

// whereGates selects gates g of runs r.
func whereGates(q flow.GateQuery) (where string, args []any) {
	where = "true"
	add := func(condition string, values ...any) {
		where, args = where+" AND "+condition, append(args, values...)
	}
	if q.Run != "" {
		add(`g.run = (SELECT n FROM runs WHERE id = ?)`, q.Run)
		if q.ID != "" {
			add(`g.id = ?`, q.ID)
		}
	}
	if q.Open {
		add(`g.decided = 0`)
	}
	if q.Lapsed {
		add(`g.via = 'expiry' AND r.owned = ? AND r.state NOT IN ('completed', 'failed', 'cancelled')`, flow.KindRunParked)
	}
	if !q.Due.IsZero() {
		add(`g.expires_at <= ?`, q.Due.UnixNano())
	}
	if !q.Valid.IsZero() {
		add(`(g.expires_at IS NULL OR g.expires_at > ?)`, q.Valid.UnixNano())
	}
	if q.After != "" {
		add(`g.id > ?`, q.After)
	}
	if q.User != "" {
		add(`g."user" = ?`, q.User)
	}
	if q.Name != "" {
		add(`g.run IN (SELECT n FROM runs WHERE name = ? AND name <> '')`, q.Name)
	}
	if len(q.Kinds) > 0 {
		kinds := make([]any, len(q.Kinds))
		for i, k := range q.Kinds {
			kinds[i] = k
		}
		add(`g.kind IN (`+strings.TrimSuffix(strings.Repeat("?, ", len(kinds)), ", ")+`)`, kinds...)
	}
	return where, args
}

func (s *Store) scanGate(r Row) (flow.GateRow, error) {
	g := flow.GateRow{
		Run: r.Text(0), ID: r.Text(1), Kind: r.Text(2), Key: r.Text(3), Opened: r.Int(4), OpenedAt: r.Time(5),
		ExpiresAt: r.Time(6), Decided: r.Int(7), Via: r.Text(8),
	}
	opened, err := gateRecord(g.Run, g.ID, g.Opened, r.Bytes(9), tipstaff.Kind.OpensGate)
	if err != nil {
		return g, err
	}
	if g.Body, err = journal.Attach(opened.Kind, opened.Note, opened.Body, s.db.GetBlob); err != nil || g.Decided == 0 {
		return g, err
	}
	decided, err := gateRecord(g.Run, g.ID, g.Decided, r.Bytes(10), tipstaff.Kind.ClosesGate)
	if err == nil && tipstaff.Kind(decided.Kind).ClosesGate() {
		if decided.Body, err = journal.Attach(decided.Kind, decided.Note, decided.Body, s.db.GetBlob); err == nil {
			g.Decision, err = flow.ReadResolved(decided.Kind, decided.Body)
		}
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
	b, err := flow.ReadResolved(rec.Kind, rec.Body) // what opens a gate names it in the same member
	if err != nil || !is(tipstaff.Kind(rec.Kind)) || b.Gate != gate {
		return rec, unsound(run, seq, fmt.Errorf("it is taken for a record of gate %s and is %s", gate, rec.Kind))
	}
	return rec, nil
}

// closesDecided reports whether a draft is a closing that came too late and is
// left out: by expiry, by being superseded or by the end of the run. Anybody
// else's second decision is an error, as is one of a gate that never was.
func (t *Tx) closesDecided(st *runState, d flow.Draft) (late bool, err error) {
	if !tipstaff.Kind(d.Kind).ClosesGate() {
		return false, nil
	}
	b, err := flow.ReadResolved(d.Kind, d.Body)
	if err != nil {
		return false, fmt.Errorf("body of %s: %w", d.Kind, err)
	}
	if b.Gate == "" {
		return false, nil
	}
	decided, err := t.decided(st, b.Gate)
	if err != nil || decided == 0 {
		return false, err
	}
	if d.Kind == flow.KindGateResolved && (b.Via == flow.ViaExpiry || !b.Decision()) {
		return true, nil
	}
	conflict := tipstaff.Errorf(tipstaff.DecisionConflict, "gate %s of run %s was decided by record %d", b.Gate, st.id, decided)
	conflict.Err = flow.ErrDecided
	return false, conflict
}

// decided is the seq of the record that decided a gate; 0: it is open. The rows of
// gates are not believed alone: a decision must stand in the journal, and none may
// stand there of a gate that passes for open, whose own record must be sound.
func (t *Tx) decided(st *runState, gate string) (decided int64, err error) {
	var opened int64
	var record []byte
	err = one(context.Background(), t.c, func(r Row) error {
		decided, opened, record = r.Int(0), r.Int(1), r.Bytes(2)
		return nil
	}, `SELECT g.decided, g.opened, d.bytes FROM gates g LEFT JOIN records d ON d.run = g.run AND d.seq = g.decided WHERE g.run = ? AND g.id = ?`, st.n, gate)
	switch {
	case errors.Is(err, errNoRow):
		return 0, tipstaff.Errorf(tipstaff.GateNotFound, "run %s has no gate %s", st.id, gate)
	case err != nil:
		return 0, err
	case decided > 0:
		_, err := gateRecord(st.id, gate, decided, record, tipstaff.Kind.ClosesGate)
		return decided, err
	}
	if err := t.checkRecord(st, opened); err != nil {
		return 0, err
	}
	return 0, t.query(func(r Row) error {
		if !tipstaff.Kind(r.Text(1)).ClosesGate() {
			return nil
		}
		if _, err := gateRecord(st.id, gate, r.Int(0), r.Bytes(2), tipstaff.Kind.ClosesGate); err == nil {
			return unsound(st.id, r.Int(0), fmt.Errorf("it decides gate %s, which is stored as open", gate))
		}
		return nil
	}, `SELECT seq, kind, bytes FROM records WHERE run = ? AND seq > ? AND (kind LIKE 'policy.%' OR kind LIKE 'intent.%')`, st.n, opened)
}

// checkRecord checks a single record of a run that this process has not checked as a
// whole: what somebody is about to decide must be what was asked.
func (t *Tx) checkRecord(st *runState, seq int64) error {
	if st.sound {
		return nil
	}
	keys, err := t.published(st, flow.Draft{})
	if err != nil {
		return err
	}
	if *keys == (tipstaff.RunKeys{}) {
		*keys = t.s.Keys()
	}
	part, err := partOf(context.Background(), t.c, st.id, st.n, *keys, seq, journal.Head{})
	if err != nil {
		return err
	}
	return readChecked(context.Background(), t.c, &part, st.id, st.n, seq, func(flow.Record) error { return nil })
}
