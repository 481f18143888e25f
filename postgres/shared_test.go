package postgres

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipstaff/tipstaff"
	"github.com/tipstaff/tipstaff/cortex"
	"github.com/tipstaff/tipstaff/flow"
	"github.com/tipstaff/tipstaff/journal"
	"github.com/tipstaff/tipstaff/store"
	"github.com/tipstaff/tipstaff/store/files"
	"github.com/tipstaff/tipstaff/store/storetest"
)

// cluster is several open stores over one database, as several servers have them.
type cluster struct {
	*testing.T
	at     string
	folder string
	stores []*Store
}

func newCluster(t *testing.T, n int, alive func() bool) *cluster {
	c := &cluster{T: t, at: address(t), folder: t.TempDir()}
	for range n {
		s := open(t, c.at, &Options{Folder: c.folder, UserKey: true, Options: store.Options{Alive: func(flow.Owner, time.Time) bool { return alive() }}})
		t.Cleanup(func() { _ = s.Close() })
		c.stores = append(c.stores, s)
	}
	return c
}

func yes() bool { return true }

func (c *cluster) create() string {
	c.Helper()
	id := tipstaff.NewID(time.Now()).String()
	if err := c.stores[0].Create(c.Context(), flow.NewRun{ID: id, User: "local", Kind: "plan"}, storetest.Begun(c.stores[0].Keys())); err != nil {
		c.Fatal(err)
	}
	return id
}

func (c *cluster) acquire(s *Store, run string) flow.Lease {
	c.Helper()
	l, err := s.Acquire(c.Context(), run, flow.Owner{Kind: "daemon", Host: fmt.Sprint(s.Holder()), Pid: 1})
	if err != nil {
		c.Fatal(err)
	}
	return l
}

func appendTo(s *Store, l flow.Lease, path string) error {
	done := make(chan error, 1)
	s.Append(l, []flow.Draft{{Kind: "effect.finished", Path: path, Body: flow.JSON(map[string]any{"attempt": 1, "name": "x", "value": path})}}, func(err error) { done <- err })
	return <-done
}

func note(s *Store, run, path string) error {
	return s.Write(context.Background(), run, func(flow.Tx) ([]flow.Draft, error) {
		return []flow.Draft{{Kind: string(tipstaff.KindRunCancelRequested), Path: path, Body: flow.JSON(map[string]any{"by": "local", "mode": "graceful", "reason": path})}}, nil
	})
}

// sound checks numbers and chain of a run, and counts its records by path.
func (c *cluster) sound(run string) map[string]int {
	c.Helper()
	records, err := c.stores[len(c.stores)-1].Records(c.Context(), run, 0, 0)
	if err != nil {
		c.Fatal(err)
	}
	var hash journal.Hash
	paths := map[string]int{}
	for i, r := range records {
		hash = hash.Next(r.Bytes)
		if r.Seq != int64(i+1) || r.Hash != hash {
			c.Fatalf("record %d has number %d, or another hash than that of its bytes", i+1, r.Seq)
		}
		rec, err := journal.Parse(r.Bytes)
		if err != nil {
			c.Fatal(err)
		}
		paths[rec.Path]++
	}
	return paths
}

// An owner and writers elsewhere append to one run at once: each record is there once.
func TestWritersOfOneRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4, yes)
	run := c.create()
	l := c.acquire(c.stores[0], run)
	var all sync.WaitGroup
	const each = 50
	for i, s := range c.stores {
		all.Go(func() {
			for k := range each {
				path := fmt.Sprintf("s%d-%d", i, k)
				write := func() error { return note(s, run, path) }
				if i == 0 {
					write = func() error { return appendTo(s, l, path) }
				}
				if err := write(); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
		})
	}
	all.Wait()
	paths := c.sound(run)
	delete(paths, "")
	if len(paths) != 4*each {
		t.Errorf("%d of %d records are there", len(paths), 4*each)
	}
	for path, n := range paths {
		if n != 1 {
			t.Errorf("%s is there %d times", path, n)
		}
	}
}

