package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/files"
)

// HasStore reports whether there is a store in dir.
func HasStore(dir string) bool { return !missing(folder(dir).database()) }

// Make makes a store in dir with the keys of a folder and with what fill puts into it, or
// none: it is written aside, and its database gets its name last. The folder may be there
// already, with other files.
func Make(ctx context.Context, dir, keys string, fill func(*store.Store) error) (err error) {
	to := folder(dir)
	if missing(dir) {
		top := dir
		for missing(filepath.Dir(top)) {
			top = filepath.Dir(top)
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		defer func() {
			if err != nil {
				_ = os.RemoveAll(top) // which it has made
			}
		}()
	}
	unlock, err := files.Lock(to.lock()) // whoever would make one waits
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if HasStore(dir) {
		return fmt.Errorf("there is a store in %s already", dir)
	}
	aside := folder(to.at("copying"))
	if err := os.RemoveAll(string(aside)); err != nil { // of somebody who was killed
		return err
	}
	defer os.RemoveAll(string(aside))
	if err := copyKeys(keys, aside.keys()); err != nil {
		return err
	}
	made, err := Open(string(aside), nil)
	if err != nil {
		return err
	}
	if err := errors.Join(fill(made.Store), made.Close()); err != nil {
		return err
	}
	// To open it again shows that it can be, and has the files of its envelopes written.
	if made, err = Open(string(aside), nil); err != nil {
		return err
	}
	if err := errors.Join(made.Flush(ctx), made.Close()); err != nil {
		return err
	}
	return aside.becomes(to)
}

// becomes moves what is in a folder to another: the database when all else is there.
func (f folder) becomes(to folder) error {
	if !noLog(f) {
		return fmt.Errorf("%s-wal is still in use", f.database())
	}
	entries, err := os.ReadDir(string(f))
	for _, e := range entries {
		if name := f.at(e.Name()); name != f.lock() && !strings.HasPrefix(name, f.database()) { // its log is empty
			err = errors.Join(err, move(name, to.at(e.Name())))
		}
	}
	if err = errors.Join(err, files.SyncDir(string(to))); err != nil {
		return err
	}
	if err := os.Rename(f.database(), to.database()); err != nil {
		return err
	}
	return errors.Join(files.SyncDir(string(to)), files.SyncDir(filepath.Dir(string(to))))
}

// move gives a file or a folder another name; what is in a folder goes into one that is there.
func move(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !info.IsDir() || missing(to) {
		return os.Rename(from, to)
	}
	entries, err := os.ReadDir(from)
	for _, e := range entries {
		err = errors.Join(err, move(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())))
	}
	return errors.Join(err, files.SyncDir(to))
}

// copyKeys copies the keys of one folder to another.
func copyKeys(from, to string) error {
	for _, name := range []string{journal.User, journal.Executor} {
		for suffix, mode := range map[string]fs.FileMode{".key": 0o600, ".pub": 0o644} {
			if _, err := copyFile(filepath.Join(from, name+suffix), filepath.Join(to, name+suffix), mode); err != nil {
				return err
			}
		}
	}
	return nil
}
