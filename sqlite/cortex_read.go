package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cortex"
	"github.com/tipstaff/tipstaff/flow"
)

// memoryFormat is the first format of the store that has a memory.
const memoryFormat = 2

// readMemory lends a connection to f for one look at the memory: between two it may
// change. A store that is an old one and may only be read has nothing to remember
// yet.
func (s *Store) readMemory(ctx context.Context, f func(*conn) error) error {
	return s.read(ctx, func(c *conn) error {
		format, err := c.number(ctx, `PRAGMA user_version`)
		if err != nil || format < memoryFormat {
			return err
		}
		if err := c.exec(`BEGIN`); err != nil {
			return err
		}
		err = f(c)
		return errors.Join(err, c.exec(`COMMIT`))
	})
}

// selectItems reads what scanItem takes.
const selectItems = `SELECT l.bytes, i.last_use, i.accesses, i.citations, i.tombstone FROM cortex_items i JOIN cortex_log l ON l.seq = i.seq `

func scanItem(r row) (tipstaff.MemoryItem, error) {
	rec, err := cortex.ParseRecord(r.bytes(0))
	if err != nil {
		return tipstaff.MemoryItem{}, fmt.Errorf("%w: the memory: %w", ErrDamaged, err)
	}
	m, ok := rec.Item()
	if !ok {
		return m, noItemIn(rec)
	}
	m.LastUsedAt, m.Accesses, m.Citations, m.Forgotten = r.time(1), r.int(2), r.int(3), r.int(4) > 0
	return m, nil
}

func readItems(ctx context.Context, c *conn, where string, args ...any) (items []tipstaff.MemoryItem, err error) {
	err = c.query(ctx, func(r row) error {
		m, err := scanItem(r)
		items = append(items, m)
		return err
	}, selectItems+where, args...)
	return items, err
}

// items are the fresh ones for which f holds, and then what a query finds, in one
// look.
func (s *Store) items(ctx context.Context, f func(*tipstaff.MemoryItem) bool, where string, args ...any) (items []tipstaff.MemoryItem, err error) {
	err = s.readMemory(ctx, func(c *conn) error {
		fresh, err := newestFresh(ctx, c, f)
		if err != nil {
			return err
		}
		stored, err := readItems(ctx, c, where, args...)
		items = append(fresh, stored...)
		return err
	})
	return items, err
}

// MemoryItems are the items in use, newest first.
func (s *Store) MemoryItems(ctx context.Context, q tipstaff.MemoryQuery) ([]tipstaff.MemoryItem, error) {
	limit := int64(-1) // all
	if q.Limit > 0 {
		limit = int64(q.Limit)
	}
	where, args := `WHERE i.tombstone = 0 ORDER BY i.seq DESC LIMIT ?`, []any{limit}
	if q.Type != "" {
		where, args = `WHERE i.tombstone = 0 AND i.type = ? ORDER BY i.seq DESC LIMIT ?`, []any{q.Type, limit}
	}
	items, err := s.items(ctx, func(m *tipstaff.MemoryItem) bool { return q.Type == "" || m.Type == q.Type }, where, args...)
	if q.Limit > 0 && len(items) > q.Limit {
		items = items[:q.Limit]
	}
	return items, err
}

// MemoryItem is one item, in use or not; false: there is none of that name.
func (s *Store) MemoryItem(ctx context.Context, u cortex.URI) (m tipstaff.MemoryItem, ok bool, err error) {
	items, err := s.items(ctx, func(m *tipstaff.MemoryItem) bool { return m.Seq == u.Seq() }, `WHERE i.seq = ?`, u.Seq())
	if err != nil || len(items) == 0 || items[0].Item != u.String() {
		return m, false, err
	}
	return items[0], true, nil
}

// Recollect are all the items in use that can be among the best for a request.
// Events that nobody has used differ in their age alone: the youngest do.
func (s *Store) Recollect(ctx context.Context, req tipstaff.RecallRequest) (items []tipstaff.MemoryItem, err error) {
	const concerns = `i.tombstone = 0 AND (i.skill = '' AND i.verb = '' AND i.server = '' AND i.type <> 'event' OR i.skill = ? AND i.skill <> ''
		OR i.verb = ? AND i.verb <> '' OR i.server = ? AND i.server <> '')`
	err = s.readMemory(ctx, func(c *conn) error {
		fresh, err := newestFresh(ctx, c, func(m *tipstaff.MemoryItem) bool { return cortex.Concerns(m, req) })
		if err != nil {
			return err
		}
		used, err := readItems(ctx, c, `WHERE (i.type <> 'event' OR i.accesses > 0 OR i.citations > 0) AND `+concerns, req.Skill, req.Verb, req.Server)
		if err != nil {
			return err
		}
		unused, err := readItems(ctx, c, `WHERE i.type = 'event' AND i.accesses = 0 AND i.citations = 0 AND `+concerns+` ORDER BY i.last_use DESC, i.seq DESC LIMIT ?`,
			req.Skill, req.Verb, req.Server, int64(cortex.Recalled))
		items = slices.Concat(fresh, used, unused)
		return err
	})
	return items, err
}

// MemoryWeights are those in force.
func (s *Store) MemoryWeights(ctx context.Context) (cortex.Weights, error) {
	w := cortex.Cold
	err := s.readMemory(ctx, func(c *conn) (err error) {
		w, err = readWeights(ctx, c)
		return err
	})
	return w, err
}

// MemoryLog gives stored records after seq, ascending, at most limit.
func (s *Store) MemoryLog(ctx context.Context, after int64, limit int) (records []flow.Stored, err error) {
	err = s.readMemory(ctx, func(c *conn) error {
		records = nil
		return c.query(ctx, func(r row) error {
			stored := flow.Stored{Seq: r.int(0), Kind: r.text(1), Bytes: r.bytes(2)}
			copy(stored.Hash[:], r.bytes(3))
			records = append(records, stored)
			return nil
		}, `SELECT seq, kind, bytes, hash FROM cortex_log WHERE seq > ? ORDER BY seq LIMIT ?`, after, int64(limit))
	})
	return records, err
}
