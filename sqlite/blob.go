package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

// blob is a payload whose file lies in the folder already.
type blob struct {
	digest journal.Hash
	data   []byte
}

// blobAge is how long a blob that nobody names is kept: whoever stored it is
// about to name it.
const blobAge = time.Hour

func (f folder) blob(digest journal.Hash) string {
	name := digest.Hex()
	return f.at("blobs", name[:2], name[2:])
}

// writeBlob makes the file of a blob durable. Equal data has an equal name, so
// an existing file is the same.
func (s *Store) writeBlob(b blob) error {
	name := s.dir.blob(b.digest)
	if info, err := os.Stat(name); err == nil && info.Size() == int64(len(b.data)) {
		return nil
	}
	if err := os.Mkdir(filepath.Dir(name), 0o700); err == nil {
		if err := syncDir(s.dir.blobs()); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	return writeFile(name, b.data, 0o600)
}

// prepare checks drafts, stores their large payloads as blobs and leaves
// references.
func (s *Store) prepare(drafts []flow.Draft) (light []flow.Draft, blobs []blob, err error) {
	if err := check(drafts); err != nil {
		return nil, nil, err
	}
	light = drafts
	for i, d := range drafts {
		before := len(blobs)
		body, err := journal.Detach(d.Kind, d.Note, d.Body, func(data []byte) (journal.Hash, error) {
			b := blob{journal.Sum(data), data}
			blobs = append(blobs, b)
			return b.digest, s.storeBlob(b)
		})
		if err != nil {
			return nil, nil, err
		}
		if len(blobs) == before {
			continue
		}
		if before == 0 {
			light = slices.Clone(drafts) // the caller keeps its own
		}
		light[i].Body = body
	}
	return light, blobs, nil
}

// storeBlob is writeBlob with the patience for a full disk that the writer has.
func (s *Store) storeBlob(b blob) error {
	for start := time.Now(); ; time.Sleep(s.opts.FullPause) {
		err := s.writeBlob(b)
		switch fault := faultOf(err); {
		case fault == full && time.Since(start) < s.opts.FullLimit:
		case fault == ordinary:
			return fmt.Errorf("%w: %s: check the disk, and that nobody has moved the folder (%w)", flow.ErrStoreDown, s.dir, err)
		default:
			return explain(string(s.dir), err)
		}
	}
}

// storeBlobs enters blobs into the store. A collector that was faster has
// removed a file in an earlier transaction: then it is written again.
func (t *tx) storeBlobs(blobs []blob) error {
	for _, b := range blobs {
		err := t.exec(`INSERT INTO blobs (digest, size, created) VALUES (?, ?, ?) ON CONFLICT (digest) DO UPDATE SET created = excluded.created`,
			b.digest.String(), int64(len(b.data)), t.now.UnixNano())
		if err != nil {
			return err
		}
		if err := t.w.s.writeBlob(b); err != nil {
			return err
		}
	}
	return nil
}

// needBlob is ErrNoBlob if a digest names nothing that is stored.
func (t *tx) needBlob(digest string) error {
	n, err := t.c.number(context.Background(), `SELECT count(*) FROM blobs WHERE digest = ?`, digest)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: %s", flow.ErrNoBlob, digest)
	}
	return err
}

// PutBlob implements [flow.Writer].
func (s *Store) PutBlob(ctx context.Context, data []byte) (string, error) {
	if s.writer == nil {
		return "", s.refusal
	}
	if len(data) > journal.MaxPayload {
		return "", fmt.Errorf("%w: a blob of %d bytes, %d are the most", journal.ErrTooLarge, len(data), journal.MaxPayload)
	}
	b := blob{journal.Sum(data), data}
	if err := s.storeBlob(b); err != nil {
		return "", err
	}
	err := s.do(ctx, &op{drafts: 1, apply: func(t *tx) error { return t.storeBlobs([]blob{b}) }})
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
	data, err := os.ReadFile(s.dir.blob(h))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", flow.ErrNoBlob, digest)
	}
	return data, err
}

