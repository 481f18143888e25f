package store

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// blob is a payload that the database has put already.
type blob struct {
	digest journal.Hash
	data   []byte
}

// BlobAge is how long a blob that nobody names is kept: whoever stored it is
// about to name it.
const BlobAge = time.Hour

// detach checks drafts, puts their large payloads and the outputs that come with them as
// blobs, and leaves references to the payloads.
func (s *Store) detach(drafts []flow.Draft) (light []flow.Draft, blobs []blob, err error) {
	if err := check(drafts); err != nil {
		return nil, nil, err
	}
	put := func(data []byte) (journal.Hash, error) {
		b := blob{journal.Sum(data), data}
		blobs = append(blobs, b)
		return b.digest, s.db.PutBlob(nil, b.digest, b.data)
	}
	light = drafts
	for i, d := range drafts {
		if d.Outputs != nil {
			if _, err := put(*d.Outputs); err != nil {
				return nil, nil, err
			}
		}
		before := len(blobs)
		body, err := journal.Detach(d.Kind, d.Note, d.Body, put)
		if err != nil {
			return nil, nil, err
		}
		if len(blobs) == before {
			continue
		}
		if &light[0] == &drafts[0] {
			light = slices.Clone(drafts) // the caller keeps its own
		}
		light[i].Body = body
	}
	return light, blobs, nil
}

