//go:build unix

package files

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock takes an exclusive lock, which lasts until the file is closed, if nobody has it.
func tryLock(f *os.File) (bool, error) {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return err == nil, err
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
