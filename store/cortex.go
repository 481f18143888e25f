package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cortex"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// The memory's log is one for all runs and all processes. Its numbers are taken
// inside the transaction that writes, of which a store has one at a time: there are
// no gaps.

// memoryHead is the end of that log as the writer knows it.
type memoryHead struct {
	known bool
	seq   int64
	hash  journal.Hash
}

// nextMemory is the number of the next record of the memory's log.
func (t *Tx) nextMemory() (int64, error) {
	m := &t.s.memory
	moved, err := t.lock("memory")
	if m.known && !moved || err != nil {
		return m.seq + 1, err
	}
	m.seq, m.hash = 0, journal.Hash{}
	err = t.query(func(r Row) error {
		m.seq, m.hash = r.Int(0), r.Hash(1)
		return nil
	}, `SELECT seq, hash FROM cortex_log ORDER BY seq DESC LIMIT 1`)
	m.known = err == nil
	return m.seq + 1, err
}

// log appends a record about a run, which may be none, to the memory's log.
func (t *Tx) log(st *runState, path string, body cortex.Body) (cortex.Record, error) {
	seq, err := t.nextMemory()
	rec := cortex.Record{Seq: seq, At: t.now, Path: path, Body: body}
	if err != nil {
		return rec, err
	}
	n := int64(0)
	if st != nil {
		rec.Run, n = st.id, st.n
	}
	stored, err := rec.Bytes()
	if err != nil {
		return rec, err
	}
	m := &t.s.memory
	hash := m.hash.Next(stored)
	err = t.exec(`INSERT INTO cortex_log (seq, kind, run, bytes, hash) VALUES (?, ?, ?, ?, ?)`, rec.Seq, rec.Kind(), n, stored, hash[:])
	if err != nil {
		return rec, err
	}
	m.seq, m.hash = rec.Seq, hash
	return rec, nil
}

// remember keeps an item. Its name is that of the record that remembers it.
func (t *Tx) remember(st *runState, path, typ string, b cortex.Remember) (u cortex.URI, err error) {
	seq, err := t.nextMemory()
	if err != nil {
		return u, err
	}
	u = cortex.NewURI(typ, t.now, seq)
	b.Item = u.String()
	rec, err := t.log(st, path, &b)
	if err != nil {
		return u, err
	}
	at := rec.At.UnixNano()
	return u, t.putItem(rec.Seq, itemRow{typ: u.Type, run: rec.Run, skill: b.Skill, verb: b.Verb, server: b.Server,
		importance: int64(b.Importance), pinned: b.Pinned, created: at, lastUse: at})
}

// event is what the memory is to know of a record.
type event struct {
	of   *runState
	path string
	memo *flow.Memo
}

// rememberEvent keeps what the memory is to know of a record: where others write at the same
// time, when the transaction is about to end, for all of them wait for the memory.
func (t *Tx) rememberEvent(st *runState, r flow.Record) error {
	if r.Memo == nil {
		return nil
	}
	t.events = append(t.events, event{st, r.Path, r.Memo})
	if t.s.opts.Shared {
		return nil
	}
	return t.rememberEvents()
}

// rememberEvents keeps the events that are yet to be kept.
func (t *Tx) rememberEvents() error {
	events := t.events
	t.events = nil
	for _, e := range events {
		_, err := t.remember(e.of, e.path, cortex.TypeEvent, cortex.Remember{
			By: journal.Executor, Digest: e.memo.Digest, Importance: cortex.EventImportance, Kind: e.memo.Kind, Outcome: e.memo.Outcome,
			Server: e.memo.Server, Skill: e.memo.Skill, Text: cortex.Summary(e.memo.Summary), Tool: e.memo.Tool, Verb: e.memo.Verb})
		if err != nil {
			return err
		}
	}
	return nil
}