// slowAnswers is the address of a server whose answers are held back while a lock is: the one
// that there was when the connection was made.
func slowAnswers(t *testing.T, at string, current *atomic.Pointer[sync.Mutex]) string {
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	to := u.Host
	u.Host = l.Addr().String()
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			held := current.Load()
			go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
			go func() {
				for buf := make([]byte, 1<<16); ; {
					n, err := far.Read(buf)
					held.Lock()
					_, werr := near.Write(buf[:n])
					held.Unlock()
					if err != nil || werr != nil {
						_ = near.Close()
						return
					}
				}
			}()
		}
	}()
	return u.String()
}

// An owner that learns of its commit when another has taken the run does not act on it: the
// other may have done so.
func TestALateCommitIsNoLicence(t *testing.T) {
	t.Parallel()
	var alive atomic.Bool
	alive.Store(true)
	c := newCluster(t, 1, alive.Load)
	var held sync.Mutex
	var current atomic.Pointer[sync.Mutex]
	current.Store(&held)
	slow := open(t, slowAnswers(t, c.at, &current), &Options{Folder: c.folder, UserKey: true, Options: store.Options{Alive: func(flow.Owner, time.Time) bool { return alive.Load() }}})
	t.Cleanup(func() { _ = slow.Close() })
	run := c.create()
	lease := c.acquire(slow, run)
	if err := appendTo(slow, lease, "before"); err != nil {
		t.Fatal(err)
	}
	held.Lock()
	told := make(chan error, 1)
	go func() { told <- appendTo(slow, lease, "late") }()
	for c.sound(run)["late"] == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	alive.Store(false)
	c.acquire(c.stores[0], run)
	time.Sleep(6 * time.Second) // longer than an owner is sure of itself
	held.Unlock()
	if err := <-told; !errors.Is(err, flow.ErrLeaseLost) {
		t.Errorf("the former owner is told %v", err)
	}
}

// A server that does not answer any more, and does not say so, is given up: another, or the
// same by another way, has what was committed.
func TestAServerThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, yes)
	var held sync.Mutex
	var current atomic.Pointer[sync.Mutex]
	current.Store(&held)
	s := open(t, slowAnswers(t, c.at, &current), &Options{Folder: c.folder, UserKey: true, DownLimit: 8 * time.Second, Options: store.Options{Alive: func(flow.Owner, time.Time) bool { return true }}})
	t.Cleanup(func() { _ = s.Close() })
	run := c.create()
	lease := c.acquire(s, run)
	current.Store(new(sync.Mutex)) // connections that are made from now on are answered
	held.Lock()
	defer held.Unlock()
	began := time.Now()
	if err := appendTo(s, lease, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Records(t.Context(), run, 0, 0); err != nil {
		t.Fatal(err)
	}
	if n := c.sound(run)["a"]; n != 1 || time.Since(began) > 6*time.Second {
		t.Errorf("after %s the record is there %d times", time.Since(began), n)
	}
}

