package sqlite

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
)

// blobs compares the files of blobs with what the database says of them.
func (x *examination) blobs(ctx context.Context, c *conn) {
	lying := map[string]time.Time{} // when each was written; listed before the rows are, which follow the files
	err := filepath.WalkDir(x.dir.blobs(), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name()[0] == '.' {
			return err
		}
		if info, err := d.Info(); err == nil {
			lying[name] = info.ModTime()
		}
		return nil
	})
	if !errors.Is(err, fs.ErrNotExist) {
		x.failed(x.dir.blobs(), err)
	}
	err = c.Query(ctx, func(r store.Row) error {
		h, err := journal.ParseHash(r.Text(0))
		if err != nil {
			x.error("blob_damaged", x.dir.database(), restore, "it names a blob %q: %v", r.Text(0), err)
			return ctx.Err()
		}
		delete(lying, x.dir.blob(h))
		x.blob(x.dir.blob(h), h, r.Int(1))
		return ctx.Err()
	}, `SELECT digest, size FROM blobs ORDER BY digest`)
	x.query(err)
	for _, name := range slices.Sorted(maps.Keys(lying)) {
		if err == nil && x.now.Sub(lying[name]) > store.BlobAge {
			x.warn("blob_orphan", name, "rm "+name, "no record names it, and the database does not know it")
		}
	}
}

// blob checks one file.
func (x *examination) blob(name string, want journal.Hash, size int64) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		x.error("blob_missing", name, restore, "its file is gone: runs that name it can neither be verified nor resumed")
		return
	}
	if err != nil {
		x.failed(name, err)
		return
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	switch {
	case err != nil:
		x.failed(name, err)
	case n != size || journal.Hash(sum.Sum(nil)) != want:
		x.error("blob_damaged", name, restore, "its content is not what was stored")
	}
}

// keys compares the files of keys with each other and with the keys that the
// database knows: those that ever signed here.
func (x *examination) keys(ctx context.Context, c *conn) {
	known := map[journal.PublicKey]bool{}
	made := map[string]bool{}
	err := c.Query(ctx, func(r store.Row) error {
		made[r.Text(0)] = true
		if b := r.Bytes(1); len(b) == len(journal.PublicKey{}) {
			known[journal.PublicKey(b)] = true
		}
		return nil
	}, `SELECT name, public FROM keys`)
	if err != nil {
		x.query(err)
		return
	}
	for _, name := range []string{journal.User, journal.Executor} {
		if made[name] {
			x.key(filepath.Join(x.dir.keys(), name), known)
		}
	}
}

// key looks at one pair.
func (x *examination) key(base string, known map[journal.PublicKey]bool) {
	private, err := readPrivate(base + ".key")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.error("key_missing", base+".key", "restore it from a copy made by tipstaff backup; else the next command makes a new one, and unfinished runs can only be forked", "the private key is gone")
		return
	case err != nil:
		x.error("key_unusable", base+".key", "restore it from a copy made by tipstaff backup", "%v", err)
		return
	case !known[private.Public()]:
		x.error("key_foreign", base+".key", "restore the key from a copy made by tipstaff backup; the next command would trust this one", "it is not a key that was made here")
	}
	again := "rm -f " + base + ".pub: the next command makes it again"
	switch public, err := readPublic(base + ".pub"); {
	case errors.Is(err, fs.ErrNotExist):
		x.warn("key_missing", base+".pub", anyCommand, "the public key is gone")
	case err != nil:
		x.error("key_unusable", base+".pub", again, "%v", err)
	case public != private.Public():
		x.error("key_mismatch", base+".pub", again, "it does not belong to the private key beside it")
	}
}