// attest tells the memory that a run ends, and returns the body of the envelope
// that ends it, which says so.
func (t *Tx) attest(st *runState, d flow.Draft) (json.RawMessage, error) {
	began, err := t.number(`SELECT created FROM runs WHERE n = ?`, st.n)
	if err != nil {
		return nil, err
	}
	if err := t.rememberEvents(); err != nil {
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
	rec, err := t.log(st, "", a)
	if err != nil {
		return nil, err
	}
	if err := t.learn(st, rec.Seq, a); err != nil {
		return nil, err
	}
	return a.Sign(d.Body, rec.Seq)
}

// itemsBelow are the items that a run and its children have left behind.
func (t *Tx) itemsBelow(st *runState) (items []cortex.URI, err error) {
	runs := []int64{st.n}
	err = t.query(func(r Row) error {
		e, err := tipstaff.ParseEvent(r.Bytes(0))
		if err != nil {
			return fmt.Errorf("%w: an intent.dispatch of run %s: %w", ErrDamaged, st.id, err)
		}
		n, err := t.number(`SELECT n FROM runs WHERE id = ?`, tipstaff.BodyOf[tipstaff.IntentDispatch](&e).Child.String())
		runs = append(runs, n)
		return err
	}, `SELECT bytes FROM records WHERE run = ? AND kind = 'intent.dispatch' ORDER BY seq`, st.n)
	for _, n := range runs {
		if err == nil && n > 0 {
			err = t.query(func(r Row) error {
				items = append(items, cortex.NewURI(r.Text(0), r.Time(1), r.Int(2)))
				return nil
			}, `SELECT type, created, seq FROM cortex_items WHERE run = ? ORDER BY seq`, n)
		}
	}
	return items, err
}

// learn writes what follows from an attest, the log's last record.
func (t *Tx) learn(st *runState, seq int64, a *cortex.Attest) error {
	weights, err := readWeights(context.Background(), t.c)
	if err != nil {
		return err
	}
	learned, changes, err := cortex.Settle(seq, t.now, a, weights, t.standing)
	if err != nil {
		return err
	}
	rec, err := t.log(st, "", learned)
	if err != nil {
		return err
	}
	for _, c := range changes {
		err := t.exec(`UPDATE cortex_items SET last_use = ?, accesses = ?, citations = ? WHERE seq = ?`,
			c.LastUse.UnixNano(), c.Accesses, c.Citations, c.Item.Seq())
		if err != nil {
			return err
		}
	}
	return t.putWeights(learned.New, rec.Seq)
}

func (t *Tx) putWeights(w cortex.Weights, seq int64) error {
	return t.exec(`UPDATE cortex_weights SET r = ?, a = ?, c = ?, d = ?, v = ?, seq = ? WHERE id = 1`, w[0], w[1], w[2], w[3], w[4], seq)
}

func readWeights(ctx context.Context, q Querier) (w cortex.Weights, err error) {
	err = one(ctx, q, func(r Row) error {
		for i := range w {
			w[i] = r.Int(i)
		}
		return nil
	}, `SELECT r, a, c, d, v FROM cortex_weights`)
	if errors.Is(err, errNoRow) {
		err = fmt.Errorf("%w: the memory has lost its weights: `tipstaff memory rebuild` derives them again", ErrDamaged)
	}
	return w, err
}

// standing is how an item stands; false: there is none of that name.
func (t *Tx) standing(u cortex.URI) (s cortex.Standing, ok bool, err error) {
	err = t.query(func(r Row) error {
		s = cortex.Standing{Created: r.Time(1), LastUse: r.Time(2), Accesses: r.Int(3), Citations: r.Int(4),
			Importance: int(r.Int(5)), Pinned: r.Int(6) != 0, Forgotten: r.Int(7)}
		ok = cortex.NewURI(r.Text(0), s.Created, u.Seq()) == u
		return nil
	}, `SELECT type, created, last_use, accesses, citations, importance, pinned, tombstone FROM cortex_items WHERE seq = ?`, u.Seq())
	return s, ok, err
}

// Remember keeps an item that no run has made.
func (s *Store) Remember(ctx context.Context, typ string, b cortex.Remember) (u cortex.URI, err error) {
	err = s.db.Do(ctx, &Op{Drafts: 1, Apply: func(t *Tx) (err error) {
		u, err = t.remember(nil, "", typ, b)
		return err
	}})
	return u, err
}

// Forget takes an item out of use. One that is out of use already stays as it
// is; false: there is none of that name.
func (s *Store) Forget(ctx context.Context, u cortex.URI, by string) (ok bool, err error) {
	err = s.db.Do(ctx, &Op{Drafts: 1, Apply: func(t *Tx) (err error) {
		var was cortex.Standing
		if was, ok, err = t.standing(u); err != nil || !ok || was.Forgotten > 0 {
			return err
		}
		rec, err := t.log(nil, "", &cortex.Tombstone{By: by, Item: u.String()})
		if err != nil {
			return err
		}
		return t.exec(`UPDATE cortex_items SET tombstone = ? WHERE seq = ?`, rec.Seq, u.Seq())
	}})
	return ok, err
}

// selectItems reads what items takes.
const selectItems = `SELECT l.bytes, i.last_use, i.accesses, i.citations, i.tombstone FROM cortex_items i JOIN cortex_log l ON l.seq = i.seq WHERE `

func (s *Store) items(ctx context.Context, query string, args ...any) (items []tipstaff.MemoryItem, err error) {
	err = s.db.Query(ctx, func(r Row) error {
		rec, err := cortex.ParseRecord(r.Bytes(0))
		if err != nil {
			return fmt.Errorf("%w: the memory: %w", ErrDamaged, err)
		}
		m, ok := rec.Item()
		if !ok {
			return fmt.Errorf("%w: record %d of the memory keeps no item", ErrDamaged, rec.Seq)
		}
		m.LastUsedAt, m.Accesses, m.Citations, m.Forgotten = r.Time(1), r.Int(2), r.Int(3), r.Int(4) > 0
		items = append(items, m)
		return nil
	}, query, args...)
	return items, err
}

// MemoryItems are the items in use, newest first.
func (s *Store) MemoryItems(ctx context.Context, q tipstaff.MemoryQuery) ([]tipstaff.MemoryItem, error) {
	where, args := `i.tombstone = 0`, []any{}
	if q.Type != "" {
		where, args = where+` AND i.type = ?`, append(args, q.Type)
	}
	where += ` ORDER BY i.seq DESC`
	if q.Limit > 0 {
		where, args = where+` LIMIT ?`, append(args, int64(q.Limit))
	}
	return s.items(ctx, selectItems+where, args...)
}

// MemoryItem is one item, in use or not; false: there is none of that name.
func (s *Store) MemoryItem(ctx context.Context, u cortex.URI) (m tipstaff.MemoryItem, ok bool, err error) {
	items, err := s.items(ctx, selectItems+`i.seq = ?`, u.Seq())
	if err != nil || len(items) == 0 || items[0].Item != u.String() {
		return m, false, err
	}
	return items[0], true, nil
}

// Recollect are all the items in use that can be among the best for a request.
// Events that nobody has used differ in their age alone: the youngest do.
func (s *Store) Recollect(ctx context.Context, req tipstaff.RecallRequest) ([]tipstaff.MemoryItem, error) {
	const concerns = `i.tombstone = 0 AND (i.skill = '' AND i.verb = '' AND i.server = '' AND i.type <> 'event' OR i.skill = ? AND i.skill <> ''
		OR i.verb = ? AND i.verb <> '' OR i.server = ? AND i.server <> '')`
	return s.items(ctx, selectItems+`(i.type <> 'event' OR i.accesses > 0 OR i.citations > 0) AND `+concerns+
		` UNION ALL SELECT * FROM (`+selectItems+`i.type = 'event' AND i.accesses = 0 AND i.citations = 0 AND `+concerns+
		` ORDER BY i.last_use DESC, i.seq DESC LIMIT ?) AS unused`,
		req.Skill, req.Verb, req.Server, req.Skill, req.Verb, req.Server, int64(cortex.Recalled))
}

// MemoryWeights are those in force.
func (s *Store) MemoryWeights(ctx context.Context) (cortex.Weights, error) {
	return readWeights(ctx, s.db)
}

// MemoryLog gives stored records after seq, ascending, at most limit.
func (s *Store) MemoryLog(ctx context.Context, after int64, limit int) (records []flow.Stored, err error) {
	err = s.db.Query(ctx, func(r Row) error {
		records = append(records, flow.Stored{Seq: r.Int(0), Kind: r.Text(1), Bytes: r.Bytes(2), Hash: r.Hash(3)})
		return nil
	}, `SELECT seq, kind, bytes, hash FROM cortex_log WHERE seq > ? ORDER BY seq LIMIT ?`, after, int64(limit))
	return records, err
}
