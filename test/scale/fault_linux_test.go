package scale

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
)

// bed is three servers over a database with a replica, scheduled by Temporal if they are to
// be, and a proxy between each server and each of these.
type bed struct {
	*testing.T
	*load
	primary, replica *database
	engine           *engine    // nil: the servers schedule drives themselves
	proxies          [][]*proxy // of each machine: to primary, replica and engine
	dice             *rand.Rand

	failed   map[string]int // how often each thing went wrong
	left     int            // runs that are yet to be started
	started  atomic.Int64
	slots    chan struct{} // who starts one
	starting sync.WaitGroup
}

// lease is longer than a server is believed that does not renew its leases.
const lease = 30 * time.Second

// conditions are what servers work under.
type conditions struct {
	ahead  time.Duration // the clock of each server, of that of the one before
	engine bool          // Temporal schedules drives
}

// newBed starts them.
func newBed(t *testing.T, under conditions) *bed {
	t.Helper()
	var e *engine
	if under.engine {
		e = newEngine(t)
	}
	n := newNetwork(t)
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("TIPSTAFF_SCALE_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("TIPSTAFF_SCALE_SEED=%d", seed)
	b := &bed{T: t, engine: e, load: newLoad(t, n), primary: newDatabase(t, "primary"), replica: newDatabase(t, "replica"), dice: rand.New(rand.NewPCG(seed, 1)), slots: make(chan struct{}, 8), failed: map[string]int{}}
	b.primary.create()
	b.primary.start()
	b.replica.follow(b.primary)
	b.replica.start()
	for i := range 3 {
		m := newMachine(t, n, i)
		m.skew = time.Duration(i-1) * under.ahead
		b.machines = append(b.machines, m)
		ways := []*proxy{newProxy(t, n.host(), b.primary.addr), newProxy(t, n.host(), b.replica.addr)}
		m.store = fmt.Sprintf("postgres://tipstaff@%s,%s/postgres?target_session_attrs=read-write", ways[0].addr(), ways[1].addr())
		if e != nil {
			ways = append(ways, newProxy(t, n.host(), e.addr))
			m.engine = "temporal://" + ways[2].addr()
		}
		b.proxies = append(b.proxies, ways)
		b.furnish(m)
	}
	b.serve()
	return b
}

// furnish gives a machine the files of the workspace, and the keys of the first one.
func (b *bed) furnish(m *machine) {
	b.Helper()
	for _, f := range txtar.Parse([]byte(b.fit(workspace))).Files {
		name := filepath.Join(m.dir, f.Name)
		m.must(os.MkdirAll(filepath.Dir(name), 0o755))
		mode := os.FileMode(0o644)
		if filepath.Ext(name) == ".sh" {
			mode = 0o755
		}
		m.must(os.WriteFile(name, f.Data, mode))
	}
}

// serve starts the servers: the first one makes the tables and the keys.
func (b *bed) serve() {
	b.Helper()
	for i, m := range b.machines {
		if i > 0 {
			m.must(exec.Command("cp", "-a", filepath.Join(b.machines[0].dir, ".tipstaff"), m.dir).Run())
		}
		m.serve()
		m.awaitHealth(30 * time.Second)
	}
}

// fault is something that goes wrong for a while.
type fault struct {
	name string
	do   func(*bed, *machine)
}

var faults = []fault{
	{"a cable out for less than a lease", func(b *bed, m *machine) {
		m.unplug(true)
		time.Sleep(5 * time.Second)
		m.unplug(false)
	}},
	{"a cable out for longer than a lease", func(b *bed, m *machine) {
		m.unplug(true)
		time.Sleep(lease)
		m.unplug(false)
	}},
	{"a slow network", func(b *bed, m *machine) {
		b.each(m, func(p *proxy) { p.slow(300 * time.Millisecond) })
		time.Sleep(8 * time.Second)
		b.each(m, func(p *proxy) { p.slow(0) })
	}},
	{"connections that are reset", func(b *bed, m *machine) {
		for range 20 {
			b.each(m, (*proxy).reset)
			time.Sleep(time.Duration(b.dice.IntN(300)) * time.Millisecond)
		}
	}},
	{"a server killed and started again", func(b *bed, m *machine) {
		m.kill()
		time.Sleep(time.Second)
		m.serve()
	}},
	{"a server killed, and long gone", func(b *bed, m *machine) {
		m.kill()
		time.Sleep(lease)
		m.serve()
	}},
	{"a server that sleeps for longer than a lease", func(b *bed, m *machine) {
		m.signal(syscall.SIGSTOP)
		time.Sleep(lease)
		m.signal(syscall.SIGCONT)
	}},
	{"a server that is told to end", func(b *bed, m *machine) {
		m.drain()
		time.Sleep(time.Second)
		m.serve()
	}},
	{"the database killed", func(b *bed, _ *machine) {
		b.primary.kill()
		time.Sleep(2 * time.Second)
		b.primary.start()
	}},
	{"the database's disk full", func(b *bed, _ *machine) {
		free := b.primary.fill()
		time.Sleep(8 * time.Second)
		free()
		b.primary.start() // if it gave up
	}},
	{"the machine of the database gone, and its replica takes over", func(b *bed, _ *machine) {
		if b.replica == nil {
			return // it has
		}
		for _, ways := range b.proxies {
			ways[0].cut(true)
		}
		b.primary.kill()
		time.Sleep(time.Second)
		b.primary, b.replica = b.replica, nil
		b.primary.must(b.primary.query(`SELECT pg_promote()`))
		b.primary.must(b.primary.query(`ALTER SYSTEM SET synchronous_standby_names = ''`))
		b.primary.must(b.primary.query(`SELECT pg_reload_conf()`))
	}},
}

func (b *bed) each(m *machine, f func(*proxy)) {
	for _, p := range b.proxies[slices.Index(b.machines, m)] {
		f(p)
	}
}

// Three servers share runs while one thing after the other goes wrong: every run ends as it
// would have, every effect happens once, every journal is whole.
func TestServersWhileThingsFail(t *testing.T) {
	runs, rounds := 1000, 3
	if testing.Short() {
		runs, rounds = 60, 1
	}
	b := newBed(t, conditions{})
	b.under(runs, func() {
		for range rounds {
			b.fail(faults, "", runs/rounds)
		}
	})
}

// The same, of what depends on time, where the clock of each server is a minute ahead of
// that of the one before.
func TestServersWhoseClocksDiffer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two minutes")
	}
	b := newBed(t, conditions{ahead: time.Minute})
	for i, m := range b.machines {
		if got, want := m.clock(), time.Duration(i-1)*time.Minute; (got - want).Abs() > 5*time.Second {
			t.Fatalf("the clock of %s is off by %s, not %s", m.name, got, want)
		}
	}
	b.under(60, func() { b.fail(faults, "cable|killed|sleeps|reset", 60) })
}

