package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tipstaff/tipstaff/cortex"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// The memory's log is one for all runs and all processes. Its numbers are taken
// inside the transaction that writes, as those of records are: SQLite has one
// writer at a time, so there are no gaps.

// memoryHead is the end of that log as the writer knows it: as of the last
// commit, or of this transaction.
type memoryHead struct {
	known   bool
	seq     int64
	hash    journal.Hash
	settled int64       // all items up to this record have rows
	fresh   []freshItem // the others
	foreign bool        // some of the others are in the log alone
}

// memory is the end of the log, read again if another process may have moved it.
func (t *tx) memory() (*memoryHead, error) {
	m := &t.w.memory
	if m.known {
		return m, nil
	}
	err := t.c.query(context.Background(), func(r row) error {
		m.seq = r.int(0)
		copy(m.hash[:], r.bytes(1))
		return nil
	}, `SELECT seq, hash FROM cortex_log ORDER BY seq DESC LIMIT 1`)
	if err == nil {
		m.settled, err = lastItem(context.Background(), t.c)
	}
	m.known, m.foreign = err == nil, m.seq > m.settled
	return m, err
}

// log appends a record about a run, which may be none. Its number is the next
// one.
func (m *memoryHead) log(t *tx, st *runState, path string, body cortex.Body) (cortex.Record, error) {
	rec := cortex.Record{Seq: m.seq + 1, At: t.now, Path: path, Body: body}
	if st != nil {
		rec.Run = st.id
	}
	stored, err := rec.Bytes()
	if err != nil {
		return rec, err
	}
	hash := m.hash.Next(stored)
	err = t.exec(`INSERT INTO cortex_log (seq, kind, run, bytes, hash) VALUES (?, ?, ?, ?, ?)`, rec.Seq, rec.Kind(), st.number(), stored, hash[:])
	if err != nil {
		return rec, err
	}
	m.seq, m.hash = rec.Seq, hash
	return rec, nil
}

func (st *runState) number() int64 {
	if st == nil {
		return 0
	}
	return st.n
}

// remember keeps an item, which is fresh then. Its name is that of the record that
// remembers it.
func (t *tx) remember(st *runState, path, typ string, b cortex.Remember) (cortex.URI, error) {
	m, err := t.memory()
	if err != nil {
		return cortex.URI{}, err
	}
	u := cortex.NewURI(typ, t.now, m.seq+1)
	b.Item = u.String()
	rec, err := m.log(t, st, path, &b)
	if err == nil && !m.foreign {
		m.fresh = append(m.fresh, freshItem{st.number(), rec, &b})
	}
	return u, err
}

// rememberEvent keeps what the memory is to know of a record.
func (t *tx) rememberEvent(st *runState, r flow.Record) error {
	memo := r.Memo
	if memo == nil {
		return nil
	}
	_, err := t.remember(st, r.Path, cortex.TypeEvent, cortex.Remember{
		By: journal.Executor, Digest: memo.Digest, Importance: cortex.EventImportance, Kind: memo.Kind, Outcome: memo.Outcome,
		Server: memo.Server, Skill: memo.Skill, Text: cortex.Summary(memo.Summary), Tool: memo.Tool, Verb: memo.Verb})
	if m := &t.w.memory; err == nil && m.seq-m.settled >= freshLimit {
		err = t.settleItems()
	}
	return err
}

// attest tells the memory that a run ends, and returns the body of the envelope
// that ends it, which says so.
func (t *tx) attest(st *runState, d flow.Draft) (json.RawMessage, error) {
	m, err := t.memory()
	if err == nil {
		err = t.settleItems()
	}
	if err != nil {
		return nil, err
	}
	began, err := t.c.number(context.Background(), `SELECT created FROM runs WHERE n = ?`, st.n)
	if err != nil {
		return nil, err
	}
	own, err := t.itemsBelow(st)
	if err != nil {
		return nil, err
	}
	a, err := cortex.Ending(d, time.Unix(0, began).UTC(), own)
	if err != nil {
		return nil, err
	}
	if _, err := m.log(t, st, "", a); err != nil {
		return nil, err
	}
	seq := m.seq
	if err := t.settle(st, m, a); err != nil {
		return nil, err
	}
	return a.Sign(d.Body, seq)
}

// itemsBelow are the items that a run and its children have left behind.
func (t *tx) itemsBelow(st *runState) ([]cortex.URI, error) {
	items, err := t.itemsOf(nil, st.n)
	if err != nil {
		return nil, err
	}
	var children []int64
	err = t.c.query(context.Background(), func(r row) error {
		var dispatch struct {
			Body struct {
				Child string `json:"child"`
			} `json:"body"`
		}
		if err := json.Unmarshal(r.bytes(0), &dispatch); err != nil {
			return fmt.Errorf("%w: an intent.dispatch of run %s: %w", ErrDamaged, st.id, err)
		}
		n, err := t.c.number(context.Background(), `SELECT n FROM runs WHERE id = ?`, dispatch.Body.Child)
		children = append(children, n)
		return err
	}, `SELECT bytes FROM records WHERE run = ? AND kind = 'intent.dispatch' ORDER BY seq`, st.n)
	for _, n := range children {
		if err == nil && n > 0 {
			items, err = t.itemsOf(items, n)
		}
	}
	return items, err
}

