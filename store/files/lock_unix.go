//go:build unix

package files

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// lock waits for an exclusive lock, which lasts until the file is closed.
func lock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// ModeBeyond is the mode of a file that allows more than most; 0: it does not.
func ModeBeyond(name string, most fs.FileMode) (fs.FileMode, error) {
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm()&^most == 0 {
		return 0, err
	}
	return info.Mode().Perm(), nil
}