// fail has those things go wrong in turn, each for some machine, whose names a pattern
// matches, and a share of so many runs be started with each. TIPSTAFF_SCALE_FAULTS is a
// narrower one.
func (b *bed) fail(faults []fault, pattern string, runs int) {
	only := regexp.MustCompile(os.Getenv("TIPSTAFF_SCALE_FAULTS"))
	faults = slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
		return !only.MatchString(f.name) || !regexp.MustCompile(pattern).MatchString(f.name)
	})
	for _, i := range b.dice.Perm(len(faults)) {
		f, m := faults[i], b.machines[b.dice.IntN(len(b.machines))]
		began := time.Now()
		b.burst(runs / len(faults))
		time.Sleep(time.Duration(b.dice.IntN(2000)) * time.Millisecond)
		f.do(b, m)
		b.failed[f.name]++
		b.Logf("%s: %s, for %.0f s", m.name, f.name, time.Since(began).Seconds())
		time.Sleep(3 * time.Second)
	}
}

// under gives the servers so many runs to do while something happens, and checks all of them.
func (b *bed) under(runs int, during func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go b.answer(ctx)
	for key := range len(programs) { // undisturbed, to begin with
		b.start(key)
	}
	b.finish(time.Minute)
	if b.Failed() {
		b.Fatalf("undisturbed runs do not end as they should\n%s", b.machines[0].said())
	}
	b.left = runs
	during()
	b.burst(b.left)
	b.starting.Wait()
	began := time.Now()
	b.finish(5 * time.Minute)
	b.Logf("%d runs, of which the last ended %.0f s after the last fault; gates of calls in doubt: %v", len(b.runs), time.Since(began).Seconds(), b.doubts)
	b.verify()
	for _, m := range b.machines {
		m.awaitHealth(10 * time.Second)
		for _, t := range m.trouble {
			b.Errorf("a server has ended by itself: %s\n%s", t, m.said())
		}
	}
}

// burst starts some of the runs that are left, a few at once, and does not wait for them.
func (b *bed) burst(runs int) {
	runs = min(runs, b.left)
	b.left -= runs
	for range runs {
		key := len(programs) + int(b.started.Add(1))
		b.starting.Go(func() {
			b.slots <- struct{}{}
			b.start(key)
			<-b.slots
		})
	}
}

// verify has the command check every run that there is, children too, and the database.
func (b *bed) verify() {
	b.Helper()
	ids, after := []string{}, ""
	for {
		var page struct {
			Items []struct {
				Run string `json:"run_id"`
			} `json:"items"`
			Next string `json:"next"`
		}
		if _, err := b.ask(b.machines[0], http.MethodGet, "/runs?limit=200"+after, nil, &page); err != nil {
			b.Fatal(err)
		}
		for _, r := range page.Items {
			ids = append(ids, r.Run)
		}
		if page.Next == "" {
			break
		}
		after = "&after=" + page.Next
	}
	var all sync.WaitGroup
	queue := make(chan string)
	for range 4 {
		all.Go(func() {
			for id := range queue {
				c := b.machines[0].command(b.primary.store(), "verify", id)
				if out, err := c.CombinedOutput(); err != nil {
					b.Errorf("verify %s: %v\n%s", id, err, out)
				}
			}
		})
	}
	for _, id := range ids {
		queue <- id
	}
	close(queue)
	all.Wait()
	b.Logf("%d journals verified", len(ids))
	c := b.machines[0].command(b.primary.store(), "doctor")
	if b.engine != nil {
		c.Args = append(c.Args, "--engine", "temporal://"+b.engine.addr)
	}
	if out, err := c.CombinedOutput(); err != nil {
		b.Errorf("doctor: %v\n%s", err, out)
	}
}
