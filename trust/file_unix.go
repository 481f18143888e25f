//go:build unix

package trust

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// open opens a file that nobody else can have written.
func open(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, errors.New("it is a link")
	}
	if err != nil {
		return nil, err
	}
	if err := own(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func own(f *os.File) error {
	info, err := f.Stat()
	switch stat, ok := info.Sys().(*syscall.Stat_t); {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is no plain file")
	case ok && stat.Nlink > 1:
		return errors.New("it has another name: a link to it was made")
	}
	return alone(info)
}

// ownFolder checks that nobody else can write into a folder.
func ownFolder(name string) error {
	info, err := os.Lstat(name)
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return errors.New("it is a link")
	case !info.IsDir():
		return errors.New("it is no folder")
	}
	return alone(info)
}

// alone: nobody but the user can write it.
func alone(info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return errors.New("the system does not say whose it is")
	case int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("it belongs to the user %d, and not to you", stat.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others can write it: its mode is %04o", info.Mode().Perm())
	}
	return nil
}
