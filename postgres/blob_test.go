package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/bucket"
	"github.com/tipstaff/tipstaff/store/storetest"
)

// bed is several stores over one database and one bucket, with a clock that tests move.
type bed struct {
	*cluster
	bucket bucket.Bucket
	past   atomic.Int64 // by how much the clock is ahead
}

func newBed(t *testing.T, b bucket.Bucket, n int) *bed {
	x := &bed{cluster: &cluster{T: t, at: address(t)}, bucket: b}
	folder := t.TempDir()
	for range n {
		o := &Options{Folder: folder, UserKey: true, Bucket: b}
		o.Now = func() time.Time { return time.Now().Add(time.Duration(x.past.Load())) }
		s := open(t, x.at, o)
		t.Cleanup(func() { _ = s.Close() })
		x.stores = append(x.stores, s)
	}
	return x
}

// hours pass.
func (x *bed) hours(n int) { x.past.Add(int64(time.Duration(n) * time.Hour)) }

func (x *bed) put(s *Store, data []byte) string {
	x.Helper()
	digest, err := s.PutBlob(x.Context(), data)
	if err != nil {
		x.Fatal(err)
	}
	return digest
}

func (x *bed) holds(s *Store, digest string, data []byte) {
	x.Helper()
	if got, err := s.Blob(x.Context(), digest); err != nil || !bytes.Equal(got, data) {
		x.Fatalf("%d bytes were put, %d read: %v", len(data), len(got), err)
	}
}

func (x *bed) collect(want int) {
	x.Helper()
	if n, err := x.stores[0].Collect(x.Context()); err != nil || n != want {
		x.Fatalf("%d blobs went, want %d: %v", n, want, err)
	}
}

// names are the objects that the database knows of, by their states.
func (x *bed) names() map[string][]string {
	x.Helper()
	names := map[string][]string{}
	err := x.stores[0].db.Query(x.Context(), func(r store.Row) error {
		names[r.Text(0)] = append(names[r.Text(0)], r.Text(1))
		return nil
	}, `SELECT state, name FROM blob_objects ORDER BY name`)
	if err != nil {
		x.Fatal(err)
	}
	return names
}

func (x *bed) object() string {
	x.Helper()
	names := x.names()["there"]
	if len(names) != 1 {
		x.Fatalf("objects: %v", x.names())
	}
	return names[0]
}

// told is what a person is told of an error.
func told(err error) string {
	e := &tipstaff.Error{}
	errors.As(err, &e)
	return e.Message + "; " + e.Advice()
}

func folder(t *testing.T) (bucket.Bucket, string) {
	t.Helper()
	dir := t.TempDir()
	return at(t, "file://"+dir), dir
}

func at(t *testing.T, address string) bucket.Bucket {
	t.Helper()
	b, err := bucket.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// large is a payload that goes to a bucket.
func large(seed string) []byte { return append([]byte(seed), make([]byte, bucketOver)...) }

func filesIn(t *testing.T, dir string) int {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// Small payloads are in the database, large ones in the bucket, once; stores that use
// another bucket or none read what is in the database, and say where the rest is.
func TestBlobsElsewhere(t *testing.T) {
	t.Parallel()
	b, dir := folder(t)
	x := newBed(t, b, 2)
	small, long := bytes.Repeat([]byte("s"), bucketOver), large("l")
	digests := []string{x.put(x.stores[0], small), x.put(x.stores[0], long)}
	x.put(x.stores[1], long)
	if n := filesIn(t, dir); n != 1 {
		t.Errorf("%d objects", n)
	}
	for _, s := range x.stores {
		x.holds(s, digests[0], small)
		x.holds(s, digests[1], long)
	}
	another := at(t, "file://"+t.TempDir())
	for _, other := range []bucket.Bucket{nil, another} {
		s := open(t, x.at, &Options{Folder: t.TempDir(), Bucket: other})
		t.Cleanup(func() { _ = s.Close() })
		x.holds(s, digests[0], small)
		_, err := s.Blob(t.Context(), digests[1])
		if err == nil || !strings.Contains(err.Error(), b.String()) || !strings.Contains(told(err), "--blobs") || errors.Is(err, flow.ErrNoBlob) != (other != nil) {
			t.Errorf("with %v: %v", other, err)
		}
		own := large(fmt.Sprint(other))
		x.holds(s, x.put(s, own), own)
		if other != nil { // a second place is no harm to the first
			x.put(s, long)
			x.holds(s, digests[1], long)
		}
	}
	x.holds(x.stores[0], digests[1], long)
}

// What is read is what was put, or an error that names the object; putting it again heals.
func TestObjectsThatChanged(t *testing.T) {
	t.Parallel()
	b, _ := folder(t)
	x := newBed(t, b, 1)
	data := large("d")
	digest := x.put(x.stores[0], data)
	name := x.object()
	flipped := bytes.Clone(data)
	flipped[0]++
	for what, change := range map[string][]byte{"changed": flipped, "cut": data[:len(data)-1], "emptied": {}, "lengthened": append(bytes.Clone(data), 0)} {
		if err := b.Put(t.Context(), name, change); err != nil {
			t.Fatal(err)
		}
		_, err := x.stores[0].Blob(t.Context(), digest)
		if !errors.Is(err, flow.ErrIntegrity) || !errors.Is(err, journal.ErrBlobMismatch) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), b.String()) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := b.Remove(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if _, err := x.stores[0].Blob(t.Context(), digest); !errors.Is(err, flow.ErrNoBlob) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), b.String()) {
		t.Errorf("missing: %v", err)
	}
	x.put(x.stores[0], data)
	x.holds(x.stores[0], digest, data)
}

