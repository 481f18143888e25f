package files

import (
	"io/fs"
	"math"
	"os"

	"golang.org/x/sys/windows"
)

// lock waits for an exclusive lock, which lasts until the file is closed.
func lock(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, math.MaxUint32, math.MaxUint32, new(windows.Overlapped))
}

// ModeBeyond: access lists are not modes; the folder's own protect what is in it.
func ModeBeyond(string, fs.FileMode) (fs.FileMode, error) { return 0, nil }