// putBlobs enters blobs into the store. A collector that was faster has removed one
// in an earlier transaction: then it is put again.
func (t *Tx) putBlobs(blobs []blob) error {
	for _, b := range blobs {
		if fresh, err := t.s.fresh(context.Background(), t.c, b, t.now); err != nil {
			return err
		} else if fresh {
			continue
		}
		if err := t.alone("blob " + b.digest.String()); err != nil {
			return err
		}
		err := t.exec(`INSERT INTO blobs (digest, size, created) VALUES (?, ?, ?) ON CONFLICT (digest) DO UPDATE SET created = excluded.created`,
			b.digest.String(), int64(len(b.data)), t.now.UnixNano())
		if err == nil {
			err = t.s.db.PutBlob(t.c, b.digest, b.data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// freshFor is how long a blob that was stored is not stored again: many runs have the same
// program, and would wait for each other.
// That is so of what is in the database: what is longer than freshMost may be elsewhere, and
// to store it again finds out whether it still is.
const (
	freshFor  = BlobAge / 6
	freshMost = 1 << 20
)

// fresh reports whether a blob was stored so lately that nobody removes it for long.
func (s *Store) fresh(ctx context.Context, q Querier, b blob, now time.Time) (bool, error) {
	if !s.opts.Shared || len(b.data) > freshMost {
		return false, nil
	}
	n, err := Number(ctx, q, `SELECT count(*) FROM blobs WHERE digest = ? AND created > ?`, b.digest.String(), now.Add(-freshFor).UnixNano())
	return n > 0, err
}

// keepBlob records that the run needs a blob. Not everything that has a digest
// is stored as one.
func (t *Tx) keepBlob(st *runState, digest string) error {
	return t.exec(`INSERT INTO blob_refs (run, digest) SELECT CAST(? AS BIGINT), digest FROM blobs WHERE digest = ? ON CONFLICT DO NOTHING`, st.n, digest)
}

// PutBlob implements [flow.Writer].
func (s *Store) PutBlob(ctx context.Context, data []byte) (string, error) {
	if len(data) > journal.MaxPayload {
		return "", fmt.Errorf("%w: a blob of %d bytes, %d are the most", journal.ErrTooLarge, len(data), journal.MaxPayload)
	}
	b := blob{journal.Sum(data), data}
	if fresh, err := s.fresh(ctx, s.db, b, s.opts.Now()); fresh || err != nil {
		return b.digest.String(), err
	}
	err := s.db.PutBlob(nil, b.digest, b.data)
	if err == nil {
		err = s.db.Do(ctx, &Op{Drafts: 1, Apply: func(t *Tx) error { return t.putBlobs([]blob{b}) }})
	}
	if err != nil {
		return "", err
	}
	return b.digest.String(), nil
}

// Blob implements [flow.Reader].
func (s *Store) Blob(_ context.Context, digest string) ([]byte, error) {
	h, err := journal.ParseHash(digest)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", flow.ErrNoBlob, err)
	}
	return s.db.GetBlob(h)
}

// Keeps implements [flow.Reader].
func (s *Store) Keeps(ctx context.Context, run, digest string) (bool, error) {
	n, err := Number(ctx, s.db, `SELECT count(*) FROM blob_refs WHERE digest = ? AND run = (SELECT n FROM runs WHERE id = ?)`, digest, run)
	return n > 0, err
}

// Collect removes the blobs that no run keeps and no record names, an hour after
// they were last stored. It returns how many went.
func (s *Store) Collect(ctx context.Context) (removed int, err error) {
	// Most of the reading is done beside the writer; what was appended meanwhile
	// is read again inside the transaction that removes.
	scan := mentions{read: map[int64]int64{}, found: map[string]int64{}, before: s.opts.Now().Add(-BlobAge)}
	if _, err := scan.update(ctx, s.db); err != nil {
		return 0, err
	}
	err = s.db.Do(ctx, &Op{Drafts: 1, Apply: func(t *Tx) error {
		old, err := scan.update(context.Background(), t.c)
		if err == nil {
			removed, err = t.collect(old, scan)
		}
		return err
	}})
	return removed, err
}

// collect removes old blobs, and remembers who names the others.
func (t *Tx) collect(old map[string]bool, m mentions) (removed int, err error) {
	for _, digest := range slices.Sorted(maps.Keys(old)) {
		if run, named := m.found[digest]; named {
			if err := t.exec(`INSERT INTO blob_refs (run, digest) VALUES (?, ?) ON CONFLICT DO NOTHING`, run, digest); err != nil {
				return 0, err
			}
			continue
		}
		gone, err := t.removeBlob(digest, m.before)
		if err != nil {
			return 0, err
		}
		if gone {
			removed++
		}
	}
	return removed, nil
}

// removeBlob removes a blob, unless another process has stored it again, or named it, since
// it was found to be old.
func (t *Tx) removeBlob(digest string, before time.Time) (gone bool, err error) {
	h, err := journal.ParseHash(digest)
	if err == nil {
		err = t.alone("blob " + digest)
	}
	if err == nil {
		err = t.query(func(Row) error { gone = true; return nil },
			`DELETE FROM blobs WHERE digest = ? AND created < ? AND NOT EXISTS (SELECT 1 FROM blob_refs r WHERE r.digest = blobs.digest) RETURNING size`, digest, before.UnixNano())
	}
	if err != nil || !gone {
		return false, err
	}
	return true, t.s.db.RemoveBlob(t.c, h)
}

// mentions looks for digests in the bytes of records. Programs name what they
// share in inputs of their own, of which the store knows nothing.
type mentions struct {
	read   map[int64]int64  // run to the seq up to which it was read
	found  map[string]int64 // digest to a run that names it
	before time.Time        // when a blob was last stored that may go
}

const digestLen = len("sha256:") + 64

// update returns the blobs that may go unless a record names them, and reads the
// records that came since the last time.
func (m *mentions) update(ctx context.Context, q Querier) (old map[string]bool, err error) {
	old = map[string]bool{}
	err = q.Query(ctx, func(r Row) error { old[r.Text(0)] = true; return nil },
		`SELECT digest FROM blobs b WHERE created < ? AND NOT EXISTS (SELECT 1 FROM blob_refs WHERE digest = b.digest)`, m.before.UnixNano())
	if err != nil || len(old) == 0 {
		return old, err
	}
	var runs []int64
	if err := q.Query(ctx, func(r Row) error { runs = append(runs, r.Int(0)); return nil }, `SELECT n FROM runs`); err != nil {
		return nil, err
	}
	for _, run := range runs {
		err := q.Query(ctx, func(r Row) error {
			m.read[run] = r.Int(0)
			m.scan(run, r.Bytes(1), old)
			return nil
		}, `SELECT seq, bytes FROM records WHERE run = ? AND seq > ? ORDER BY seq`, run, m.read[run])
		if err != nil {
			return nil, err
		}
	}
	return old, nil
}

func (m *mentions) scan(run int64, record []byte, wanted map[string]bool) {
	for {
		i := bytes.Index(record, []byte("sha256:"))
		if i < 0 || len(record) < i+digestLen {
			return
		}
		if digest := record[i : i+digestLen]; wanted[string(digest)] {
			m.found[string(digest)] = run
		}
		record = record[i+len("sha256:"):]
	}
}
