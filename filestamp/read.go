package filestamp

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// NotRegularError is something else in the place of a file: a folder, a pipe, a device.
type NotRegularError struct {
	Path string
	Mode fs.FileMode
}

func (e *NotRegularError) Error() string { return e.Path + " is not a file" }

// Open opens a file to read it, links followed. It opens neither a pipe nor a device, and waits for
// none that takes the place of the file meanwhile.
func Open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err == nil {
		err = regular(path, info)
	}
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = regular(path, info)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func regular(path string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return &NotRegularError{path, info.Mode()}
}

// Digest is the SHA-256 of as much of a file as it was seen to have: one that grows is another,
// and may grow for ever.
func Digest(ctx context.Context, path string, size int64) (digest [sha256.Size]byte, err error) {
	f, err := Open(path)
	if err != nil {
		return digest, err
	}
	sum := sha256.New()
	_, err = io.Copy(sum, readerUntil{ctx, io.LimitReader(f, size)})
	sum.Sum(digest[:0])
	return digest, errors.Join(err, f.Close())
}

// readerUntil reads until ctx ends.
type readerUntil struct {
	ctx context.Context
	io.Reader
}

func (r readerUntil) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(p)
}