// An owner that sleeps while another takes its run is fenced off when it wakes.
func TestTheFormerOwnerIsFenced(t *testing.T) {
	t.Parallel()
	var alive atomic.Bool
	alive.Store(true)
	c := newCluster(t, 2, alive.Load)
	run := c.create()
	first := c.acquire(c.stores[0], run)
	if err := appendTo(c.stores[0], first, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.stores[1].Acquire(t.Context(), run, flow.Owner{Kind: "daemon"}); !errors.Is(err, flow.ErrBusy) {
		t.Fatalf("a living owner's run is taken: %v", err)
	}
	alive.Store(false)
	second := c.acquire(c.stores[1], run)
	if err := appendTo(c.stores[1], second, "b"); err != nil {
		t.Fatal(err)
	}
	if err := appendTo(c.stores[0], first, "c"); !errors.Is(err, flow.ErrLeaseLost) {
		t.Fatalf("the former owner is told %v", err)
	}
	if _, err := c.stores[0].Park(first, flow.Parking{}); !errors.Is(err, flow.ErrLeaseLost) {
		t.Fatalf("the former owner parks: %v", err)
	}
	if paths := c.sound(run); paths["c"] != 0 || paths["b"] != 1 {
		t.Errorf("stored: %v", paths)
	}
}

// Of several owners that come at once one gets the run.
func TestOneOwner(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4, yes)
	for range 10 {
		run := c.create()
		var got atomic.Int64
		var all sync.WaitGroup
		for _, s := range c.stores {
			all.Go(func() {
				_, err := s.Acquire(context.Background(), run, flow.Owner{Kind: "daemon"})
				switch {
				case err == nil:
					got.Add(1)
				case !errors.Is(err, flow.ErrBusy):
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got.Load() != 1 {
			t.Fatalf("%d owners", got.Load())
		}
	}
}

// What is written elsewhere reaches who watches within a quarter of a second.
func TestNewsFromElsewhere(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, yes)
	run := c.create()
	c.acquire(c.stores[0], run)
	heard := make(chan flow.Record, 100)
	defer c.stores[0].Watch(run, func(r flow.Record) { heard <- r })()
	var times []time.Duration
	for i := range 20 {
		path, start := fmt.Sprint("n", i), time.Now()
		if err := note(c.stores[1], run, path); err != nil {
			t.Fatal(err)
		}
		for r := range heard {
			if r.Path == path {
				break
			}
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	median := times[len(times)/2]
	t.Logf("heard after %v, at most %v (limit 250 ms)", median, times[len(times)-1])
	if median > 250*time.Millisecond {
		t.Errorf("half of the news take longer than %v", median)
	}
}

// Whoever has the database can sign nothing: no private key is in it, in any writing.
func TestKeysStayOutOfTheDatabase(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, yes)
	c.acquire(c.stores[0], c.create())
	names, err := filepath.Glob(filepath.Join(c.folder, "*", "*.key"))
	if err != nil || len(names) != 2 {
		t.Fatalf("the keys are %v, %v", names, err)
	}
	var tables []string
	list := func(r store.Row) error { tables = append(tables, r.Text(0)); return nil }
	if err := c.stores[0].db.Query(t.Context(), list, `SELECT table_name::text FROM information_schema.tables WHERE table_schema = current_schema()`); err != nil || len(tables) < 10 {
		t.Fatalf("the tables are %v, %v", tables, err)
	}
	var all strings.Builder
	for _, table := range tables {
		add := func(r store.Row) error { all.WriteString(r.Text(0)); return nil }
		if err := c.stores[0].db.Query(t.Context(), add, `SELECT coalesce(string_agg(t::text, ' '), '') FROM `+quoted(table)+` t`); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(seed []byte) bool {
		text := hex.EncodeToString(seed)
		return strings.Contains(all.String(), text) || strings.Contains(all.String(), hex.EncodeToString([]byte(text))) ||
			strings.Contains(all.String(), base64.RawStdEncoding.EncodeToString(seed))
	}
	for _, name := range names {
		key, err := files.ReadPrivate(name)
		if err != nil {
			t.Fatal(err)
		}
		if holds(key.Seed()) {
			t.Errorf("the database has %s", filepath.Base(name))
		}
		public, err := hex.DecodeString(key.Public().String())
		if err != nil || !holds(public) { // which stands in the records: the search finds what is there
			t.Errorf("the public part of %s is not found, %v", filepath.Base(name), err)
		}
	}
}

// The memory's log is one for all: no number is missing or there twice, and the chain holds.
func TestMemoryIsOneLog(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, yes)
	var all sync.WaitGroup
	for i, s := range c.stores {
		all.Go(func() {
			for k := range 20 {
				if _, err := s.Remember(context.Background(), "fact", cortex.Remember{By: journal.User, Importance: 5, Text: fmt.Sprint(i, k)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	records, err := c.stores[0].MemoryLog(t.Context(), 0, 1000)
	if err != nil || len(records) != 60 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	var hash journal.Hash
	for i, r := range records {
		if hash = hash.Next(r.Bytes); r.Seq != int64(i+1) || r.Hash != hash {
			t.Fatalf("record %d of the memory does not follow", i+1)
		}
	}
}

// Of requests with one key, of turns of one session and of tasks with the next number, one
// is made.
func TestWhatIsMadeOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4, yes)
	var made, turns atomic.Int64
	var ids sync.Map
	var all sync.WaitGroup
	for _, s := range c.stores {
		all.Go(func() {
			create := func(n flow.NewRun) error {
				n.ID, n.User, n.Kind = tipstaff.NewID(time.Now()).String(), "local", "plan"
				return s.Create(context.Background(), n, storetest.Begun(s.Keys()))
			}
			if err := create(flow.NewRun{Key: "k", KeyDigest: "d"}); err == nil {
				made.Add(1)
			} else if known := new(flow.KnownKey); !errors.As(err, &known) {
				t.Error(err)
			}
			if err := create(flow.NewRun{Session: "s"}); err == nil {
				turns.Add(1)
			} else if !errors.Is(err, flow.ErrSessionBusy) {
				t.Error(err)
			}
			for range 5 {
				task, err := s.NewTask(context.Background(), tipstaff.Task{Name: "n", Description: "d", Role: "implementer", Review: "person", MaxIterations: 5, User: "local"})
				if _, twice := ids.LoadOrStore(task.ID, true); err != nil || twice {
					t.Errorf("task %s: %v, twice: %v", task.ID, err, twice)
				}
			}
		})
	}
	all.Wait()
	if made.Load() != 1 || turns.Load() != 1 {
		t.Errorf("%d runs of one key, %d turns", made.Load(), turns.Load())
	}
}

// Connections are lost at any moment, also while a transaction commits: every append that
// was acknowledged is there, once, and so is none that was not.
func TestLostConnections(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, yes)
	run := c.create()
	l := c.acquire(c.stores[0], run)
	killer, err := connect(t.Context(), config(t, c.at))
	if err != nil {
		t.Fatal(err)
	}
	defer killer.close()
	stop, ended := make(chan struct{}), make(chan int)
	go func() {
		killed := 0
		for {
			select {
			case <-stop:
				ended <- killed
				return
			case <-time.After(time.Duration(20+killed%37) * time.Millisecond):
			}
			n, err := store.Number(context.Background(), killer, `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
				WHERE pid <> pg_backend_pid() AND application_name = ?`, "tipstaff "+c.stores[0].Holder())
			if err != nil {
				t.Error(err)
			}
			killed += int(n)
		}
	}()
	const steps = 100
	for i := range steps {
		if err := appendTo(c.stores[0], l, fmt.Sprint("p", i)); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
	close(stop)
	t.Logf("%d connections ended in %d steps", <-ended, steps)
	paths := c.sound(run)
	for i := range steps {
		if n := paths[fmt.Sprint("p", i)]; n != 1 {
			t.Errorf("step %d is there %d times", i, n)
		}
	}
}

// A database that has no connection left for this user says so, and what to do.
func TestADatabaseWithoutAConnectionLeft(t *testing.T) {
	t.Parallel()
	at, err := url.Parse(address(t))
	if err != nil {
		t.Fatal(err)
	}
	admin, err := connect(t.Context(), config(t, server(t)))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.close()
	role := "full" + strings.ReplaceAll(at.Query().Get("search_path"), "t", "_")
	if err := admin.script(`CREATE ROLE ` + quoted(role) + ` LOGIN CONNECTION LIMIT 0`); err != nil {
		t.Fatal(err)
	}
	defer admin.script(`DROP ROLE ` + quoted(role))
	at.User = url.User(role)
	_, err = Open(t.Context(), at.String(), &Options{Folder: t.TempDir()})
	if !errors.Is(err, flow.ErrStoreDown) || !strings.Contains(err.Error(), "raise its max_connections") {
		t.Errorf("it says %v", err)
	}
}
