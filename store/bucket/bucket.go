// Package bucket keeps large payloads outside of a database, as objects: in a folder that
// all machines of a store see, or in a bucket that speaks the protocol of S3.
//
// It knows nothing of digests, nor of which objects are still needed: that is in the
// database. Names are used once. Start reading at [Bucket].
package bucket

import (
	"context"
	"errors"
	"net/url"
)

// Bucket keeps objects. Its methods may be called by several goroutines and processes at
// once. Errors say which bucket failed and what to do; those that may pass wrap
// [ErrUnreachable] or [ErrFull]. None of them holds a credential.
type Bucket interface {
	// Put makes an object durable, as a whole or not at all.
	Put(ctx context.Context, name string, data []byte) error
	// Get reads an object; fs.ErrNotExist. One that is longer than any payload is cut.
	Get(ctx context.Context, name string) ([]byte, error)
	// Size is how long an object is; fs.ErrNotExist.
	Size(ctx context.Context, name string) (int64, error)
	// Remove forgets an object. To remove one that is not there is no error.
	Remove(ctx context.Context, name string) error
	// Check finds out whether there is such a bucket, and whether it may be used.
	Check(ctx context.Context) error
	// String is the address, which holds no credential.
	String() string
}

var (
	// ErrUnreachable is a bucket that does not answer, or asks to be left alone for a while.
	ErrUnreachable = errors.New("it cannot be reached")
	// ErrFull is a bucket that has no space left.
	ErrFull = errors.New("it is full")
)

// Open returns the bucket at an address, without asking whether it is there.
func Open(address string) (Bucket, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
	case u.User != nil: // which is not repeated
		return nil, errors.New("the address of a bucket holds no credentials: they are read from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or from ~/.aws/credentials")
	case u.Scheme == "s3":
		return openS3(u)
	case u.Scheme == "file":
		return openFolder(u)
	}
	return nil, errors.New("the address for blobs is like s3://bucket/prefix?endpoint=https://host&region=name or file:///shared/folder")
}