// What nobody needs goes, with its object; what a run keeps stays.
func TestCollectObjects(t *testing.T) {
	t.Parallel()
	b, dir := folder(t)
	x := newBed(t, b, 1)
	s := x.stores[0]
	kept, gone := large("kept"), large("gone")
	keptDigest, goneDigest := x.put(s, kept), x.put(s, gone)
	run := flow.NewRun{ID: "01JCQ8R4T5V6W7X8Y9Z0A1B2C3", User: "local", Kind: "plan", Blobs: []string{keptDigest}}
	if err := s.Create(t.Context(), run, storetest.Begun(s.Keys())); err != nil {
		t.Fatal(err)
	}
	x.collect(0)
	x.hours(2)
	x.collect(1)
	x.holds(s, keptDigest, kept)
	if _, err := s.Blob(t.Context(), goneDigest); !errors.Is(err, flow.ErrNoBlob) {
		t.Errorf("it is still there: %v", err)
	}
	if n := filesIn(t, dir); n != 1 || len(x.names()) != 1 {
		t.Errorf("%d files, objects %v", n, x.names())
	}
	if again := x.put(s, gone); again != goneDigest {
		t.Error("it has another digest")
	}
	x.holds(s, goneDigest, gone)
}

// Somebody died before it entered a blob: its objects go after an hour, whether they were
// finished or not, and those that are being put do not.
func TestCollectWhatWasLeft(t *testing.T) {
	t.Parallel()
	b, dir := folder(t)
	x := newBed(t, b, 1)
	s, data := x.stores[0], large("left")
	if err := s.db.PutBlob(nil, journal.Sum(data), data); err != nil { // and is not heard of again
		t.Fatal(err)
	}
	unfinished := &failing{Bucket: b, after: true}
	s.db.opts.Bucket = unfinished
	if err := s.db.PutBlob(nil, journal.Sum(large("u")), large("u")); err == nil {
		t.Fatal("it was put")
	}
	s.db.opts.Bucket = b
	x.collect(0)
	if n := filesIn(t, dir); n != 2 || len(x.names()["there"]) != 1 || len(x.names()["putting"]) != 1 {
		t.Fatalf("%d files, objects %v", n, x.names())
	}
	x.hours(2)
	x.collect(0)
	if n := filesIn(t, dir); n != 0 || len(x.names()) != 0 {
		t.Errorf("%d files, objects %v", n, x.names())
	}
}

// failing is a bucket that refuses what it is asked for.
type failing struct {
	bucket.Bucket
	after bool // it is done all the same
}

func (f *failing) Put(ctx context.Context, name string, data []byte) error {
	if f.after {
		_ = f.Bucket.Put(ctx, name, data)
	}
	return errors.New("refused")
}

func (f *failing) Remove(context.Context, string) error { return errors.New("refused") }

// A removal that is rolled back has removed nothing.
func TestRemovalIsRolledBack(t *testing.T) {
	t.Parallel()
	b, dir := folder(t)
	x := newBed(t, b, 1)
	s := x.stores[0]
	for _, data := range [][]byte{large("r"), []byte("in the database")} {
		digest := x.put(s, data)
		if err := s.db.use(t.Context(), func(c *conn) error {
			return errors.Join(c.now(`BEGIN`), s.db.RemoveBlob(c, journal.Sum(data)), c.now(`ROLLBACK`))
		}); err != nil {
			t.Fatal(err)
		}
		x.holds(s, digest, data)
	}
	x.collect(0)
	if n := filesIn(t, dir); n != 1 {
		t.Errorf("%d files", n)
	}
}

