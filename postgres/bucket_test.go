package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store/bucket"
)

// s3 is a server of this test's own, which it may kill.
type s3 struct {
	*testing.T
	program, dir, port string
	running            *exec.Cmd
}

func newS3(t *testing.T) *s3 {
	t.Helper()
	program := os.Getenv("TIPSTAFF_S3_SERVER")
	if program == "" {
		t.Skip("TIPSTAFF_S3_SERVER names no program: make test-scale does")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &s3{T: t, program: program, dir: t.TempDir(), port: l.Addr().String()}
	if err := errors.Join(l.Close(), os.MkdirAll(filepath.Join(s.dir, "root", "bucket"), 0o700), os.Mkdir(filepath.Join(s.dir, "meta"), 0o700)); err != nil {
		t.Fatal(err)
	}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// start returns when the server listens.
func (s *s3) start() {
	s.running = exec.Command(s.program, "--port", s.port, "--quiet", "posix", "--sidecar", filepath.Join(s.dir, "meta"), filepath.Join(s.dir, "root"))
	s.running.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+os.Getenv("AWS_ACCESS_KEY_ID"), "ROOT_SECRET_KEY="+os.Getenv("AWS_SECRET_ACCESS_KEY"))
	if err := s.running.Start(); err != nil {
		s.Error(err)
		return
	}
	for range 200 {
		if c, err := net.Dial("tcp", s.port); err == nil {
			_ = c.Close()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.Error("the server does not listen")
}

func (s *s3) kill() {
	_ = s.running.Process.Kill()
	_ = s.running.Wait()
}

func (s *s3) bucket() bucket.Bucket {
	return at(s.T, "s3://bucket/some/prefix?endpoint=http://"+s.port)
}

// The store over a real server: put, read, changed, missing, collected.
func TestBlobsInS3(t *testing.T) {
	t.Parallel()
	b := newS3(t).bucket()
	x := newBed(t, b, 2)
	largest := bytes.Repeat([]byte("0123456789abcdef"), journal.MaxPayload/16)
	start := time.Now()
	digest := x.put(x.stores[0], largest)
	put := time.Since(start)
	x.holds(x.stores[1], digest, largest)
	t.Logf("16 MiB are put in %v and read in %v", put, time.Since(start)-put)
	name := x.object()
	if err := b.Put(t.Context(), name, largest[1:]); err != nil {
		t.Fatal(err)
	}
	if _, err := x.stores[1].Blob(t.Context(), digest); !errors.Is(err, flow.ErrIntegrity) || !strings.Contains(told(err), name) {
		t.Errorf("changed: %v", err)
	}
	if err := b.Remove(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if _, err := x.stores[1].Blob(t.Context(), digest); !errors.Is(err, flow.ErrNoBlob) || !strings.Contains(told(err), b.String()) {
		t.Errorf("missing: %v", err)
	}
	x.put(x.stores[1], largest)
	x.holds(x.stores[0], digest, largest)
	x.hours(2)
	x.collect(1)
	if left := x.names(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// The server is killed and started again while several put: what was acknowledged is there,
// and who put while it was away has waited.
func TestS3IsKilled(t *testing.T) {
	t.Parallel()
	server := newS3(t)
	x := newBed(t, server.bucket(), 2)
	stop, ended := make(chan struct{}), make(chan int)
	go func() {
		kills := 0
		for {
			select {
			case <-stop:
				ended <- kills
				return
			case <-time.After(time.Duration(50+70*kills%400) * time.Millisecond):
				server.kill()
				kills++
				server.start()
			}
		}
	}()
	payloads := map[string][]byte{}
	for i := range 12 {
		data := bytes.Repeat(fmt.Appendf(nil, "%04d", i), (4<<20)/4)
		payloads[x.put(x.stores[i%2], data)] = data
	}
	close(stop)
	t.Logf("%d kills while %d payloads were put", <-ended, len(payloads))
	for digest, data := range payloads {
		x.holds(x.stores[0], digest, data)
	}
	x.hours(2)
	if _, err := x.stores[0].Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(server.dir, "root", "bucket", "some", "prefix", "*", "*"))
	if err != nil || len(found) != 0 || len(x.names()) != 0 {
		t.Errorf("left: %v %v %v", found, x.names(), err)
	}
}

// held is a bucket that keeps whoever puts waiting.
type held struct {
	bucket.Bucket
	asked   atomic.Bool
	release chan struct{}
}

func (h *held) Put(ctx context.Context, name string, data []byte) error {
	h.asked.Store(true)
	<-h.release
	return h.Bucket.Put(ctx, name, data)
}

// While a payload is on its way, other runs of the same process take their steps.
func TestASlowBucketHoldsUpNobody(t *testing.T) {
	t.Parallel()
	b, _ := folder(t)
	h := &held{Bucket: b, release: make(chan struct{})}
	x := newBed(t, h, 1)
	s, run := x.stores[0], x.create()
	l := x.acquire(s, run)
	put := make(chan error, 1)
	go func() {
		_, err := s.PutBlob(context.Background(), large("slow"))
		put <- err
	}()
	for !h.asked.Load() {
		time.Sleep(time.Millisecond)
	}
	for i := range 20 {
		if err := appendTo(s, l, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	close(h.release)
	if err := <-put; err != nil {
		t.Error(err)
	}
}