// itemsOf adds the items that a run itself has left behind.
func (t *tx) itemsOf(items []cortex.URI, run int64) ([]cortex.URI, error) {
	err := t.c.query(context.Background(), func(r row) error {
		items = append(items, cortex.NewURI(r.text(0), r.time(1), r.int(2)))
		return nil
	}, `SELECT type, created, seq FROM cortex_items WHERE run = ? ORDER BY seq`, run)
	return items, err
}

// settle writes what follows from an attest, the log's last record.
func (t *tx) settle(st *runState, m *memoryHead, a *cortex.Attest) error {
	weights, err := readWeights(context.Background(), t.c)
	if err != nil {
		return err
	}
	learned, changes, err := cortex.Settle(m.seq, t.now, a, weights, func(u cortex.URI) (cortex.Standing, bool, error) {
		return readStanding(t.c, u)
	})
	if err != nil {
		return err
	}
	if _, err := m.log(t, st, "", learned); err != nil {
		return err
	}
	for _, c := range changes {
		if err := t.putStanding(c); err != nil {
			return err
		}
	}
	return t.putWeights(learned.New, m.seq)
}

func (t *tx) putStanding(c cortex.Change) error {
	return t.exec(`UPDATE cortex_items SET last_use = ?, accesses = ?, citations = ? WHERE seq = ?`,
		c.LastUse.UnixNano(), c.Accesses, c.Citations, c.Item.Seq())
}

func (t *tx) putWeights(w cortex.Weights, seq int64) error {
	return t.exec(`UPDATE cortex_weights SET r = ?, a = ?, c = ?, d = ?, v = ?, seq = ? WHERE id = 1`, w[0], w[1], w[2], w[3], w[4], seq)
}

func readWeights(ctx context.Context, c *conn) (w cortex.Weights, err error) {
	err = c.one(ctx, func(r row) error {
		for i := range w {
			w[i] = r.int(i)
		}
		return nil
	}, `SELECT r, a, c, d, v FROM cortex_weights`)
	if errors.Is(err, errNoRow) {
		err = fmt.Errorf("%w: the memory has lost its weights: `tipstaff memory rebuild` derives them again", ErrDamaged)
	}
	return w, err
}

// readStanding is how an item stands; false: there is none of that name.
func readStanding(c *conn, u cortex.URI) (s cortex.Standing, ok bool, err error) {
	err = c.query(context.Background(), func(r row) error {
		s = cortex.Standing{Created: r.time(1), LastUse: r.time(2), Accesses: r.int(3), Citations: r.int(4),
			Importance: int(r.int(5)), Pinned: r.int(6) != 0, Forgotten: r.int(7)}
		ok = cortex.NewURI(r.text(0), s.Created, u.Seq()) == u
		return nil
	}, `SELECT type, created, last_use, accesses, citations, importance, pinned, tombstone FROM cortex_items WHERE seq = ?`, u.Seq())
	return s, ok, err
}

// Remember keeps an item that no run has made.
func (s *Store) Remember(ctx context.Context, typ string, b cortex.Remember) (u cortex.URI, err error) {
	err = s.do(ctx, &op{drafts: 1, apply: func(t *tx) (err error) {
		if u, err = t.remember(nil, "", typ, b); err == nil {
			err = t.settleItems()
		}
		return err
	}})
	return u, err
}

// Forget takes an item out of use. One that is out of use already stays as it
// is; false: there is none of that name.
func (s *Store) Forget(ctx context.Context, u cortex.URI, by string) (ok bool, err error) {
	err = s.do(ctx, &op{drafts: 1, apply: func(t *tx) (err error) {
		if err := t.settleItems(); err != nil {
			return err
		}
		var was cortex.Standing
		if was, ok, err = readStanding(t.c, u); err != nil || !ok || was.Forgotten > 0 {
			return err
		}
		return t.forget(u, by)
	}})
	return ok, err
}

func (t *tx) forget(u cortex.URI, by string) error {
	m, err := t.memory()
	if err != nil {
		return err
	}
	if _, err := m.log(t, nil, "", &cortex.Tombstone{By: by, Item: u.String()}); err != nil {
		return err
	}
	return t.exec(`UPDATE cortex_items SET tombstone = ? WHERE seq = ?`, m.seq, u.Seq())
}
