package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/storetest"
)

// bench is a store in a folder of its own that can be closed and opened again.
type bench struct {
	storetest.Bench
	*Store
	dir string
}

// benchIn is a bench whose store is yet to be opened.
func benchIn(t testing.TB, dir string) *bench {
	return &bench{Bench: storetest.Bench{TB: t}, dir: dir}
}

func newBench(t testing.TB, o *Options) *bench {
	t.Helper()
	b := benchIn(t, filepath.Join(t.TempDir(), ".tipstaff"))
	b.open(o)
	t.Cleanup(func() {
		if b.Store != nil {
			b.shut()
		}
	})
	return b
}

func (b *bench) use(s *Store) {
	b.Store, b.Opened = s, storetest.Opened{Store: s.Store, DB: s.db, Close: s.Close}
}

// nobodyLives is the options of a store in which every owner counts as dead.
func nobodyLives() *Options { return &Options{Options: *storetest.NobodyLives()} }

// TestRules runs the suite that every store passes.
func TestRules(t *testing.T) {
	storetest.Rules(t, func(t testing.TB) func(*store.Options) (storetest.Opened, error) {
		dir := filepath.Join(t.TempDir(), ".tipstaff")
		return func(o *store.Options) (storetest.Opened, error) {
			opts := &Options{UserKey: true}
			if o != nil {
				opts.Options = *o
			}
			s, err := Open(dir, opts)
			if err != nil {
				return storetest.Opened{}, err
			}
			return storetest.Opened{Store: s.Store, DB: s.db, Close: s.Close}, nil
		}
	})
}

// The file of a blob is for its owner alone.
func TestBlobFiles(t *testing.T) {
	b := newBench(t, nil)
	digest, err := b.PutBlob(t.Context(), []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := journal.ParseHash(digest)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(b.db.dir.blob(h)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its file: %v %v", info, err)
	}
}

func (b *bench) open(o *Options) {
	b.Helper()
	if o == nil {
		o = &Options{}
	}
	o.UserKey = !o.ReadOnly
	s, err := Open(b.dir, o)
	if err != nil {
		b.Fatal(err)
	}
	b.use(s)
}

func (b *bench) shut() {
	b.Helper()
	if err := b.Close(); err != nil {
		b.Error(err)
	}
	b.Store = nil
}

func (b *bench) reopen(o *Options) {
	b.Helper()
	b.shut()
	b.open(o)
}

// What others could read of runs is taken from them, also where the folder was there
// before.
func TestStoreIsForItsOwnerAlone(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"an open folder": func(dir string) error { return os.Mkdir(dir, 0o755) },
		"an open store": func(dir string) error {
			s, err := Open(dir, nil)
			if err != nil {
				return err
			}
			return errors.Join(s.Close(), os.Chmod(dir, 0o755), os.Chmod(filepath.Join(dir, "tipstaff.db"), 0o644), os.Chmod(filepath.Join(dir, "blobs"), 0o777))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), ".tipstaff")
			if err := prepare(dir); err != nil {
				t.Fatal(err)
			}
			s, err := Open(dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for name, most := range map[string]os.FileMode{"": 0o700, "blobs": 0o700, "journal": 0o700, "tipstaff.db": 0o600, "tipstaff.db-wal": 0o600, "tipstaff.db-shm": 0o600} {
				info, err := os.Stat(filepath.Join(dir, name))
				if err != nil || info.Mode().Perm()&^most != 0 {
					t.Errorf("%q: %v, %v", name, info.Mode(), err)
				}
			}
		})
	}
}

// Readers see every write that was acknowledged, whoever made it, and go on while
// others read, while connections give their pages back, and until the store is closed.
func TestReadersSeeWhatWasAcknowledged(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	run := b.MustCreate()
	stores := []*bench{b, benchIn(t, b.dir), benchIn(t, b.dir)}
	stores[1].open(nil)
	stores[2].open(&Options{ReadOnly: true})
	var acknowledged atomic.Int64
	var reading sync.WaitGroup
	for _, s := range stores {
		for range 2 {
			reading.Go(func() {
				for {
					least := acknowledged.Load()
					row, err := s.Run(context.Background(), run)
					if errors.Is(err, store.ErrClosed) {
						return
					}
					if err != nil || row.Head < least {
						t.Errorf("record %d was read as the last, %d was acknowledged: %v", row.Head, least, err)
						return
					}
				}
			})
		}
	}
	l := b.MustAcquire(run)
	for n := range 100 {
		b.MustAppend(l, storetest.Step(fmt.Sprint("root/", n)))
		acknowledged.Store(int64(6 + n)) // after what began the run
		b.db.readers.shrink()
	}
	for _, s := range stores {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	reading.Wait()
	b.Store = nil
}
