package bucket

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/tipstaff/tipstaff/journal"
)

// s3 is a Bucket that speaks the protocol of S3.
type s3 struct {
	client         *minio.Core
	bucket, prefix string
	address        string
}

const s3Address = "the address of a bucket is like s3://bucket/prefix?endpoint=https://host&region=name"

// openS3 takes endpoint and region from the address, else from where other programs look
// for them.
func openS3(u *url.URL) (Bucket, error) {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Host == "" || u.Fragment != "" {
		return nil, errors.New(s3Address)
	}
	if err := s3utils.CheckValidBucketNameStrict(u.Host); err != nil {
		return nil, fmt.Errorf("%s: %q names no bucket: %w", s3Address, u.Host, err)
	}
	for name := range q {
		if name != "endpoint" && name != "region" {
			return nil, fmt.Errorf("%s: it has no parameter %q", s3Address, name)
		}
	}
	endpoint := cmp.Or(q.Get("endpoint"), os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"))
	region := cmp.Or(q.Get("region"), os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"))
	o := &minio.Options{Secure: true, MaxRetries: 1} // whoever uses a bucket has patience of its own
	host := "s3.amazonaws.com"
	if endpoint != "" {
		at, err := url.Parse(endpoint)
		if err == nil && at.Host == "" {
			at, err = url.Parse("https://" + endpoint)
		}
		if err != nil || at.Host == "" || at.User != nil || strings.Trim(at.Path, "/") != "" || at.Scheme != "https" && at.Scheme != "http" {
			return nil, errors.New("the endpoint of a bucket is like https://host or http://host:port")
		}
		host, o.Secure, o.BucketLookup = at.Host, at.Scheme == "https", minio.BucketLookupPath
		region = cmp.Or(region, "us-east-1") // as most servers other than Amazon's call themselves
	}
	o.Region = region
	o.Creds = credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}})
	b := &s3{bucket: u.Host, prefix: strings.Trim(path.Clean("/"+u.Path), "/"), address: (&url.URL{Scheme: "s3", Host: u.Host, Path: u.Path, RawQuery: u.RawQuery}).String()}
	if b.client, err = minio.NewCore(host, o); err != nil {
		return nil, fmt.Errorf("%s: %w", b, err)
	}
	return b, nil
}

func (b *s3) String() string { return b.address }

func (b *s3) key(name string) string { return path.Join(b.prefix, name) }

// signed refuses to go on without credentials: a request without a signature would be
// refused with a message that helps nobody.
func (b *s3) signed() error {
	value, err := b.client.GetCreds()
	if err == nil && value.AccessKeyID != "" && value.SecretAccessKey != "" {
		return nil
	}
	return fmt.Errorf("%s: there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write ~/.aws/credentials", b)
}

// explain says what a failure means. Of what the server answered it repeats the code alone.
func (b *s3) explain(err error) error {
	if err == nil {
		return nil
	}
	e := minio.ToErrorResponse(err)
	said := fmt.Sprintf("%s, status %d", cmp.Or(e.Code, "no code"), e.StatusCode)
	switch {
	case e.StatusCode == 0: // nothing was answered
		var at *url.Error
		if errors.As(err, &at) {
			err = at.Err
		}
		return fmt.Errorf("%s: %w: see that the server runs and that the address is right (%w)", b, ErrUnreachable, err)
	case e.Code == minio.NoSuchKey:
		return fmt.Errorf("%s: %w", b, fs.ErrNotExist)
	case e.Code == minio.NoSuchBucket:
		return fmt.Errorf("%s: there is no bucket %s: make it, or name another with --blobs (%s)", b, b.bucket, said)
	case e.Code == "RequestTimeTooSkewed":
		return fmt.Errorf("%s: the clocks of this machine and of the server differ: set them (%s)", b, said)
	case e.StatusCode == http.StatusUnauthorized, e.StatusCode == http.StatusForbidden, strings.HasPrefix(e.Code, "ExpiredToken"):
		return fmt.Errorf("%s: the credentials are refused: see AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws/credentials, and what they may do there (%s)", b, said)
	case e.StatusCode == http.StatusInsufficientStorage:
		return fmt.Errorf("%s: %w: make space there (%s)", b, ErrFull, said)
	case e.StatusCode >= 500, e.StatusCode == http.StatusTooManyRequests, e.StatusCode == http.StatusRequestTimeout, e.Code == "RequestTimeout":
		return fmt.Errorf("%s: %w: see what its log says (%s)", b, ErrUnreachable, said)
	}
	return fmt.Errorf("%s: the server refused the request (%s)", b, said)
}

// Check implements [Bucket]. It asks for an object that is not there: the answer tells more
// than that to whether there is a bucket.
func (b *s3) Check(ctx context.Context) error {
	if _, err := b.Get(ctx, "check"); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Put implements [Bucket]. The digest is part of what is signed: the server refuses bytes
// that changed on the way.
func (b *s3) Put(ctx context.Context, name string, data []byte) error {
	if err := b.signed(); err != nil {
		return err
	}
	_, err := b.client.PutObject(ctx, b.bucket, b.key(name), bytes.NewReader(data), int64(len(data)), "", journal.Sum(data).Hex(), minio.PutObjectOptions{})
	return b.explain(err)
}

// Get implements [Bucket].
func (b *s3) Get(ctx context.Context, name string) ([]byte, error) {
	if err := b.signed(); err != nil {
		return nil, err
	}
	object, _, _, err := b.client.GetObject(ctx, b.bucket, b.key(name), minio.GetObjectOptions{})
	if err != nil {
		return nil, b.explain(err)
	}
	defer object.Close()
	data, err := io.ReadAll(io.LimitReader(object, journal.MaxPayload+1))
	return data, b.explain(err)
}

// Size implements [Bucket].
func (b *s3) Size(ctx context.Context, name string) (int64, error) {
	if err := b.signed(); err != nil {
		return 0, err
	}
	info, err := b.client.StatObject(ctx, b.bucket, b.key(name), minio.StatObjectOptions{})
	return info.Size, b.explain(err)
}

// Remove implements [Bucket].
func (b *s3) Remove(ctx context.Context, name string) error {
	if err := b.signed(); err != nil {
		return err
	}
	if err := b.explain(b.client.RemoveObject(ctx, b.bucket, b.key(name), minio.RemoveObjectOptions{})); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
