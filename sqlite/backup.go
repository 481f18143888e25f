package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Backup copies the store into a new folder, as of one moment and while others
// write: the database, the blobs it names and the public keys. Copying the
// folder of a live store by other means is no backup. Private keys stay where
// they are.
func (s *Store) Backup(ctx context.Context, dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("%w: a backup needs a new folder", err)
	}
	to := folder(dir)
	c, err := connect(s.dir.database(), "rw")
	if err != nil {
		return explain(s.dir.database(), err)
	}
	if err := errors.Join(vacuumInto(c, to.database()), c.close()); err != nil {
		return fmt.Errorf("copying %s: %w", s.dir.database(), err)
	}
	// Blobs are durable before the records that name them: those in the copy are
	// all there by now.
	if err := copyTree(ctx, s.dir.blobs(), to.blobs(), func(name string) bool { return !strings.HasPrefix(name, ".") }); err != nil {
		return err
	}
	if err := copyTree(ctx, s.dir.keys(), to.keys(), func(name string) bool { return strings.HasSuffix(name, ".pub") }); err != nil {
		return err
	}
	return syncDir(dir)
}

// vacuumInto copies the database into a new file, durably.
func vacuumInto(c *conn, name string) error {
	if err := c.exec(`VACUUM INTO ?`, name); err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(0o600), f.Sync(), f.Close(), syncDir(filepath.Dir(name)))
}

// copyTree copies the files that are wanted.
func copyTree(ctx context.Context, from, to string, wanted func(name string) bool) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went meanwhile: nothing in the copy names it
		}
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		if !wanted(d.Name()) {
			return nil
		}
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return writeFile(filepath.Join(to, rel), data, 0o600)
	})
}
