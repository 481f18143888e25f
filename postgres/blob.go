package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/bucket"
)

// Payloads are rows of blob_data, or objects in a bucket. The database says which, and no
// transaction waits for a bucket:
//
//   - A row of blob_objects says "putting" before the object is made, and "there" when it is
//     durable. Only then does a transaction enter the blob, and may records name it.
//   - A transaction that removes a blob leaves its objects as "going", which is final. They
//     are removed after it has committed. Whoever puts the same payload again makes an object
//     with another name, and is not harmed.
//   - Whoever enters a blob checks in its transaction that an object is still "there", which
//     locks its row. If none is, the payload is kept in the database.

// bucketOver is how long a payload is that is kept in the database, if there is a bucket.
const bucketOver = 1 << 20

// PutBlob implements [store.DB].
func (db *database) PutBlob(c store.Conn, digest journal.Hash, data []byte) error {
	const insert = `INSERT INTO blob_data (digest, data) VALUES (?, ?) ON CONFLICT DO NOTHING`
	if data == nil { // an empty payload, which is no NULL
		data = []byte{}
	}
	switch {
	case c != nil:
		there, err := store.Number(context.Background(), c, `WITH kept AS (UPDATE blob_objects SET at = ? WHERE digest = ? AND state = 'there' RETURNING 1)
			SELECT (SELECT count(*) FROM kept) + (SELECT count(*) FROM blob_data WHERE digest = ?)`, db.opts.Now().UnixNano(), digest.String(), digest[:])
		if err == nil && there == 0 {
			err = c.Exec(insert, digest[:], data)
		}
		return err
	case db.opts.Bucket != nil && len(data) > bucketOver:
		return db.putObject(digest, data)
	}
	return db.use(context.Background(), func(c *conn) error { return c.now(insert, digest[:], data) })
}

// object is a row of blob_objects.
type object struct{ name, place string }

// objects are those that hold a payload.
func (db *database) objects(digest journal.Hash) (list []object, err error) {
	err = db.Query(context.Background(), func(r store.Row) error {
		list = append(list, object{r.Text(0), r.Text(1)})
		return nil
	}, `SELECT name, place FROM blob_objects WHERE digest = ? AND state = 'there' ORDER BY at DESC, name`, digest.String())
	return list, err
}

// putObject makes an object that holds a payload, unless there is one.
func (db *database) putObject(digest journal.Hash, data []byte) error {
	list, err := db.objects(digest)
	if err != nil {
		return err
	}
	for _, o := range list {
		var size int64
		err := db.ask(func(ctx context.Context, b bucket.Bucket) (err error) { size, err = b.Size(ctx, o.name); return err })
		if err == nil && size == int64(len(data)) {
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	name := digest.Hex()[:2] + "/" + digest.Hex() + "-" + rand.Text()
	err = db.use(context.Background(), func(c *conn) error {
		return c.now(`INSERT INTO blob_objects (name, digest, place, at, state) VALUES (?, ?, ?, ?, 'putting')`, name, digest.String(), db.opts.Bucket.String(), db.opts.Now().UnixNano())
	})
	if err == nil {
		err = db.ask(func(ctx context.Context, b bucket.Bucket) error { return b.Put(ctx, name, data) })
	}
	if err != nil {
		return err
	}
	there := false
	err = db.Query(context.Background(), func(store.Row) error { there = true; return nil },
		`UPDATE blob_objects SET state = 'there' WHERE name = ? AND state = 'putting' RETURNING 1`, name)
	if err == nil && !there {
		err = unavailable(fmt.Errorf("%s: to put object %s took longer than %v, and it was removed meanwhile", db.opts.Bucket, name, store.BlobAge))
	}
	return err
}

// ask does something with the bucket, with patience while it does not answer.
func (db *database) ask(f func(context.Context, bucket.Bucket) error) error {
	for since, pause := time.Now(), 10*time.Millisecond; ; pause = min(2*pause, time.Second) {
		ctx, cancel := context.WithTimeout(context.Background(), db.opts.DownLimit/2) // a connection that hangs is not all that is tried
		err := f(ctx, db.opts.Bucket)
		cancel()
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist):
			return err
		case !errors.Is(err, bucket.ErrUnreachable) && !errors.Is(err, bucket.ErrFull), time.Since(since)+pause > db.opts.DownLimit:
			return unavailable(err)
		}
		time.Sleep(pause)
	}
}