// Keeps implements [flow.Reader].
func (s *Store) Keeps(ctx context.Context, run, digest string) (kept bool, err error) {
	err = s.read(ctx, func(c *conn) error {
		err := c.one(ctx, func(row) error { kept = true; return nil },
			`SELECT 1 FROM blob_refs WHERE digest = ? AND run = (SELECT n FROM runs WHERE id = ?)`, digest, run)
		if errors.Is(err, errNoRow) {
			return nil
		}
		return err
	})
	return kept, err
}

// Collect removes the blobs that no run keeps and no record names, an hour after
// they were last stored. It returns how many went.
func (s *Store) Collect(ctx context.Context) (removed int, err error) {
	// Most of the reading is done beside the writer; what was appended meanwhile
	// is read again inside the transaction that removes.
	scan := mentions{read: map[int64]int64{}}
	err = s.read(ctx, func(c *conn) error {
		old, err := s.unreferenced(ctx, c)
		if err != nil || len(old) == 0 {
			return err
		}
		return scan.update(ctx, c, old)
	})
	if err != nil {
		return 0, err
	}
	err = s.do(ctx, &op{drafts: 1, apply: func(t *tx) error {
		removed = 0
		old, err := s.unreferenced(context.Background(), t.c)
		if err != nil || len(old) == 0 {
			return err
		}
		if err := scan.update(context.Background(), t.c, old); err != nil {
			return err
		}
		removed, err = t.collect(old, scan.found)
		return err
	}})
	return removed, err
}

// collect removes old blobs, and remembers who names the others.
func (t *tx) collect(old map[string]bool, found map[string]int64) (removed int, err error) {
	for digest := range old {
		if run, named := found[digest]; named {
			if err := t.exec(`INSERT OR IGNORE INTO blob_refs (run, digest) VALUES (?, ?)`, run, digest); err != nil {
				return 0, err
			}
			continue
		}
		if err := t.exec(`DELETE FROM blobs WHERE digest = ?`, digest); err != nil {
			return 0, err
		}
		h, err := journal.ParseHash(digest)
		if err != nil {
			return 0, err
		}
		// Inside the transaction, so that nobody enters the blob again meanwhile. If
		// it is rolled back, the row names a file that is gone; storing writes it anew.
		if err := os.Remove(t.w.s.dir.blob(h)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		removed++
	}
	return removed, nil
}

// unreferenced are the blobs that may go unless a record names them.
func (s *Store) unreferenced(ctx context.Context, c *conn) (map[string]bool, error) {
	old := map[string]bool{}
	err := c.query(ctx, func(r row) error { old[r.text(0)] = true; return nil },
		`SELECT digest FROM blobs b WHERE created < ? AND NOT EXISTS (SELECT 1 FROM blob_refs WHERE digest = b.digest)`,
		s.opts.Now().Add(-blobAge).UnixNano())
	return old, err
}

// mentions looks for digests in the bytes of records. Programs name what they
// share in inputs of their own, of which the store knows nothing.
type mentions struct {
	read  map[int64]int64  // run to the seq up to which it was read
	found map[string]int64 // digest to a run that names it
}

var digestStart = []byte("sha256:")

const digestLen = len("sha256:") + 64

func (m *mentions) update(ctx context.Context, c *conn, wanted map[string]bool) error {
	if m.found == nil {
		m.found = map[string]int64{}
	}
	var runs []int64
	if err := c.query(ctx, func(r row) error { runs = append(runs, r.int(0)); return nil }, `SELECT n FROM runs`); err != nil {
		return err
	}
	for _, run := range runs {
		err := c.query(ctx, func(r row) error {
			m.read[run] = r.int(0)
			m.scan(run, r.bytes(1), wanted)
			return nil
		}, `SELECT seq, bytes FROM records WHERE run = ? AND seq > ? ORDER BY seq`, run, m.read[run])
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *mentions) scan(run int64, record []byte, wanted map[string]bool) {
	for {
		i := bytes.Index(record, digestStart)
		if i < 0 || len(record) < i+digestLen {
			return
		}
		if digest := record[i : i+digestLen]; wanted[string(digest)] {
			m.found[string(digest)] = run
		}
		record = record[i+len(digestStart):]
	}
}
