// Package files is what a store keeps on the machine itself: keys, the file of anchors,
// and files that are written whole or not at all.
package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Write stores data under its name or not at all, and durably. An existing
// file is replaced.
func Write(name string, data []byte, mode fs.FileMode) error {
	tmp, err := writeTemp(name, data, mode)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	if err := os.Rename(tmp, name); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(name))
}

// Link is Write without replacing: an existing file is left and the error
// is fs.ErrExist. The folder is yet to be synced.
func Link(name string, data []byte, mode fs.FileMode) error {
	if _, err := os.Lstat(name); err == nil {
		return fs.ErrExist
	}
	tmp, err := writeTemp(name, data, mode)
	if err != nil {
		return err
	}
	defer os.Remove(tmp)
	return os.Link(tmp, name)
}

// writeTemp writes a synced file beside name. Its name starts with a dot.
func writeTemp(name string, data []byte, mode fs.FileMode) (tmp string, err error) {
	f, err := os.CreateTemp(filepath.Dir(name), ".tmp-*")
	if err != nil {
		return "", err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if err := f.Chmod(mode); err != nil {
		return "", err
	}
	if _, err := f.Write(data); err != nil {
		return "", err
	}
	return f.Name(), f.Sync()
}

// longestPause is between two looks whether a lock is free.
const longestPause = 20 * time.Millisecond

// Lock holds an exclusive lock on a file until unlock is called or the
// process ends, however it ends. It waits until ctx ends, and returns the cause then.
func Lock(ctx context.Context, name string) (unlock func() error, err error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	// A call of the system that waits could not be ended.
	for pause := time.Millisecond; ; pause = min(2*pause, longestPause) {
		switch free, err := tryLock(f); {
		case err != nil:
			return nil, errors.Join(err, f.Close())
		case free:
			return f.Close, nil
		}
		select {
		case <-ctx.Done():
			_ = f.Close() // nothing was written
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
