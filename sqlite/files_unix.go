//go:build unix

package sqlite

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile holds an exclusive lock on a file until unlock is called or the
// process ends, however it ends.
func lockFile(name string) (unlock func() error, err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f.Close, nil
}

// modeBeyond is the mode of a file that allows more than most; 0: it does not.
func modeBeyond(name string, most fs.FileMode) (fs.FileMode, error) {
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm()&^most == 0 {
		return 0, err
	}
	return info.Mode().Perm(), nil
}
