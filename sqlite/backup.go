package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/files"
)

// Backup copies the store's folder into dest, a new folder, as of one moment and while
// others write, and with it those of the files beside it that are there. Everything is
// written under a temporary name, which becomes dest when all of it is durable.
// Copying the folder of a live store by other means is no backup. Nobody drives a run
// of the copy, whoever drives it here.
func (s *Store) Backup(ctx context.Context, dest string, beside ...string) (made tipstaff.Backup, err error) {
	own, err := filepath.Abs(string(s.db.dir))
	if err != nil {
		return made, err
	}
	if dest, err = filepath.Abs(dest); err != nil {
		return made, err
	}
	if !missing(dest) {
		return made, fmt.Errorf("%s exists already: name a folder that does not exist yet, the backup makes it", dest)
	}
	parent := filepath.Dir(dest)
	changed := []string{parent} // folders whose new names are to outlast a power cut
	for dir := parent; missing(dir); dir = filepath.Dir(dir) {
		changed = append(changed, filepath.Dir(dir))
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return made, err
	}
	temp, err := os.MkdirTemp(parent, "."+filepath.Base(dest)+".tmp-*")
	if err != nil {
		return made, err
	}
	defer os.RemoveAll(temp) // which is not there any more if all went well
	if made, err = s.copyTo(ctx, filepath.Join(temp, filepath.Base(own))); err != nil {
		return made, err
	}
	for _, name := range beside {
		there, err := copyFile(filepath.Join(filepath.Dir(own), name), filepath.Join(temp, name), 0o644)
		if err != nil {
			return made, err
		}
		if there {
			made.Files = append(made.Files, name)
		}
	}
	made.Dir = dest
	if err := files.SyncDir(temp); err != nil {
		return made, err
	}
	if err := os.Rename(temp, dest); err != nil { // somebody has put something there meanwhile
		return made, err
	}
	for _, dir := range changed {
		err = errors.Join(err, files.SyncDir(dir))
	}
	return made, err
}

func missing(name string) bool {
	_, err := os.Lstat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// copyTo copies the store into a new folder: the database, the blobs it names, and the
// keys, without which nobody could go on with a run.
func (s *Store) copyTo(ctx context.Context, dir string) (made tipstaff.Backup, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return made, err
	}
	to := folder(dir)
	for _, dir := range []string{to.blobs(), to.keys()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return made, err
		}
	}
	c, err := connect(s.db.dir.database(), readOnly)
	if err == nil { // the copy is another file, which this reader may write
		err = errors.Join(c.script(`PRAGMA query_only = OFF`), vacuumInto(c, to.database()), c.close())
	}
	if faultOf(err) == full {
		return made, fmt.Errorf("there is not enough space for a copy in %s: free some, or name a folder on another disk (%w)", dir, err)
	}
	if err != nil {
		return made, fmt.Errorf("copying %s to %s: %w", s.db.dir.database(), to.database(), explain(s.db.dir.database(), err))
	}
	blobs, err := to.settle(ctx, &made)
	if err != nil {
		return made, fmt.Errorf("%s: %w", to.database(), err)
	}
	// Blobs are durable before the records that name them: those of the copy are all
	// there by now.
	for _, digest := range blobs {
		h, err := journal.ParseHash(digest)
		if err != nil {
			return made, fmt.Errorf("%w: %w", store.ErrDamaged, err)
		}
		there, err := copyFile(s.db.dir.blob(h), to.blob(h), 0o600)
		if err := errors.Join(err, ctx.Err()); err != nil {
			return made, err
		}
		if there {
			made.Blobs++
		} else {
			made.Missing++ // here as well
		}
	}
	if err := files.CopyKeys(s.db.dir.keys(), to.keys()); err != nil {
		return made, err
	}
	// To open the copy shows that it can be, and has the files of its envelopes written.
	copied, err := Open(dir, nil)
	if err != nil {
		return made, err
	}
	return made, errors.Join(copied.Flush(ctx), copied.Close(), files.SyncDir(to.blobs()), files.SyncDir(dir))
}

// vacuumInto copies the database into a new file, durably.
func vacuumInto(c *conn, name string) error {
	if err := c.Exec(`VACUUM INTO ?`, name); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Sync(), f.Close(), files.SyncDir(filepath.Dir(name)))
}

// settle takes the runs of a copied database from their owners, who know nothing of
// it, counts what it holds and lists the blobs that it names.
func (f folder) settle(ctx context.Context, made *tipstaff.Backup) (blobs []string, err error) {
	c, err := connect(f.database(), readWrite)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	launches, err := c.number(ctx, `SELECT count(*) FROM pragma_table_info('runs') WHERE name = 'launch'`)
	if err == nil && launches > 0 { // it is no older store; its processes must not be taken for those of the copy
		err = c.Exec(`UPDATE runs SET launch = NULL WHERE launch IS NOT NULL`)
	}
	if err != nil {
		return nil, err
	}
	if err := c.Exec(`UPDATE runs SET holder = NULL, owner = NULL, heartbeat = NULL WHERE holder IS NOT NULL`); err != nil {
		return nil, err
	}
	if made.Runs, err = c.number(ctx, `SELECT count(*) FROM runs`); err != nil {
		return nil, err
	}
	if made.Records, err = c.number(ctx, `SELECT count(*) FROM records`); err != nil {
		return nil, err
	}
	err = c.Query(ctx, func(r store.Row) error { blobs = append(blobs, r.Text(0)); return nil }, `SELECT digest FROM blobs ORDER BY digest`)
	return blobs, err
}

// copyFile copies a file; false: it is not there.
func copyFile(from, to string, mode fs.FileMode) (bool, error) {
	data, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o700)
	}
	if err == nil {
		err = files.Write(to, data, mode)
	}
	return true, err
}
