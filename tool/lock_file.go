package tool

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tipstaff/tipstaff/flow"
)

// maxLock is the size of a lock of ten thousand large tools.
const maxLock = 256 << 20

// ReadLock reads a workspace's lock. Where there is none it is empty. What cannot
// be trusted is a *LockError.
func ReadLock(workspace string) (*Lock, error) {
	root, err := os.OpenRoot(workspace)
	if errors.Is(err, fs.ErrNotExist) {
		return &Lock{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, err := readLock(root)
	if err != nil {
		return nil, err
	}
	if data == nil {
		return &Lock{}, nil
	}
	l, err := ParseLock(data)
	var untrusted *LockError
	if errors.As(err, &untrusted) {
		untrusted.File = filepath.Join(workspace, LockName)
	}
	return l, err
}

// readLock is the file's bytes, nil if there is none. A link is not followed:
// what someone accepted stands in the workspace, where it is reviewed.
func readLock(root *os.Root) ([]byte, error) {
	info, err := root.Lstat(LockName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &LockError{File: filepath.Join(root.Name(), LockName), Message: "it is not a plain file"}
	}
	f, err := root.Open(LockName)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(info, opened) {
		return nil, &LockError{File: filepath.Join(root.Name(), LockName), Message: "it was exchanged while it was read"}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxLock+1))
	if err == nil && len(data) > maxLock {
		return nil, &LockError{File: filepath.Join(root.Name(), LockName), Message: fmt.Sprintf("it is larger than %d MiB", maxLock>>20)}
	}
	if data == nil && err == nil {
		data = []byte{} // an empty file is a damaged lock, not a missing one
	}
	return data, err
}

// ErrLockMoved: the lock is not the one that was read before it was changed.
var ErrLockMoved = errors.New(LockName + " was changed by someone else meanwhile")

// Write puts the lock in place of the one it was made from, as a whole or not at
// all, durably. If another stands there by now nothing is written, ErrLockMoved.
func (l *Lock) Write(workspace string) (err error) {
	data, err := l.Bytes()
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := l.unmoved(root); err != nil {
		return err
	}
	temporary := "." + LockName + "-" + rand.Text()
	defer func() {
		if err != nil {
			_ = root.Remove(temporary) // it may not be there
		}
	}()
	if err := writeDurably(root, temporary, data); err != nil {
		return fmt.Errorf("%s cannot be written: %w", LockName, err)
	}
	if err := l.unmoved(root); err != nil {
		return err
	}
	if err := root.Rename(temporary, LockName); err != nil {
		return fmt.Errorf("%s cannot be written: %w", LockName, err)
	}
	return syncFolder(root)
}

// unmoved checks that the file is still the one this lock was made from.
func (l *Lock) unmoved(root *os.Root) error {
	now, err := readLock(root)
	if err != nil {
		return err
	}
	digest := ""
	if now != nil {
		digest = flow.Digest(now)
	}
	if digest != l.read {
		return ErrLockMoved
	}
	return nil
}

// writeDurably makes a new file: one that is there already, of whatever kind, is
// an error.
func writeDurably(root *os.Root, name string, data []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncFolder makes a rename durable.
func syncFolder(root *os.Root) error {
	f, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