// An object whose removal failed, or whose remover died, is removed by the next collection.
func TestRemovalGoesOn(t *testing.T) {
	t.Parallel()
	b, dir := folder(t)
	x := newBed(t, b, 1)
	x.put(x.stores[0], large("r"))
	x.hours(2)
	x.stores[0].db.opts.Bucket = &failing{Bucket: b}
	if n, err := x.stores[0].Collect(t.Context()); n != 1 || !errors.Is(err, flow.ErrStoreDown) {
		t.Fatalf("%d went, %v", n, err)
	}
	if n := filesIn(t, dir); n != 1 {
		t.Fatalf("%d files", n)
	}
	x.stores[0].db.opts.Bucket = b
	x.collect(0)
	if n := filesIn(t, dir); n != 0 || len(x.names()) != 0 {
		t.Errorf("%d files, objects %v", n, x.names())
	}
}

// One server collects what others store again at the same moment: nothing that was stored is
// lost, and no object is left.
func TestCollectWhileOthersPut(t *testing.T) {
	t.Parallel()
	b, dir := folder(t)
	x := newBed(t, b, 3)
	collected := 0
	for i := range 15 {
		data, small := large(fmt.Sprint(i)), fmt.Appendf(nil, "small %d", i)
		digest := x.put(x.stores[1], data)
		x.put(x.stores[1], small)
		x.hours(2)
		var all sync.WaitGroup
		all.Go(func() {
			time.Sleep(time.Duration(i%5) * time.Millisecond)
			n, err := x.stores[0].Collect(context.Background())
			if err != nil {
				t.Error(err)
			}
			collected += n
		})
		for _, s := range x.stores[1:] {
			all.Go(func() {
				for _, data := range [][]byte{data, small} {
					if _, err := s.PutBlob(context.Background(), data); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		for _, s := range x.stores {
			x.holds(s, digest, data)
			x.holds(s, journal.Sum(small).String(), small)
		}
		x.collect(0)
		x.holds(x.stores[0], digest, data)
	}
	x.hours(2)
	if _, err := x.stores[0].Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := filesIn(t, dir); n != 0 || len(x.names()) != 0 {
		t.Errorf("%d files, objects %v", n, x.names())
	}
	t.Logf("%d blobs were collected while others stored them", collected)
}

// What was collected between putting and entering is kept in the database then.
func TestCollectedBeforeItIsEntered(t *testing.T) {
	t.Parallel()
	b, _ := folder(t)
	x := newBed(t, b, 2)
	data := large("c")
	x.put(x.stores[0], data)
	x.hours(2)
	db, h := x.stores[1].db, journal.Sum(data)
	if err := db.PutBlob(nil, h, data); err != nil { // it is there
		t.Fatal(err)
	}
	x.collect(1)
	if err := db.use(t.Context(), func(c *conn) error {
		return errors.Join(c.now(`BEGIN`), db.PutBlob(c, h, data), c.now(`COMMIT`))
	}); err != nil {
		t.Fatal(err)
	}
	x.holds(x.stores[0], h.String(), data)
}

// A bucket that does not answer is waited for; then the step fails, and has stored nothing.
func TestBucketIsAway(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "mount")
	x := newBed(t, at(t, "file://"+dir), 1)
	s := x.stores[0]
	s.db.opts.DownLimit = 2 * time.Second
	run := x.create()
	l := x.acquire(s, run)
	step := func() error {
		done := make(chan error, 1)
		s.Append(l, []flow.Draft{{Kind: "effect.finished", Path: "a", Body: flow.JSON(map[string]any{"value": string(bytes.Repeat([]byte("v"), bucketOver+1))})}}, func(err error) { done <- err })
		return <-done
	}
	start := time.Now()
	err := step()
	if took := time.Since(start); !errors.Is(err, flow.ErrStoreDown) || !strings.Contains(err.Error(), dir) || took < time.Second || took > 10*time.Second {
		t.Fatalf("after %v: %v", took, err)
	}
	if n := x.sound(run)["a"]; n != 0 {
		t.Fatal("a record was stored without its payload")
	}
	back := time.AfterFunc(500*time.Millisecond, func() { _ = os.Mkdir(dir, 0o700) })
	defer back.Stop()
	if err := step(); err != nil {
		t.Fatal(err)
	}
	if n := x.sound(run)["a"]; n != 1 || filesIn(t, dir) != 1 {
		t.Errorf("%d records, %d files", n, filesIn(t, dir))
	}
}
