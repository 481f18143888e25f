package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/store/files"
)

// folder is the place of everything a store keeps.
type folder string

func (f folder) at(elem ...string) string {
	return filepath.Join(append([]string{string(f)}, elem...)...)
}

func (f folder) database() string { return f.at("tipstaff.db") }
func (f folder) lock() string     { return f.at("lock") }
func (f folder) keys() string     { return f.at("keys") }
func (f folder) blobs() string    { return f.at("blobs") }
func (f folder) journal() string  { return f.at("journal") }
func (f folder) backups() string  { return f.at("backups") }

// make creates what is missing. Nothing in the folder is for version control.
func (f folder) make() error {
	for _, dir := range []string{string(f), f.blobs(), f.journal()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("%w: %w: create the folder, or give this user the right to write beside it", flow.ErrReadOnly, err)
		}
	}
	if err := refuseNetwork(string(f)); err != nil {
		return err
	}
	ignore := f.at(".gitignore")
	if _, err := os.Stat(ignore); errors.Is(err, fs.ErrNotExist) {
		if err := files.Write(ignore, []byte("*\n"), 0o600); err != nil {
			return fmt.Errorf("%w: %w: give this user the right to write the folder", flow.ErrReadOnly, err)
		}
	}
	return nil
}

// tighten takes from others what they could read of runs, also where somebody else
// has made the folder. SQLite gives its files the mode of the database, so that is
// made before it. What belongs to another user stays as it is.
func (f folder) tighten() error {
	made, err := os.OpenFile(f.database(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if err := made.Close(); err != nil {
		return err
	}
	for name, most := range map[string]fs.FileMode{string(f): 0o700, f.blobs(): 0o700, f.journal(): 0o700,
		f.database(): 0o600, f.database() + "-wal": 0o600, f.database() + "-shm": 0o600} {
		if have, err := files.ModeBeyond(name, most); err == nil && have != 0 {
			if err := os.Chmod(name, have&most); err != nil && !errors.Is(err, fs.ErrPermission) {
				return err
			}
		}
	}
	return nil
}

// place is the files that a store was opened with. A process keeps the files it has
// opened, whatever happens to their names: without looking, it would go on writing
// to a store that nobody finds any more.
type place struct {
	names [2]string
	files [2]os.FileInfo // nil: not looked at yet
}

// look is ErrStoreLost unless the names still lead to the files of the first look.
func (p *place) look() error {
	for i, name := range p.names {
		now, err := os.Stat(name)
		switch {
		case p.files[i] == nil:
			p.files[i] = now // nil still, of a log that nobody has needed yet
		case err != nil:
			return fmt.Errorf("%w: %w: it was removed or moved while it was open; nothing is acknowledged any more", flow.ErrStoreLost, err)
		case !os.SameFile(p.files[i], now):
			return fmt.Errorf("%w: %s is another file than the one that was opened; nothing is acknowledged any more", flow.ErrStoreLost, name)
		}
	}
	return nil
}
