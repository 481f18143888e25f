package bucket

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/journal"
)

// server is the address of the bucket that TIPSTAFF_S3 names.
func server(t *testing.T) string {
	t.Helper()
	at := os.Getenv("TIPSTAFF_S3")
	if at == "" {
		t.Skip("TIPSTAFF_S3 names no bucket: make test-scale starts a server")
	}
	return at
}

func open(t *testing.T, at string) Bucket {
	t.Helper()
	b, err := Open(at)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFolder(t *testing.T) {
	b := open(t, "file://"+t.TempDir())
	testBucket(t, b)
	if matches, _ := filepath.Glob(filepath.Join(string(b.(folder)), "*", "*")); len(matches) != 0 {
		t.Errorf("left behind: %v", matches)
	}
}

func TestS3(t *testing.T) {
	at, err := url.Parse(server(t))
	if err != nil {
		t.Fatal(err)
	}
	testBucket(t, open(t, at.String()))
	at.Path = "/some/where//"
	testBucket(t, open(t, at.String()))
}

// testBucket is what every bucket does.
func testBucket(t *testing.T, b Bucket) {
	t.Helper()
	ctx := t.Context()
	if err := b.Check(ctx); err != nil {
		t.Fatal(err)
	}
	name := "ab/abc-" + t.Name()
	for _, size := range []int{0, 1, journal.MaxPayload} {
		data := bytes.Repeat([]byte{'x'}, size)
		if err := b.Put(ctx, name, data); err != nil {
			t.Fatal(err)
		}
		got, err := b.Get(ctx, name)
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes were put, %d got: %v", size, len(got), err)
		}
		if n, err := b.Size(ctx, name); err != nil || n != int64(size) {
			t.Errorf("%d bytes have the size %d: %v", size, n, err)
		}
	}
	if err := errors.Join(b.Remove(ctx, name), b.Remove(ctx, name)); err != nil {
		t.Errorf("removed, and again: %v", err)
	}
	if _, err := b.Get(ctx, name); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrUnreachable) {
		t.Errorf("it is read after it was removed: %v", err)
	}
	if _, err := b.Size(ctx, name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it has a size after it was removed: %v", err)
	}
}

// A folder that is not there is not made, and is not taken for an empty one.
func TestNoFolder(t *testing.T) {
	at := filepath.Join(t.TempDir(), "mount")
	b := open(t, "file://"+at)
	_, got := b.Get(t.Context(), "ab/x")
	_, size := b.Size(t.Context(), "ab/x")
	for _, err := range []error{b.Check(t.Context()), b.Put(t.Context(), "ab/x", nil), got, size, b.Remove(t.Context(), "ab/x")} {
		if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), at) {
			t.Errorf("%v", err)
		}
	}
	if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for at, want := range map[string]string{
		"":                                      "is like s3://",
		"/folder":                               "is like s3://",
		"file://relative":                       "absolute path",
		"file:///folder?x=y":                    "absolute path",
		"s3://":                                 "is like s3://",
		"s3://B":                                `"B" names no bucket`,
		"s3://bucket?part=1":                    `no parameter "part"`,
		"s3://bucket?endpoint=ftp://host":       "endpoint of a bucket",
		"s3://bucket?endpoint=http://host/path": "endpoint of a bucket",
		"s3://key:hidden@bucket":                "holds no credentials",
		"s3://bucket?endpoint=http://u:hidden@host": "endpoint of a bucket",
		"s3://bucket?hidden=%zz":                    "is like s3://",
	} {
		if _, err := Open(at); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), ":hidden") {
			t.Errorf("%q: %v", at, err)
		}
	}
}

// What is wrong with the set-up is said at once, without secrets, and is nothing to wait for.
func TestWrongSetUp(t *testing.T) {
	at, err := url.Parse(server(t))
	if err != nil {
		t.Fatal(err)
	}
	missing := *at
	missing.Host = "elsewhere"
	for name, c := range map[string]struct {
		at, key, secret, want string
	}{
		"no bucket":      {missing.String(), os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), "there is no bucket elsewhere"},
		"wrong secret":   {at.String(), os.Getenv("AWS_ACCESS_KEY_ID"), "not-the-secret", "credentials are refused"},
		"unknown key":    {at.String(), "nobody", "not-the-secret", "refused"},
		"no credentials": {at.String(), "", "", "set AWS_ACCESS_KEY_ID"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", t.TempDir())
			t.Setenv("AWS_ACCESS_KEY_ID", c.key)
			t.Setenv("AWS_SECRET_ACCESS_KEY", c.secret)
			b := open(t, c.at)
			_, got := b.Get(t.Context(), "ab/x")
			for _, err := range []error{b.Check(t.Context()), b.Put(t.Context(), "ab/x", []byte("data")), got} {
				switch {
				case err == nil || !strings.Contains(err.Error(), c.want):
					t.Errorf("%v", err)
				case errors.Is(err, ErrUnreachable), errors.Is(err, fs.ErrNotExist):
					t.Errorf("it is taken for something else: %v", err)
				case c.secret != "" && strings.Contains(err.Error(), c.secret):
					t.Errorf("the secret is told: %v", err)
				}
			}
		})
	}
}

// A key may be in the file that other programs read.
func TestCredentialsInAFile(t *testing.T) {
	at := server(t)
	home := t.TempDir()
	text := "[default]\naws_access_key_id = " + os.Getenv("AWS_ACCESS_KEY_ID") + "\naws_secret_access_key = " + os.Getenv("AWS_SECRET_ACCESS_KEY") + "\n"
	if err := errors.Join(os.Mkdir(filepath.Join(home, ".aws"), 0o700), os.WriteFile(filepath.Join(home, ".aws", "credentials"), []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
	if err := open(t, at).Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// Nobody listens there, or nobody answers: that may pass.
func TestUnreachable(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "k")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "not-to-be-told")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	b := open(t, "s3://bucket?endpoint=http://127.0.0.1:1")
	_, got := b.Get(ctx, "ab/x")
	for _, err := range []error{b.Check(ctx), b.Put(ctx, "ab/x", []byte("data")), got, b.Remove(ctx, "ab/x")} {
		if !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), "not-to-be-told") {
			t.Errorf("%v", err)
		}
	}
}
