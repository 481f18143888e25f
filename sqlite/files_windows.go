package sqlite

import (
	"errors"
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile holds an exclusive lock on a file until unlock is called or the
// process ends, however it ends.
func lockFile(name string) (unlock func() error, err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, math.MaxUint32, math.MaxUint32, new(windows.Overlapped))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

// modeBeyond: access lists are not modes; the folder's own protect what is in it.
func modeBeyond(string, fs.FileMode) (fs.FileMode, error) { return 0, nil }
