package sqlite

import (
	"context"
	"fmt"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cortex"
)

// Most items are events, one for each leaf that ends, and of most nobody hears
// again. A row for each at once would cost every commit two pages beside the one of
// the log, so their rows are written many at a time. Until then they are fresh: they
// stand after the last row, and all that is known of them is in their records.
// Whoever adds or changes a row writes those of the fresh ones first. So whatever
// was cited, forgotten or given by a person has its row.

// freshLimit is how many records may be looked through for fresh items.
const freshLimit = 256

// freshItem is an item that has no row yet.
type freshItem struct {
	run  int64
	rec  cortex.Record
	body *cortex.Remember
}

// lastItem is the record of the last item that has a row.
func lastItem(ctx context.Context, c *conn) (int64, error) {
	return c.number(ctx, `SELECT max(seq) FROM cortex_items`)
}

// readFresh reads the fresh items from the log, oldest first.
func readFresh(ctx context.Context, c *conn) (fresh []freshItem, err error) {
	last, err := lastItem(ctx, c)
	if err != nil {
		return nil, err
	}
	err = c.query(ctx, func(r row) error {
		rec, err := cortex.ParseRecord(r.bytes(1))
		if err != nil {
			return fmt.Errorf("%w: the memory: %w", ErrDamaged, err)
		}
		body, ok := rec.Body.(*cortex.Remember)
		if !ok {
			return noItemIn(rec)
		}
		fresh = append(fresh, freshItem{r.int(0), rec, body})
		return nil
	}, `SELECT run, bytes FROM cortex_log WHERE kind = 'remember' AND seq > ? ORDER BY seq`, last)
	return fresh, err
}

func noItemIn(rec cortex.Record) error {
	return fmt.Errorf("%w: record %d of the memory keeps no item", ErrDamaged, rec.Seq)
}

// settleItems writes the rows of the fresh items.
func (t *tx) settleItems() error {
	m, err := t.memory()
	if err != nil {
		return err
	}
	if m.foreign {
		if m.fresh, err = readFresh(context.Background(), t.c); err != nil {
			return err
		}
	}
	if err := t.putItems(m.fresh); err != nil {
		return err
	}
	// Not cut to nothing: an op that fails gets back what was in it.
	m.fresh, m.settled, m.foreign = nil, m.seq, false
	return nil
}

func (t *tx) putItems(fresh []freshItem) error {
	for _, f := range fresh {
		u, err := cortex.ParseURI(f.body.Item)
		if err != nil {
			return err
		}
		at := f.rec.At.UnixNano()
		err = t.exec(`INSERT INTO cortex_items (seq, type, run, skill, verb, server, importance, pinned, created, last_use) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			f.rec.Seq, u.Type, f.run, f.body.Skill, f.body.Verb, f.body.Server, int64(f.body.Importance), flag(f.body.Pinned), at, at)
		if err != nil {
			return err
		}
	}
	return nil
}

func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// newestFresh are the fresh items for which f holds, newest first.
func newestFresh(ctx context.Context, c *conn, f func(*tipstaff.MemoryItem) bool) (items []tipstaff.MemoryItem, err error) {
	fresh, err := readFresh(ctx, c)
	for i := len(fresh) - 1; i >= 0; i-- {
		if m, ok := fresh[i].rec.Item(); ok && f(&m) {
			items = append(items, m)
		}
	}
	return items, err
}