// unavailable is a failure of a bucket that has not passed.
func unavailable(err error) error {
	code, is := tipstaff.StoreUnavailable, flow.ErrStoreDown
	if errors.Is(err, bucket.ErrFull) {
		code, is = tipstaff.StoreFull, flow.ErrStoreFull
	}
	return &tipstaff.Error{Code: code, Message: err.Error(), Hint: "then try again, or resume the run: what was acknowledged is safe", Err: fmt.Errorf("%w: %w", is, err)}
}

// GetBlob implements [store.DB].
func (db *database) GetBlob(digest journal.Hash) (data []byte, err error) {
	err = db.Query(context.Background(), func(r store.Row) error { data = r.Bytes(0); return nil }, `SELECT data FROM blob_data WHERE digest = ?`, digest[:])
	switch {
	case err != nil:
		return nil, err
	case data == nil:
		return db.getObject(digest)
	case journal.Sum(data) != digest:
		return nil, fmt.Errorf("%w: blob %s is not what was stored", store.ErrDamaged, digest)
	}
	return data, nil
}

// getObject reads a payload from the bucket, and returns nothing that it is not.
func (db *database) getObject(digest journal.Hash) ([]byte, error) {
	list, err := db.objects(digest)
	if err != nil {
		return nil, err
	}
	err = fmt.Errorf("%w: %s", flow.ErrNoBlob, digest)
	for _, o := range list {
		if db.opts.Bucket == nil {
			return nil, unavailable(fmt.Errorf("a payload is object %s of %s: name that place with --blobs or TIPSTAFF_BLOBS", o.name, o.place))
		}
		var data []byte
		failed := db.ask(func(ctx context.Context, b bucket.Bucket) (err error) { data, err = b.Get(ctx, o.name); return err })
		switch {
		case errors.Is(failed, fs.ErrNotExist):
			err = &tipstaff.Error{Code: tipstaff.ArtifactNotFound, Message: fmt.Sprintf("there is no object %s in %s; it was put into %s", o.name, db.opts.Bucket, o.place),
				Command: "restore it, or name the right place with --blobs or TIPSTAFF_BLOBS", Err: flow.ErrNoBlob}
		case failed != nil:
			return nil, failed
		case journal.Sum(data) == digest:
			return data, nil
		default:
			err = &tipstaff.Error{Code: tipstaff.Integrity, Message: fmt.Sprintf("object %s in %s is not what was put there", o.name, db.opts.Bucket),
				Hint: "restore it from a copy", Err: fmt.Errorf("%w: %w", flow.ErrIntegrity, journal.ErrBlobMismatch)}
		}
	}
	return nil, err
}

// RemoveBlob implements [store.DB].
func (db *database) RemoveBlob(c store.Conn, digest journal.Hash) error {
	err := c.Exec(`DELETE FROM blob_data WHERE digest = ?`, digest[:])
	return errors.Join(err, c.Exec(`UPDATE blob_objects SET state = 'going' WHERE digest = ? AND state = 'there'`, digest.String()))
}

// Collect is that of package store, and removes the objects that nobody needs any more:
// those of blobs that went, and those of processes that died before they entered a blob.
// Objects that were put under another address are left to those who use that.
func (s *Store) Collect(ctx context.Context) (removed int, err error) {
	removed, err = s.Store.Collect(ctx)
	if err != nil || s.db.opts.Bucket == nil {
		return removed, err
	}
	var going []string
	err = s.db.Query(ctx, func(r store.Row) error { going = append(going, r.Text(0)); return nil },
		`WITH dropped AS (UPDATE blob_objects SET state = 'going' WHERE name IN (SELECT name FROM blob_objects o WHERE at < ? AND place = ?
				AND (state = 'putting' OR state = 'there' AND NOT EXISTS (SELECT 1 FROM blobs WHERE digest = o.digest)) FOR UPDATE SKIP LOCKED) RETURNING name)
			SELECT name FROM dropped UNION SELECT name FROM blob_objects WHERE state = 'going' AND place = ?`,
		s.db.opts.Now().Add(-store.BlobAge).UnixNano(), s.db.opts.Bucket.String(), s.db.opts.Bucket.String())
	for _, name := range going {
		if err == nil {
			err = s.db.ask(func(ctx context.Context, b bucket.Bucket) error { return b.Remove(ctx, name) })
		}
		if err == nil {
			err = s.db.use(ctx, func(c *conn) error { return c.now(`DELETE FROM blob_objects WHERE name = ?`, name) })
		}
	}
	return removed, err
}
