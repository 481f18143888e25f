package sqlite

import (
	"context"
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
	query := `SELECT r.id, g.id, g.kind, g.key, g.opened, g.opened_at, g.expires_at, g.decided, g.via, g.decision, k.bytes
		FROM gates g JOIN runs r ON r.n = g.run JOIN records k ON k.run = g.run AND k.seq = g.opened`
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
	rec, err := journal.Parse(r.bytes(10))
	if err != nil {
		return g, fmt.Errorf("%w: record %d of run %s: %w", ErrDamaged, g.Opened, g.Run, err)
	}
	get := func(h journal.Hash) ([]byte, error) { return s.Blob(ctx, h.String()) }
	if g.Body, err = journal.Attach(rec.Kind, rec.Note, rec.Body, get); err != nil {
		return g, err
	}
	if decision := r.bytes(9); len(decision) > 0 {
		g.Decision, err = journal.Attach(string(tipstaff.KindPolicyGateResolve), false, decision, get)
	}
	return g, err
}
