package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
)

func (f folder) blob(digest journal.Hash) string {
	name := digest.Hex()
	return f.at("blobs", name[:2], name[2:])
}

// PutBlob implements [store.DB]. It has the patience for a full disk that the writer
// has.
func (db *database) PutBlob(digest journal.Hash, data []byte) error {
	if db.writer == nil {
		return db.refusal
	}
	for start := time.Now(); ; time.Sleep(db.opts.FullPause) {
		err := db.dir.writeBlob(digest, data)
		switch fault := faultOf(err); {
		case fault == full && time.Since(start) < db.opts.FullLimit:
		case fault == ordinary:
			return fmt.Errorf("%w: %s: check the disk, and that nobody has moved the folder (%w)", flow.ErrStoreDown, db.dir, err)
		default:
			return explain(string(db.dir), err)
		}
	}
}

// writeBlob makes the file of a blob durable. Equal data has an equal name, so
// an existing file is the same.
func (f folder) writeBlob(digest journal.Hash, data []byte) error {
	name := f.blob(digest)
	if info, err := os.Stat(name); err == nil && info.Size() == int64(len(data)) {
		return nil
	}
	if err := os.Mkdir(filepath.Dir(name), 0o700); err == nil {
		if err := syncDir(f.blobs()); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	return writeFile(name, data, 0o600)
}

// GetBlob implements [store.DB].
func (db *database) GetBlob(digest journal.Hash) ([]byte, error) {
	data, err := os.ReadFile(db.dir.blob(digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", flow.ErrNoBlob, digest)
	}
	return data, err
}

// RemoveBlob implements [store.DB].
func (db *database) RemoveBlob(digest journal.Hash) error {
	if err := os.Remove(db.dir.blob(digest)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
